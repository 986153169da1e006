"""A study as large as asked, written at once: trials of noise with scores, attributes and bars."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import optuna
from optuna.distributions import BaseDistribution, CategoricalDistribution, FloatDistribution
from optuna.trial import FrozenTrial, TrialState, create_trial

from hpo.study import attributes
from trainer.config import TrainerConfig
from trainer.evaluation import MemberEvaluation
from trainer.evaluation_file import EVALUATION_FILE, EvaluationRows, write_evaluation
from trainer.members import Member
from trainer.reports import WalkForwardScore
from trainer.trial_statistics import TrialStatistics
from trainer.trial_summary import summarise_trial
from trainer.walk_forward import MemberOutcome, score

DAY = 86_400_000_000_000  # ns
FIRST_DAY = 14_600  # after 1970
YEAR = 252.0
EPOCHS = 10
COST = 1e-5  # of every bar, a fraction of equity
PRUNED_EVERY = 5  # the fifth of every five trials is PRUNED: it has a curve and no bars
DISTRIBUTIONS: dict[str, BaseDistribution] = {
    "iql_expectile_tau": FloatDistribution(0.5, 0.95),
    "iql_advantage_temperature": FloatDistribution(1.0, 30.0, log=True),
    "learning_rate": FloatDistribution(1e-5, 1e-2, log=True),
    "her_ratio": FloatDistribution(0.0, 0.8),
    "her_strategy": CategoricalDistribution(("final", "future", "episode", "random")),
}

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class StudySize:
    """How much to write; ``bars`` over all folds, per seed."""

    trials: int = 500
    seeds: int = 3
    bars: int = 2500
    folds: int = 5


def write_study(study: optuna.Study, directory: Path, size: StudySize) -> None:
    """Adds ``size.trials`` trials to ``study`` and writes the bars of the COMPLETE ones.

    Args:
        study: In any storage; its trials are added in one call.
        directory: Gets ``trials/NNNN/evaluation.parquet``.
        size: How much; the same size writes the same study.
    """
    generator = np.random.default_rng(0)
    per_fold = size.bars // size.folds
    market = generator.normal(0.0003, 0.01, (size.folds, per_fold))
    config = TrainerConfig().model_dump_json()
    record = None
    trials = []
    for number in range(size.trials):
        returns = generator.normal(0.0, 0.006, (size.seeds, size.folds, per_fold)) + 0.2 * market
        pruned = number % PRUNED_EVERY == PRUNED_EVERY - 1
        # One record stands for all: what a report takes to read them is measured, not what they say.
        record = record or asdict(trial_record(returns, market))
        trials.append(_trial(generator, _score(returns, market), None if pruned else record, config))
        if not pruned:
            _write_bars(directory / "trials" / f"{number:04d}", returns, market)
    study.add_trials(trials)


def trial_record(returns: Values, market: Values) -> TrialStatistics:
    """The record of a trial that is always in the market, long or short.

    Args:
        returns: [seeds, folds, bars] net returns.
        market: [folds, bars] moves of the closes.
    """
    members = [Member(seed, fold) for seed, fold in np.ndindex(returns.shape[:2])]
    windows = [_window(returns[each.seed, each.fold], market[each.fold]) for each in members]
    return summarise_trial(members, windows, YEAR)


def _window(returns: Values, market: Values) -> MemberEvaluation:
    position = np.sign(returns)
    traded = np.abs(np.diff(position, prepend=0.0))
    return MemberEvaluation(
        bars=np.arange(returns.size),
        returns=returns,
        positions=position,
        traded=traded,
        costs=np.full(returns.size, COST),
        impact=np.zeros(returns.size),
        buy_and_hold=market,
        close_returns=market,
        trades=int(np.count_nonzero(traded)),
        turnover=float(traded.sum() + abs(position[-1])),
        bankrupt=False,
    )


def _score(returns: Values, market: Values) -> WalkForwardScore:
    members = [
        MemberOutcome(seed, fold, returns[seed, fold], market[fold], 40, 35.0, False)
        for seed in range(returns.shape[0])
        for fold in range(returns.shape[1])
    ]
    return score(members, objective="wf_sharpe", min_trades=1, periods_per_year=YEAR)


def _trial(
    generator: np.random.Generator, result: WalkForwardScore, record: dict[str, Any] | None, config: str
) -> FrozenTrial:
    pruned = record is None
    kept = {} if record is None else {attributes.STATISTICS: record}
    epochs = EPOCHS // 2 if pruned else EPOCHS
    curve = {epoch: result.value + float(generator.normal(0.0, 0.1)) for epoch in range(1, epochs)}
    return create_trial(
        state=TrialState.PRUNED if pruned else TrialState.COMPLETE,
        value=result.value,
        params={
            "iql_expectile_tau": float(generator.uniform(0.5, 0.95)),
            "iql_advantage_temperature": float(np.exp(generator.uniform(0.0, np.log(30.0)))),
            "learning_rate": float(10 ** generator.uniform(-5.0, -2.0)),
            "her_ratio": float(generator.uniform(0.0, 0.8)),
            "her_strategy": ("final", "future", "episode", "random")[int(generator.integers(4))],
        },
        distributions=DISTRIBUTIONS,
        user_attrs={
            attributes.CONFIG: config,
            attributes.SCORE: json.loads(json.dumps(asdict(result))),
            attributes.SECONDS: float(generator.uniform(10.0, 60.0)),
            **kept,
        },
        intermediate_values=curve | {epochs: result.value},
    )


def _write_bars(folder: Path, returns: Values, market: Values) -> None:
    seed, fold, bar = np.indices(returns.shape)
    folder.mkdir(parents=True)
    rows = EvaluationRows(
        seed=seed.ravel(),
        fold=fold.ravel(),
        time=(fold * returns.shape[2] + bar + FIRST_DAY).ravel() * DAY,
        ret=returns.ravel(),
        position=np.sign(returns).ravel(),
        benchmark=np.broadcast_to(market, returns.shape).ravel(),
        cost=np.full(returns.size, COST),
        impact=np.zeros(returns.size),
    )
    write_evaluation(folder / EVALUATION_FILE, rows)
