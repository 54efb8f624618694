"""Cloning with trees: what the log did, or what its best episodes did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailproof.algorithms.base import LEARNER, Capabilities, Fitted
from tailproof.algorithms.learners.behaviour import behaviour_of, fit_behaviour
from tailproof.algorithms.learners.improvement import refuse_evaluation, tasks_of
from tailproof.algorithms.learners.ranking import Rank, imitated_episodes, require_rank, require_top
from tailproof.algorithms.learners.state_critics import LogShares, fitted_scores
from tailproof.algorithms.task import Task
from tailproof.arrays import IntArray
from tailproof.data.partition import Folds
from tailproof.ensemble.aggregate import Aggregate
from tailproof.parameters import Configurable


@dataclass(frozen=True, kw_only=True)
class TreeCloning(Configurable):
    """Imitate the log, or its best episodes, by randomised trees: b̂(a|s).

    Its "critics" are log b̂(a|s): the greedy policy is the likeliest action, and the softmax of
    temperature 1 is the behaviour itself.

    Parameters
    ----------
    top, rank
        As in `Cloning`.
    exact
        As in `fit_behaviour`: nearer to what was done in each state where states repeat, and rougher.
    """

    capabilities: ClassVar[Capabilities] = LEARNER

    top: float = 1.0
    rank: Rank = "auto"
    exact: bool = False

    def __post_init__(self) -> None:
        require_top(self.top)
        require_rank(self.rank)

    def fit(
        self,
        task: Task,
        folds: Folds,
        *,
        backup: Aggregate | None = None,  # noqa: ARG002 `capabilities` keep it None
        rng: np.random.Generator,  # noqa: ARG002 trees are seeded by the task
    ) -> Fitted:
        """Fit the behaviour on each fold."""
        refuse_evaluation(task, type(self).__name__)
        own = tasks_of(task, folds)
        imitated, notes = imitated_episodes(
            [each.log for each in own], top=self.top, rank=self.rank
        )
        members = [
            self._law(each, np.sort(chosen)) for each, chosen in zip(own, imitated, strict=True)
        ]
        return fitted_scores(members, notes)

    def _law(self, task: Task, imitated: IntArray) -> LogShares:
        if self.top == 1 and not self.exact:
            return LogShares(behaviour_of(task))
        # the best episodes were selected by what was done: their propensities are not logged
        log, whole = task.log.take(imitated), self.top == 1
        return LogShares(fit_behaviour(log, seed=task.seed, exact=self.exact, propensities=whole))
