"""Flags become assignments; values keep their text until the key's type reads them."""

from argparse import ArgumentParser

import pytest

from hpo.commands.config_flags import (
    DEBUGGING_FLAGS,
    SEARCH_FLAGS,
    TRAINING_FLAGS,
    add_flags,
    assignments,
    effective_from,
    parse_value,
)
from hpo.effective_config import known_keys
from trainer.errors import ConfigError

FLAGS = TRAINING_FLAGS + SEARCH_FLAGS + DEBUGGING_FLAGS


def parsed(*words):
    parser = ArgumentParser()
    add_flags(parser, FLAGS)
    return parser.parse_args(words)


def test_every_flag_sets_keys_that_exist():
    assert {key for flag in FLAGS for key in flag.keys} <= set(known_keys())


def test_the_flags_of_a_search_reach_their_keys():
    words = (
        "--data x.csv --space full --trials 9 --seeds 2 --folds 4 --epochs 6 --study s "
        "--storage journal:s.log --concurrent 3 --gpus-per-trial 0 --time-budget 30m --seed 7 "
        "--backend reference --runs elsewhere"
    )
    config = effective_from(parsed(*words.split()), FLAGS).config
    assert (config.space, config.trials, config.study, config.storage) == ("full", 9, "s", "journal:s.log")
    assert config.runs == "elsewhere"
    assert (config.concurrent, config.resources.gpu, config.time_budget, config.seed) == (3, 0.0, 1800.0, 7)
    trainer = config.trainer
    assert (trainer.data.path, trainer.walk_forward.folds) == ("x.csv", 4)
    assert (trainer.training.seeds, trainer.training.epochs, trainer.training.seed) == (2, 6, 7)
    assert trainer.training.backend == "reference"


def test_the_flags_for_debugging_take_no_value():
    training = effective_from(parsed("--check-finite", "--no-graph"), FLAGS).config.trainer.training
    assert (training.check_finite, training.cuda_graph) == (True, False)
    usual = effective_from(parsed(), FLAGS).config.trainer.training
    assert (usual.check_finite, usual.cuda_graph) == (False, True)


def test_set_comes_after_the_short_flags():
    config = effective_from(parsed("--set", "trials=4", "--trials", "3"), FLAGS).config
    assert config.trials == 4


def test_an_empty_value_unsets_a_key(tmp_path):
    file = tmp_path / "c.toml"
    file.write_text('[data]\ntz = "UTC"\n')
    config = effective_from(parsed("--config", str(file), "--set", "data.tz="), FLAGS).config
    assert config.trainer.data.tz is None


def test_a_value_may_hold_an_equals_sign():
    (assignment,) = assignments(parsed("--set", "date_format=%Y=%m"), FLAGS)
    assert assignment.value == "%Y=%m"


@pytest.mark.parametrize("text", ["gamma", "=3", " =3"])
def test_a_set_without_key_and_value_is_refused(text):
    with pytest.raises(ConfigError, match=r"--set: must have the form section\.key=value"):
        assignments(parsed("--set", text), FLAGS)


def test_a_list_is_read_as_toml():
    assert parse_value("trunk_widths", "[64, 32]") == (64, 32)
    with pytest.raises(ConfigError, match="trunk_widths: must be a list"):
        parse_value("trunk_widths", "[64, 32")


@pytest.mark.parametrize(
    ("text", "value"),
    [('";"', ";"), ('"%d.%m.%Y"', "%d.%m.%Y"), ("'UTC'", "UTC"), ('"\\t"', "\t"), ('""', "")],
)
def test_a_quoted_text_is_read_as_the_messages_print_it(text, value):
    assert parse_value("data.delimiter", text) == value


def test_a_quote_in_the_middle_is_refused():
    with pytest.raises(ConfigError, match=r"data\.tz: must be one text in quotes"):
        parse_value("data.tz", '"a"b"')


def test_a_tab_is_a_value():
    (assignment,) = assignments(parsed("--set", "data.delimiter=\t"), FLAGS)
    assert assignment.value == "\t"
