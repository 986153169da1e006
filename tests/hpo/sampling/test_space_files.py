"""A user's own search space, from Python or TOML."""

import tomllib

import pytest

from hpo.sampling.space_files import check_bounds, from_tables, load_space
from trainer.config import Choice, Float, Int, SearchSpace, When
from trainer.errors import ConfigError

EVERYTHING = """
[iql_expectile_tau]
low = 0.6
high = 0.9

[agent.learning_rate]
low = 1e-4
high = 1e-3
log = true

[her_ratio]
low = 0.0
high = 0.4
step = 0.1

[her_strategy]
choices = ["future", "final"]
when = { her_ratio = { above = 0.0 } }

[num_atoms]
low = 21
high = 51
step = 10
"""


def parsed(text: str) -> SearchSpace:
    return from_tables("mine", tomllib.loads(text))


def test_a_toml_file_is_one_table_per_parameter():
    assert parsed(EVERYTHING) == SearchSpace(
        "mine",
        (
            Float("iql_expectile_tau", 0.6, 0.9),
            Float("agent.learning_rate", 1e-4, 1e-3, log=True),
            Float("her_ratio", 0.0, 0.4, step=0.1),
            Choice("her_strategy", ("future", "final"), When("her_ratio", above=0.0)),
            Int("num_atoms", 21, 51, step=10),
        ),
    )


def test_whole_bounds_of_a_real_key_are_a_real_range():
    assert parsed("[iql_advantage_temperature]\nlow = 1\nhigh = 30") == SearchSpace(
        "mine", (Float("iql_advantage_temperature", 1.0, 30.0),)
    )


def test_a_space_is_found_by_name_or_by_path(tmp_path):
    space = SearchSpace("named", (Float("gamma", 0.8, 0.9),))
    toml = tmp_path / "mine.toml"
    toml.write_text("[gamma]\nlow = 0.8\nhigh = 0.9\n")
    python = tmp_path / "mine.py"
    python.write_text(
        "from trainer.config import Float, SearchSpace\n"
        "SPACE = SearchSpace('mine', (Float('gamma', 0.8, 0.9),))\n"
    )
    assert load_space("named", {"named": space}) is space
    assert load_space(str(toml), {}) == load_space(str(python), {})


def test_an_unknown_name_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match=r"^space: must be one of named or a path .* but got 'other'$"):
        load_space("other", {"named": SearchSpace("named", (Float("gamma", 0.8, 0.9),))})


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("x = 1", "must define SPACE = SearchSpace"),
        ("SPACE = 3", "SPACE is int"),
        ("1 / 0", "raised ZeroDivisionError"),
        ("def", "raised SyntaxError"),
        (
            "from trainer.config import *\nSPACE = SearchSpace('m', (Float('gama', 0, 1),))",
            "the nearest known one is agent.gamma",
        ),
    ],
)
def test_a_python_file_that_gives_no_space_is_one_sentence(tmp_path, content, message):
    path = tmp_path / "broken.py"
    path.write_text(content)
    with pytest.raises(ConfigError, match=message):
        load_space(str(path), {})


