"""The entry point: exit codes, one line per error, quick help."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import hpo.__main__
import hpo.command_line
from hpo.__main__ import main
from hpo.commands import COMMANDS
from hpo.commands.command import Command
from hpo.interruption import Interruption
from trainer.errors import ConfigError


def test_every_promised_command_is_there():
    assert [command.name for command in COMMANDS] == [
        "tune",
        "resume",
        "train",
        "replay",
        "report",
        "replicate",
        "holdout",
        "export",
        "signal",
        "dashboard",
        "clean",
        "spaces",
        "config",
        "check",
        "doctor",
        "bench",
    ]


def test_python_dash_m_is_the_same_program():
    answer = subprocess.run(
        [sys.executable, "-m", "hpo", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert all(f"\n    {command.name}" in answer for command in COMMANDS)


@pytest.mark.parametrize("name", [command.name for command in COMMANDS])
def test_every_command_explains_itself(name, capsys):
    with pytest.raises(SystemExit) as caught:
        main([name, "--help"])
    assert caught.value.code == 0
    assert f"foxtune {name}" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["tune", "resume"])
def test_the_unit_of_the_time_budget_is_explained(name, capsys):
    with pytest.raises(SystemExit):
        main([name, "--help"])
    told = " ".join(capsys.readouterr().out.split())
    assert "--time-budget TIME stop asking for trials after this time: 90s, 30m, 2h or 1h30m" in told
    assert "a plain number is seconds" in told


def test_a_user_error_is_one_line_on_stderr_and_exit_code_two(capsys):
    assert main(["config", "--set", "gama=1"]) == 2
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        "foxtune: error: gama: unknown key in --set; the nearest known one is agent.gamma\n"
    )


@pytest.mark.parametrize(
    "argv", [["--debug", "config", "--set", "gama=1"], ["config", "--debug", "--set", "gama=1"]]
)
def test_debug_before_or_after_the_command_lets_the_error_through(argv):
    with pytest.raises(ConfigError):
        main(argv)


def stopping(run):
    return Command("stop", "is interrupted", lambda parser: None, run)


def test_an_interrupt_ends_with_130_and_one_line(monkeypatch, capsys):
    def interrupted(arguments, context):
        raise KeyboardInterrupt

    monkeypatch.setattr(hpo.command_line, "COMMANDS", (stopping(interrupted),))
    assert main(["stop"]) == 130
    assert capsys.readouterr().err == "foxtune: interrupted\n"


def test_a_search_that_sigterm_stops_before_its_trials_ends_with_143(monkeypatch, capsys):
    def interrupted(arguments, context):
        with Interruption():
            os.kill(os.getpid(), signal.SIGTERM)

    monkeypatch.setattr(hpo.command_line, "COMMANDS", (stopping(interrupted),))
    assert main(["stop"]) == 143
    assert capsys.readouterr().err == "foxtune: interrupted\n"


INTERRUPTED_IMPORT = """
import os, signal, sys

signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored where tests run in the background

