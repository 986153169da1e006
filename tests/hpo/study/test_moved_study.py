"""A study that was copied or moved: what lies beside its database is its own, the old place is left alone."""

from __future__ import annotations

import shutil
from pathlib import Path

import optuna
import pytest
from optuna.storages import RDBStorage
from real_ray import REAL_RAY

from hpo.storage.storages import open_storage
from hpo.study.definition import StudyDefinition
from hpo.study.run_directory import RunDirectory
from hpo.study.studies import create, open_existing
from hpo.tuner import resume, saved_search, study_url, with_absolute_paths


@pytest.fixture
def made(make_search, space):
    """Makes an empty study with its folder; returns the folder."""

    def make(**keys) -> Path:
        search = with_absolute_paths(make_search(**keys))
        directory = RunDirectory.of(search)
        storage = open_storage(directory.storage_url(search))
        create(storage, "s", StudyDefinition.of(search, space, "d" * 64), directory)
        directory.write_search(search)
        if isinstance(storage, RDBStorage):
            storage.engine.dispose()  # writes its log into the file
        return directory.path

    return make


def contents(folder: Path) -> dict[str, bytes]:
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def folder_of(runs: Path, storage: str | None = None) -> Path:
    return open_existing(study_url(str(runs), "s", storage), "s", str(runs)).directory.path


def test_a_copied_study_is_opened_in_the_folder_given_and_the_original_is_left_alone(made, tmp_path):
    original = made()
    shutil.copytree(original, tmp_path / "copies" / "s")
    before = contents(original)
    assert folder_of(tmp_path / "copies") == tmp_path / "copies" / "s"
    assert contents(original) == before
    assert folder_of(tmp_path / "runs") == original


def test_the_folder_of_a_database_that_is_named_wins_over_another_of_the_studys_name(made, tmp_path):
    original = made()
    shutil.copytree(original, tmp_path / "copies" / "s")
    url = f"sqlite:///{tmp_path}/copies/s/study.db"
    assert folder_of(tmp_path / "runs", url) == tmp_path / "copies" / "s"


@pytest.mark.parametrize("form", ["sqlite:///{}/runs/s/own.db", "journal:{}/runs/s/own.log"])
def test_a_storage_inside_the_folder_is_the_one_that_was_copied_with_it(made, tmp_path, form):
    original = made(storage=form.format(tmp_path))
    shutil.copytree(original, tmp_path / "copies" / "s")
    before = contents(original)
    found = saved_search(str(tmp_path / "copies"), "s")
    assert found.runs == str(tmp_path / "copies")
    assert found.storage == form.format(tmp_path).replace("/runs/", "/copies/")
    assert folder_of(tmp_path / "copies") == tmp_path / "copies" / "s"
    assert contents(original) == before
    shutil.rmtree(original)
    assert folder_of(tmp_path / "copies") == tmp_path / "copies" / "s"


@pytest.mark.parametrize("form", ["sqlite:///{}/all.db", "journal:{}/all.log"])
def test_a_storage_beside_the_runs_is_found_where_both_were_copied(made, tmp_path, monkeypatch, form):
    there = tmp_path / "there"
    original = made(storage=form.format(there), runs=str(there / "runs"))
    shutil.copytree(there, tmp_path / "here")
    before = contents(original)
    copy = tmp_path / "here" / "runs" / "s"
    assert study_url(str(copy.parent), "s") == form.format(tmp_path / "here")
    assert folder_of(copy.parent) == copy
    assert folder_of(copy.parent, form.format(tmp_path / "here")) == copy
    monkeypatch.chdir(tmp_path)
    assert folder_of(Path("runs"), form.format(tmp_path / "here")) == tmp_path / "runs" / "s"
    assert contents(original) == before
    assert not (tmp_path / "runs").exists()  # reading makes no folder


def test_a_storage_that_stayed_where_it_was_is_still_the_studys(made, tmp_path):
    original = made(storage=f"sqlite:///{tmp_path}/all.db")
    moved = tmp_path / "deep" / "er" / "s"
    shutil.copytree(original, moved)
    shutil.rmtree(original)
    assert study_url(str(moved.parent), "s") == f"sqlite:///{tmp_path}/all.db"
    assert folder_of(moved.parent) == moved
    assert not original.exists()


def test_a_study_is_found_from_another_folder_by_its_storage_alone(made, tmp_path, monkeypatch):
    original = made(storage=f"sqlite:///{tmp_path}/all.db")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    assert folder_of(Path("runs"), f"sqlite:///{tmp_path}/all.db") == original


def test_a_folder_that_is_gone_is_not_made_again_by_reading(made, tmp_path):
    original = made(storage=f"sqlite:///{tmp_path}/all.db")
    shutil.rmtree(original)
    assert folder_of(tmp_path / "runs", f"sqlite:///{tmp_path}/all.db") == original
    assert not original.exists()


def test_a_storage_file_is_stored_with_its_whole_path(make_search, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for given, whole in (
        ("sqlite:///all.db", f"sqlite:///{tmp_path}/all.db"),
        ("journal:all.log", f"journal:{tmp_path}/all.log"),
        ("postgresql://u:p@h/d", "postgresql://u:p@h/d"),
    ):
        assert with_absolute_paths(make_search(storage=given)).storage == whole


@REAL_RAY
def test_a_resumed_copy_trains_and_stores_beside_its_own_database(cluster, fakes, made, space, tmp_path):
    original = made(trials=1, epochs=1)
    copy = tmp_path / "copies" / "s"
    shutil.copytree(original, copy)
    before = contents(original)
    found = saved_search(str(copy.parent), "s")
    outcome = resume(found, market=fakes.FakeMarket(), training="fake_training:FakeTraining")
    assert (outcome.complete, outcome.directory.path) == (1, copy)
    assert (copy / "trials" / "0000" / "weights.pt").exists()
    assert contents(original) == before
    study = optuna.load_study(study_name="s", storage=f"sqlite:///{copy}/study.db")
    assert study.user_attrs["run_directory"] == str(copy)
