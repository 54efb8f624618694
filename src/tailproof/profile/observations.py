"""Independent observations of a log, and the spreads of their means."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailproof.arrays import BoolArray, FloatArray, IntArray
from tailproof.log.log import Log
from tailproof.robust.gains import Scored, possible_values
from tailproof.robust.spreads import Events, Rare, Spread, centred, hall_spread, hill_tail
from tailproof.rules import RULES

_FEW_SIZES = 20  # fewer events do not show how heavy their sizes are
_FEW = 10  # with fewer rows, an action may lack a common reward by chance


@dataclass(frozen=True, eq=False)
class Observations:
    """The independent observation of each sample: its group, or the sample itself."""

    of_sample: IntArray  # (n,) the index of its observation
    name: str  # "row", "episode" or "group"

    @classmethod
    def of(cls, log: Log) -> Observations:
        """Return the observations of a log's episodes."""
        alone = "row" if log.is_bandit else "episode"
        return cls(log.group_of_episode, alone if log.group_ids is None else "group")

    @property
    def count(self) -> int:
        """Number of observations, U."""
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
        """Return the number of observations with at least one differing sample."""
        return int((self.sums(differs.astype(float)) > 0).sum())


def common_value(samples: FloatArray) -> float | None:
    """Return the value of more than 80 % of the samples, or None.

    >>> common_value(np.array([0.0] * 9 + [3.0])), common_value(np.arange(9.0))
    (0.0, None)
    """
    values, counts = np.unique(samples, return_counts=True)
    most = int(np.argmax(counts))
    return float(values[most]) if counts[most] > (1 - RULES.rare_share) * len(samples) else None


def common_rewards(rewards: FloatArray, actions: IntArray, n_actions: int) -> FloatArray | None:
    """Return the reward of more than 80 % of each action's rows, (A,), or None.

    It may differ between actions, as prices and premiums do. An action with few rows uses its most
    common reward, an action without rows that of all rows.
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
    """Return gamma intervals for differences `sizes` from a common value, with `weights`, (n,).

    One more event is assumed to have the size of `next_size` and the mean weight. The squares of the
    events are at least those of weights that have nothing to do with sizes: where few rows have most of
    the weight, they may lack the events that other rows with a weight show. `common_error` is the
    standard error of the common value, if it differs between rows.
    """
    n, mean_weight = len(sizes), float(weights[weights > 0].mean())
    rows, weighted = observations.sums(np.ones(n)), observations.sums(weights) / n
    active = weighted > 0
    sides: list[Events] = []
    for sign in (1, -1):
        side = np.maximum(sign * sizes, 0)
        parts = observations.sums(weights * side) / n
        seen = observations.sums(side)
        unrelated = float((weighted**2).sum() * ((seen / rows)[active] ** 2).mean())
        squares = max(float((parts**2).sum()), unrelated)
        one_more = next_size(seen) * mean_weight / n
        sides.append(Events(float(parts.sum()), squares, one_more))
    return Rare(common, sides[0], sides[1], common_error)


def next_size(sizes: FloatArray) -> float:
    """Return the size of one more event, as a gamma interval needs it; 0 if there was none.

    The size-biased mean Σs²/Σs, which is that of the event by which a unit of the sum came. Where
    Hill's index of the sizes is below 2.5, the geometric mean of it and the largest; of few events the
    largest. With 100 or 1,000 events of which 3 to 30 are the policy's (exponential, gamma, log-normal
    σ 0.5 to 1.5, Pareto 1.7 to 3.5), 90 % intervals hold in 90 % or more; the largest of all would
    make those of a pilot up to four times as wide.

    >>> next_size(np.array([0.0, 0.0])), round(next_size(np.linspace(1, 2, 100)), 2)
    (0.0, 1.56)
    """
    events = sizes[sizes > 0]
    if len(events) < _FEW_SIZES:
        return float(events.max(initial=0.0))
    largest, unit = float(events.max()), events / events.max()  # squares may overflow
    biased = largest * float((unit**2).sum() / unit.sum())
    tail = hill_tail(events)
    heavy = tail is not None and tail[0] < RULES.heavy
    return float(np.sqrt(largest) * np.sqrt(biased)) if heavy else biased


def logged_scores(
    observations: Observations,
    returns: FloatArray,
    *,
    common: FloatArray | None = None,
    policy_is_rare: bool = False,
    robust: float | None = None,
    pool: bool = False,
) -> Scored:
    """Return the logged mean with its scores.

    `common` is the common reward of each sample's action, (n,), if there is one; `robust` a robust mean
    that replaces the plain one. If the policy's own interval is one of rare events, no tail point is
    added here, because both intervals use the same observed event sizes. With `pool`, few groups have a
    wider interval, as those of a policy with weights do.
    """
    mean = float(returns.mean())
    influence = observations.influence(returns - mean)
    spread: Spread
    if common is not None and 0 < observations.events(returns != common) < RULES.rare_events:
        usual, error = float(common.mean()), float(common.std()) / np.sqrt(len(common))
        even = np.ones(len(common))
        spread = rare_spread(observations, usual, returns - common, even, common_error=error)
    else:
        every = np.ones(observations.count, dtype=bool)
        grouped = pool and observations.name == "group"
        spread = hall_spread(
            mean,
            influence,
            every,
            pooled=(returns - mean, np.ones(len(returns))) if grouped else None,
            group=observations.of_sample if grouped else None,
            look_beyond=not policy_is_rare,
        )
    return Scored(
        value=mean if robust is None else robust,
        spread=spread if robust is None else centred(spread, robust),
        influence=influence,
        possible=possible_values(returns),
    )
