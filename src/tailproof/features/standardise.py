"""Robust standardisation, so that no answer depends on the unit of a column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailproof.arrays import FloatArray

REACH = 3.0  # robust standard deviations beyond which a tamed variable grows like a logarithm


@dataclass(frozen=True)
class Standardise:
    """z = (s − median) / (interquartile range / 1.35), for each column that is not constant.

    A column whose quartiles agree, such as a rare indicator, is divided by its standard deviation.

    Parameters
    ----------
    columns, centre, scale
        Which columns of the state are kept, and how each is moved and divided. They are ordered by what
        they hold, so that the order of columns in a file changes nothing.
    tame
        Whether |z| beyond 3 is pulled in to 3 + log(1 + |z| − 3), so that one extreme state does not
        decide a linear fit. The order of states stays as it is.

    Examples
    --------
    >>> states = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, 5.0], [4.0, 5.0]])
    >>> Standardise.fit(states)(states).ravel().round(3)
    array([-1.35 , -0.675,  0.   ,  0.675,  1.35 ])
    """

    columns: tuple[int, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    tame: bool = False

    @classmethod
    def fit(cls, states: FloatArray, *, tame: bool = False) -> Standardise:
        """Return the standardisation of these states, (n, p)."""
        low, centre, high = np.quantile(states, [0.25, 0.5, 0.75], axis=0)
        spread = high / 1.35 - low / 1.35
        size = np.abs(states).max(axis=0, initial=0.0)
        unit = states / np.where(size > 0, size, 1.0)  # so that nothing overflows
        deviation = size * unit.std(axis=0)
        varies = np.ptp(unit, axis=0) > 1e-12
        scale = np.where(spread > 1e-9 * deviation, spread, deviation)
        kept = np.flatnonzero(varies & (scale > 0) & np.isfinite(scale))
        bounded = np.tanh((states[:, kept] - centre[kept]) / scale[kept])
        kept = kept[np.lexsort((bounded.mean(axis=0), np.abs(bounded).mean(axis=0).round(9)))]
        return cls(
            tuple(kept.tolist()), tuple(centre[kept].tolist()), tuple(scale[kept].tolist()), tame
        )

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return z, (n, kept columns)."""
        z: FloatArray = (states[:, list(self.columns)] - np.array(self.centre)) / np.array(
            self.scale
        )
        if self.tame:
            far = np.abs(z) > REACH
            beyond = np.abs(z[far]) - REACH
            z[far] = np.sign(z[far]) * (REACH + np.log1p(beyond))
        return z
