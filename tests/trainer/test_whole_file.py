import pytest

from trainer.whole_file import whole_file


def test_the_old_file_is_read_until_the_new_one_is_whole(tmp_path):
    path = tmp_path / "record.json"
    path.write_text("old")
    with whole_file(path) as partial:
        partial.write_text("new")
        assert path.read_text() == "old"
        assert partial.suffix == ".partial"  # by which foxtune clean knows what a killed writer left
    assert path.read_text() == "new"
    assert list(tmp_path.iterdir()) == [path]


def write_half(path):
    with whole_file(path) as partial:
        partial.write_text("half")
        raise OSError("disk full")


def test_an_error_leaves_the_old_file_alone(tmp_path):
    path = tmp_path / "record.json"
    path.write_text("old")
    with pytest.raises(OSError, match="disk"):
        write_half(path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]
