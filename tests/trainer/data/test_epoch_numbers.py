from __future__ import annotations

import pytest

from trainer.errors import ConfigError

NET = [638_396_640_000_000_000 + hour * 36_000_000_000 for hour in range(3)]  # 2024-01-01T00:00, hourly
FILETIME = [133_485_408_000_000_000 + hour * 36_000_000_000 for hour in range(3)]


@pytest.mark.parametrize(("stamps", "words"), [(NET, ".NET ticks"), (FILETIME, "FILETIME")])
def test_counts_from_another_origin_are_not_taken_for_nanoseconds(read, flat, stamps, words):
    with pytest.raises(ConfigError, match=words) as refusal:
        read(flat(stamps))
    assert refusal.value.key == "data.timestamp_unit"
    assert read(flat(stamps), timestamp_unit="ns").timestamp.tolist() == stamps


def test_nanoseconds_that_only_pass_through_such_a_range_are_nanoseconds(read, flat):
    stamps = [year * 31_556_952 * 10**9 for year in range(3, 40)]
    assert read(flat(stamps)).timestamp.tolist() == stamps


@pytest.mark.parametrize(
    ("stamps", "fix"), [([31_536_000_000, 31_539_600_000], "ms"), ([1_704_067_200_000], "ms")]
)
def test_the_unit_that_fits_is_proposed(read, flat, stamps, fix):
    with pytest.raises(ConfigError, match=f'set data.timestamp_unit = "{fix}"'):
        read(flat([*stamps, stamps[-1] + 1]), timestamp_unit="s")


def test_numbers_that_fit_no_unit_have_to_be_mended(read, flat):
    with pytest.raises(ConfigError, match="mend the cell"):
        read(flat([4 * 10**18, 4 * 10**18 + 1]))
