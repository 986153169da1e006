"""load_market: a market by the name that ``data.path`` gives."""

from __future__ import annotations

from dataclasses import replace

from trainer.config import TrainerConfig
from trainer.data.calendar import pause_warnings, periods_per_year
from trainer.data.features import FEATURE_NAMES, build_features
from trainer.data.market_data import MarketData, content_hash
from trainer.data.sources import load_bars, refuse_file_keys
from trainer.data.synthetic import is_synthetic, synthetic_market


def load_market(config: TrainerConfig) -> MarketData:
    """Loads ``data.path``: ``sp500``, ``nasdaq``, ``synthetic:NAME[:ROWS[:SEED]]``, a CSV or a Parquet file.

    Raises:
        ConfigError: Naming the key that has to change.
        DataError: Naming the column, the file line, the value and the fix.
    """
    override = config.metrics.periods_per_year
    if is_synthetic(config.data.path):
        refuse_file_keys(config.data)
        return synthetic_market(config.data.path, override, config.data.returns)
    bars = load_bars(config.data)
    if override is None:
        warnings = (*bars.findings.warnings, *pause_warnings(bars.timestamp))
        bars = replace(bars, findings=replace(bars.findings, warnings=warnings))
    return MarketData(
        name=bars.findings.source,
        bars=bars,
        features=build_features(bars),
        feature_names=FEATURE_NAMES,
        periods_per_year=periods_per_year(bars.timestamp, override),
        default_fill=bars.default_fill,
        data_hash=content_hash(bars, FEATURE_NAMES),
    )
