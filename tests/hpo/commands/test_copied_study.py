"""Commands on a copy of a study: --runs names it, and nothing is read from or written to the original."""

import shutil
from pathlib import Path

import pytest


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
