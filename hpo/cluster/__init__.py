"""The Ray cluster of a search: found, joined or started, watched, and what is sent to it."""
