"""Where studies are kept: SQLite, PostgreSQL, journal files, and what can go wrong with them."""
