"""Ten worlds in which the value is mostly not linear in the state, for `outside.py`.

Each is a small simulator over many episodes at once: the hidden state is an array (n, k), what is
logged is `observe` of it. None of them was used to choose a setting with the seeds of the benchmark.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailproof import Log

Array = Any


def one_hot(actions: Array, count: int) -> Array:
    """Return probabilities that put everything on one action, (n, A)."""
    chosen = np.zeros((len(actions), count))
    chosen[np.arange(len(actions)), np.asarray(actions, dtype=int)] = 1.0
    return chosen


class World:
    """What a world has to say; the defaults serve most of them."""

    actions = 2
    gamma = 0.95
    episodes = 100
    horizon = 60
    epsilon = 0.4
    draws = 40_000  # episodes behind the truth
    one_step = False

    def start(self, n: int, rng: np.random.Generator) -> Array:
        """Draw n hidden states, (n, k)."""
        raise NotImplementedError

    def step(self, z: Array, a: Array, rng: np.random.Generator) -> tuple[Array, Array, Array]:
        """Return the next hidden states, the expected rewards and who has ended."""
        raise NotImplementedError

    def noise(self, z: Array, a: Array, rng: np.random.Generator) -> Array:  # noqa: ARG002
        """Draw noise of mean zero on the rewards."""
        return np.zeros(len(z))

    def observe(self, z: Array) -> Array:
        """Return what is logged of the hidden states."""
        return z

    def habit(self, states: Array) -> Array:
        """Return what the logging policy does when it does not explore."""
        raise NotImplementedError

    def behaviour(self, states: Array) -> Array:
        """Return the probabilities of the logging policy, (n, A)."""
        habit = one_hot(self.habit(states), self.actions)
        return (1 - self.epsilon) * habit + self.epsilon / self.actions

    def target(self, states: Array) -> Array:
        """Return the actions of the policy to evaluate, (n,), or its probabilities, (n, A)."""
        raise NotImplementedError


@dataclass(frozen=True)
class Probabilities:
    """A stochastic policy from a function of states."""

    function: Any

    def probabilities(self, states: Array) -> Array:
        """Return π(a | s), (n, A)."""
        return self.function(states)


def target_policy(world: World) -> Any:
    """Return the world's target as `evaluate` takes it."""
    probe = np.asarray(world.target(world.observe(world.start(3, np.random.default_rng(0)))))
    return Probabilities(world.target) if probe.ndim == 2 else world.target


def draw_log(world: World, seed: int, episodes: int | None = None) -> Log:
    """Draw a log."""
    rng = np.random.default_rng([seed, 4711])
    count = episodes or world.episodes
    rows: list[tuple[Array, ...]] = []
    z, who = world.start(count, rng), np.arange(count)
    for t in range(world.horizon):
        states = world.observe(z)
        chances = world.behaviour(states)
        a = _draw(chances, rng)
        after, reward, ended = world.step(z, a, rng)
        reward = reward + world.noise(z, a, rng)
        likely = chances[np.arange(len(a)), a]
        rows.append(
            (who, np.full(len(a), t), states, a, reward, world.observe(after), ended, likely)
        )
        z, who = after[~ended], who[~ended]
        if len(who) == 0:
            break
    who, t, states, a, reward, after, ended, likely = (
        np.concatenate(parts) for parts in zip(*rows, strict=True)
    )
    order = np.lexsort((t, who))
    return Log.from_arrays(
        states[order],
        a[order],
        reward[order],
        after[order],
        episode=who[order],
        terminated=ended[order],
        propensity=likely[order],
        action_space=world.actions,
    )


def _draw(chances: Array, rng: np.random.Generator) -> Array:
    return (rng.random((len(chances), 1)) > np.cumsum(chances, axis=1)[:, :-1]).sum(axis=1)


