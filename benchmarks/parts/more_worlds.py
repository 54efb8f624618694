"""Eight more worlds, written before their author had read the estimators, for `outside.py`.

The first four leave out of the log what matters: they are not Markov in what is logged. `FatigueShown`
and `TiredSpendShown` are two of them with the hidden column, `Cycles` and `Seasons` log all.
Settings were chosen on these worlds; they judge nothing.
"""

from __future__ import annotations

import numpy as np

from benchmarks.parts.worlds import World


def _chance(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-np.clip(x, -40, 40)))


def _unit_lognormal(rng: np.random.Generator, sigma: float, n: int) -> np.ndarray:
    return np.exp(sigma * rng.standard_normal(n) - sigma**2 / 2)


def _pareto(rng: np.random.Generator, index: float, n: int) -> np.ndarray:
    """Draw Pareto numbers of mean one."""
    return (index - 1) / index * rng.random(n) ** (-1 / index)


class Fatigue(World):
    """Drivers tire with a memory that saturates; tired ones are slow, and have costly accidents."""

    actions, gamma, episodes, horizon, epsilon, shown = 3, 0.95, 120, 42, 0.5, 2
    work = np.array([0.0, 0.5, 1.0])

    def start(self, n, rng):
        """Draw orders, experience and a little fatigue."""
        return np.column_stack([rng.gamma(2, 0.5, n), rng.uniform(-1, 1, n), 0.3 * rng.random(n)])

    def observe(self, z):
        """Hide the fatigue, or show all."""
        return z[:, : self.shown]

    def step(self, z, a, rng):
        """Drive no, some or many orders."""
        orders, skill, tired = z.T
        n = len(orders)
        done = 4 * self.work[a] * np.minimum(orders, 2) * (1 + 0.2 * skill - 0.7 * tired)
        self._risk = 0.03 * self.work[a] * (0.1 + tired**3)
        mean = done - 40 * self._risk - 0.5 * np.maximum(orders - 1.5, 0) * (a == 0)
        tired = np.tanh(0.85 * np.arctanh(np.minimum(tired, 0.98)) + 0.45 * self.work[a] ** 2)
        orders = 0.5 * orders + 0.5 * rng.gamma(2, 0.5, n)
        return np.column_stack([orders, skill, tired]), mean, np.zeros(n, bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw accidents around their mean, and Student noise."""
        n = len(z)
        cost = 40 * _unit_lognormal(rng, 1.0, n) * (rng.random(n) < self._risk)
        return 40 * self._risk - cost + 0.5 * rng.standard_t(3, n)

    def habit(self, states):
        """Drive as much as there is."""
        return np.digitize(states[:, 0], [0.5, 1.1])

    def target(self, states):
        """Drive less, the unskilled least."""
        return np.digitize(states[:, 0] + 0.2 * states[:, 1], [0.9, 2.0])


class FatigueShown(Fatigue):
    """The same with fatigue logged: Markov."""

    shown = 3


class Batches(World):
    """A line behind a batch number: the number and the hour are logged, the line is not."""

    actions, gamma, episodes, horizon, epsilon = 3, 0.9, 160, 32, 0.6

    def start(self, n, rng):
        """Draw batch numbers, hours and lines."""
        return np.column_stack([rng.integers(0, 50, n), rng.integers(0, 8, n), rng.poisson(4, n)])

    def observe(self, z):
        """Hide the line."""
        return z[:, :2]

    def step(self, z, a, rng):
        """Send a part of the batch on at one of three speeds; who waits costs money."""
        batch, hour, line = z.T
        n = len(batch)
        come = rng.poisson(2.0 + 1.5 * (hour > 3))
        line = np.clip(line + come - rng.poisson(1.5 + 1.5 * a), 0, 30)
        mean = -0.3 * line - 0.9 * a - 0.05 * np.maximum(line - 8, 0) ** 1.5
        return np.column_stack([batch + 1, (hour + 1) % 8, line]), mean, np.zeros(n, bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw skewed handling costs around their mean."""
        return 1.2 * (1 - _unit_lognormal(rng, 1.1, len(z)))

    def habit(self, states):
        """Be fast in the busy hours."""
        return np.where(states[:, 1] > 3, 2, 0)

    def target(self, states):
        """Be fast before the busy hours too."""
        return np.where(states[:, 1] > 5, 2, np.where(states[:, 1] > 1, 1, 0))


class Regimes(World):
    """A market is calm or nervous for a while; orders and the last move are logged, the mood is not."""

    actions, gamma, episodes, horizon, epsilon = 2, 0.93, 120, 42, 0.7

    def start(self, n, rng):
        """Draw moves, volumes and moods."""
        mood = rng.random(n) < 0.5
        return np.column_stack([rng.standard_normal(n), rng.gamma(2, 0.5, n), mood])

    def observe(self, z):
        """Hide the mood."""
        return z[:, :2]

    def step(self, z, a, rng):
        """Buy or stay out."""
        _, volume, nervous = z.T
        n = len(volume)
        mean = a * np.where(nervous > 0, -1.2, 1.0) + 0.1 * volume
        change = rng.random(n) < np.where(nervous > 0, 0.08 + 0.06 * (a == 0), 0.06)
        nervous = np.where(change, 1 - nervous, nervous)
        move = -0.5 * nervous + np.where(nervous > 0, 1.6, 0.8) * rng.standard_normal(n)
        volume = 0.6 * volume + 0.4 * rng.gamma(2, 0.5, n)
        return np.column_stack([move, volume, nervous]), mean, np.zeros(n, bool)

    def noise(self, z, a, rng):
        """Draw Student noise with 2.2 degrees of freedom, more where one is in the market."""
        return (0.4 + 0.8 * a) * rng.standard_t(2.2, len(z))

    def habit(self, states):
        """Buy after rises."""
        return (states[:, 0] > -0.3).astype(int)

    def target(self, states):
        """Buy after small moves only."""
        return (np.abs(states[:, 0]) < 1.2).astype(int)


class TiredSpend(World):
    """Customers buy for Pareto sums; each offer tires them, and rest makes them fresh again."""

    actions, gamma, episodes, horizon, epsilon, shown = 2, 0.95, 260, 20, 0.6, 2

    def start(self, n, rng):
        """Draw recency, age and how tired they are."""
        drawn = rng.integers(0, 10, n), rng.uniform(-1, 1, n), 0.5 * rng.random(n)
        return np.column_stack(drawn).astype(float)

    def observe(self, z):
        """Hide how tired they are, or show all."""
        return z[:, : self.shown]

    def step(self, z, a, rng):
        """Offer or not, and perhaps sell."""
        recency, age, tired = z.T
        n = len(age)
        chance = _chance(-1.9 + 1.3 * a * (1 - 1.5 * tired) - 0.6 * tired + 0.3 * age)
        bought = rng.random(n) < chance
        mean = 20 * chance - 0.6 * a
        self._extra = 20 * (bought * _pareto(rng, 1.7, n) - chance)
        recency = np.where(bought, 0, recency + 1)
        tired = np.minimum(0.8 * tired + 0.3 * a, 1.2)
        return np.column_stack([recency, age, tired]), mean, np.zeros(n, bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Return what was bought beyond its expectation."""
        return self._extra

    def habit(self, states):
        """Offer to who has not bought for long."""
        return (states[:, 0] > 4).astype(int)

    def target(self, states):
        """Offer to who bought lately, and to the old."""
        return ((states[:, 0] < 3) | (states[:, 1] > 0.6)).astype(int)


class TiredSpendShown(TiredSpend):
    """The same with how tired they are logged: Markov."""

    shown = 3


class Cycles(World):
    """Load cycles wear a crane out; rare breaks end the episode; wear and cycles are logged."""

    actions, gamma, episodes, horizon, epsilon = 3, 0.97, 120, 60, 0.45
    load, pay = np.array([0.4, 1.0, 0.0]), np.array([0.9, 1.7, -1.8])

    def start(self, n, rng):
        """Draw wear, cycles since service and the wind."""
        return np.column_stack([0.5 * rng.random(n), rng.integers(0, 10, n), rng.random(n)])

    def step(self, z, a, rng):
        """Lift a little, lift much, or repair."""
        wear, cycles, wind = z.T
        n = len(wear)
        risk = 0.1 * _chance(9 * (wear + 0.2 * wind - 1.4)) * np.array([0.5, 1.0, 0.05])[a]
        broken = rng.random(n) < risk
        self._extra = 35 * (risk - broken * _unit_lognormal(rng, 0.8, n))
        mean = self.pay[a] * (1.2 - 0.4 * wind) - 35 * risk
        worn = wear + 0.09 * self.load[a] * rng.gamma(2, 0.5, n) * (1 + 0.03 * cycles)
        wear = np.where(a == 2, 0.25 * wear, worn)
        cycles = np.where(a == 2, 0, cycles + 1)
        wind = np.clip(wind + 0.2 * rng.standard_normal(n), 0, 1)
        return np.column_stack([wear, cycles, wind]), mean, broken

    def noise(self, z, a, rng):  # noqa: ARG002
        """Return the breaks beyond their expectation, and noise."""
        return self._extra + 0.3 * rng.standard_t(4, len(z))

    def habit(self, states):
        """Lift much, repair late."""
        return np.where(states[:, 0] > 1.3, 2, 1)

    def target(self, states):
        """Repair by wear and cycles, spare the crane in strong winds."""
        tired = states[:, 0] + 0.02 * states[:, 1] > 1.25
        return np.where(tired, 2, np.where(states[:, 2] > 0.7, 0, 1))


class Seasons(World):
    """Rooms to sell for a season at four prices: rooms run out, and demand has its weeks."""

    actions, gamma, episodes, horizon, epsilon = 4, 0.97, 170, 28, 0.6
    prices = np.array([4.0, 6.0, 9.0, 13.0])

    def start(self, n, rng):
        """Draw rooms, days left and weather."""
        return np.column_stack([rng.integers(30, 110, n), np.full(n, 28), rng.normal(0, 0.4, n)])

    def step(self, z, a, rng):
        """Sell what the price allows."""
        rooms, left, weather = z.T
        price = self.prices[a]
        week = 0.5 * (left % 7 < 2)
        asked = rng.poisson(7 * np.exp(0.5 * weather + week - 0.16 * (price - 4)))
        sold = np.minimum(rooms, asked)
        mean = price * sold - 0.6 * np.maximum(asked - rooms, 0)
        weather = 0.8 * weather + 0.24 * rng.standard_normal(len(rooms))
        return np.column_stack([rooms - sold, left - 1, weather]), mean, left <= 1

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw rare refunds around their mean, Pareto."""
        n = len(z)
        return 0.6 - 60 * (rng.random(n) < 0.01) * _pareto(rng, 1.8, n)

    def _aim(self, states, slack):
        pace = states[:, 0] / np.maximum(states[:, 1], 1) / slack
        return 3 - np.digitize(pace, [1.0, 2.2, 4.5])

    def habit(self, states):
        """Price by the pace at which rooms must go."""
        return self._aim(states, 1.3)

    def target(self, states):
        """Dearer at the week's end, cheaper at large stocks."""
        dear = (states[:, 1] % 7 < 2).astype(int)
        return np.clip(self._aim(states, 0.9) + dear, 0, 3)


#: What a log leaves out of each world's state.
MORE_HIDDEN: tuple[type[World], ...] = (Fatigue, Batches, Regimes, TiredSpend)
MORE_MARKOV: tuple[type[World], ...] = (FatigueShown, TiredSpendShown, Cycles, Seasons)
