"""Scales: from values to places on an axis, with ticks that people like."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tailproof.report.text import number

Kind = Literal["linear", "log", "signed-log"]


@dataclass(frozen=True)
class Scale:
    """Maps [low, high] to [0, 1]: linearly, by logarithm, or by a logarithm of both signs.

    The signed one is asinh(x/unit): linear within ±unit, logarithmic beyond, so that a storm and a
    calm day fit one picture.

    Parameters
    ----------
    low, high
        What the axis shows.
    kind
        "linear", "log" or "signed-log".
    unit
        Where the signed logarithm turns from linear to logarithmic.

    Examples
    --------
    >>> Scale(0, 10)(5), Scale(1, 100, "log")(10)
    (0.5, 0.5)
    >>> Scale(0, 10).ticks()
    [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]
    """

    low: float
    high: float
    kind: Kind = "linear"
    unit: float = 1.0

    def __call__(self, value: float) -> float:
        """Return the place of a value, 0 at `low` and 1 at `high`."""
        low, high = self._shape(self.low), self._shape(self.high)
        return (self._shape(value) - low) / (high - low)

    def _shape(self, value: float) -> float:
        if self.kind == "log":
            return math.log(value)
        return math.asinh(value / self.unit) if self.kind == "signed-log" else value

    def ticks(self, most: int = 7) -> list[float]:
        """Return round values within the scale, at most about `most`."""
        if self.kind == "linear":
            return _linear_ticks(self.low, self.high, most)
        if self.kind == "log":
            found = _powers(self.low, self.high, most)
            return found if len(found) > 1 else _linear_ticks(self.low, self.high, most)
        below = [-tick for tick in reversed(_powers(self.unit, -self.low, most // 2))]
        above = _powers(self.unit, self.high, most // 2)
        zero = [0.0] if self.low <= 0 <= self.high else []
        found = [tick for tick in (*below, *zero, *above) if self.low <= tick <= self.high]
        return found if len(found) > 2 else _linear_ticks(self.low, self.high, most)


def scale_over(
    values: Iterable[float], *, kind: Kind = "linear", room: float = 0.06, unit: float | None = None
) -> Scale:
    """Return a scale that shows all finite values with some room at both ends.

    >>> scale_over([1.0, 3.0], room=0.0)
    Scale(low=1.0, high=3.0, kind='linear', unit=1.0)
    """
    x = np.asarray(list(values), dtype=float)
    x = x[np.isfinite(x)]
    if kind == "log":
        x = x[x > 0]
    low, high = (float(x.min()), float(x.max())) if len(x) else (0.0, 1.0)
    if kind == "log":
        low, high = (low, high) if len(x) else (1.0, 10.0)
        factor = (high / low) ** room if high > low else 2.0
        return Scale(low / factor, high * factor, "log")
    if low == high:
        low, high = low - (abs(low) or 1.0) / 2, high + (abs(high) or 1.0) / 2
    if kind == "signed-log":
        size = unit or float(np.quantile(np.abs(x), 0.75)) or 1.0
        ends = [math.asinh(low / size), math.asinh(high / size)]
        more = room * (ends[1] - ends[0])
        low, high = size * math.sinh(ends[0] - more), size * math.sinh(ends[1] + more)
        return Scale(low, high, "signed-log", size)
    more = room * (high - low)
    return Scale(low - more, high + more)


def tick_label(value: float) -> str:
    """Return a short label: 20k for 20,000.

    >>> tick_label(20000.0), tick_label(-0.5), tick_label(1.5e6), tick_label(0.0)
    ('20k', '−0.5', '1.5M', '0')
    """
    for size, letter in ((1e9, "G"), (1e6, "M"), (1e4, "k")):
        if abs(value) >= size:
            return f"{value / (1e3 if letter == 'k' else size):g}{letter}".replace("-", "−")
    if value != 0 and abs(value) < 1e-4:
        return number(value, 2).replace("-", "−")
    return f"{value:.10g}".replace("-", "−")


def _linear_ticks(low: float, high: float, most: int) -> list[float]:
    if not high > low:
        return [low]
    rough = (high - low) / max(most - 1, 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * m for m in (1, 2, 5, 10) if power * m >= rough * (1 - 1e-9))
    first, last = math.ceil(low / step - 1e-9), math.floor(high / step + 1e-9)
    digits = max(0, 1 - math.floor(math.log10(step)))
    return [round(i * step, digits) + 0.0 for i in range(first, last + 1)]


def _powers(low: float, high: float, most: int) -> list[float]:
    if not 0 < low < high:
        return []
    first, last = math.ceil(math.log10(low) - 1e-9), math.floor(math.log10(high) + 1e-9)
    decades = [10.0**p for p in range(first, last + 1)]
    if len(decades) <= most // 2:  # room for 2 and 5 as well
        fine = [m * 10.0**p for p in range(first - 1, last + 1) for m in (1, 2, 5)]
        fine = [tick for tick in fine if low * (1 - 1e-9) <= tick <= high * (1 + 1e-9)]
        if len(fine) <= most:
            return fine
    every = math.ceil(len(decades) / max(most, 1)) or 1
    return decades[::every]
