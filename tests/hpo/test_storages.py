from __future__ import annotations

import sqlite3

import pytest

from hpo import storages
from hpo.storages import open_storage, sqlite_file
from trainer.errors import ConfigError


def test_sqlite_is_written_ahead_and_flushed(tmp_path):
    file = tmp_path / "new" / "study.db"
    storage = open_storage(f"sqlite:///{file}")
    assert storage.get_all_studies() == []
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_sqlite_on_a_network_disk_is_refused_naming_the_alternatives(tmp_path, monkeypatch):
    monkeypatch.setattr(storages, "file_system", lambda path: "nfs4")
    with pytest.raises(ConfigError, match=r"lies on nfs4.*PostgreSQL URL.*journal") as refusal:
        open_storage(f"sqlite:///{tmp_path}/study.db")
    assert refusal.value.key == "storage"


@pytest.mark.parametrize("url", ["study.db", "nonsense://x/y", "sqlite://", "sqlite:///:memory:"])
def test_what_is_no_storage_is_refused_in_one_sentence(url):
    with pytest.raises(ConfigError) as refusal:
        open_storage(url)
    assert refusal.value.key == "storage"
    assert repr(url) in str(refusal.value)
    assert "\n" not in str(refusal.value)


def test_only_sqlite_urls_have_a_file(tmp_path):
    assert sqlite_file("sqlite:////data/study.db").as_posix() == "/data/study.db"
    assert sqlite_file("postgresql+psycopg://user@host/db") is None
    assert sqlite_file(f"journal:{tmp_path}/x.log") is None


@pytest.mark.parametrize("form", ["sqlite:///{}/x/study.db", "journal:{}/x/study.log"])
def test_a_folder_that_cannot_be_made_is_refused_naming_the_storage(tmp_path, form):
    (tmp_path / "taken").write_text("a file")
    url = form.format(tmp_path / "taken")
    with pytest.raises(ConfigError, match=r"^storage: cannot open .* \(.*Not a directory.*\)"):
        open_storage(url)


def test_a_file_of_something_else_is_refused_naming_the_storage(tmp_path):
    file = tmp_path / "study.db"
    file.write_bytes(b"these are no trials " * 400)
    with pytest.raises(ConfigError, match=r"^storage: cannot open .*not a database"):
        open_storage(f"sqlite:///{file}")


def test_a_missing_driver_is_refused_with_what_to_install(monkeypatch):
    def missing(*_arguments, **_keywords):
        raise ImportError("No module named 'psycopg'")

    monkeypatch.setattr(storages, "RDBStorage", missing)
    with pytest.raises(ConfigError, match=r"pip install 'foxtune\[postgres\]'"):
        open_storage("postgresql+psycopg://user@127.0.0.1/x")