def truth(world: World, policy: str = "target", seed: int = 20_261) -> float:
    """Return the discounted value of the target (or the behaviour), exactly or by simulation."""
    if isinstance(world, Tabular):
        return world.exact(_chances(world, policy))
    rng = np.random.default_rng(seed)
    endless = int(np.ceil(np.log(2e-4) / np.log(world.gamma))) if 0 < world.gamma < 1 else 25
    steps = 1 if world.one_step else endless
    chances, values = _chances(world, policy), []
    for _ in range(0, world.draws, 20_000):
        z = world.start(20_000, rng)
        total, who, factor = np.zeros(len(z)), np.arange(len(z)), 1.0
        for _ in range(steps):
            a = _draw(chances(world.observe(z)), rng)
            after, reward, ended = world.step(z, a, rng)
            total[who] += factor * reward
            factor *= world.gamma
            z, who = after[~ended], who[~ended]
            if len(who) == 0:
                break
        values.append(total)
    return float(np.concatenate(values).mean())


def _chances(world: World, policy: str) -> Any:
    if policy == "behaviour":
        return world.behaviour

    def chances(states: Array) -> Array:
        found = np.asarray(world.target(states))
        return found if found.ndim == 2 else one_hot(found, world.actions)

    return chances


class MountainCar(World):
    """A car in a valley, −1 a step until it is out, t₂ noise on every reward."""

    actions, gamma, episodes, horizon, epsilon, draws = 3, 0.99, 60, 200, 0.5, 20_000

    def start(self, n, rng):
        """Draw positions near the bottom."""
        return np.column_stack([rng.uniform(-0.6, -0.4, n), np.zeros(n)])

    def step(self, z, a, rng):  # noqa: ARG002
        """Push, roll, stop at the left wall."""
        x, v = z.T
        v = np.clip(v + 0.001 * (a - 1) - 0.0025 * np.cos(3 * x), -0.07, 0.07)
        x = np.clip(x + v, -1.2, 0.6)
        v = np.where((x <= -1.2) & (v < 0), 0.0, v)
        return np.column_stack([x, v]), -np.ones(len(x)), x >= 0.5

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw Student noise with two degrees of freedom."""
        return rng.standard_t(2, len(z))

    def habit(self, states):
        """Push the way it rolls."""
        return np.where(states[:, 1] >= 0, 2, 0)

    target = habit


class Tabular(World):
    """A gymnasium table, given as the integers that a user would log."""

    name = ""

    def __init__(self) -> None:
        import gymnasium

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = gymnasium.make(self.name).unwrapped
        size, self.actions = int(made.observation_space.n), int(made.action_space.n)
        shape = (size, self.actions, size)
        self.moves, self.pay, self.ends = np.zeros(shape), np.zeros(shape), np.zeros(shape)
        for s in range(size):
            for a in range(self.actions):
                for chance, after, reward, done in made.P[s][a]:
                    self.moves[s, a, after] += chance
                    self.pay[s, a, after] += chance * reward
                    self.ends[s, a, after] += chance * done
        possible = self.moves > 0
        self.pay[possible] /= self.moves[possible]
        self.ends[possible] /= self.moves[possible]
        self.first = np.asarray(made.initial_state_distrib)
        self.best = self._optimal()

    def _optimal(self) -> Array:
        q = np.zeros(self.moves.shape[:2])
        mean, onward = (self.moves * self.pay).sum(2), self.moves * (1 - self.ends)
        for _ in range(2000):
            q = mean + self.gamma * onward @ q.max(axis=1)
        return q.argmax(axis=1)

    def exact(self, chances: Any) -> float:
        """Return the value of a policy by solving its equations."""
        size = len(self.first)
        pi = chances(self.observe(np.arange(size)[:, None]))
        onward = np.einsum("sa,sat->st", pi, self.moves * (1 - self.ends))
        mean = (pi * (self.moves * self.pay).sum(2)).sum(1)
        return float(self.first @ np.linalg.solve(np.eye(size) - self.gamma * onward, mean))

    def start(self, n, rng):
        """Draw first states."""
        return rng.choice(len(self.first), n, p=self.first)[:, None]

    def step(self, z, a, rng):
        """Move by the table."""
        s = z[:, 0]
        chances = np.cumsum(self.moves[s, a], axis=1)
        after = np.minimum((rng.random((len(s), 1)) > chances).sum(axis=1), len(self.first) - 1)
        ended = rng.random(len(s)) < self.ends[s, a, after]
        return after[:, None], self.pay[s, a, after], ended


class Taxi(Tabular):
    """Row, column, passenger and destination as four integers; t₂ noise."""

    name, gamma, episodes, horizon = "Taxi-v4", 0.95, 150, 100

    def observe(self, z):
        """Return the four integers."""
        s = z[:, 0]
        return np.column_stack([s // 100, s // 20 % 5, s // 4 % 5, s % 4]).astype(float)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw Student noise with two degrees of freedom."""
        return rng.standard_t(2, len(z))

    def habit(self, states):
        """Drive as well as one can."""
        row, column, passenger, goal = states.astype(int).T
        return self.best[((row * 5 + column) * 5 + passenger) * 4 + goal]

    def target(self, states):
        """Do the same with five per cent of slips."""
        return 0.95 * one_hot(self.habit(states), self.actions) + 0.05 / self.actions


