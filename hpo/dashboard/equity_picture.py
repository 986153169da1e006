"""A trial's equity curve out of sample as a small SVG: needs no renderer, and a browser shows it inline."""

from __future__ import annotations

from dataclasses import dataclass
from html import escape

import numpy as np
import numpy.typing as npt

from hpo.colours import GRID, INK, POLICY
from hpo.thinning import thinned
from trainer.evaluation_file import EvaluationRows
from trainer.statistics.compounding import equity

WIDTH, HEIGHT = 640, 300
LEFT, RIGHT, TOP, BOTTOM = 58, 12, 50, 26  # pixels around the plot
MOST_POINTS = 320
MOST_SEEDS = len(POLICY)
MARKET, SOFT = "#7b8794", "#52606d"

Values = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Line:
    """Growth of one series in percent, at the bars 0..T-1."""

    name: str
    colour: str
    growth: Values


@dataclass(frozen=True)
class _Scale:
    """Maps bars and percent to pixels."""

    bars: int
    low: float
    high: float

    def across(self, bar: float) -> float:
        return LEFT + (WIDTH - LEFT - RIGHT) * bar / max(self.bars - 1, 1)

    def up(self, percent: float) -> float:
        return TOP + (HEIGHT - TOP - BOTTOM) * (self.high - percent) / (self.high - self.low)


def equity_picture(title: str, rows: EvaluationRows) -> str:
    """Draws the compounded growth of every seed and of buy and hold, folds joined.

    Args:
        title: Plain text above the curves.
        rows: Out-of-sample bars; at least one. Of more than eight seeds the first are drawn.

    Returns:
        An SVG document, a few tens of kB.
    """
    lines, base = _lines(rows)
    lowest = min(float(line.growth.min()) for line in lines)
    highest = max(float(line.growth.max()) for line in lines)
    ticks = _ticks(min(lowest, 0.0), max(highest, 0.0))
    scale = _Scale(max(line.growth.size for line in lines), ticks[0], ticks[-1])
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" '
        f'height="{HEIGHT}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="white"/>',
        _text(10, 18, title, INK, size=13),
        *_legend(lines),
        *_grid(ticks, scale),
        *_borders(base, scale),
        *(_curve(line, scale) for line in reversed(lines)),
        *_ends(base),
        "</svg>",
    ]
    return "\n".join(parts)


def _lines(rows: EvaluationRows) -> tuple[list[_Line], EvaluationRows]:
    """Seeds first, then the market; and the bars of the latter."""
    seeds, base = np.unique(rows.seed)[:MOST_SEEDS].tolist(), rows.longest_seed()
    lines = [
        _Line("trial" if len(seeds) == 1 else f"seed {seed}", POLICY[index], _growth(rows.select(seed).ret))
        for index, seed in enumerate(seeds)
    ]
    return [*lines, _Line("buy and hold", MARKET, _growth(base.benchmark))], base


def _growth(returns: Values) -> Values:
    growth: Values = np.minimum((equity(returns)[1:] - 1.0) * 100.0, 1e9)
    return growth


def _ticks(low: float, high: float) -> list[float]:
    """Round percents from at or below ``low`` to at or above ``high``, four to eight of them."""
    span = max(high - low, 0.1)
    magnitude = 10.0 ** np.floor(np.log10(span / 4.0))
    step = next(magnitude * factor for factor in (1, 2, 2.5, 5, 10) if span / (magnitude * factor) <= 5.0)
    first, last = np.floor(low / step), np.ceil(high / step)
    return [float(step * index) for index in np.arange(first, max(last, first + 1) + 1)]


def _grid(ticks: list[float], scale: _Scale) -> list[str]:
    parts = []
    for tick in ticks:
        height = scale.up(tick)
        colour = MARKET if tick == 0 else GRID
        parts.append(
            f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{height:.1f}" y2="{height:.1f}" stroke="{colour}"/>'
        )
        parts.append(_text(LEFT - 6, height + 4, f"{tick:g} %", SOFT, anchor="end"))
    return parts


def _borders(base: EvaluationRows, scale: _Scale) -> list[str]:
    """A dotted line where a fold begins."""
    starts = np.flatnonzero(np.diff(base.fold)) + 1
    return [
        f'<line x1="{scale.across(bar):.1f}" x2="{scale.across(bar):.1f}" y1="{TOP}" y2="{HEIGHT - BOTTOM}" '
        f'stroke="{MARKET}" stroke-dasharray="1 3"/>'
        for bar in starts.tolist()
    ]


def _curve(line: _Line, scale: _Scale) -> str:
    kept = thinned(line.growth, MOST_POINTS)
    points = " ".join(f"{scale.across(bar):.1f},{scale.up(line.growth[bar]):.1f}" for bar in kept.tolist())
    return f'<polyline points="{points}" fill="none" stroke="{line.colour}" stroke-width="1.4"/>'


def _legend(lines: list[_Line]) -> list[str]:
    """Names with the growth over all bars, as many as fit into one line of the picture."""
    parts, left = [], 10.0
    for line in [*lines[-1:], *lines[:-1]]:
        text = f"{line.name} {line.growth[-1]:+.1f} %"
        width = 22.0 + 6.6 * len(text)
        if left + width > WIDTH:
            break
        parts.append(
            f'<line x1="{left}" x2="{left + 14}" y1="34" y2="34" stroke="{line.colour}" stroke-width="3"/>'
        )
        parts.append(_text(left + 18, 38, text, SOFT))
        left += width
    return parts


def _ends(base: EvaluationRows) -> list[str]:
    first, last = (str(base.time[at].astype("datetime64[ns]").astype("datetime64[D]")) for at in (0, -1))
    return [
        _text(LEFT, HEIGHT - 8, first, SOFT),
        _text(WIDTH - RIGHT, HEIGHT - 8, last, SOFT, anchor="end"),
    ]


def _text(left: float, base: float, text: str, colour: str, anchor: str = "start", size: int = 12) -> str:
    return (
        f'<text x="{left:.1f}" y="{base:.1f}" fill="{colour}" text-anchor="{anchor}" font-size="{size}">'
        f"{escape(text)}</text>"
    )
