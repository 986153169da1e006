"""Bars, features, scalers and synthetic markets: everything between a file and the environment."""
