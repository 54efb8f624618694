"""What counts as one independent observation, and the spreads of their means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailproof.algorithms.default.spreads import Events, Rare, Spread, hall_spread
from tailproof.arrays import BoolArray, FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.judgement.rules import RULES

_FEW = 10  # rows of an action that may have no common reward by chance


@dataclass(frozen=True, eq=False)
class Observations:
    """Which independent observation each sample belongs to: its group, or itself."""

    of_sample: IntArray  # (n,) the index of its observation
    name: str  # what an observation is called: "row", "episode", "group"

    @classmethod
    def of(cls, log: Log) -> Observations:
        """Return those of the episodes of a log."""
        alone = "row" if log.is_bandit else "episode"
        return cls(log.group_of_episode, alone if log.group_ids is None else "group")

    @property
    def count(self) -> int:
        """How many there are, U."""
        return int(self.of_sample.max()) + 1

    def sums(self, values: FloatArray) -> FloatArray:
        """Return sums over observations, (U,)."""
        if self.name != "group":
            return values
        return np.bincount(self.of_sample, weights=values, minlength=self.count).astype(float)

    def influence(self, values: FloatArray) -> FloatArray:
        """Return sums scaled so that their mean is that of the values, (U,)."""
        return self.sums(values) * (self.count / len(values))

    def events(self, differs: BoolArray) -> int:
        """Return in how many observations a sample differs."""
        return int((self.sums(differs.astype(float)) > 0).sum())


def common_value(samples: FloatArray) -> float | None:
    """Return the value that more than four of five samples share, or None.

    >>> common_value(np.array([0.0] * 9 + [3.0])), common_value(np.arange(9.0))
    (0.0, None)
    """
    values, counts = np.unique(samples, return_counts=True)
    most = int(np.argmax(counts))
    return float(values[most]) if counts[most] > (1 - RULES.rare_share) * len(samples) else None


def common_rewards(rewards: FloatArray, actions: IntArray, n_actions: int) -> FloatArray | None:
    """Return the reward that more than four of five rows of each action share, (A,), or None.

    Actions may differ in it, as prices and premiums do. Of an action with few rows the most common
    reward is taken, of one without any that of all rows.
    """
    overall, found = common_value(rewards), np.empty(n_actions)
    for action in range(n_actions):
        own = rewards[actions == action]
        common = common_value(own) if len(own) else overall
        if common is None and len(own) >= _FEW:
            return None
        values, counts = np.unique(own if len(own) else rewards, return_counts=True)
        found[action] = values[np.argmax(counts)] if common is None else common
    shared = (rewards == found[actions]).mean()
    return found if shared > 1 - RULES.rare_share else None


def rare_spread(
    observations: Observations,
    common: float,
    sizes: FloatArray,
    weights: FloatArray,
    *,
    common_error: float = 0.0,
) -> Rare:
    """Return gamma intervals of what differs from a common value, by `sizes` with `weights`, (n,).

    The next event may be as large as the largest, and counts with the mean weight. `common_error` is
    the standard error of the common value, where that differs between rows.
    """
    n, mean_weight = len(sizes), float(weights[weights > 0].mean())
    sides: list[Events] = []
    for sign in (1, -1):
        parts = observations.sums(np.maximum(sign * (weights * sizes), 0)) / n
        largest = float(observations.sums(np.maximum(sign * sizes, 0)).max()) * mean_weight / n
        sides.append(Events(float(parts.sum()), float((parts**2).sum()), largest))
    return Rare(common, sides[0], sides[1], common_error)


def logged_spread(
    observations: Observations,
    returns: FloatArray,
    *,
    common: FloatArray | None = None,
    policy_is_rare: bool = False,
) -> Spread:
    """Return the spread of the mean of what was logged.

    `common` is the common reward of each sample's action, (n,), where there is one. Where the policy's
    own interval is one of rare events, more of them in the whole log need no point beyond their tail:
    the sizes of all of them are known to both.
    """
    if common is not None and 0 < observations.events(returns != common) < RULES.rare_events:
        usual, error = float(common.mean()), float(common.std()) / np.sqrt(len(common))
        even = np.ones(len(common))
        return rare_spread(observations, usual, returns - common, even, common_error=error)
    mean, every = float(returns.mean()), np.ones(observations.count, dtype=bool)
    influence = observations.influence(returns - mean)
    return hall_spread(mean, influence, every, look_beyond=not policy_is_rare)
