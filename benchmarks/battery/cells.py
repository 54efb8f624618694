"""The cells of the benchmark: worlds × overlap × log sizes × noises, with known true values."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, replace
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np

from benchmarks.battery.linear import LinearMDP
from tailproof.arrays import AnyArray, FloatArray
from tailproof.errors import TailproofError
from tailproof.log.log import Log
from tailproof.noise import (
    AlphaStable,
    Contaminated,
    Gamma,
    Gaussian,
    LogNormal,
    Noise,
    Pareto,
    SkewedT,
    StudentT,
    add_noise,
)
from tailproof.policies.forms import EpsilonGreedy, Mixture, Policy, Uniform
from tailproof.worlds import CartPole, TabularMDP
from tailproof.worlds.rollout import rollout

World = Literal["cartpole", "tabular", "linear"]
Overlap = Literal["good", "fair", "poor"]
Shape = Literal["symmetric", "mild skew", "strong skew"]
EPISODE = 100  # steps of an episode in every cell
#: The worlds and the overlaps that each has.
GROUNDS: tuple[tuple[World, Overlap], ...] = (
    ("cartpole", "good"),
    ("cartpole", "fair"),
    ("tabular", "good"),
    ("tabular", "fair"),
    ("tabular", "poor"),
    ("linear", "good"),
    ("linear", "fair"),
    ("linear", "poor"),
)


@dataclass(frozen=True, eq=False)
class Problem:
    """The input of an entrant: a log, and the policy to evaluate."""

    log: Log
    policy: Policy
    gamma: float


@dataclass(frozen=True)
class Law:
    """A noise with its shape, and whether its scale depends on the action.

    If it does, action 0 is a quarter as noisy and every other action twice as noisy.
    """

    noise: Noise
    shape: Shape
    by_action: bool = False

    def put_on(self, log: Log, seed: np.random.SeedSequence) -> Log:
        """Return the log with this noise on its rewards."""
        return add_noise(log, self.noise, seed=seed, scale=_by_action if self.by_action else None)

    def __str__(self) -> str:
        return f"{self.noise}{', scale by action' if self.by_action else ''}"


def _by_action(states: FloatArray, actions: AnyArray) -> FloatArray:  # noqa: ARG001
    return np.where(actions == 0, 0.25, 2.0)


_LAWS = (
    Law(Gaussian(), "symmetric"),
    *(Law(StudentT(df), "symmetric") for df in (1.0, 1.2, 1.5, 2.5, 4.0)),
    Law(AlphaStable(1.5), "symmetric"),
    Law(Contaminated(), "symmetric"),
    Law(StudentT(1.5), "symmetric", by_action=True),
    Law(Gamma(4), "mild skew"),
    Law(LogNormal(0.5), "mild skew"),
    Law(SkewedT(1.8), "mild skew"),
    Law(LogNormal(1.0), "strong skew"),
    Law(LogNormal(2.0), "strong skew"),
    *(Law(Pareto(index, sign), "strong skew") for index in (2.5, 1.5) for sign in (1, -1)),
)
#: The noises by name.
NOISES: dict[str, Law] = {str(law): law for law in _LAWS}


@dataclass(frozen=True)
class Setting:
    """A world, how well its logs cover the policy to evaluate, and their size in steps."""

    world: World
    overlap: Overlap
    steps: int

    def __post_init__(self) -> None:
        if (self.world, self.overlap) not in GROUNDS:
            known = ", ".join(f"{world} {overlap}" for world, overlap in GROUNDS)
            raise TailproofError(
                f"There is no world {self.world!r} with {self.overlap!r} overlap. Known are {known}."
            )
        if self.steps < 5 * EPISODE or self.steps % EPISODE:
            raise TailproofError(
                f"steps must be a multiple of {EPISODE}, the length of an episode, and at least "
                f"{5 * EPISODE}. Got {self.steps!r}; 2,000 and 10,000 are usual."
            )

    def __str__(self) -> str:
        return f"{self.world}, {self.overlap} overlap, {self.steps:,} steps"

    @property
    def ground(self) -> Ground:
        """The world with its policies and truths."""
        return ground(self.world, self.overlap)

    def problem(self, rng: np.random.Generator) -> Problem:
        """Draw a log without noise."""
        return self.ground.problem(self.steps // EPISODE, rng)


@dataclass(frozen=True)
class Cell:
    """A setting under one noise."""

    setting: Setting
    noise: str

    def __str__(self) -> str:
        asked = self.setting
        return f"{self.noise}: {asked.world} ({asked.overlap}), {asked.steps:,}"


@dataclass(frozen=True, eq=False)
class Ground:
    """A world, its behaviour and target policies, the target's true value, and the optimal value."""

    world: Any
    behaviour: Policy
    target: Policy
    gamma: float
    truth: float
    best: float

    def problem(self, episodes: int, rng: np.random.Generator) -> Problem:
        """Draw a log without noise."""
        log = rollout(self.world, self.behaviour, episodes=episodes, steps=EPISODE, seed=rng)
        return Problem(log, self.target, self.gamma)

    def value(self, policy: Policy) -> float:
        """Return a policy's exact value; for CartPole, its mean over 200 simulated episodes."""
        if isinstance(self.world, CartPole):
            return self.world.truth(policy, gamma=self.gamma, episodes=200).value
        return float(self.world.value(policy, gamma=self.gamma))

    @cached_property
    def aimless(self) -> float:
        """The value of the uniformly random policy."""
        return self.value(Uniform(self.world.action_space.n))


