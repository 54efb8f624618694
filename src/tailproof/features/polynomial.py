"""Functions ψ(s) of the state: polynomials as in the paper, and a standardised basis with kinks."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.features.standardise import Standardise
from tailproof.parameters import Configurable


@dataclass(frozen=True)
class Polynomial(Configurable):
    """ψ(s): bias, main effects and pairwise products of the state; no squares (section 5.1).

    Parameters
    ----------
    degree
        2 with pairwise products, 1 without.
    bias
        Whether the first feature is the constant 1. States that are one-hot already hold it.

    Examples
    --------
    >>> Polynomial()([[2.0, 3.0]])
    array([[1., 2., 3., 6.]])
    """

    degree: int = 2
    bias: bool = True

    def size(self, dimension: int) -> int:
        """Return the number of features of a state with `dimension` variables."""
        products = dimension * (dimension - 1) // 2 if self.degree > 1 else 0
        return self.bias + dimension + products

    def __call__(self, states: Any) -> FloatArray:
        """Return ψ(s), (n, size)."""
        states = np.asarray(states)
        n, p = states.shape
        psi = np.empty((self.size(p), n))  # a feature's values side by side: faster to fill
        self.states_in(psi, p)[:] = states.T
        self.complete(psi, p)
        return psi.T

    def states_in(self, psi: FloatArray, dimension: int) -> FloatArray:
        """Return where the states themselves stand in features of shape (size, n): (p, n)."""
        return psi[int(self.bias) : int(self.bias) + dimension]

    def complete(self, psi: FloatArray, dimension: int) -> None:
        """Fill in the other features, (size, n), when the states are in place."""
        states = self.states_in(psi, dimension)
        psi[: int(self.bias)] = 1.0
        if self.degree > 1:
            pairs = combinations(range(dimension), 2)
            for row, (i, j) in enumerate(pairs, start=int(self.bias) + dimension):
                np.multiply(states[i], states[j], out=psi[row])


@dataclass(frozen=True)
class Basis:
    """ψ(s): bias, main effects, chosen products and hinges (z − knot)₊ of the standardised state z.

    Without knots it spans the same functions as `Polynomial`, in units that fit the log; with them
    each variable has a piecewise linear effect.

    Parameters
    ----------
    standardise
        How states become z.
    pairs
        Which products z_i z_j there are; (i, i) is a square.
    knots
        Of each kept variable; empty for none.

    Examples
    --------
    >>> states = np.arange(9.0)[:, None]
    >>> Basis.fit(states, knots=2)(np.array([[8.0]])).round(2)
    array([[1.  , 1.35, 1.8 , 0.9 ]])
    """

    standardise: Standardise
    pairs: tuple[tuple[int, int], ...] = ()
    knots: tuple[tuple[float, ...], ...] = ()

    @classmethod
    def fit(
        cls, states: FloatArray, *, products: bool = True, squares: bool = False, knots: int = 0
    ) -> Basis:
        """Return the basis for these states, (n, p), with knots at their quantiles.

        A product that is zero or repeats a variable in every row, as that of two indicators of one
        category does, is left out.
        """
        standardise = Standardise.fit(states, tame=knots > 0)
        z = standardise(states)
        pairs: list[tuple[int, int]] = []
        if products:
            kept = list(standardise.columns)
            pairs = _products(states[:, kept])
        if squares:
            pairs += [(i, i) for i in range(z.shape[1]) if len(np.unique(z[:1_000, i])) > 2]
        return cls(standardise, tuple(pairs), tuple(_knots(x, knots) for x in z.T) if knots else ())

    def size(self, dimension: int) -> int:  # noqa: ARG002 states are what it was fitted on
        """Return the number of features."""
        hinges = sum(map(len, self.knots))
        return 1 + len(self.standardise.columns) + len(self.pairs) + hinges

    def constant(self) -> FloatArray:
        """Return θ with ψᵀθ = 1 everywhere, (size,)."""
        return np.asarray(np.eye(1, self.size(0))[0])

    def __call__(self, states: Any) -> FloatArray:
        """Return ψ(s), (n, size)."""
        z = self.standardise(np.asarray(states, dtype=float))
        psi = np.empty((self.size(0), len(z)))
        psi[0] = 1.0
        psi[1 : 1 + z.shape[1]] = z.T
        row = 1 + z.shape[1]
        for i, j in self.pairs:
            np.multiply(z[:, i], z[:, j], out=psi[row])
            row += 1
        for column, knots in zip(z.T, self.knots, strict=False):
            for knot in knots:
                np.maximum(column - knot, 0.0, out=psi[row])
                row += 1
        return psi.T


def _products(states: FloatArray) -> list[tuple[int, int]]:
    """Return the pairs of columns whose product says something new."""
    some = states[:: max(1, len(states) // 20_000)]
    binary = ((some == 0) | (some == 1)).all(axis=0)
    together = some.T @ (some * binary)
    count = np.where(binary, some.sum(axis=0), 0)

    def says_something(i: int, j: int) -> bool:
        if not (binary[i] and binary[j]):
            return True
        return bool(0 < together[i, j] < min(count[i], count[j]))

    return [pair for pair in combinations(range(states.shape[1]), 2) if says_something(*pair)]


def _knots(column: FloatArray, count: int) -> tuple[float, ...]:
    """Return inner knots at quantiles, or at every inner value of a variable that has few."""
    values = np.unique(column)
    if len(values) > count + 2:
        values = np.unique(np.quantile(column, np.linspace(0, 1, count + 2)))
    return tuple(values[1:-1].tolist())
