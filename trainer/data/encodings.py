"""Text out of bytes: UTF-8, else UTF-16 or UTF-32 with a mark or without, else Windows-1252."""

from __future__ import annotations

import codecs
from pathlib import Path

from trainer.errors import ConfigError, DataError

SAMPLE = 4096  # bytes that are looked at, a whole number of characters in every encoding here
# The mark of UTF-32 begins with that of UTF-16.
MARKS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)
WIDE = ("utf-32-le", "utf-32-be", "utf-16-le", "utf-16-be")


def decoded(path: Path, content: bytes) -> str:
    """Decodes a file's bytes; the byte order mark is left out.

    Wide encodings without a mark are told by their zero bytes: whatever the language of the names, digits,
    separators and line ends are ASCII.

    Raises:
        ConfigError: For bytes that are no text.
        DataError: For zero bytes within a text, naming the line.
    """
    marked = next((encoding for mark, encoding in MARKS if content.startswith(mark)), None)
    wide = marked or _wide_without_mark(content[:SAMPLE])
    if wide is None and b"\0" in content:
        raise _zero_bytes(path, content)
    for encoding in (wide,) if wide else ("utf-8-sig", "cp1252"):
        try:
            return content.decode(encoding)
        except UnicodeDecodeError:
            continue
    if wide is not None:
        raise ConfigError("data.path", f"{path} begins as {wide} and is torn; write it again, in UTF-8")
    raise ConfigError("data.path", f"{path} is not text in UTF-8; save it as a CSV in UTF-8")


def _wide_without_mark(sample: bytes) -> str | None:
    if b"\0" not in sample:
        return None
    for encoding in WIDE:
        width = 4 if "32" in encoding else 2
        try:
            text = sample[: len(sample) // width * width].decode(encoding)
        except UnicodeDecodeError:
            continue
        if "\0" not in text and 2 * sum(character.isascii() for character in text) > len(text):
            return encoding
    return None


def _zero_bytes(path: Path, content: bytes) -> ConfigError | DataError:
    first = content.index(b"\0")
    before = content[:first]
    if first < len(content) // 2 or not before.isascii():
        return ConfigError("data.path", f"{path} is not a text file; give a CSV or a Parquet file")
    line = before.count(b"\n") + 1
    return DataError(
        f"{path}, line {line}: zero bytes stand here, as after a crash while writing; cut them off"
    )