@cache
def ground(world: World, overlap: Overlap) -> Ground:
    """Return a world with its behaviour policy, target policy and true value.

    Examples
    --------
    >>> round(ground("cartpole", "good").truth, 3)
    99.073
    """
    if world == "tabular":
        table = TabularMDP.random(states=10, actions=3, seed=2026)
        return _exact(table, replace(table, rewards=-table.rewards), overlap, 0.95, epsilon=0.1)
    if world == "linear":
        linear = LinearMDP.random(seed=1115)
        return _exact(linear, replace(linear, theta=-linear.theta), overlap, 0.9, epsilon=0.0)
    cartpole = CartPole()
    behaviour = cartpole.behaviour({"good": 0.05, "fair": 0.2}[overlap])
    truth = cartpole.truth().value
    return Ground(cartpole, behaviour, cartpole.target(), 0.99, truth, truth)


def _exact(world: Any, opposite: Any, overlap: Overlap, gamma: float, *, epsilon: float) -> Ground:
    """Return a world with exact values; `opposite` is the world with negated rewards.

    The behaviour is the ε-greedy target policy with ε = ½ (good overlap), the uniform policy (fair), or
    mostly the optimal policy of `opposite` (poor).
    """
    optimal = world.optimal(gamma=gamma)
    target = EpsilonGreedy(optimal, epsilon, 3) if epsilon else optimal
    against = opposite.optimal(gamma=gamma)
    behaviours: dict[Overlap, Policy] = {
        "good": EpsilonGreedy(target, 0.5, 3),
        "fair": Uniform(3),
        "poor": Mixture(((0.1, target), (0.1, Uniform(3)), (0.8, against)), 3),
    }
    truth, best = (world.value(policy, gamma=gamma) for policy in (target, optimal))
    return Ground(world, behaviours[overlap], target, gamma, truth, best)


def default_settings(sizes: tuple[int, ...] = (2000, 10_000)) -> tuple[Setting, ...]:
    """Return eight settings of each size, with overlap from good to poor.

    On CartPole with fair overlap poles fall, and polynomial features cannot represent the value of the
    frozen states after a fall: even without noise, LSTD on 100 episodes has a standard deviation of
    1.9. The linear MDP is linear in features that the estimators do not have.

    Examples
    --------
    >>> print(default_settings()[0])
    cartpole, good overlap, 2,000 steps
    """
    return tuple(Setting(world, overlap, steps) for steps in sizes for world, overlap in GROUNDS)


def seed_for(entropy: int, *names: object) -> np.random.SeedSequence:
    """Return a seed that depends only on the root entropy and these names.

    Examples
    --------
    >>> first, again = seed_for(1, "a", 3), seed_for(1, "a", 3)
    >>> bool((first.generate_state(2) == again.generate_state(2)).all())
    True
    """
    key = tuple(zlib.crc32(str(name).encode()) for name in names)
    return np.random.SeedSequence(entropy, spawn_key=key)
