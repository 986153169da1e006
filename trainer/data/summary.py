"""What ``foxtune check`` prints: how a market was understood, in plain lines."""

from __future__ import annotations

import numpy as np

from trainer.data.bars import GAP_STEPS, Bars
from trainer.data.market_data import MarketData
from trainer.data.timestamps import written
from trainer.folds import Split
from trainer.wording import plural

LABEL_WIDTH = 18


def describe(market: MarketData, split: Split | None = None) -> str:
    """Returns one line per finding; folds too, where ``split`` is given. Warnings stand at the end.

    How many opens repeat the close before is said where no ``split`` is given: beside one, the leak guard of
    fills says it.
    """
    bars, findings = market.bars, market.bars.findings
    lines = [
        _line("market", market.name),
        _line("read as", findings.dialect),
        _line("rows", f"{len(bars)}"),
        _line("range", f"{written(bars.timestamp[0])}Z to {written(bars.timestamp[-1])}Z"),
        _line("step", f"{bars.median_step:.10g} s (median)"),
        _line("time zone", findings.time_zone),
        _line("timestamp unit", findings.time_unit),
        _line("periods per year", f"{market.periods_per_year:.2f}"),
        _line("gaps", _gaps(bars)),
        _line("order", "newest first: reversed" if findings.reversed else "oldest first"),
        _line("duplicates", f"{plural(findings.duplicates_dropped, 'identical row')} dropped"),
        _line(
            "prices", "Adj Close used, open, high and low scaled by it" if findings.adjusted else "as quoted"
        ),
        _line("returns", bars.returns),
        _line("repairs", _repairs(bars)),
        _line("default fill", market.default_fill),
        _line("features", f"{len(market.feature_names)}"),
        _line("data hash", market.data_hash),
    ]
    lines += [_line("note", note) for note in findings.notes]
    if split is None:
        lines.append(_line("open = last close", f"{100 * bars.open_equals_last_close:.1f} % of bars"))
    else:
        lines += _folds(split, bars)
    return "\n".join(lines + [_line("warning", warning) for warning in _warnings(market)])


def _line(label: str, value: str) -> str:
    return f"{label:<{LABEL_WIDTH}} {value}"


def _gaps(bars: Bars) -> str:
    rows = bars.gaps
    if not len(rows):
        return f"none over {GAP_STEPS:g} median steps"
    steps = np.diff(bars.timestamp)
    longest = int(steps.argmax())
    return (
        f"{len(rows)} over {GAP_STEPS:g} median steps, the longest {steps[longest] / 1e9:.10g} s "
        f"after {written(bars.timestamp[longest])}Z"
    )


def _repairs(bars: Bars) -> str:
    return ", ".join(f"{repair.rule}: {repair.bars}" for repair in bars.findings.repairs) or "none"


def _folds(split: Split, bars: Bars) -> list[str]:
    lines = [
        _line("folds", f"{len(split.folds)}, {plural(split.unused_rows, 'tail row')} unused"),
        _line("hold-out", f"{plural(len(bars) - split.holdout_start, 'row')} that no search sees"),
    ]
    for number, fold in enumerate(split.folds):
        start, stop = (written(bars.timestamp[row]) for row in (fold.test_start, fold.test_stop - 1))
        rows = f"train [{fold.train_start}, {fold.train_stop}), test [{fold.test_start}, {fold.test_stop})"
        lines.append(_line(f"  fold {number}", f"{rows}, tested {start}Z to {stop}Z"))
    return lines


def _warnings(market: MarketData) -> list[str]:
    warnings = list(market.bars.findings.warnings)
    if not np.any(market.bars.volume):
        warnings.append("volume is 0 throughout: the volume features say nothing")
    return warnings
