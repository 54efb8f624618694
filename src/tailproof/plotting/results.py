"""The `.plot()` functions of results, on a matplotlib Axes."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tailproof.algorithms.default.spreads import ends_alone
from tailproof.errors import LevelError, TailproofError
from tailproof.plotting.marks import dots, name_axes, shown_axes
from tailproof.plotting.rows import IntervalRow, draw_intervals
from tailproof.plotting.tails import draw_hill

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.comparison.comparison import Comparison
    from tailproof.diagnosis.diagnosis import Diagnosis
    from tailproof.evaluation.estimate import Estimate
    from tailproof.learning.learned import Learned


def plot_estimate(estimate: Estimate, *, level: float, ax: Axes | None) -> Axes:
    """Draw the value with its interval, and the logged policy's value or the folds."""
    axes = shown_axes(ax, height=2.0)
    low = high = math.nan
    try:
        found = estimate.interval(level)
        low, high = found.low, found.high
    except LevelError:  # a value without an interval is drawn without one
        pass
    rows = [IntervalRow(name="policy", value=estimate.value, low=low, high=high)]
    chosen, folds = estimate.choice, estimate.fold_values
    if chosen is not None:
        miss, logged = (1 - level) / 2, chosen.logged_value
        low, high = np.clip(ends_alone(chosen.logged_spread, miss, miss), *chosen.possible)
        low, high = min(low, logged), max(high, logged)
        rows.append(IntervalRow(name="logged", value=logged, low=low, high=high, tone="second"))
    elif len(folds) > 1:
        rows.append(IntervalRow(name="folds", tone="second"))
    draw_intervals(axes, rows)
    if rows[-1].name == "folds":
        dots(axes, folds, np.ones(len(folds)), "second")
        axes.autoscale_view(scaley=False)
    name_axes(axes, x=f"value ({level:.0%} interval)")
    return axes


def plot_comparison(comparison: Comparison, *, ax: Axes | None) -> Axes:
    """Draw the gain of every candidate over the baseline with its lower bound."""
    axes = shown_axes(ax, height=1.2 + 0.4 * len(comparison.candidates))
    draw_gains(axes, comparison)
    name_axes(axes, x=f"gain, with a lower bound ({comparison.level:.0%} for all at once)")
    return axes


def draw_gains(axes: Axes, comparison: Comparison) -> None:
    """Draw the gain of every candidate with its lower bound, green if it passes the gate."""
    rows = [
        IntervalRow(
            name=each.name,
            value=each.gain.value,
            low=each.gain.lower_bound.value,
            high=math.inf,
            tone="good" if each.passes else "main",
            tip=f"{each.name}: {each.gain.value:+.4g}",
        )
        for each in comparison.candidates
    ]
    draw_intervals(axes, rows, line=(0.0, comparison.baseline, "warn"))


def plot_diagnosis(diagnosis: Diagnosis, *, of: str, ax: Axes | None) -> Axes:
    """Draw the tail index of the quantity `of` against the number of extremes."""
    if of not in diagnosis.tails:
        raise TailproofError(
            f"The diagnosis has tails of {', '.join(map(repr, diagnosis.tails))}. Got {of!r} instead."
        )
    report = diagnosis.tails[of]
    paths = [path for path in (report.right_path, report.left_path) if path is not None]
    axes = shown_axes(ax)
    draw_hill(axes, paths, {"right": report.right, "left": report.left})
    if paths:
        axes.legend(frameon=False)
    return axes


def plot_learned(learned: Learned, *, ax: Axes | None) -> Axes:
    """Draw the policy's value on held-out episodes, or else its training history."""
    found = learned.judged
    if found is None:
        if getattr(learned.history, "quantities", ()):
            drawn: Axes = learned.history.plot(learned.history.quantities[0], ax=ax)
            return drawn
        if np.size(learned.history):
            axes = shown_axes(ax)
            axes.plot(np.arange(1, len(learned.history) + 1), learned.history, linewidth=1)
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
    name_axes(axes, x=f"gain on {found.episodes} held-out episodes ({found.level:.0%} lower bound)")
    return axes


def plot_series(series: Any, name: str, *, ax: Axes | None) -> Axes:
    """Draw a quantity over training, one line per member."""
    axes = shown_axes(ax)
    axes.plot(series.steps, series.values, linewidth=1)
    axes.set_title(name, fontsize="medium", parse_math=False)
    name_axes(axes, x="steps")
    return axes


def plot_history(series: Mapping[str, Any], quantities: Sequence[str], *, ax: Axes | None) -> Any:
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
