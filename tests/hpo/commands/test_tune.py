"""foxtune tune and resume: refusals before anything is written, and one small search from end to end."""

from pathlib import Path

import pytest


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ((), "resources.gpu: 0 GPUs visible, but a trial asks for 1; use --backend reference"),
        (("--gpus-per-trial", "0", "--folds", "2"), "walk_forward.min_folds"),
        (("--gpus-per-trial", "0", "--space", "iql_hre"), "space: must be one of full, iql_her or a path"),
        (("--gpus-per-trial", "0", "--study", "a/b"), "study: must start with a letter or digit"),
        (("--gpus-per-trial", "0", "--trials", "0"), "trials: "),
        (("--gpus-per-trial", "0", "--data", "absent.csv"), "absent.csv"),
        (
            ("--gpus-per-trial", "0", "--time-budget", "soon"),
            "`time_budget` must be a duration like 90s",
        ),
        (("--gpus-per-trial", "0", "--config", "absent.toml"), "absent.toml: cannot be read"),
    ],
)
def test_a_search_that_cannot_run_is_refused_in_one_line_and_writes_nothing(run, small, words, message):
    code, out, err = run("tune", *small, *words)
    assert (code, out) == (2, "")
    assert err.startswith("foxtune: error: ")
    assert err.count("\n") == 1
    assert message in err
    assert not Path("runs").exists()


@pytest.mark.slow
def test_a_search_ends_with_table_best_report_and_next_commands(run, small):
    words = ("--gpus-per-trial", "0", "--trials", "2", "--concurrent", "2", "--study", "s")
    code, out, _ = run("tune", *small, *words)
    assert code == 0
    assert "study s: 2 trials of iql_her on synthetic:known_answer:400:1, 400 bars, 3 folds" in out
    assert "wf_sharpe  iql_expectile_tau" in out
    assert f"report  {Path('runs/s/report.html').absolute()}" in out
    assert Path("runs/s/report.html").is_file()
    assert "  foxtune dashboard s\n" in out

    code, out, err = run("tune", *small, *words)
    assert code == 2
    assert "foxtune resume s" in err
    assert "--fork" in err

    code, out, _ = run("resume", "s")
    assert code == 0
    assert "nothing to do" in out
