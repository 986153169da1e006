"""A whole training in miniature: resumed, stacked, degenerate, refused."""

import numpy as np
import pytest
import torch
from learner_states import differing, flat

from trainer.checkpoint import read_checkpoint
from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.errors import CheckpointError, ConfigError, NonFiniteError
from trainer.evaluation_file import EVALUATION_FILE, read_evaluation
from trainer.file_names import CHECKPOINT, WEIGHTS
from trainer.folds import split
from trainer.training import Training, run_training
from trainer.trial_statistics import STATISTICS_FILE, read_statistics

SMALL = {
    "data.path": "synthetic:known_answer:900:3",
    "folds": 3,
    "trunk_widths": (16, 16),
    "head_width": 8,
    "num_atoms": 11,
    "batch_size": 33,
    "episodes": 3,
    "episode_length": 16,
    "capacity": 64,
    "updates": 5,
    "epochs": 4,
    "her_ratio": 0.4,
    "checkpoint_seconds": 0.0,
}


def small(**overrides):
    return TrainerConfig.build({}).with_overrides({**SMALL, **overrides})


@pytest.fixture(scope="module")
def market():
    return load_market(small())


def tensors_of(state, prefix=""):
    for name, value in state.items():
        if isinstance(value, torch.Tensor):
            yield f"{prefix}{name}", value
        elif isinstance(value, dict):
            yield from tensors_of(value, f"{prefix}{name}.")


def assert_same_tensors(left, right):
    left, right = dict(tensors_of(left)), dict(tensors_of(right))
    assert left.keys() == right.keys()
    assert [name for name in left if not torch.equal(left[name], right[name])] == []


def without_seconds(reports):
    return [{**report.to_dict(), "seconds": 0.0} for report in reports]


@pytest.mark.parametrize("use_iql", [True, False])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_stopped_training_resumes_bit_for_bit(tmp_path, market, use_iql, dtype):
    config = small(use_iql=use_iql, dtype=dtype)
    whole = run_training(config, market, tmp_path / "whole", keep_checkpoint=True)
    for stop in range(3):
        done = []
        part = run_training(
            config,
            market,
            tmp_path / "parts",
            on_epoch=done.append,
            resume=stop > 0,
            should_stop=lambda: True,
        )
        assert len(done) == 1
        assert not part.finished
    last = run_training(config, market, tmp_path / "parts", resume=True, keep_checkpoint=True)
    assert last.finished
    assert without_seconds(last.reports) == without_seconds(whole.reports)
    assert_same_tensors(
        read_checkpoint(tmp_path / "whole" / CHECKPOINT), read_checkpoint(tmp_path / "parts" / CHECKPOINT)
    )


def test_two_runs_of_one_configuration_are_equal(tmp_path, market):
    first = run_training(small(), market, tmp_path / "a")
    second = run_training(small(), market, tmp_path / "b")
    assert without_seconds(first.reports) == without_seconds(second.reports)


def test_a_seed_of_a_stack_equals_the_seed_trained_alone(tmp_path, market):
    stacked = Training(small(seeds=2, seed=7), market, tmp_path / "stack")
    alone = Training(small(seeds=1, seed=8), market, tmp_path / "alone")
    for _ in range(2):
        together, single = stacked.run_epoch(), alone.run_epoch()
        assert [fold for fold in together.score.folds if fold.seed == 8] == list(single.score.folds)
    ours = stacked.learner.weights_state()
    theirs = alone.learner.weights_state()
    assert torch.equal(ours["q"][3:], theirs["q"])
    high, low = ours["value"].view(2, 6, -1)[:, 3:]
    assert torch.equal(torch.cat([high, low]), theirs["value"])


def test_a_finished_search_trial_keeps_weights_and_scalers_but_no_checkpoint(tmp_path, market):
    run_training(small(), market, tmp_path)
    assert sorted(each.name for each in tmp_path.iterdir()) == sorted(
        [WEIGHTS, EVALUATION_FILE, STATISTICS_FILE]
    )
    weights = read_checkpoint(tmp_path / WEIGHTS)
    assert weights["members"] == [(0, 0), (0, 1), (0, 2)]
    assert weights["scaler"]["center"].shape == (3, 2)
    assert weights["data_hash"] == market.data_hash


