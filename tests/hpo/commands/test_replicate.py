"""foxtune replicate: fresh seeds as one stack, mean and spread, the original beside them."""

import math
import statistics
from pathlib import Path

import optuna

from hpo.study.run_directory import RunDirectory
from hpo.study.study_records import Replication, first_fresh_seed, replications
from trainer.checkpoint import read_checkpoint


def reloaded(study):
    return optuna.load_study(storage=study._storage, study_name="s")


def test_fresh_seeds_are_trained_once_and_never_again(run, study):
    code, out, err = run("replicate", "s", "--best", "--seeds", "3")
    assert (code, err) == (0, "")
    assert "study s, trial 0: fresh seeds 1..3" in out
    (first,) = replications(reloaded(study))
    assert (first.number, first.first_seed, first.seeds) == (0, 1, 3)
    mean, spread = statistics.mean(first.sharpe), statistics.stdev(first.sharpe)
    assert f"3 fresh seeds: Sharpe {mean:.3f} on average, standard deviation over seeds {spread:.3f}" in out
    assert f"original: Sharpe {study.trials[0].value:.3f} +- " in out
    assert "of a study of 3 trials" in out
    assert "best" not in out
    # One seed against three: both means err, and the spread of a seed is the fresh seeds'.
    distance = (study.trials[0].value - mean) / (spread * math.sqrt(1 + 1 / 3))
    place = "above" if distance > 0 else "below"
    assert f"the original lies {abs(distance):.1f} standard errors {place} the fresh seeds' mean" in out
    assert "(two-sample t, 2 degrees of freedom: p = " in out
    state = read_checkpoint(Path("runs/s/replications/0000-1/weights.pt"))
    assert state["members"] == [(seed, fold) for seed in (1, 2, 3) for fold in range(3)]

    code, out, _ = run("replicate", "s", "--number", "2", "--seeds", "2")
    assert code == 0
    assert "trial 2: fresh seeds 4..5" in out
    assert out.rstrip().endswith("original: trial 2 has no score")
    assert [(each.number, len(each.sharpe)) for each in replications(reloaded(study))] == [(0, 3), (2, 2)]


def test_seeds_of_a_replication_that_was_broken_off_stay_taken(run, study, monkeypatch):
    def interrupted(*arguments):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("hpo.commands.replicate.train", interrupted)
        assert run("replicate", "s", "--seeds", "2")[0] == 130
    (broken,) = replications(reloaded(study))
    assert (broken.first_seed, broken.seeds, broken.sharpe) == (1, 2, ())
    assert "fresh seeds 3..4 in " in run("replicate", "s", "--seeds", "2")[1]


def test_a_running_search_forbids_it_before_anything_is_trained(run, study, tmp_path):
    with RunDirectory(tmp_path / "runs" / "s").driving("s"):
        code, out, err = run("replicate", "s")
    assert (code, out) == (2, "")
    assert "is being run by pid" in err
    assert replications(reloaded(study)) == ()


def test_one_seed_has_no_spread(run, study):
    code, out, err = run("replicate", "s", "--seeds", "1")
    assert (code, out) == (2, "")
    assert "--seeds: a spread needs 2 seeds, but got 1" in err


def test_other_data_is_refused(run, study):
    code, _, err = run("replicate", "s", "--data", "synthetic:known_answer:400:2")
    assert code == 2
    assert "data.path: trial 0 saw data with hash" in err
    assert replications(reloaded(study)) == ()


def test_the_first_fresh_seed_lies_above_all_that_were_used(study):
    assert first_fresh_seed([], []) == 0
    assert first_fresh_seed(study.get_trials(), []) == 1
    assert first_fresh_seed(study.get_trials(), [Replication("", 0, 5, 4)]) == 9
