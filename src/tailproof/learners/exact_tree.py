"""Policy trees of depth 1 and 2 by exhaustive search, and of depth 3 on a chosen first split.

A policy tree maximises Σᵢ Γ(sᵢ, π(sᵢ)) over trees whose leaves take one action each (Athey and Wager
2021; Zhou, Athey and Wager 2023). With columns cut at B thresholds, all that a tree of depth 2 needs
to know of a pair of columns is the sum of the scores in each of their B × B cells: cumulative sums over
both give every tree on that pair, so that rows are visited once for each pair of columns, not for each
of the (pB)² pairs of splits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import floor, log10

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.trees import Nested, StateTree, TreeArrays, averages, nested_tree
from tailproof.errors import MethodError
from tailproof.features import Standardise
from tailproof.log.horizon import leading_columns
from tailproof.rules import RULES

_FIRST_SPLITS = 4  # first splits of a tree of depth 3 whose halves are searched exhaustively


@dataclass(frozen=True)
class Node:
    """A leaf with its action, or a split with the two nodes below it."""

    value: float  # Σ Γ(s, π(s)) over its rows, less the cost of its further leaves
    rows: int
    action: int = -1
    column: int = -1  # of a split
    threshold: float = 0.0  # rows up to it go left
    left: Node | None = None
    right: Node | None = None

    @property
    def depth(self) -> int:
        """Number of splits on the longest way to a leaf."""
        if self.left is None or self.right is None:
            return 0
        return 1 + max(self.left.depth, self.right.depth)


@dataclass(frozen=True)
class _Data:
    """Rows with their columns cut at thresholds, and the scores of every action."""

    bins: IntArray  # (p, n) in 0 … B_j, the number of thresholds below the value
    cuts: tuple[FloatArray, ...]  # (B_j,) thresholds of each column
    scores: FloatArray  # (A + 1, n); the last row counts the rows of the log

    def of(self, rows: IntArray) -> _Data:
        """Return some of the rows."""
        return _Data(self.bins[:, rows], self.cuts, self.scores[:, rows])


@dataclass(frozen=True)
class _Limits:
    smallest: int
    cost: float


def best_tree(
    inputs: FloatArray,
    scores: FloatArray,
    *,
    depth: int,
    smallest: int = 1,
    cost: float = 0.0,
    thresholds: int = 64,
) -> Node:
    """Return the policy tree with the largest sum of scores, less the cost of further leaves.

    Parameters
    ----------
    inputs
        Of rows, (n, p).
    scores
        Γ of every action, (n, A).
    depth
        Up to 2: no tree of that depth on these thresholds is better. 3: the halves of the best few
        first splits are searched in that way.
    smallest
        Fewest rows of a leaf.
    cost
        What a further leaf must bring at least, in units of the summed scores.
    thresholds
        Cuts of a column: between all its values if there are so few, else at quantiles.

    Examples
    --------
    >>> x = np.array([[0.0, 1.0], [1.0, 0.0], [2.0, 1.0], [3.0, 0.0]])
    >>> gains = np.array([[1.0, 0.0], [1.0, 0.0], [0.0, 2.0], [0.0, 2.0]])
    >>> tree = best_tree(x, gains, depth=2)
    >>> tree.value, tree.column, tree.threshold, tree.left.action, tree.right.action
    (6.0, 0, 1.0, 0, 1)
    """
    if not 0 <= depth <= 3:
        raise MethodError(f"depth must be 0, 1, 2 or 3. Got {depth!r} instead.")
    cuts = tuple(_cuts(column, thresholds) for column in inputs.T)
    bins = np.array(
        [np.searchsorted(cut, column) for cut, column in zip(cuts, inputs.T, strict=True)],
        dtype=np.intp,
    ).reshape(len(cuts), len(inputs))
    counted = np.vstack([scores.T, np.ones(len(scores))])
    return _search(_Data(bins, cuts, counted), _Limits(max(smallest, 1), cost), depth)


def columns_to_search(states: FloatArray, scores: FloatArray, smallest: int) -> tuple[int, ...]:
    """Return the columns that vary, or of many those that matter most to a few trees on the scores."""
    columns = Standardise.fit(states).columns  # those that vary, in an order that no file decides
    if len(columns) > RULES.search_columns:
        seen = states[:, list(columns)]
        least = max(smallest // 2, 1)
        kept = leading_columns(seen, scores, smallest=least, most=RULES.search_columns)
        columns = tuple(columns[place] for place in kept)
    return columns


def state_tree(
    states: FloatArray,
    scores: FloatArray,
    *,
    depth: int,
    smallest: int,
    cost: float = 0.0,
    columns: tuple[int, ...] | None = None,
) -> StateTree:
    """Return the best tree on the states themselves, with the mean scores of each leaf.

    The parameters are those of `best_tree`, with `cost` in units of the mean score. Of many columns,
    `RULES.search_columns` are searched; `columns` are those of `columns_to_search`, if they are known.
    """
    columns = columns_to_search(states, scores, smallest) if columns is None else columns
    best = best_tree(
        states[:, list(columns)],
        scores,
        depth=depth,
        smallest=smallest,
        cost=cost * len(states),
        thresholds=64 if depth < 3 else 32,
    )
    tree = tree_arrays(best, columns)
    leaf = tree.leaves(states, precision=np.float64)
    return StateTree(tree, np.asarray(averages(leaf, tree.nodes) @ scores))


def tree_arrays(tree: Node, columns: Sequence[int] | None = None) -> TreeArrays:
    """Return a tree as arrays; `columns` are the places of the inputs among the state's variables."""

    def nested(node: Node) -> Nested:
        if node.left is None or node.right is None:
            return np.zeros(1)
        at = node.column if columns is None else columns[node.column]
        return at, node.threshold, nested(node.left), nested(node.right)

    return nested_tree(nested(tree), 1).tree


