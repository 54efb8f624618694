"""Features in units of their own: centred, and divided by half of their range over a log."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Protocol, runtime_checkable

import numpy as np

from tailproof.arrays import AnyArray, FloatArray
from tailproof.features.maps import Features, HasConstant, PerAction, StateMap, joined

#: Values of some rows, (m, d), from their states and actions.
Span = Callable[[FloatArray, AnyArray], FloatArray]
_CONSTANT = 1e-12  # a range that is this small beside the values is none


@runtime_checkable
class Movable(Protocol):
    """Features that span the same functions of moved states; the first of them is the constant."""

    def moved(self, by: FloatArray) -> FloatArray | None:
        """Return M with φ(s − by) = Mφ(s), (d, d); None without the constant."""


def ranges(values: FloatArray) -> FloatArray:
    """Return the largest values and minus the smallest, (2, d)."""
    return np.stack([values.max(axis=0), -values.min(axis=0)])


def sums(values: FloatArray) -> FloatArray:
    """Return Σφφᵀ, Σφ and the number of rows, (d + 1, d + 1)."""
    whole = np.column_stack([values, np.ones(len(values))])
    return np.asarray(whole.T @ whole)


@dataclass(frozen=True)
class _Moved:
    """Values of features at states, or states joined with continuous actions, less a centre."""

    features: Any  # of states alone, or of states and actions
    centre: FloatArray | None

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        centre = self.centre
        if centre is not None:
            p = states.shape[1]
            states = states - centre[:p]
            if len(centre) > p:
                actions = joined(states, actions)[:, p:] - centre[p:]
        if isinstance(self.features, PerAction):
            return np.asarray(self.features.state_features(states))
        return np.asarray(self.features(states, actions))


@dataclass(frozen=True)
class _StateUnits:
    """ψ(s − centre) / scale."""

    given: StateMap
    centre: FloatArray | None
    scale: FloatArray

    def size(self, dimension: int) -> int:
        return self.given.size(dimension)

    def __call__(self, states: FloatArray) -> FloatArray:
        moved = states if self.centre is None else states - self.centre
        return np.asarray(self.given(moved) / self.scale)


@dataclass(frozen=True)
class _Units:
    """φ(s − centre, a − centre) / scale."""

    values: _Moved
    scale: FloatArray

    @property
    def size(self) -> int:
        return len(self.scale)

    def __call__(self, states: FloatArray, actions: AnyArray) -> FloatArray:
        return np.asarray(self.values(states, actions) / self.scale)


@dataclass(frozen=True)
class OwnUnits:
    """Features in their own units, and how their coefficients become those of the given ones."""

    features: Features
    constant: FloatArray | None  # (d,) θ with φᵀθ = 1 everywhere, if there is one
    scale: FloatArray  # (w,) of each feature, or of each state feature of `PerAction`
    move: FloatArray | None  # (w, w) M with φ(s − centre) = Mφ(s)

    @classmethod
    def of(
        cls,
        features: Features,
        span_of: Callable[[Span], FloatArray],
        sums_of: Callable[[Span], FloatArray],
    ) -> OwnUnits:
        """Return the features in their own units; ranges and sums are those over a log."""
        blocks = features.n_actions if isinstance(features, PerAction) else 1
        inner: Any = features.state_features if isinstance(features, PerAction) else features
        centre = move = None
        if isinstance(inner, Movable):
            high, low = span_of(_both if getattr(inner, "action_dimension", 0) else _states)
            centre = np.asarray((high - low) / 2)
            move = inner.moved(centre)
            centre = None if move is None else centre
        values = _Moved(features, centre)
        high, low = span_of(values)
        largest = np.maximum(np.abs(high), np.abs(low))
        scale = (high + low) / 2
        # what does not vary is 1 at one action of several and 0 at the others, or counts in full
        fixed = scale <= _CONSTANT * largest
        scale = np.where(fixed, largest / (2 if blocks > 1 else 1), scale)
        scale = np.where(scale > 0, scale, 1.0)
        constant = _constant(inner, move, scale, lambda: sums_of(values))
        own: Features = _Units(values, scale)
        if isinstance(features, PerAction):
            own = replace(features, state_features=_StateUnits(inner, centre, scale))
        return cls(own, None if constant is None else np.tile(constant, blocks), scale, move)

    def given(self, theta: FloatArray) -> FloatArray:
        """Return the coefficients of the given features, (K, d)."""
        inner = theta.reshape(len(theta), -1, len(self.scale)) / self.scale
        if self.move is not None:
            inner = inner @ self.move
        return np.asarray(inner.reshape(theta.shape))


def _states(states: FloatArray, actions: AnyArray) -> FloatArray:  # noqa: ARG001
    return states


def _both(states: FloatArray, actions: AnyArray) -> FloatArray:
    return joined(states, actions)


def _constant(
    inner: Any, move: FloatArray | None, scale: FloatArray, sums_of: Callable[[], FloatArray]
) -> FloatArray | None:
    """Return the coefficients of the constant function in scaled features, or None."""
    if move is not None:
        return np.asarray(np.eye(1, len(scale))[0] * scale)
    known = inner.constant() if isinstance(inner, HasConstant) else None
    if known is not None:
        return np.asarray(known * scale)
    total = sums_of() / np.outer([*scale, 1.0], [*scale, 1.0])
    gram, right, count = total[:-1, :-1], total[:-1, -1], total[-1, -1]
    found = np.linalg.lstsq(gram, right, rcond=1e-12)[0]
    return np.asarray(found) if count - found @ right <= 1e-9 * count else None
