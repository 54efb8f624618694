"""Plots with named rows: intervals and bars."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tailproof.plotting.marks import (
    COLOURS,
    Tone,
    colour_of,
    dots,
    mark,
    page_axes,
    rule,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.arrays import FloatArray

ROW = 26.0  # height of a row in pixels
LETTER = 7.1  # average width of a letter at the size of labels


@dataclass(frozen=True, kw_only=True)
class IntervalRow:
    """A named value with its interval.

    Missing numbers are NaN; with an infinite `high`, `low` is a lower bound. `tip` is the tooltip on a
    page; `note` is written if there is nothing to draw.
    """

    name: str
    value: float = math.nan
    low: float = math.nan
    high: float = math.nan
    tone: Tone = "main"
    tip: str = ""
    note: str = ""


def rows_axes(names: Sequence[str], *, row: float = ROW, right: float = 16) -> Axes:
    """Return axes for a page, with room for one row per name."""
    longest = max((len(shortened(name, 24)) for name in names), default=0)
    axes = page_axes(26 + 46 + row * len(names), left=26 + LETTER * longest, top=26, right=right)
    axes.tick_params(axis="y", labelcolor=COLOURS["ink"])
    axes.grid(visible=False, axis="y")
    return axes


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Write a name beside each row, the first on top."""
    labels = [shortened(name, 24) for name in names]
    axes.set_yticks(range(len(names)), labels, parse_math=False)
    axes.set_ylim(len(names) - 0.5, -0.5)
    axes.margins(x=0.08)


def draw_intervals(
    axes: Axes, rows: Sequence[IntervalRow], *, line: tuple[float, str, Tone] | None = None
) -> None:
    """Draw the value and interval of each row, from top to bottom; a lower bound is an arrow.

    `line` is a value to compare with, its label and tone.
    """
    name_rows(axes, [each.name for each in rows])
    shown = [
        end
        for row in rows
        for end in (row.value, row.low, row.high, line[0] if line else math.nan)
        if math.isfinite(end)
    ]
    axes.update_datalim([(end, 0) for end in shown], updatey=False)
    axes.autoscale_view(scaley=False)
    edge = axes.get_xlim()[1]
    for i, row in enumerate(rows):
        colour = colour_of(row.tone)
        if math.isfinite(row.low):
            ends = [row.low] if row.high == math.inf else [row.low, row.high]
            wide = axes.hlines(i, row.low, min(row.high, edge), color=colour, alpha=0.38, lw=8)
            mark(wide, "bar", row.tone, [row.tip] if row.tip else ())
            caps = axes.scatter(ends, [i] * len(ends), s=200, marker="|", color=colour, lw=2)
            mark(caps, "line", row.tone)
            if row.high == math.inf:
                arrow = axes.scatter([edge], [i], s=90, marker=">", color=colour, clip_on=False)
                mark(arrow, "arrow", row.tone)
        if math.isfinite(row.value):
            dots(axes, [row.value], [i], row.tone, tips=[row.tip], radius=5)
        if row.note:
            _write(axes, row.note, (axes.get_xlim()[0], i))
    axes.set_xlim(axes.get_xlim()[0], edge)
    if line is not None:
        rule(axes, x=line[0], label=line[1], tone=line[2], dashed=line[2] != "main")


def draw_bars(
    axes: Axes,
    names: Sequence[str],
    series: Sequence[tuple[Tone | Sequence[Tone], Sequence[float], Sequence[str]]],
    *,
    notes: Sequence[str] = (),
) -> None:
    """Draw bars from zero, one per series and row, with notes at the end of the last series.

    A series has one tone or one per row, and one length and one tooltip per row.
    """
    name_rows(axes, names)
    height = 0.64 / len(series)
    for j, (given, lengths, tips) in enumerate(series):
        tones = [given] * len(names) if isinstance(given, str) else given
        places = np.arange(len(names)) + (j - (len(series) - 1) / 2) * height * 1.15
        colours = [colour_of(tone) for tone in tones]
        drawn = axes.barh(places, lengths, height, color=colours, edgecolor=colours, linewidth=0.6)
        for bar, tone, tip in zip(drawn, tones, tips, strict=True):
            mark(bar, "bar", tone, [tip])
    rule(axes, x=0.0, dashed=False)
    for i, note in enumerate(notes):
        _write(axes, note, (max(series[-1][1][i], 0.0), i))


def _write(axes: Axes, note: str, place: tuple[float, float]) -> None:
    text = axes.annotate(
        note, place, (6, 0), textcoords="offset points", va="center", parse_math=False
    )
    text.set_color(COLOURS["soft"])
    mark(text, "label", "muted")


def draw_folds(
    axes: Axes,
    values: FloatArray,
    *,
    value: float,
    interval: tuple[float, float] | None,
    label: str,
    tips: Sequence[str] = (),
) -> None:
    """Draw the sorted values of the folds, their mean, the estimate and its interval."""
    axes.set_yticks([])
    axes.set_ylim(-0.5, len(values) - 0.5)
    dots(axes, np.sort(values), np.arange(len(values)), "main", tips=tips, radius=5)
    if interval is not None:
        mark(axes.axvspan(*interval, color=colour_of("main"), alpha=0.12, lw=0), "band", "main")
    rule(axes, x=float(np.mean(values)), tone="warn")
    rule(axes, x=value, label=label, tone="main", dashed=False)


def shortened(text: str, most: int) -> str:
    """Return a text shortened to at most `most` characters.

    >>> shortened("night>afternoon", 8)
    'night>a…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"
