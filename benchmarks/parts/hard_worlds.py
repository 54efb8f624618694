"""Worlds in which the default was wrong without a warning, for `outside.py`.

Policies that lead where the log never goes, disasters that end episodes, kinked values, critics that
explode, and one-sided heavy rewards whose size no action changes.
"""

from __future__ import annotations

import numpy as np

from benchmarks.parts.worlds import World


def _unit_lognormal(rng: np.random.Generator, sigma: float, n: int) -> np.ndarray:
    """Draw log-normal numbers of mean one."""
    return np.exp(sigma * rng.standard_normal(n) - sigma**2 / 2)


class Autoscale(World):
    """Demand, servers and backlog: the log adds servers where they are busy, the policy less often."""

    actions, epsilon, busy = 3, 0.3, 0.97
    change = np.array([-1.0, 0.0, 2.0])

    def start(self, n, rng):
        """Draw demands, and servers that suffice."""
        demand = rng.uniform(6, 14, n)
        return np.column_stack([demand, np.ceil(demand) + rng.integers(1, 4, n), np.zeros(n)])

    def step(self, z, a, rng):
        """Serve, queue, and let the demand move."""
        demand, servers, backlog = z.T
        servers = np.clip(servers + self.change[a], 4, 24)
        waiting = np.maximum(backlog + demand - servers, 0)
        moved = 10 + 0.9 * (demand - 10) + 1.2 * rng.standard_normal(len(demand))
        after = np.column_stack([np.maximum(moved, 1), servers, waiting])
        return after, -0.3 * servers - 0.5 * waiting, np.zeros(len(demand), bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw Student noise with three degrees of freedom."""
        return rng.standard_t(3, len(z))

    def habit(self, states):
        """Keep servers between 70 and 90 % busy."""
        demand, servers, backlog = states.T
        return np.where(
            (demand > 0.9 * servers) | (backlog > 0), 2, (demand > 0.7 * servers).astype(int)
        )

    def target(self, states):
        """Add servers later."""
        demand, servers, backlog = states.T
        return np.where(
            (demand > self.busy * servers) | (backlog > 1),
            2,
            (demand > 0.8 * servers).astype(int),
        )


class NeverScale(Autoscale):
    """The same, and a policy that never adds a server."""

    def target(self, states):
        """Give servers back, and never add one."""
        return (states[:, 0] > 0.8 * states[:, 1]).astype(int)


class Turbine(World):
    """Wear, and breakdowns that end the episode and cost fifty times a step."""

    actions, gamma, episodes, horizon, epsilon = 3, 0.97, 80, 90, 0.4
    speed, pay = np.array([0.03, 0.09, 0.0]), np.array([0.8, 1.5, -2.0])

    def start(self, n, rng):
        """Draw wear and wind."""
        return np.column_stack([rng.uniform(0, 0.6, n), rng.uniform(0.3, 1, n)])

    def _risk(self, z, a):
        return 0.12 / (1 + np.exp(-8 * (z[:, 0] - 1.5))) * np.array([0.6, 1.0, 0.1])[a]

    def step(self, z, a, rng):
        """Run slowly, fast, or be serviced."""
        wear, wind = z.T
        n, risk = len(wear), self._risk(z, a)
        broken = rng.random(n) < risk
        worn = np.where(a == 2, 0.1, wear + self.speed[a] * wind * rng.gamma(2, 0.5, n))
        blown = np.clip(wind + 0.15 * rng.standard_normal(n), 0.1, 1)
        self._cost = np.where(broken, 50 * _unit_lognormal(rng, 0.9, n), 0.0) - 50 * risk
        return np.column_stack([worn, blown]), self.pay[a] * wind - 50 * risk, broken

    def noise(self, z, a, rng):  # noqa: ARG002
        """Return the breakdowns beyond their expectation, which the rewards hold."""
        return -self._cost

    def habit(self, states):
        """Run fast, service late."""
        return np.where(states[:, 0] > 1.6, 2, 1)

    def target(self, states):
        """Service earlier, and slow down before."""
        return np.where(states[:, 0] > 1.3, 2, np.where(states[:, 0] > 1.0, 0, 1))


class Ward(World):
    """Occupied beds, a waiting list and the weekday; a full ward turns emergencies away at a cost."""

    actions = 3
    admits = np.array([0, 2, 5])

    def start(self, n, rng):
        """Draw beds, waiting lists and days."""
        drawn = rng.integers(8, 18, n), rng.integers(0, 12, n), rng.integers(0, 7, n)
        return np.column_stack(drawn).astype(float)

    def step(self, z, a, rng):
        """Discharge, admit, and take emergencies as far as beds go."""
        beds, waiting, day = z.T
        n = len(beds)
        admitted = np.minimum(self.admits[a], waiting)
        left = beds - rng.binomial(beds.astype(int), 0.2) + admitted
        arrived = rng.poisson(np.where(day >= 5, 1.8, 2.8))
        turned = np.maximum(left + arrived - 20, 0)
        queue = np.minimum(waiting - admitted + rng.poisson(1.5, n), 25)
        after = np.column_stack([np.minimum(left + arrived, 20), queue, (day + 1) % 7])
        self._extra = -5 * turned * (_unit_lognormal(rng, 1.2, n) - 1)
        return after, 2 * admitted - 0.3 * queue - 5 * turned, np.zeros(n, bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Return what an emergency turned away costs beyond its mean."""
        return self._extra

    def habit(self, states):
        """Admit while beds are free."""
        return np.where(states[:, 0] < 15, 1, 0)

    def target(self, states):
        """Admit more while many are free, and nobody before the weekday rush."""
        return np.where(
            states[:, 0] < 11, 2, np.where((states[:, 0] < 15) & (states[:, 2] < 5), 1, 0)
        )


class Pricing(World):
    """Stock for a season at five prices: what is left at the end is worth nothing; kinks everywhere."""

    actions, gamma, episodes, horizon, epsilon = 4, 0.98, 150, 30, 0.5
    prices = np.array([3.0, 5.0, 7.0, 9.0])

    def start(self, n, rng):
        """Draw stocks, weeks left and demand."""
        drawn = rng.uniform(20, 120, n), np.full(n, 30.0), rng.normal(0, 0.3, n)
        return np.column_stack(drawn)

    def step(self, z, a, rng):
        """Sell what the price allows."""
        stock, left, mood = z.T
        price = self.prices[a]
        demand = rng.poisson(9 * np.exp(mood - 0.28 * (price - 3)))
        sold = np.minimum(stock, demand)
        moved = 0.9 * mood + 0.1 * rng.standard_normal(len(mood))
        after = np.column_stack([stock - sold, left - 1, moved])
        return after, price * sold - 0.02 * stock, left <= 1

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw rare recording errors."""
        return (rng.random(len(z)) < 0.003) * 150 * rng.standard_normal(len(z))

    def _aim(self, states, slack):
        pace = states[:, 0] / np.maximum(states[:, 1], 1) / slack
        return np.digitize(pace, [1.2, 2.4, 5.0]) * -1 + 3

    def habit(self, states):
        """Price by the pace at which stock must go."""
        return self._aim(states, 1.6)

    def target(self, states):
        """Price a little higher at low paces, lower at high ones."""
        return self._aim(states, 0.8)


class Pacing(World):
    """A day's budget for auctions: it may run out; conversions are rare and log-normal."""

    actions, gamma, episodes, horizon, epsilon = 3, 0.99, 120, 48, 0.4
    bids = np.array([0.5, 1.0, 2.0])

    def start(self, n, rng):
        """Draw budgets, steps left and market prices."""
        return np.column_stack([rng.uniform(10, 40, n), np.full(n, 48.0), rng.normal(0, 0.3, n)])

    def step(self, z, a, rng):
        """Bid, win, pay."""
        budget, left, market = z.T
        n = len(budget)
        won = rng.poisson(2 * self.bids[a] / (self.bids[a] + np.exp(market)))
        paid = np.minimum(won * 0.6 * self.bids[a] * np.exp(0.3 * market), budget)
        served = paid / np.maximum(0.6 * self.bids[a] * np.exp(0.3 * market), 1e-9)
        worth = 1.0 * served
        self._extra = worth * (_unit_lognormal(rng, 1.2, n) - 1)
        moved = 0.95 * market + 0.1 * rng.standard_normal(n)
        return np.column_stack([budget - paid, left - 1, moved]), worth, left <= 1

    def noise(self, z, a, rng):  # noqa: ARG002
        """Return what conversions brought beyond their mean."""
        return self._extra

    def habit(self, states):
        """Spend evenly."""
        return np.digitize(states[:, 0] / np.maximum(states[:, 1], 1), [0.4, 0.9])

    def target(self, states):
        """Bid low except where the market is cheap."""
        return np.where(states[:, 2] < -0.2, 2, 0)


class Churn(World):
    """Customers who stay, buy now and then for Pareto sums, and leave; offers keep some of them."""

    gamma, episodes, horizon, epsilon, draws = 0.95, 400, 24, 0.6, 200_000
    stay = 0.5

    def start(self, n, rng):
        """Draw engagement and tenure."""
        return np.column_stack([rng.normal(0, 1, n), rng.integers(0, 24, n)])

    def step(self, z, a, rng):
        """Buy, drift, leave."""
        mood, tenure = z.T
        n = len(mood)
        chance = 0.12 * np.exp(0.4 * mood + 0.25 * a * self.stay)
        gone = rng.random(n) < 1 / (1 + np.exp(2.2 + 0.8 * mood + self.stay * a))
        drift = 0.9 * mood + 0.1 * self.stay * a + 0.3 * rng.standard_normal(n)
        size = 30 * (0.7 / 1.7) * rng.random(n) ** (-1 / 1.7)
        expected = 30 * chance - 1.0 * a * self.stay
        self._extra = (rng.random(n) < chance) * size - 30 * chance
        return np.column_stack([drift, tenure + 1]), expected, gone

    def noise(self, z, a, rng):  # noqa: ARG002
        """Return what was bought beyond its expectation."""
        return self._extra

    def habit(self, states):
        """Offer to the engaged."""
        return (states[:, 0] > 0.5).astype(int)

    def target(self, states):
        """Offer to those who might leave."""
        return (states[:, 0] < 0.5).astype(int)


class ChurnNull(Churn):
    """The same, where offers change nothing."""

    stay = 0.0


class Claims(World):
    """Claims by year: Pareto sizes, whose number depends on care, advice and the weather."""

    gamma, episodes, horizon, epsilon, draws = 0.9, 500, 10, 0.6, 200_000

    def start(self, n, rng):
        """Draw risk and age."""
        return np.column_stack([rng.gamma(2, 0.5, n), rng.uniform(20, 70, n)])

    def step(self, z, a, rng):
        """Pay a premium, file claims."""
        risk, age = z.T
        n = len(risk)
        rate = 0.15 * risk * (1 - 0.35 * a) * np.exp(0.01 * np.abs(age - 45))
        number = rng.poisson(rate)
        size = 4 * (0.8 / 1.8) * np.where(number > 0, rng.random(n) ** (-1 / 1.8), 0.0) * number
        self._extra = -(size - 4 * rate)
        drift = np.maximum(0.1, 0.9 * risk + 0.1 * rng.gamma(2, 0.5, n) - 0.02 * a)
        return np.column_stack([drift, age + 1]), -4 * rate - 0.12 * a, np.zeros(n, bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Return the claims beyond their expectation."""
        return self._extra

    def habit(self, states):
        """Advise the young."""
        return (states[:, 1] < 40).astype(int)

    def target(self, states):
        """Advise the risky."""
        return (states[:, 0] > 1.0).astype(int)


class Wholesale(World):
    """Stock for orders of Pareto size: a large order is served as far as stock goes."""

    actions, gamma, episodes, horizon, epsilon, draws = 3, 0.95, 120, 50, 0.5, 100_000
    sizes = np.array([0.0, 15.0, 40.0])

    def start(self, n, rng):
        """Draw stocks and seasons."""
        return np.column_stack([rng.uniform(0, 80, n), rng.uniform(-1, 1, n)])

    def step(self, z, a, rng):
        """Order, and serve who comes; a rare customer pays an odd sum on top."""
        stock, season = z.T
        n = len(stock)
        have = stock + self.sizes[a]
        demand = rng.poisson(12 * np.exp(0.4 * season))
        sold = np.minimum(have, demand)
        served = 0.08 * (sold > 0.5 * demand)
        self._extra = (rng.random(n) < served) * 60 * (0.7 / 1.7) * rng.random(n) ** (-1 / 1.7)
        self._extra -= 60 * served
        reward = 4 * sold - 2 * self.sizes[a] - 4.0 * (a > 0) - 0.1 * (have - sold) + 60 * served
        moved = 0.9 * season + 0.25 * rng.standard_normal(n)
        return np.column_stack([have - sold, moved]), reward, np.zeros(n, bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Return the odd sums beyond their mean."""
        return self._extra

    def habit(self, states):
        """Reorder late."""
        return np.digitize(20 - states[:, 0], [0, 15])

    def target(self, states):
        """Reorder early, in large lots."""
        return np.where(states[:, 0] < 25, 2, 0)


#: All of them.
HARD_WORLDS: tuple[type[World], ...] = (
    Autoscale,
    NeverScale,
    Turbine,
    Ward,
    Pricing,
    Pacing,
    Churn,
    ChurnNull,
    Claims,
    Wholesale,
)