def round_between(low: float, high: float) -> float:
    """Return the number with the fewest digits that is at least `low` and less than `high`.

    >>> round_between(59.2, 61.7), round_between(59.0, 60.0), round_between(-3.142, -3.141)
    (60.0, 59.0, -3.142)
    """
    middle = low / 2 + high / 2
    size = floor(log10(max(abs(low), abs(high))))
    for digits in range(1, 17):
        unit = size - digits + 1
        steps = floor(middle / 10.0**unit)
        for found in (float(f"{each}e{unit}") for each in (steps, steps + 1)):
            if low <= found < high:
                return found
    return low


def _cuts(column: FloatArray, count: int) -> FloatArray:
    """Return at most `count` round thresholds between values of a column."""
    values = np.unique(column)
    if len(values) > count + 1:
        # exact quantiles of the rows, so that repeated values count as often as they occur
        ranks = np.linspace(0, len(column) - 1, count + 2)[1:-1].astype(int)
        values = np.unique(np.concatenate([np.sort(column)[ranks], values[[0, -1]]]))
    return np.array([round_between(*pair) for pair in pairwise(values.tolist())])


def _leaf(data: _Data) -> Node:
    totals = data.scores.sum(axis=1)
    action = int(np.argmax(totals[:-1]))
    return Node(value=float(totals[action]), rows=data.scores.shape[1], action=action)


def _search(data: _Data, limits: _Limits, depth: int) -> Node:
    leaf = _leaf(data)
    if depth == 0 or data.scores.shape[1] < 2 * limits.smallest:
        return leaf
    if depth == 1:
        split = _first_split(data, limits)
        return leaf if split is None else _grow(data, limits, *split, depth=1, least=leaf)
    splits, best = _promising(data, limits), _search(data, limits, 1)
    for split in splits[:1]:
        best = _grow(data, limits, *split, depth=2, least=best)
    for split in splits if depth == 3 else ():
        best = _grow(data, limits, *split, depth=3, least=best)
    return best


def _grow(data: _Data, limits: _Limits, column: int, cut: int, *, depth: int, least: Node) -> Node:
    """Return the tree with this first split and the best halves, or `least` if that is as good."""
    low = data.bins[column] <= cut
    if min(np.count_nonzero(low), np.count_nonzero(~low)) < limits.smallest:
        return least
    left, right = (
        _search(data.of(np.flatnonzero(side)), limits, depth - 1) for side in (low, ~low)
    )
    value = left.value + right.value - limits.cost
    if value <= least.value + 1e-12 * abs(least.value):
        return least
    return Node(
        value=value,
        rows=len(low),
        column=column,
        threshold=float(data.cuts[column][cut]),
        left=left,
        right=right,
    )


