"""Trees as arrays: asked without the library that grew them, and saved without pickle."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.features import Standardise

_FEW = 1 << 16  # rows that walk down the trees at a time


@dataclass(frozen=True, eq=False)
class TreeArrays:
    """T binary trees, their nodes numbered one tree after the other.

    Attributes
    ----------
    roots
        The first node of each tree, (T,).
    column, threshold
        The input that each node looks at and its limit, (N,); the column of a leaf is −1.
    left, right
        Where inputs up to the limit go, and the others, (N,).
    """

    roots: IntArray  # (T,)
    column: IntArray  # (N,)
    threshold: FloatArray  # (N,)
    left: IntArray  # (N,)
    right: IntArray  # (N,)

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

    def arrays(self) -> dict[str, AnyArray]:
        """Return the arrays by name, for a file."""
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True, eq=False)
class TreeValues:
    """Numbers in the leaves of trees: functions of the state, or of state and action.

    Attributes
    ----------
    standardise
        Of the states, so that trees see no unit.
    trees
        On standardised states, followed by the one-hot action where `values` has one column.
    values
        Of each node, (N, A) for functions of the state, (N,) for one of state and action.
    n_actions
        Number of actions, A.
    """

    standardise: Standardise
    trees: TreeArrays
    values: FloatArray
    n_actions: int

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the mean over trees at every action, (n, A)."""
        z = self.standardise(np.asarray(states, dtype=float))
        if self.values.ndim == 2:
            return np.asarray(self.values[self.trees.leaves(z)].mean(axis=1))
        return np.stack(
            [
                self.values[self.trees.leaves(with_action(z, a, self.n_actions))].mean(axis=1)
                for a in range(self.n_actions)
            ],
            axis=1,
        )

    def parts(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """Return a description for JSON, and arrays."""
        scaled = self.standardise
        header = {
            "columns": list(scaled.columns),
            "centre": list(scaled.centre),
            "scale": list(scaled.scale),
            "tame": scaled.tame,
            "n_actions": self.n_actions,
        }
        return header, {**self.trees.arrays(), "values": self.values}

    @classmethod
    def from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> TreeValues:
        """Return what `parts` was taken from."""
        scaled = Standardise(
            tuple(header["columns"]),
            tuple(header["centre"]),
            tuple(header["scale"]),
            header["tame"],
        )
        trees = TreeArrays(**{each.name: arrays[each.name] for each in fields(TreeArrays)})
        return cls(scaled, trees, arrays["values"], int(header["n_actions"]))


def with_action(z: FloatArray, actions: Any, n_actions: int) -> AnyArray:
    """Return standardised states followed by one-hot actions, (n, p + A)."""
    one_hot = np.zeros((len(z), n_actions), dtype=np.float32)
    one_hot[np.arange(len(z)), actions] = 1.0
    return np.column_stack([z.astype(np.float32), one_hot])
