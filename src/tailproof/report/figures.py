"""Figures of results, each with its table."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
from markupsafe import Markup
from matplotlib.ticker import AsinhLocator

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.report.answers import Answer, ends_text, influence_table
from tailproof.report.plots import (
    FEWEST,
    TONES,
    IntervalRow,
    Tone,
    as_svg,
    band,
    dots,
    draw_bars,
    draw_folds,
    draw_gains,
    draw_hill,
    draw_intervals,
    line,
    name_axes,
    page_axes,
    rows_axes,
    rule,
)
from tailproof.report.text import ResultTable, count, minus, number, percent, table
from tailproof.robust.intervals import Bound, Interval
from tailproof.robust.tails import ResidualMonitor, TailIndex, TailPath

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.doors.compare import Comparison
    from tailproof.doors.diagnose import Diagnosis, KPath


Mood = Literal["plain", "good", "warn"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture with its description and its numbers.

    Attributes
    ----------
    key
        Its anchor on the page.
    caption
        A sentence on how to read it.
    svg
        Markup from `as_svg`.
    numbers
        The table of the plotted numbers, collapsed by default.
    legend
        The meaning of the picture's tones.
    """

    key: str
    caption: str
    svg: str
    numbers: ResultTable
    legend: Sequence[tuple[Tone, str]] = ()

    @classmethod
    def drawn(cls, axes: Axes, alt: str, **rest: Any) -> Figure:
        """Return the figure of these axes; `alt` describes it in one or two sentences."""
        return cls(svg=as_svg(axes, alt), **rest)

    def __html__(self) -> str:
        keys = Markup("").join(
            Markup('<li><span class="key {}" aria-hidden="true"></span>{}</li>').format(*each)
            for each in self.legend
        )
        legend = Markup('<ul class="legend">{}</ul>').format(keys) if keys else ""
        return Markup(
            '<figure id="figure-{}">{}<div class="scroll">{}</div><figcaption>{}</figcaption>{}'
            "</figure>"
        ).format(self.key, legend, Markup(self.svg), self.caption, Wide(self.numbers, "Numbers"))


@dataclass(frozen=True)
class Fact:
    """A small card with a number and its name."""

    name: str
    value: str
    note: str = ""
    mood: Mood = "plain"

    def __html__(self) -> str:
        note = Markup("<small>{}</small>").format(minus(self.note)) if self.note else ""
        return Markup('<div class="fact {}"><dt>{}</dt><dd>{}{}</dd></div>').format(
            self.mood, self.name, minus(self.value), note
        )


@dataclass(frozen=True)
class Prose:
    """A paragraph of plain text."""

    text: str

    def __html__(self) -> str:
        return Markup("<p>{}</p>").format(minus(self.text))


@dataclass(frozen=True)
class Facts:
    """A row of cards."""

    facts: tuple[Fact, ...]

    def __html__(self) -> str:
        return Markup('<dl class="facts">{}</dl>').format(Markup("").join(self.facts))


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    sentences: tuple[str, ...]
    mood: Mood = "plain"

    def __html__(self) -> str:
        items = [Markup("<li>{}</li>").format(minus(each)) for each in self.sentences]
        return Markup('<ul class="points {}">{}</ul>').format(self.mood, Markup("").join(items))


@dataclass(frozen=True)
class Wide:
    """A table that scrolls if it is too wide; collapsed under a title if one is given."""

    table: ResultTable
    folded: str = ""

    def __html__(self) -> str:
        shown = Markup('<div class="scroll">{}</div>').format(self.table)
        if not self.folded:
            return shown
        return Markup('<details class="numbers"><summary>{}</summary>{}</details>').format(
            self.folded, shown
        )


Block = Figure | Facts | Prose | Bullets | Wide


