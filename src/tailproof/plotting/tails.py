"""The Hill plot: the tail index against the number of extremes used."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tailproof.plotting.marks import Tone, band, dots, line, name_axes, rule
from tailproof.statistics.tails.index import TailIndex, TailPath

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TONES: dict[str, Tone] = {"right": "main", "left": "warn"}
FEWEST = 5  # extremes below which an estimate is meaningless


def draw_hill(axes: Axes, paths: Sequence[TailPath], chosen: Mapping[str, TailIndex]) -> None:
    """Draw Hill's estimate of each tail with its interval; a dot marks the chosen number."""
    alphas = [index.alpha for index in chosen.values() if index.estimable]
    ceiling = min(max([5.0, *(1.4 * alpha for alpha in alphas if math.isfinite(alpha))]), 12.0)
    axes.set_xscale("log")
    axes.set_ylim(0, ceiling)
    for path in paths:
        tone = TONES[path.side]
        use = path.k >= FEWEST
        k = path.k[use]
        low, high = (np.minimum(end[use], ceiling) for end in (path.low, path.high))
        band(axes, k, low, high, tone)
        alpha = np.where(path.alpha[use] <= ceiling, path.alpha[use], np.nan)
        line(axes, k, alpha, tone, label=f"{path.side} tail")
        index = chosen[path.side]
        said = f"{path.side} tail: α = {index.alpha:.3g} from {index.k} extremes"
        if index.estimable and index.alpha <= ceiling:
            dots(axes, [index.k], [index.alpha], tone, tips=[said], radius=6)
        elif index.estimable:
            rule(axes, y=ceiling, label=f"{said}, above this scale", tone=tone, under=True)
    axes.margins(x=0.02)
    rule(axes, y=2.0, label="below 2: no variance")
    rule(axes, y=1.0, label="below 1: no mean", under=True)
    name_axes(axes, x="number of extremes k", y="tail index α")
