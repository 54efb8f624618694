"""Fitted values and advantages by averages in trees, which cannot diverge.

With the trees fixed, Q(s, a) is the mean over trees of the mean target in the leaf of (s, a): an
average with weights that do not depend on the targets, so that every backup is a contraction and no
value leaves the range of the returns (Gordon, 1995; Ernst, Geurts and Wehenkel, 2005).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import ceil, log
from typing import Any, Self

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.critics.behaviour import fit_behaviour
from tailproof.critics.rewards import Rewards, with_rewards
from tailproof.critics.ridge import sizes_by_state
from tailproof.critics.task import Task
from tailproof.critics.trees import (
    TreeArrays,
    TreeValues,
    averages,
    grown,
    predicts,
    training_rows,
    with_action,
)
from tailproof.features import Standardise
from tailproof.log.folds import split_groups
from tailproof.robust.pooling import pooled_over_actions

_PARTS = 5  # in which sizes are predicted
_TREES = 20
_ADVANTAGE_TREES = 30
_ROUNDS = 2  # the first trees fit rewards and state changes, the second the fitted values
_LEFT = 0.02  # iterations stop when γ^count, the weight of the starting values, falls below this
_MOST = 250
_UNDISCOUNTED = 60
_SETTLED = 1e-3
_APART = 1000  # seed offset, so that errors are independent of those of the evaluator's trees

#: Maps Q(s', ·), (m, A), and the rows that these next states belong to, to v(s'), (m,).
Backup = Callable[[FloatArray, Any], FloatArray]


@dataclass(frozen=True)
class LearningTask(Task):
    """A policy-learning task, with quantities that learners share, each computed on first use."""

    # if found in more rows than the log's, whose rewards they do not use
    known_behaviour: TreeValues | None = None
    known_unlogged: BoolArray | None = None

    @classmethod
    def of(cls, task: Task) -> Self:
        """Return the task itself if it is a `LearningTask`, else a new one."""
        return task if isinstance(task, cls) else cls(**task.__getstate__())

    @cached_property
    def behaviour(self) -> TreeValues:
        """The estimated behaviour b̂(a|s)."""
        return self.known_behaviour or fit_behaviour(self.log, seed=self.seed)

    @cached_property
    def searched(self) -> dict[int, tuple[int, ...]]:
        """The columns that policy trees split, by the fewest rows of a leaf."""
        return {}

    @cached_property
    def standardise(self) -> Standardise:
        """Of the states, with outliers tamed."""
        return Standardise.fit(self.log.states, tame=True)

    @cached_property
    def tamed(self) -> FloatArray:
        """The rewards with outliers clipped, (n,); in one-step logs with pooled sizes of events.

        Where a reward is common to many rows (nothing bought), how often others come says more about
        actions than the sizes of the few largest.
        """
        rewards, begins = self.pooled
        return rewards if np.isfinite(begins) else self.rewards("tamed")

    @cached_property
    def pooled(self) -> tuple[FloatArray, float]:
        """Rewards with sizes pooled over actions, (n,), and the reward at which that begins, or ∞."""
        if not (self.log.is_bandit and self.log.is_discrete):
            return self.log.rewards, np.inf
        data = self.log
        part = np.random.default_rng([self.seed, 13]).permutation(data.n_groups) % _PARTS
        sizes = sizes_by_state(self.standardise(data.states), part[data.group_of_episode])
        return pooled_over_actions(
            data.rewards, data.actions, propensity=data.propensity, sizes=sizes
        )

    @cached_property
    def training(self) -> TrainingSet:
        """The training rows with tamed rewards."""
        return TrainingSet.of(self, self.tamed)

    @cached_property
    def scores(self) -> FloatArray:
        """The doubly robust score of every action in the rows of a one-step log, (n, A)."""
        from tailproof.learners.one_step import doubly_robust_scores

        return doubly_robust_scores(self)

    def rewards(self, given: Rewards | str | None) -> FloatArray:
        """Return the log's rewards as changed by a reward model, (n,)."""
        rewards: FloatArray = with_rewards(self, given, None).log.rewards
        return rewards


