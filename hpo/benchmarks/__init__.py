"""Measurements of the search's own work: what no trial, no GPU and no Ray has a part in."""
