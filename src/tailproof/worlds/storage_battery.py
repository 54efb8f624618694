"""The battery of the storage world: what an action does to it, and features φ(s, a) of that."""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tailproof.arrays import FloatArray, IntArray
from tailproof.data.spaces import Discrete
from tailproof.errors import MethodError
from tailproof.worlds.prices import HOURS

CHARGE, HOLD, DISCHARGE = 0, 1, 2
ACTIONS = Discrete(3, ("charge", "hold", "discharge"))
CAPACITY = 2
LEVELS = CAPACITY + 1
EFFICIENCY = 0.93


def level_after(level: IntArray, action: IntArray) -> IntArray:
    """Return the charge level that an action leads to: one up, the same or one down, if possible.

    Examples
    --------
    >>> level_after(np.array([0, 2, 1]), np.array([CHARGE, CHARGE, DISCHARGE])).tolist()
    [1, 2, 0]
    """
    after: IntArray = np.clip(level + HOLD - action, 0, CAPACITY)
    return after


def energy_sold(level: IntArray, action: IntArray) -> FloatArray:
    """Return the MWh that an action sells to the grid, negative when it buys.

    Examples
    --------
    >>> energy_sold(np.array([0, 2, 1]), np.array([CHARGE, CHARGE, DISCHARGE])).round(3).tolist()
    [-1.075, 0.0, 0.93]
    """
    drawn = level - level_after(level, action)
    return np.where(drawn > 0, EFFICIENCY * drawn, drawn / EFFICIENCY)


@dataclass(frozen=True)
class HourlyFeatures:
    """φ(s, a) for evaluation: one-hot hour × [MWh sold, 1, s'/2, (s'/2)²], 96 in all.

    s' is the level after the action. Every policy's Q, in expectation over days, is linear in φ:
    the first entry carries the hour's mean price, the other three any function of the three levels.
    Past the last hour φ is zero.

    Examples
    --------
    >>> HourlyFeatures()(np.array([[0.0, 1.0]]), np.array([DISCHARGE]))[0, :4].tolist()
    [0.93, 1.0, 0.0, 0.0]
    """

    @property
    def size(self) -> int:
        """Number of features, 96."""
        return 4 * HOURS

    def __call__(self, states: FloatArray, actions: IntArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, 96)."""
        clock = states[:, :1] == np.arange(HOURS)  # (n, 24)
        return _crossed(clock, states, actions)


@dataclass(frozen=True)
class SmoothFeatures:
    """φ(s, a) for learning: hat functions of the hour × [MWh sold, 1, s'/2, (s'/2)²].

    The hats stand on evenly spaced knots from hour 0 to hour 23, fall linearly to zero at the next
    knot and sum to one. Neighbouring hours share what they learn. Past the last hour φ is zero.

    Parameters
    ----------
    hats
        Number of hat functions, at least 2; 8 make 32 features.

    Examples
    --------
    >>> SmoothFeatures().size
    32
    """

    hats: int = 8

    def __post_init__(self) -> None:
        if self.hats < 2:
            raise MethodError(f"SmoothFeatures needs at least 2 hats. Got {self.hats}; 8 is usual.")

    @property
    def size(self) -> int:
        """Number of features, 4 times the hats."""
        return 4 * self.hats

    def __call__(self, states: FloatArray, actions: IntArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, 4 · hats)."""
        position = states[:, :1] * (self.hats - 1) / (HOURS - 1)  # in knots
        clock = np.maximum(0, 1 - np.abs(position - np.arange(self.hats)))  # (n, hats)
        return _crossed(clock * (states[:, :1] < HOURS), states, actions)


def _crossed(clock: NDArray[Any], states: FloatArray, actions: IntArray) -> FloatArray:
    level = states[:, 1].astype(int)
    filled = level_after(level, actions) / CAPACITY
    battery = np.column_stack(
        [energy_sold(level, actions), np.ones(len(level)), filled, filled**2]
    )  # (n, 4)
    return (clock[:, :, None] * battery[:, None, :]).reshape(len(level), -1)
