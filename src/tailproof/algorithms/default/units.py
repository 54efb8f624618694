"""The unit of a sample (a step, or the sum over an episode or group), and means over units."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.errors import MethodError
from tailproof.statistics.means import Mean

Unit = Literal["step", "episode", "group"]
UNITS: tuple[Unit, ...] = ("step", "episode", "group")


@dataclass(frozen=True)
class EpisodeLengths:
    """The lengths and groups of some episodes: the part of a log that means need."""

    lengths: IntArray  # (E,)
    group_ids: AnyArray | None  # (E,)

    @classmethod
    def of(cls, log: Any) -> EpisodeLengths:
        """Return the lengths and groups of a log's episodes."""
        return cls(np.diff(log.starts), log.group_ids)

    def take(self, episodes: IntArray) -> EpisodeLengths:
        """Return these episodes, by index, in the given order."""
        groups = None if self.group_ids is None else self.group_ids[episodes]
        return EpisodeLengths(self.lengths[episodes], groups)

    def rows(self, episodes: IntArray) -> IntArray:
        """Return the row numbers of these episodes, in the given order."""
        lengths = self.lengths[episodes]
        ends = np.cumsum(lengths)
        first = np.repeat(self.starts[episodes] - ends + lengths, lengths)
        return np.asarray(first + np.arange(ends[-1]))

    @cached_property
    def starts(self) -> IntArray:
        """The first row of each episode, then the number of rows, (E + 1,)."""
        return np.append(0, np.cumsum(self.lengths))

    @cached_property
    def group_of_episode(self) -> IntArray:
        """The index of the group of each episode, (E,); without groups, each episode is its own."""
        if self.group_ids is None:
            return np.arange(len(self.lengths))
        return np.unique(self.group_ids, return_inverse=True)[1]

    @property
    def episode_of_row(self) -> IntArray:
        """The index of the episode of each row, (n,)."""
        return np.repeat(np.arange(len(self.lengths)), self.lengths)


Grouped = Log | EpisodeLengths


def unit_mean(
    samples: FloatArray, log: Grouped, *, mean: Mean, unit: Unit, rng: np.random.Generator
) -> float:
    """Return the robust mean of per-step samples, taken over steps or sums of episodes or groups.

    If samples are not finite (the fold's system is singular), the mean is NaN.
    """
    if unit != "step":
        sums = np.add.reduceat(samples, log.starts[:-1])
        return mean_of_sums(sums, log, mean=mean, unit=unit, rng=rng)
    if not np.isfinite(samples).all():
        return float("nan")
    named = log.group_ids is not None  # steps count as independent unless the log has groups
    groups = log.group_of_episode[log.episode_of_row] if named else None
    return float(mean(samples, groups=groups, rng=rng))


def mean_of_sums(
    sums: FloatArray, log: Grouped, *, mean: Mean, unit: Unit, rng: np.random.Generator
) -> float:
    """Return the robust mean per step, from sums over episodes.

    With E units of n steps, mean(samples) = (E / n) · mean(sums), so the mean of sums is scaled back.
    """
    if not np.isfinite(sums).all():
        return float("nan")
    groups = log.group_of_episode
    if unit == "group":
        sums = np.bincount(groups, weights=sums).astype(float)
        groups = np.arange(len(sums))
    return float(mean(sums, groups=groups, rng=rng)) * len(sums) / int(log.starts[-1])


def check_mean(mean: Any, unit: Any) -> None:
    """Refuse a mean that cannot be called and a unit that does not exist."""
    if not callable(mean):
        raise MethodError(
            f"mean must be one of tailproof.means, for instance AdaptiveHuber(). Got {mean!r}."
        )
    if unit not in UNITS:
        raise MethodError(f"unit must be one of {', '.join(UNITS)}. Got {unit!r} instead.")
