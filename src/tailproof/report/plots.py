"""Plots of results on a matplotlib Axes, which is imported where it is made."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailproof.errors import TailproofError
from tailproof.report.blocks import Figure, Tone

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

    from tailproof.arrays import FloatArray
    from tailproof.doors.diagnose import Diagnosis
    from tailproof.doors.estimate import Estimate
    from tailproof.doors.learned import Learned
    from tailproof.robust.tails import TailIndex, TailPath


#: The colours of a page in light mode, by their names in the style sheet. All differ, so that the
#: colour in a picture determines its name.
COLOURS = {
    "paper": "#ffffff",
    "ink": "#1a1f26",
    "soft": "#57606c",
    "edge": "#dde1e7",
    "grid": "#e9ecf0",
    "main": "#2b5fc7",
    "second": "#7d8ea8",
    "third": "#7a5fb5",
    "warn": "#b4500b",
    "good": "#0d7a5f",
    "truth": "#1a1f27",
}

FONT = 12.5
_WIDTH = 6.4  # of a picture in a notebook, in inches


def colour_of(tone: Tone) -> str:
    """Return the colour of a tone in light mode."""
    return COLOURS["second" if tone == "muted" else tone]


def page_axes(
    height: float = 280,
    *,
    width: float = 560,
    left: float = 58,
    right: float = 16,
    top: float = 28,
    bottom: float = 44,
) -> Axes:
    """Return axes for a picture on a page, sized in pixels, without pyplot's global state."""
    from matplotlib.figure import Figure as Canvas

    figure = Canvas(figsize=(width / 72, height / 72), dpi=72)
    figure.patch.set_visible(False)
    frame = (left / width, bottom / height)
    axes = figure.add_axes((*frame, (width - left - right) / width, 1 - (top + bottom) / height))
    axes.patch.set_visible(False)
    axes.tick_params(which="both", length=0, labelsize=FONT, labelcolor=COLOURS["soft"], pad=6)
    axes.xaxis.labelpad = 6
    axes.xaxis.label.set(fontsize=FONT, color=COLOURS["soft"])
    axes.yaxis.label.set(fontsize=FONT, color=COLOURS["soft"])
    axes.spines[["top", "left", "right"]].set_visible(False)
    axes.spines["bottom"].set_color(COLOURS["edge"])
    axes.grid(color=COLOURS["grid"], linewidth=1)
    axes.set_axisbelow(True)
    return axes


def shown_axes(ax: Axes | None, *, height: float = 3.6) -> Axes:
    """Return the given axes, or new ones that a notebook or `plt.show` displays."""
    if ax is not None:
        return ax
    from matplotlib import pyplot  # as in scikit-learn and pandas; not needed if `ax` is given

    axes: Axes = pyplot.subplots(figsize=(_WIDTH, height), layout="constrained")[1]
    return axes


def on_page(figure: Figure, width: float) -> Axes:
    """Return axes of a page with a picture, at a width in pixels."""
    if figure.names:
        axes = rows_axes(figure.names, row=figure.row, width=width)
    elif callable(figure.height):  # lines of text, without a frame
        axes = page_axes(figure.height(width), width=width, left=4, right=4, top=4, bottom=4)
    else:
        axes = page_axes(figure.height, width=width, left=figure.left)
    return _drawn(figure, axes)


def draw_on_axes(figure: Figure, ax: Axes | None) -> Axes:
    """Draw a picture on the given axes, or on new ones of a notebook, and return them."""
    height = 1.2 + 0.4 * len(figure.names) if figure.names else 3.6
    if callable(figure.height):
        height = figure.height(72 * _WIDTH) / 72
    return _drawn(figure, shown_axes(ax, height=height))


def _drawn(figure: Figure, axes: Axes) -> Axes:
    figure.draw(axes)
    name_axes(axes, x=figure.x, y=figure.y)
    return axes


def mark(artist: Artist, kind: str, tone: Tone, tips: Sequence[str] = ()) -> None:
    """Set the class of an artist and the tooltips of its shapes on a page."""
    artist.set_gid(f"{kind} {tone}")
    vars(artist)["tips"] = list(tips)


def tips_of(artist: Artist) -> list[str]:
    """Return the tooltips of an artist, as set by `mark`."""
    tips: list[str] = vars(artist).get("tips", [])
    return tips


