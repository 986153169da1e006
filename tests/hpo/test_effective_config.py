"""Flags > --config > profile > defaults, and who set what."""

import tomllib

import pytest

from hpo.config import SearchConfig
from hpo.effective_config import (
    Assignment,
    assignments_of,
    canonical,
    known_keys,
    profile_names,
    read_assignments,
    resolve,
    to_toml,
    toml_value,
)
from trainer.errors import ConfigError


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text('trials = 5\n[agent]\ngamma = 0.8\nbatch_size = 64\n[data]\npath = "nasdaq"\n')
    return path


def test_without_sources_everything_is_a_default():
    effective = resolve([])
    assert effective.config == SearchConfig()
    assert effective.origins == {}


def test_a_flag_beats_the_file_which_beats_the_profile(file):
    effective = resolve([Assignment("agent.gamma", "0.7", "--set")], file, "demo")
    assert effective.config.trainer.agent.gamma == 0.7
    assert effective.config.trainer.agent.batch_size == 64
    assert effective.config.trainer.training.updates == 200
    assert effective.config.trials == 5
    assert effective.origins["agent.gamma"] == "--set"
    assert effective.origins["agent.batch_size"] == "mine.toml"
    assert effective.origins["training.updates"] == "profile demo"
    assert "training.seeds" not in effective.origins


def test_an_earlier_run_is_stronger_than_the_defaults_only():
    below = [Assignment("gamma", 0.5, "run"), Assignment("updates", 9, "run")]
    effective = resolve([], None, "demo", below)
    assert effective.config.trainer.agent.gamma == 0.5
    assert effective.config.trainer.training.updates == 200


def test_the_later_of_two_flags_wins():
    flags = [Assignment("trials", "3", "--trials"), Assignment("trials", "4", "--set")]
    assert resolve(flags).config.trials == 4


def test_a_short_key_is_the_same_as_its_dotted_form():
    assert canonical("gamma", "--set") == "agent.gamma"
    assert canonical("agent.gamma", "--set") == "agent.gamma"


def test_a_key_of_the_search_is_not_taken_for_one_of_the_trainer():
    assert canonical("seed", "--set") == "seed"
    assert known_keys()["seed"] == ("seed",)
    assert known_keys()["training.seed"] == ("trainer", "training", "seed")


@pytest.mark.parametrize(
    ("wrong", "nearest"),
    [
        ("gama", "agent.gamma"),
        ("agent.gama", "agent.gamma"),
        ("agnt.gamma", "agent.gamma"),
        ("trails", "trials"),
        ("lr", "agent.learning_rate"),
        ("agent.lr", "agent.learning_rate"),
        ("resources.gpus", "resources.gpu"),
    ],
)
def test_an_unknown_key_is_refused_with_its_origin_and_the_nearest_known_one(wrong, nearest):
    with pytest.raises(ConfigError) as caught:
        resolve([Assignment(wrong, "1", "mine.toml")])
    assert str(caught.value) == f"{wrong}: unknown key in mine.toml; the nearest known one is {nearest}"


def test_an_illegal_value_is_named_without_the_inner_nesting():
    with pytest.raises(ConfigError, match=r"^hindsight\.her_ratio: .*1\.2"):
        resolve([Assignment("her_ratio", "1.2", "--set")])


def test_an_unknown_profile_is_refused_with_the_known_ones():
    with pytest.raises(ConfigError, match="--profile: must be one of demo, laptop, but got 'dem'"):
        resolve([], None, "dem")


@pytest.mark.parametrize("name", profile_names())
def test_every_profile_is_a_legal_configuration(name):
    assert resolve([], None, name).config != SearchConfig()


def test_the_demo_profile_is_the_agreed_one():
    config = resolve([], None, "demo").config.trainer
    assert (config.agent.batch_size, config.environment.episodes, config.environment.episode_length) == (
        128,
        16,
        64,
    )
    assert (config.training.updates, config.training.epochs, config.walk_forward.folds) == (200, 5, 3)
    assert config.training.threads == 1


