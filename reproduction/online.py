"""Train the CartPole behaviour policy online with PPO. Needs the extra `online`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

from tailproof.arrays import FloatArray
from tailproof.errors import TailproofError
from tailproof.worlds.cartpole import CartPole, PPOPolicy, fallen


class CartPoleEnv(gymnasium.Env[FloatArray, int]):
    """The paper's CartPole as a Gymnasium environment that terminates when the pole falls.

    A fallen pole has reward 0 for ever, so ending the episode there changes no value and saves
    time.

    Examples
    --------
    >>> environment = CartPoleEnv(steps=200)
    >>> state, _ = environment.reset(seed=1)
    >>> state, reward, terminated, truncated, _ = environment.step(0)
    >>> state.shape, terminated, truncated
    ((4,), False, False)
    """

    def __init__(self, steps: int = 500, *, world: CartPole | None = None) -> None:
        self.world = CartPole() if world is None else world
        self.steps = steps
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (4,), np.float64)
        self.action_space = gymnasium.spaces.Discrete(self.world.action_space.n)  # type: ignore[assignment]

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[FloatArray, dict[str, Any]]:
        """Start an episode."""
        super().reset(seed=seed, options=options)
        self.taken = 0
        self.state = self.world.start(1, self.np_random)
        return self.state[0], {}

    def step(self, action: int) -> tuple[FloatArray, float, bool, bool, dict[str, Any]]:
        """Push left (0) or right (1)."""
        self.state, rewards, _ = self.world.step(self.state, np.array([action]), self.np_random)
        self.taken += 1
        down = bool(fallen(self.state)[0])
        return self.state[0], float(rewards[0]), down, self.taken >= self.steps and not down, {}


def train_behaviour(
    seed: int = 0, *, training_steps: int = 80_000, hidden: tuple[int, ...] = (16, 16)
) -> PPOPolicy:
    """Train π* with PPO (stable-baselines3) in the paper's CartPole, in about a minute.

    Longer training is not better here: with a steadier pole, logs visit fewer states and are less
    informative for a linear critic (figures in ``data/cartpole_ppo.md``).

    Parameters
    ----------
    seed
        Seed of the network, of the sampling and of the environments.
    training_steps
        Total number of environment steps.
    hidden
        Units of the actor's tanh layers.
    """
    try:
        import torch
        from stable_baselines3 import PPO
        from stable_baselines3.common.env_util import make_vec_env
    except ImportError as error:
        raise TailproofError(
            "Training needs stable-baselines3, which is not installed. "
            "Run: pip install 'tailproof[online]'"
        ) from error
    torch.set_num_threads(1)  # more threads slow down such small networks
    learner = PPO(
        "MlpPolicy",
        make_vec_env(CartPoleEnv, n_envs=8, seed=seed),
        n_steps=256,
        batch_size=256,
        n_epochs=10,
        gamma=0.99,
        gae_lambda=0.95,
        learning_rate=lambda remaining: 1e-3 * remaining,
        policy_kwargs={"net_arch": {"pi": list(hidden), "vf": [64, 64]}},
        seed=seed,
        device="cpu",
    )
    learner.learn(training_steps)
    modules = [*learner.policy.mlp_extractor.policy_net, learner.policy.action_net]
    linear = [module for module in modules if isinstance(module, torch.nn.Linear)]
    return PPOPolicy(
        tuple(
            (module.weight.detach().numpy().T.copy(), module.bias.detach().numpy().copy())
            for module in linear
        )
    )


def save_policy(policy: PPOPolicy, path: str | Path) -> None:
    """Write a policy's weights as single-precision arrays, `weights_i` and `biases_i`."""
    arrays: dict[str, Any] = {}
    for i, (weights, biases) in enumerate(policy.layers):
        arrays[f"weights_{i}"] = weights.astype(np.float32)
        arrays[f"biases_{i}"] = biases.astype(np.float32)
    np.savez(path, **arrays)
