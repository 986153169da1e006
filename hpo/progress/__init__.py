"""What is told about a search while it runs, and how fast it ran."""
