"""Electricity storage: a battery trades at real prices, and one winter storm dominates the mean.

A battery of 1 MW and 2 MWh buys and sells at an ERCOT hub's day-ahead price p. An episode is a day:
24 hours, γ = 1, empty at midnight. The state is (hour, level) with level in {0, 1, 2} MWh; the
actions are charge, hold, discharge = 0, 1, 2; an impossible action holds. With e = 0.93 the one-way
efficiency, the reward in dollars is::

    r = p · sold,   sold = −1/e (charge), 0 (hold), +e (discharge)

and in the last hour the remaining energy, e · level, is sold too. The battery does not change the
price, so the exact value of every policy can be computed by replay. In practice one would replay and
not estimate: this is a test bed that compares estimates from a log with exact values on real heavy
tails. Its limits are one storm, capped prices and five correlated hubs.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from examples.storm.prices import HOURS, HUBS, Prices, read_prices
from tailproof.arrays import FloatArray, IntArray
from tailproof.errors import MethodError, PolicyError
from tailproof.log.log import Log
from tailproof.log.spaces import Discrete
from tailproof.policies.forms import EpsilonGreedy, Policy, action_probabilities, draw

CHARGE, HOLD, DISCHARGE = 0, 1, 2
ACTIONS = Discrete(3, ("charge", "hold", "discharge"))
CAPACITY = 2
LEVELS = CAPACITY + 1
EFFICIENCY = 0.93


def level_after(level: IntArray, action: IntArray) -> IntArray:
    """Return the charge level after an action: one up, the same or one down, if possible.

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
class Schedule:
    """A deterministic policy: charge in some hours, discharge in others, hold in the rest.

    Parameters
    ----------
    charge, discharge
        Hours of the day, 0 to 23, without overlap.

    Examples
    --------
    >>> policy = Schedule(charge=(1, 2), discharge=(18, 19))
    >>> policy(np.array([[1.0, 0.0], [12.0, 2.0], [19.0, 1.0]])).tolist()
    [0, 1, 2]
    """

    charge: tuple[int, ...]
    discharge: tuple[int, ...]

    def __post_init__(self) -> None:
        both = sorted(set(self.charge) & set(self.discharge))
        if both:
            raise PolicyError(
                f"A schedule must charge and discharge in different hours. Got {both} in both; "
                f"leave each hour in one of them."
            )
        outside = sorted(set(self.charge + self.discharge) - set(range(HOURS)))
        if outside:
            raise PolicyError(
                f"A schedule's hours must be integers from 0 to 23. Got {outside}; "
                f"hour 0 begins at midnight."
            )

    def __call__(self, states: FloatArray) -> IntArray:
        """Return the action scheduled at the hour of each state, (n,)."""
        hour = states[:, 0]
        charging, discharging = np.isin(hour, self.charge), np.isin(hour, self.discharge)
        return np.where(charging, CHARGE, np.where(discharging, DISCHARGE, HOLD))


def _hours(*ranges: tuple[int, int]) -> tuple[int, ...]:
    return tuple(hour for first, last in ranges for hour in range(first, last + 1))


DISPATCHER = Schedule(_hours((0, 5)), _hours((16, 21)))
BEHAVIOUR = EpsilonGreedy(DISPATCHER, 0.5, n_actions=ACTIONS.n)
CANDIDATES = MappingProxyType(
    {
        "night>evening": Schedule(_hours((1, 4)), _hours((18, 21))),
        "night>afternoon": Schedule(_hours((1, 4)), _hours((15, 17))),
        "midday>evening": Schedule(_hours((9, 11)), _hours((17, 19))),
        "two-cycle": Schedule(_hours((1, 4), (10, 12)), _hours((6, 8), (17, 19))),
        "night>late": Schedule(_hours((1, 4)), _hours((20, 23))),
        "night>morning": Schedule(_hours((1, 4)), _hours((6, 8))),
        "dispatcher": DISPATCHER,
    }
)


def all_states() -> FloatArray:
    """Return the 72 states (hour, level); the level varies fastest."""
    return np.indices((HOURS, LEVELS)).reshape(2, -1).T.astype(float)  # (72, 2)


def dispatch(policy: Policy) -> FloatArray:
    """Return the expected MWh that a policy sells in each hour of a day.

    With m_h the distribution of the level at hour h, m_0 = empty::

        x_h = Σ_s m_h(s) Σ_a π(a|h,s) sold(s, a)    (+ e · E[level at the end] in the last hour)

    It does not depend on prices, so one dispatch holds for all days and hubs.

    Examples
    --------
    >>> sold = dispatch(CANDIDATES["night>morning"])
    >>> {hour: round(float(sold[hour]), 3) for hour in np.flatnonzero(sold).tolist()}
    {1: -1.075, 2: -1.075, 6: 0.93, 7: 0.93}
    """
    table = _table(policy)
    levels, actions = np.indices((LEVELS, ACTIONS.n))  # (3, 3) each
    after, sold = level_after(levels, actions), energy_sold(levels, actions)
    occupancy = np.eye(LEVELS)[0]
    expected = np.empty(HOURS)
    for hour in range(HOURS):
        joint = occupancy[:, None] * table[hour]  # (3, 3)
        expected[hour] = (joint * sold).sum()
        occupancy = np.bincount(after.ravel(), joint.ravel(), minlength=LEVELS)
    expected[-1] += EFFICIENCY * occupancy @ np.arange(LEVELS)
    return expected  # (24,)