@dataclass(frozen=True)
class Section:
    """Blocks under a title; `key` is its anchor, `short` its name in the contents."""

    key: str
    title: str
    blocks: tuple[Block, ...] = ()
    short: str = ""

    def __html__(self) -> str:
        return Markup(
            '<section id="{0}" aria-labelledby="{0}-title"><h2 id="{0}-title">{1}</h2>{2}</section>'
        ).format(self.key, self.title, Markup("").join(self.blocks))

    def folded(self) -> Markup:
        """Return the section as collapsed HTML that opens by a click on its title."""
        return Markup('<details class="expert" id="{}"><summary>{}</summary>{}</details>').format(
            self.key, self.title, Markup("").join(self.blocks)
        )


def fold_figure(found: Answer) -> Figure:
    """Return the sorted values of all folds, with the estimate as a line."""
    estimate = found.estimate
    values = np.sort(estimate.fold_values)
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
    return Figure.drawn(
        axes,
        f"{count(len(values), 'fold value')} from {number(values[0])} to {number(values[-1])}; the "
        f"estimate is {number(estimate.value)}, the mean of the folds {number(values.mean())}.",
        key="folds",
        caption=f"Each dot is the value that one fold of the episodes gives, sorted. They spread "
        f"over {number(float(np.ptp(values)))}. The dashed line is their mean: where it stands apart, "
        f"a few folds pull it.",
        legend=[("main", "fold values and estimate"), ("warn", "mean of the folds")],
        numbers=table(("rank", "fold value"), enumerate(values.tolist(), start=1)),
    )


def interval_figure(found: Answer) -> Figure:
    """Return all intervals and bounds, one below the other."""
    value = found.estimate.value
    rows = [_offer_row(name, offer, found) for name, offer in found.offers.items()]
    axes = rows_axes([row.name for row in rows])
    draw_intervals(axes, rows, line=(value, f"estimate {number(value)}", "main"))
    name_axes(axes, x="value of the policy")
    said = "; ".join(
        f"{row.name} {number(row.low)} to {number(row.high)}"
        for row in rows
        if math.isfinite(row.high)
    )
    return Figure.drawn(
        axes,
        f"Intervals: {said or 'none'}; the estimate is {number(value)}.",
        key="intervals",
        caption="Every interval that these folds allow, with the level that it really has. "
        "An arrow is a lower bound: nothing is claimed above it.",
        legend=[("main", "quoted above"), ("second", "alternatives")],
        numbers=table(
            ("kind", "low", "high", "level", "what it assumes, or why there is none"),
            [
                (name, None, None, percent(math.nan), offer)
                if isinstance(offer, str)
                else (name, *finite(row.low, row.high), percent(offer.level), offer.note)
                for row, (name, offer) in zip(rows, found.offers.items(), strict=True)
            ],
        ),
    )


def _offer_row(name: str, offer: Interval | Bound | str, found: Answer) -> IntervalRow:
    tone: Tone = "main" if offer in (found.interval, found.bound) else "second"
    if isinstance(offer, str):
        return IntervalRow(name=name, tone=tone, note="not reachable with these folds")
    tip = f"{name}: {ends_text(offer)}"
    if isinstance(offer, Bound):
        return IntervalRow(name=name, low=offer.value, high=math.inf, tone=tone, tip=tip)
    return IntervalRow(name=name, low=offer.low, high=offer.high, tone=tone, tip=tip)


