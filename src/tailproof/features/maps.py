"""Feature maps φ(s, a), standardised, and maps of the state."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from tailproof.arrays import AnyArray, FloatArray, IntArray, RowIndex
from tailproof.log.log import Log
from tailproof.log.spaces import Discrete
from tailproof.parameters import Configurable

if TYPE_CHECKING:
    from sklearn.ensemble import ExtraTreesRegressor
    from sklearn.preprocessing import OneHotEncoder

REACH = 3.0  # robust standard deviations beyond which a tamed variable grows logarithmically


@dataclass(frozen=True)
class Standardise:
    """z = (s − median) / (interquartile range / 1.35), for each column that is not constant.

    A column whose quartiles agree, such as a rare indicator, is divided by its standard deviation.

    Parameters
    ----------
    columns, centre, scale
        The columns of the state that are kept, their medians and scales. They are ordered by their
        contents, so that the order of columns in a file does not matter.
    tame
        Whether |z| beyond 3 is replaced by 3 + log(1 + |z| − 3), so that one extreme state does not
        dominate a linear fit. The transformation is monotone.

    Examples
    --------
    >>> states = np.array([[0.0, 5.0], [1.0, 5.0], [2.0, 5.0], [3.0, 5.0], [4.0, 5.0]])
    >>> Standardise.fit(states)(states).ravel().round(3)
    array([-1.35 , -0.675,  0.   ,  0.675,  1.35 ])
    """

    columns: tuple[int, ...]
    centre: tuple[float, ...]
    scale: tuple[float, ...]
    tame: bool = False

    @classmethod
    def fit(cls, states: FloatArray, *, tame: bool = False) -> Standardise:
        """Return the standardisation of these states, (n, p)."""
        columns = np.ascontiguousarray(states.T)  # (p, n): one variable at a time is faster
        low, centre, high = np.quantile(columns, [0.25, 0.5, 0.75], axis=1)
        spread = high / 1.35 - low / 1.35
        size = np.abs(columns).max(axis=1, initial=0.0)
        unit = columns / np.where(size > 0, size, 1.0)[:, None]  # to avoid overflow
        deviation = size * unit.std(axis=1)
        varies = np.ptp(unit, axis=1) > 1e-12
        scale = np.where(spread > 1e-9 * deviation, spread, deviation)
        kept = np.flatnonzero(varies & (scale > 0) & np.isfinite(scale))
        bounded = np.tanh((columns[kept] - centre[kept, None]) / scale[kept, None])
        kept = kept[np.lexsort((bounded.mean(axis=1), np.abs(bounded).mean(axis=1).round(9)))]
        return cls(
            tuple(kept.tolist()), tuple(centre[kept].tolist()), tuple(scale[kept].tolist()), tame
        )

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return z, (n, kept columns)."""
        z: FloatArray = np.take(states, np.array(self.columns, dtype=np.intp), axis=1) - np.array(
            self.centre
        )
        z /= np.array(self.scale)
        if self.tame:
            flat = z.reshape(-1)
            far = np.flatnonzero(np.abs(flat) > REACH)
            beyond = np.abs(flat[far]) - REACH
            flat[far] = np.sign(flat[far]) * (REACH + np.log1p(beyond))
        return z


