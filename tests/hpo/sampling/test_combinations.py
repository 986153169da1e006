"""A space whose values are legal each and illegal together is refused before anything is made."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hpo.config import ResourcesConfig
from hpo.sampling.combinations import longest_lane, require_legal_combinations
from hpo.storage.storages import open_storage
from hpo.study.definition import StudyDefinition
from hpo.study.run_directory import RunDirectory
from hpo.study.studies import create
from hpo.tuner import resume, tune
from trainer.config import COUPLED_KEYS, Choice, Float, Int, SearchSpace, TrainerConfig, When
from trainer.data import synthetic
from trainer.errors import ConfigError

DEFAULT = TrainerConfig()

ILLEGAL = [
    ("agent.v_min", (Float("v_min", -6.0, 3.0), Float("v_max", 2.0, 6.0))),
    ("agent.v_min", (Float("v_max", -7.0, 6.0),)),
    ("agent.v_min", (Float("agent.v_min", 1.0, 1000.0, log=True),)),
    ("replay.capacity", (Choice("episodes", (16, 512)), Int("episode_length", 64, 512, log=True))),
    ("replay.capacity", (Int("capacity", 4096, 131072, step=4096),)),
    ("training.dtype", (Choice("backend", ("reference", "fused")), Choice("dtype", ("float32", "float64")))),
    ("environment.actions_per_branch", (Choice("actions_per_branch", ("5x3", "300x3")),)),
    ("agent.v_min", (Float("v_min", -6.0, 3.0), Float("v_max", 2.0, 6.0, when=When("v_min", above=2.5)))),
    (
        "agent.v_min",
        (Float("her_ratio", 0.0, 0.4, 0.1), Float("v_min", -6.0, 7.0, when=When("her_ratio", 0.3))),
    ),
    ("agent.v_min", (Int("epochs", 1, 9), Float("v_min", -6.0, 7.0, when=When("epochs", equals=5)))),
]

LEGAL = [
    (Float("v_min", -6.0, 1.0), Float("v_max", 2.0, 6.0)),
    (Choice("episodes", (16, 64)), Int("episode_length", 64, 512, log=True)),
    (Choice("her_ratio", (0.0, 0.5)), Choice("her_strategy", ("final",), when=When("her_ratio", above=0.0))),
    # v_max leaves its default of 6 only where v_min is low
    (Choice("v_min", (-4.0, 3.0)), Float("v_max", 1.0, 2.0, when=When("v_min", equals=-4.0))),
]


@pytest.mark.parametrize(("key", "parameters"), ILLEGAL)
def test_values_that_are_illegal_together_are_refused_with_rule_values_and_space(key, parameters):
    with pytest.raises(ConfigError, match="narrow search space 'mine'") as refusal:
        require_legal_combinations(SearchSpace("mine", parameters), DEFAULT)
    assert refusal.value.key == key
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("parameters", LEGAL)
def test_a_space_of_legal_combinations_passes(parameters):
    require_legal_combinations(SearchSpace("mine", parameters), DEFAULT)


def test_the_configuration_that_trials_start_from_counts():
    space = SearchSpace("mine", (Float("v_max", 1.0, 6.0),))
    require_legal_combinations(space, DEFAULT)
    with pytest.raises(ConfigError, match=r"v_max = 1\.0"):
        require_legal_combinations(space, DEFAULT.with_overrides({"v_min": 2.0}))


VALUES = {
    "agent.v_min": (-6.0, 7.0),
    "agent.v_max": (-7.0, 6.0),
    "environment.episodes": (1, 4096),
    "environment.episode_length": (1, 4096),
    "replay.capacity": (64, 2097152),
    "environment.actions_per_branch": ("5x3", "300"),
    "training.backend": ("reference", "fused"),
    "training.dtype": ("float32", "float64"),
    "training.device": ("cpu", "auto"),
    "agent.batch_size": (1, 4096),
    "agent.num_atoms": (2, 201),
    "training.steps_per_replay": (1, 8),
}


@settings(deadline=None, max_examples=60)
@given(st.fixed_dictionaries({name: st.sampled_from(pair) for name, pair in VALUES.items()}))
def test_every_rule_between_keys_is_broken_within_one_of_the_groups(overrides):
    def refused(names):
        try:
            DEFAULT.with_overrides({name: overrides[name] for name in names})
        except ConfigError:
            return True
        return False

    assert refused(overrides) == any(refused(group) for group in COUPLED_KEYS)


def test_the_longest_lane_is_that_of_the_space_or_else_of_the_configuration():
    assert longest_lane(SearchSpace("mine", (Float("gamma", 0.8, 0.9),)), DEFAULT) == 128
    assert longest_lane(SearchSpace("mine", (Int("episode_length", 16, 300),)), DEFAULT) == 300
    assert longest_lane(SearchSpace("mine", (Choice("episode_length", (16, 32)),)), DEFAULT) == 32
    unless = (Float("gamma", 0.8, 0.9), Int("episode_length", 16, 32, when=When("gamma", above=0.85)))
    assert longest_lane(SearchSpace("mine", unless), DEFAULT) == 128


def test_a_lane_that_fits_no_training_window_is_refused_before_a_study_is_made(make_search, tmp_path):
    market = synthetic.no_signal(400, 1)
    search = make_search(study="short")
    long = SearchSpace("long", (Int("episode_length", 16, 200),))
    with pytest.raises(
        ConfigError, match="`episode_length < training rows` must hold, but got 200 >= 1"
    ) as refusal:
        tune(search, long, market=market)
    assert refusal.value.key == "environment.episode_length"
    assert not (tmp_path / "runs" / "short").exists()


def test_an_illegal_space_is_refused_before_the_data_is_read(make_search, tmp_path):
    with pytest.raises(ConfigError, match="v_min < v_max"):
        tune(make_search(study="wide"), SearchSpace("wide", (Float("v_min", 0.0, 7.0),)), market=None)
    assert not (tmp_path / "runs" / "wide").exists()


@pytest.fixture
def stored(make_search):
    """Stores an empty study of a space on a market and returns its search."""

    def store(space, market):
        search = make_search()
        directory = RunDirectory.of(search)
        storage = open_storage(directory.storage_url(search))
        create(storage, "s", StudyDefinition.of(search, space, market.data_hash), directory)
        return search

    return store


def test_resume_refuses_combinations_that_a_changed_runtime_key_makes_illegal(stored):
    space = SearchSpace("precise", (Choice("dtype", ("float32", "float64")),))
    search = stored(space, synthetic.no_signal(400, 1))
    training = search.trainer.with_overrides({"backend": "fused"})
    faster = search.model_copy(update={"trainer": training, "resources": ResourcesConfig(gpu=1)})
    with pytest.raises(ConfigError, match="narrow search space 'precise', which allows dtype = float64"):
        resume(faster, market=None)


def test_resume_refuses_a_lane_that_fits_no_training_window(stored):
    market = synthetic.no_signal(400, 1)
    search = stored(SearchSpace("long", (Int("episode_length", 16, 200),)), market)
    with pytest.raises(ConfigError, match="`episode_length < training rows` must hold, but got 200 >= 1"):
        resume(search, market=market)


def test_resume_shows_what_was_changed_before_it_reads_the_data(stored):
    search = stored(SearchSpace("wide", (Float("gamma", 0.9, 0.95),)), synthetic.no_signal(400, 1))
    dearer = search.trainer.with_overrides({"fee_bp": 3.0, "data.path": "absent.csv"})
    with pytest.raises(ConfigError, match=r"environment\.fee_bp +1\.0 +3\.0"):
        resume(search.model_copy(update={"trainer": dearer}), market=None)
