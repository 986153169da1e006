"""The search: command line, Optuna study, Ray Tune trials. The only part that knows Ray and Optuna."""

__version__ = "0.1.0"
