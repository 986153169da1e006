"""One trial in a process of Ray's."""
