"""One process, several trials: the trainable driven as Ray drives it, with real trainings and without Ray."""

from __future__ import annotations

import pytest

from hpo.trial.trainable import ASSIGNMENT, OUTCOME, Assignment, TrialTrainable
from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.training import Training

SMALL = {
    "data.path": "synthetic:known_answer:240:3", "folds": 2, "min_folds": 1, "trunk_widths": (8, 8),
    "head_width": 4, "num_atoms": 5, "batch_size": 9, "episodes": 2, "episode_length": 8, "capacity": 24,
    "updates": 3, "epochs": 2, "her_ratio": 0.4, "checkpoint_seconds": 1e9, "backend": "reference",
}  # fmt: skip
CONFIGS = (
    {},
    {"gamma": 0.5, "her_strategy": "final"},
    {"batch_size": 5},
    {"batch_size": 5, "her_ratio": 0.0},
)


@pytest.fixture(autouse=True)
def visible_gpus_as_before(monkeypatch):
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")  # a trial without GPUs hides them from this process


class QuietLog:
    def open(self, path):
        path.parent.mkdir(parents=True, exist_ok=True)

    def close(self):
        pass


def small(**changes):
    return TrainerConfig.build({}).with_overrides({**SMALL, **changes})


@pytest.fixture
def make_trainable(monkeypatch, tmp_path):
    """Builds the trainable; its log leaves the output of this process alone."""
    market = load_market(small())

    class Local(TrialTrainable):
        def setup(self, config):
            super().setup(config, market=market)

    monkeypatch.setattr("hpo.trial.trainable.TrialLog", QuietLog)
    # a new one for each test: the other tests of this process have their own
    monkeypatch.setattr("trainer.warm_trainings.in_this_process", _new_trainings())

    def assign(number, **changes):
        directory = tmp_path / f"{number:04d}"
        return {ASSIGNMENT: Assignment(number, small(**changes), directory, tmp_path / "stop", 0)}

    return Local, assign, market


def _new_trainings():
    from trainer.warm_trainings import WarmTrainings

    return WarmTrainings()


def run(trainable):
    outcomes = [trainable.step()[OUTCOME] for _ in range(2)]
    assert [each.failure for each in outcomes] == [None, None]
    return outcomes


@pytest.mark.filterwarnings("ignore")  # Ray's own imports
def test_a_process_hands_its_learner_on_where_shapes_agree_and_scores_as_a_new_process_would(
    make_trainable, tmp_path
):
    kind, assign, market = make_trainable
    trainable = kind(assign(0))
    warm = []
    for number, changes in enumerate(CONFIGS):
        if number > 0:
            assert trainable.reset(assign(number, **changes))
        first, last = run(trainable)
        alone = Training(small(**changes), market, tmp_path / "alone")
        scores = [alone.run_epoch().score, alone.run_epoch().score]
        assert [first.reports[0].score, last.reports[0].score] == scores
        assert last.setup is None
        assert 0.0 < first.setup.seconds < 600.0
        assert first.usage is None
        warm.append(first.setup.warm)
    trainable.stop()
    assert warm == [False, True, False, True]


@pytest.mark.filterwarnings("ignore")  # Ray's own imports
def test_a_finished_trial_keeps_its_checkpoint_until_the_driver_has_its_result(make_trainable, tmp_path):
    kind, assign, _ = make_trainable
    trainable = kind(assign(0, checkpoint_seconds=0.0))
    first, last = run(trainable)
    trainable.stop()
    assert (tmp_path / "0000" / "weights.pt").exists()
    again = kind(assign(0, checkpoint_seconds=0.0))
    told = again.step()[OUTCOME].reports
    again.stop()
    assert told[0] == first.reports[0]  # not run again: the seconds agree too
    assert told[1].score == last.reports[0].score