@pytest.mark.parametrize("name", ["absent.py", "absent.toml"])
def test_a_file_that_is_not_there_is_named(name):
    with pytest.raises(ConfigError, match=f"{name}: cannot be read"):
        load_space(name, {})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "needs at least one"),
        ("gamma = 3", r"gamma: must be a table .* but got 3"),
        ("[gama]\nlow = 0\nhigh = 1", "nearest known one is agent.gamma"),
        ("[agent.gama]\nlow = 0\nhigh = 1", "nearest known one is agent.gamma"),
        ("[gamma]\nlow = 0.5", "needs low and high, or choices, but has only low"),
        ("[gamma]\nlow = 0.9\nhigh = 0.5", "`low <= high` must hold"),
        ("[gamma]\nlow = 'a'\nhigh = 1", "low must be a number, but got 'a'"),
        ("[gamma]\nlow = 0.1\nhigh = 0.5\nlogarithmic = true", "but got 'logarithmic'"),
        ("[gamma]\nlow = 0.1\nhigh = 0.5\nlog = 1", "log must be true or false, but got 1"),
        ("[learning_rate]\nlow = 0.0\nhigh = 0.1\nlog = true", "`low > 0` must hold on a logarithmic range"),
        ("[her_strategy]\nchoices = 'final'", "choices must be a list"),
        ("[her_strategy]\nchoices = []", "needs at least one value"),
        ("[her_strategy]\nchoices = ['final', 'final']", "choices must differ"),
        ("[her_strategy]\nchoices = [['final']]", "must be words, numbers or truth values"),
        ("[her_strategy]\nchoices = ['final']\nwhen = { her_ratio = { above = 0 } }", "must stand earlier"),
        ("[her_strategy]\nchoices = ['final']\nwhen = 'always'", "when must look like"),
        ("[her_ratio]\nlow = 0.0\nhigh = 0.75\nstep = 0.2", "whole number of steps"),
        ("[num_atoms]\nlow = 11\nhigh = 51\nstep = 2\nlog = true", "`step >= 1, and 1 with log` must hold"),
        (
            "[her_strategy]\nchoices = ['final', 'future']\n[her_ratio]\nlow = 0.1\nhigh = 0.5\n"
            "when = { her_strategy = { above = 0 } }",
            "use equals",
        ),
    ],
)
def test_a_table_that_makes_no_sense_is_refused_in_one_sentence(text, message):
    with pytest.raises(ConfigError, match=message) as caught:
        parsed(text)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("parameter", "key"),
    [
        (Float("iql_expectile_tau", 0.5, 1.2), "agent.iql_expectile_tau"),
        (Float("her_ratio", -0.1, 0.5), "hindsight.her_ratio"),
        (Choice("her_strategy", ("final", "futur")), "hindsight.her_strategy"),
        (Choice("trunk_widths", ("64x64", "64x0")), "agent.trunk_widths"),
    ],
)
def test_a_bound_that_a_trial_would_refuse_is_refused_before_the_search(parameter, key):
    with pytest.raises(ConfigError, match=f"^{key}: .* in search space 'mine'$"):
        check_bounds(SearchSpace("mine", (parameter,)))


def test_a_real_range_of_a_whole_number_is_refused_although_its_ends_are_whole():
    with pytest.raises(ConfigError, match=r"^agent\.batch_size: .* must be a whole number"):
        check_bounds(SearchSpace("mine", (Float("batch_size", 16.0, 64.0),)))


@pytest.mark.parametrize(
    "parameter",
    [
        Choice("data.path", ("sp500", "nasdaq")),
        Float("holdout_frac", 0.0, 0.5),
        Choice("objective", ("wf_sharpe", "mean_fold")),
        Float("fee_bp", 0.0, 5.0),
        Choice("fill", ("next_open", "next_close")),
    ],
)
def test_what_is_measured_and_its_costs_cannot_be_searched(parameter):
    with pytest.raises(ConfigError, match="decides what is measured, so that trials would not compare"):
        check_bounds(SearchSpace("mine", (parameter,)))


@pytest.mark.parametrize(
    "parameter",
    [Choice("device", ("cpu", "cuda")), Choice("training.backend", ("reference",)), Int("threads", 1, 4)],
)
def test_where_a_training_runs_cannot_be_searched(parameter):
    with pytest.raises(ConfigError, match="decides where and how fast a training runs") as refusal:
        check_bounds(SearchSpace("mine", (parameter,)))
    assert refusal.value.key.startswith("training.")


@pytest.mark.parametrize("key", ["seed", "seeds"])
def test_seeds_cannot_be_searched(key):
    with pytest.raises(ConfigError, match="so that the search would look for luck"):
        check_bounds(SearchSpace("mine", (Int(key, 1, 4),)))


def test_a_step_of_a_whole_number_is_whole():
    with pytest.raises(ConfigError, match=r"batch_size: step must be a whole number, but got 1\.5"):
        parsed("[batch_size]\nlow = 32\nhigh = 64\nstep = 1.5")


def test_a_file_that_ends_the_program_is_refused(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text("raise SystemExit(3)\n")
    with pytest.raises(ConfigError, match=r"ends the program \(exit code 3\)"):
        load_space(str(path), {})
