"""Trees as arrays, evaluated without the library that grew them, and critics made of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from scipy import sparse

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.critics.ensembles import ListedCritics
from tailproof.errors import MethodError
from tailproof.features import Standardise, at_every_action
from tailproof.files import NOT_SAVED
from tailproof.log.horizon import leading_columns
from tailproof.log.log import Log
from tailproof.parallel import on_threads
from tailproof.rules import RULES

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
    # as scikit-learn grew them, and the inputs that these compare, if not all
    native: tuple[Any, ...] = field(default=(), repr=False, metadata=NOT_SAVED)
    native_inputs: IntArray | None = field(default=None, repr=False, metadata=NOT_SAVED)

    @classmethod
    def of(cls, trees: Sequence[Any], inputs: IntArray | None = None) -> TreeArrays:
        """Return the arrays of fitted scikit-learn trees, grown on some of the inputs or on all."""
        inside = [each.tree_ for each in trees]
        roots = np.cumsum([0, *(each.node_count for each in inside[:-1])])
        leaf = np.concatenate([each.children_left for each in inside]) < 0
        column = np.concatenate([each.feature for each in inside])
        left, right = (
            np.concatenate(
                [getattr(each, side) + root for each, root in zip(inside, roots, strict=True)]
            ).astype(np.int32)
            for side in ("children_left", "children_right")
        )
        threshold = np.concatenate([each.threshold for each in inside])
        column = np.where(leaf, 0, column)
        column = np.where(leaf, -1, column if inputs is None else inputs[column]).astype(np.int32)
        threshold = np.where(leaf, 0.0, threshold)
        return cls(roots, column, threshold, left, right, tuple(inside), inputs)

    def __getstate__(self) -> dict[str, Any]:
        # pickles of trees do not outlive a version of scikit-learn
        return {**vars(self), "native": (), "native_inputs": None}

    @property
    def nodes(self) -> int:
        """Number of nodes, N."""
        return len(self.column)

    def leaves(self, inputs: AnyArray, *, precision: type = np.float32) -> IntArray:
        """Return the leaf of each row in each tree, (n, T); scikit-learn's inputs are float32."""
        found = np.empty((len(inputs), len(self.roots)), dtype=np.intp)
        for first in range(0, len(inputs), _FEW):
            rows = slice(first, first + _FEW)
            found[rows] = self._leaves(np.asarray(inputs[rows], dtype=precision))
        return found

    def _leaves(self, inputs: AnyArray) -> IntArray:
        n, count = len(inputs), len(self.roots)
        if self.native and inputs.dtype == np.float32:
            if self.native_inputs is not None:
                inputs = np.ascontiguousarray(inputs[:, self.native_inputs])
            found = on_threads(lambda tree: tree.apply(inputs), self.native)
            return np.stack(found, axis=1) + self.roots
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


