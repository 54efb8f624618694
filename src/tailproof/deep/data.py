"""The log as tensors, and the random draws of each step."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from torch import Tensor

from tailproof.arrays import AnyArray, FloatArray, IntArray, checked_states
from tailproof.deep.settings import DeepSettings, RewardScale
from tailproof.errors import LogError, TailproofError
from tailproof.log.log import Log
from tailproof.log.spaces import Continuous, Discrete

_CHUNK = 64  # number of steps whose draws are generated together


@dataclass(frozen=True)
class Scaling:
    """Converts states, actions and rewards between the log's units and those of the networks."""

    state_mean: FloatArray  # (p,)
    state_scale: FloatArray  # (p,)
    action_middle: FloatArray | None  # (q,), None for discrete actions
    action_half: FloatArray | None  # (q,)
    n_actions: int | None
    reward_scale: float

    @classmethod
    def of(cls, log: Log, *, standardise: bool, reward_scale: RewardScale) -> Scaling:
        """Choose the scaling for a log."""
        p = log.states.shape[1]
        mean, scale = np.zeros(p), np.ones(p)
        if standardise:
            mean = log.states.mean(axis=0, dtype=float)
            scale = log.states.std(axis=0, dtype=float)
            scale = np.where(scale > 1e-6 * np.maximum(1, np.abs(mean)), scale, 1.0)
        space = log.action_space
        middle = half = None
        if isinstance(space, Continuous):
            low, high = _bounds(log, space)
            middle, half = (low + high) / 2, np.where(high > low, (high - low) / 2, 1.0)
        return cls(
            mean,
            scale,
            middle,
            half,
            space.n if isinstance(space, Discrete) else None,
            _automatic(log.rewards) if reward_scale == "auto" else float(reward_scale),
        )

    @property
    def action_width(self) -> int:
        """Entries of an action vector; 0 for discrete actions."""
        return 0 if self.action_middle is None else len(self.action_middle)

    def states(self, states: FloatArray) -> FloatArray:
        """Return states in the networks' units, float32 (n, p)."""
        given = checked_states(states, len(self.state_mean), TailproofError)
        return np.asarray((given - self.state_mean) / self.state_scale, dtype=np.float32)

    def actions(self, actions: AnyArray) -> FloatArray:
        """Return actions scaled to [−1, 1], float32 (n, q); discrete codes as one column."""
        given = np.asarray(actions, dtype=float)
        given = given.reshape(len(given), -1)
        if self.action_middle is None or self.action_half is None:
            return given.astype(np.float32)
        return np.asarray((given - self.action_middle) / self.action_half, dtype=np.float32)

    def raw_actions(self, actions: FloatArray) -> FloatArray:
        """Return actions within [−1, 1] in the log's units."""
        if self.action_middle is None or self.action_half is None:
            raise LogError("Discrete actions have no scale.")
        return np.asarray(self.action_middle + self.action_half * actions.astype(float))


def _bounds(log: Log, space: Continuous) -> tuple[FloatArray, FloatArray]:
    low, high = log.actions.min(axis=0).astype(float), log.actions.max(axis=0).astype(float)
    for given, seen in ((space.low, low), (space.high, high)):
        if given is not None:
            known = np.isfinite(given)
            seen[known] = np.asarray(given)[known]
    return low, high


def _automatic(rewards: FloatArray) -> float:
    """Return 1 / median |r|, over nonzero rewards if that is 0; 1 if all rewards are 0."""
    size = np.abs(rewards)
    typical = float(np.median(size)) or float(np.median(size[size > 0]) if size.any() else 0.0)
    return 1 / typical if typical > 0 else 1.0


@dataclass(frozen=True)
class Transitions:
    """Transitions as one float32 tensor (…, W) with named columns; a batch needs one gather.

    The columns are actions, states, next_states, rewards, discounts (γ, or 0 if terminated), then
    those that a learner adds. `pairs` is actions and states together.
    """

    values: Tensor
    columns: dict[str, slice]

    @classmethod
    def of(
        cls,
        log: Log,
        scaling: Scaling,
        gamma: float,
        settings: DeepSettings,
        extra: Mapping[str, FloatArray] | None = None,
    ) -> Transitions:
        """Return a log's transitions in the networks' units, (n, W)."""
        rewards = log.rewards * (0.0 if settings.zero_rewards else scaling.reward_scale)
        arrays = {
            "actions": scaling.actions(log.actions),
            "states": scaling.states(log.states),
            "next_states": scaling.states(log.next_states),
            "rewards": rewards[:, None],
            "discounts": (gamma * ~log.terminated)[:, None],
            **(extra or {}),
        }
        ends = np.cumsum([0, *(each.shape[1] for each in arrays.values())]).tolist()
        columns = dict(zip(arrays, map(slice, ends, ends[1:]), strict=False))
        columns["pairs"] = slice(0, columns["states"].stop)
        joined = np.concatenate(list(arrays.values()), axis=1, dtype=np.float32)
        return cls(torch.from_numpy(joined).to(settings.run.device), columns)

    def __getitem__(self, name: str) -> Tensor:
        return self.values[..., self.columns[name]]

    def column(self, name: str) -> Tensor:
        """Return a column with one number per row, (…)."""
        return self.values[..., self.columns[name].start]

    def gather(self, rows: Tensor) -> Transitions:
        """Return the transitions of these rows (M, B), (M, B, W)."""
        taken = self.values.index_select(0, rows.reshape(-1))
        return Transitions(taken.view(*rows.shape, -1), self.columns)


Draws = Callable[[int], Tensor]  # the draws of a step


def row_draws(
    rows: Sequence[IntArray], seeds: Sequence[int], batch: int, device: str = "cpu"
) -> Draws:
    """Return a function that draws rows (M, B) at each step.

    Parameters
    ----------
    rows
        For each of M draws the rows to draw from, repeated in proportion to their probability.
    seeds
        One seed per draw: a member's draws do not depend on which others are trained.
    """

    def drawn(chunk: int) -> AnyArray:
        each = [
            given[np.random.default_rng([seed, 0, chunk]).integers(len(given), size=shape)]
            for given, seed in zip(rows, seeds, strict=True)
        ]
        return np.stack(each, axis=1).astype(np.int64, copy=False)

    shape = (_CHUNK, batch)
    return _by_step(drawn, device)


def normal_draws(seed: int, shape: tuple[int, ...], device: str = "cpu") -> Draws:
    """Return a function that draws standard normals of this shape at each step."""

    def drawn(chunk: int) -> AnyArray:
        generator = np.random.default_rng([seed, 1, chunk])
        return generator.standard_normal((_CHUNK, *shape), dtype=np.float32)

    return _by_step(drawn, device)


def _by_step(drawn: Callable[[int], AnyArray], device: str) -> Draws:
    """Return the draws of a step; they depend only on seed and step, so checkpoints omit them."""

    @lru_cache(maxsize=1)
    def chunk(number: int) -> Tensor:
        return torch.from_numpy(drawn(number)).to(device)

    return lambda step: chunk(step // _CHUNK)[step % _CHUNK]
