"""Fitted Q: FQE and FQI, which differ only in the value v(s') of the next state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from tailproof.algorithms.backups import (
    ExpectedBackup,
    GreedyBackup,
    iterate,
    logged_actions,
    require_actions,
)
from tailproof.algorithms.base import PLACES, Capabilities, Fitted, Needs
from tailproof.algorithms.linear.ridge import regularised_statistics, require_ridge
from tailproof.algorithms.linear.statistics import Design, Statistics, solve
from tailproof.algorithms.regressors import fit_regressors
from tailproof.algorithms.rewards import as_rewards, with_rewards
from tailproof.algorithms.task import Task
from tailproof.arrays import BoolArray, FloatArray
from tailproof.data.partition import Folds
from tailproof.ensemble.aggregate import Aggregate
from tailproof.ensemble.critics import LinearCritics
from tailproof.errors import MethodError
from tailproof.features import Features, as_features
from tailproof.parameters import Configurable

Start = Literal["reward", "zero"]
_SHOWING = 10  # number of updates needed to detect divergence from their growth


@dataclass(frozen=True, kw_only=True)
class FittedQ(Configurable):
    """The settings that FQE and FQI share.

    Each iteration regresses the Bellman target on φ(s, a), with a ridge λ:
    θ ← (Σφφᵀ + λI)⁻¹ Σφ (r + γ v(s')), where v(s') is E_π Q(s', ·) in FQE and max_a Q(s', a) in FQI.

    Parameters
    ----------
    features
        φ(s, a); by default bias, main effects and pairwise products of the state, one block for each
        discrete action.
    ridge
        Penalty per observation; `Absolute(λ)` for one that ignores the number of rows; ``"cv"`` to
        choose it by cross-validation over episodes.
    iterations
        Number of Bellman updates.
    start
        ``"reward"`` starts from the ridge fit of r / (1 − γ) (of r when γ = 1), as the paper's code
        does; ``"zero"`` starts from Q = 0.
    model
        A scikit-learn regressor to use in place of ridge regression; `features` and `ridge` are
        then ignored; its inputs are the state and the (one-hot) action.
    aggregate_first
        At `backup`, whether the members are aggregated at every action before the policy (or the
        maximum) is applied, or after.
    """

    features: Features | str | None = None
    ridge: Any = 1e-6
    iterations: int = 100
    start: Start = "reward"
    model: Any = None
    aggregate_first: bool = False

    def __post_init__(self) -> None:
        if self.iterations < 1:
            raise MethodError(f"iterations must be at least 1. Got {self.iterations!r} instead.")
        if self.start not in ("reward", "zero"):
            raise MethodError(f"start must be 'reward' or 'zero'. Got {self.start!r} instead.")
        require_ridge(self.ridge)
        if self.model is not None and not hasattr(self.model, "fit"):
            raise MethodError(
                f"model must be a scikit-learn regressor with fit and predict. "
                f"Got {type(self.model).__name__} instead."
            )

    @property
    def capabilities(self) -> Capabilities:
        """Combines members at every place; a regressor needs all rows in memory."""
        return Capabilities(PLACES, needs="chunks" if self.model is None else "memory")

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> Fitted:
        """Fit a critic on each fold, with `backup` inside every Bellman target if it is given."""
        if self.model is not None:
            return fit_regressors(
                self.model,
                task,
                folds,
                iterations=self.iterations,
                from_reward=self.start == "reward",
                backup=backup,
                aggregate_first=self.aggregate_first,
                rng=rng,
            )
        design = Design(task, as_features(self.features, task.log), folds, backup is not None)
        matrix, stats = regularised_statistics(design, self.ridge, rng)
        if backup is not None:
            return self._passes(design, matrix, stats, ExpectedBackup(backup, self.aggregate_first))
        theta, history = _iterate_statistics(stats, matrix, task.gamma, self)
        diverged = _diverged(theta, history)
        if self.iterations < _SHOWING:  # too few updates to detect divergence from their growth
            diverged = diverged | _expands(stats, matrix, task.gamma)
        return Fitted(LinearCritics(design.features, theta, diverged), history)

    def _passes(
        self, design: Design, matrix: FloatArray, stats: Statistics, backup: Any, **loss: Any
    ) -> Fitted:
        """Iterate with one pass over the data per iteration."""
        theta, history = iterate(
            design,
            _first(stats, matrix, design.task.gamma, self.start),
            matrix=matrix,
            moment=stats.moment,
            iterations=self.iterations,
            backup=backup,
            **loss,
        )
        critics = LinearCritics(design.features, theta, _diverged(theta, history))
        return Fitted(critics, history)


@dataclass(frozen=True, kw_only=True)
class FQE(FittedQ):
    """Fitted Q-evaluation: v(s') = Σ_a π(a|s') Q(s', a).

    With one fold, or members that are combined only after fitting, the iterations need only Σφφᵀ, Σφφ'ᵀ
    and Σφr: one pass over the data. At `backup` (ROAM-FQE, algorithm 4) every iteration is a pass over
    the data, because the aggregate is taken at every next state; the algorithm box aggregates
    E_π Q_k(s', ·), and ``aggregate_first=True`` gives the order of the text, E_π of the aggregate.
    """


@dataclass(frozen=True, kw_only=True)
class FQI(FittedQ):
    """Fitted Q-iteration: v(s') = max_a Q(s', a).

    At `backup` (ROOM-FQI, algorithm 5) the box takes the maximum of the aggregate;
    ``aggregate_first=False`` gives the order of the text, the aggregate of the maxima. The maximum is
    taken over the logged actions only: there is no data on the others.

    Parameters
    ----------
    reward
        Rewards to learn from instead of the logged ones: ``"huber"`` or `HuberRewards(threshold)`, a
        robust regression of them; ``"zero"``, ``"one"`` or `ConstantRewards(value)`, constants without
        information; or a callable of a log and features.
    huber
        Fit every Bellman target with Huber's loss instead of squares, with this threshold in robust
        standard deviations of the residuals (1.345 is usual).
    """

    ridge: Any = 2.5e-3
    aggregate_first: bool = True
    reward: Any = None
    huber: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        as_rewards(self.reward)
        if self.huber is not None and not 0 < self.huber < np.inf:
            raise MethodError(f"huber must be above 0 and finite. Got {self.huber!r} instead.")
        if self.huber is not None and self.model is not None:
            raise MethodError(
                f"huber changes the loss of the ridge regression, which model= replaces. Got "
                f"huber={self.huber!r} with {type(self.model).__name__}; use a model that is robust "
                f"by itself, such as HuberRegressor()."
            )

    @property
    def capabilities(self) -> Capabilities:
        """Replaced rewards, Huber's loss and regressors need all rows in memory."""
        linear = self.model is None and self.reward is None and self.huber is None
        needs: Needs = "chunks" if linear else "memory"
        return Capabilities(PLACES, needs=needs, evaluates=False, learns=True)

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> Fitted:
        """Fit a critic on each fold, with `backup` inside every Bellman target if it is given."""
        task = with_rewards(task, self.reward, self.features)
        if self.model is not None:
            return super().fit(task, folds, backup=backup, rng=rng)
        features = as_features(self.features, task.log)
        require_actions(task.log, folds, features)
        design = Design(task, features, folds, keep=True)
        matrix, stats = regularised_statistics(design, self.ridge, rng)
        greedy = GreedyBackup(logged_actions(task.log), backup, self.aggregate_first)
        return self._passes(design, matrix, stats, greedy, huber=self.huber)


def _first(stats: Statistics, matrix: FloatArray, gamma: float, start: Start) -> FloatArray:
    if start == "zero":
        return np.zeros_like(stats.moment)
    fit = solve(matrix, stats.moment[..., None])[..., 0]
    return fit / (1 - gamma) if gamma < 1 else fit


def _iterate_statistics(
    stats: Statistics, matrix: FloatArray, gamma: float, settings: FittedQ
) -> tuple[FloatArray, FloatArray]:
    """Iterate θ ← c + Pθ with c = (Σφφᵀ+λI)⁻¹Σφr and P = γ(Σφφᵀ+λI)⁻¹Σφφ'ᵀ: no data needed."""
    right = np.concatenate([gamma * stats.cross, stats.moment[..., None]], axis=2)
    both = solve(matrix, right)
    update, constant = both[..., :-1], both[..., -1:]
    theta = _first(stats, matrix, gamma, settings.start)[..., None]  # (K, d, 1)
    history = np.empty((settings.iterations, len(theta)))
    for moved in history:
        previous, theta = theta, constant + update @ theta
        np.abs(theta - previous).max(axis=(1, 2), out=moved)
    return theta[..., 0], history


def _diverged(theta: FloatArray, history: FloatArray) -> BoolArray:
    """Return which members' updates grew instead of shrinking, (K,)."""
    bad = ~np.isfinite(theta).all(axis=1)
    if len(history) > 1:
        size = np.abs(theta).max(axis=1)
        grew = history[-1] > 2 * history[: max(len(history) // 2, 1)].max(axis=0)
        if len(history) < _SHOWING:  # a few updates may grow by accident, but not all of them
            grew &= (np.diff(history, axis=0) > 0).all(axis=0)
        bad |= grew & (history[-1] > 1e-6 * size)
    return np.asarray(bad)


def _expands(stats: Statistics, matrix: FloatArray, gamma: float) -> BoolArray:
    """Return for which members θ ← (Σφφᵀ + λI)⁻¹ Σφ (r + γφ'ᵀθ) has no limit, (K,).

    It has one if the spectral radius of γ (Σφφᵀ + λI)⁻¹ Σφφ'ᵀ is below 1.
    """
    step = solve(matrix, gamma * stats.cross)
    radius = [
        np.abs(np.linalg.eigvals(each)).max() if np.isfinite(each).all() else np.inf
        for each in step
    ]
    return np.asarray(radius) > 1 + 1e-9
