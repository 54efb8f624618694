"""A finite Markov decision process with all quantities in closed form."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray
from tailproof.errors import TailproofError
from tailproof.log.log import Log
from tailproof.log.spaces import Discrete
from tailproof.noise import Noise
from tailproof.parameters import SHARE, Within, require
from tailproof.policies.forms import Policy, Uniform, action_probabilities, draw
from tailproof.worlds.rollout import Seed, noisy_rollout


@dataclass(frozen=True, eq=False)
class TabularPolicy:
    """π(a|s) as a table over one-hot states.

    Examples
    --------
    >>> TabularPolicy(np.array([[1.0, 0.0], [0.5, 0.5]])).probabilities(np.array([[0.0, 1.0]]))
    array([[0.5, 0.5]])
    """

    table: FloatArray  # (S, A)

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a|s), (n, A)."""
        chances: FloatArray = self.table[np.argmax(states, axis=1)]
        return chances


@dataclass(frozen=True, eq=False, repr=False)
class TabularMDP:
    """A finite MDP; states are one-hot vectors, so a linear critic on them is exact.

    With P_π(s, s') = Σ_a π(a|s)(1 − e(s, a)) P(s'|s, a) and e the probability that a transition
    ends the episode::

        Q(s, a) = R(s, a) + γ (1 − e(s, a)) Σ_s' P(s'|s, a) V(s'),   V = (I − γP_π)⁻¹ R_π,   J = μᵀV

    Rewards are deterministic; `log` can add noise. A state that returns to itself with reward 0 is
    absorbing.

    Parameters
    ----------
    transitions
        P(s'|s, a), (S, A, S).
    rewards
        R(s, a), (S, A).
    initial
        μ(s), (S,).
    termination
        e(s, a), (S, A); 0 everywhere by default.
    horizon
        Steps of an episode.

    Examples
    --------
    >>> world = TabularMDP.random(states=5, actions=2, seed=1)
    >>> best = world.optimal(gamma=0.9)
    >>> world.value(best, gamma=0.9) >= world.value(Uniform(2), gamma=0.9)
    True
    """

    transitions: FloatArray
    rewards: FloatArray
    initial: FloatArray
    termination: FloatArray = field(default_factory=lambda: np.zeros(()))
    horizon: int = 100

    def __post_init__(self) -> None:
        pairs = self.rewards.shape
        expected = {"transitions": (*pairs, pairs[0]), "initial": pairs[:1]}
        for name, shape in expected.items():
            law = getattr(self, name)
            if law.shape != shape or (law < 0).any() or not np.allclose(law.sum(axis=-1), 1):
                raise TailproofError(
                    f"{name} must be probabilities of shape {shape} that sum to one along the last "
                    f"axis, with rewards of shape {pairs}. Got shape {law.shape}, sums from "
                    f"{law.sum(axis=-1).min():g} to {law.sum(axis=-1).max():g}."
                )
        object.__setattr__(self, "termination", np.broadcast_to(self.termination, pairs))
        for end in (float(self.termination.min()), float(self.termination.max())):
            require(SHARE, TailproofError, termination=end)

    @classmethod
    def random(
        cls,
        states: int = 10,
        actions: int = 3,
        *,
        seed: Seed,
        concentration: float = 0.3,
        termination: float = 0.0,
        horizon: int = 100,
    ) -> TabularMDP:
        """Draw an MDP: Dirichlet transitions and start, standard normal rewards.

        A small `concentration` makes transitions nearly deterministic.
        """
        rng = np.random.default_rng(seed)
        return cls(
            rng.dirichlet(np.full(states, concentration), size=(states, actions)),
            rng.standard_normal((states, actions)),
            rng.dirichlet(np.ones(states)),
            np.asarray(termination),
            horizon,
        )

    def log(
        self: Any,
        episodes: int = 100,
        steps: int | None = None,
        *,
        behaviour: Policy | None = None,
        noise: Noise | None = None,
        seed: Seed = 0,
    ) -> Log:
        """Log some episodes of a behaviour policy, by default uniform, with propensities."""
        acting = Uniform(self.action_space.n) if behaviour is None else behaviour
        return noisy_rollout(self, acting, noise, episodes=episodes, steps=steps, seed=seed)

    @property
    def n_states(self) -> int:
        """Number of states, S."""
        return len(self.rewards)

    @property
    def action_space(self) -> Discrete:
        """Actions 0..A−1."""
        return Discrete(self.rewards.shape[1])

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """Draw initial states, one-hot, (E, S)."""
        return np.eye(self.n_states)[rng.choice(self.n_states, size=episodes, p=self.initial)]

    def step(
        self, states: FloatArray, actions: AnyArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return the next states (n, S), rewards (n,) and whether each transition terminates."""
        now = np.argmax(states, axis=1)
        ends = rng.random(len(now)) < self.termination[now, actions]
        drawn = draw(self._edges[now, actions], rng)
        return np.eye(self.n_states)[drawn], self.rewards[now, actions], ends

    def value(self, policy: Policy, *, gamma: float) -> float:
        """Return J(π) = E Σ_t γ^t r_t, exactly."""
        return float(self.initial @ self._state_values(self.table(policy), gamma))

    def action_values(self, policy: Policy, *, gamma: float) -> FloatArray:
        """Return Q^π, exactly, (S, A)."""
        return self._backup(self._state_values(self.table(policy), gamma), gamma)

    def optimal(self, *, gamma: float) -> TabularPolicy:
        """Return the optimal policy, by policy iteration."""
        rows = np.arange(self.n_states)
        chosen = self.rewards.argmax(axis=1)
        while True:
            table = np.eye(self.action_space.n)[chosen]  # (S, A)
            values = self._backup(self._state_values(table, gamma), gamma)
            best = values.argmax(axis=1)
            # Require a clear gain, because rounding could make tied actions alternate for ever.
            better = values[rows, best] > values[rows, chosen] + 1e-10
            if not better.any():
                return TabularPolicy(table)
            chosen = np.where(better, best, chosen)

    def occupancy(self, policy: Policy, *, gamma: float) -> FloatArray:
        """Return d^π(s, a) = (1 − γ) Σ_t γ^t P(s_t = s, a_t = a), (S, A).

        It sums to one if nothing terminates; J = Σ d^π R / (1 − γ) always holds.
        """
        require(Within("[0, 1)"), TailproofError, gamma=gamma)
        table = self.table(policy)
        system = np.eye(self.n_states) - gamma * self._kernel(table).T
        return np.linalg.solve(system, (1 - gamma) * self.initial)[:, None] * table

    def logged_probabilities(self, behaviour: Policy, *, steps: int | None = None) -> FloatArray:
        """Return d^D(s, a), the distribution of a transition in a log of `steps` steps, (S, A)."""
        table = self.table(behaviour)
        kernel = self._kernel(table)
        alive, total = self.initial, np.zeros(self.n_states)
        for _ in range(steps or self.horizon):
            total = total + alive
            alive = alive @ kernel
        law: FloatArray = (total / total.sum())[:, None] * table
        return law

    def ratio(
        self, policy: Policy, behaviour: Policy, *, gamma: float, steps: int | None = None
    ) -> FloatArray:
        """Return ω = d^π/d^D, (S, A): 0 if both are 0, infinite if only d^D is 0."""
        wanted = self.occupancy(policy, gamma=gamma)
        logged = self.logged_probabilities(behaviour, steps=steps)
        ratio: FloatArray = np.where(wanted > 0, np.inf, 0.0)
        np.divide(wanted, logged, out=ratio, where=logged > 0)
        return ratio

    def table(self, policy: Policy) -> FloatArray:
        """Return π(a|s) of any policy on the one-hot states, (S, A)."""
        return action_probabilities(policy, np.eye(self.n_states), self.action_space.n)

    @cached_property
    def _edges(self) -> FloatArray:
        return np.cumsum(self.transitions, axis=-1)  # (S, A, S)

    def _kernel(self, table: FloatArray) -> FloatArray:
        kernel: FloatArray = np.einsum(
            "sa,sa,sat->st", table, 1 - self.termination, self.transitions
        )
        return kernel  # (S, S)

    def _state_values(self, table: FloatArray, gamma: float) -> FloatArray:
        require(SHARE, TailproofError, gamma=gamma)
        kernel = self._kernel(table)
        if gamma == 1 and np.abs(np.linalg.eigvals(kernel)).max() > 1 - 1e-12:
            raise TailproofError(
                "gamma must be below 1 where a policy may run for ever. Got 1; give every "
                "transition a termination probability, or discount."
            )
        system = np.eye(self.n_states) - gamma * kernel
        values: FloatArray = np.linalg.solve(system, (table * self.rewards).sum(axis=1))
        return values  # (S,)

    def _backup(self, state_values: FloatArray, gamma: float) -> FloatArray:
        ahead: FloatArray = (1 - self.termination) * (self.transitions @ state_values)
        return self.rewards + gamma * ahead  # (S, A)

    def __repr__(self) -> str:
        ends = "" if self.termination.max() == 0 else ", terminating"
        return f"TabularMDP({self.n_states} states, {self.action_space}{ends})"
