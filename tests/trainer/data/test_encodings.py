from __future__ import annotations

import pytest

from trainer.errors import ConfigError, DataError

TEXT = "Datum Zürich,timestamp,open,high,low,close\n" + "".join(
    f"é,2024-01-0{day},1,1,1,1\n" for day in (1, 2, 3)
)
CYRILLIC = TEXT.replace("Datum Zürich", "Дата").replace("é", "я")
WIDE = ("utf-16-le", "utf-16-be", "utf-32-le", "utf-32-be")


@pytest.mark.parametrize("text", [TEXT, CYRILLIC])
@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "utf-32", *WIDE])
def test_a_file_is_read_in_every_unicode_encoding_with_a_mark_or_without(read, text, encoding):
    bars = read(text.encode(encoding))
    assert len(bars) == 3
    assert bars.close.tolist() == [1, 1, 1]


@pytest.mark.parametrize("encoding", WIDE)
def test_a_mark_is_left_out_of_the_first_name(read, encoding):
    assert len(read(("\ufeff" + TEXT[TEXT.index("timestamp") :].replace("é,", "")).encode(encoding))) == 3


def test_a_long_file_without_a_mark_is_read_to_its_end(read, flat):
    stamps = [1_704_067_200 + 3600 * hour for hour in range(2000)]
    assert len(read(flat(stamps, [1.0] * 2000).encode("utf-16-le"))) == 2000


def test_windows_text_is_read(read):
    assert len(read(TEXT.encode("cp1252"))) == 3


@pytest.mark.parametrize(
    "content", [bytes(range(256)) * 8, b"\0" * 999, b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR" * 9]
)
def test_what_is_no_text_is_refused_as_such(read, content):
    with pytest.raises(ConfigError, match="not a text file"):
        read(content)


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be", "utf-32"])
def test_a_torn_wide_file_is_said_to_be_torn(read, encoding):
    with pytest.raises(ConfigError, match="torn"):
        read(TEXT.encode(encoding)[:-1])


def test_zero_bytes_after_a_crash_are_named_by_their_line(read):
    with pytest.raises(DataError, match="line 5: zero bytes"):
        read(TEXT.replace("ü", "u").replace("é", "e").encode() + b"\0" * 20)
