"""Pictures of a training history; matplotlib is loaded here alone."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from tailproof.errors import TailproofError

if TYPE_CHECKING:
    from tailproof.deep.history import History

_ACROSS = 3


def draw_history(history: History, quantities: Sequence[str]) -> Figure:
    """Draw each quantity in a panel of its own: a line for each member, over steps."""
    unknown = [name for name in quantities if name not in history]
    if unknown or not quantities:
        raise TailproofError(
            f"The history holds {', '.join(history.quantities) or 'nothing'}. "
            f"Got {', '.join(map(repr, unknown)) or 'nothing'} to draw."
        )
    across = min(_ACROSS, len(quantities))
    down = -(-len(quantities) // across)
    figure = Figure(figsize=(3.6 * across, 2.4 * down), layout="constrained")
    panels = figure.subplots(down, across, squeeze=False).ravel()
    for panel, name in zip(panels, quantities, strict=False):
        series = history[name]
        panel.plot(series.steps, series.values, linewidth=1)
        panel.set_title(name, fontsize="medium")
        panel.set_xlabel("steps")
    for panel in panels[len(quantities) :]:
        panel.set_visible(False)
    return figure
