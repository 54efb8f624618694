"""Values of parts of a log from the scores of its units, without fitting anything again."""

from __future__ import annotations

from tailproof.arrays import BoolArray, FloatArray
from tailproof.robust.gains import Scored
from tailproof.robust.spreads import hall_spread


def part_mean(sums: FloatArray, counts: FloatArray, active: BoolArray) -> Scored:
    """Return the mean score of a part of a log, Σ sums / Σ counts, with the influence of its units.

    The influence of unit u of U is (sums_u − counts_u mean) U / Σ counts, that of a ratio: how many
    rows of a part a unit has is random too.

    Parameters
    ----------
    sums, counts
        The sum of the scores, and the number, of each unit's rows in the part, (U,).
    active
        The units that the policy gives a weight other than 0, (U,); all, if none is.

    Examples
    --------
    >>> import numpy as np
    >>> found = part_mean(np.array([1.0, 2.0, 6.0]), np.array([1.0, 1.0, 2.0]), np.ones(3, bool))
    >>> found.value, found.influence.tolist()
    (2.25, [-0.9375, -0.1875, 1.125])
    """
    total = float(counts.sum())
    mean = float(sums.sum()) / total
    influence: FloatArray = (sums - counts * mean) * (len(sums) / total)
    spread = hall_spread(mean, influence, active if active.any() else ~active)
    return Scored(value=mean, spread=spread, influence=influence)


def joint_level(level: float, count: int) -> float:
    """Return the level of each of `count` intervals that hold together with `level` (Bonferroni).

    >>> round(joint_level(0.9, 4), 6)
    0.975
    """
    return 1 - (1 - level) / count
