"""Figures in one common style, as SVG and PNG. matplotlib is imported on first use."""

from __future__ import annotations

import io
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from reproduction.summary import Summary
from tailproof.files import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which are safe for colour-blind readers.
BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
YELLOW, BLUE, RED, PINK, GREY = "#c7b700", "#0072b2", "#d55e00", "#cc79a7", "#7f7f7f"


#: One text size, and reproducible SVG output.
STYLE: Any = {
    "font.size": 9,
    "axes.titlesize": 9.5,
    "legend.frameon": False,
    "legend.fontsize": 8.5,
    "svg.fonttype": "path",
    "svg.hashsalt": "tailproof",
}


@dataclass(frozen=True)
class Look:
    """How a method is drawn."""

    label: str
    color: str
    marker: str = "o"
    dashes: str = "-"


def new_figure(
    rows: int = 1, columns: int = 1, *, width: float = 8.0, height: float = 3.4, **options: Any
) -> tuple[Figure, Any]:
    """Return a figure without a window, and its axes, (rows, columns)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    axes = figure.subplots(rows, columns, squeeze=False, **options)
    for axis in axes.flat:
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(axis="y", color="#e5e5e5", linewidth=0.7)
        axis.set_axisbelow(True)
    return figure, axes


def curve(
    axis: Axes, x: Sequence[float], summaries: Sequence[Summary], look: Look, *, shift: float = 0.0
) -> None:
    """Draw a line through summaries with their intervals; `shift` keeps bars apart."""
    axis.errorbar(
        [each + shift for each in x],
        [each.value for each in summaries],
        yerr=bars(summaries),
        label=look.label,
        color=look.color,
        marker=look.marker,
        linestyle=look.dashes,
        markersize=4,
        linewidth=1.3,
        elinewidth=0.8,
        capsize=1.8,
    )


def bars(summaries: Sequence[Summary]) -> list[list[float]]:
    """Return the lengths of the intervals below and above the values, in matplotlib's form."""
    return [
        [each.value - each.low for each in summaries],
        [each.high - each.value for each in summaries],
    ]


def curves(
    axis: Axes,
    x: Sequence[float],
    looks: Mapping[str, Look],
    summaries: Callable[[str], Sequence[Summary]],
    *,
    spread: float = 0.0,
    middle: float | None = None,
) -> None:
    """Draw a curve for each method, `spread` apart from the next one around the `middle` one."""
    centre = (len(looks) - 1) / 2 if middle is None else middle
    for place, (name, look) in enumerate(looks.items()):
        curve(axis, x, summaries(name), look, shift=spread * (place - centre))


def level(axis: Axes, summary: Summary, look: Look, *, alpha: float) -> None:
    """Draw a summary as a line across the panel, its interval as a band."""
    axis.axhline(summary.value, color=look.color, linewidth=1.2, label=look.label)
    if math.isfinite(summary.low) and math.isfinite(summary.high):
        axis.axhspan(summary.low, summary.high, color=look.color, alpha=alpha, linewidth=0)


def finish(
    figure: Figure,
    axes: Any,
    caption: str,
    *,
    titles: Iterable[str] = (),
    x: str = "",
    y: str | Sequence[str] = "",
    legend: Mapping[str, Any] | None = None,
) -> Figure:
    """Set the titles, outer axis labels, one legend and the caption."""
    for axis, title in zip(axes.flat, titles, strict=False):
        axis.set_title(title)
    for axis in axes[-1]:
        axis.set_xlabel(x or axis.get_xlabel())
    for row, name in zip(axes, [y] * len(axes) if isinstance(y, str) else y, strict=True):
        row[0].set_ylabel(name or row[0].get_ylabel())
    shown: dict[str, Any] = {}
    for axis in axes.flat:
        shown |= dict(zip(*reversed(axis.get_legend_handles_labels()), strict=True))
    figure.legend(shown.values(), shown.keys(), **(legend or {"loc": "outside right upper"}))
    return captioned(figure, caption)


def captioned(figure: Figure, text: str) -> Figure:
    """Add a caption below the panels."""
    figure.supxlabel(text, fontsize=7.5, color="#444444", x=0.01, ha="left")
    return figure


def plain_ticks(axis: Axes) -> None:
    """Write the numbers of a logarithmic axis without powers of ten."""
    from matplotlib.ticker import LogLocator

    for each in (axis.xaxis, axis.yaxis):
        each.set_major_locator(LogLocator(subs=(1, 2, 5)))
        each.set_major_formatter("{x:,g}")
        each.set_minor_formatter("")


def write_figure(figure: Figure, *paths: Path) -> None:
    """Write the figure as SVG or PNG, by the ending of each path."""
    options: dict[str, dict[str, Any]] = {"svg": {"metadata": {"Date": None}}, "png": {"dpi": 150}}
    for path in paths:
        buffer, kind = io.BytesIO(), path.suffix[1:]
        figure.savefig(buffer, format=kind, **options[kind])
        write_whole(path, buffer.getvalue())
