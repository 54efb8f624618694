"""Critics that score every action of a state: trees, constants, and scores kept to what the log did."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np

from tailproof.algorithms.base import Fitted
from tailproof.algorithms.learners.tree_arrays import TreeValues
from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.errors import MethodError
from tailproof.features import at_actions

#: A description for JSON, and arrays.
Parts = tuple[dict[str, Any], dict[str, AnyArray]]


class Scores(Protocol):
    """A score of every action in a state; −∞ where an action is not to be chosen."""

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores, (n, A)."""

    def parts(self) -> Parts:
        """Return a description for JSON, and arrays."""


@dataclass(frozen=True, eq=False)
class Fixed:
    """The same scores in every state."""

    scores: FloatArray  # (A,)

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores, (n, A)."""
        return np.broadcast_to(self.scores, (len(states), len(self.scores)))

    def parts(self) -> Parts:
        """Return a description for JSON, and arrays."""
        return {}, {"scores": self.scores}

    @classmethod
    def from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Fixed:  # noqa: ARG003
        """Return what `parts` was taken from."""
        return cls(arrays["scores"])


@dataclass(frozen=True, eq=False)
class LogShares:
    """log b̂(a|s), whose softmax is the behaviour."""

    behaviour: TreeValues

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores, (n, A)."""
        with np.errstate(divide="ignore"):
            return np.log(self.behaviour(states))

    def parts(self) -> Parts:
        """Return a description for JSON, and arrays."""
        return self.behaviour.parts()

    @classmethod
    def from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> LogShares:
        """Return what `parts` was taken from."""
        return cls(TreeValues.from_parts(header, arrays))


@dataclass(frozen=True, eq=False)
class LinearScores:
    """φ(s, a)ᵀθ at every action."""

    features: Any
    theta: FloatArray  # (d,)

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores, (n, A)."""
        every = np.broadcast_to(
            np.arange(self.features.n_actions), (len(states), self.features.n_actions)
        )
        return np.asarray(at_actions(self.features, states, every).values(self.theta[None])[0].T)

    def parts(self) -> Parts:
        """Return a description for JSON, and arrays."""
        from tailproof.methods.specs import to_plain  # a room below: needed for files only

        return {"features": to_plain(self.features)}, {"theta": self.theta}

    @classmethod
    def from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> LinearScores:
        """Return what `parts` was taken from."""
        from tailproof.methods.specs import from_plain

        return cls(from_plain(header["features"]), arrays["theta"])


@dataclass(frozen=True, eq=False)
class Supported:
    """Scores of the actions that the log takes in such states: b̂(a|s) ≥ share · max b̂(·|s)."""

    scores: Any
    behaviour: TreeValues
    share: float

    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the scores, (n, A)."""
        return np.where(supported(self.behaviour(states), self.share), self.scores(states), -np.inf)

    def parts(self) -> Parts:
        """Return a description for JSON, and arrays."""
        header: dict[str, Any] = {"share": self.share, "kind": type(self.scores).__name__}
        arrays: dict[str, AnyArray] = {}
        for name, each in (("scores", self.scores), ("behaviour", self.behaviour)):
            header[name], inside = each.parts()
            arrays |= {f"{name}.{key}": value for key, value in inside.items()}
        return header, arrays

    @classmethod
    def from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> Supported:
        """Return what `parts` was taken from."""
        return cls(
            KINDS[header["kind"]].from_parts(header["scores"], _inside(arrays, "scores")),
            TreeValues.from_parts(header["behaviour"], _inside(arrays, "behaviour")),
            float(header["share"]),
        )


def supported(shares: FloatArray, share: float) -> BoolArray:
    """Return which actions have at least this share of the likeliest one's probability, (n, A)."""
    return np.asarray(shares >= share * shares.max(axis=1, keepdims=True))


def _inside(arrays: Mapping[str, AnyArray], name: str) -> dict[str, AnyArray]:
    start = f"{name}."
    return {key.removeprefix(start): arrays[key] for key in arrays if key.startswith(start)}


@dataclass(frozen=True, eq=False)
class StateCritics:
    """K critics, each of which scores all actions of a state.

    Attributes
    ----------
    members
        The scores.
    diverged
        Which of them are not to be used; by default none, as averages of finite rewards are finite.
    """

    members: tuple[Any, ...]
    diverged: tuple[int, ...] = ()

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

    def parts(self) -> Parts:
        """Return a description for JSON, and arrays."""
        header: list[dict[str, Any]] = []
        arrays: dict[str, AnyArray] = {}
        for k, member in enumerate(self.members):
            said, inside = member.parts()
            header.append({"kind": type(member).__name__, "parts": said})
            arrays |= {f"{k}.{key}": value for key, value in inside.items()}
        return {"members": header}, arrays

    @classmethod
    def from_parts(cls, header: Mapping[str, Any], arrays: Mapping[str, AnyArray]) -> StateCritics:
        """Return what `parts` was taken from."""
        return cls(
            tuple(
                KINDS[said["kind"]].from_parts(said["parts"], _inside(arrays, str(k)))
                for k, said in enumerate(header["members"])
            )
        )


def fitted_scores(members: Iterable[Any], notes: tuple[str, ...] = ()) -> Fitted:
    """Return what a base fits that iterates nothing a reader would look at."""
    critics = StateCritics(tuple(members))
    return Fitted(critics, np.empty((0, critics.count)), notes)


KINDS: dict[str, Any] = {
    each.__name__: each for each in (TreeValues, Fixed, LogShares, LinearScores, Supported)
}
