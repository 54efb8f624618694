"""A linear MDP over real vectors with exactly known values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import softmax

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.log.spaces import Discrete
from tailproof.policies.forms import Policy, action_probabilities, draw
from tailproof.worlds.rollout import Seed
from tailproof.worlds.tabular import TabularMDP, TabularPolicy


@dataclass(frozen=True, eq=False, repr=False)
class SimplexFeatures:
    """φ(s, a) = softmax(W_aᵀs + b_a): non-negative and summing to one, the weights of a mixture."""

    weights: FloatArray  # (A, p, d)
    biases: FloatArray  # (A, d)

    @property
    def size(self) -> int:
        """Number of features, d."""
        return len(self.biases[0])

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, d)."""
        scores = np.einsum("np,npd->nd", states, self.weights[actions]) + self.biases[actions]
        return np.asarray(softmax(scores, axis=1))

    def at_all_actions(self, states: FloatArray) -> FloatArray:
        """Return φ(s, ·), (n, A, d)."""
        count = len(self.biases)
        everywhere = np.repeat(states, count, axis=0)
        flat = self(everywhere, np.tile(np.arange(count), len(states)))
        return flat.reshape(len(states), count, self.size)


@dataclass(frozen=True, eq=False, repr=False)
class GreedyLinearPolicy:
    """The action with the largest φ(s, a)ᵀw."""

    features: SimplexFeatures
    coefficients: FloatArray  # (d,)

    def __call__(self, states: FloatArray) -> IntArray:
        """Return the best action, (n,)."""
        values = self.features.at_all_actions(states) @ self.coefficients  # (n, A)
        return np.asarray(values.argmax(axis=1))


@dataclass(frozen=True, eq=False, repr=False)
class LinearMDP:
    """An MDP that is linear in known features φ(s, a), so that every Q^π is φ(s, a)ᵀw_π.

    ::

        P(s'|s, a) = Σ_j φ_j(s, a) μ_j(s'),   r(s, a) = φ(s, a)ᵀθ,   w_π = θ + γ Σ_s' μ(s') V^π(s')

    φ lies in the simplex, so P is a distribution in every state. The distributions μ_j share finitely
    many atoms in R^p; on these the MDP is a `TabularMDP`, which gives the exact J and optimal policy.

    Parameters
    ----------
    atoms
        The states that can occur, (N, p).
    features
        φ.
    measures
        μ_j, (d, N).
    theta
        θ, (d,).
    initial
        Distribution of the first state over the atoms, (N,).
    horizon
        Steps of an episode.

    Examples
    --------
    >>> world = LinearMDP.random(seed=1)
    >>> log = world.log(episodes=20, steps=10, seed=2)
    >>> log.states.shape
    (200, 3)
    >>> coefficients = world.coefficients(world.optimal(gamma=0.9), gamma=0.9)
    >>> coefficients.shape == (world.features.size,)
    True
    """

    atoms: FloatArray
    features: SimplexFeatures
    measures: FloatArray
    theta: FloatArray
    initial: FloatArray
    horizon: int = 100

    @classmethod
    def random(
        cls,
        *,
        seed: Seed,
        dimension: int = 3,
        features: int = 6,
        actions: int = 3,
        atoms: int = 40,
        horizon: int = 100,
    ) -> LinearMDP:
        """Draw a linear MDP: normal atoms, softmax weights and θ, Dirichlet distributions μ_j."""
        rng = np.random.default_rng(seed)
        return cls(
            rng.standard_normal((atoms, dimension)),
            SimplexFeatures(
                rng.standard_normal((actions, dimension, features)),
                rng.standard_normal((actions, features)),
            ),
            rng.dirichlet(np.full(atoms, 0.3), size=features),
            rng.standard_normal(features),
            rng.dirichlet(np.ones(atoms)),
            horizon,
        )

    log = TabularMDP.log

    @property
    def action_space(self) -> Discrete:
        """Actions 0..A−1."""
        return Discrete(len(self.features.biases))

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """Draw initial states, (E, p)."""
        return self.atoms[rng.choice(len(self.atoms), size=episodes, p=self.initial)]

    def step(
        self, states: FloatArray, actions: AnyArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return the next states (n, p), rewards (n,) and terminations (n,), all false."""
        phi = self.features(states, actions)  # (n, d)
        component = draw(np.cumsum(phi, axis=1), rng)
        landed = draw(np.cumsum(self.measures, axis=1)[component], rng)
        return self.atoms[landed], phi @ self.theta, np.zeros(len(states), dtype=bool)

    @cached_property
    def latent(self) -> TabularMDP:
        """The same MDP over the indices of its atoms."""
        phi = self.features.at_all_actions(self.atoms)  # (N, A, d)
        return TabularMDP(phi @ self.measures, phi @ self.theta, self.initial, horizon=self.horizon)

    def value(self, policy: Policy, *, gamma: float) -> float:
        """Return J(π) = E Σ_t γ^t r_t, exactly."""
        return self.latent.value(self.tabulate(policy), gamma=gamma)

    def coefficients(self, policy: Policy, *, gamma: float) -> FloatArray:
        """Return w_π with Q^π(s, a) = φ(s, a)ᵀw_π in every state of R^p, (d,)."""
        tabular = self.tabulate(policy)
        values = self.latent.action_values(tabular, gamma=gamma)  # (N, A)
        ahead = self.measures @ (tabular.table * values).sum(axis=1)
        return np.asarray(self.theta + gamma * ahead)

    def optimal(self, *, gamma: float) -> GreedyLinearPolicy:
        """Return the optimal policy, defined in every state of R^p."""
        best = self.latent.optimal(gamma=gamma)
        values = self.latent.action_values(best, gamma=gamma).max(axis=1)  # (N,)
        return GreedyLinearPolicy(self.features, self.theta + gamma * (self.measures @ values))

    def tabulate(self, policy: Policy) -> TabularPolicy:
        """Return the policy as a table over the atoms."""
        return TabularPolicy(action_probabilities(policy, self.atoms, self.action_space.n))

    def __repr__(self) -> str:
        return (
            f"LinearMDP({self.features.size} features, states in R^{self.atoms.shape[1]}, "
            f"{self.action_space})"
        )
