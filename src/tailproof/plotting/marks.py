"""Marks on a matplotlib Axes, with tones that the page's style sheet maps to colours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.artist import Artist
    from matplotlib.axes import Axes

#: The meaning of a mark, which determines its colour.
Tone = Literal["main", "second", "third", "warn", "good", "muted", "truth"]

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
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width / 72, height / 72), dpi=72)
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

    axes: Axes = pyplot.subplots(figsize=(6.4, height), layout="constrained")[1]
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
    xs: Any,
    ys: Any,
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
