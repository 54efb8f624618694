"""Cloning with a linear model: what the log did, or what its best episodes did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import scipy

from tailproof.algorithms.backups import logged_actions, require_actions
from tailproof.algorithms.base import LEARNER, Capabilities, Fitted
from tailproof.algorithms.learners.ranking import Rank, imitated_episodes, require_rank, require_top
from tailproof.algorithms.linear.statistics import as_ridge
from tailproof.algorithms.regression import RegressionCloning
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.partition import Folds
from tailproof.data.stored import AnyLog
from tailproof.ensemble.aggregate import Aggregate
from tailproof.ensemble.critics import LinearCritics
from tailproof.errors import MethodError
from tailproof.features import Features, as_features, at_actions
from tailproof.parameters import Configurable


@dataclass(frozen=True, kw_only=True)
class Cloning(Configurable):
    """Imitate the log, or its best episodes: π(a|s) ∝ exp φ(s, a)ᵀθ, by maximum likelihood.

    θ minimises −Σ log π(a|s) + λ‖θ‖²/2 over the logged actions. Its "critics" are the scores φᵀθ, so
    that the greedy policy is the likeliest action. With ``top=1`` rewards do not matter, and what does
    not beat this has learned nothing from them. With less (percent cloning) the rewards choose whom
    to imitate; ranked robustly, it is hard to beat where each episode has one author and rewards
    have heavy tails.

    Parameters
    ----------
    features, ridge
        As in `FQI`.
    iterations
        At most so many steps of L-BFGS.
    top
        Share of the episodes to imitate, the best ones; 1 for all.
    rank
        By which score: ``"sum"``, ``"winsorised"``, ``"median"``, or ``"auto"`` to choose from the
        tails of the rewards (`tailproof.algorithms.learners.ranking`).
    model
        What imitates: ``"linear"``, ``"neural"`` (a network, extra 'deep'), or ``"auto"``: linear where
        actions are discrete, a network where they are continuous.
    """

    capabilities: ClassVar[Capabilities] = LEARNER

    features: Features | str | None = None
    ridge: Any = 1e-6
    iterations: int = 200
    top: float = 1.0
    rank: Rank = "auto"
    model: Literal["auto", "linear", "neural"] = "auto"

    def __post_init__(self) -> None:
        as_ridge(self.ridge)
        require_top(self.top)
        require_rank(self.rank)
        if self.model not in ("auto", "linear", "neural"):
            raise MethodError(f"model must be auto, linear or neural. Got {self.model!r} instead.")
        if self.iterations < 1:
            raise MethodError(f"iterations must be at least 1. Got {self.iterations!r} instead.")

    def for_log(self, log: AnyLog) -> Any:
        """Return the base that imitates this log's actions: this one, a regression or a network."""
        if self.model == "neural" or (self.model == "auto" and not log.is_discrete):
            return self.neural()
        if log.is_discrete:
            return self
        if self.features is not None:
            raise MethodError(
                "features= are of states and discrete actions. A linear model of continuous actions "
                "has its own; leave them out, or use model='neural'."
            )
        return RegressionCloning(ridge=self.ridge, top=self.top, rank=self.rank)

    def neural(self) -> Any:
        """Return the same imitation by a network."""
        from tailproof.deep.bases import BehaviourCloning  # networks are for those who ask

        return BehaviourCloning(top=self.top, rank=self.rank)

    def fit(
        self,
        task: Task,
        folds: Folds,
        *,
        backup: Aggregate | None = None,  # noqa: ARG002 `capabilities` keep it None
        rng: np.random.Generator,  # noqa: ARG002 nothing is drawn
    ) -> Fitted:
        """Fit the scores on each fold."""
        log: Log = task.log.load()
        features = as_features(self.features, log)
        require_actions(log, folds, features)
        parts = [folds.log(log, k) for k in range(folds.count)]
        imitated, notes = imitated_episodes(parts, top=self.top, rank=self.rank)
        found = [
            self._fit(part.take(chosen), logged_actions(part), features)
            for part, chosen in zip(parts, imitated, strict=True)
        ]
        theta = np.stack([each for each, _ in found])
        history = np.array([[steps for _, steps in found]], dtype=float)
        nobody = np.zeros(folds.count, dtype=bool)
        return Fitted(LinearCritics(features, theta, diverged=nobody), history, notes)

    def _fit(self, log: Log, actions: IntArray, features: Features) -> tuple[FloatArray, int]:
        """Fit to a log of episodes, among `actions`: the log's may be fewer, and never is one too."""
        every = np.broadcast_to(np.arange(log.n_actions), (log.n_transitions, log.n_actions))
        there = at_actions(features, log.states, every)
        taken = features(log.states, log.actions).mean(axis=0)  # (d,)
        penalty = float(as_ridge(self.ridge).penalty(np.array([log.n_transitions]))[0])
        penalty /= log.n_transitions
        weights = np.zeros((log.n_transitions, log.n_actions))

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            scores = there.values(theta[None])[0][actions]  # (A, n)
            total = scipy.special.logsumexp(scores, axis=0)
            weights[:, actions] = np.exp(scores - total).T
            gradient = there.mix(weights).mean(axis=0) - taken + penalty * theta
            value = float(total.mean() - taken @ theta + penalty * (theta @ theta) / 2)
            return value, gradient

        start = np.zeros(features.size)
        found = scipy.optimize.minimize(
            loss, start, jac=True, method="L-BFGS-B", options={"maxiter": self.iterations}
        )
        return np.asarray(found.x), int(found.nit)
