"""The trainer: data, environment, agent and walk-forward evaluation. Knows neither Ray nor Optuna."""

import os

# MKL otherwise chooses an algorithm by the address of an operand (on AMD processors at least), so that the
# numbers of a member would depend on its place in the stack. MKL reads this at its first product.
os.environ.setdefault("MKL_CBWR", "AUTO")
