"""Commands on a copy of a study: --runs names it, and nothing is read from or written to the original."""

import shutil
from pathlib import Path

import pytest

DATA = "synthetic:known_answer:400:1"


@pytest.fixture
def copied(run, study):
    """The study "s" in copies/; of the original the files of its trials are gone."""
    study._storage._backend.engine.dispose()  # writes its log into the file
    shutil.copytree("runs", "copies")
    shutil.rmtree("runs/s/trials")
    return {path: path.read_bytes() for path in sorted(Path("runs").rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("words", "made"),
    [
        (("report", "s"), "copies/s/report.html"),
        (("export", "s", "--best", "--out", "best.pt"), "best.pt"),
        (("holdout", "s"), "copies/s/study.db"),
        (("replay", "s", "--best"), "copies/s/replays/0000/weights.pt"),
        (("clean", "s", "--yes"), "copies/s/study.db"),
    ],
)
def test_a_command_works_on_the_copy_alone(run, copied, words, made):
    code, out, err = run(*words, "--runs", "copies")
    assert (code, err) == (0, "")
    assert str(Path("runs/s").absolute()) not in out
    assert Path(made).exists()
    assert {path: path.read_bytes() for path in sorted(Path("runs").rglob("*")) if path.is_file()} == copied


@pytest.fixture
def elsewhere(study):
    """The study "s" as another machine ran it: its trials' files are not here."""
    study.set_user_attr("host", "node2")
    study.set_user_attr("run_directory", "/b/runs/s")
    shutil.rmtree("runs/s/trials")


def test_a_report_without_the_files_names_their_place_and_shows_the_rest(run, elsewhere):
    code, out, err = run("report", "s")
    assert (code, err) == (0, "")
    assert "those of trials 0, 1 lie on node2 in /b/runs/s; copy the folders trials and artifacts" in out
    assert "trial 0" in Path("runs/s/report.html").read_text()


@pytest.mark.parametrize("words", [("export", "--out", "best.pt"), ("signal", "--data", DATA), ("holdout",)])
def test_what_needs_the_weights_is_refused_with_the_place_where_they_lie(run, study, elsewhere, words):
    code, out, err = run(words[0], "--study", "s", *words[1:])
    assert (code, out) == (2, "")
    here = Path("runs/s/trials/0000").absolute()
    assert err == (
        f"foxtune: error: --number: the weights of trial 0 are not in {here}: its files lie on node2 in "
        "/b/runs/s; copy /b/runs/s/trials/0000 from there, or run the command there\n"
    )
    assert "holdout" not in study.user_attrs  # no look was counted
