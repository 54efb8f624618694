"""Figures of tails: Hill's plot, the survival function, residuals over time."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.plotting.marks import dots, line, name_axes, page_axes
from tailproof.plotting.tails import FEWEST, TONES, draw_hill
from tailproof.report.blocks import Figure
from tailproof.report.figures import finite
from tailproof.report.tables import table
from tailproof.report.text import number, percent
from tailproof.statistics.tails.index import TailIndex, TailPath
from tailproof.statistics.tails.residuals import ResidualMonitor


def hill_figure(paths: Sequence[TailPath], chosen: Mapping[str, TailIndex]) -> Figure:
    """Return the tail index against the number of extremes, for each side."""
    axes = page_axes(280)
    draw_hill(axes, paths, chosen)
    rows = []
    for path in paths:
        use = path.k >= FEWEST
        k, alpha, low, high = (x[use] for x in (path.k, path.alpha, path.low, path.high))
        for i in np.unique(np.geomspace(1, len(k), 8).astype(int)) - 1 if len(k) else ():
            rows.append((path.side, int(k[i]), *finite(alpha[i], low[i], high[i])))
    said = "; ".join(str(chosen[path.side]) for path in paths)
    return Figure.drawn(
        axes,
        f"Hill plot. {said}.",
        key="hill",
        caption="Hill's estimate of each tail's index against the number of extremes that it "
        "uses, with its interval; the dot is the number that was chosen. A level stretch is a power "
        "tail; a curve that climbs towards small k is a lighter tail.",
        legend=[(TONES[path.side], f"{path.side} tail") for path in paths],
        numbers=table(("tail", "extremes k", "α", "low", "high"), rows),
    )


def survival_figure(x: FloatArray, chosen: Sequence[TailIndex], *, what: str = "reward") -> Figure:
    """Return P(|x − median| > d) against the distance d, on log-log axes."""
    centre = float(np.median(x))
    n = len(x)
    drawn = []
    for index in chosen:
        distance = np.sort(x - centre if index.side == "right" else centre - x)
        distance = distance[distance > 0][::-1]
        if len(distance):
            drawn.append((index, distance))
    every = np.concatenate([d for _, d in drawn]) if drawn else np.array([1.0, 10.0])
    low = float(np.quantile(every, 0.25))
    axes = page_axes(280, left=70)
    axes.set(xscale="log", yscale="log", ylim=(0.5 / n, 1.0))
    axes.margins(x=0.03)
    rows = []
    for index, distance in drawn:
        tone = TONES[index.side]
        places = np.unique(np.geomspace(1, len(distance), 160).astype(int))
        places = places[distance[places - 1] >= low]
        if not len(places):
            continue
        at, share = distance[places - 1], places / n
        tips = [
            f"{percent(float(s))} lie beyond {number(float(d))}"
            for d, s in zip(at, share, strict=True)
        ]
        dots(axes, at, share, tone, tips=tips, radius=2.2)
        if index.estimable and math.isfinite(index.alpha):
            start = abs(index.threshold - centre)
            ends = np.array([start, float(distance[0])])
            if start > 0:
                beyond = np.maximum(index.k / n * (ends / start) ** -index.alpha, 0.5 / n)
                line(axes, ends, beyond, tone, dashed=True)
        for place in (1, 2, 5, 10, 50, 100, 500, 1000):
            if place <= len(distance):
                rows.append((index.side, place, float(distance[place - 1]), percent(place / n)))
    name_axes(axes, x=f"distance of the {what} from its median", y="share of rows beyond")
    return Figure.drawn(
        axes,
        f"Survival function of the {what}, both tails, on logarithmic axes, {n:,} rows. "
        + " ".join(f"{index}." for index in chosen),
        key="survival",
        caption="A straight line on these axes is a power tail, and its slope is −α (dashed, as "
        "estimated). A curve that bends down is a lighter tail.",
        legend=[(TONES[index.side], f"{index.side} tail") for index, _ in drawn],
        numbers=table(("tail", "rank", "distance from the median", "share beyond"), rows),
    )


def residual_figure(monitor: ResidualMonitor, worst: Sequence[tuple[int, str, float]]) -> Figure:
    """Return the scale of Bellman residuals per window, and the worst rows: (row, id, δ)."""
    starts, scale = monitor.starts, monitor.scale
    sizes = [abs(delta) for _, _, delta in worst]
    axes = page_axes(260, left=66)
    axes.set_yscale("log")
    axes.margins(x=0.01)
    line(axes, starts + monitor.window / 2, np.where(scale > 0, scale, np.nan), "main")
    dots(
        axes,
        [row for row, _, _ in worst],
        [size if size > 0 else math.nan for size in sizes],
        "warn",
        tips=[f"{name}, row {row}: δ = {delta:+.4g}" for row, name, delta in worst],
        radius=5,
    )
    name_axes(axes, x="row of the log", y="size of the residual")
    return Figure.drawn(
        axes,
        f"Residual scale over {len(starts)} windows, from {number(float(scale.min()))} to "
        f"{number(float(scale.max()))}; the largest residual is "
        f"{number(worst[0][2]) if worst else 'none'}.",
        key="residuals",
        caption=f"The typical size of what the plain estimate does not explain of a row (its MAD in "
        f"windows of {monitor.window:,} rows) and the worst ones. Over all rows the standard deviation "
        f"is {number(monitor.ratio, 3)} times the MAD; about 1 would be Gaussian.",
        legend=[("main", "typical size"), ("warn", "worst rows")],
        numbers=table(("row", "episode", "residual"), worst),
    )