def k_path_figure(path: KPath) -> Figure:
    """Return the estimate against the number of folds, within two standard errors."""
    folds, values, errors = path.folds, np.array(path.values), np.array(path.errors)
    axes = page_axes(250)
    axes.set_xscale("log")
    axes.margins(x=0.05, y=0.08)
    band(axes, folds, values - 2 * errors, values + 2 * errors, "main")
    line(axes, folds, values, "main")
    tips = [f"K = {k}: {number(value)}" for k, value in zip(folds, values, strict=True)]
    dots(axes, folds, values, "main", tips=tips, radius=5)
    plain = [value for k, value in zip(folds, values, strict=True) if k == 1]
    dots(axes, [1] * len(plain), plain, "warn", tips=["used: K = 1"] * len(plain), radius=7)
    name_axes(axes, x="number of folds K", y="estimate")
    axes.set_xticks(folds)
    return Figure.drawn(
        axes,
        f"The estimate for {', '.join(map(str, folds))} folds: "
        f"{', '.join(map(number, values))}; it moves over {number(float(np.ptp(values)))}.",
        key="k-path",
        caption="K = 1 is the plain average. A path that levels off says that the folds err on both "
        "sides alike; one that keeps drifting says that the rewards are skewed, and that a large K is "
        "biased. The band is two standard errors wide on either side.",
        legend=[("main", "estimate"), ("warn", "number of folds that was used")],
        numbers=table(
            ("folds K", "estimate", "standard error"),
            [
                (k, value, *finite(error))
                for k, value, error in zip(folds, values, errors, strict=True)
            ],
        ),
    )


