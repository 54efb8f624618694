"""LSTD: the fixed point of fitted Q-evaluation, in closed form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tailproof.algorithms.base import Capabilities, Fitted, WithoutBackup
from tailproof.algorithms.linear.ridge import regularised_statistics, require_ridge
from tailproof.algorithms.linear.statistics import Design, Statistics, solve
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.data.partition import Folds
from tailproof.ensemble.critics import LinearCritics
from tailproof.features import Features, as_features


@dataclass(frozen=True, kw_only=True)
class LSTD(WithoutBackup):
    """Least-squares temporal differences: θ = A⁻¹b, A = Σφ(φ − γφ')ᵀ + λI, b = Σφr.

    The paper's display of the estimating equation (section 4) drops γ and π; both belong there.

    Parameters
    ----------
    features, ridge
        As in `FQE`.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(("value", "pointwise"), needs="chunks")

    features: Features | str | None = None
    ridge: Any = 1e-6

    def __post_init__(self) -> None:
        require_ridge(self.ridge)

    def design(self, task: Task, folds: Folds, *, keep: bool = False) -> Design:
        """Return the task in this base's features."""
        return Design(task, as_features(self.features, task.log), folds, keep)

    def system(self, design: Design, rng: np.random.Generator) -> tuple[FloatArray, Statistics]:
        """Return A for each fold, (K, d, d), and the statistics it came from."""
        gram, stats = regularised_statistics(design, self.ridge, rng)
        return gram - design.task.gamma * stats.cross, stats

    def solved(self, design: Design, rng: np.random.Generator) -> Fitted:
        """Solve for θ on each fold."""
        matrix, stats = self.system(design, rng)
        return Fitted(
            LinearCritics(design.features, solve(matrix, stats.moment[..., None])[..., 0])
        )

    def _fit(self, task: Task, folds: Folds, rng: np.random.Generator) -> Fitted:
        return self.solved(self.design(task, folds), rng)
