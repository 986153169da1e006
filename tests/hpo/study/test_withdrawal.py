"""A refused search leaves nothing behind, and never takes a trial with it."""

import optuna
import pytest

from hpo.storage.storages import open_storage
from hpo.study.attributes import CONFIG, FORKED_FROM
from hpo.study.definition import StudyDefinition
from hpo.study.run_directory import RunDirectory
from hpo.study.studies import create
from hpo.study.withdrawal import withdraw


@pytest.fixture(params=["sqlite", "journal"])
def made(request, make_search, space, tmp_path):
    storage = None if request.param == "sqlite" else f"journal:{tmp_path}/runs/s/study.log"
    search = make_search(storage=storage)
    directory = RunDirectory.of(search)
    storage = open_storage(directory.storage_url(search))
    study = create(storage, "s", StudyDefinition.of(search, space, "d" * 64), directory)
    directory.write_search(search)
    return study, storage, directory


def test_nothing_is_left_of_a_study_with_copied_and_proposed_trials_only(made):
    study, storage, directory = made
    study.add_trial(optuna.trial.create_trial(value=1.0, user_attrs={FORKED_FROM: "old:1"}))
    study.enqueue_trial({"gamma": 0.9})
    withdraw(study, storage, directory)
    left = {path.name for path in directory.path.iterdir()}
    assert left <= {"study.log"}
    if left:
        assert storage.get_all_studies() == []


@pytest.mark.parametrize("attributes", [{}, {CONFIG: "{}"}])
def test_a_study_in_which_a_trial_has_run_stays(made, attributes):
    study, storage, directory = made
    if attributes:  # interrupted, and waiting to go on
        study.enqueue_trial({"gamma": 0.9}, user_attrs=attributes)
    else:
        study.ask()
    withdraw(study, storage, directory)
    assert len(study.get_trials()) == 1
    assert directory.search_file.exists()