def returns_figure(
    returns: FloatArray,
    ids: AnyArray,
    *,
    marked: Sequence[object] = (),
    unit: str = "",
    noun: str = "episode",
) -> Figure:
    """Return the return of every logged episode, in the order of the log."""
    n = len(returns)
    special = np.zeros(n, dtype=bool)
    for each in marked:
        special |= ids == each
    keep = _thinned(returns, special)
    wild = _is_wild(returns)
    axes = page_axes(270, left=66)
    axes.margins(x=0.01)
    if wild:  # linear near zero, logarithmic beyond, so that small and extreme values are visible
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
    y_title = f"return ({unit})" if unit else "return"
    name_axes(axes, x=f"place of the {noun} in the rows shown", y=y_title)
    largest = keep[np.argsort(-np.abs(returns[keep]), kind="stable")[:20]]
    beyond = " The axis is linear near zero and logarithmic beyond." if wild else ""
    thinned = f" {len(keep):,} of {n:,} are drawn." if len(keep) < n else ""
    low, high = float(returns.min()), float(returns.max())
    return Figure.drawn(
        axes,
        f"Returns of {n:,} {noun}s from {number(low)} to {number(high)}, "
        f"median {number(float(np.median(returns)))}.",
        key="returns",
        caption=f"What each logged {noun} earned, in the order of the log.{beyond}{thinned}",
        legend=[("main", f"{noun}s"), ("warn", "most influential")] if special.any() else [],
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
    return Figure.drawn(
        axes,
        f"Share of the total weight by the largest weights: {'; '.join(tips)}. "
        f"Effective sample size {number(effective, 3)} of {n:,}.",
        key="weights",
        caption=f"How unevenly rows count for this policy. Equal weights would follow the dashed "
        f"line; {n:,} rows are worth {number(effective, 3)} of equal weight.",
        legend=[("main", "this log and policy"), ("muted", "equal weights")],
        numbers=table(
            ("largest weights", "their share of all weight"),
            [(percent(a), percent(b)) for a, b in rows],
        ),
    )


def influence_figure(diagnosis: Diagnosis) -> Figure:
    """Return the effect of the most influential episodes on the mean and on a median of folds."""
    found = diagnosis.influence
    plain, robust = "plain estimate", f"median of {found.folds} folds"
    names, noun = [str(each.episode) for each in found.episodes], diagnosis.noun
    effects = {
        plain: [each.effect for each in found.episodes],
        robust: [each.median_effect for each in found.episodes],
    }
    axes = rows_axes(names)
    _draw_pairs(axes, names, effects, ("warn", "good"), lambda what, x: f"{x:+.4g} on the {what}")
    name_axes(axes, x="effect on the plain estimate")
    first = " and the ".join(f"{what} by {number(values[0])}" for what, values in effects.items())
    return Figure.drawn(
        axes,
        f"The {len(names)} most influential {noun}s; the first is {names[0]}, which moves the "
        f"{first}.",
        key="influence",
        caption=f"How far each {noun} alone moves the plain estimate, {number(found.value)} by "
        f"{found.estimator}: the estimate with it, minus the estimate without it."
        + (" Rows are counted from 0." if noun == "row" else ""),
        legend=[("warn", plain), ("good", robust)],
        numbers=influence_table(diagnosis),
    )


def share_figure(shares: Mapping[str, tuple[float, float]], *, most: int = 20) -> Figure:
    """Return how often the policy and the log take each action."""
    rows = sorted(shares.items(), key=lambda each: -max(each[1]))[:most]
    names = [name for name, _ in rows]
    percents = {
        "policy": [100 * policy for _, (policy, _) in rows],
        "log": [100 * log for _, (_, log) in rows],
    }
    axes = rows_axes(names, row=32, right=24)
    _draw_pairs(
        axes, names, percents, ("main", "second"), lambda who, x: f"the {who} {percent(x / 100)}"
    )
    axes.set_xlim(0, 100)
    name_axes(axes, x="% of the logged states")
    said = "; ".join(f"{name} {percent(share)}" for name, (share, _) in rows)
    return Figure.drawn(
        axes,
        f"Shares of actions of the policy: {said}.",
        key="actions",
        caption="How often the policy takes each action in the logged states, and how often the "
        "log took it.",
        legend=[("main", "the policy"), ("second", "the log")],
        numbers=table(
            ("action", "policy", "log"),
            [(name, *map(percent, share)) for name, share in shares.items()],
        ),
    )


def _draw_pairs(
    axes: Axes,
    names: Sequence[str],
    lengths: Mapping[str, Sequence[float]],
    tones: tuple[Tone, Tone],
    tip: Callable[[str, float], str],
) -> None:
    """Draw two bars per row, one tone per series."""
    series = [
        (tone, xs, [f"{name}: {tip(what, x)}" for name, x in zip(names, xs, strict=True)])
        for tone, (what, xs) in zip(tones, lengths.items(), strict=True)
    ]
    draw_bars(axes, names, series)


def gain_figure(comparison: Comparison) -> Figure:
    """Return the gain of each candidate with its bound."""
    candidates, x_title = comparison.candidates, f"gain over the {comparison.baseline}"
    axes = rows_axes([each.name for each in candidates])
    draw_gains(axes, comparison)
    name_axes(axes, x=x_title)
    said = "; ".join(f"{each.name} {number(each.gain.value)}" for each in candidates)
    return Figure.drawn(
        axes,
        f"{x_title}: {said}.",
        key="gains",
        caption=f"The gain and its lower bound, which holds with "
        f"{percent(comparison.best.gain.lower_bound.level)}. A bound to the right of zero passes the "
        f"gate.",
        legend=[("good", "passes the gate"), ("main", "does not pass")],
        numbers=table(
            ("name", "gain", "lower bound"),
            [
                (each.name, each.gain.value, *finite(each.gain.lower_bound.value))
                for each in candidates
            ],
        ),
    )


def finite(*values: float) -> list[float | None]:
    """Return numbers for a table, with None for values that are not finite."""
    return [float(value) if math.isfinite(value) else None for value in values]


def _is_wild(values: FloatArray) -> bool:
    """Return whether a few extreme values would compress all others on a linear axis."""
    middle = float(np.quantile(np.abs(values - np.median(values)), 0.9))
    return float(np.abs(values - np.median(values)).max()) > 8 * middle


def _thinned(values: FloatArray, special: BoolArray, most: int = 1500) -> IntArray:
    """Return the points to draw: the marked ones, others evenly by time, and more the larger."""
    n = len(values)
    if n <= most:
        return np.arange(n)
    ranks = np.geomspace(1, n, most // 2).astype(int) - 1  # without a gap below the largest
    largest = np.argsort(-np.abs(values - np.median(values)), kind="stable")[ranks]
    even = np.linspace(0, n - 1, most // 2).astype(int)
    return np.unique(np.concatenate([largest, even, np.flatnonzero(special)]))


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
