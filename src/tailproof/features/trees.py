"""Leaves of regression trees as features of the state."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray


@dataclass(frozen=True, eq=False)
class Trees:
    """ψ(s): bias, and an indicator of the leaf of each of some randomised trees.

    Parameters
    ----------
    forest
        A fitted scikit-learn forest of the state.
    leaves
        The leaves of each tree, ascending.
    """

    forest: Any
    leaves: tuple[tuple[int, ...], ...]

    @classmethod
    def fit(
        cls,
        states: FloatArray,
        targets: FloatArray,
        *,
        trees: int = 10,
        leaves: int = 24,
        seed: int = 0,
    ) -> Trees:
        """Return the leaves of extremely randomised trees of the targets, (n, q), on states, (n, p)."""
        from sklearn.ensemble import ExtraTreesRegressor

        forest = ExtraTreesRegressor(
            trees, max_leaf_nodes=leaves, min_samples_leaf=5, random_state=seed, n_jobs=1
        )
        forest.fit(states, targets)
        found = forest.apply(states)
        return cls(forest, tuple(tuple(np.unique(column).tolist()) for column in found.T))

    def size(self, dimension: int) -> int:  # noqa: ARG002 states are what it was fitted on
        """Return the number of features: a leaf of each tree is given by the others and the bias."""
        return 1 + sum(len(each) - 1 for each in self.leaves)

    def constant(self) -> FloatArray:
        """Return θ with ψᵀθ = 1 everywhere, (size,)."""
        return np.asarray(np.eye(1, self.size(0))[0])

    def __call__(self, states: Any) -> FloatArray:
        """Return ψ(s), (n, size)."""
        found = self.forest.apply(np.asarray(states, dtype=float))
        parts = [np.ones((len(found), 1))]
        parts += [
            (column[:, None] == np.array(leaves[1:])).astype(float)
            for column, leaves in zip(found.T, self.leaves, strict=True)
        ]
        return np.hstack(parts)
