"""What a base algorithm offers to the one loop over folds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, Protocol, runtime_checkable

import numpy as np

from tailproof.algorithms.default.choice import Scored
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.data.partition import Folds
from tailproof.ensemble.aggregate import Aggregate
from tailproof.ensemble.critics import Critics

#: Where the K members are combined, each place asking more of the base than the one before.
At = Literal["value", "pointwise", "backup"]


@dataclass(frozen=True)
class Fitted:
    """K critics, how far each moved in every iteration, (iterations, K), and what a reader is told."""

    critics: Critics
    history: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Numbers:
    """K values Ĵ_k, the samples and weights whose means they are, and how these were chosen."""

    values: FloatArray  # (K,)
    samples: tuple[FloatArray, ...] = ()
    weights: tuple[FloatArray, ...] = ()
    choice: Scored | None = None


@runtime_checkable
class CriticAlgorithm(Protocol):
    """A base that fits critics: FQE, LSTD, FQI, …

    `supports` lists the places where its members can be combined.
    """

    @property
    def supports(self) -> tuple[At, ...]:
        """The places where members can be combined."""

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> Fitted:
        """Fit a critic on each fold, with `backup` inside every Bellman target if it is given."""


@runtime_checkable
class ValueAlgorithm(Protocol):
    """A base that fits numbers: MIS, DR, the bandit estimators, …"""

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""


Algorithm = CriticAlgorithm | ValueAlgorithm