@dataclass(frozen=True, eq=False)
class TrainingSet:
    """Training rows with standardised states, and the tree models fitted to them."""

    task: LearningTask
    z: FloatArray  # (n, p)
    next_z: FloatArray  # (n, p)
    actions: IntArray  # (n,)
    rewards: FloatArray  # (n,)
    alive: BoolArray  # (n,) whether the next state has a value: not terminal, and γ > 0
    rows: IntArray  # (n,) row numbers in the log
    standardise: Standardise

    @classmethod
    def of(cls, task: LearningTask, rewards: FloatArray) -> TrainingSet:
        """Return the rows of a task's log, or of a random subset of episodes if there are many."""
        log = task.log
        rows = training_rows(log, np.arange(log.n_episodes), np.random.default_rng([task.seed, 8]))
        standardise = task.standardise
        return cls(
            task,
            standardise(log.states[rows]),
            standardise(log.next_states[rows]),
            log.actions[rows],
            rewards[rows],
            ~log.terminated[rows] & (task.gamma > 0),
            rows,
            standardise,
        )

    @property
    def inputs(self) -> AnyArray:
        """The logged states and actions as inputs of trees."""
        return with_action(self.z, self.actions, self.task.log.n_actions)

    @cached_property
    def values(self) -> TreeValues:
        """Q of the estimated behaviour."""
        following = self.task.behaviour(self.task.log.next_states[self.rows])
        return fit_values(self, lambda q, rows: np.asarray((q * following[rows]).sum(axis=1)))

    @cached_property
    def advantages(self) -> tuple[TreeArrays, FloatArray, FloatArray]:
        """Trees fitted to advantages, the means of their nodes, and the standard errors of these.

        The advantage is r + γ V(s') − V(s), with V(s) of the behaviour fitted to the other half of the
        groups. Trees then split on differences between actions, not on those between states.
        """
        log, seed = self.task.log, self.task.seed + _APART
        half = split_groups(log, np.arange(log.n_groups) % 2, np.random.default_rng([seed, 3]))
        own = half[log.episode_of_row[self.rows]]
        here, after = np.zeros(len(own)), np.zeros(len(own))
        for k in (0, 1):
            train = own != k if log.n_groups > 1 else np.ones(len(own), dtype=bool)
            trees, values = self._state_values(train)
            here[own == k] = trees.means(values, self.z[own == k])
            after[own == k] = trees.means(values, self.next_z[own == k])
        change = self.rewards + self.task.gamma * np.where(self.alive, after, 0.0) - here
        smallest = int(np.clip(len(own) // 100, 10, 100))
        trees = grown(
            self.inputs,
            change,
            trees=_ADVANTAGE_TREES,
            smallest=smallest,
            seed=seed,
            always=log.n_actions,
        )
        leaves = trees.leaves(self.inputs)
        average = averages(leaves, trees.nodes)
        means = average @ change
        count = np.maximum(np.bincount(leaves.ravel(), minlength=trees.nodes), 1)
        squares = np.maximum(average @ change**2 - means**2, 0.0)
        return trees, means, np.sqrt(squares / count)

    def first_targets(self) -> FloatArray:
        """Return standardised rewards and state changes, the targets of the first trees."""
        if self.task.gamma == 0:
            return self.rewards
        targets = np.column_stack([self.rewards, self.next_z - self.z])
        targets -= targets.mean(axis=0)
        scale = targets.std(axis=0)
        return np.asarray(targets / np.where(scale > 0, scale, 1.0))

    def _state_values(self, train: BoolArray) -> tuple[TreeArrays, FloatArray]:
        """Return trees on states, and V of the logged behaviour in their nodes."""
        rewards, alive = self.rewards[train], self.alive[train]

        def target(after: Sequence[FloatArray]) -> FloatArray:
            return np.asarray(rewards + self.task.gamma * alive * after[0])

        targets = self.first_targets()[train]
        inputs, following = self.z[train], [self.next_z[train]]
        return _fixed_point(inputs, following, targets, rewards, target, self.task)


def fit_values(training: TrainingSet, backup: Backup) -> TreeValues:
    """Return the fixed point of Q = average of r + γ backup(Q(s', ·))."""
    task, alive, n_actions = training.task, training.alive, training.task.log.n_actions
    after = training.next_z[alive]
    following = [with_action(after, action, n_actions) for action in range(n_actions)]

    def target(after: Sequence[FloatArray]) -> FloatArray:
        found = training.rewards.copy()
        if after:
            found[alive] += task.gamma * backup(np.stack(after, axis=1), alive)
        return found

    targets = training.first_targets()
    trees, values = _fixed_point(
        training.inputs, following, targets, training.rewards, target, task, actions=n_actions
    )
    return TreeValues(training.standardise, trees, values, n_actions)


def _fixed_point(
    inputs: AnyArray,
    following: Sequence[AnyArray],
    targets: FloatArray,
    rewards: FloatArray,
    target: Callable[[Sequence[FloatArray]], FloatArray],
    task: Task,
    *,
    actions: int = 0,
) -> tuple[TreeArrays, FloatArray]:
    """Return trees and node values v that solve v = average of target(v) in each leaf.

    Values start from averages of r / (1 − γ), and iterate until these have little weight. The trees
    are grown on `targets`, then once more on the fitted targets; `target` maps the values at
    `following` to Bellman targets. The last `actions` inputs are indicators of actions.
    """
    gamma = task.gamma
    smallest = int(np.clip(len(inputs) // 400, 5, 30))
    count = 1 if gamma == 0 else _UNDISCOUNTED if gamma == 1 else ceil(log(_LEFT) / log(gamma))
    for number in range(_ROUNDS if gamma > 0 else 1):
        seed = task.seed + _APART + number
        trees = grown(inputs, targets, trees=_TREES, smallest=smallest, seed=seed, always=actions)
        average = averages(trees.leaves(inputs), trees.nodes)
        after = [predicts(trees.leaves(each), trees.nodes) for each in following if len(each)]
        values: FloatArray = average @ (rewards / (1 - gamma) if gamma < 1 else rewards)
        for _ in range(min(count, _MOST)):
            targets = target([each @ values for each in after])
            previous, values = values, average @ targets
            if np.abs(values - previous).max() <= _SETTLED * np.abs(values).max():
                break
        targets = target([each @ values for each in after])
    return trees, values
