"""Policies from one-step logs: trees and linear models fitted to doubly robust scores."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tailproof.arrays import BoolArray, FloatArray
from tailproof.critics.base import Fitted
from tailproof.critics.ridge import gcv_ridge
from tailproof.critics.task import Task
from tailproof.critics.tree_values import LearningTask
from tailproof.critics.trees import (
    LinearScores,
    averages,
    grown,
    training_rows,
    with_action,
)
from tailproof.errors import MethodError
from tailproof.features import Basis, PerAction
from tailproof.learners.exact_tree import columns_to_search, state_tree
from tailproof.learners.improvement import ScoreLearner
from tailproof.log.folds import Folds
from tailproof.log.log import Log
from tailproof.parameters import COUNT, OneOf, Within
from tailproof.profile.profile import LogProfile

_PARTS = 3
_TREES = 20
_RAREST = 0.02  # smaller propensities are raised to this, to limit the weights


@dataclass(frozen=True, kw_only=True)
class ScoredPolicy(ScoreLearner):
    """Base of the learners from doubly robust scores.

    Γ(s, a) = q̂(s, a) + 1{aᵢ = a} (r − q̂(s, a)) / μ(a|s), with q̂ from trees fitted without the
    row, and the propensity μ as logged or estimated. The mean of Γ(s, π(s)) estimates π's value.
    """

    def _fit(self, task: Task, folds: Folds, rng: np.random.Generator) -> Fitted:
        if not task.log.is_bandit:
            raise MethodError(
                f"{type(self).__name__} learns from one-step episodes. Got episodes of up to "
                f"{int(task.log.lengths.max())} steps; use method='one-step'."
            )
        return super()._fit(task, folds, rng)


@dataclass(frozen=True, kw_only=True)
class PolicyTree(ScoredPolicy):
    """A decision tree on the state; each leaf takes the action with the highest sum of scores.

    Up to depth 2 the search is exhaustive: no other tree on the same thresholds has a higher sum
    (`tailproof.learners.exact_tree`).

    Parameters
    ----------
    depth
        Maximum depth; trees of depth 1 or 2 are easy to read.
    smallest_leaf
        Fewest rows of a leaf; by default 5 % of the rows, and at least 10.
    leaf_cost
        What a further leaf must bring at least, in units of the value.
    """

    constraints: ClassVar = {
        "depth": OneOf(1, 2, 3),
        "smallest_leaf": COUNT,
        "leaf_cost": Within("[0, inf]"),
    }

    depth: int = 2
    smallest_leaf: int | None = None
    leaf_cost: float = 0.0

    def _member(self, task: LearningTask) -> Any:
        scores, states = task.scores, task.log.states
        # the mean over actions does not affect the choice between them
        scores = scores - scores.mean(axis=1, keepdims=True)
        smallest = self.smallest_leaf or max(10, len(states) // 20)
        if smallest not in task.searched:  # trees of other depths search the same columns
            task.searched[smallest] = columns_to_search(states, scores, smallest)
        return state_tree(
            states,
            scores,
            depth=self.depth,
            smallest=smallest,
            cost=self.leaf_cost,
            columns=task.searched[smallest],
        )


@dataclass(frozen=True, kw_only=True)
class PolicyScores(ScoredPolicy):
    """A ridge regression of each action's score on the standardised state.

    The ridge is chosen by generalised cross-validation: if states have no effect, the policy is close
    to the best constant action.
    """

    def _member(self, task: LearningTask) -> Any:
        scores = task.scores
        log: Log = task.log
        products = len(log.state_names) ** 2 * 20 <= log.n_transitions
        basis = Basis.fit(log.states, products=products)
        psi = basis(log.states)
        varies = psi.std(axis=0) > 1e-12
        theta = np.zeros((log.n_actions, psi.shape[1]))
        constant = basis.constant()
        for action in range(log.n_actions):
            coefficients, intercept = gcv_ridge(psi[:, varies], scores[:, action])
            theta[action, varies] = coefficients
            theta[action] += intercept * constant
        features = PerAction(basis, len(log.state_names), log.n_actions)
        return LinearScores(features, theta.ravel())


def doubly_robust_scores(task: LearningTask) -> FloatArray:
    """Return Γ(s, a) of a one-step log, (n, A): the worst reward where a was never logged."""
    log: Log = task.log
    rewards = task.tamed
    q = _outcomes(task, rewards)
    propensity = log.propensity
    taken = np.arange(log.n_transitions), log.actions
    if propensity is None:
        propensity = task.behaviour(log.states)[taken]
    weight = 1 / np.maximum(propensity, _RAREST)
    q[taken] += weight * (rewards - q[taken])
    return np.where(never_logged(task), float(rewards.min()), q)


def never_logged(task: LearningTask) -> BoolArray:
    """Return which actions were never logged in states like that of each row, (n, A)."""
    known = task.known_unlogged
    return LogProfile(task.log).unlogged if known is None else known


def _outcomes(task: LearningTask, rewards: FloatArray) -> FloatArray:
    """Return q̂(s, a) at every action, from trees fitted without the row's group, (n, A)."""
    log, seed = task.log, task.seed
    z = task.standardise(log.states)
    part = np.random.default_rng([seed, 11]).permutation(log.n_groups)[log.group_of_episode]
    part %= min(_PARTS, log.n_groups)
    inputs = with_action(z, log.actions, log.n_actions)
    smallest = int(np.clip(log.n_transitions // 100, 10, 100))
    found = np.empty((log.n_transitions, log.n_actions))
    for k in range(int(part.max()) + 1):
        asked = np.flatnonzero(part == k)
        taught = np.flatnonzero(part != k) if part.any() else asked
        # more rows than these make trees slower, not better; the means of their leaves use all
        some = training_rows(log, taught, np.random.default_rng([seed, 12]))
        least = max(10, smallest * len(some) // len(taught))
        trees = grown(
            inputs[some],
            rewards[some],
            trees=_TREES,
            smallest=least,
            seed=seed + k,
            always=log.n_actions,
        )
        values = averages(trees.leaves(inputs[taught]), trees.nodes) @ rewards[taught]
        for action in range(log.n_actions):
            rows = with_action(z[asked], action, log.n_actions)
            found[asked, action] = values[trees.leaves(rows)].mean(axis=1)
    return found