def dots(
    axes: Axes,
    xs: object,
    ys: object,
    tone: Tone,
    *,
    tips: Sequence[str] = (),
    radius: float = 4,
    marker: str = "o",
) -> None:
    """Draw points with tooltips; points that are not finite are left out."""
    x, y = np.asarray(xs, dtype=float), np.asarray(ys, dtype=float)
    keep = np.isfinite(x) & np.isfinite(y)
    drawn = axes.scatter(
        x[keep],
        y[keep],
        s=(2 * radius) ** 2,
        marker=marker,
        color=colour_of(tone),
        edgecolors=COLOURS["paper"],
        linewidths=float(radius > 3),  # an edge would hide a small dot
        zorder=3,
    )
    mark(
        drawn,
        "dot",
        tone,
        [tip for tip, kept in zip(tips, keep, strict=True) if kept] if tips else (),
    )


def line(
    axes: Axes, xs: Any, ys: Any, tone: Tone, *, dashed: bool = False, label: str = ""
) -> None:
    """Draw a line through points, with gaps at values that are not finite."""
    style = {"linewidth": 1.5, "dashes": (3, 2.5)} if dashed else {"linewidth": 2}
    (drawn,) = axes.plot(xs, ys, color=colour_of(tone), label=label, **style)
    mark(drawn, "line", tone)


def band(axes: Axes, xs: Any, lows: Any, highs: Any, tone: Tone) -> None:
    """Fill between two lines."""
    drawn = axes.fill_between(xs, lows, highs, color=colour_of(tone), alpha=0.15, linewidth=0)
    mark(drawn, "band", tone)


def rule(
    axes: Axes,
    *,
    x: float | None = None,
    y: float | None = None,
    label: str = "",
    tone: Tone = "muted",
    dashed: bool = True,
    under: bool = False,
) -> None:
    """Draw a line across the frame at a value, with its label above its end, or `under` it."""
    style = {"dashes": (4, 3), "linewidth": 1.2} if dashed else {"linewidth": 1.5}
    colour = COLOURS["soft"] if tone == "muted" else colour_of(tone)
    if x is not None:
        mark(axes.axvline(x, color=colour_of(tone), **style), "line", tone)
        late = axes.transLimits.transform(axes.transScale.transform((x, 1)))[0] > 0.6
        at, offset = (x, 1.0), (-4 if late else 4, 5)
        where = axes.get_xaxis_transform()
    else:
        assert y is not None
        mark(axes.axhline(y, color=colour_of(tone), **style), "line", tone)
        at, offset, late = (1.0, y), (-4, -13 if under else 4), True
        where = axes.get_yaxis_transform()
    if label:
        text = axes.annotate(
            label,
            at,
            offset,
            xycoords=where,
            textcoords="offset points",
            ha="right" if late else "left",
            color=colour,
            parse_math=False,
        )
        mark(text, "label", tone)


def name_axes(axes: Axes, *, x: str = "", y: str = "") -> None:
    """Set axis titles and short tick labels. Call it last, because ticks depend on the content."""
    if not axes.axison:
        return
    from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullLocator

    axes.set_xlabel(x, parse_math=False)  # a name from a log is never a formula
    axes.set_ylabel(y, parse_math=False)
    for axis, (low, high) in ((axes.xaxis, axes.get_xlim()), (axes.yaxis, axes.get_ylim())):
        if isinstance(axis.get_major_locator(), FixedLocator):  # rows have names, not numbers
            continue
        if axis.get_scale() == "log" and high < 200 * low:
            axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(FuncFormatter(lambda value, _: tick_label(value)))
        axis.set_minor_locator(NullLocator())


def tick_label(value: float) -> str:
    """Return a short label: 20k for 20,000.

    >>> tick_label(20000.0), tick_label(-0.5), tick_label(1.5e6), tick_label(0.0)
    ('20k', '−0.5', '1.5M', '0')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):g}{letter}".replace("-", "−")
    digits = ".3g" if 0 < abs(value) < 1e-4 else ".10g"
    return f"{value:{digits}}".replace("-", "−")


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


def rows_axes(names: Sequence[str], *, row: float = ROW, width: float = 560) -> Axes:
    """Return axes for a page, with room for one row per name."""
    longest = max((len(shortened(name, _letters(width))) for name in names), default=0)
    height, left = 26 + 46 + row * len(names), 26 + LETTER * longest
    axes = page_axes(height, width=width, left=left, top=26, right=24)
    axes.tick_params(axis="y", labelcolor=COLOURS["ink"])
    axes.grid(visible=False, axis="y")
    return axes


def _letters(width: float) -> int:
    """Return how many letters of a name a picture of this width shows."""
    return 24 if width > 400 else 15


def name_rows(axes: Axes, names: Sequence[str]) -> None:
    """Write a name beside each row, the first on top."""
    figure = axes.get_figure(root=True)
    assert figure is not None
    most = _letters(float(figure.get_figwidth()) * 72)
    labels = [shortened(name, most) for name in names]
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


def plot_estimate(estimate: Estimate, *, level: float, ax: Axes | None) -> Axes:
    """Draw the value with its interval, and the logged policy's value or the folds."""
    from tailproof.report.answers import ReadEstimate
    from tailproof.report.figures import value_figure

    read, folds = ReadEstimate(estimate, level), estimate.fold_values
    if estimate.choice is not None or len(folds) <= 1:
        return draw_on_axes(value_figure(read, "policy"), ax)
    axes = draw_on_axes(value_figure(read, "policy", beside="folds"), ax)
    dots(axes, [read.quantity.shown(each) for each in folds], np.ones(len(folds)), "second")
    axes.autoscale_view(scaley=False)
    return axes


