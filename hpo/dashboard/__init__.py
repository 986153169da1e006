"""What Optuna Dashboard shows beside Optuna's own pages: notes, artifacts and saved figures.

The search's driver writes all of it, like everything else in a study.
"""