def test_a_missing_file_is_an_error_of_one_line(tmp_path):
    with pytest.raises(ConfigError, match="cannot be read") as caught:
        resolve([], tmp_path / "absent.toml")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("content", [b"trials = = 3", b"\xff\xfe"])
def test_a_file_that_is_not_toml_is_an_error_that_names_it(tmp_path, content):
    path = tmp_path / "torn.toml"
    path.write_bytes(content)
    with pytest.raises(ConfigError, match=r"torn\.toml: is not valid TOML"):
        read_assignments(path, "torn.toml")


def test_a_byte_order_mark_before_the_toml_does_not_matter(tmp_path):
    path = tmp_path / "windows.toml"
    path.write_bytes(b"\xef\xbb\xbftrials = 3\r\n")
    assert resolve([], path).config.trials == 3


def test_the_printed_configuration_reads_back_as_the_same_configuration(tmp_path):
    flags = [
        Assignment("adam_eps", 1e-9, "--set"),
        Assignment("trunk_widths", "64x32", "--set"),
        Assignment("tz", "America/New_York", "--set"),
        Assignment("check_finite", "true", "--set"),
        Assignment("data.path", 'a "quoted" \\ name\t.csv', "--data"),
        Assignment("time_budget", 90.0, "--time-budget"),
    ]
    effective = resolve(flags, None, "laptop")
    path = tmp_path / "printed.toml"
    path.write_text(to_toml(effective), encoding="utf-8")
    assert resolve([], path).config == effective.config


def test_the_printed_configuration_says_where_each_value_came_from(file):
    text = to_toml(resolve([Assignment("trials", "7", "--trials")], file, "demo"))
    assert "trials = 7  # --trials" in text
    assert "gamma = 0.8  # mine.toml" in text
    assert "updates = 200  # profile demo" in text
    assert "# tz is not set  # default" in text
    assert tomllib.loads(text)["agent"]["trunk_widths"] == [128, 128]


def test_every_key_is_printed_once():
    lines = to_toml(resolve([])).splitlines()
    assert sum("  # default" in line for line in lines) == len(known_keys())


def test_a_whole_configuration_turned_into_assignments_gives_itself():
    effective = resolve([Assignment("gamma", 0.5, "--set")], None, "demo")
    assert resolve([], below=assignments_of(effective.config, "run")).config == effective.config
    assert resolve([], below=assignments_of(effective.config.trainer, "run")).config == effective.config


@pytest.mark.parametrize(
    ("value", "text"),
    [(True, "true"), (3, "3"), (0.1, "0.1"), (1e-8, "1e-08"), ((1, 2), "[1, 2]"), ('a"b', '"a\\"b"')],
)
def test_values_are_written_as_toml(value, text):
    assert toml_value(value) == text


@pytest.mark.parametrize("text", ["agent = 3", "[[agent]]\ngamma = 0.9"])
def test_a_value_in_place_of_a_section_names_one_of_its_keys(tmp_path, text):
    path = tmp_path / "c.toml"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"^agent: is a section, but c\.toml .* such as agent\.use_iql"):
        resolve([], path)


def test_an_unknown_section_is_refused_even_if_it_is_empty(tmp_path):
    path = tmp_path / "c.toml"
    path.write_text("[agnet]\n[agent]\n")
    with pytest.raises(ConfigError, match=r"^agnet: unknown key in c\.toml"):
        resolve([], path)


def test_the_nearest_key_is_found_whatever_the_case():
    with pytest.raises(ConfigError, match=r"nearest known one is agent\.gamma$"):
        resolve([Assignment("AGENT.GAMMA", 0.9, "--set")])


def test_a_study_name_too_long_for_a_folder_is_refused():
    with pytest.raises(ConfigError, match=r"^study: .* at most 100 letters"):
        resolve([Assignment("study", "x" * 101, "--study")])
