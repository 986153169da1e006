"""Guards against looking ahead: one file a guard, listed in ``guards``; they run before every training."""
