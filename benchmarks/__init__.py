"""Measurements behind the figures of docs/benchmarks.md; ``make bench`` runs them."""
