"""Measurements behind the figures of docs/benchmarks.md; ``foxtune bench`` runs them, one file a subject."""
