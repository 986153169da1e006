"""What the file system refuses in the middle of a command is one sentence with the path."""

from __future__ import annotations

import errno

import pytest

from hpo.commands.command import Command
from hpo.file_trouble import file_trouble


def raised(action):
    with pytest.raises(OSError, match=r".") as found:
        action()
    return found.value


def test_a_path_that_cannot_be_read_is_named_with_the_reason(tmp_path):
    line = file_trouble(raised((tmp_path / "none").read_text))
    assert line == (
        f"{tmp_path}/none: No such file or directory; look at that path and its rights, or name another one"
    )


def test_of_a_rename_the_wanted_place_is_named(tmp_path):
    (tmp_path / "taken").mkdir()
    (tmp_path / "file").touch()
    line = file_trouble(raised(lambda: (tmp_path / "file").replace(tmp_path / "taken")))
    assert line.startswith(f"{tmp_path}/taken: Is a directory; ")


@pytest.mark.parametrize(
    "error", [OSError(errno.EACCES, "x"), OSError(errno.EACCES, "x", 3), ValueError("/x")]
)
def test_errors_that_name_no_path_are_of_another_kind(error):
    assert file_trouble(error) is None


def test_a_command_that_meets_one_says_one_sentence_and_with_debug_raises(tmp_path, monkeypatch, capsys):
    import hpo.__main__
    import hpo.command_line

    def run(arguments, context):
        (tmp_path / ("x" * 300)).read_text()
        return 0

    command = Command("read", "meets a name that is too long", lambda parser: None, run)
    monkeypatch.setattr(hpo.command_line, "COMMANDS", (command,))
    assert hpo.__main__.main(["read"]) == 2
    told = capsys.readouterr().err
    assert told.startswith(f"foxtune: error: {tmp_path}/xxx")
    assert "File name too long" in told
    assert told.count("\n") == 1
    with pytest.raises(OSError, match="too long"):
        hpo.__main__.main(["read", "--debug"])
