"""The log as tensors, and which rows each member draws at each step."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from tailproof.arrays import AnyArray, FloatArray, IntArray, require_finite
from tailproof.data.log import Log
from tailproof.data.partition import Folds
from tailproof.data.spaces import Continuous, Discrete
from tailproof.deep.settings import DeepSettings, RewardScale
from tailproof.errors import FoldError, FoldWarning, LogError, TailproofError

_CHUNK = 64  # steps whose draws are made together
_LARGEST = 1e16  # beyond this, squared gradients leave float32


@dataclass(frozen=True)
class Scaling:
    """How states, actions and rewards are turned into what the networks see, and back."""

    state_mean: FloatArray  # (p,)
    state_scale: FloatArray  # (p,)
    action_middle: FloatArray | None  # (q,), none for discrete actions
    action_half: FloatArray | None  # (q,)
    n_actions: int | None
    reward_scale: float

    @classmethod
    def of(cls, log: Log, *, standardise: bool, reward_scale: RewardScale) -> Scaling:
        """Choose the scaling for a log."""
        if not isinstance(log, Log):
            raise LogError(
                f"Deep learners draw transitions at random and need the log in memory. Got a "
                f"{type(log).__name__}; read it without lazy=True, or a part of it."
            )
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

    def plain(self) -> dict[str, Any]:
        """Return numbers and lists, for a file."""
        return {
            name: value.tolist() if isinstance(value, np.ndarray) else value
            for name, value in asdict(self).items()
        }

    @classmethod
    def from_plain(cls, given: dict[str, Any]) -> Scaling:
        """Return the scaling of `plain`."""
        arrays: dict[str, Any] = {
            name: np.asarray(value, dtype=float) if isinstance(value, list) else value
            for name, value in given.items()
        }
        return cls(**arrays)

    @property
    def action_width(self) -> int:
        """Entries of an action vector; 0 when actions are discrete."""
        return 0 if self.action_middle is None else len(self.action_middle)

    def states(self, states: FloatArray) -> FloatArray:
        """Return states as the networks see them, float32 (n, p)."""
        given = np.asarray(states, dtype=float)
        if given.ndim != 2 or given.shape[1] != len(self.state_mean):
            raise TailproofError(
                f"states must have the shape (n, {len(self.state_mean)}). Got {given.shape} instead."
            )
        require_finite("states", given, TailproofError)
        return np.asarray((given - self.state_mean) / self.state_scale, dtype=np.float32)

    def actions(self, actions: AnyArray) -> FloatArray:
        """Return actions within [−1, 1], float32 (n, q); discrete ones as a column."""
        given = np.asarray(actions, dtype=float)
        given = given.reshape(len(given), -1)
        if self.action_middle is None or self.action_half is None:
            return given.astype(np.float32)
        return np.asarray((given - self.action_middle) / self.action_half, dtype=np.float32)

    def raw_actions(self, actions: FloatArray) -> FloatArray:
        """Return actions of the log's space from ones within [−1, 1]."""
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
    """Return 1 / median |r|, or of those that are not zero; 1 when all are."""
    size = np.abs(rewards)
    typical = float(np.median(size)) or float(np.median(size[size > 0]) if size.any() else 0.0)
    return 1 / typical if typical > 0 else 1.0


class Table:
    """Transitions as one float32 tensor with named columns, so that a batch is one gather.

    The columns are actions, states, next_states, rewards, discounts (γ, or 0 where the episode ended
    for good), then whatever a learner adds. `pairs` names actions and states together.
    """

    def __init__(self, columns: dict[str, FloatArray], device: str = "cpu") -> None:
        self.columns: dict[str, slice] = {}
        at = 0
        for name, values in columns.items():
            self.columns[name] = slice(at, at + values.shape[1])
            at += values.shape[1]
        self.columns["pairs"] = slice(0, self.columns["states"].stop)
        joined = np.concatenate(list(columns.values()), axis=1, dtype=np.float32)
        self.values = torch.from_numpy(joined).to(device)  # (n, W)

    @classmethod
    def of(
        cls,
        log: Log,
        scaling: Scaling,
        gamma: float,
        settings: DeepSettings,
        extra: dict[str, FloatArray] | None = None,
    ) -> Table:
        """Return a log's transitions as the networks see them."""
        rewards = log.rewards * (0.0 if settings.zero_rewards else scaling.reward_scale)
        return cls(
            {
                "actions": scaling.actions(log.actions),
                "states": scaling.states(log.states),
                "next_states": scaling.states(log.next_states),
                "rewards": rewards[:, None],
                "discounts": (gamma * ~log.terminated)[:, None],
                **(extra or {}),
            },
            settings.run.device,
        )

    def __getitem__(self, name: str) -> Tensor:
        return self.values[:, self.columns[name]]

    def gather(self, rows: Tensor) -> Batch:
        """Return the transitions of these rows (M, B)."""
        taken = self.values.index_select(0, rows.reshape(-1))
        return Batch(taken.view(*rows.shape, -1), self.columns)