def replay(policy: Policy, prices: Prices) -> FloatArray:
    """Return the exact value of a policy in $ on every hub and day: Σ_h p_h x_h, x its `dispatch`.

    Parameters
    ----------
    policy
        Any policy over states (hour, level) and the three actions.
    prices
        The days and hubs to replay, from `read_prices` and `Prices.select`.

    Examples
    --------
    >>> values = replay(CANDIDATES["night>evening"], read_prices())
    >>> values.shape, round(float(values.mean()), 2)
    ((5, 729), 66.97)
    """
    return prices.dollars @ dispatch(policy)  # (H, D)


def exact_value(
    policy: Policy,
    *,
    hubs: Sequence[str] | None = None,
    year: int | None = None,
    storm: bool = True,
) -> float:
    """Return a policy's exact mean value in $/day over days and hubs.

    Parameters
    ----------
    policy
        Any policy over states (hour, level) and the three actions.
    hubs, year, storm
        As in `Prices.select`: which hubs, which year, and whether the storm's nine days count.

    Examples
    --------
    >>> round(exact_value(CANDIDATES["night>afternoon"], year=2021), 2)
    8.34
    >>> round(exact_value(CANDIDATES["night>afternoon"], year=2021, storm=False), 2)
    70.26
    """
    return float(replay(policy, read_prices().select(hubs=hubs, year=year, storm=storm)).mean())


def log(
    hub: str,
    year: int | None,
    seed: int,
    *,
    storm: bool = True,
    behaviour: Policy = BEHAVIOUR,
) -> Log:
    """Run a behaviour policy at one hub and return the log, with propensities.

    An episode is a day, named by its ISO date; its group is the ISO week, so that folds of whole
    groups keep a storm together. The logged action is the chosen one, even if it was impossible and
    the battery held. The last hour terminates in the state (24, 0): everything is sold.

    Parameters
    ----------
    hub
        One of `prices.HUBS`.
    year
        2021 (364 days), 2022 (365 days) or None for both.
    seed
        Seed of the behaviour's choices, which differ from hub to hub; prices are not random.
    storm
        False leaves the storm's nine days out.
    behaviour
        The behaviour policy: by default the dispatcher, which charges from 0 to 5 h, discharges from
        16 to 21 h, and half of the time acts uniformly at random.

    Examples
    --------
    >>> logged = log("HB_NORTH", 2021, 7)
    >>> logged.states.shape
    (8736, 2)
    """
    prices = read_prices().select(hubs=[hub], year=year, storm=storm)
    rng = np.random.default_rng([HUBS.index(hub), seed])
    table = _table(behaviour)
    edges = table.cumsum(axis=-1)
    count = len(prices.days)
    levels = np.zeros((count, HOURS + 1), dtype=np.int64)
    actions = np.empty((count, HOURS), dtype=np.int64)
    for hour in range(HOURS):
        actions[:, hour] = draw(edges[hour, levels[:, hour]], rng)
        levels[:, hour + 1] = level_after(levels[:, hour], actions[:, hour])
    sold = energy_sold(levels[:, :-1], actions)  # (D, 24)
    sold[:, -1] += EFFICIENCY * levels[:, -1]
    levels[:, -1] = 0
    path = np.stack(np.broadcast_arrays(np.arange(HOURS + 1), levels), axis=-1).astype(float)
    hours = np.broadcast_to(np.arange(HOURS), actions.shape)
    return Log.from_arrays(
        path[:, :-1].reshape(-1, 2),
        actions.ravel(),
        (prices.dollars[0] * sold).ravel(),
        path[:, 1:].reshape(-1, 2),
        episode=np.repeat(prices.dates, HOURS),
        group=np.repeat(prices.weeks, HOURS),
        terminated=(hours == HOURS - 1).ravel(),
        propensity=table[hours, levels[:, :-1], actions].ravel(),
        action_space=ACTIONS,
        state_names=("hour", "level"),
    )


def _table(policy: Policy) -> FloatArray:
    """Return π(a | hour, level), (24, 3, 3)."""
    chances = action_probabilities(policy, all_states(), ACTIONS.n)
    return chances.reshape(HOURS, LEVELS, ACTIONS.n)


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

    The hats are centred on evenly spaced knots from hour 0 to hour 23, fall linearly to zero at the
    next knot and sum to one, so that neighbouring hours share parameters. Past the last hour φ is zero.

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