@dataclass(frozen=True)
class Polynomial(Configurable):
    """ψ(s): bias, main effects and pairwise products of the state; no squares (section 5.1).

    Parameters
    ----------
    degree
        2 with pairwise products, 1 without.
    bias
        Whether the first feature is the constant 1. One-hot states already span it.

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

    def __call__(self, states: npt.ArrayLike) -> FloatArray:
        """Return ψ(s), (n, size)."""
        states = np.asarray(states)
        n, p = states.shape
        psi = np.empty((self.size(p), n))  # values of a feature are contiguous: faster to fill
        first = int(self.bias)
        psi[:first] = 1.0
        psi[first : first + p] = states.T
        if self.degree > 1:
            for row, (i, j) in enumerate(combinations(range(p), 2), start=first + p):
                np.multiply(psi[first + i], psi[first + j], out=psi[row])
        return psi.T

    def moved(self, by: FloatArray) -> FloatArray | None:
        """Return M with ψ(s − by) = Mψ(s), (size, size); None without a bias."""
        if not self.bias:
            return None
        move = np.eye(self.size(len(by)))
        move[1 : 1 + len(by), 0] = -by
        if self.degree > 1:
            for row, (i, j) in enumerate(combinations(range(len(by)), 2), start=1 + len(by)):
                move[row, [0, 1 + i, 1 + j]] = by[i] * by[j], -by[j], -by[i]
        return move


class StateMap(Protocol):
    """ψ(s): features of the state alone."""

    def size(self, dimension: int, /) -> int:
        """Return the number of features of a state with `dimension` variables."""

    def __call__(self, states: FloatArray, /) -> FloatArray:
        """Return ψ(s), (n, size)."""


@runtime_checkable
class HasConstant(Protocol):
    """A feature map that contains a constant."""

    def constant(self) -> FloatArray | None:
        """Return θ with φᵀθ = 1 everywhere, (d,); None if a part of the map has none."""


class FittedMap(ABC):
    """Base of maps fitted to states, with a known number of features."""

    @property
    @abstractmethod
    def _size(self) -> int:
        """Number of features."""

    @abstractmethod
    def __call__(self, states: npt.ArrayLike) -> FloatArray:
        """Return ψ(s), (n, size)."""

    def size(self, dimension: int) -> int:  # noqa: ARG002 for maps such as `Polynomial`
        """Return the number of features."""
        return self._size

    def constant(self) -> FloatArray:
        """Return θ with ψᵀθ = 1 everywhere, (size,)."""
        return np.asarray(np.eye(1, self._size)[0])


@dataclass(frozen=True)
class Basis(FittedMap):
    """ψ(s): bias, main effects, chosen products and hinges (z − knot)₊ of the standardised state z.

    Without knots it spans the same functions as `Polynomial`, in standardised units; with knots each
    variable has a piecewise linear effect.

    Examples
    --------
    >>> states = np.arange(9.0)[:, None]
    >>> Basis.fit(states, knots=2)(np.array([[8.0]])).round(2)
    array([[1.  , 1.35, 1.8 , 0.9 ]])
    """

    standardise: Standardise
    pairs: tuple[tuple[int, int], ...] = ()  # of the products z_i z_j; (i, i) is a square
    knots: tuple[tuple[float, ...], ...] = ()  # of each variable; may be empty

    @classmethod
    def fit(
        cls,
        states: FloatArray,
        *,
        products: bool = True,
        squares: bool = False,
        knots: int = 0,
        standardise: Standardise | None = None,
    ) -> Basis:
        """Return the basis for these states, (n, p), with knots at their quantiles.

        The standardisation of the states may be given, if it is known.

        A product that is zero or equals a variable in every row, such as that of two indicators of one
        category, is left out.
        """
        standardise = standardise or Standardise.fit(states)
        standardise = replace(standardise, tame=knots > 0)
        z = standardise(states)
        pairs: list[tuple[int, int]] = []
        if products:
            kept = list(standardise.columns)
            pairs = _products(states[:, kept])
        if squares:
            pairs += [(i, i) for i in range(z.shape[1]) if len(np.unique(z[:1_000, i])) > 2]
        return cls(standardise, tuple(pairs), tuple(_knots(x, knots) for x in z.T) if knots else ())

    @property
    def _size(self) -> int:
        return 1 + len(self.standardise.columns) + len(self.pairs) + sum(map(len, self.knots))

    def __call__(self, states: npt.ArrayLike) -> FloatArray:
        """Return ψ(s), (n, size)."""
        z = self.standardise(np.asarray(states, dtype=float))
        psi = np.empty((self._size, len(z)))
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
    """Return the pairs of columns whose product adds information."""
    some = states[:: max(1, len(states) // 20_000)]
    binary = ((some == 0) | (some == 1)).all(axis=0)
    together = some.T @ (some * binary)
    count = np.where(binary, some.sum(axis=0), 0)

    first, second = np.triu_indices(states.shape[1], k=1)
    both, shared = binary[first] & binary[second], together[first, second]
    informs = ~both | ((shared > 0) & (shared < np.minimum(count[first], count[second])))
    return list(zip(first[informs].tolist(), second[informs].tolist(), strict=True))


def _knots(column: FloatArray, count: int) -> tuple[float, ...]:
    """Return inner knots at quantiles, or at every inner value of a variable with few values."""
    in_order = np.sort(column)  # faster than np.unique, and quantiles of it are fast
    distinct = 1 + np.count_nonzero(in_order[1:] != in_order[:-1])
    many = distinct > count + 2
    quantiles = np.quantile(in_order, np.linspace(0, 1, count + 2)) if many else in_order
    return tuple(np.unique(quantiles)[1:-1].tolist())


@dataclass(frozen=True)
class Fourier(FittedMap):
    """ψ(s): bias, main effects, and √2 cos(z·ω + b) with random frequencies (Rahimi and Recht, 2007).

    The cosines approximate a Gaussian kernel on the standardised state z.
    """

    standardise: Standardise
    frequencies: tuple[tuple[float, ...], ...]  # ω of each wave
    phases: tuple[float, ...]  # b

    @classmethod
    def fit(
        cls, states: FloatArray, *, waves: int = 100, bandwidth: float = 1.0, seed: int = 0
    ) -> Fourier:
        """Return features for these states, (n, p).

        The kernel's bandwidth is in units of the root mean square distance between two states.
        """
        standardise = Standardise.fit(states, tame=True)
        rng = np.random.default_rng(seed)
        distance = float(np.sqrt(2 * standardise(states).var(axis=0).sum())) or 1.0
        size = (waves, len(standardise.columns))
        frequencies = rng.standard_normal(size) / (bandwidth * distance)
        phases = rng.uniform(0, 2 * np.pi, waves)
        return cls(standardise, tuple(map(tuple, frequencies.tolist())), tuple(phases.tolist()))

    @property
    def _size(self) -> int:
        return 1 + len(self.standardise.columns) + len(self.phases)

    def __call__(self, states: npt.ArrayLike) -> FloatArray:
        """Return ψ(s), (n, size)."""
        z = self.standardise(np.asarray(states, dtype=float))
        waves = np.sqrt(2) * _cosine(z @ np.array(self.frequencies).T + np.array(self.phases))
        return np.column_stack([np.ones(len(z)), z, waves])


def _cosine(angle: FloatArray) -> FloatArray:
    """Return cos x = (1 − t²)/(1 + t²), t = tan(x/2), within rounding.

    numpy's tangent is vectorised and its cosine is not: 7 nanoseconds per number instead of 17 or more.
    """
    square = np.tan(angle / 2)
    square *= square
    return np.asarray((1 - square) / (1 + square))


@dataclass(frozen=True)
class Table(FittedMap):
    """ψ(s) = e_s: one indicator per distinct state. All features of an unseen state are 0.

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

    @property
    def _size(self) -> int:
        return len(self.rows)

    def constant(self) -> FloatArray:
        """Return θ with ψᵀθ = 1 everywhere, (size,)."""
        return np.ones(len(self.rows))

    def __call__(self, states: npt.ArrayLike) -> FloatArray:
        """Return ψ(s), (n, size)."""
        place = self.index(np.asarray(states, dtype=float))
        psi = np.zeros((len(place), len(self.rows)))
        known = np.flatnonzero(place >= 0)
        psi[known, place[known]] = 1.0
        return psi

    def index(self, states: FloatArray) -> IntArray:
        """Return the index of each state in the table, −1 if it is not in the table, (n,)."""
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


