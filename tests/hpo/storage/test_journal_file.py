from __future__ import annotations

import os
import subprocess
import sys

import optuna
import pytest
from optuna.storages.journal import JournalFileSymlinkLock

from hpo.storage.journal_file import mend_tail, sound_bytes
from hpo.storage.storages import open_storage

RECORD = b'{"op_code":0,"worker_id":"w","study_name":"s","directions":[2]}\n'
TORN = [
    b'{"op_code":4,"wor',
    RECORD[:-1],
    b"\0" * 40,
    b"\0" * 40 + b"\n",
    b'{"op_code":4\n"x"\n',
    b"\xff\xfe",
]


def mend(path):
    return mend_tail(path, JournalFileSymlinkLock(str(path)))


@pytest.mark.parametrize("tail", TORN)
def test_a_torn_tail_is_cut_behind_the_last_whole_record_with_a_copy_and_a_message(tmp_path, caplog, tail):
    path = tmp_path / "study.log"
    path.write_bytes(2 * RECORD + tail)
    assert mend(path) == tmp_path / "study.log.torn"
    assert path.read_bytes() == 2 * RECORD
    assert (tmp_path / "study.log.torn").read_bytes() == 2 * RECORD + tail
    (message,) = caplog.messages
    assert f"{path} was torn, {len(tail)} bytes were cut; the whole file is kept as study.log.torn" in message
    assert mend(path) is None


def test_a_second_cut_keeps_the_first_copy(tmp_path):
    path = tmp_path / "study.log"
    for tail in (b"first", b"second"):
        path.write_bytes(RECORD + tail)
        mend(path)
    assert (tmp_path / "study.log.torn").read_bytes() == RECORD + b"first"
    assert (tmp_path / "study.log.torn.2").read_bytes() == RECORD + b"second"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        RECORD,
        b"a text of the user's",
        b'{"a": 1}\n{"b":',
        RECORD + b"damaged\n" + RECORD,
        RECORD + b"damaged\n" + RECORD + b'{"op',
    ],
)
def test_whole_foreign_and_otherwise_damaged_files_are_left_as_they_are(tmp_path, content):
    path = tmp_path / "study.log"
    path.write_bytes(content)
    assert mend(path) is None
    assert path.read_bytes() == content
    assert [each.name for each in tmp_path.iterdir()] == ["study.log"]


def test_a_file_that_is_not_there_is_not_made(tmp_path):
    assert mend(tmp_path / "study.log") is None
    assert list(tmp_path.iterdir()) == []


def test_a_write_under_way_is_waited_for_and_not_cut(tmp_path):
    path = tmp_path / "study.log"
    path.write_bytes(RECORD + RECORD[:20])
    assert sound_bytes(path) == len(RECORD)
    os.symlink(path, f"{path}.lock")  # as Optuna's writer holds it
    writer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import os, sys, time; time.sleep(.3); f = open(sys.argv[1], 'ab'); f.write(eval(sys.argv[2])); "
            "f.close(); os.unlink(sys.argv[1] + '.lock')",
            str(path),
            repr(RECORD[20:]),
        ]
    )
    assert mend(path) is None
    assert writer.wait() == 0
    assert path.read_bytes() == 2 * RECORD


def test_a_study_goes_on_behind_a_torn_record(tmp_path):
    url = f"journal:{tmp_path}/study.log"
    study = optuna.create_study(storage=open_storage(url), study_name="s")
    study.tell(study.ask(), 1.0)
    with (tmp_path / "study.log").open("ab") as journal:
        journal.write(b'{"op_code":4,"worker_')
    again = optuna.load_study(storage=open_storage(url), study_name="s")
    again.tell(again.ask(), 2.0)
    read = optuna.load_study(storage=open_storage(url), study_name="s")
    assert [trial.value for trial in read.get_trials()] == [1.0, 2.0]
