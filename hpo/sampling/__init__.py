"""Which parameters a trial gets: search spaces, their legality, Optuna's samplers."""
