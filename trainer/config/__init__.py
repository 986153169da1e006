"""Typed, frozen configuration of a training, and the vocabulary of search spaces."""

from trainer.config.parameters import Choice, Float, Int, Parameter, SearchSpace, When
from trainer.config.sections import (
    AgentConfig,
    DataConfig,
    EnvironmentConfig,
    GoalConfig,
    HindsightConfig,
    MetricsConfig,
    ReplayConfig,
    TrainingConfig,
    WalkForwardConfig,
)
from trainer.config.trainer_config import COUPLED_KEYS, TrainerConfig, known_names, locate, validated

__all__ = [
    "COUPLED_KEYS",
    "AgentConfig",
    "Choice",
    "DataConfig",
    "EnvironmentConfig",
    "Float",
    "GoalConfig",
    "HindsightConfig",
    "Int",
    "MetricsConfig",
    "Parameter",
    "ReplayConfig",
    "SearchSpace",
    "TrainerConfig",
    "TrainingConfig",
    "WalkForwardConfig",
    "When",
    "known_names",
    "locate",
    "validated",
]
