"""config, spaces, check, doctor and dashboard, and the arguments that name a study."""

import re
import socket
import tomllib
from argparse import ArgumentParser
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from hpo.commands.dashboard import require_free_port
from hpo.commands.study_flags import add_study_arguments, study_name
from hpo.gpus.resources import Gpu
from trainer.errors import ConfigError


def test_config_prints_toml_with_origins(run):
    code, out, _ = run("config", "--profile", "demo", "--trials", "3", "--set", "gamma=0.9")
    assert code == 0
    assert "trials = 3  # --trials" in out
    assert "gamma = 0.9  # --set" in out
    assert "updates = 200  # profile demo" in out
    assert tomllib.loads(out)["trials"] == 3


def test_spaces_lists_the_packaged_ones(run):
    code, out, _ = run("spaces")
    assert code == 0
    assert "iql_her   4 parameters" in out
    assert "full     12 parameters" in out


def test_spaces_shows_one_with_ranges_and_condition(run):
    _, out, _ = run("spaces", "iql_her")
    assert "iql_advantage_temperature  [1, 30] log" in out
    assert "her_ratio                  [0, 0.8] step 0.1" in out
    assert "her_strategy               {final, future, episode, random}  where her_ratio > 0" in out


def test_spaces_checks_a_users_file(run):
    Path("mine.toml").write_text("[gama]\nlow = 0.1\nhigh = 0.2\n")
    code, _, err = run("spaces", "mine.toml")
    assert code == 2
    assert err == "foxtune: error: gama: unknown key; the nearest known one is agent.gamma\n"


def test_check_says_what_was_understood_and_which_folds_fit(run):
    code, out, _ = run("check", "synthetic:known_answer:400:1")
    assert code == 0
    assert "known_answer" in out
    assert "400" in out


def test_check_takes_the_number_of_folds_as_tune_does(run):
    code, out, _ = run("check", "synthetic:known_answer:400:1", "--folds", "3")
    assert code == 0
    assert "fold order         clean: 3 folds in order" in out


def test_check_describes_a_file_that_is_too_short_to_train_on(run):
    rows = "".join(f"2024-01-{day:02d},1,1,1,1,1\n" for day in range(1, 9))
    Path("short.csv").write_text(f"timestamp,open,high,low,close,volume\n{rows}")
    code, out, _ = run("check", "short.csv")
    assert code == 0
    assert "folds: none, walk_forward.folds: 5 folds must have" in out


def test_check_says_once_that_opens_repeat_the_close(run):
    draws = np.random.default_rng(0)
    close = 100.0 * np.cumprod(1.0 + 0.01 * draws.standard_normal(500))
    bars = pd.DataFrame({"date": pd.date_range("2020-01-01", periods=500, freq="D")})
    bars["open"], bars["close"] = np.append(100.0, close[:-1]), close
    bars["high"], bars["low"] = bars[["open", "close"]].max(axis=1), bars[["open", "close"]].min(axis=1)
    bars.to_csv("chained.csv", index=False)
    code, out, _ = run("check", "chained.csv")
    assert code == 0
    assert out.count("100.0 %") == 1
    assert "same-bar fill      warning: market orders fill at the next open, but 100.0 % of the opens" in out


def test_check_and_train_warn_of_a_split_no_larger_than_a_real_move(run):
    draws = np.random.default_rng(0)
    close = (
        100.0 * np.cumprod(1.0 + 0.01 * draws.standard_normal(500)) * np.where(np.arange(500) < 250, 1, 0.8)
    )
    opened = np.append(100.0, close[:-1]) * np.where(np.arange(500) == 250, 0.8, 1.001)
    bars = pd.DataFrame({"date": pd.date_range("2020-01-01", periods=500, freq="D"), "open": opened})
    bars["close"] = close
    bars["high"] = bars[["open", "close"]].max(axis=1) * 1.002
    bars["low"] = bars[["open", "close"]].min(axis=1) * 0.998
    bars.to_csv("split.csv", index=False)
    code, out, _ = run("check", "split.csv")
    assert code == 0
    assert out.count("close to 4/5") == 1
    assert "\nwarning            line 252, column close: " in out
    keys = [
        word for key in ("updates=2", "epochs=1", "episodes=2", "batch_size=8") for word in ("--set", key)
    ]
    code, out, _ = run("train", "--data", "split.csv", "--out", "here", "--backend", "reference", *keys)
    assert code == 0
    assert out.count("close to 4/5") == 1


def foreseeing_file(path: Path) -> None:
    """A year and more of bars whose volume is a function of the next day's return."""
    draws = np.random.default_rng(0)
    returns = 0.01 * draws.standard_normal(500)
    close = 100.0 * np.cumprod(1.0 + returns)
    bars = pd.DataFrame({"date": pd.date_range("2020-01-01", periods=500, freq="D")})
    bars["open"], bars["close"] = close * np.exp(0.001 * draws.standard_normal(500)), close
    bars["high"] = bars[["open", "close"]].max(axis=1) * 1.002
    bars["low"] = bars[["open", "close"]].min(axis=1) * 0.998
    bars["volume"] = 1e6 * np.exp(20.0 * np.append(returns[1:], 0.0))
    bars.to_csv(path, index=False)


def test_check_and_train_refuse_a_column_that_knows_the_next_bar(run, tmp_path):
    foreseeing_file(tmp_path / "oracle.csv")
    code, out, _ = run("check", "oracle.csv")
    assert code == 1
    assert "foreseeing column  LEAK: " in out
    assert "'volume'" in out
    code, _, err = run("train", "--data", "oracle.csv", "--out", "here", "--backend", "reference")
    assert code == 2
    assert err.startswith("foxtune: error: foreseeing column: ")
    assert len(err.splitlines()) == 1
    assert not (tmp_path / "here").exists()


