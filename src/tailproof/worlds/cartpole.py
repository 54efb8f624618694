"""The paper's CartPole: a smooth reward, noisy states and no terminal flag."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from importlib.resources import files

import numpy as np
from scipy.special import softmax

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.errors import TailproofError
from tailproof.log.log import Log
from tailproof.log.spaces import Discrete
from tailproof.noise import Noise
from tailproof.parameters import Within, require
from tailproof.policies.forms import EpsilonGreedy, Policy
from tailproof.worlds.rollout import Seed, noisy_rollout, simulated_returns

GRAVITY, CART_MASS, POLE_MASS, HALF_LENGTH = 9.8, 1.0, 0.1, 0.5
FORCE, TIME_STEP = 10.0, 0.02
POSITION_LIMIT, ANGLE_LIMIT = 2.4, math.radians(12)


def push(states: FloatArray, actions: IntArray) -> FloatArray:
    """Return the noise-free next states of CartPole-v1, one Euler step of 0.02 s, (n, 4).

    Examples
    --------
    >>> push(np.zeros((1, 4)), np.array([1])).round(4)
    array([[ 0.    ,  0.1951,  0.    , -0.2927]])
    """
    position, velocity, angle, spin = states.T
    sine, cosine = np.sin(angle), np.cos(angle)
    mass = CART_MASS + POLE_MASS
    thrust = (FORCE * (2 * actions - 1) + POLE_MASS * HALF_LENGTH * spin**2 * sine) / mass
    inertia = HALF_LENGTH * (4 / 3 - POLE_MASS * cosine**2 / mass)
    turning = (GRAVITY * sine - cosine * thrust) / inertia
    acceleration = thrust - POLE_MASS * HALF_LENGTH * turning * cosine / mass
    return np.stack(
        [
            position + TIME_STEP * velocity,
            velocity + TIME_STEP * acceleration,
            angle + TIME_STEP * spin,
            spin + TIME_STEP * turning,
        ],
        axis=1,
    )


def fallen(states: FloatArray) -> BoolArray:
    """Return whether the cart has left ±2.4 or the pole ±12°, (n,)."""
    return (np.abs(states[:, 0]) > POSITION_LIMIT) | (np.abs(states[:, 2]) > ANGLE_LIMIT)


def reward(states: FloatArray) -> FloatArray:
    """Return 1 − x²/11.52 − (θ in degrees)²/288 of a standing pole, (n,): from ½ to 1.

    Examples
    --------
    >>> reward(np.array([[2.4, 0, 0, 0], [0, 0, np.radians(12), 0]])).round(12).tolist()
    [0.5, 0.5]
    """
    return 1 - states[:, 0] ** 2 / 11.52 - np.degrees(states[:, 2]) ** 2 / 288


@dataclass(frozen=True, eq=False, repr=False)
class PPOPolicy:
    """A small tanh network trained with PPO: π(a|s) = softmax(logits(s)).

    `greedy` is the paper's π*, the most likely action.

    Examples
    --------
    >>> leaning = np.array([[0.0, 0.0, 0.1, 0.5], [0.0, 0.0, -0.1, -0.5]])
    >>> shipped_policy().greedy(leaning)
    array([1, 0])
    """

    layers: tuple[tuple[FloatArray, FloatArray], ...]  # weights (in, out) and biases (out,)

    def logits(self, states: FloatArray) -> FloatArray:
        """Return the network's output, (n, A)."""
        hidden = states.astype(np.float32)  # as trained, and tanh is five times as fast
        for weights, biases in self.layers[:-1]:
            hidden = np.tanh(hidden @ weights + biases)
        weights, biases = self.layers[-1]
        return np.add(hidden @ weights, biases, dtype=float)

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return the softmax of the logits, (n, A)."""
        return np.asarray(softmax(self.logits(states), axis=1))

    def greedy(self, states: FloatArray) -> IntArray:
        """Return the most likely action, (n,)."""
        return np.asarray(self.logits(states).argmax(axis=1))

    def __repr__(self) -> str:
        sizes = [self.layers[0][0].shape[0], *(len(biases) for _, biases in self.layers)]
        return f"PPOPolicy({' → '.join(map(str, sizes))})"


@lru_cache(maxsize=1)
def shipped_policy() -> PPOPolicy:
    """Return the policy whose weights are part of the package.

    They were trained in this world by `reproduction.online.train_behaviour(seed=0)`; see
    ``data/cartpole_ppo.md`` for their value and what depends on them.

    Examples
    --------
    >>> shipped_policy()
    PPOPolicy(4 → 16 → 16 → 2)
    """
    path = files("tailproof.worlds") / "data" / "cartpole_ppo.npz"
    with path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        depth = len(arrays.files) // 2
        return PPOPolicy(
            tuple((arrays[f"weights_{i}"], arrays[f"biases_{i}"]) for i in range(depth))
        )


@dataclass(frozen=True)
class MonteCarlo:
    """A mean of independent simulated returns, with its standard error."""

    value: float
    standard_error: float
    episodes: int
    steps: int


#: ``CartPole().truth(shipped_policy().greedy, episodes=20_000, seed=2024)``, about 20 s.
TARGET_TRUTH = MonteCarlo(value=99.0731, standard_error=0.0024, episodes=20_000, steps=1375)


@dataclass(frozen=True)
class CartPole:
    """CartPole as in the paper (section 5), for many episodes at once.

    The state is (position, velocity, angle, angular velocity), initially uniform in ±0.05. With f
    the dynamics of Gymnasium's CartPole-v1 and 'fallen' a position beyond ±2.4 or an angle beyond
    ±12°::

        s' = f(s, a) + N(0, 0.01²),   r = 1 − x²/11.52 − (θ°)²/288 of f(s, a),   standing s
        s' = s,                       r = 0,                                     fallen s

    Nothing terminates: a fallen pole stays fallen with reward 0. Whether the pole has fallen depends
    on the noisy state, so that the process is Markov.

    Parameters
    ----------
    state_noise
        Standard deviation of the noise on every coordinate of the next state.
    horizon
        Steps of an episode.

    Examples
    --------
    >>> from tailproof.noise import StudentT
    >>> log = CartPole().log(episodes=100, noise=StudentT(df=1.5), seed=1)
    >>> log.states.shape
    (10000, 4)
    """

    state_noise: float = 0.01
    horizon: int = 100

    def __post_init__(self) -> None:
        require(Within("[0, inf)"), TailproofError, state_noise=self.state_noise)

    @property
    def action_space(self) -> Discrete:
        """Push left or right."""
        return Discrete(2, ("left", "right"))

    @property
    def state_names(self) -> tuple[str, ...]:
        """Names of the four coordinates."""
        return ("position", "velocity", "angle", "angular velocity")

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """Draw initial states, uniform in ±0.05, (E, 4)."""
        return rng.uniform(-0.05, 0.05, (episodes, 4))

    def step(
        self, states: FloatArray, actions: AnyArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return the next states (n, 4), rewards (n,) and terminations (n,), all false."""
        moved = push(states, actions)
        rewards = reward(moved)
        next_states = moved + self.state_noise * rng.standard_normal(states.shape)
        down = fallen(states)
        if down.any():
            next_states[down] = states[down]
            rewards[down] = 0.0
        return next_states, rewards, np.zeros(len(states), dtype=bool)

    def target(self) -> Policy:
        """Return π*, the greedy policy of the shipped network."""
        return shipped_policy().greedy

    def behaviour(self, epsilon: float = 0.05) -> EpsilonGreedy:
        """Return (1 − ε)·π* + ε·uniform, drawn independently at every episode and step."""
        return EpsilonGreedy(self.target(), epsilon, n_actions=2)

    def log(
        self,
        episodes: int = 100,
        steps: int | None = None,
        *,
        policy: Policy | None = None,
        epsilon: float = 0.05,
        noise: Noise | None = None,
        seed: Seed = 0,
    ) -> Log:
        """Log some episodes of a policy, by default of the ε-greedy behaviour, with propensities.

        The same seed gives the same trajectories for any noise on the rewards.
        """
        acting = self.behaviour(epsilon) if policy is None else policy
        return noisy_rollout(self, acting, noise, episodes=episodes, steps=steps, seed=seed)

    def value(
        self,
        policy: Policy,
        *,
        episodes: int = 1000,
        steps: int | None = None,
        gamma: float = 0.99,
        seed: Seed = 0,
    ) -> float:
        """Return the mean discounted return of `steps` steps, by simulation.

        The regret of a learned policy is ``value(world.target()) - value(policy)``; with the same
        seed both use the same random numbers.
        """
        returns = simulated_returns(
            self, policy, episodes=episodes, steps=steps or self.horizon, gamma=gamma, seed=seed
        )
        return float(returns.mean())

    def truth(
        self,
        policy: Policy | None = None,
        *,
        gamma: float = 0.99,
        episodes: int = 2000,
        seed: Seed = 0,
    ) -> MonteCarlo:
        """Return J(π) = E Σ_t γ^t r_t over an infinite horizon, the target of FQE.

        Simulated until γ^T/(1 − γ) < 10⁻⁴, 1,375 steps at γ = 0.99. The default policy is `target`;
        its value at γ = 0.99 in the paper's world is stored as `TARGET_TRUTH`.
        """
        require(Within("[0, 1)"), TailproofError, gamma=gamma)  # nothing terminates
        if policy is None and gamma == 0.99 and self.state_noise == 0.01:
            return TARGET_TRUTH
        steps = 1 if gamma == 0 else math.ceil(math.log(1e-4 * (1 - gamma)) / math.log(gamma))
        returns = simulated_returns(
            self, policy or self.target(), episodes=episodes, steps=steps, gamma=gamma, seed=seed
        )
        error = float(returns.std(ddof=1)) / math.sqrt(episodes)
        return MonteCarlo(float(returns.mean()), error, episodes, steps)
