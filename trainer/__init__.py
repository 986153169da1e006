"""The trainer: data, environment, agent and walk-forward evaluation. Knows neither Ray nor Optuna."""
