"""Figures of results, each with its numbers; they are drawn only where they are shown."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.report.blocks import Figure, Tone, table
from tailproof.report.plots import (
    FEWEST,
    TONES,
    IntervalRow,
    band,
    dots,
    draw_bars,
    draw_folds,
    draw_hill,
    draw_intervals,
    line,
    rule,
)
from tailproof.report.text import Quantity, change_text, count, number, percent, signed

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.doors.compare import Comparison
    from tailproof.doors.decisive import Influence
    from tailproof.report.answers import ReadEstimate
    from tailproof.robust.parts import GainParts
    from tailproof.robust.pooling import PooledPath
    from tailproof.robust.tails import TailIndex, TailPath


def interval_row(
    name: str, value: float, ends: tuple[float, float] | None, tone: Tone, tip: str = ""
) -> IntervalRow:
    """Return a value with its interval, if there is one; `tip` is by default both."""
    low, high = ends or (math.nan, math.nan)
    tip = tip or f"{name}: {number(value)}, {number(low)} to {number(high)}"
    return IntervalRow(name=name, value=value, low=low, high=high, tone=tone, tip=tip)


def intervals_figure(
    rows: Sequence[IntervalRow], *, title: str, against: str = "", **parts: Any
) -> Figure:
    """Return a picture of intervals on one axis; `against` names the line at 0, if there is one.

    `parts` are those of the figure, whose description is by default the rows.
    """

    def draw(axes: Axes) -> None:
        draw_intervals(axes, rows, line=(0.0, against, "muted") if against else None)

    alt = f"{title}: {'; '.join(row.tip for row in rows)}."
    names = [row.name for row in rows]
    return Figure(**{"draw": draw, "alt": alt, "names": names, "x": title, **parts})


def value_figure(read: ReadEstimate, name: str, *, beside: str = "logged") -> Figure:
    """Return the value of the policy beside the logged one, or an empty row, with their intervals."""
    rows = [interval_row(name, read.value, read.ends, "main")]
    if beside == "logged":
        rows.append(interval_row(beside, read.logged_value, read.logged_ends, "second"))
    else:
        rows.append(IntervalRow(name=beside, tone="second"))
    return intervals_figure(
        rows,
        title=f"{read.quantity.title} ({percent(read.level)} interval)",
        key="value",
        caption="The value of the policy and of what was logged. Intervals of two values may overlap "
        "although their difference is clear: both come from the same rows.",
        legend=[("main", "policy"), ("second", "logged")],
        numbers=table(
            ("policy", "value", "from", "to"),
            [(row.name, row.value, *finite(row.low, row.high)) for row in rows],
        ),
    )


def parts_figure(read: ReadEstimate, parts: GainParts) -> Figure:
    """Return the relative change of how often and how large, with their intervals."""
    rows, numbers = [], []
    for part in (parts.often, parts.size):
        found, own = part.relative_interval(read.level), part.interval(read.level)
        changes = (part.relative, found.low, found.high)
        value, low, high = (100 * x for x in changes)
        change, least, most = map(change_text, changes)
        tip = f"{part.name}: {change}, {least} to {most}"
        rows.append(IntervalRow(name=part.name, value=value, low=low, high=high, tip=tip))
        gain, *ends = (part.gain, *read.quantity.ends(own.low, own.high))
        sign = read.quantity.shown(1.0) if part is parts.size else 1.0
        shown = (number(sign * part.policy), number(sign * part.logged), change)
        numbers.append((part.name, *shown, *finite(read.quantity.shown(gain), *ends)))

    return intervals_figure(
        rows,
        title="change from what was logged, %",
        against="as logged",
        key="parts",
        alt=f"{'; '.join(row.tip for row in rows)} ({percent(read.level)} intervals).",
        caption="How much more often something happens under the policy, and how much larger it is. "
        "The two parts of the difference add up to it; their intervals need no pooled tails.",
        numbers=table(
            ("part", "policy", "logged", "change", "part of the difference", "from", "to"), numbers
        ),
    )


def pooling_figure(path: PooledPath) -> Figure:
    """Return the gain against the size at which pooling begins, with a 90 % band."""
    starts = np.abs(path.starts)
    places = np.arange(len(starts))
    reach = 1.6449 * path.errors
    labels = [number(x) if math.isfinite(x) else "none" for x in starts]
    centre = float(path.shares @ places)

    def draw(axes: Axes) -> None:
        axes.margins(x=0.05, y=0.08)
        band(axes, places, path.gains - reach, path.gains + reach, "main")
        line(axes, places, path.gains, "main")
        tips = [f"{x}: {signed(g)}" for x, g in zip(labels, path.gains, strict=True)]
        dots(axes, places, path.gains, "main", tips=tips, radius=4)
        dots(axes, [centre], [path.gain], "warn", tips=[f"used: {signed(path.gain)}"], radius=7)
        rule(axes, y=0.0)
        axes.set_xticks(places, labels)

    return Figure(
        key="pooling",
        draw=draw,
        x="size at which pooling begins",
        y="gain over what was logged",
        height=250,
        alt=f"Gain by the size at which pooling begins, {labels[0]} to {labels[-1]}: "
        f"{', '.join(map(signed, path.gains))}; used: {signed(path.gain)}.",
        caption="On the left only how often extremes come counts, on the right every size as it is. "
        "The band is a 90 % interval if sizes beyond that point do not depend on the action. Where the "
        "path is level, sizes do not matter; where it bends beyond its band, they do.",
        legend=[("main", "gain"), ("warn", "average that is used")],
        numbers=table(
            ("pooling begins at", "gain", "standard error", "share"),
            [
                (x, g, *finite(e), percent(s))
                for x, g, e, s in zip(labels, path.gains, path.errors, path.shares, strict=True)
            ],
        ),
    )


def gain_rows(comparison: Comparison) -> list[IntervalRow]:
    """Return the difference of each candidate from the baseline, with its interval."""
    from tailproof.report.answers import read_candidate

    tones: dict[str, Tone] = {"better": "good", "worse": "warn"}
    rows = []
    for each in comparison.candidates:
        gain = read_candidate(each, comparison)
        tip = f"{each.name}: {signed(gain.change)}, {gain.verdict}"
        tone = tones.get(gain.verdict.word, "main")
        rows.append(interval_row(each.name, gain.change, gain.ends, tone, tip))
    return rows


def comparison_figure(comparison: Comparison) -> Figure:
    """Return the difference of each candidate from the baseline, with its interval."""
    from tailproof.report.answers import ReadEstimate

    rows, level = gain_rows(comparison), comparison.level
    reads = [ReadEstimate(each.estimate, level) for each in comparison.candidates]
    base = reads[0].quantity.shown(comparison.baseline_value)
    nowhere = (math.nan, math.nan)
    return intervals_figure(
        rows,
        title=f"difference in {reads[0].quantity.title}",
        against=comparison.baseline,
        key="gains",
        caption=f"The difference of each policy from the {comparison.baseline} ({number(base)}), with "
        f"bounds that hold together ({percent(level)} confidence on each side).",
        legend=[("good", "better"), ("main", "no difference shown"), ("warn", "worse")],
        numbers=table(
            ("policy", "value", "value from", "value to", "difference", "from", "to"),
            [
                (
                    row.name,
                    read.value,
                    *finite(*(read.ends or nowhere)),
                    *finite(row.value, row.low, row.high),
                )
                for row, read in zip(rows, reads, strict=True)
            ]
            + [(comparison.baseline, base, *(None,) * 5)],
        ),
    )


def fold_figure(read: ReadEstimate) -> Figure:
    """Return the sorted values of all folds, with the estimate as a line."""
    shown = read.quantity.shown
    values = np.sort([shown(value) for value in read.estimate.fold_values.tolist()])
    value = read.value

    def draw(axes: Axes) -> None:
        tips = [f"Fold value {number(each)}" for each in values]
        label = f"estimate {number(value)}"
        draw_folds(axes, values, value=value, interval=read.ends, label=label, tips=tips)

    return Figure(
        key="folds",
        draw=draw,
        x=read.quantity.title,
        height=60 + 18 * min(len(values), 12),
        left=16,
        alt=f"{count(len(values), 'fold value')} from {number(values[0])} to {number(values[-1])}; the "
        f"estimate is {number(value)}, the mean of the folds {number(values.mean())}.",
        caption=f"Each dot is the value from one fold of the episodes, sorted. Their range is "
        f"{number(float(np.ptp(values)))}. The dashed line is their mean: where it is far from the "
        f"estimate, a few folds pull it.",
        legend=[("main", "fold values and estimate"), ("warn", "mean of the folds")],
        numbers=table(("rank", "fold value"), enumerate(values.tolist(), start=1)),
    )


def returns_figure(
    returns: FloatArray,
    ids: AnyArray,
    *,
    unit: str = "",
    noun: str = "episode",
) -> Figure:
    """Return the return of every logged episode, in the order of the log."""
    n = len(returns)
    keep = _thinned(returns)
    wild = _is_wild(returns)

    def draw(axes: Axes) -> None:
        axes.margins(x=0.01)
        if (
            wild
        ):  # linear near zero, logarithmic beyond, so that small and extreme values are visible
            from matplotlib.ticker import AsinhLocator

            linear = float(np.quantile(np.abs(returns), 0.75)) or 1.0
            axes.set_yscale("asinh", linear_width=linear)
            axes.yaxis.set_major_locator(AsinhLocator(linear, numticks=7, base=0))
        tips = [f"{ids[i]}: {number(float(returns[i]))}" for i in keep]
        dots(axes, keep, returns[keep], "main", tips=tips, radius=2.2)
        if returns.min() < 0 < returns.max():
            rule(axes, y=0.0, dashed=False)

    largest = keep[np.argsort(-np.abs(returns[keep]), kind="stable")[:20]]
    beyond = " The axis is linear near zero and logarithmic beyond." if wild else ""
    thinned = f" {len(keep):,} of {n:,} are drawn." if len(keep) < n else ""
    low, high = float(returns.min()), float(returns.max())
    return Figure(
        key="returns",
        draw=draw,
        x=f"place of the {noun} in the rows shown",
        y=f"return ({unit})" if unit else "return",
        height=270,
        left=66,
        alt=f"Returns of {n:,} {noun}s from {number(low)} to {number(high)}, "
        f"median {number(float(np.median(returns)))}.",
        caption=f"The return of each logged {noun}, in the order of the log.{beyond}{thinned}",
        numbers=table(
            (noun, "return"),
            [(str(ids[i]), float(returns[i])) for i in largest],
            caption="The twenty largest by size.",
        ),
    )


def weights_figure(weights: FloatArray, *, effective: float) -> Figure:
    """Return the share of the total weight that the largest weights have."""
    size = np.sort(np.abs(weights))[::-1]
    total = float(size.sum()) or 1.0
    cumulative = np.cumsum(size) / total
    n = len(size)
    places = np.unique(np.geomspace(1, n, min(n, 120)).astype(int))
    shares = places / n
    rows = [
        (float(share), float(cumulative[max(math.ceil(share * n), 1) - 1]))
        for share in (0.001, 0.01, 0.05, 0.1, 0.25, 0.5, 1.0)
        if share * n >= 1
    ]
    tips = [f"the largest {percent(a)} carry {percent(b)}" for a, b in rows]

    def draw(axes: Axes) -> None:
        axes.set_xscale("log")
        axes.set_ylim(0, 102)
        axes.margins(x=0.02)
        line(axes, 100 * shares, 100 * shares, "muted", dashed=True)
        line(axes, 100 * shares, 100 * cumulative[places - 1], "main")
        dots(axes, [100 * a for a, _ in rows], [100 * b for _, b in rows], "main", tips=tips)

    return Figure(
        key="weights",
        draw=draw,
        x="largest weights, % of all rows",
        y="% of all weight",
        height=250,
        alt=f"Share of the total weight by the largest weights: {'; '.join(tips)}. "
        f"Effective sample size {number(effective, 3)} of {n:,}.",
        caption=f"How unevenly rows count for this policy. Equal weights would follow the dashed "
        f"line; {n:,} rows are worth {number(effective, 3)} of equal weight.",
        legend=[("main", "this log and policy"), ("muted", "equal weights")],
        numbers=table(
            ("largest weights", "their share of all weight"),
            [(percent(a), percent(b)) for a, b in rows],
        ),
    )


def decisive_figure(found: Influence, quantity: Quantity, noun: str) -> Figure:
    """Return how far each of the most decisive rows, episodes or groups moves a number."""
    shown, units = quantity.shown, found.units
    names = [each.label or each.name for each in units]
    effects = [shown(each.effect) for each in units]
    rows = any(each.row is not None for each in units)
    labels = any(each.label for each in units)
    places = ({noun: "label"} if labels else {}) | ({"row of the file": "row"} if rows else {})
    tips = [f"{each.name}: {signed(x)}" for each, x in zip(units, effects, strict=True)]
    return Figure(
        key="influence",
        draw=lambda axes: draw_bars(axes, names, [("main", effects, tips)]),
        x=f"effect on the {found.of}, {quantity.title}",
        names=names,
        alt=f"The {len(units)} {noun}s that move the {found.of} most; the first is {units[0].name}: "
        f"{signed(effects[0])}.",
        caption=f"How far each {noun} alone moves the {found.of}: with it, minus without it.",
        numbers=table(
            (*places, quantity.noun, "effect", "without it"),
            [
                (
                    *(getattr(each, name) for name in places.values()),
                    shown(each.reward),
                    effect,
                    shown(each.without),
                )
                for each, effect in zip(units, effects, strict=True)
            ],
            caption="Rows of the file are counted from 0." if rows else "",
        ),
    )


def share_figure(shares: Mapping[str, tuple[float, float]], *, most: int = 20) -> Figure:
    """Return how often the policy and the log take each action."""
    rows = sorted(shares.items(), key=lambda each: -max(each[1]))[:most]
    names = [name for name, _ in rows]
    series: list[tuple[Tone, list[float], list[str]]] = [("main", [], []), ("second", [], [])]
    for name, both in rows:
        for who, share, (_, lengths, tips) in zip(("policy", "log"), both, series, strict=True):
            lengths.append(100 * share)
            tips.append(f"{name}, {who}: {percent(share)}")
    said = "; ".join(f"{name} {percent(share)}" for name, (share, _) in rows)
    return Figure(
        key="actions",
        draw=lambda axes: draw_bars(axes, names, series),
        x="% of the logged states",
        names=names,
        row=32,
        alt=f"Shares of actions of the policy: {said}.",
        caption="How often the policy takes each action in the logged states, and how often the "
        "log took it.",
        legend=[("main", "the policy"), ("second", "the log")],
        numbers=table(
            ("action", "policy", "log"),
            [(name, *map(percent, share)) for name, share in shares.items()],
        ),
    )


def finite(*values: float) -> list[float | None]:
    """Return numbers for a table, with None for values that are not finite."""
    return [float(value) if math.isfinite(value) else None for value in values]


def _is_wild(values: FloatArray) -> bool:
    """Return whether a few extreme values would compress all others on a linear axis."""
    middle = float(np.quantile(np.abs(values - np.median(values)), 0.9))
    return float(np.abs(values - np.median(values)).max()) > 8 * middle


def _thinned(values: FloatArray, most: int = 1200) -> IntArray:
    """Return the points to draw: evenly by time, and more the larger."""
    n = len(values)
    if n <= most:
        return np.arange(n)
    ranks = np.geomspace(1, n, most // 2).astype(int) - 1  # without a gap below the largest
    largest = np.argsort(-np.abs(values - np.median(values)), kind="stable")[ranks]
    even = np.linspace(0, n - 1, most // 2).astype(int)
    return np.unique(np.concatenate([largest, even]))


def hill_figure(paths: Sequence[TailPath], chosen: Mapping[str, TailIndex]) -> Figure:
    """Return the tail index against the number of extremes, for each side."""
    rows = []
    for path in paths:
        use = path.k >= FEWEST
        k, alpha, low, high = (x[use] for x in (path.k, path.alpha, path.low, path.high))
        for i in np.unique(np.geomspace(1, len(k), 8).astype(int)) - 1 if len(k) else ():
            rows.append((path.side, int(k[i]), *finite(alpha[i], low[i], high[i])))
    said = "; ".join(str(chosen[path.side]) for path in paths)
    return Figure(
        key="hill",
        draw=lambda axes: draw_hill(axes, paths, chosen),
        x="number of extremes k",
        y="tail index α",
        alt=f"Hill plot. {said}.",
        caption="Hill's estimate of each tail's index against the number of extremes that it "
        "uses, with its interval; the dot is the number that was chosen. A level stretch is a power "
        "tail; a curve that climbs towards small k is a lighter tail.",
        legend=[(TONES[path.side], f"{path.side} tail") for path in paths],
        numbers=table(("tail", "extremes k", "index", "from", "to"), rows),
    )


def survival_figure(x: FloatArray, chosen: Sequence[TailIndex], *, what: str = "reward") -> Figure:
    """Return P(|x − median| > d) against the distance d, on log-log axes."""
    centre, n = float(np.median(x)), len(x)
    sides = []
    for index in chosen:
        distance = np.sort(x - centre if index.side == "right" else centre - x)
        distance = distance[distance > 0][::-1]
        if len(distance):
            sides.append((index, distance))
    every = np.concatenate([d for _, d in sides]) if sides else np.array([1.0, 10.0])
    least = float(np.quantile(every, 0.25))

    def draw(axes: Axes) -> None:
        axes.set(xscale="log", yscale="log", ylim=(0.5 / n, 1.0))
        axes.margins(x=0.03)
        for index, distance in sides:
            _draw_tail(axes, index, distance, least, centre, n)

    return Figure(
        key="survival",
        draw=draw,
        x=f"distance of {what} from its median",
        y="share of rows beyond",
        left=70,
        alt=f"Survival function of {what}, both tails, on logarithmic axes, {n:,} rows. "
        + " ".join(f"{index}." for index in chosen),
        caption="A straight line on these axes is a power tail, and its slope is minus the index "
        "(dashed, as estimated). A curve that bends down is a lighter tail.",
        legend=[(TONES[index.side], f"{index.side} tail") for index, _ in sides],
        numbers=table(
            ("tail", "rank", "distance from the median", "share beyond"),
            [
                (index.side, place, float(distance[place - 1]), percent(place / n))
                for index, distance in sides
                for place in (1, 2, 5, 10, 50, 100, 500, 1000)
                if place <= len(distance)
            ],
        ),
    )


def _draw_tail(
    axes: Axes, index: TailIndex, distance: FloatArray, least: float, centre: float, n: int
) -> None:
    """Draw the share of rows beyond each distance, and the estimated power tail."""
    tone = TONES[index.side]
    places = np.unique(np.geomspace(1, len(distance), 160).astype(int))
    places = places[distance[places - 1] >= least]
    if not len(places):
        return
    at, share = distance[places - 1], places / n
    tips = [
        f"{percent(float(s))} lie beyond {number(float(d))}" for d, s in zip(at, share, strict=True)
    ]
    dots(axes, at, share, tone, tips=tips, radius=2.2)
    start = abs(index.threshold - centre)
    if index.estimable and math.isfinite(index.alpha) and start > 0:
        ends = np.array([start, float(distance[0])])
        beyond = np.maximum(index.k / n * (ends / start) ** -index.alpha, 0.5 / n)
        line(axes, ends, beyond, tone, dashed=True)