@dataclass(frozen=True, eq=False)
class Trees(FittedMap):
    """ψ(s): bias, and indicators of the leaf of s in each of several randomised trees."""

    forest: ExtraTreesRegressor  # fitted to states
    indicators: OneHotEncoder  # of leaves; the first of each tree is told by the others

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
        """Return the leaves of randomised trees fitted to targets, (n, q), on states, (n, p)."""
        from sklearn.ensemble import ExtraTreesRegressor
        from sklearn.preprocessing import OneHotEncoder

        forest = ExtraTreesRegressor(
            trees, max_leaf_nodes=leaves, min_samples_leaf=5, random_state=seed, n_jobs=1
        )
        forest.fit(states, targets)
        indicators = OneHotEncoder(drop="first", sparse_output=False)
        return cls(forest, indicators.fit(forest.apply(states)))

    @property
    def _size(self) -> int:
        return 1 + sum(len(each) - 1 for each in self.indicators.categories_)

    def __call__(self, states: npt.ArrayLike) -> FloatArray:
        """Return ψ(s), (n, size)."""
        found = self.forest.apply(np.asarray(states, dtype=float))
        return np.hstack([np.ones((len(found), 1)), self.indicators.transform(found)])


MOST_FEATURES = 1_000  # most features of the default map with products