@dataclass(frozen=True, eq=False)
class StateTree:
    """One tree on the states themselves, in their own units: a rule that can be read."""

    tree: TreeArrays
    values: FloatArray  # (N, A) of each node

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores of the leaf at every action, (n, A)."""
        leaf = self.tree.leaves(np.asarray(states, dtype=float), precision=np.float64)
        return np.asarray(self.values[leaf[:, 0]])


#: A node of a small tree: the scores of a leaf, (A,), or a column, a threshold and two nodes.
Nested = FloatArray | tuple[int, float, "Nested", "Nested"]


def nested_tree(root: Nested, n_actions: int) -> StateTree:
    """Return the tree of nested nodes."""
    rows: list[tuple[Any, ...]] = []

    def add(node: Nested) -> int:
        place = len(rows)
        rows.append((-1, 0.0, -1, -1, node))
        if isinstance(node, tuple):
            column, threshold, left, right = node
            rows[place] = (column, threshold, add(left), add(right), np.zeros(n_actions))
        return place

    roots = np.array([add(root)])
    column, threshold, left, right, values = (np.array(each) for each in zip(*rows, strict=True))
    at, low, high = (each.astype(np.int32) for each in (column, left, right))
    return StateTree(TreeArrays(roots, at, threshold, low, high), values)


def with_action(z: FloatArray, actions: IntArray | int, n_actions: int) -> AnyArray:
    """Return standardised states followed by one-hot actions, (n, p + A)."""
    one_hot = np.zeros((len(z), n_actions), dtype=np.float32)
    one_hot[np.arange(len(z)), actions] = 1.0
    return np.column_stack([z.astype(np.float32), one_hot])


def grown(
    inputs: AnyArray,
    targets: AnyArray,
    *,
    trees: int,
    smallest: int,
    seed: int,
    classify: bool = False,
    always: int = 0,
) -> TreeArrays:
    """Return extremely randomised trees of some targets, with leaves of at least `smallest` rows.

    Of more than `RULES.tree_columns` inputs, those are used that matter most to a few first trees, and
    the last `always` ones, such as indicators of actions.

    They are those of scikit-learn's ``ExtraTreesRegressor`` (or ``ExtraTreesClassifier``) with
    ``max_features=1.0`` and this seed, grown without the copies and checks of a forest object.
    """
    from sklearn import config_context
    from sklearn.tree import ExtraTreeClassifier, ExtraTreeRegressor

    if inputs.shape[1] == 0:
        inputs = np.zeros((len(inputs), 1), dtype=np.float32)
    kind = ExtraTreeClassifier if classify else ExtraTreeRegressor
    targets = np.ascontiguousarray(targets, dtype=np.intp if classify else np.float64)
    kept: IntArray | None = None
    if (count := inputs.shape[1]) - always > RULES.tree_columns:
        leading = leading_columns(inputs[:, : count - always], targets, smallest=smallest)
        kept = np.concatenate([leading, np.arange(count - always, count)])
        inputs = inputs[:, kept]
    inputs = np.ascontiguousarray(inputs, dtype=np.float32)
    state = np.random.RandomState(seed)

    def grow(own: int) -> Any:
        with config_context(skip_parameter_validation=True):  # of this thread
            tree = kind(min_samples_leaf=smallest, max_features=1.0, random_state=own)
            return tree.fit(inputs, targets, check_input=False)

    seeds = [state.randint(np.iinfo(np.int32).max) for _ in range(trees)]
    return TreeArrays.of(on_threads(grow, seeds), kept)


def averages(leaves: IntArray, nodes: int) -> sparse.csr_matrix:
    """Return the matrix that averages rows within each leaf, (nodes, n)."""
    count = np.bincount(leaves.ravel(), minlength=nodes)
    rows = np.repeat(np.arange(len(leaves)), leaves.shape[1])
    flat = leaves.ravel()
    return sparse.csr_matrix((1.0 / count[flat], (flat, rows)), shape=(nodes, len(leaves)))


def predicts(leaves: IntArray, nodes: int) -> sparse.csr_matrix:
    """Return the matrix from leaf values to means over trees, (n, nodes)."""
    rows = np.repeat(np.arange(len(leaves)), leaves.shape[1])
    weights = np.full(leaves.size, 1.0 / leaves.shape[1])
    return sparse.csr_matrix((weights, (rows, leaves.ravel())), shape=(len(leaves), nodes))


def training_rows(log: Log, episodes: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the rows of these episodes, or of a random subset with about 20,000 rows."""
    rows: IntArray = log.rows(episodes)
    if len(rows) <= _MOST:
        return rows
    shuffled = rng.permutation(episodes)
    enough = int(np.searchsorted(np.cumsum(log.lengths[shuffled]), _MOST)) + 1
    return np.asarray(log.rows(np.sort(shuffled[:enough])))


class StateScores(Protocol):
    """Scores of every action, by state."""

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores, (n, A)."""
        ...


@dataclass(frozen=True, eq=False)
class Fixed:
    """The same scores in every state."""

    scores: FloatArray  # (A,)

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores, (n, A)."""
        return np.broadcast_to(self.scores, (len(states), len(self.scores)))


@dataclass(frozen=True, eq=False)
class LogShares:
    """log b̂(a|s), whose softmax is the behaviour."""

    behaviour: TreeValues

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores, (n, A)."""
        with np.errstate(divide="ignore"):
            return np.log(self.behaviour(states))


@dataclass(frozen=True, eq=False)
class LinearScores:
    """φ(s, a)ᵀθ at every action."""

    features: Any
    theta: FloatArray  # (d,)

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores, (n, A)."""
        there = at_every_action(self.features, states, self.features.n_actions)
        return np.asarray(there.values(self.theta[None])[0].T)


@dataclass(frozen=True, eq=False)
class Supported:
    """Scores restricted to supported actions: b̂(a|s) ≥ share · max b̂(·|s).

    Other actions score −∞ and are never chosen.
    """

    scores: StateScores
    behaviour: TreeValues
    share: float

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores, (n, A)."""
        return np.where(supported(self.behaviour(states), self.share), self.scores(states), -np.inf)


@dataclass(frozen=True, eq=False)
class Limited:
    """Scores less a price for each unit of cost, and far below where an action is barred."""

    scores: StateScores
    barred: StateTree  # 0, or a large negative number
    prices: FloatArray  # (A,) for a unit of cost
    cost_column: int  # the state variable with the cost; −1 for 1 in every row

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores, (n, A)."""
        cost = np.ones(len(states)) if self.cost_column < 0 else states[:, self.cost_column]
        return np.asarray(self.scores(states) + self.barred(states) - cost[:, None] * self.prices)


def supported(shares: FloatArray, share: float) -> BoolArray:
    """Return which actions have at least this share of the likeliest one's probability, (n, A)."""
    return np.asarray(shares >= share * shares.max(axis=1, keepdims=True))


class StateCritics(ListedCritics):
    """K critics, each of which scores all actions of a state; −∞ for excluded actions."""

    def values(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return Q_k(s, a) at n state-action pairs, (K, n)."""
        chosen = np.arange(len(states)), np.asarray(actions, dtype=np.intp)
        return np.stack([member(states)[chosen] for member in self.members])

    def action_values(self, states: FloatArray, n_actions: int) -> FloatArray:
        """Return Q_k(s, a) at every discrete action, (K, A, n)."""
        found = np.stack([member(states).T for member in self.members])
        if found.shape[1] != n_actions:
            raise MethodError(f"These critics know {found.shape[1]} actions, not {n_actions}.")
        return found
