"""Simulated worlds with known true values, for tests, demonstrations and experiments.

A world is anything with the four members of `World`; `tailproof.worlds.rollout` runs policies in
it, all episodes at once.
"""

from typing import Protocol

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray
from tailproof.log.spaces import ActionSpace
from tailproof.worlds.cartpole import CartPole
from tailproof.worlds.tabular import TabularMDP

__all__ = ["CartPole", "TabularMDP", "World"]


class World(Protocol):
    """A Markov decision process that simulates many episodes at once."""

    @property
    def action_space(self) -> ActionSpace:
        """The actions that `step` accepts."""

    @property
    def horizon(self) -> int:
        """Default number of steps per episode."""

    def start(self, episodes: int, rng: np.random.Generator) -> FloatArray:
        """Draw initial states, (E, p)."""

    def step(
        self, states: FloatArray, actions: AnyArray, rng: np.random.Generator
    ) -> tuple[FloatArray, FloatArray, BoolArray]:
        """Return the next states (n, p), rewards (n,) and whether each transition terminates."""