@runtime_checkable
class Features(Protocol):
    """φ(s, a) in R^d. Any object with these two members is a feature map."""

    @property
    def size(self) -> int:
        """Number of features, d."""

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, d)."""


@dataclass(frozen=True)
class PerAction(Configurable):
    """One block of state features for each discrete action: φ(s, a) = e_a ⊗ ψ(s).

    A linear critic on these features is one linear model of ψ(s) for each action.
    """

    state_features: StateMap
    state_dimension: int
    n_actions: int

    @property
    def size(self) -> int:
        """Number of features, A times that of ψ."""
        return self.n_actions * self.state_features.size(self.state_dimension)

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, d)."""
        psi = self.state_features(states)
        phi = np.zeros((len(psi), self.n_actions, psi.shape[1]))
        phi[np.arange(len(psi)), actions] = psi
        return phi.reshape(len(psi), -1)

    def constant(self) -> FloatArray | None:
        """Return θ with φᵀθ = 1 everywhere, (d,), or None if ψ has no `constant`."""
        known = self.state_features
        own = known.constant() if isinstance(known, HasConstant) else None
        return None if own is None else np.tile(own, self.n_actions)

    def mixed(self, states: FloatArray, weights: FloatArray) -> FloatArray:
        """Return Σ_a weights(s, a) φ(s, a), (n, d), for weights of shape (n, A)."""
        return Blocks(self.state_features(states)).mix(weights)


@dataclass(frozen=True)
class Additive:
    """φ(s, a) = [e_a, ψ(s) without its bias]: one intercept per action, and shared effects.

    For logs with too few rows for one block of features per action.
    """

    state_features: StateMap
    state_dimension: int
    n_actions: int

    @property
    def size(self) -> int:
        """Number of features: one per action, and those of ψ without the bias."""
        return self.n_actions + self.state_features.size(self.state_dimension) - 1

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, d)."""
        weights = np.zeros((len(states), self.n_actions))
        weights[np.arange(len(states)), actions] = 1.0
        return self.mixed(states, weights)

    def constant(self) -> FloatArray:
        """Return θ with φᵀθ = 1 everywhere, (d,)."""
        return np.concatenate([np.ones(self.n_actions), np.zeros(self.size - self.n_actions)])

    def mixed(self, states: FloatArray, weights: FloatArray) -> FloatArray:
        """Return Σ_a weights(s, a) φ(s, a), (n, d), for weights of shape (n, A)."""
        share = weights.sum(axis=1, keepdims=True)
        return np.hstack([weights, self.state_features(states)[:, 1:] * share])


@dataclass(frozen=True)
class Interactions(Configurable):
    """Bias, main effects and pairwise products of (s, a) in one model, as the paper's text has it.

    Discrete actions are 0/1 columns, one for every action but the first. The released code fits one
    model for each action instead, which is `PerAction(Polynomial(), ...)`.

    Examples
    --------
    >>> Interactions(2, 2)(np.array([[2.0, 3.0]]), np.array([1]))  # 1, s, s₁s₂, a, s·a
    array([[1., 2., 3., 6., 1., 2., 3.]])
    """

    state_dimension: int
    n_actions: int

    @property
    def size(self) -> int:
        """Number of features."""
        p = self.state_dimension
        return Polynomial().size(p) + (self.n_actions - 1) * (1 + p)

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, d)."""
        main = np.column_stack([np.ones(len(states)), states])
        taken = [main * (actions == action)[:, None] for action in range(1, self.n_actions)]
        return np.hstack([Polynomial()(states), *taken])

    def moved(self, by: FloatArray) -> FloatArray:
        """Return M with φ(s − by, a) = Mφ(s, a), (size, size)."""
        first, move = Polynomial().size(len(by)), np.eye(self.size)
        move[:first, :first] = Polynomial().moved(by)
        for start in range(first, self.size, 1 + len(by)):
            own = slice(start, start + 1 + len(by))
            move[own, own] = Polynomial(degree=1).moved(by)
        return move


