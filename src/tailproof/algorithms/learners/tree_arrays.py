"""Trees as arrays: evaluated without the library that grew them, and saved without pickle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.partition import shuffled_groups
from tailproof.features import Standardise

_FEW = 1 << 16  # rows evaluated at a time
_MOST = 20_000  # training rows of a forest: more rows make it slower, not much better


@dataclass(frozen=True, eq=False)
class TreeArrays:
    """T binary trees, their N nodes numbered one tree after the other."""

    roots: IntArray  # (T,) the first node of each tree
    column: IntArray  # (N,) the input that each node compares; −1 for a leaf
    threshold: FloatArray  # (N,) the threshold of the comparison
    left: IntArray  # (N,) next node for inputs up to the threshold
    right: IntArray  # (N,) next node for the others

    @classmethod
    def of(cls, trees: Any) -> TreeArrays:
        """Return the arrays of a fitted scikit-learn forest, or of one tree."""
        inside = [each.tree_ for each in getattr(trees, "estimators_", [trees])]
        roots = np.cumsum([0, *(each.node_count for each in inside[:-1])])
        leaf = np.concatenate([each.children_left for each in inside]) < 0
        column = np.concatenate([each.feature for each in inside])
        return cls(
            roots,
            np.where(leaf, -1, column).astype(np.int32),
            np.where(leaf, 0.0, np.concatenate([each.threshold for each in inside])),
            *(
                np.concatenate(
                    [getattr(each, side) + root for each, root in zip(inside, roots, strict=True)]
                ).astype(np.int32)
                for side in ("children_left", "children_right")
            ),
        )

    @property
    def nodes(self) -> int:
        """Number of nodes, N."""
        return len(self.column)

    def leaves(self, inputs: AnyArray) -> IntArray:
        """Return the leaf of each row in each tree, (n, T)."""
        found = np.empty((len(inputs), len(self.roots)), dtype=np.intp)
        for first in range(0, len(inputs), _FEW):
            rows = slice(first, first + _FEW)
            found[rows] = self._leaves(np.asarray(inputs[rows], dtype=np.float32))
        return found

    def _leaves(self, inputs: AnyArray) -> IntArray:
        n, count = len(inputs), len(self.roots)
        node = np.tile(self.roots, n).astype(np.intp)
        row = np.repeat(np.arange(n), count)
        walking = np.flatnonzero(self.column[node] >= 0)
        while len(walking):
            here = node[walking]
            low = inputs[row[walking], self.column[here]] <= self.threshold[here]
            node[walking] = np.where(low, self.left[here], self.right[here])
            walking = walking[self.column[node[walking]] >= 0]
        return node.reshape(n, count)

    def means(self, values: FloatArray, inputs: AnyArray) -> FloatArray:
        """Return the mean over trees of the values of each row's leaves, (n,) or (n, A)."""
        return np.asarray(values[self.leaves(inputs)].mean(axis=1))


@dataclass(frozen=True, eq=False)
class TreeValues:
    """Values in the leaves of trees: A functions of the state, or one of state and action."""

    standardise: Standardise  # of the states, so that their units do not matter
    trees: TreeArrays  # on standardised states, and the one-hot action if there is one function
    values: FloatArray  # of each node: (N, A) for functions of the state, (N,) for one of both
    n_actions: int

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the mean over trees at every action, (n, A)."""
        z = self.standardise(np.asarray(states, dtype=float))
        if self.values.ndim == 2:
            return self.trees.means(self.values, z)
        inputs = (with_action(z, action, self.n_actions) for action in range(self.n_actions))
        return np.stack([self.trees.means(self.values, each) for each in inputs], axis=1)


def with_action(z: FloatArray, actions: Any, n_actions: int) -> AnyArray:
    """Return standardised states followed by one-hot actions, (n, p + A)."""
    one_hot = np.zeros((len(z), n_actions), dtype=np.float32)
    one_hot[np.arange(len(z)), actions] = 1.0
    return np.column_stack([z.astype(np.float32), one_hot])


def grown(
    inputs: AnyArray, targets: FloatArray, *, trees: int, smallest: int, seed: int
) -> TreeArrays:
    """Return extremely randomised trees of some targets, with leaves of at least `smallest` rows."""
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


def teaching_rows(log: Log, episodes: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the rows of these episodes, or of a random subset with about 20,000 rows."""
    rows: IntArray = log.rows(episodes)
    if len(rows) <= _MOST:
        return rows
    shuffled = rng.permutation(episodes)
    enough = int(np.searchsorted(np.cumsum(log.lengths[shuffled]), _MOST)) + 1
    return np.asarray(log.rows(np.sort(shuffled[:enough])))


def halves(log: Log, rng: np.random.Generator) -> IntArray:
    """Split whole groups of episodes into two random halves; return that of each episode, (E,)."""
    half = np.empty(log.n_groups, dtype=np.intp)
    half[shuffled_groups(log, rng)] = np.arange(log.n_groups) % 2
    return half[log.group_of_episode]