@dataclass(frozen=True)
class Batch:
    """Transitions of M draws of B rows, (M, B, W), by name of their columns."""

    values: Tensor
    columns: dict[str, slice]

    def __getitem__(self, name: str) -> Tensor:
        return self.values[..., self.columns[name]]

    def column(self, name: str) -> Tensor:
        """Return a column that holds one number a row, (M, B)."""
        return self.values[..., self.columns[name].start]


class _Drawn:
    """Draws for each step, a function of seed and step alone: nothing to save, or to lose."""

    def __init__(self, device: str) -> None:
        self._device = device
        self._chunk = -1
        self._drawn = torch.empty(0)

    def __call__(self, step: int) -> Tensor:
        """Return the draws of this step."""
        chunk, place = divmod(step, _CHUNK)
        if chunk != self._chunk:
            self._drawn = torch.from_numpy(self._steps(chunk)).to(self._device)
            self._chunk = chunk
        return self._drawn[place]

    def _steps(self, chunk: int) -> AnyArray:
        """Return the draws of all steps of a chunk, (steps, ...)."""
        raise NotImplementedError


class Draws(_Drawn):
    """Rows (M, B) for each step.

    Parameters
    ----------
    rows
        For each draw the rows of the table that it may contain, repeated as often as they count.
    seeds
        A seed each. A member's draws depend on its own seed, not on who else is trained.
    """

    def __init__(
        self, rows: Sequence[IntArray], seeds: Sequence[int], batch: int, device: str = "cpu"
    ) -> None:
        super().__init__(device)
        self._rows = [np.asarray(each, dtype=np.int64) for each in rows]
        self._seeds = list(seeds)
        self._batch = batch

    def _steps(self, chunk: int) -> AnyArray:
        drawn = np.empty((_CHUNK, len(self._rows), self._batch), np.int64)
        for draw, (rows, seed) in enumerate(zip(self._rows, self._seeds, strict=True)):
            generator = np.random.default_rng([seed, 0, chunk])
            drawn[:, draw] = rows[generator.integers(len(rows), size=(_CHUNK, self._batch))]
        return drawn


class Normals(_Drawn):
    """Standard normal draws for each step."""

    def __init__(self, seed: int, shape: tuple[int, ...], device: str = "cpu") -> None:
        super().__init__(device)
        self._seed = seed
        self._shape = shape

    def _steps(self, chunk: int) -> AnyArray:
        generator = np.random.default_rng([self._seed, 1, chunk])
        return generator.standard_normal((_CHUNK, *self._shape), dtype=np.float32)


def member_rows(log: Log, folds: Folds) -> list[IntArray]:
    """Return the rows that each member sees, repeated as often as it sees them."""
    return [log.rows(folds.episodes(member)) for member in range(folds.count)]


def all_rows(log: Log, folds: Folds) -> IntArray:
    """Return the rows that any member sees, once."""
    return log.rows(np.flatnonzero(folds.counts.any(axis=0)))


def shares_draws(folds: Folds) -> bool:
    """Whether every member sees the same rows, so that one draw serves all."""
    return bool((folds.counts == folds.counts[0]).all())


def value_bounds(
    log: Log, folds: Folds, horizon: float, reward_scale: float
) -> tuple[FloatArray, FloatArray]:
    """Return the smallest and largest value that each member's scaled rewards allow, (K, 1) each."""
    scaled = [log.rewards[rows] * reward_scale for rows in member_rows(log, folds)]
    low = np.array([[min(0.0, float(each.min()))] for each in scaled])
    high = np.array([[max(0.0, float(each.max()))] for each in scaled])
    return low * horizon, high * horizon


def value_limits(log: Log, folds: Folds, gamma: float, reward_scale: float) -> FloatArray:
    """Return how large |Q| can be for each member, max(1, max |r|)·Σγᵗ over its fold, (K,).

    Rewards are scaled ones; networks start with values of order one whatever the rewards are. A
    member whose rewards leave what float32 training can hold is reported here, before anything is
    trained, and its limit is 0: it counts as diverged from the start.
    """
    horizon = float(log.lengths.max()) if gamma == 1 else 1 / (1 - gamma)
    limits = np.empty(folds.count)
    failed = []
    for member, rows in enumerate(member_rows(log, folds)):
        size = np.abs(log.rewards[rows])
        worst = int(rows[size.argmax()])
        limits[member] = max(1.0, size.max() * reward_scale) * horizon
        if size.max() * reward_scale > _LARGEST:
            limits[member] = 0.0
            failed.append(f"fold {member} (row {worst}, reward {log.rewards[worst]:g})")
    if not failed:
        return limits
    text = (
        f"{len(failed)} of {folds.count} folds hold rewards too large to train on in single "
        f"precision, which ends near {_LARGEST / reward_scale:.0e} here: {', '.join(failed)}."
    )
    if 2 * len(failed) >= folds.count:
        raise FoldError(
            f"{text} Check these rows, clip the rewards (clip=0.01), or split the log into folds "
            f"(method 'room-vm') so that one row spoils one fold only."
        )
    warnings.warn(f"{text} These members are left out.", FoldWarning, stacklevel=2)
    return limits
