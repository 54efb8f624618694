"""Cloning with trees: what the log did, or what its best episodes did."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from tailproof.algorithms.base import LEARNER, Capabilities, Fitted
from tailproof.algorithms.learners.behaviour import behaviour_of, fit_behaviour
from tailproof.algorithms.learners.improvement import refuse_evaluation, tasks_of
from tailproof.algorithms.learners.ranking import Rank, imitated_episodes, require_rank, require_top
from tailproof.algorithms.learners.state_critics import CountedShares, LogShares, fitted_scores
from tailproof.algorithms.learners.tree_arrays import TreeValues
from tailproof.algorithms.task import Task
from tailproof.data.log import Log
from tailproof.data.partition import Folds
from tailproof.ensemble.aggregate import Aggregate
from tailproof.parameters import Configurable

_REPEATED = 0.5  # of the rows: at most so many states may be distinct for counts to say something


@dataclass(frozen=True, kw_only=True)
class TreeCloning(Configurable):
    """Imitate the log, or its best episodes, by randomised trees: b̂(a|s).

    Its "critics" are log b̂(a|s): the greedy policy is the likeliest action, and the softmax of
    temperature 1 is the behaviour itself.

    Parameters
    ----------
    top, rank
        As in `Cloning`.
    counted
        Whether the counts of this very state take part where states are few and repeat: nearer to
        what was done, and rougher where little was.
    """

    capabilities: ClassVar[Capabilities] = LEARNER

    top: float = 1.0
    rank: Rank = "auto"
    counted: bool = False

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
            behaviour_of(each)
            if self.top == 1
            else fit_behaviour(each.log.take(np.sort(chosen)), seed=each.seed)
            for each, chosen in zip(own, imitated, strict=True)
        ]
        scores = [
            self._scores(each.log.take(np.sort(chosen)), law)
            for each, chosen, law in zip(own, imitated, members, strict=True)
        ]
        return fitted_scores(scores, notes)

    def _scores(self, log: Log, law: TreeValues) -> LogShares | CountedShares:
        if not (self.counted and log.n_transitions):
            return LogShares(law)
        states, place = np.unique(log.states + 0.0, axis=0, return_inverse=True)
        if len(states) > _REPEATED * log.n_transitions:
            return LogShares(law)
        counts = np.zeros((len(states), log.n_actions))
        np.add.at(counts, (place.ravel(), log.actions), 1.0)
        return CountedShares(law, states, counts)
