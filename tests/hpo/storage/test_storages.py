from __future__ import annotations

import sqlite3

import pytest

from hpo.storage import storages
from hpo.storage.storage_files import sqlite_file
from hpo.storage.storages import file_system, open_storage
from trainer.errors import ConfigError


def test_sqlite_is_written_ahead_and_flushed(tmp_path):
    file = tmp_path / "new" / "study.db"
    storage = open_storage(f"sqlite:///{file}")
    assert storage.get_all_studies() == []
    with sqlite3.connect(file) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)
    connection.close()


def test_a_writer_waits_a_minute_for_another_ones_lock(tmp_path):
    storage = open_storage(f"sqlite:///{tmp_path}/study.db")
    with storage.engine.connect() as connection:
        assert connection.exec_driver_sql("PRAGMA busy_timeout").scalar() == 60_000
        assert connection.exec_driver_sql("PRAGMA synchronous").scalar() == 2


MOUNTS = """\
rootfs / ext4 rw 0 0
server:/x {}/nfs\\040disk nfs4 rw 0 0
/dev/sdb {}/nfs\\040disk/local xfs rw 0 0
/dev/sdc {}/covered ext4 rw 0 0
none {}/covered fuse.sshfs rw 0 0
"""


@pytest.mark.parametrize(
    ("place", "kind"),
    [
        ("nfs disk/runs/study.db", "nfs4"),
        ("nfs disk/local/study.db", "xfs"),
        ("nfs disk/local/../study.db", "nfs4"),
        ("nfs disks/study.db", "ext4"),
        ("covered/study.db", "fuse.sshfs"),
        ("link/study.db", "nfs4"),
    ],
)
def test_the_file_system_is_that_of_the_innermost_mount_behind_all_links(tmp_path, place, kind):
    mounts = tmp_path / "mounts"
    mounts.write_text(MOUNTS.replace("{}", str(tmp_path)))
    (tmp_path / "link").symlink_to(tmp_path / "nfs disk")
    assert file_system(tmp_path / place, mounts) == kind


def test_without_a_table_of_mounts_the_file_system_is_unknown_and_with_it_known(tmp_path):
    assert file_system(tmp_path, tmp_path / "nothing") == ""
    assert file_system(tmp_path) != ""


def test_sqlite_on_several_machines_is_refused_naming_the_alternatives(tmp_path, make_search):
    from hpo.cluster.ray_cluster import Cluster
    from hpo.driver import require_fit
    from hpo.study.run_directory import RunDirectory

    search = make_search()
    directory = RunDirectory.of(search)
    nodes = (("a", "1"), ("b", "2"))
    with pytest.raises(ConfigError, match=r"SQLite.*cluster has 2.*PostgreSQL URL.*journal") as refusal:
        require_fit(search, directory, Cluster(0.0, nodes, ""))
    assert refusal.value.key == "storage"
    require_fit(search, directory, Cluster(0.0, nodes[:1], ""))
    require_fit(make_search(storage=f"journal:{tmp_path}/x.log"), directory, Cluster(0.0, nodes, ""))


def test_sqlite_on_a_network_disk_is_refused_naming_the_alternatives(tmp_path, monkeypatch):
    monkeypatch.setattr(storages, "file_system", lambda path: "nfs4")
    with pytest.raises(ConfigError, match=r"lies on nfs4.*PostgreSQL URL.*journal") as refusal:
        open_storage(f"sqlite:///{tmp_path}/study.db")
    assert refusal.value.key == "storage"


@pytest.mark.parametrize(
    "url",
    ["study.db", "nonsense://x/y", "sqlite://", "sqlite:///:memory:", "postgresql://host:port/database"],
)
def test_what_is_no_storage_is_refused_in_one_sentence(url):
    with pytest.raises(ConfigError) as refusal:
        open_storage(url)
    assert refusal.value.key == "storage"
    assert repr(url) in str(refusal.value)
    assert "\n" not in str(refusal.value)


@pytest.mark.parametrize("url", ["postgresql://me:secret@host:port/database", "postgresql//me:secret@host/x"])
def test_a_mistyped_address_is_refused_without_its_password(url):
    with pytest.raises(ConfigError, match=r"me:\*\*\*@host") as refusal:
        open_storage(url)
    assert "secret" not in str(refusal.value)


@pytest.mark.parametrize(
    ("revision", "told"),
    [
        (
            "v2.6.0.a",
            r"made by an older version .*save a copy, then `optuna storage upgrade --storage sqlite:",
        ),
        ("v99.0.0", r"made by a newer version .*; update Optuna$"),
    ],
)
def test_a_database_of_another_version_of_optuna_is_refused_with_the_way_out(tmp_path, revision, told):
    url = f"sqlite:///{tmp_path}/study.db"
    open_storage(url)
    with sqlite3.connect(tmp_path / "study.db") as connection:
        connection.execute("UPDATE alembic_version SET version_num = ?", (revision,))
    connection.close()
    with pytest.raises(ConfigError, match=told) as refusal:
        open_storage(url)
    assert refusal.value.key == "storage"


@pytest.mark.parametrize(
    "content", ["one line\n", "no line", '{"a": 1}\n', '{"op_code":0,"wor', "two\nlines\n"]
)
def test_a_file_of_something_else_is_no_journal_and_stays_as_it_is(tmp_path, content):
    file = tmp_path / "notes.txt"
    file.write_text(content)
    with pytest.raises(ConfigError, match=r"^storage: cannot open .*give a journal file of its own"):
        open_storage(f"journal:{file}")
    assert file.read_text() == content
    assert [each.name for each in tmp_path.iterdir()] == ["notes.txt"]


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