def test_the_evaluation_file_holds_the_returns_behind_the_score(tmp_path, market):
    result = run_training(small(seeds=2), market, tmp_path)
    rows = read_evaluation(tmp_path / EVALUATION_FILE)
    for seed, sharpe in result.score.per_seed:
        returns = rows.select(seed).ret
        annual = returns.mean() / returns.std(ddof=1) * np.sqrt(market.periods_per_year)
        assert annual == pytest.approx(sharpe, abs=1e-6)  # the file keeps seven digits of a return


def test_fewer_folds_than_min_folds_are_refused(tmp_path, market):
    with pytest.raises(ConfigError, match=r"walk_forward\.min_folds"):
        Training(small(folds=2), market, tmp_path)


def test_a_checkpoint_of_another_configuration_is_refused_with_the_differences(tmp_path, market):
    run_training(small(), market, tmp_path, should_stop=lambda: True)
    with pytest.raises(CheckpointError, match=r"agent\.gamma 0\.95 -> 0\.9.*--out NEW"):
        Training(small(gamma=0.9), market, tmp_path, resume=True)


def test_a_checkpoint_of_other_data_is_refused(tmp_path, market):
    run_training(small(), market, tmp_path, should_stop=lambda: True)
    path = "synthetic:known_answer:900:4"
    other = load_market(small(**{"data.path": path}))
    with pytest.raises(CheckpointError, match=r"hash.*--out NEW"):
        Training(small(**{"data.path": path}), other, tmp_path, resume=True)


def test_a_nan_fails_the_training_with_the_step_and_the_first_bad_quantity(tmp_path, market):
    training = Training(small(max_skipped_steps=0), market, tmp_path)
    training.run_epoch()
    training.learner.load_state_dict(poisoned(training.learner.state_dict(), member=1))
    with pytest.raises(NonFiniteError, match=r"TD error NaN at step 5, member 1"):
        training.run_epoch()


def test_check_finite_names_the_first_input_of_the_step_that_is_not_finite(tmp_path, market):
    training = Training(small(check_finite=True), market, tmp_path)
    training.run_epoch()
    state = training.learner.state_dict()
    rewards = state["replay"]["reward"].clone()
    state["replay"]["reward"][1] = float("nan")
    training.learner.load_state_dict(state)
    message = r"TD error NaN at step 5, member 1; first non-finite output: sampled reward$"
    with pytest.raises(NonFiniteError, match=message):
        training.learner.learn(1)
    state["replay"]["reward"].copy_(rewards)
    training.learner.load_state_dict(poisoned(state, member=2))
    training.learner.guard.skipped.zero_()
    with pytest.raises(NonFiniteError, match=r"member 2; first non-finite output: parameters of q$"):
        training.learner.learn(1)


def test_a_training_may_be_resumed_without_graphs_and_with_checks(tmp_path, market):
    run_training(small(), market, tmp_path, should_stop=lambda: True)
    changed = small(cuda_graph=False, check_finite=True, steps_per_replay=3)
    resumed = Training(changed, market, tmp_path, resume=True)
    assert resumed.epoch == 1


def test_the_state_of_a_learner_is_a_copy_that_its_training_leaves_alone(tmp_path, market):
    training = Training(small(), market, tmp_path)
    training.run_epoch()
    state = training.learner.state_dict()
    before = dict(flat(state))
    training.run_epoch()
    assert differing(state, before) == []
    assert {"acted", "environment.steps", "replay.written", "updated"} <= set(
        differing(training.learner.state_dict(), before)
    )


def test_skipped_steps_are_counted_and_allowed_up_to_the_limit(tmp_path, market):
    training = Training(small(max_skipped_steps=5), market, tmp_path)
    training.run_epoch()
    training.learner.load_state_dict(poisoned(training.learner.state_dict(), member=1))
    training.learner.learn(5)
    assert training.learner.guard.skipped.tolist() == [0, 5, 0]
    with pytest.raises(NonFiniteError, match="step 5, member 1"):
        training.learner.learn(1)


