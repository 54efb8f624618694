"""The pictures of an evaluation: folds, intervals, K-path, episodes, influence, weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape

import numpy as np
from matplotlib.ticker import AsinhLocator

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.plotting.marks import Tone, band, dots, line, name_axes, page_axes, rule
from tailproof.plotting.rows import Row, draw_bars, draw_folds, draw_intervals, rows_axes
from tailproof.plotting.svg import as_svg
from tailproof.report.answers import Answer, Offer
from tailproof.report.blocks import Figure
from tailproof.report.tables import table
from tailproof.report.text import count, number, percent


def fold_figure(found: Answer) -> Figure:
    """Return the value of every fold, sorted, with the estimate across them."""
    estimate = found.estimate
    values = np.sort(found.estimate.fold_values)
    mean = float(values.mean())
    axes = page_axes(58 + 18 * min(len(values), 12), left=16, top=26)
    draw_folds(
        axes,
        values,
        value=estimate.value,
        interval=None if found.interval is None else (found.interval.low, found.interval.high),
        label=f"estimate {number(estimate.value)}",
        tips=[f"Fold value {number(value)}" for value in values],
    )
    name_axes(axes, x="value of the policy")
    far = number(float(values[-1] - values[0]))
    alt = (
        f"{count(len(values), 'fold value')} from {number(values[0])} to {number(values[-1])}; the "
        f"estimate is {number(estimate.value)}, the mean of the folds {number(mean)}."
    )
    return Figure(
        key="folds",
        caption=f"Each dot is the value that one fold of the episodes gives, sorted. They spread "
        f"over {far}. The dashed line is their mean: where it stands apart, a few folds pull it.",
        svg=as_svg(axes, alt),
        legend=legend([("main", "fold values and estimate"), ("warn", "mean of the folds")]),
        numbers=table(("rank", "fold value"), enumerate(values.tolist(), start=1)),
    )


def interval_figure(found: Answer, *, truth: float | None = None) -> Figure:
    """Return every interval and bound on offer, one below the other."""
    offers = found.offers
    value = found.estimate.value
    axes = rows_axes([offer.name for offer in offers])
    quoted = (found.interval, found.bound)
    rows = [
        Row(
            name=offer.name,
            low=offer.low,
            high=offer.high,
            tone="main" if offer in quoted else "second",
            tip=_tip(offer),
            note="" if offer.exists else "not reachable with these folds",
        )
        for offer in offers
    ]
    draw_intervals(axes, rows, line=(value, f"estimate {number(value)}", "main"))
    if truth is not None:
        rule(axes, x=truth, label=f"truth {number(truth)}", tone="truth")
    name_axes(axes, x="value of the policy")
    said = "; ".join(
        f"{offer.name} {number(offer.low)} to {number(offer.high)}"
        for offer in offers
        if offer.exists and not offer.is_bound
    )
    return Figure(
        key="intervals",
        caption="Every interval that these folds allow, with the level that it really has. "
        "An arrow is a lower bound: nothing is claimed above it.",
        svg=as_svg(axes, f"Intervals: {said or 'none'}; the estimate is {number(value)}."),
        legend=legend([("main", "quoted above"), ("second", "alternatives")]),
        numbers=table(
            ("kind", "low", "high", "level", "what it assumes, or why there is none"),
            [
                (
                    offer.name,
                    offer.low if offer.exists else None,
                    None if offer.is_bound or not offer.exists else offer.high,
                    percent(offer.level),
                    offer.note,
                )
                for offer in offers
            ],
        ),
    )


def k_path_figure(
    path: Mapping[int, float], *, used: int, errors: Sequence[float] | None = None
) -> Figure:
    """Return the estimate against the number of folds, within two standard errors if given."""
    folds, values = list(path), list(path.values())
    known = errors if errors is not None else [math.nan] * len(values)
    lows = [value - 2 * error for value, error in zip(values, known, strict=True)]
    highs = [value + 2 * error for value, error in zip(values, known, strict=True)]
    axes = page_axes(250)
    axes.set_xscale("log")
    axes.margins(x=0.05, y=0.08)
    band(axes, folds, lows, highs, "main")
    line(axes, folds, values, "main")
    tips = [f"K = {k}: {number(value)}" for k, value in path.items()]
    dots(axes, folds, values, "main", tips=tips, radius=5)
    if used in path:
        dots(axes, [used], [path[used]], "warn", tips=[f"used: K = {used}"], radius=7)
    name_axes(axes, x="number of folds K", y="estimate")
    axes.set_xticks(folds)
    drift = max(values) - min(values)
    return Figure(
        key="k-path",
        caption="K = 1 is the plain average. A path that levels off says that the folds err on both "
        "sides alike; one that keeps drifting says that the rewards are skewed, and that a large K is "
        "biased. The band is two standard errors wide on either side.",
        svg=as_svg(
            axes,
            f"The estimate for {', '.join(map(str, folds))} folds: "
            f"{', '.join(map(number, values))}; it moves over {number(drift)}.",
        ),
        legend=legend([("main", "estimate"), ("warn", "number of folds that was used")]),
        numbers=table(
            ("folds K", "estimate", "standard error"),
            [
                (k, value, error if math.isfinite(error) else None)
                for (k, value), error in zip(path.items(), known, strict=True)
            ],
        ),
    )


def returns_figure(
    returns: FloatArray, ids: AnyArray, *, marked: Sequence[object] = (), unit: str = ""
) -> Figure:
    """Return what every logged episode earned, in the order of the log."""
    n = len(returns)
    special = np.zeros(n, dtype=bool)
    for each in marked:
        special |= ids == each
    keep = _thinned(returns, special)
    wild = _is_wild(returns)
    axes = page_axes(270, left=66)
    axes.margins(x=0.01)
    if wild:  # linear near zero, logarithmic beyond: a storm and a calm day fit one picture
        width = float(np.quantile(np.abs(returns), 0.75)) or 1.0
        axes.set_yscale("asinh", linear_width=width)
        axes.yaxis.set_major_locator(AsinhLocator(width, numticks=7, base=0))
    groups: list[tuple[Tone, float, IntArray]] = [
        ("main", 2.2, keep[~special[keep]]),
        ("warn", 4.5, keep[special[keep]]),
    ]
    for tone, radius, rows in groups:
        tips = [f"{ids[i]}: {number(float(returns[i]))}" for i in rows]
        dots(axes, rows, returns[rows], tone, tips=tips, radius=radius)
    if returns.min() < 0 < returns.max():
        rule(axes, y=0.0, dashed=False)
    name_axes(
        axes,
        x="episode, in the order of the log",
        y=f"return{f' ({unit})' if unit else ''}",
    )
    largest = keep[np.argsort(-np.abs(returns[keep]), kind="stable")[:20]]
    beyond = " The axis is linear near zero and logarithmic beyond." if wild else ""
    thinned = f" {len(keep):,} of {n:,} are drawn." if len(keep) < n else ""
    low, high = float(returns.min()), float(returns.max())
    return Figure(
        key="returns",
        caption=f"What each logged episode earned.{beyond}{thinned}",
        svg=as_svg(
            axes,
            f"Returns of {n:,} episodes from {number(low)} to {number(high)}, "
            f"median {number(float(np.median(returns)))}.",
        ),
        legend=legend(
            [("main", "episodes"), ("warn", "most influential")] if special.any() else []
        ),
        numbers=table(
            ("episode", "return"),
            [(str(ids[i]), float(returns[i])) for i in largest],
            caption="The twenty largest by size.",
        ),
    )


def weights_figure(weights: FloatArray, *, effective: float) -> Figure:
    """Return how much of the total weight the largest weights carry."""
    size = np.sort(np.abs(weights))[::-1]
    total = float(size.sum()) or 1.0
    cumulative = np.cumsum(size) / total
    n = len(size)
    places = np.unique(np.geomspace(1, n, min(n, 120)).astype(int))
    shares = places / n
    axes = page_axes(250)
    axes.set_xscale("log")
    axes.set_ylim(0, 102)
    axes.margins(x=0.02)
    line(axes, 100 * shares, 100 * shares, "muted", dashed=True)
    line(axes, 100 * shares, 100 * cumulative[places - 1], "main")
    rows = [
        (float(share), float(cumulative[max(math.ceil(share * n), 1) - 1]))
        for share in (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
        if share * n >= 1
    ]
    tips = [f"the largest {percent(a)} carry {percent(b)}" for a, b in rows]
    dots(axes, [100 * a for a, _ in rows], [100 * b for _, b in rows], "main", tips=tips)
    name_axes(axes, x="largest weights, % of all rows", y="% of all weight")
    return Figure(
        key="weights",
        caption=f"How unevenly rows count for this policy. Equal weights would follow the dashed "
        f"line; {n:,} rows are worth {number(effective, 3)} of equal weight.",
        svg=as_svg(
            axes,
            f"Share of the total weight by the largest weights: {'; '.join(tips)}. "
            f"Effective sample size {number(effective, 3)} of {n:,}.",
        ),
        legend=legend([("main", "this log and policy"), ("muted", "equal weights")]),
        numbers=table(
            ("largest weights", "their share of all weight"),
            [(percent(a), percent(b)) for a, b in rows],
        ),
    )


def influence_figure(
    rows: Sequence[tuple[str, float, float]], *, plain: str, robust: str
) -> Figure:
    """Return the effect of the most influential episodes: (id, on the average, on the median)."""
    names = [name for name, _, _ in rows]
    axes = rows_axes(names)
    both: tuple[tuple[Tone, str, list[float]], ...] = (
        ("warn", plain, [effect for _, effect, _ in rows]),
        ("good", robust, [effect for _, _, effect in rows]),
    )
    draw_bars(
        axes,
        names,
        [
            (
                [tone] * len(rows),
                effects,
                [f"{row[0]}: {x:+.4g} on the {what}" for row, x in zip(rows, effects, strict=True)],
            )
            for tone, what, effects in both
        ],
    )
    name_axes(axes, x="effect on the estimate")
    return Figure(
        key="influence",
        caption="How far each episode alone moves the answer: the estimate with it, minus the "
        "estimate without it.",
        svg=as_svg(
            axes,
            f"The {len(rows)} most influential episodes; the first is {names[0]}, which moves the "
            f"{plain} by {number(rows[0][1])} and the {robust} by {number(rows[0][2])}."
            if rows
            else "No episode can be left out.",
        ),
        legend=legend([("warn", plain), ("good", robust)]),
        numbers=table(("episode", f"effect on the {plain}", f"effect on the {robust}"), rows),
    )


def forest_figure(
    rows: Sequence[tuple[str, float, float, float]],
    *,
    key: str,
    caption: str,
    x_title: str,
    line: tuple[float, str] | None = None,
) -> Figure:
    """Return a row for each candidate: its name, value and interval (NaN where there is none)."""
    axes = rows_axes([row[0] for row in rows])
    drawn = [
        Row(name=name, value=value, low=low, high=high, tip=f"{name}: {number(value)}")
        for name, value, low, high in rows
    ]
    draw_intervals(axes, drawn, line=None if line is None else (*line, "warn"))
    name_axes(axes, x=x_title)
    bounds = all(high == math.inf for *_, high in rows)
    said = "estimate and lower bound" if bounds else "estimate and interval"
    return Figure(
        key=key,
        caption=caption,
        svg=as_svg(
            axes,
            f"{x_title}: " + "; ".join(f"{name} {number(value)}" for name, value, *_ in rows) + ".",
        ),
        legend=legend([("main", said)]),
        numbers=table(
            ("name", "estimate", "low", "high"),
            [
                (name, value, *(end if math.isfinite(end) else None for end in ends))
                for name, value, *ends in rows
            ],
        ),
    )


def legend(entries: Sequence[tuple[Tone, str]]) -> str:
    """Return what the tones of a picture mean, as HTML."""
    items = "".join(
        f'<li><span class="key {tone}" aria-hidden="true"></span>{escape(text)}</li>'
        for tone, text in entries
    )
    return f'<ul class="legend">{items}</ul>'


def _tip(offer: Offer) -> str:
    level = f" at {percent(offer.level)}"
    if offer.is_bound:
        return f"{offer.name}: above {number(offer.low)}{level}"
    return f"{offer.name}: {number(offer.low)} to {number(offer.high)}{level}"


def _is_wild(values: FloatArray) -> bool:
    """Return whether a linear axis would show a few points and squash the others."""
    middle = float(np.quantile(np.abs(values - np.median(values)), 0.9))
    return float(np.abs(values - np.median(values)).max()) > 8 * middle


def _thinned(values: FloatArray, special: BoolArray, most: int = 1500) -> IntArray:
    """Return which points to draw: the marked and the largest ones, and evenly spaced others."""
    n = len(values)
    if n <= most:
        return np.arange(n)
    largest = np.argsort(-np.abs(values - np.median(values)), kind="stable")[: most // 3]
    even = np.linspace(0, n - 1, most // 2).astype(int)
    return np.unique(np.concatenate([largest, even, np.flatnonzero(special)]))