@dataclass(frozen=True)
class Blocks:
    """φ(s, ·) of `PerAction` features, stored as ψ(s)."""

    psi: FloatArray  # (n, p)

    def values(self, theta: FloatArray) -> FloatArray:
        """Return Q_k(s, a) = φ(s, a)ᵀθ_k at every action, (K, A, n), for θ of shape (K, d)."""
        stacked = theta.reshape(-1, self.psi.shape[1])
        return np.asarray(stacked @ self.psi.T).reshape(len(theta), -1, len(self.psi))

    def take(self, rows: RowIndex) -> Blocks:
        """Return φ at some of the states."""
        return Blocks(self.psi[rows])

    def mix(self, weights: FloatArray) -> FloatArray:
        """Return Σ_a weights(s, a) φ(s, a), (n, d)."""
        return (weights[:, :, None] * self.psi[:, None, :]).reshape(len(weights), -1)


@dataclass(frozen=True)
class Dense:
    """φ at L actions of each state, stored in full."""

    phi: FloatArray  # (n, L, d)

    def values(self, theta: FloatArray) -> FloatArray:
        """Return Q_k(s, a_l) = φ(s, a_l)ᵀθ_k, (K, L, n), for θ of shape (K, d)."""
        n, length, d = self.phi.shape
        flat = np.asarray(theta @ self.phi.reshape(n * length, d).T)
        return flat.reshape(len(theta), n, length).transpose(0, 2, 1)

    def take(self, rows: RowIndex) -> Dense:
        """Return φ at some of the states."""
        return Dense(self.phi[rows])

    def mix(self, weights: FloatArray) -> FloatArray:
        """Return Σ_l weights(s, l) φ(s, a_l), (n, d)."""
        return np.asarray(np.einsum("nl,nld->nd", weights, self.phi))


def at_actions(features: Features, states: FloatArray, actions: AnyArray) -> Blocks | Dense:
    """Return φ at L actions of each state; `actions` is (n, L) or (n, L, q)."""
    if isinstance(features, PerAction):
        return Blocks(features.state_features(states))
    n, length = actions.shape[:2]
    flat = actions.reshape(n * length, *actions.shape[2:])
    return Dense(features(np.repeat(states, length, axis=0), flat).reshape(n, length, -1))


def at_every_action(features: Features, states: FloatArray, n_actions: int) -> Blocks | Dense:
    """Return φ at every discrete action of each state."""
    every = np.broadcast_to(np.arange(n_actions), (len(states), n_actions))
    return at_actions(features, states, every)


def mixed_features(
    features: Features, states: FloatArray, actions: AnyArray, weights: FloatArray
) -> FloatArray:
    """Return Σ_l weights(s, l) φ(s, a_l), (n, d); `actions` is (n, L) or (n, L, q).

    Features of discrete actions with a faster way for all actions have a method `mixed`.
    """
    if isinstance(features, PerAction | Additive) and weights.shape[1] == features.n_actions:
        return features.mixed(states, weights)
    if actions.shape[1] == 1:
        return np.asarray(features(states, actions[:, 0]) * weights)
    return at_actions(features, states, actions).mix(weights)


def default_features(log: Log) -> Features:
    """Return the paper's features, or for continuous actions the `Joint` ones.

    States with many variables, for instance from categories, get no products: there would be thousands.
    """
    if isinstance(log.action_space, Discrete):
        p, blocks = len(log.state_names), log.n_actions
        degree = 2 if Polynomial().size(p) * blocks <= MOST_FEATURES else 1
        return PerAction(Polynomial(degree), p, blocks)
    return Joint(state_dimension=len(log.state_names), action_dimension=log.action_space.dimension)


@dataclass(frozen=True)
class Joint(Configurable):
    """Bias, main effects, pairwise products and squares of the joined vector (s, a).

    The squares let a linear critic have a best action inside the action space.
    """

    state_dimension: int
    action_dimension: int

    @property
    def size(self) -> int:
        """Number of features."""
        p = self.state_dimension + self.action_dimension
        return Polynomial().size(p) + p

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        """Return φ at n state-action pairs, (n, d)."""
        both = joined(states, actions)
        return np.hstack([Polynomial()(both), both**2])

    def moved(self, by: FloatArray) -> FloatArray:
        """Return M with φ((s, a) − by) = Mφ(s, a), (size, size)."""
        first, move = Polynomial().size(len(by)), np.eye(self.size)
        move[:first, :first] = Polynomial().moved(by)
        move[first:, 0] = by**2
        move[first:, 1 : 1 + len(by)] = np.diag(-2 * by)
        return move


def joined(states: FloatArray, actions: AnyArray) -> FloatArray:
    """Return states and continuous actions side by side, (n, p + q)."""
    return np.column_stack([states, np.asarray(actions, dtype=float).reshape(len(states), -1)])