def test_check_refuses_a_missing_file_in_one_line(run):
    code, out, err = run("check", "absent.csv")
    assert (code, out) == (2, "")
    assert err.startswith("foxtune: error: ")
    assert "absent.csv" in err
    assert err.count("\n") == 1


def test_doctor_ends_with_a_verdict(run):
    code, out, _ = run("doctor")
    assert code == 0
    assert out.splitlines()[0].startswith("Python")
    assert out.splitlines()[-1].startswith("verdict: OK")


def test_doctor_lists_the_memory_of_a_training(run):
    code, out, _ = run("doctor", "--memory", "--data", "synthetic:known_answer:400:1", "--folds", "3")
    assert code == 0
    assert out.splitlines()[0].startswith("Python")
    assert "\nmemory of the fused backend\n" in out
    assert re.search(r"replay +prefix \[3, 131072, 8\] +\d+\.\d\d MiB", out)


def test_the_laptop_profile_stays_below_three_gigabytes_of_a_gpu(run):
    code, out, _ = run("doctor", "--profile", "laptop", "--set", "precision=fp32")
    assert code == 0
    [total] = re.findall(r"total .*? (\d+\.\d\d) MiB", out)
    assert float(total) < 3 * 1024


def test_doctor_holds_the_memory_against_the_gpu_that_is_there(run, monkeypatch):
    gpu = Gpu(0, "NVIDIA RTX 3050 Ti", "GPU-1", 3500)
    monkeypatch.setattr("hpo.gpus.resources.visible_gpus", lambda: (gpu,))
    flags = ("doctor", "--memory", "--data", "synthetic:known_answer:400:1")
    code, out, _ = run(*flags)
    assert code == 0
    assert "3500 MiB are free on NVIDIA RTX 3050 Ti; what fits: agent.batch_size = " in out
    code, _, err = run(
        *flags, "--set", "batch_size=16384", "--set", "actions_per_branch=11x11x11x11", "--seeds", "3"
    )
    assert code == 2
    assert re.fullmatch(
        r"foxtune: error: the training needs \d+ MiB, but 3500 MiB are free on NVIDIA RTX 3050 Ti "
        r"\(biggest: .*\); what fits: agent\.batch_size = \d+ with 15 members \(folds x seeds\), "
        r"or \d+ members with batch 16384\n",
        err,
    )


def test_a_port_in_use_is_refused_before_the_study_is_opened(run):
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        code, _, err = run("dashboard", "absent", "--port", str(port))
    assert code == 2
    assert f"--port: cannot listen on 127.0.0.1:{port}" in err


def test_the_dashboard_serves_this_machine_alone_unless_told_otherwise(run, study, monkeypatch):
    served = []

    class Pages:
        def __init__(self, storage, artifact_store):
            self.parts = [artifact_store.__class__.__name__]

        def install(self, plugin):
            self.parts.append(plugin.__name__)

        def run(self, host, port):
            served.append((host, port, *self.parts))

    monkeypatch.setattr("optuna_dashboard.wsgi", Pages)
    monkeypatch.setattr("hpo.commands.dashboard.require_free_port", lambda host, port: None)
    _, quiet, _ = run("dashboard", "s")
    _, warned, _ = run("dashboard", "s", "--host", "0.0.0.0", "--port", "9000")
    assert served == [
        ("127.0.0.1", 8080, "FileSystemArtifactStore", "wrapped_lines"),
        ("0.0.0.0", 9000, "FileSystemArtifactStore", "wrapped_lines"),
    ]
    assert "there is no password" not in quiet
    assert "anyone who can reach 0.0.0.0 can read and change the study: there is no password" in warned


@pytest.mark.parametrize("port", [-1, 65536])
def test_a_number_that_is_no_port_is_refused(port):
    with pytest.raises(ConfigError, match="--port: cannot listen on"):
        require_free_port("127.0.0.1", port)


@pytest.mark.parametrize(("host", "port", "key"), [("", 8080, "--host"), ("127.0.0.1", 0, "--port")])
def test_an_address_that_stands_for_any_is_refused(host, port, key):
    with pytest.raises(ConfigError, match=r"^--(host|port): must .*, but got") as refusal:
        require_free_port(host, port)
    assert refusal.value.key == key


@pytest.mark.parametrize("command", ["dashboard", "report", "resume", "replay"])
def test_a_study_that_does_not_exist_is_refused_and_nothing_is_created(run, command):
    code, _, err = run(command, "absent")
    assert code == 2
    assert "absent" in err
    assert not Path("runs").exists()


def named(*words):
    parser = ArgumentParser()
    add_study_arguments(parser)
    return study_name(parser.parse_args(words))


def test_a_study_is_named_by_a_word_or_by_the_flag():
    assert named("mine") == named("--study", "mine") == named("mine", "--study", "mine") == "mine"


def test_two_names_are_refused():
    with pytest.raises(ConfigError, match="--study: must name one study, but got a and b"):
        named("a", "--study", "b")


def test_no_name_lists_the_studies_that_there_are(tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "search.json").touch()
    with pytest.raises(ConfigError, match=r"must name a study; .* newest first: mine"):
        named("--runs", str(tmp_path))


def test_a_renamed_folder_does_not_resume_another_study(run):
    Path("runs/renamed").mkdir(parents=True)
    Path("runs/renamed/search.json").write_text('{"study": "original"}')
    code, _, err = run("resume", "renamed")
    assert code == 2
    assert "folder 'renamed' below runs holds study 'original'" in err
