"""The cells of the battery: worlds × overlap × log sizes × noises, each with a known truth."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any, Literal

import numpy as np

from tailproof.arrays import AnyArray, FloatArray
from tailproof.data.log import Log
from tailproof.errors import TailproofError
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
from tailproof.policies.simple import EpsilonGreedy, Policy, Uniform, action_probabilities
from tailproof.worlds import CartPole, LinearMDP, TabularMDP

World = Literal["cartpole", "tabular", "linear"]
Overlap = Literal["good", "fair", "poor"]
Shape = Literal["symmetric", "mild skew", "strong skew"]
EPISODE = 100  # steps of an episode in every cell


@dataclass(frozen=True, eq=False)
class Problem:
    """A question as an entrant sees it: how good is this policy, given this log?

    Attributes
    ----------
    log, policy, gamma
        What `tailproof.evaluation.evaluate` takes.
    """

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
    def place(self) -> str:
        """World and overlap in few words."""
        return f"{self.world} ({self.overlap})"

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
        return f"{self.noise}: {self.setting.place}, {self.setting.steps:,}"


@dataclass(frozen=True, eq=False)
class Ground:
    """A world, who acts in it, whom we ask about, the answer, and the best that can be done."""

    world: Any
    behaviour: Policy
    target: Policy
    gamma: float
    truth: float
    best: float

    def problem(self, episodes: int, rng: np.random.Generator) -> Problem:
        """Draw a log without noise."""
        acting = {"policy" if isinstance(self.world, CartPole) else "behaviour": self.behaviour}
        log = self.world.log(episodes, EPISODE, seed=rng, **acting)
        return Problem(log, self.target, self.gamma)

    def value(self, policy: Policy) -> float:
        """Return what a policy is worth: exactly, but for CartPole, where 200 episodes are run."""
        if isinstance(self.world, CartPole):
            return self.world.truth(policy, gamma=self.gamma, episodes=200).value
        return float(self.world.value(policy, gamma=self.gamma))

    @cached_property
    def aimless(self) -> float:
        """What it is worth to act uniformly at random."""
        return self.value(Uniform(self.world.action_space.n))


@dataclass(frozen=True)
class Mixture:
    """Follow each of some policies with its own probability, drawn anew at every step."""

    parts: tuple[tuple[float, Any], ...]
    n_actions: int

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return Σ_i p_i π_i(a|s), (n, A)."""
        followed = (
            share * action_probabilities(policy, states, self.n_actions)
            for share, policy in self.parts
        )
        return np.asarray(sum(followed))


def _cartpole(overlap: Overlap) -> Ground:
    world = CartPole()
    behaviour = world.behaviour({"good": 0.05, "fair": 0.2}[overlap])
    truth = world.truth().value
    return Ground(world, behaviour, world.target(), 0.99, truth, truth)


def _tabular(overlap: Overlap) -> Ground:
    world = TabularMDP.random(states=10, actions=3, seed=2026)
    against = TabularMDP(world.transitions, -world.rewards, world.initial)
    gamma = 0.95
    optimal = world.optimal(gamma=gamma)
    target = EpsilonGreedy(optimal, 0.1, 3)
    behaviour = _behaviour(overlap, target, against.optimal(gamma=gamma))
    truth, best = (world.value(policy, gamma=gamma) for policy in (target, optimal))
    return Ground(world, behaviour, target, gamma, truth, best)


def _linear(overlap: Overlap) -> Ground:
    world = LinearMDP.random(seed=1115)
    against = LinearMDP(
        world.atoms, world.features, world.measures, -world.theta, world.initial
    ).optimal(gamma=0.9)
    target = world.optimal(gamma=0.9)
    behaviour = _behaviour(overlap, target, against)
    truth = world.value(target, gamma=0.9)
    return Ground(world, behaviour, target, 0.9, truth, truth)


def _behaviour(overlap: Overlap, target: Policy, against: Policy) -> Policy:
    """Return who acts: half of the time the target, anybody, or mostly one who does the opposite."""
    if overlap == "fair":
        return Uniform(3)
    if overlap == "good":
        return EpsilonGreedy(target, 0.5, 3)
    return Mixture(((0.1, target), (0.1, Uniform(3)), (0.8, against)), 3)


#: The worlds and the overlaps that each has.
GROUNDS: dict[tuple[str, str], Any] = {
    **{("cartpole", overlap): _cartpole for overlap in ("good", "fair")},
    **{("tabular", overlap): _tabular for overlap in ("good", "fair", "poor")},
    **{("linear", overlap): _linear for overlap in ("good", "fair", "poor")},
}


@cache
def ground(world: str, overlap: str) -> Ground:
    """Return a world with its behaviour, target and truth.

    Examples
    --------
    >>> round(ground("cartpole", "good").truth, 3)
    99.073
    """
    found: Ground = GROUNDS[world, overlap](overlap)
    return found


def default_settings(sizes: tuple[int, ...] = (2000, 10_000)) -> tuple[Setting, ...]:
    """Return eight settings of each size, with overlap from good to poor.

    On CartPole with fair overlap poles fall, and the frozen states after a fall are beyond polynomial
    features: with no noise at all, LSTD on 100 episodes has a standard deviation of 1.9. The linear MDP
    is linear in features that no estimator is given.

    Examples
    --------
    >>> print(default_settings()[0])
    cartpole, good overlap, 2,000 steps
    """
    pairs: tuple[tuple[World, Overlap], ...] = (
        ("cartpole", "good"),
        ("cartpole", "fair"),
        ("tabular", "good"),
        ("tabular", "fair"),
        ("tabular", "poor"),
        ("linear", "good"),
        ("linear", "fair"),
        ("linear", "poor"),
    )
    return tuple(Setting(world, overlap, steps) for steps in sizes for world, overlap in pairs)


def seed_for(entropy: int, *names: object) -> np.random.SeedSequence:
    """Return the seed of whatever has these names: it depends on nothing else in the battery.

    Examples
    --------
    >>> first, again = seed_for(1, "a", 3), seed_for(1, "a", 3)
    >>> bool((first.generate_state(2) == again.generate_state(2)).all())
    True
    """
    key = tuple(zlib.crc32(str(name).encode()) for name in names)
    return np.random.SeedSequence(entropy, spawn_key=key)
