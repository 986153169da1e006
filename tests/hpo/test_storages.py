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