def plot_diagnosis(diagnosis: Diagnosis, *, of: str, ax: Axes | None) -> Axes:
    """Draw the tail index of the quantity `of` against the number of extremes."""
    from tailproof.report.figures import hill_figure

    if of not in diagnosis.tails:
        raise TailproofError(
            f"The diagnosis has tails of {', '.join(map(repr, diagnosis.tails))}. Got {of!r} instead."
        )
    report = diagnosis.tails[of]
    paths = [path for path in (report.right_path, report.left_path) if path is not None]
    axes = draw_on_axes(hill_figure(paths, {"right": report.right, "left": report.left}), ax)
    if paths:
        axes.legend(frameon=False)
    return axes


def plot_learned(learned: Learned, *, ax: Axes | None) -> Axes:
    """Draw the policy's value on held-out episodes, or else its training history."""
    found = learned.judged
    if found is None:
        history = learned.history
        if not isinstance(history, np.ndarray) and history.quantities:
            first = history.quantities[0]
            return plot_series(history[first], first, ax=ax)
        if isinstance(history, np.ndarray) and history.size:
            axes = shown_axes(ax)
            axes.plot(np.arange(1, len(history) + 1), history, linewidth=1)
            name_axes(axes, x="iteration", y="distance that a member moved")
            return axes
        raise TailproofError(
            "There is nothing to draw: this policy was neither judged on held-out episodes nor "
            "trained in steps. Evaluate it, and plot the estimate."
        )
    axes = shown_axes(ax, height=1.6)
    row = IntervalRow(
        name="learned policy",
        value=found.gain,
        low=found.bound,
        high=math.inf,
        tone="good" if found.better else "main",
    )
    draw_intervals(axes, [row], line=(0.0, "logged behaviour", "warn"))
    sure = f"{100 * found.level:.0f} % lower bound"
    name_axes(axes, x=f"gain on {found.episodes} held-out episodes ({sure})")
    return axes


def plot_series(series: Any, name: str, *, ax: Axes | None) -> Axes:
    """Draw a quantity over training, one line per member."""
    axes = shown_axes(ax)
    axes.plot(series.steps, series.values, linewidth=1)
    axes.set_title(name, fontsize="medium", parse_math=False)
    name_axes(axes, x="steps")
    return axes


def plot_history(
    series: Mapping[str, object], quantities: Sequence[str], *, ax: Axes | None
) -> Any:
    """Draw series of a training history, one panel each, and return the Axes or an array of them."""
    unknown = [name for name in quantities if name not in series]
    if unknown or not quantities:
        raise TailproofError(
            f"The history holds {', '.join(series) or 'nothing'}. "
            f"Got {', '.join(map(repr, unknown)) or 'nothing'} to draw."
        )
    if ax is not None and len(quantities) > 1:
        raise TailproofError(
            f"One Axes holds one quantity. Got {len(quantities)}: {', '.join(quantities)}; name one, "
            f"or leave `ax` out."
        )
    if len(quantities) == 1:
        return plot_series(series[quantities[0]], quantities[0], ax=ax)
    from matplotlib import pyplot

    across = min(3, len(quantities))
    down = -(-len(quantities) // across)
    _, panels = pyplot.subplots(
        down, across, squeeze=False, figsize=(3.6 * across, 2.4 * down), layout="constrained"
    )
    for panel, name in zip(panels.flat, quantities, strict=False):
        plot_series(series[name], name, ax=panel)
    for unused in panels.flat[len(quantities) :]:
        unused.set_visible(False)
    return panels.ravel()[: len(quantities)]
