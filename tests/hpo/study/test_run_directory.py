"""The folder of a study: who may drive it, and what a refused search leaves."""

import json

import pytest

from hpo.study.run_directory import RunDirectory
from trainer.errors import ConfigError


def refused(directory):
    with directory.driving("s"):
        raise ConfigError("storage", "no")


def test_a_refused_search_leaves_no_folder(tmp_path):
    directory = RunDirectory(tmp_path / "runs" / "s")
    with pytest.raises(ConfigError, match="storage: no"):
        refused(directory)
    assert not directory.path.exists()


def test_a_refused_search_leaves_what_was_there(tmp_path):
    directory = RunDirectory(tmp_path / "s")
    directory.path.mkdir()
    (directory.path / "study.db").touch()
    with pytest.raises(ConfigError, match="storage: no"):
        refused(directory)
    assert (directory.path / "study.db").exists()


def test_a_refusal_because_of_a_live_driver_leaves_its_lock(tmp_path):
    directory = RunDirectory(tmp_path / "s")
    with directory.driving("s"):
        with pytest.raises(ConfigError, match="is being run by pid"), directory.driving("s"):
            pass
        assert directory.lock_file.exists()


def test_a_folder_that_cannot_be_made_is_refused_naming_runs(tmp_path):
    (tmp_path / "taken").touch()
    with pytest.raises(ConfigError, match=r"^runs: .* cannot be written to \(Not a directory\)"):
        refused(RunDirectory(tmp_path / "taken" / "s"))


def test_a_stored_search_with_an_unknown_key_is_refused_with_its_file(tmp_path):
    directory = RunDirectory(tmp_path)
    directory.search_file.write_text(json.dumps({"bogus": 1}))
    with pytest.raises(ConfigError, match=r"search\.json is refused \(bogus: unknown key"):
        directory.read_search()


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe\x00"])
def test_a_stored_search_that_was_damaged_is_refused_with_its_file(tmp_path, content):
    directory = RunDirectory(tmp_path)
    directory.search_file.write_bytes(content)
    with pytest.raises(ConfigError, match=r"search\.json is not JSON \(.*\); restore it"):
        directory.read_search()


def test_a_study_whose_search_is_lost_is_not_sent_to_tune_which_would_refuse_it(tmp_path):
    directory = RunDirectory(tmp_path / "s")
    with pytest.raises(ConfigError, match=r"no search was started in .*; see `foxtune tune`"):
        directory.read_search()
    directory.path.mkdir()
    (directory.path / "study.db").touch()
    with pytest.raises(ConfigError, match=r"search\.json is missing.* restore it, .*--study NEW --fork s"):
        directory.read_search()
