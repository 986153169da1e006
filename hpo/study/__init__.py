"""What a study and its folder hold, and how one is created, opened, shared, forked and withdrawn."""
