"""The search: command line, Optuna study, Ray Tune trials. The only part that knows Ray and Optuna."""
