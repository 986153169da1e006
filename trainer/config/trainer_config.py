"""TrainerConfig: everything that decides a training's numbers, and the rules between keys."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ValidationError, model_validator

from trainer.config.complaints import first_complaint, nearest_name
from trainer.config.sections import (
    AgentConfig,
    DataConfig,
    EnvironmentConfig,
    GoalConfig,
    HindsightConfig,
    MetricsConfig,
    ReplayConfig,
    Section,
    TrainingConfig,
    WalkForwardConfig,
)
from trainer.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)

LARGEST_VALUE = 1e12  # of a support's ends: its square and sums of it stay far inside float32
SMALLEST_SPACING = 1e-12  # of atoms
RELATIVE_SPACING = 1e-5  # of atoms over the support's larger end: some 80 steps of float32
MOST_ACTIONS = 256  # actions are stored as one byte
# Keys that one rule of `TrainerConfig` compares with each other, or with what their section does not know.
COUPLED_KEYS = (
    ("agent.v_min", "agent.v_max", "agent.num_atoms"),
    ("environment.episodes", "environment.episode_length", "replay.capacity"),
    ("environment.actions_per_branch",),
    ("training.backend", "training.dtype", "training.device"),
)


class TrainerConfig(Section):
    """The effective configuration of one training (all folds x seeds of it)."""

    data: DataConfig = DataConfig()
    walk_forward: WalkForwardConfig = WalkForwardConfig()
    metrics: MetricsConfig = MetricsConfig()
    environment: EnvironmentConfig = EnvironmentConfig()
    goal: GoalConfig = GoalConfig()
    replay: ReplayConfig = ReplayConfig()
    hindsight: HindsightConfig = HindsightConfig()
    agent: AgentConfig = AgentConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _rules_between_keys(self) -> Self:
        agent, environment, replay = self.agent, self.environment, self.replay
        if not agent.v_min < agent.v_max:
            raise ConfigError(
                "agent.v_min",
                f"`v_min < v_max` must hold, but got ({agent.v_min=}, {agent.v_max=}); "
                "lower v_min or raise v_max",
            )
        _check_atoms(agent)
        if self.training.backend == "fused":
            _check_fused(self.training)
        collected = environment.episodes * environment.episode_length
        if collected > replay.capacity:
            raise ConfigError(
                "replay.capacity",
                "`episodes * episode_length <= capacity` must hold, but got "
                f"{environment.episodes} * {environment.episode_length} = {collected} > {replay.capacity}; "
                "raise replay.capacity or lower environment.episodes",
            )
        if not environment.actions_per_branch:
            raise ConfigError("environment.actions_per_branch", "at least one branch is needed, but got ()")
        if max(environment.actions_per_branch) > MOST_ACTIONS:
            raise ConfigError(
                "environment.actions_per_branch",
                f"a branch may have at most {MOST_ACTIONS} actions, but got "
                f"{environment.actions_per_branch}; lower its largest value",
            )
        return self

    @classmethod
    def build(cls, values: Mapping[str, Any] | None = None) -> Self:
        """Validates nested ``values``.

        Args:
            values: Section name -> key -> value, as read from TOML.

        Raises:
            ConfigError: Naming the first offending key, its rule and its value.
        """
        return validated(cls, values or {})

    def with_overrides(self, overrides: Mapping[str, Any]) -> TrainerConfig:
        """Returns a copy with keys replaced; a key is ``section.name`` or the short ``name``.

        Raises:
            ConfigError: For an unknown key, naming the nearest known one, or an illegal value.
        """
        values = self.model_dump()
        for name, value in overrides.items():
            section, key = locate(name)
            values[section][key] = value
        return TrainerConfig.build(values)

    def get(self, name: str) -> Any:
        """Returns the value of ``section.name`` or of the short ``name``."""
        section, key = locate(name)
        return getattr(getattr(self, section), key)


def _check_atoms(agent: AgentConfig) -> None:
    """Refuses a support on which float32 gives neighbouring atoms one place, or values without a square."""
    spacing = (agent.v_max - agent.v_min) / (agent.num_atoms - 1)
    largest = max(abs(agent.v_min), abs(agent.v_max))
    if largest > LARGEST_VALUE or spacing < max(SMALLEST_SPACING, RELATIVE_SPACING * largest):
        raise ConfigError(
            "agent.v_min",
            "the atoms of the support must be told apart in float32: `(v_max - v_min) / (num_atoms - 1) >= "
            f"{RELATIVE_SPACING:g} max(|v_min|, |v_max|)` must hold, and no end be beyond {LARGEST_VALUE:g}, "
            f"but got ({agent.v_min=}, {agent.v_max=}, {agent.num_atoms=}); lower agent.num_atoms or "
            "move agent.v_min and agent.v_max",
        )


def _check_fused(training: TrainingConfig) -> None:
    if training.dtype != "float32":
        raise ConfigError(
            "training.dtype",
            f"backend fused computes in float32, but got {training.dtype!r}; "
            "set training.dtype = 'float32' or use --backend reference",
        )
    if training.device == "cpu":
        raise ConfigError(
            "training.device",
            "backend fused needs a CUDA device, but got 'cpu'; "
            "set training.device = 'auto' or use --backend reference",
        )


def validated(model: type[Model], values: Mapping[str, Any]) -> Model:
    """Builds a pydantic model and turns its first complaint into one ConfigError."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        raise first_complaint(model, error) from None


def known_names() -> dict[str, tuple[str, str]]:
    """Returns short name -> (section, key) for every key of TrainerConfig."""
    names: dict[str, tuple[str, str]] = {}
    for section, field in TrainerConfig.model_fields.items():
        for key in field.default.__class__.model_fields:
            names[key] = (section, key)
    return names


def locate(name: str) -> tuple[str, str]:
    """Resolves ``section.key`` or a short key to (section, key).

    Raises:
        ConfigError: For an unknown name, with the nearest known one.
    """
    names = known_names()
    section, _, key = name.rpartition(".")
    if key in names and section in ("", names[key][0]):
        return names[key]
    nearest = names[nearest_name(key, list(names))]
    raise ConfigError(name, f"unknown key; the nearest known one is {'.'.join(nearest)}")
