"""The interface between base algorithms and the loop over folds."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, runtime_checkable

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.critics.ensembles import Critics
from tailproof.critics.task import Task
from tailproof.errors import MethodError
from tailproof.log.folds import Folds
from tailproof.parameters import Configurable
from tailproof.robust.aggregates import Aggregate

#: Where the K members are combined, in the order of what this requires of the base.
At = Literal["value", "pointwise", "backup"]
PLACES: tuple[At, ...] = ("value", "pointwise", "backup")


#: What a base needs of a log: some rows at a time, or all at once, so that large logs are sampled.
Needs = Literal["chunks", "memory"]


@dataclass(frozen=True)
class Capabilities:
    """The abilities and requirements of a base algorithm."""

    at: tuple[At, ...] = ("value",)  # where its members can be combined
    needs: Needs = "memory"
    evaluates: bool = True  # whether it evaluates a given policy; otherwise it learns one
    learns: bool = False  # whether a policy can be taken from it
    bootstraps: bool = True  # whether it needs the values of next states, not returns alone
    adds_columns: bool = False  # whether its critics see the step and the past where these matter


#: Capabilities of a base that learns a policy and whose members share no Bellman backup.
LEARNER = Capabilities(at=("value", "pointwise"), evaluates=False, learns=True)


@dataclass(frozen=True)
class Fitted:
    """K critics, the change of each in every iteration, (iterations, K), and notes for the report."""

    critics: Critics
    history: FloatArray = field(default_factory=lambda: np.empty((0, 0)))
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class Numbers:
    """K values Ĵ_k, and the samples and weights that they average."""

    values: FloatArray  # (K,)
    samples: tuple[FloatArray, ...] = ()
    weights: tuple[FloatArray, ...] = ()


@runtime_checkable
class CriticAlgorithm(Protocol):
    """A base that fits critics: FQE, LSTD, FQI, …"""

    @property
    def capabilities(self) -> Capabilities:
        """The abilities and requirements of the base."""

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> Fitted:
        """Fit one critic on each fold; `backup`, if given, aggregates them in every Bellman target."""


@runtime_checkable
class ValueAlgorithm(Protocol):
    """A base that estimates one value per fold: MIS, DR, the bandit estimators, …"""

    @property
    def capabilities(self) -> Capabilities:
        """The abilities and requirements of the base."""

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""


@runtime_checkable
class ExtractingAlgorithm(Protocol):
    """A base that trains its policy itself, where max_a Q(s, a) cannot be computed."""

    def extract(
        self, task: Task, fitted: Fitted, *, aggregate: Aggregate, rng: np.random.Generator
    ) -> Any:
        """Return an object with `policy` and `training`, from critics that are fitted already."""


Algorithm = CriticAlgorithm | ValueAlgorithm


class WithoutBackup(Configurable):
    """A base that fits each member by itself, without a shared Bellman target."""

    def fit(
        self,
        task: Task,
        folds: Folds,
        *,
        backup: Aggregate | None = None,  # noqa: ARG002 `capabilities` keep it None
        rng: np.random.Generator,
    ) -> Fitted:
        """Fit a critic on each fold."""
        return self._fit(task, folds, rng)

    def _fit(self, task: Task, folds: Folds, rng: np.random.Generator) -> Fitted:
        raise NotImplementedError


def require_evaluating_critic(critic: object) -> None:
    """Raise unless `critic` is a base that fits critics of a given policy."""
    if not isinstance(critic, CriticAlgorithm) or not critic.capabilities.evaluates:
        raise MethodError(
            f"critic must be a base that fits critics of a given policy, such as LSTD() or FQE(). "
            f"Got {critic!r} instead."
        )
