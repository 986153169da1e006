"""Search spaces, one a file: a module-level ``SPACE`` with its bounds and their reasons."""
