"""One feature for each state of a log that visits only a few."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray, IntArray


@dataclass(frozen=True)
class Table:
    """ψ(s) = e_s: an indicator of each distinct state. A state that was never seen has no feature.

    Examples
    --------
    >>> table = Table.fit(np.array([[1.0, 0.0], [2.0, 5.0], [1.0, 0.0]]))
    >>> table(np.array([[2.0, 5.0], [9.0, 9.0]]))
    array([[0., 1.],
           [0., 0.]])
    """

    rows: tuple[tuple[float, ...], ...]

    @classmethod
    def fit(cls, states: FloatArray) -> Table:
        """Return the table of these states, (n, p)."""
        return cls(tuple(map(tuple, np.unique(states, axis=0).tolist())))

    def size(self, dimension: int) -> int:  # noqa: ARG002 states are what it was fitted on
        """Return the number of states."""
        return len(self.rows)

    def constant(self) -> FloatArray:
        """Return θ with ψᵀθ = 1 everywhere, (size,)."""
        return np.ones(len(self.rows))

    def __call__(self, states: Any) -> FloatArray:
        """Return ψ(s), (n, size)."""
        place = self.index(np.asarray(states, dtype=float))
        psi = np.zeros((len(place), len(self.rows)))
        known = np.flatnonzero(place >= 0)
        psi[known, place[known]] = 1.0
        return psi

    def index(self, states: FloatArray) -> IntArray:
        """Return the place of each state in the table, −1 for one that is not in it, (n,)."""
        keys = _keys(states)
        place = np.minimum(np.searchsorted(self._keys[0], keys), len(self.rows) - 1)
        found: IntArray = np.where(self._keys[0][place] == keys, self._keys[1][place], -1)
        return found

    @cached_property
    def _keys(self) -> tuple[Any, IntArray]:
        keys = _keys(np.array(self.rows))
        order = np.argsort(keys)
        return keys[order], order


def _keys(states: FloatArray) -> Any:
    """Return one comparable key for each row."""
    exact = np.ascontiguousarray(states + 0.0)  # so that −0 is 0
    return exact.view([("", exact.dtype)] * exact.shape[1]).ravel()
