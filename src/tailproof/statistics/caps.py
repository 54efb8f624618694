"""Caps by name: winsorising as experiment platforms do it."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.errors import MethodError

#: The default of most experiment platforms.
USUAL = "p99.9"
_FORM = re.compile(r"p(\d+(?:\.\d+)?)(:all)?")


@dataclass(frozen=True)
class Cap:
    """A one-sided cap at a percentile: an upper one above 50, a lower one below."""

    percentile: float  # in (0, 100), not 50
    every: bool = False  # percentile of all values, or only of non-zero ones

    @classmethod
    def named(cls, name: str) -> Cap:
        """Return the cap with a name such as "p99.9", "p0.1", or "p99.9:all" with zeros counted.

        >>> Cap.named("p99.9"), Cap.named("p1:all")
        (Cap(percentile=99.9, every=False), Cap(percentile=1.0, every=True))
        """
        match = _FORM.fullmatch(name.strip())
        if match is None or not 0 < float(match[1]) < 100 or float(match[1]) == 50:
            raise MethodError(
                f"clip must be a share of either side such as 0.01, or a percentile such as 'p99.9' "
                f"(upper cap), 'p0.1' (lower cap) or 'p99.9:all' (zeros counted). Got {name!r} instead."
            )
        return cls(float(match[1]), every=match[2] is not None)

    @property
    def upper(self) -> bool:
        """Whether large values are capped, not small ones."""
        return self.percentile > 50

    @property
    def mirrored(self) -> Cap:
        """The same cap on the other side."""
        return Cap(round(100 - self.percentile, 10), self.every)

    def capped(self, values: FloatArray) -> FloatArray:
        """Return the values clipped at the cap, (n,); zeros stay 0 unless they are counted.

        >>> Cap.named("p90").capped(np.array([0.0, 0.0, 1.0, 2.0, 3.0]))
        array([0. , 0. , 1. , 2. , 2.8])
        """
        counted = values if self.every else values[values != 0]
        if not len(counted):
            return values
        cap = float(np.percentile(counted, self.percentile))
        if not self.every:
            cap = max(cap, 0.0) if self.upper else min(cap, 0.0)
        return np.minimum(values, cap) if self.upper else np.maximum(values, cap)

    def __str__(self) -> str:
        return f"p{self.percentile:g}{':all' if self.every else ''}"