class Interrupting:
    def find_spec(name, path=None, target=None):
        if name == sys.argv[1]:
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting)
from hpo.__main__ import program
program()
"""


@pytest.mark.parametrize(
    "module", ["hpo.command_line", "argparse", "hpo.commands", "dataclasses", "hpo.commands.tune"]
)
def test_an_interrupt_while_the_command_line_is_imported_ends_with_130_and_one_line(module):
    ended = subprocess.run(
        [sys.executable, "-c", INTERRUPTED_IMPORT, module],
        cwd=Path(hpo.__main__.__file__).parents[1],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (ended.returncode, ended.stdout, ended.stderr) == (130, "", "foxtune: interrupted\n")


def test_nothing_that_takes_time_is_imported_where_an_interrupt_would_not_be_caught():
    code = "import sys; before = set(sys.modules); import hpo.__main__; print(*set(sys.modules) - before)"
    started = subprocess.run(
        [sys.executable, "-c", code],
        cwd=Path(hpo.__main__.__file__).parents[1],
        capture_output=True,
        text=True,
        check=True,
    )
    assert set(started.stdout.split()) == {"hpo", "hpo.__main__", "__future__"}


def test_an_interrupt_while_the_arguments_are_declared_ends_in_the_same_way(monkeypatch, capsys):
    def interrupted(parser):
        raise KeyboardInterrupt

    command = Command("stop", "is interrupted", interrupted, lambda arguments, context: 0)
    monkeypatch.setattr(hpo.command_line, "COMMANDS", (command,))
    assert main(["stop"]) == 130
    assert capsys.readouterr().err == "foxtune: interrupted\n"


@pytest.mark.parametrize("kind", [ImportError, SystemError])
def test_an_interrupt_while_an_extension_is_imported_ends_in_the_same_way(monkeypatch, capsys, kind):
    def interrupted(arguments, context):
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise kind("initialization failed") from error

    monkeypatch.setattr(hpo.command_line, "COMMANDS", (stopping(interrupted),))
    assert main(["stop"]) == 130
    assert capsys.readouterr().err == "foxtune: interrupted\n"


def test_an_import_that_fails_for_another_reason_is_not_taken_for_an_interrupt(monkeypatch):
    def broken(arguments, context):
        raise ImportError("no module named nothing")

    monkeypatch.setattr(hpo.command_line, "COMMANDS", (stopping(broken),))
    with pytest.raises(ImportError, match="nothing"):
        main(["stop"])


@pytest.mark.parametrize(
    ("argv", "told"),
    [
        (["config", "--trial", "3"], "--trial; the nearest known one is --trials; see foxtune config --help"),
        (["tune", "--trails=3"], "--trails; the nearest known one is --trials; see foxtune tune --help"),
        (["tune", "--fee", "3"], "--fee; see foxtune tune --help"),
        (["report", "mine", "--json"], "--json; see foxtune report --help"),
    ],
)
def test_an_unknown_or_abbreviated_flag_is_refused_with_the_nearest_of_the_command(argv, told, capsys):
    with pytest.raises(SystemExit) as caught:
        main(argv)
    assert caught.value.code == 2
    assert capsys.readouterr().err == f"foxtune: error: unknown argument {told}\n"


@pytest.mark.parametrize("words", [("report", "s", "--runs", "d\udcff"), ("d\udcff",)])
def test_a_path_that_is_not_utf_8_is_refused_before_anything_is_written(words, capsys):
    with pytest.raises(SystemExit) as ended:
        main(words)
    assert ended.value.code == 2
    err = capsys.readouterr().err
    assert err.startswith(r"foxtune: error: 'd\udcff' is not UTF-8, so that no file could name it; rename it")
    assert err.count("\n") == 1


def test_a_word_too_many_is_refused(capsys):
    with pytest.raises(SystemExit) as caught:
        main(["report", "mine", "yours"])
    assert caught.value.code == 2
    assert capsys.readouterr().err == ("foxtune: error: unknown argument yours; see foxtune report --help\n")


INTERRUPTED = """
import ctypes, sys
import hpo.__main__ as entry

def main():
    print("told", end="")
    ctypes.pythonapi.PyRun_SimpleString(b"raise KeyboardInterrupt")  # as an extension that is interrupted
    return int(sys.argv[1])

entry.main = main
entry.program()
"""


@pytest.mark.parametrize("code", [130, 143])
def test_a_signal_ends_with_its_code_wherever_it_came(tmp_path, code):
    (tmp_path / "interrupted.py").write_text(INTERRUPTED)
    command = [sys.executable, "-m", "interrupted", str(code)]
    environment = {**os.environ, "PYTHONPATH": str(Path(hpo.__main__.__file__).parents[1])}
    ended = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False
    )
    assert (ended.returncode, ended.stdout) == (code, "told")
