from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

from trainer.config import TrainerConfig
from trainer.data.market import load_market
from trainer.data.summary import describe
from trainer.errors import ConfigError
from trainer.folds import split


def load(path, **overrides):
    return load_market(TrainerConfig().with_overrides({"data.path": str(path), **overrides}))


@pytest.fixture
def csv(tmp_path):
    def build(name, closes, extra="", newest_first=False):
        rows = [f"2024-01-{day + 1:02d},{c},{c},{c},{c},1\n" for day, c in enumerate(closes)]
        path = tmp_path / name
        path.write_text(
            "date,open,high,low,close,volume\n" + "".join(rows[::-1] if newest_first else rows) + extra
        )
        return path

    return build


@pytest.mark.parametrize(
    ("name", "fill", "share"), [("sp500", "next_close", 0.398), ("nasdaq", "next_open", 0.0016)]
)
def test_index_histories_load_whole(name, fill, share):
    market = load(name)
    assert len(market.bars) == 5031
    assert market.default_fill == fill
    assert market.bars.open_equals_last_close == pytest.approx(share, abs=5e-4)
    assert market.periods_per_year == pytest.approx(251.63, abs=0.01)
    assert np.isfinite(market.features).all()


def test_a_market_survives_pickling():
    market = load("nasdaq")
    again = pickle.loads(pickle.dumps(market))
    assert again.data_hash == market.data_hash
    assert np.array_equal(again.features, market.features)


def test_the_hash_tells_numbers_and_not_their_writing(csv):
    closes = [100 + day for day in range(20)]
    plain = load(csv("a.csv", closes)).data_hash
    assert load(csv("b.csv", closes, newest_first=True)).data_hash == plain
    assert load(csv("c.csv", closes, extra="2024-01-20,119,119,119,119,1\n")).data_hash == plain
    assert load(csv("d.csv", [*closes[:-1], 118.5])).data_hash != plain
    assert load(csv("e.csv", closes), **{"data.returns": "difference"}).data_hash != plain
    assert load(csv("f.csv", closes), **{"data.tz": "Asia/Tokyo"}).data_hash != plain


def test_check_prints_what_was_understood(csv):
    text = describe(load(csv("a.csv", [100 + day for day in range(20)], newest_first=True)))
    lines = dict(line.split(maxsplit=1) for line in text.splitlines())
    assert lines["rows"] == "20"
    assert lines["range"] == "2024-01-01T00:00:00Z to 2024-01-20T00:00:00Z"
    assert lines["step"] == "86400 s (median)"
    assert lines["gaps"] == "none over 3 median steps"
    assert lines["order"] == "newest first: reversed"
    assert "ISO dates" in text
    assert "365.24" in text


def test_the_share_of_opens_that_repeat_a_close_is_told_where_no_guard_tells_it():
    market = load("sp500")
    assert "39.8 % of bars" in describe(market)
    assert "39.8" not in describe(market, split(len(market.bars), TrainerConfig().walk_forward))
    assert "warning" not in describe(market)


def test_check_prints_folds_and_unused_rows():
    market = load("synthetic:known_answer:1000:0")
    config = TrainerConfig().walk_forward.model_copy(
        update={"train": 400, "purge": 20, "test": 100, "step": 100, "holdout_frac": 0.0}
    )
    text = describe(market, split(1000, config))
    assert "5, 80 tail rows unused" in text
    assert "train [0, 800), test [820, 920)" in text


def test_importing_the_data_package_loads_no_reader():
    code = "import sys, trainer.data.market, trainer.data.synthetic, trainer.data.summary, trainer.folds; "
    code += "import trainer.data.bar_file; "
    code += "print([m for m in ('pandas', 'pyarrow', 'arch', 'scipy') if m in sys.modules])"
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert found.stdout.strip() == "[]"


@pytest.mark.parametrize("path", ["sp500", "nasdaq", "synthetic:known_answer:600"])
@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("tz", "Asia/Tokyo"),
        ("timestamp_unit", "ms"),
        ("date_format", "%d.%m.%Y"),
        ("delimiter", ";"),
        ("decimal", ","),
        ("repair", "ffill"),
        ("allow_jumps", True),
    ],
)
def test_a_key_about_files_is_refused_where_there_is_no_file(path, key, value):
    with pytest.raises(ConfigError, match=rf"data\.{key}.*{path}.*leave it out, or give a file"):
        load(path, **{f"data.{key}": value})


def daily(first, count):
    days = np.datetime64(first) + np.arange(count)
    return [
        f"{day},{100 + row % 7},{100 + row % 7},{100 + row % 7},{100 + row % 7},1"
        for row, day in enumerate(days)
    ]


def test_a_pause_of_most_of_the_file_is_told_with_what_it_does_to_the_periods_per_year(tmp_path):
    # 200 steps over 99 + 400 + 100 days: 200 / 599 * 365.2425 = 121.95.
    rows = [*daily("2020-01-01", 100), *daily("2021-05-14", 101)]
    path = tmp_path / "bars.csv"
    path.write_text("timestamp,open,high,low,close,volume\n" + "\n".join(rows))
    config = TrainerConfig().with_overrides({"data.path": str(path)})
    (found,) = load_market(config).bars.findings.warnings
    assert found == (
        "nothing stands between 2020-04-09T00:00:00Z and 2021-05-14T00:00:00Z, 67 % of the time: metrics."
        "periods_per_year counts that pause as trading (121.95, without it 365.24); set it, or leave out the "
        "bars on one side"
    )
    given = config.with_overrides({"metrics.periods_per_year": 365})
    assert load_market(given).bars.findings.warnings == ()
