"""The ordered values of one tail, and what an estimator makes of them for every k."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Literal, get_args

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.statistics.tails.estimators import Estimator, hill_path, moment_path, pickands_path
from tailproof.statistics.tails.sample import (
    check_choice,
    check_level,
    check_theta,
    is_sorted,
    median_of,
)

Side = Literal["right", "left"]

PATHS = {"hill": hill_path, "moment": moment_path, "pickands": pickands_path}


@dataclass(frozen=True, kw_only=True, eq=False)
class OrderedTail:
    """How far the extremes lie beyond the centre, largest first."""

    values: FloatArray  # (m,)
    centre: float
    side: Side
    method: Estimator

    @cached_property
    def shape(self) -> FloatArray:
        """The estimates of ξ at each k from 1 up."""
        return PATHS[self.method](self.values) if len(self.values) > 1 else np.empty(0)

    def threshold(self, k: IntArray) -> FloatArray:
        """Return the value of the sample beyond which the extremes lie that k uses."""
        edge = self.values[4 * k - 1 if self.method == "pickands" else k]
        return self.centre + edge if self.side == "right" else self.centre - edge


def ordered_tail(
    x: FloatArray, *, side: Side, method: Estimator, centre: float | None, most: int
) -> OrderedTail:
    """Return as much of a tail as estimates up to k = most need, the median being the centre.

    >>> x = np.array([3.0, 1.0, 0.0, -1.0, -9.0])
    >>> ordered_tail(x, side="left", method="hill", centre=None, most=4).values
    array([9., 1.])
    """
    n = len(x)
    if centre is None:
        centre = float(median_of(x))
    kept = min(n, 4 * most if method == "pickands" else most + 1)
    if kept > 0 and is_sorted(x):
        x = x[n - kept :] if side == "right" else x[:kept]
    beyond = x - centre if side == "right" else centre - x
    if 0 < kept < len(beyond):
        beyond = np.partition(beyond, n - kept)[n - kept :]
    ordered = np.sort(beyond)[::-1]
    if method != "pickands":  # the others take logarithms
        ordered = ordered[ordered > 0]
    return OrderedTail(values=ordered, centre=centre, side=side, method=method)


def check_settings(*, side: Side, method: Estimator, level: float, theta: float) -> None:
    """Raise a named error unless all four settings exist."""
    check_choice("side", side, get_args(Side))
    check_choice("method", method, get_args(Estimator))
    check_level(level)
    check_theta(theta)
