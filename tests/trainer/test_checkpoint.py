import pickle
import threading
from pathlib import Path

import pytest
import torch

from trainer.checkpoint import CheckpointWriter, read_checkpoint, write_checkpoint
from trainer.errors import CheckpointError


def test_what_is_written_is_read(tmp_path):
    path = tmp_path / "deep" / "checkpoint.pt"
    write_checkpoint(path, {"weights": torch.arange(3.0), "nested": {"step": 4}})
    state = read_checkpoint(path)
    assert state["weights"].tolist() == [0.0, 1.0, 2.0]
    assert state["nested"] == {"step": 4}


def test_a_missing_checkpoint_is_named(tmp_path):
    with pytest.raises(CheckpointError, match=r"must exist at .*none\.pt.*--out NEW"):
        read_checkpoint(tmp_path / "none.pt")


@pytest.mark.parametrize("kept", [0, 1, 100, 700, 1200])
def test_a_torn_checkpoint_is_refused(tmp_path, kept):
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, {"weights": torch.arange(100.0)})
    path.write_bytes(path.read_bytes()[:kept])
    with pytest.raises(CheckpointError, match=r"not a whole checkpoint.*--out NEW"):
        read_checkpoint(path)


@pytest.mark.parametrize(
    "content",
    [
        b"hello",  # a pickle that asks for a memory cell
        b"PK\x03\x04" + 5000 * b"\0",  # an archive without its directory
        b"\xff\xfe\x00",
        b"timestamp,close\n2024-01-01,1.0\n",
        pickle.dumps({"format": 1}),
        pickle.dumps(Path("code")),
    ],
    ids=["text", "zip", "binary", "csv", "pickle", "class"],
)
def test_a_file_of_another_kind_is_refused_in_one_sentence(tmp_path, content, recwarn):
    path = tmp_path / "checkpoint.pt"
    path.write_bytes(content)
    with pytest.raises(CheckpointError, match=r"not a whole checkpoint.*--out NEW") as refusal:
        read_checkpoint(path)
    assert "\n" not in str(refusal.value)
    assert not recwarn.list


def test_a_checkpoint_of_another_format_is_refused(tmp_path):
    path = tmp_path / "checkpoint.pt"
    torch.save({"format": 99}, path)
    with pytest.raises(CheckpointError, match=r"format 99.*--out NEW"):
        read_checkpoint(path)


def test_an_old_checkpoint_survives_a_failed_write(tmp_path):
    path = tmp_path / "checkpoint.pt"
    write_checkpoint(path, {"step": 1})
    with pytest.raises(AttributeError):
        write_checkpoint(path, {"step": (lambda: None)})
    assert read_checkpoint(path)["step"] == 1
    assert [each.name for each in tmp_path.iterdir()] == ["checkpoint.pt"]


def test_what_is_offered_is_written_by_another_thread_without_another_copy(tmp_path, monkeypatch):
    written = []
    monkeypatch.setattr(
        "trainer.checkpoint.write_checkpoint",
        lambda path, state: written.append((threading.current_thread().name, state)),
    )
    writer = CheckpointWriter(tmp_path / "checkpoint.pt", interval=0.0)
    weights = torch.ones(1000)
    assert writer.offer({"agent": {"weights": weights}, "reports": [1, 2]})
    writer.wait()
    ((thread, state),) = written
    assert thread == "checkpoint"
    assert state["agent"]["weights"].data_ptr() == weights.data_ptr()
    assert state["reports"] == [1, 2]


def test_the_writer_keeps_its_interval_from_the_start_on(tmp_path, monkeypatch):
    now = 1000.0
    monkeypatch.setattr("trainer.checkpoint.time.monotonic", lambda: now)
    writer = CheckpointWriter(tmp_path / "checkpoint.pt", interval=60.0)
    assert not writer.offer({"step": 1})
    now = 1060.0
    assert writer.offer({"step": 2})
    writer.wait()
    now = 1119.0
    assert not writer.offer({"step": 3})
    assert read_checkpoint(writer.path)["step"] == 2
    writer.write_now({"step": 4})
    assert read_checkpoint(writer.path)["step"] == 4


def test_an_error_of_the_writing_thread_reaches_the_training(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    writer = CheckpointWriter(blocked / "checkpoint.pt", interval=0.0)
    writer.offer({"step": 1})
    with pytest.raises(CheckpointError, match="could not be written"):
        writer.wait()
