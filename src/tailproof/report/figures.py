"""The pictures of an evaluation: folds, intervals, K-path, episodes, influence, weights."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.report.answers import Answer, Offer
from tailproof.report.blocks import Figure
from tailproof.report.plot import LETTER, Plot, Tone, legend, shortened
from tailproof.report.scales import Kind, Scale, scale_over
from tailproof.report.tables import table
from tailproof.report.text import count, number, percent

ROW = 26.0  # height of a row in pictures that have a row for each thing


def fold_figure(found: Answer) -> Figure:
    """Return the value of every fold, sorted, with the estimate across them."""
    estimate = found.estimate
    values = np.sort(found.estimate.fold_values)
    mean = float(values.mean())
    shown = [*values, estimate.value, mean]
    plot = Plot(
        x=scale_over(shown),
        x_title="value of the policy",
        height=58 + 18 * min(len(values), 12),
        left=16,
        top=26,
    )
    if found.interval is not None:
        low, high = plot.px(found.interval.low), plot.px(found.interval.high)
        plot.bar(
            low, plot.top, high - low, plot.height - plot.top - plot.bottom, "main", style="soft"
        )
    space = (plot.height - plot.top - plot.bottom) / len(values)
    for i, value in enumerate(values):
        place = plot.height - plot.bottom - (i + 0.5) * space
        plot.dot(plot.px(value), place, "main", tip=f"Fold value {number(value)}", radius=5)
    plot.rule(x=estimate.value, label=f"estimate {number(estimate.value)}", tone="main", style="")
    if abs(plot.px(mean) - plot.px(estimate.value)) > 3:
        plot.segment(
            plot.px(mean),
            plot.top,
            plot.px(mean),
            plot.height - plot.bottom,
            "warn",
            style="dashed",
        )
    far = number(float(values[-1] - values[0]))
    alt = (
        f"{count(len(values), 'fold value')} from {number(values[0])} to {number(values[-1])}; the "
        f"estimate is {number(estimate.value)}, the mean of the folds {number(mean)}."
    )
    return Figure(
        key="folds",
        caption=f"Each dot is the value that one fold of the episodes gives, sorted. They spread "
        f"over {far}. The dashed line is their mean: where it stands apart, a few folds pull it.",
        svg=plot.svg(alt),
        legend=legend([("main", "fold values and estimate"), ("warn", "mean of the folds")]),
        numbers=table(("rank", "fold value"), enumerate(values.tolist(), start=1)),
    )


def interval_figure(found: Answer, *, truth: float | None = None) -> Figure:
    """Return every interval and bound on offer, one below the other."""
    offers = found.offers
    value = found.estimate.value
    ends = [end for offer in offers for end in (offer.low, offer.high)]
    plot = rows_plot(
        [*ends, value, truth if truth is not None else value], [o.name for o in offers]
    )
    for i, offer in enumerate(offers):
        y = plot.top + (i + 0.5) * ROW
        plot.text(plot.left - 10, y + 4, offer.name, anchor="end", style="name")
        if not offer.exists:
            plot.text(plot.left + 8, y + 4, "not reachable with these folds")
            continue
        quoted = offer in (found.interval, found.bound)
        _whisker(plot, offer, y, "main" if quoted else "second")
    plot.rule(x=value, label=f"estimate {number(value)}", tone="main", style="")
    if truth is not None:
        plot.rule(x=truth, label=f"truth {number(truth)}", tone="truth")
    said = "; ".join(
        f"{offer.name} {number(offer.low)} to {number(offer.high)}"
        for offer in offers
        if offer.exists and not offer.is_bound
    )
    return Figure(
        key="intervals",
        caption="Every interval that these folds allow, with the level that it really has. "
        "An arrow is a lower bound: nothing is claimed above it.",
        svg=plot.svg(f"Intervals: {said or 'none'}; the estimate is {number(value)}."),
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
    plot = Plot(
        x=scale_over(folds, kind="log", room=0.05),
        y=scale_over([*values, *lows, *highs], room=0.08),
        x_title="number of folds K",
        y_title="estimate",
        height=250,
    )
    plot.band(folds, lows, highs, "main")
    plot.line(folds, values, "main")
    tips = [f"K = {k}: {number(value)}" for k, value in path.items()]
    plot.dots(folds, values, "main", tips=tips, radius=5)
    if used in path:
        plot.dots([used], [path[used]], "warn", tips=[f"used: K = {used}"], radius=7)
    drift = max(values) - min(values)
    return Figure(
        key="k-path",
        caption="K = 1 is the plain average. A path that levels off says that the folds err on both "
        "sides alike; one that keeps drifting says that the rewards are skewed, and that a large K is "
        "biased. The band is two standard errors wide on either side.",
        svg=plot.svg(
            f"The estimate for {', '.join(map(str, folds))} folds: "
            f"{', '.join(map(number, values))}; it moves over {number(drift)}."
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
    kind: Kind = "signed-log" if _is_wild(returns) else "linear"
    plot = Plot(
        x=scale_over([0, n - 1], room=0.01),
        y=scale_over(returns, kind=kind),
        x_title="episode, in the order of the log",
        y_title=f"return{f' ({unit})' if unit else ''}",
        height=270,
        left=66,
    )
    if plot.y is not None and plot.y.low < 0 < plot.y.high:
        plot.rule(y=0.0, style="")
    for i in keep:
        tone: Tone = "warn" if special[i] else "main"
        tip = f"{ids[i]}: {number(float(returns[i]))}"
        size = 4.5 if special[i] else 2.2
        plot.dot(plot.px(i), plot.py(float(returns[i])), tone, tip=tip, radius=size)
    largest = keep[np.argsort(-np.abs(returns[keep]), kind="stable")[:20]]
    wild = " The axis is linear near zero and logarithmic beyond." if kind == "signed-log" else ""
    thinned = f" {len(keep):,} of {n:,} are drawn." if len(keep) < n else ""
    low, high = float(returns.min()), float(returns.max())
    return Figure(
        key="returns",
        caption=f"What each logged episode earned.{wild}{thinned}",
        svg=plot.svg(
            f"Returns of {n:,} episodes from {number(low)} to {number(high)}, "
            f"median {number(float(np.median(returns)))}."
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
    plot = Plot(
        x=scale_over(100 * shares, kind="log", room=0.02),
        y=Scale(0, 100),
        x_title="largest weights, % of all rows",
        y_title="% of all weight",
        height=250,
    )
    plot.line(100 * shares, 100 * shares, "muted", style="dashed")
    plot.line(100 * shares, 100 * cumulative[places - 1], "main")
    rows = [
        (float(share), float(cumulative[max(math.ceil(share * n), 1) - 1]))
        for share in (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
        if share * n >= 1
    ]
    tips = [f"the largest {percent(a)} carry {percent(b)}" for a, b in rows]
    plot.dots([100 * a for a, _ in rows], [100 * b for _, b in rows], "main", tips=tips)
    return Figure(
        key="weights",
        caption=f"How unevenly rows count for this policy. Equal weights would follow the dashed "
        f"line; {n:,} rows are worth {number(effective, 3)} of equal weight.",
        svg=plot.svg(
            f"Share of the total weight by the largest weights: {'; '.join(tips)}. "
            f"Effective sample size {number(effective, 3)} of {n:,}."
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
    effects = [effect for _, *both in rows for effect in both]
    plot = rows_plot([0.0, *effects], names, room=0.04)
    plot.x_title = "effect on the estimate"
    zero = plot.px(0.0)
    for i, (name, effect, on_median) in enumerate(rows):
        y = plot.top + i * ROW
        plot.text(plot.left - 10, y + ROW / 2 + 4, shortened(name, 24), anchor="end", style="name")
        for offset, value, tone, what in (
            (4, effect, "warn", plain),
            (14, on_median, "good", robust),
        ):
            left, right = sorted((zero, plot.px(value)))
            tip = f"{name}: {value:+.4g} on the {what}"
            plot.bar(left, y + offset, max(right - left, 1), 8, tone, tip=tip)  # type: ignore[arg-type]
    plot.segment(zero, plot.top, zero, plot.height - plot.bottom, "muted")
    return Figure(
        key="influence",
        caption="How far each episode alone moves the answer: the estimate with it, minus the "
        "estimate without it.",
        svg=plot.svg(
            f"The {len(rows)} most influential episodes; the first is {names[0]}, which moves the "
            f"{plain} by {number(rows[0][1])} and the {robust} by {number(rows[0][2])}."
            if rows
            else "No episode can be left out."
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
    truths: Mapping[str, float] | None = None,
) -> Figure:
    """Return a row for each candidate: its name, value and interval (NaN where there is none)."""
    truths = truths or {}
    numbers = [value for _, *values in rows for value in values] + list(truths.values())
    if line is not None:
        numbers.append(line[0])
    plot = rows_plot(numbers, [row[0] for row in rows])
    plot.x_title = x_title
    for i, (name, value, low, high) in enumerate(rows):
        y = plot.top + (i + 0.5) * ROW
        plot.text(plot.left - 10, y + 4, shortened(name, 24), anchor="end", style="name")
        if math.isfinite(low):
            offer = Offer(name=name, low=low, high=high, level=1, requested=1, note="")
            _whisker(plot, offer, y, "main")
        plot.dot(plot.px(value), y, "main", tip=f"{name}: {number(value)}", radius=5)
        if name in truths:
            plot.diamond(plot.px(truths[name]), y, "truth", tip=f"truth: {number(truths[name])}")
    if line is not None:
        plot.rule(x=line[0], label=line[1], tone="warn")
    entries: list[tuple[Tone, str]] = [
        (
            "main",
            "estimate and lower bound"
            if all(high == math.inf for *_, high in rows)
            else "estimate and interval",
        )
    ]
    if truths:
        entries.append(("truth", "truth"))
    columns = ["name", "estimate", "low", "high", *(["truth"] if truths else [])]
    return Figure(
        key=key,
        caption=caption,
        svg=plot.svg(
            f"{x_title}: " + "; ".join(f"{name} {number(value)}" for name, value, *_ in rows) + "."
        ),
        legend=legend(entries),
        numbers=table(
            columns,
            [
                (
                    name,
                    value,
                    *(end if math.isfinite(end) else None for end in (low, high)),
                    *([truths.get(name)] if truths else []),
                )
                for name, value, low, high in rows
            ],
        ),
    )


def rows_plot(values: Sequence[float], names: Sequence[str], *, room: float = 0.08) -> Plot:
    """Return axes with a row for each name and room for the names."""
    longest = max((len(shortened(name, 24)) for name in names), default=0)
    return Plot(
        x=scale_over(values, room=room),
        x_title="value of the policy",
        height=26 + 46 + ROW * len(names),
        left=26 + LETTER * longest,
        top=26,
    )


def _whisker(plot: Plot, offer: Offer, y: float, tone: Tone) -> None:
    left = plot.px(offer.low)
    right = plot.width - plot.right if offer.is_bound else plot.px(offer.high)
    level = "" if offer.level == 1 else f" at {percent(offer.level)}"
    ends = (
        f"above {number(offer.low)}"
        if offer.is_bound
        else f"{number(offer.low)} to {number(offer.high)}"
    )
    plot.bar(left, y - 4, right - left, 8, tone, tip=f"{offer.name}: {ends}{level}", style="range")
    plot.segment(left, y - 7, left, y + 7, tone)
    if offer.is_bound:
        plot.segment(right - 6, y - 5, right, y, tone)
        plot.segment(right - 6, y + 5, right, y, tone)
    else:
        plot.segment(right, y - 7, right, y + 7, tone)


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
