"""Where the study that --fork or --warm-start names is looked for."""

from __future__ import annotations

import pytest

from hpo.storage.storages import open_storage
from hpo.study.definition import StudyDefinition
from hpo.study.run_directory import RunDirectory
from hpo.study.studies import create
from hpo.tuner import open_earlier
from trainer.errors import ConfigError


@pytest.fixture
def make(make_search, space):
    """Makes a study of one trial and its folder; returns how many trials of it ``open_earlier`` finds."""

    def build(study, trials=1, **keys):
        search = make_search(study=study, **keys)
        directory = RunDirectory.of(search)
        definition = StudyDefinition.of(search, space, "d" * 64)
        made = create(open_storage(directory.storage_url(search)), study, definition, directory)
        directory.write_search(search)
        for _ in range(trials):
            made.ask()

    return build


@pytest.mark.parametrize("form", ["sqlite:///{}/new.db", "journal:{}/new.log"])
@pytest.mark.parametrize("old", [None, "sqlite:///{}/old.db", "journal:{}/old.log"])
def test_a_study_that_is_not_in_the_new_storage_is_found_where_its_folder_says(
    make, make_search, tmp_path, form, old
):
    make("old", storage=old and old.format(tmp_path))
    search = make_search(study="new", storage=form.format(tmp_path))
    opened = open_earlier(search, "old")
    assert (opened.study.study_name, len(opened.study.get_trials())) == ("old", 1)
    assert opened.directory.path == tmp_path / "runs" / "old"
    assert not list(tmp_path.glob("new.*"))
    make("other", storage=search.storage)  # the new storage exists, without that study
    assert open_earlier(search, "old").study.study_name == "old"


def test_the_new_storage_comes_first(make, make_search, tmp_path):
    make("old", trials=1)
    storage = f"sqlite:///{tmp_path / 'new.db'}"
    make("old", trials=2, runs=str(tmp_path / "elsewhere"), storage=storage)
    assert len(open_earlier(make_search(study="new", storage=storage), "old").study.get_trials()) == 2


def test_a_study_that_is_nowhere_is_refused_naming_both_places(make_search, tmp_path):
    search = make_search(study="new", storage=f"journal:{tmp_path / 'new.log'}")
    with pytest.raises(ConfigError) as refusal:
        open_earlier(search, "old")
    assert str(refusal.value) == (
        f"study: there is no study 'old' in journal:{tmp_path}/new.log, and {tmp_path}/runs/old holds no "
        "search; give the name of another study"
    )
    with pytest.raises(ConfigError, match=r"there is no study 'old': .*/runs/old/study\.db does not exist"):
        open_earlier(make_search(study="new"), "old")
    assert list(tmp_path.iterdir()) == []
