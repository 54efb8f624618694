"""A heat map of ratios as SVG, for the page or as a stand-alone file."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import PatchCollection
from matplotlib.colors import to_rgba
from matplotlib.patches import Rectangle

from tailproof.arrays import BoolArray, FloatArray
from tailproof.report.page import stylesheet
from tailproof.report.plots import COLOURS, FONT, Tone, as_svg, colour_of, mark, page_axes
from tailproof.report.text import number

ROW, LEFT, TOP = 24.0, 190.0, 96.0
TIE = 1.05  # ratios up to this count as best
WORST = 10.0  # ratios from this on have the darkest colour


def heat_map(
    rows: Sequence[str],
    columns: Sequence[str],
    ratios: FloatArray,
    *,
    alt: str,
    breaks: Sequence[int] = (),
    standalone: bool = False,
) -> str:
    """Return a heat map of ratios (R, M) ≥ 1, from green for the best to brown for the worst.

    A line is drawn above the rows of `breaks`. A `standalone` picture includes its colours.
    """
    step = max(46.0, min(64.0, 660.0 / len(columns)))
    axes = page_axes(
        TOP + ROW * len(rows) + 8,
        width=LEFT + step * len(columns) + 46,
        left=LEFT,
        right=46,
        top=TOP,
        bottom=8,
    )
    axes.set(xlim=(0, len(columns)), ylim=(len(rows), 0))
    axes.grid(visible=False)
    axes.spines["bottom"].set_visible(False)
    axes.tick_params(labelcolor=COLOURS["ink"], labeltop=True, labelbottom=False)
    axes.set_yticks(np.arange(len(rows)) + 0.5, rows, parse_math=False)
    axes.set_xticks(
        np.arange(len(columns)) + 0.5,
        columns,
        parse_math=False,
        rotation=42,
        rotation_mode="anchor",
        ha="left",
    )
    _paint(axes, rows, columns, ratios)
    for (i, j), ratio in np.ndenumerate(ratios):
        axes.text(
            j + 0.5,
            i + 0.5,
            ratio_text(float(ratio)),
            ha="center",
            va="center_baseline",
            color=COLOURS["ink"],
            fontsize=FONT,
        )
    for place in breaks:
        axes.axhline(place, color=COLOURS["soft"], linewidth=1, zorder=3)
    font = ".plot { background: var(--paper); font-family: sans-serif; }"
    return as_svg(axes, alt, style=stylesheet() + font if standalone else "")


def _paint(axes: Axes, rows: Sequence[str], columns: Sequence[str], ratios: FloatArray) -> None:
    tones: tuple[tuple[Tone, BoolArray], ...] = (
        ("good", ratios <= TIE),
        ("warn", ~(ratios <= TIE)),
    )
    for tone, use in tones:
        places = np.argwhere(use)
        shapes = [Rectangle((j + 0.02, i + 0.04), 0.96, 0.92) for i, j in places]
        heats = [to_rgba(colour_of(tone), _opacity(float(ratios[i, j]))) for i, j in places]
        drawn = axes.add_collection(PatchCollection(shapes, facecolors=heats, linewidths=0))
        tips = [f"{columns[j]}, {rows[i]}: {number(float(ratios[i, j]))}" for i, j in places]
        mark(drawn, "bar", tone, tips)


def ratio_text(ratio: float) -> str:
    """Return a ratio as short text.

    >>> ratio_text(1.034), ratio_text(12.3), ratio_text(4321.0), ratio_text(float("inf"))
    ('1.03', '12', '4.3k', '∞')
    """
    if not math.isfinite(ratio):
        return "∞" if ratio == math.inf else "–"
    if ratio >= 1000:
        return f"{ratio / 1000:.2g}k"
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.0f}"


def _opacity(ratio: float) -> float:
    if ratio <= TIE:
        return 0.45
    heat = min(math.log(max(ratio, 1.0)) / math.log(WORST), 1.0) if ratio == ratio else 0.0
    return 0.06 + 0.6 * heat
