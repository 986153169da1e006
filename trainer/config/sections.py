"""The sections of a trainer configuration. Every field is documented next to its default.

Bounds stand in the annotations, so that a value outside them is refused with its key before any work.
Leaf names are unique over all sections: a search space or a flag may use the short name alone.
"""

from __future__ import annotations

import struct
from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator
from pydantic_core import PydanticCustomError

from trainer.config.complaints import bounds_of

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Count = Annotated[int, Field(ge=1)]
OpenUnit = Annotated[float, Field(gt=0, lt=1)]
ClosedUnit = Annotated[float, Field(ge=0, le=1)]

INTEGER_LIMIT = 2**31  # counts go into int32 arrays and C functions
SMALLEST_NORMAL = 2.0**-126  # of float32; a GPU counts what is smaller as 0
HIGHEST_GOAL = 10.0  # achieved goals are clipped there
MOST_SEEDS = 1000  # members are listed one by one before any of them is built


def _split_sizes(value: Any) -> Any:
    """Reads ``"256x256"`` as (256, 256): a word that a flag can give and a search can choose."""
    return tuple(value.split("x")) if isinstance(value, str) else value


Sizes = Annotated[tuple[Count, ...], BeforeValidator(_split_sizes)]


class Section(BaseModel):
    """A frozen group of keys; unknown keys are refused."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False, validate_default=True)

    @field_validator("*", mode="before")
    @classmethod
    def _no_truth_value_for_a_number(cls, value: Any, info: ValidationInfo) -> Any:
        # Python counts True as 1, so that `epochs = true` would train one epoch.
        entries = value if isinstance(value, list | tuple) else [value]
        truth = any(isinstance(entry, bool) for entry in entries)
        if truth and cls.model_fields[str(info.field_name)].annotation is not bool:
            raise PydanticCustomError("truth_value", "be another value than true or false")
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _no_integer_beyond_the_machine(cls, value: Any) -> Any:
        if isinstance(value, int) and abs(value) >= INTEGER_LIMIT:
            raise PydanticCustomError("integer_limit", "lie below 2147483648")
        return value

    @field_validator("*", mode="after")
    @classmethod
    def _no_number_beyond_float32(cls, value: Any, info: ValidationInfo) -> Any:
        # Trainings compute in float32, where 0.99999999 is 1 and 1e-300 is 0.
        if not isinstance(value, float):
            return value
        try:
            (rounded,) = struct.unpack("<f", struct.pack("<f", value))
        except OverflowError:
            raise PydanticCustomError("float32_limit", "lie below 3.4e38 in size") from None
        rounded = 0.0 if abs(rounded) < SMALLEST_NORMAL else rounded
        bounds = bounds_of(cls, [str(info.field_name)])
        if bounds is not None and not bounds.hold(rounded):
            rule = "lie in its range as float32 too (it is {rounded} there)"
            raise PydanticCustomError("float32_range", rule, {"rounded": rounded})
        return value


class DataConfig(Section):
    """Which bars, and how to read them. ``None`` means: detect, or refuse when ambiguous."""

    path: str = "sp500"  # sp500 | nasdaq | a synthetic market's name | a CSV or Parquet file
    tz: str | None = None  # IANA zone of naive local timestamps
    timestamp_unit: Literal["s", "ms", "us", "ns"] | None = None  # of epoch numbers; by magnitude
    date_format: str | None = None  # strptime format; needed for ambiguous day/month
    delimiter: str | None = None  # comma unasked
    decimal: Literal[".", ","] | None = None  # point unasked
    returns: Literal["percent", "difference"] = "percent"  # difference allows prices <= 0
    capital: Positive = 100.0  # equity at the start under returns = difference, price units
    repair: Literal["none", "drop", "ffill"] = "none"  # opt-in mending of bad rows
    allow_jumps: bool = False  # accept close ratios that look like an unadjusted split


class WalkForwardConfig(Section):
    """Folds of training and test windows in time order; sizes in rows (bars)."""

    folds: Count = 5  # used when no sizes are given
    train: Count | None = None  # rows of the first training window
    test: Count | None = None  # rows of a test window
    step: Count | None = None  # rows between the folds' starts; test if not given
    purge: Annotated[int, Field(ge=0)] = 2  # rows left out between train and test
    mode: Literal["rolling", "anchored"] = "anchored"
    holdout_frac: Annotated[float, Field(ge=0, lt=1)] = 0.2  # last rows that no search may see
    min_folds: Count = 3  # tune and train refuse fewer


class MetricsConfig(Section):
    """The objective and how it is annualised."""

    # counted from the timestamps if not given; from a bar in ten years to one in 30 microseconds
    periods_per_year: Annotated[float, Field(ge=0.1, le=1e12)] | None = None
    objective: Literal["wf_sharpe", "mean_fold", "median_fold", "mean_minus_half_sd"] = "wf_sharpe"
    min_trades: Annotated[int, Field(ge=0)] = 1  # per seed over all folds; fewer is degenerate


class EnvironmentConfig(Section):
    """The market environment and its costs (basis points of the traded value, per side)."""

    actions_per_branch: Sizes = (5, 3, 3)  # exposure, order type, urgency, further
    fill: Literal["next_open", "next_close"] | None = None  # None: the data source's own default
    fee_bp: NonNegative = 1.0
    half_spread_bp: NonNegative = 1.0
    slippage_bp: NonNegative = 0.0
    impact: NonNegative = 0.0  # square-root impact of market fills, deviations of a bar; 0: none, 1: usual
    participation: Positive = 0.01  # size of a full position over the average volume of a bar
    reward: Literal["dsr", "return"] = "dsr"  # differential Sharpe ratio, or return / sigma
    adaptation_rate: OpenUnit = 0.005  # eta of the differential Sharpe ratio
    episodes: Count = 64  # E, lanes collected per member and epoch
    episode_length: Annotated[int, Field(ge=2)] = 128  # L, bars


class GoalConfig(Section):
    """The return goal of the market environment, in deviations over one episode."""

    eval: Annotated[float, Field(ge=-HIGHEST_GOAL, le=HIGHEST_GOAL)] = 1.0  # desired goal during evaluation


class ReplayConfig(Section):
    """Prioritised replay (Schaul et al. 2016)."""

    capacity: Annotated[int, Field(ge=2, le=2**21)] = 2**17  # C, items per member
    per_alpha: ClosedUnit = 0.6
    per_beta: ClosedUnit = 0.4  # reaches 1 at the end of training


class HindsightConfig(Section):
    """Hindsight experience replay (Andrychowicz et al. 2017)."""

    her_ratio: ClosedUnit = 0.0  # share of a batch that is relabelled
    her_strategy: Literal["final", "future", "episode", "random"] = "future"
    her_future_offset: Annotated[int, Field(ge=0, le=1)] = 1  # 1: strictly later than the row
    her_threshold: Positive = 0.01  # L2 distance below which a goal counts as reached
    her_weight: Literal["own", "one"] = "own"  # importance weight of relabelled rows
    achieved_offset: Annotated[int, Field(ge=0)] | None = None  # None: G, right after the desired goal


class AgentConfig(Section):
    """Branching C51 (Bellemare 2017, Tavakoli 2018), with IQL (Kostrikov 2021) or Double DQN."""

    use_iql: bool = True
    iql_expectile_tau: OpenUnit = 0.7
    # the inverse temperature; greedy long before its bound, beyond which its products leave float32
    iql_advantage_temperature: Annotated[float, Field(gt=0, le=1e9)] = 3.0
    gamma: Annotated[float, Field(ge=0, lt=1)] = 0.95
    num_atoms: Annotated[int, Field(ge=2)] = 51
    v_min: float = -6.0
    v_max: float = 6.0
    trunk_widths: Sizes = (256, 256)
    head_width: Count = 128
    batch_size: Count = 256
    learning_rate: NonNegative = 3e-4
    adam_beta1: Annotated[float, Field(ge=0, lt=1)] = 0.9
    adam_beta2: Annotated[float, Field(ge=0, lt=1)] = 0.999
    adam_eps: Positive = 1e-8
    weight_decay: NonNegative = 1e-4
    max_norm: Positive = 10.0  # gradient norm per network of a member
    polyak_tau: ClosedUnit = 0.005


class TrainingConfig(Section):
    """The loop: epochs of collect, learn, evaluate."""

    epochs: Count = 20
    updates: Annotated[int, Field(ge=0)] = 512  # U, gradient steps per epoch
    seeds: Annotated[int, Field(ge=1, le=MOST_SEEDS)] = 1  # stacked trainings per fold
    seed: Annotated[int, Field(ge=0, lt=2**31)] = 0  # first seed; seed i uses seed + i
    backend: Literal["auto", "reference", "fused"] = "auto"
    precision: Literal["fp32", "tf32", "bf16"] = "bf16"  # matrix operands of the fused backend
    cuda_graph: bool = True  # False launches every kernel of the fused backend one by one
    steps_per_replay: Count = 8  # gradient steps in one CUDA graph; the host is needed once for all of them
    dtype: Literal["float32", "float64"] = "float32"
    device: Literal["auto", "cpu", "cuda"] = "auto"
    threads: Annotated[int, Field(ge=1, le=1024)] = (
        1  # intra-op threads; more gives up bitwise equality of stacked and alone
    )
    max_skipped_steps: Annotated[int, Field(ge=0)] = 10  # non-finite steps before the trial fails
    check_finite: bool = False  # fail at the first non-finite step
    checkpoint_seconds: NonNegative = 60.0  # at most one checkpoint in this many seconds
