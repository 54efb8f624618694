"""Learning with trees as averages: fitted values that cannot diverge, and steps that stay in reach.

With the trees fixed, Q(s, a) is the mean over trees of the mean target in the leaf of (s, a): an
average with weights that do not depend on the targets, so that every backup is a contraction and no
value leaves the range of the returns (Gordon, 1995; Ernst, Geurts and Wehenkel, 2005).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, log
from typing import Any

import numpy as np
from scipy import sparse

from tailproof.algorithms.learners.behaviour import some_rows
from tailproof.algorithms.learners.tree_arrays import TreeArrays, TreeValues, with_action
from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.partition import shuffled_groups
from tailproof.features import Standardise

_TREES = 20
_ADVANTAGE_TREES = 30
_ROUNDS = 2  # trees of reward and change of state first, then of the fitted values
_LEFT = 0.02  # of the start's weight in the result, when iterations stop
_MOST = 250
_UNDISCOUNTED = 60
_SETTLED = 1e-3

#: Values of the next states at every action, (m, A), and which rows they follow, to (m,).
Backup = Callable[[FloatArray, Any], FloatArray]


@dataclass(frozen=True, eq=False)
class Lesson:
    """The rows that teach, with standardised states."""

    gamma: float
    z: FloatArray  # (n, p)
    next_z: FloatArray  # (n, p)
    actions: IntArray  # (n,)
    rewards: FloatArray  # (n,)
    alive: IntArray  # the rows after which something follows
    rows: IntArray  # (n,) in the log
    standardise: Standardise
    n_actions: int

    @classmethod
    def of(cls, log: Log, gamma: float, rewards: FloatArray, *, seed: int) -> Lesson:
        """Return the rows of a log, or as many as are worth their time."""
        rows = some_rows(log, np.arange(log.n_episodes), np.random.default_rng([seed, 8]))
        standardise = Standardise.fit(log.states, tame=True)
        return cls(
            gamma,
            standardise(log.states[rows]),
            standardise(log.next_states[rows]),
            log.actions[rows],
            rewards[rows],
            np.flatnonzero(~log.terminated[rows]) if gamma > 0 else np.empty(0, dtype=np.intp),
            rows,
            standardise,
            log.n_actions,
        )

    @property
    def smallest(self) -> int:
        """Rows of a leaf."""
        return int(np.clip(len(self.rewards) // 400, 5, 30))

    def first_targets(self) -> FloatArray:
        """Return standardised rewards and changes of state: what the first trees are grown on."""
        if self.gamma == 0:
            return self.rewards
        targets = np.column_stack([self.rewards, self.next_z - self.z])
        targets -= targets.mean(axis=0)
        scale = targets.std(axis=0)
        return np.asarray(targets / np.where(scale > 0, scale, 1.0))

    def taken(self) -> AnyArray:
        """Return the logged states and actions as inputs of trees."""
        return with_action(self.z, self.actions, self.n_actions)


def grown(
    inputs: AnyArray, targets: FloatArray, *, trees: int, smallest: int, seed: int
) -> TreeArrays:
    """Return randomised trees grown on some targets."""
    from sklearn.ensemble import ExtraTreesRegressor

    if inputs.shape[1] == 0:
        inputs = np.zeros((len(inputs), 1), dtype=np.float32)
    forest = ExtraTreesRegressor(
        trees, min_samples_leaf=smallest, max_features=1.0, random_state=seed, n_jobs=1
    ).fit(inputs.astype(np.float32), targets)
    return TreeArrays.of(forest)


def averages(leaves: IntArray, nodes: int) -> Any:
    """Return the matrix that averages rows within each leaf, (nodes, n)."""
    count = np.bincount(leaves.ravel(), minlength=nodes)
    rows = np.repeat(np.arange(len(leaves)), leaves.shape[1])
    flat = leaves.ravel()
    return sparse.csr_matrix((1.0 / count[flat], (flat, rows)), shape=(nodes, len(leaves)))


def predicts(leaves: IntArray, nodes: int) -> Any:
    """Return the matrix from leaf values to means over trees, (n, nodes)."""
    rows = np.repeat(np.arange(len(leaves)), leaves.shape[1])
    weights = np.full(leaves.size, 1.0 / leaves.shape[1])
    return sparse.csr_matrix((weights, (rows, leaves.ravel())), shape=(len(leaves), nodes))


def fit_values(lesson: Lesson, backup: Backup, *, seed: int) -> TreeValues:
    """Return the fixed point of Q = average of r + γ backup(Q(s', ·)).

    Parameters
    ----------
    backup
        From Q at every action of next states to their value: an expectation under the behaviour, or a
        maximum over what it supports.
    """
    inputs, gamma, n_actions = lesson.taken(), lesson.gamma, lesson.n_actions
    targets = lesson.first_targets()
    following = [
        with_action(lesson.next_z[lesson.alive], action, n_actions) for action in range(n_actions)
    ]
    for number in range(_ROUNDS if gamma > 0 else 1):
        trees = grown(inputs, targets, trees=_TREES, smallest=lesson.smallest, seed=seed + number)
        average = averages(trees.leaves(inputs), trees.nodes)
        after = [predicts(trees.leaves(each), trees.nodes) for each in following if len(each)]

        def target(values: FloatArray, after: list[Any] = after) -> FloatArray:
            found = lesson.rewards.copy()
            if after:
                q = np.stack([each @ values for each in after], axis=1)
                found[lesson.alive] += gamma * backup(q, lesson.alive)
            return found

        values = iterated(average, target, lesson.rewards, gamma)
        targets = target(values)
    return TreeValues(lesson.standardise, trees, values, n_actions)


def iterated(
    average: Any, target: Callable[[FloatArray], FloatArray], rewards: FloatArray, gamma: float
) -> FloatArray:
    """Iterate the averages of targets from those of r / (1 − γ), until little of these is left."""
    values: FloatArray = average @ (rewards / (1 - gamma) if gamma < 1 else rewards)
    count = 1 if gamma == 0 else _UNDISCOUNTED if gamma == 1 else ceil(log(_LEFT) / log(gamma))
    for _ in range(min(count, _MOST)):
        previous, values = values, average @ target(values)
        if np.abs(values - previous).max() <= _SETTLED * np.abs(values).max():
            break
    return values


def fit_advantages(log: Log, lesson: Lesson, *, pessimism: float, seed: int) -> TreeValues:
    """Return what actions change: r + γ V(s') − V(s) in the leaves of (s, a).

    V is that of the behaviour, from states alone and from the other half of the groups. Splits are
    spent on what actions change, not on what states are worth.

    Parameters
    ----------
    pessimism
        Standard errors to subtract from the mean of each leaf.
    """
    order = shuffled_groups(log, np.random.default_rng([seed, 3]))
    half = np.empty(log.n_groups, dtype=np.intp)
    half[order] = np.arange(log.n_groups) % 2
    own = half[log.group_of_episode[log.episode_of_row[lesson.rows]]]
    here, after = np.zeros(len(own)), np.zeros(len(own))
    for k in (0, 1):
        taught = own != k if log.n_groups > 1 else np.ones(len(own), dtype=bool)
        trees, values = _state_values(lesson, taught, seed=seed)
        asked = own == k
        here[asked] = values[trees.leaves(lesson.z[asked])].mean(axis=1)
        after[asked] = values[trees.leaves(lesson.next_z[asked])].mean(axis=1)
    alive = np.zeros(len(own), dtype=bool)
    alive[lesson.alive] = True
    change = lesson.rewards + lesson.gamma * np.where(alive, after, 0.0) - here
    smallest = int(np.clip(len(own) // 100, 10, 100))
    inputs = lesson.taken()
    trees = grown(inputs, change, trees=_ADVANTAGE_TREES, smallest=smallest, seed=seed)
    leaves = trees.leaves(inputs)
    average = averages(leaves, trees.nodes)
    means = average @ change
    if pessimism > 0:
        count = np.maximum(np.bincount(leaves.ravel(), minlength=trees.nodes), 1)
        squares = np.maximum(average @ change**2 - means**2, 0.0)
        means = means - pessimism * np.sqrt(squares / count)
    return TreeValues(lesson.standardise, trees, means, lesson.n_actions)


def _state_values(lesson: Lesson, taught: BoolArray, *, seed: int) -> tuple[TreeArrays, FloatArray]:
    """Return trees of states and V of what was done in their leaves."""
    gamma, z = lesson.gamma, lesson.z[taught]
    rewards, targets = lesson.rewards[taught], lesson.first_targets()[taught]
    alive = np.isin(np.flatnonzero(taught), lesson.alive)
    smallest = int(np.clip(len(z) // 400, 5, 30))
    for number in range(_ROUNDS if gamma > 0 else 1):
        trees = grown(z, targets, trees=_TREES, smallest=smallest, seed=seed + number)
        average = averages(trees.leaves(z), trees.nodes)
        after = predicts(trees.leaves(lesson.next_z[taught]), trees.nodes)

        def target(values: FloatArray, after: Any = after) -> FloatArray:
            return np.asarray(rewards + gamma * alive * (after @ values))

        values = iterated(average, target, rewards, gamma)
        targets = target(values)
    return trees, values
