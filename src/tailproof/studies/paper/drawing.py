"""Figures: one look for all of them, as SVG and PNG. matplotlib is loaded when one is drawn."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailproof.files.atomic import write_whole
from tailproof.studies.paper.summary import Summary

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

# Okabe and Ito's colours, which most eyes tell apart.
BLACK, ORANGE, SKY, GREEN = "#000000", "#e69f00", "#56b4e9", "#009e73"
YELLOW, BLUE, RED, PINK, GREY = "#c7b700", "#0072b2", "#d55e00", "#cc79a7", "#7f7f7f"


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


@contextmanager
def style() -> Iterator[None]:
    """Give a context in which text has one size and SVG one content for one figure."""
    import matplotlib as mpl

    with mpl.rc_context(
        {
            "font.size": 9,
            "axes.titlesize": 9.5,
            "legend.frameon": False,
            "legend.fontsize": 8.5,
            "svg.fonttype": "path",
            "svg.hashsalt": "tailproof",
        }
    ):
        yield


def curve(
    axis: Axes,
    x: Sequence[float],
    summaries: Sequence[Summary],
    look: Look,
    *,
    shift: float = 0.0,
    faint: bool = False,
) -> None:
    """Draw a line through summaries with their 95 % intervals; `shift` keeps bars apart."""
    places = [each + shift for each in x]
    values = [each.value for each in summaries]
    below = [each.value - each.low for each in summaries]
    above = [each.high - each.value for each in summaries]
    axis.errorbar(
        places,
        values,
        yerr=[below, above],
        label=look.label,
        color=look.color,
        marker=look.marker,
        linestyle=look.dashes,
        markersize=4,
        linewidth=1.3,
        elinewidth=0.8,
        capsize=1.8,
        alpha=0.45 if faint else 1.0,
    )


def legend(
    figure: Figure, axis: Axes, *, columns: int = 1, where: Any = "outside right upper"
) -> None:
    """Put one legend beside the panels."""
    handles, labels = axis.get_legend_handles_labels()
    figure.legend(handles, labels, loc=where, ncols=columns)


def plain_ticks(axis: Axes) -> None:
    """Write the numbers of a logarithmic axis without powers of ten."""
    from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

    for each in (axis.xaxis, axis.yaxis):
        each.set_major_locator(LogLocator(subs=(1, 2, 5)))
        each.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
        each.set_minor_formatter(NullFormatter())


def caption(figure: Figure, text: str) -> None:
    """Say under the panels what was run."""
    figure.supxlabel(text, fontsize=7.5, color="#444444", x=0.01, ha="left")


def write_figure(figure: Figure, svg: Path, png: Path) -> None:
    """Write the figure twice."""
    for path, options in ((svg, {"metadata": {"Date": None}}), (png, {"dpi": 150})):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=path.suffix[1:], **options)
        write_whole(path, buffer.getvalue())


def label_axes(axes: Any, titles: Mapping[int, str], *, x: str, y: str) -> None:
    """Title the panels of the first row, and name the outer axes."""
    for place, title in titles.items():
        axes[0, place].set_title(title)
    for axis in axes[-1]:
        axis.set_xlabel(x)
    for row in axes:
        row[0].set_ylabel(y)