class Cliff(Tabular):
    """Row and column of a grid with a cliff; the log walks along its edge, the target above it."""

    name, gamma, episodes, epsilon = "CliffWalking-v1", 0.95, 150, 0.3

    def observe(self, z):
        """Return row and column."""
        return np.column_stack([z[:, 0] // 12, z[:, 0] % 12]).astype(float)

    def habit(self, states):
        """Up, along the edge, down."""
        row, column = states.T
        last = column == 11
        return np.where(row == 3, np.where(last, 2, 0), np.where(last, 2, 1))

    def target(self, states):
        """One row farther from the edge, with five per cent of slips."""
        row, column = states.T
        away = np.where(column == 11, 2, np.where(row >= 2, 0, 1))
        return 0.95 * one_hot(away, 4) + 0.05 / 4


class Blackjack(World):
    """Cards against a dealer: discrete states, no noise, nearly linear. A control."""

    gamma, episodes, horizon, draws = 1.0, 4000, 25, 1_000_000

    @staticmethod
    def _card(n, rng):
        return np.minimum(rng.integers(1, 14, n), 10)

    def start(self, n, rng):
        """Deal two cards and the dealer's one."""
        first, second, shown = (self._card(n, rng) for _ in range(3))
        ace = (first == 1) | (second == 1)
        return np.column_stack([first + second + 10 * ace, shown, ace]).astype(float)

    @classmethod
    def _with_card(cls, total, soft, wanted, rng):
        """Add a card where one is wanted; an ace is eleven while that fits."""
        card = cls._card(len(total), rng)
        total = np.where(wanted, total + card, total)
        up = wanted & (card == 1) & (total + 10 <= 21) & ~soft
        total, soft = np.where(up, total + 10, total), soft | up
        down = (total > 21) & soft
        return np.where(down, total - 10, total), soft & ~down

    def step(self, z, a, rng):
        """Take a card, or stand and let the dealer play."""
        own, shown, soft = z[:, 0], z[:, 1], z[:, 2] > 0
        hit = a == 1
        after, soft_after = self._with_card(own, soft, hit, rng)
        dealer, dealer_soft = np.where(shown == 1, 11.0, shown), shown == 1
        for _ in range(12):
            dealer, dealer_soft = self._with_card(dealer, dealer_soft, dealer < 17, rng)
        stand = np.where(dealer > 21, 1.0, np.sign(own - dealer))
        bust = after > 21
        reward = np.where(hit, np.where(bust, -1.0, 0.0), stand)
        return np.column_stack([after, shown, soft_after]), reward, ~hit | bust

    def behaviour(self, states):
        """Hit below 17, mostly."""
        hit = np.where(states[:, 0] < 17, 0.7, 0.3)
        return np.column_stack([1 - hit, hit])

    def target(self, states):
        """Hit by what the dealer shows."""
        strong = (states[:, 1] >= 7) | (states[:, 1] == 1)
        limit = np.where(states[:, 2] == 1, 18, np.where(strong, 17, 13))
        return (states[:, 0] < limit).astype(int)


class Inventory(World):
    """Stock and a forecast of log-normal demand; kinks where stock runs out."""

    actions, epsilon = 4, 0.5
    sizes = np.array([0.0, 10.0, 20.0, 40.0])

    def start(self, n, rng):
        """Draw stocks and forecasts."""
        return np.column_stack([rng.uniform(0, 60, n), rng.normal(2.5, 0.4, n)])

    def step(self, z, a, rng):
        """Order, sell, hold what is left."""
        stock, forecast = z.T
        demand = np.exp(forecast + rng.standard_normal(len(stock)))
        have = stock + self.sizes[a]
        sold = np.minimum(have, demand)
        costs = 2 * self.sizes[a] + 3.0 * (a > 0) + 0.1 * (have - sold) + (demand - sold)
        after = 2.5 + 0.8 * (forecast - 2.5) + 0.24 * rng.standard_normal(len(stock))
        return np.column_stack([have - sold, after]), 5 * sold - costs, np.zeros(len(stock), bool)

    def _up_to(self, states, cover):
        return np.digitize(cover * np.exp(states[:, 1]) - states[:, 0], [5, 15, 30])

    def habit(self, states):
        """Cover one and a half times the usual demand."""
        return self._up_to(states, 1.5)

    def target(self, states):
        """Cover three times the usual demand."""
        return self._up_to(states, 3.0)


class Queue(World):
    """Backlog of Pareto jobs, server speed to choose: heavy tails come through the state."""

    actions, horizon, draws = 3, 80, 400_000
    speeds, costs = np.array([0.8, 1.6, 3.2]), np.array([0.0, 0.6, 2.0])

    def start(self, n, rng):
        """Draw backlogs and loads."""
        return np.column_stack([rng.exponential(3, n), rng.uniform(0.3, 0.7, n)])

    def step(self, z, a, rng):
        """Work off, and let a job come."""
        backlog, load = z.T
        n = len(backlog)
        job = (rng.random(n) < load) * 1.2 * rng.random(n) ** (-1 / 2.2)
        after = np.maximum(backlog - self.speeds[a], 0) + job
        moved = np.clip(load + 0.1 * rng.standard_normal(n), 0.2, 0.8)
        return np.column_stack([after, moved]), -(self.costs[a] + 0.3 * after), np.zeros(n, bool)

    def habit(self, states):
        """Speed up late."""
        return np.digitize(states[:, 0], [3, 12])

    def target(self, states):
        """Speed up early."""
        return np.digitize(states[:, 0], [1, 4])


class Garch(World):
    """Positions on an asset whose volatility clusters: dependent extremes."""

    actions, gamma, episodes, horizon, epsilon, draws = 4, 0.97, 80, 100, 0.6, 100_000
    positions = np.array([0.0, 0.5, 1.0, 1.5])

    def start(self, n, rng):
        """Let the volatility settle."""
        h = np.ones(n)
        for _ in range(50):
            h = 0.05 + 0.12 * h * 0.6 * rng.standard_t(5, n) ** 2 + 0.83 * h
        return np.column_stack([np.ones(n), h, np.zeros(n)])

    def observe(self, z):
        """Return position, log volatility and the last return."""
        return np.column_stack([z[:, 0], np.log(z[:, 1]), z[:, 2]])

    def step(self, z, a, rng):
        """Earn the return of the position, less the cost of changing it."""
        held, h, _ = z.T
        shock = np.sqrt(0.6 * h) * rng.standard_t(5, len(h))
        back = 0.08 - 0.04 * (h - 1) * (h > 1) / np.sqrt(h) + shock
        taken = self.positions[a]
        after = np.column_stack([taken, 0.05 + 0.12 * shock**2 + 0.83 * h, back])
        return after, taken * back - 0.05 * np.abs(taken - held), np.zeros(len(h), bool)

    def habit(self, states):
        """Hold one."""
        return np.full(len(states), 2)

    def target(self, states):
        """Hold less when it is wild."""
        return 3 - np.digitize(states[:, 1], [-0.5, 0.0, 0.5], right=True)


class SkewByAction(World):
    """Linear and well specified, with log-normal noise to the right for one action only."""

    gamma = 0.9

    def start(self, n, rng):
        """Draw both variables."""
        return rng.normal(size=(n, 2))

    def step(self, z, a, rng):
        """Move linearly."""
        x, v = z.T
        first = 0.8 * x + 0.3 * v + 0.2 * (2 * a - 1) + 0.3 * rng.standard_normal(len(x))
        second = 0.7 * v - 0.2 * x + 0.3 * rng.standard_normal(len(x))
        return np.column_stack([first, second]), x + 0.5 * a, np.zeros(len(x), bool)

    def noise(self, z, a, rng):
        """Draw log-normal noise whose side depends on the action."""
        return (2 * a - 1) * (np.exp(1.2 * rng.standard_normal(len(z))) - np.exp(0.72))

    def behaviour(self, states):
        """Act one more often where x is large."""
        one = 0.2 + 0.6 / (1 + np.exp(-2 * states[:, 0]))
        return np.column_stack([1 - one, one])

    def target(self, states):
        """Act one where v is small."""
        return (states[:, 1] < 0.3).astype(int)


class ABTest(World):
    """A fair coin between two offers; the second pays with x² − 1; t₂ noise."""

    gamma, episodes, horizon, one_step, draws = 0.0, 4000, 1, True, 2_000_000

    def start(self, n, rng):
        """Draw recency and spend."""
        return rng.normal(size=(n, 2))

    def step(self, z, a, rng):  # noqa: ARG002
        """Pay."""
        return z, a * (z[:, 0] ** 2 - 1) + 0.5 * z[:, 1], np.ones(len(z), bool)

    def noise(self, z, a, rng):  # noqa: ARG002
        """Draw Student noise with two degrees of freedom."""
        return rng.standard_t(2, len(z))

    def behaviour(self, states):
        """Toss a coin."""
        return np.full((len(states), 2), 0.5)

    def target(self, states):
        """Offer the second to very new and very old customers."""
        return (np.abs(states[:, 0]) > 1).astype(int)


class Thermostat(World):
    """A comfort band with kinked costs, and heating at prices that spike."""

    gamma, episodes, horizon = 0.97, 60, 96

    def start(self, n, rng):
        """Draw temperatures and prices."""
        inside, outside = rng.uniform(16, 26, n), rng.uniform(-5, 12, n)
        return np.column_stack([inside, outside, rng.gamma(4, 0.25, n)])

    def step(self, z, a, rng):
        """Heat or cool down."""
        inside, outside, price = z.T
        n = len(inside)
        warmer = inside + 0.06 * (outside - inside) + 2.2 * a + 0.1 * rng.standard_normal(n)
        weather = np.clip(outside + 0.5 * rng.standard_normal(n), -8, 15)
        dearer = 0.2 + 0.8 * price + 0.15 * np.abs(rng.standard_t(1.8, n))
        reward = -np.maximum(np.abs(inside - 21) - 1, 0) - 0.5 * a * price
        return np.column_stack([warmer, weather, dearer]), reward, np.zeros(n, bool)

    def habit(self, states):
        """Heat below 21 degrees."""
        return (states[:, 0] < 21).astype(int)

    def target(self, states):
        """Heat below 20 degrees."""
        return (states[:, 0] < 20).astype(int)


#: All of them.
WORLDS: tuple[type[World], ...] = (
    MountainCar,
    Taxi,
    Cliff,
    Blackjack,
    Inventory,
    Queue,
    Garch,
    SkewByAction,
    ABTest,
    Thermostat,
)
