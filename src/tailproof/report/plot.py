"""A small plotting module: inline SVG whose colours the page's style sheet decides.

Marks carry a class (a *tone*), never a colour, so that one picture serves light, dark and print.
Text of a mark's tooltip stands in its `data-tip`; without JavaScript the table beside the picture
says the same.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape
from typing import Literal

from tailproof.report.scales import Scale, tick_label

#: What a mark means, and thereby its colour.
Tone = Literal["main", "second", "third", "warn", "good", "muted", "truth"]
Anchor = Literal["start", "middle", "end"]

LETTER = 7.1  # average width of a letter at the size of labels


@dataclass
class Plot:
    """Axes to draw on, in user units of a viewBox.

    Parameters
    ----------
    x, y
        The scales; `y` may be None where rows have names of their own.
    x_title, y_title
        What the axes measure.
    width, height
        Of the whole picture.
    left, right, top, bottom
        Margins.
    """

    x: Scale
    y: Scale | None = None
    x_title: str = ""
    y_title: str = ""
    width: float = 720
    height: float = 280
    left: float = 58
    right: float = 16
    top: float = 14
    bottom: float = 44
    marks: list[str] = field(default_factory=list)
    over: list[str] = field(default_factory=list)

    def px(self, value: float) -> float:
        """Return where a value stands on the x axis, kept within the frame."""
        place = min(max(self.x(value), -0.02), 1.02)
        return self.left + place * (self.width - self.left - self.right)

    def py(self, value: float) -> float:
        """Return where a value stands on the y axis, kept within the frame."""
        assert self.y is not None
        place = min(max(self.y(value), -0.02), 1.02)
        return self.height - self.bottom - place * (self.height - self.top - self.bottom)

    def line(
        self, xs: Iterable[float], ys: Iterable[float], tone: Tone, *, style: str = ""
    ) -> None:
        """Join points; a value that is not finite leaves a gap."""
        for run in _runs(xs, ys):
            points = " ".join(f"{self.px(x):.1f},{self.py(y):.1f}" for x, y in run)
            self.marks.append(f'<polyline class="line {tone} {style}" points="{points}"/>')

    def band(
        self, xs: Iterable[float], lows: Iterable[float], highs: Iterable[float], tone: Tone
    ) -> None:
        """Fill between two lines."""
        rows = [
            (x, low, high)
            for x, low, high in zip(xs, lows, highs, strict=True)
            if math.isfinite(low)
        ]
        if len(rows) < 2:
            return
        above = [f"{self.px(x):.1f},{self._py_top(high):.1f}" for x, _, high in rows]
        below = [f"{self.px(x):.1f},{self.py(low):.1f}" for x, low, _ in reversed(rows)]
        self.marks.append(f'<polygon class="band {tone}" points="{" ".join(above + below)}"/>')

    def _py_top(self, value: float) -> float:
        return self.py(value) if math.isfinite(value) else self.top

    def dots(
        self,
        xs: Sequence[float],
        ys: Sequence[float],
        tone: Tone,
        *,
        tips: Sequence[str] | None = None,
        radius: float = 4,
    ) -> None:
        """Draw points, each with its tooltip."""
        for i, (x, y) in enumerate(zip(xs, ys, strict=True)):
            if math.isfinite(x) and math.isfinite(y):
                self.dot(self.px(x), self.py(y), tone, tip=tips[i] if tips else "", radius=radius)

    def dot(self, cx: float, cy: float, tone: Tone, *, tip: str = "", radius: float = 4) -> None:
        """Draw a point at a place of the picture."""
        attribute = f' data-tip="{escape(tip)}"' if tip else ""
        self.marks.append(
            f'<circle class="dot {tone}" cx="{cx:.1f}" cy="{cy:.1f}" r="{radius:g}"{attribute}/>'
        )

    def diamond(self, cx: float, cy: float, tone: Tone, *, tip: str = "", size: float = 6) -> None:
        """Draw a diamond at a place of the picture: a truth, beside the dots of estimates."""
        attribute = f' data-tip="{escape(tip)}"' if tip else ""
        points = " ".join(
            f"{cx + dx:.1f},{cy + dy:.1f}"
            for dx, dy in ((0, -size), (size, 0), (0, size), (-size, 0))
        )
        self.marks.append(f'<polygon class="dot {tone}" points="{points}"{attribute}/>')

    def segment(
        self, x1: float, y1: float, x2: float, y2: float, tone: Tone, *, style: str = ""
    ) -> None:
        """Draw a straight line between two places of the picture."""
        self.marks.append(
            f'<line class="line {tone} {style}" x1="{x1:.1f}" y1="{y1:.1f}" '
            f'x2="{x2:.1f}" y2="{y2:.1f}"/>'
        )

    def bar(
        self,
        x: float,
        y: float,
        width: float,
        height: float,
        tone: Tone,
        *,
        tip: str = "",
        style: str = "",
    ) -> None:
        """Draw a filled rectangle at a place of the picture."""
        attribute = f' data-tip="{escape(tip)}"' if tip else ""
        self.marks.append(
            f'<rect class="bar {tone} {style}" x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" '
            f'height="{max(height, 0):.1f}" rx="2"{attribute}/>'
        )

    def rule(
        self,
        *,
        x: float | None = None,
        y: float | None = None,
        label: str = "",
        tone: Tone = "muted",
        style: str = "dashed",
        under: bool = False,
    ) -> None:
        """Draw a line across the frame at a value, with a label above it (or `under` it)."""
        if x is not None:
            place = self.px(x)
            self.segment(place, self.top, place, self.height - self.bottom, tone, style=style)
            if label:
                end = place > 0.7 * self.width
                self.text(
                    place - 5 if end else place + 5,
                    self.top - 7,
                    label,
                    anchor="end" if end else "start",
                    tone=tone,
                )
        if y is not None:
            place = self.py(y)
            self.segment(self.left, place, self.width - self.right, place, tone, style=style)
            if label:
                below = 14 if under else -5
                self.text(
                    self.width - self.right - 4, place + below, label, anchor="end", tone=tone
                )

    def text(
        self,
        x: float,
        y: float,
        text: str,
        *,
        anchor: Anchor = "start",
        tone: Tone = "muted",
        style: str = "",
    ) -> None:
        """Write at a place of the picture, above all marks."""
        self.over.append(
            f'<text class="label {tone} {style}" x="{x:.1f}" y="{y:.1f}" '
            f'text-anchor="{anchor}">{escape(text)}</text>'
        )

    def svg(self, alt: str) -> str:
        """Return the picture; `alt` says in a sentence or two what it shows."""
        frame = [*self._x_axis(), *(self._y_axis() if self.y is not None else ())]
        body = "".join([*frame, *self.marks, *self.over])
        return (
            f'<svg class="plot" viewBox="0 0 {self.width:g} {self.height:g}" role="img" '
            f'aria-label="{escape(alt)}" preserveAspectRatio="xMidYMid meet">{body}</svg>'
        )

    def _x_axis(self) -> list[str]:
        bottom = self.height - self.bottom
        parts = []
        for tick in self.x.ticks(max(3, int((self.width - self.left - self.right) / 85))):
            place = self.px(tick)
            parts.append(
                f'<line class="grid" x1="{place:.1f}" y1="{self.top:g}" x2="{place:.1f}" '
                f'y2="{bottom:g}"/><text class="tick" x="{place:.1f}" y="{bottom + 17:g}" '
                f'text-anchor="middle">{tick_label(tick)}</text>'
            )
        parts.append(
            f'<line class="axis" x1="{self.left:g}" y1="{bottom:g}" '
            f'x2="{self.width - self.right:g}" y2="{bottom:g}"/>'
        )
        if self.x_title:
            middle = (self.left + self.width - self.right) / 2
            parts.append(
                f'<text class="axis-title" x="{middle:.1f}" y="{self.height - 7:g}" '
                f'text-anchor="middle">{escape(self.x_title)}</text>'
            )
        return parts

    def _y_axis(self) -> list[str]:
        assert self.y is not None
        parts = []
        for tick in self.y.ticks(max(3, int((self.height - self.top - self.bottom) / 38))):
            place = self.py(tick)
            parts.append(
                f'<line class="grid" x1="{self.left:g}" y1="{place:.1f}" '
                f'x2="{self.width - self.right:g}" y2="{place:.1f}"/>'
                f'<text class="tick" x="{self.left - 7:g}" y="{place + 4:.1f}" '
                f'text-anchor="end">{tick_label(tick)}</text>'
            )
        if self.y_title:
            middle = (self.top + self.height - self.bottom) / 2
            parts.append(
                f'<text class="axis-title" transform="translate(13 {middle:.1f}) rotate(-90)" '
                f'text-anchor="middle">{escape(self.y_title)}</text>'
            )
        return parts


def legend(entries: Sequence[tuple[Tone, str]]) -> str:
    """Return what the tones of a picture mean, as HTML."""
    items = "".join(
        f'<li><span class="key {tone}" aria-hidden="true"></span>{escape(text)}</li>'
        for tone, text in entries
    )
    return f'<ul class="legend">{items}</ul>'


def shortened(text: str, most: int) -> str:
    """Return a text of at most so many letters.

    >>> shortened("night>afternoon", 8)
    'night>a…'
    """
    return text if len(text) <= most else text[: most - 1] + "…"


def _runs(xs: Iterable[float], ys: Iterable[float]) -> list[list[tuple[float, float]]]:
    runs: list[list[tuple[float, float]]] = [[]]
    for x, y in zip(xs, ys, strict=True):
        if math.isfinite(x) and math.isfinite(y):
            runs[-1].append((x, y))
        elif runs[-1]:
            runs.append([])
    return [run for run in runs if len(run) > 1]