def poisoned(state, member):
    state["agent"]["q"][member] = float("nan")
    return state


def test_a_policy_that_never_trades_is_degenerate_and_scores_minus_ten(tmp_path, market):
    result = run_training(small(min_trades=10**6, epochs=1), market, tmp_path)
    assert result.score.value == -10.0
    assert "min_trades is 1000000" in result.score.degenerate[0]


def written_bars(path, bars, factor):
    """Writes ``bars`` as CSV, the prices and the volume of each times its ``factor``."""
    prices = np.stack([bars.open, bars.high, bars.low, bars.close], axis=1) * factor[:, None]
    rows = [
        f"{stamp},{','.join(map(repr, row))},{volume}"
        for stamp, row, volume in zip(bars.timestamp.tolist(), prices.tolist(), 10 * factor, strict=True)
    ]
    path.write_text("\n".join(["timestamp,open,high,low,close,volume", *rows]))
    return path


@pytest.mark.parametrize("use_iql", [True, False])
def test_other_bars_in_the_hold_out_change_no_bit_of_a_training(tmp_path, market, use_iql):
    start = split(len(market.bars), small().walk_forward).holdout_start
    factor = np.ones(len(market.bars))
    moved = np.where(np.arange(len(factor)) < start, 1.0, np.linspace(2.0, 3.0, len(factor)))
    files = {"as_they_are": factor, "moved": moved}
    configs = {
        name: small(
            use_iql=use_iql,
            epochs=2,
            **{
                "data.path": str(written_bars(tmp_path / f"{name}.csv", market.bars, by)),
                "data.allow_jumps": True,
            },
        )
        for name, by in files.items()
    }
    markets = {name: load_market(config) for name, config in configs.items()}
    assert markets["moved"].data_hash != markets["as_they_are"].data_hash
    results = {name: run_training(configs[name], markets[name], tmp_path / name) for name in files}
    assert without_seconds(results["moved"].reports) == without_seconds(results["as_they_are"].reports)
    weights = [read_checkpoint(tmp_path / name / WEIGHTS) for name in files]
    assert_same_tensors(*weights)
    evaluations = [read_evaluation(tmp_path / name / EVALUATION_FILE) for name in files]
    assert np.array_equal(evaluations[0].ret, evaluations[1].ret)


def test_a_finished_training_leaves_a_record_that_agrees_with_its_score(tmp_path, market):
    result = run_training(small(seeds=2), market, tmp_path)
    record = read_statistics(tmp_path / STATISTICS_FILE)
    assert record.sharpe == pytest.approx(result.score.value, abs=1e-12)
    assert record.seed_spread == pytest.approx(result.score.seed_spread, abs=1e-12)
    assert max(seed.standard_error for seed in record.seeds) == result.score.standard_error
    assert record.bars / record.periods_per_year == result.score.years
    for stored, scored in zip(
        sorted(record.folds, key=lambda each: (each.seed, each.fold)), result.score.folds, strict=True
    ):
        assert (stored.seed, stored.fold) == (scored.seed, scored.fold)
        assert stored.earned.sharpe == (scored.sharpe if scored.sharpe_defined else None)
        assert stored.earned.total_return == scored.total_return
        assert (stored.conduct.trades, stored.conduct.turnover) == (scored.trades, scored.turnover)


def test_a_checkpoint_older_than_a_key_resumes_at_its_default(tmp_path, market):
    config = small(epochs=2)
    run_training(small(epochs=1), market, tmp_path, keep_checkpoint=True)
    state = torch.load(tmp_path / CHECKPOINT, weights_only=False)
    del state["config"]["environment"]["impact"]
    torch.save(state, tmp_path / CHECKPOINT)
    with pytest.raises(CheckpointError, match=r"environment\.impact 0\.0 -> 1\.0"):
        Training(config.with_overrides({"impact": 1.0}), market, tmp_path, resume=True)
    assert Training(config, market, tmp_path, resume=True).epoch == 1
