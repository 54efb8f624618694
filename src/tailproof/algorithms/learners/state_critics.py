"""Critics that score every action of a state: trees, constants, and scores of supported actions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

import numpy as np

from tailproof.algorithms.learners.tree_arrays import TreeArrays, TreeValues
from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.errors import MethodError
from tailproof.features import at_every_action


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

    scores: Any
    behaviour: TreeValues
    share: float

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores, (n, A)."""
        return np.where(supported(self.behaviour(states), self.share), self.scores(states), -np.inf)


def supported(shares: FloatArray, share: float) -> BoolArray:
    """Return which actions have at least this share of the likeliest one's probability, (n, A)."""
    return np.asarray(shares >= share * shares.max(axis=1, keepdims=True))


#: Classes that can be saved to a file.
KINDS: dict[str, Any] = {
    each.__name__: each
    for each in (TreeArrays, TreeValues, Fixed, LogShares, LinearScores, Supported)
}


def to_parts(scores: Any) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return scores as a description for JSON, and arrays by name."""
    from tailproof.methods.specs import to_plain  # imported here to avoid an import cycle

    header: dict[str, Any] = {"kind": type(scores).__name__}
    arrays: dict[str, AnyArray] = {}
    for each in fields(scores):
        value = getattr(scores, each.name)
        if isinstance(value, np.ndarray):
            arrays[each.name] = value
        elif type(value).__name__ in KINDS:
            header[each.name], inside = to_parts(value)
            arrays |= {f"{each.name}.{key}": array for key, array in inside.items()}
        else:
            header[each.name] = to_plain(value)
    return header, arrays


def from_parts(header: Mapping[str, Any], arrays: Mapping[str, AnyArray], start: str = "") -> Any:
    """Rebuild the argument of `to_parts`; the names of its arrays begin with `start`."""
    from tailproof.methods.specs import from_plain

    kind = KINDS[header["kind"]]
    found: dict[str, Any] = {}
    for each in fields(kind):
        said = header.get(each.name)
        if each.name not in header:
            found[each.name] = arrays[start + each.name]
        elif isinstance(said, Mapping) and "kind" in said:
            found[each.name] = from_parts(said, arrays, f"{start}{each.name}.")
        else:
            found[each.name] = from_plain(said)
    return kind(**found)


@dataclass(frozen=True, eq=False)
class StateCritics:
    """K critics, each of which scores all actions of a state."""

    members: tuple[Any, ...]  # map states, (n, p), to scores, (n, A); −∞ for excluded actions
    diverged: tuple[int, ...] = ()  # members that must not be used

    @property
    def count(self) -> int:
        """Number of members, K."""
        return len(self.members)

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

    def healthy(self) -> BoolArray:
        """Return which members may be used, (K,)."""
        return ~np.isin(np.arange(self.count), self.diverged)

    def subset(self, members: IntArray) -> StateCritics:
        """Return only these members."""
        return StateCritics(tuple(self.members[k] for k in members))

    def parts(self) -> tuple[dict[str, Any], dict[str, AnyArray]]:
        """Return a description for JSON, and arrays by name."""
        found = [to_parts(member) for member in self.members]
        arrays = {
            f"{k}.{key}": each for k, (_, own) in enumerate(found) for key, each in own.items()
        }
        return {"members": [header for header, _ in found]}, arrays

    @classmethod
    def from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> StateCritics:
        """Rebuild the critics from the result of `parts`."""
        members = header["members"]
        return cls(tuple(from_parts(said, arrays, f"{k}.") for k, said in enumerate(members)))
