"""What a trial's record says of its bars."""

from hpo.attributes import DataRecord
from trainer.config import TrainerConfig
from trainer.data.market import load_market


def test_the_record_names_the_bars_their_number_and_their_ends():
    path = "synthetic:no_signal:100:7"
    market = load_market(TrainerConfig().with_overrides({"data.path": path}))
    record = DataRecord.of(market, path)
    assert (record.name, record.path, record.hash) == (path, path, market.data_hash)
    assert (record.rows, record.first, record.last) == (100, "2000-01-01T00:00:00Z", "2000-01-05T03:00:00Z")
    assert record.periods_per_year == market.periods_per_year