def _first_split(data: _Data, limits: _Limits) -> tuple[int, int] | None:
    """Return column and cut of the best tree of depth 1."""
    totals = data.scores.sum(axis=1)
    best, found = -np.inf, None
    for column in range(len(data.cuts)):
        below = _cells(data, column)[:, :-1].cumsum(axis=1)
        value = _split_values(below, totals[:, None], limits)
        if len(value) and value.max() > best:
            best, found = float(value.max()), (column, int(np.argmax(value)))
    return found


def _two_level_values(data: _Data, limits: _Limits) -> list[FloatArray]:
    """Return, for every first split, the value of the best tree of depth 2 below it, (B_j,) each."""
    totals = data.scores.sum(axis=1)[:, None]  # (A + 1, 1)
    # Without a second split a side is one leaf; a leaf that is too small rules the first split out.
    values = []
    for column in range(len(data.cuts)):
        left = _cells(data, column)[:, :-1].cumsum(axis=1)  # sums left of its cuts, (A + 1, B_j)
        right = totals - left
        ok = (left[-1] >= limits.smallest) & (right[-1] >= limits.smallest)
        values.append([np.where(ok, each[:-1].max(axis=0), -np.inf) for each in (left, right)])
    for j in range(len(data.cuts)):
        for k in range(j, len(data.cuts)):
            # sums up to each cell, (A + 1, B_j + 1, B_k + 1)
            sums_to = _pair_cells(data, j, k).cumsum(axis=1).cumsum(axis=2)
            for first, table in ((j, sums_to), (k, sums_to.swapaxes(1, 2))):
                # sums left of each first cut and of each second cut, (A + 1, B, B' + 1)
                left = table[:, :-1]
                right = table[:, -1:] - left
                if left.shape[2] < 2:
                    continue
                for side, sums in enumerate((left, right)):
                    found = _split_values(sums[..., :-1], sums[..., -1:], limits).max(axis=1)
                    np.maximum(values[first][side], found - limits.cost, out=values[first][side])
                if j == k:
                    break
    return [left + right - limits.cost for left, right in values]


def _split_values(below: FloatArray, total: FloatArray, limits: _Limits) -> FloatArray:
    """Return the summed scores of both sides of splits, (…,), from sums below them, (A + 1, …)."""
    above = total - below
    value = below[:-1].max(axis=0) + above[:-1].max(axis=0)
    small = np.minimum(below[-1], above[-1]) < limits.smallest
    return np.asarray(np.where(small, -np.inf, value))


def _cells(data: _Data, column: int) -> FloatArray:
    """Return sums of the scores by cell of a column, (A + 1, B + 1)."""
    return _sums(data.bins[column], len(data.cuts[column]) + 1, data.scores)


def _pair_cells(data: _Data, j: int, k: int) -> FloatArray:
    """Return sums of the scores by cells of two columns, (A + 1, B_j + 1, B_k + 1)."""
    rows, columns = len(data.cuts[j]) + 1, len(data.cuts[k]) + 1
    cell = data.bins[j] * columns + data.bins[k]
    return _sums(cell, rows * columns, data.scores).reshape(-1, rows, columns)


def _sums(cell: IntArray, size: int, scores: FloatArray) -> FloatArray:
    return np.stack([np.bincount(cell, weights=each, minlength=size) for each in scores])


def _promising(data: _Data, limits: _Limits) -> list[tuple[int, int]]:
    """Return the first splits with the best trees of depth 2 below them, at most one for a column."""
    found = [
        (float(value.max()), column, int(np.argmax(value)))
        for column, value in enumerate(_two_level_values(data, limits))
        if len(value) and np.isfinite(value.max())
    ]
    best = sorted(found, key=lambda each: -each[0])[:_FIRST_SPLITS]
    return [(column, cut) for _, column, cut in best]
