"""Policies and logs that name their states and actions: matched by name, never by place alone.

A policy may say what it was made for: `state_names`, the state variables that it takes, in order, and
`action_labels`, what its action codes stand for. The policies that `learn` returns and that
`load_policy` reads do. A log whose columns stand in another order, or that has other actions too, is
then read as the policy means it; what is missing is refused by name.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.log import Episodes, unnamed
from tailproof.data.spaces import ActionSpace, Discrete
from tailproof.errors import PolicyError
from tailproof.policies.simple import EpsilonGreedy, chosen_integers

_ABSENT = -1


def for_log(policy: Any, log: Episodes) -> Any:
    """Return the policy as it acts on this log: its own states in, the log's action codes out.

    Parameters
    ----------
    policy
        As in `evaluate`; None stays None.
    log
        Whose state variables and actions are meant.

    Examples
    --------
    >>> from tailproof import Discrete, Log
    >>> log = Log.from_arrays(
    ...     [[0.0]], [1], [1.0], [[0.0]], episode=[0], action_space=Discrete(2, ("hold", "buy"))
    ... )
    >>> for_log(lambda states: ["buy"] * len(states), log)(log.states)
    array([1])
    """
    return for_names(policy, log.state_names, log.action_space)


def for_names(policy: Any, state_names: Sequence[str], space: ActionSpace) -> Any:
    """Return the policy as it acts on states with these names, () if they have none, and actions."""
    if isinstance(policy, EpsilonGreedy):
        return replace(policy, policy=for_names(policy.policy, state_names, space))
    if policy is None or isinstance(policy, _Matched):
        return policy
    columns = _columns(tuple(getattr(policy, "state_names", None) or ()), tuple(state_names))
    if not isinstance(space, Discrete):
        drawn = hasattr(policy, "sample")
        return (
            policy
            if columns is None
            else (MatchedDraws if drawn else MatchedStates)(policy, columns)
        )
    if getattr(policy, "n_actions", None) is None:
        if hasattr(policy, "probabilities"):
            return policy if columns is None else MatchedLaw(policy, columns, None, space)
        return Answering(policy, columns, space) if callable(policy) else policy
    codes = _codes(policy, space)
    if columns is None and codes is None:
        return policy
    law = hasattr(policy, "probabilities")
    return (MatchedLaw if law else MatchedChoice)(policy, columns, codes, space)


@dataclass(frozen=True, eq=False)
class _Matched:
    """A policy, and where each of its state variables stands in the log, −1 where it is zero."""

    policy: Any
    columns: tuple[int, ...] | None

    def states(self, states: FloatArray) -> FloatArray:
        """Return the states as the policy takes them, (n, p)."""
        if self.columns is None:
            return states
        zero = np.zeros((len(states), 1), dtype=states.dtype)
        return np.column_stack([states, zero])[:, list(self.columns)]


@dataclass(frozen=True, eq=False)
class MatchedStates(_Matched):
    """A policy with one continuous action in each state."""

    def __call__(self, states: FloatArray) -> AnyArray:
        """Return an action a state, (n, q)."""
        return np.asarray(self.policy(self.states(states)))


@dataclass(frozen=True, eq=False)
class MatchedDraws(_Matched):
    """A law over continuous actions."""

    def sample(self, states: FloatArray, rng: np.random.Generator) -> AnyArray:
        """Return one action a state, (n, q)."""
        return np.asarray(self.policy.sample(self.states(states), rng))

    def log_prob(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return the logarithm of the density at the actions, (n,)."""
        if not hasattr(self.policy, "log_prob"):
            raise PolicyError(f"{type(self.policy).__name__} has no log_prob(states, actions).")
        return np.asarray(self.policy.log_prob(self.states(states), actions))


@dataclass(frozen=True, eq=False)
class MatchedChoice(_Matched):
    """A policy that chooses one of its own action codes in each state."""

    codes: tuple[int, ...] | None
    space: Discrete

    @property
    def n_actions(self) -> int:
        """Number of actions of the log."""
        return self.space.n

    def __call__(self, states: FloatArray) -> IntArray:
        """Return the log's codes of the actions, (n,)."""
        answered = chosen_integers(self.policy, self.states(states), self.policy.n_actions)
        if self.codes is None:
            return answered
        codes: IntArray = np.asarray(self.codes)[answered]
        if (codes == _ABSENT).any():
            _refuse_absent(self.policy, int(answered[(codes == _ABSENT).argmax()]), self.space)
        return codes


@dataclass(frozen=True, eq=False)
class MatchedLaw(_Matched):
    """A law over a policy's own action codes."""

    codes: tuple[int, ...] | None
    space: Discrete

    @property
    def n_actions(self) -> int:
        """Number of actions of the log."""
        return self.space.n

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a | s) over the log's actions, (n, A)."""
        own = np.asarray(self.policy.probabilities(self.states(states)), dtype=float)
        if self.codes is None:
            return own
        codes = np.asarray(self.codes)
        absent = (codes == _ABSENT) & (own > 0).any(axis=0)
        if absent.any():
            _refuse_absent(self.policy, int(absent.argmax()), self.space)
        chances = np.zeros((len(own), self.space.n))
        kept = codes != _ABSENT
        chances[:, codes[kept]] = own[:, kept]
        return chances


@dataclass(frozen=True, eq=False)
class Answering(_Matched):
    """A policy of the user's own, which answers with the log's labels or with action codes.

    Text is a label, always. A whole number is a code, unless the log's labels are whole numbers
    themselves: then it is a label. One that could be either is refused.
    """

    space: Discrete

    @property
    def n_actions(self) -> int:
        """Number of actions of the log."""
        return self.space.n

    def __call__(self, states: FloatArray) -> IntArray:
        """Return the log's codes of the actions, (n,)."""
        given = self.states(states)
        return chosen_integers(self.policy, given, self.space.n, translate=self._codes)

    def _codes(self, answered: AnyArray) -> AnyArray:
        labels = [self.space.label(code) for code in range(self.space.n)]
        place = {label: code for code, label in enumerate(labels)}
        is_text = answered.dtype.kind == "U" or (
            answered.dtype.kind == "O" and all(isinstance(each, str) for each in answered.flat)
        )
        if is_text:
            distinct, which = _distinct(answered)
            unknown = [str(each) for each in distinct if each not in place]
            if unknown:
                raise PolicyError(
                    f"The policy must answer with the log's actions, {_some(labels)}. "
                    f"Got {unknown[0]!r}."
                )
            codes = np.array([place[str(each)] for each in distinct], dtype=np.intp)
            return codes[which].reshape(answered.shape)
        if self.space.labels is None or answered.dtype.kind not in "iuf":
            return answered
        numbered = all(_is_whole(label) for label in labels)
        meant = answered.copy()
        for each in np.unique(answered[np.isfinite(answered)]):
            code = place.get(str(int(each))) if each == int(each) else None
            is_code = 0 <= each < self.space.n
            if code is None and numbered and is_code:
                raise PolicyError(
                    f"The policy answered {int(each)}, which is none of the log's actions, "
                    f"{_some(labels)}. Answer with these."
                )
            if code is None or code == each:
                continue
            if is_code:
                raise PolicyError(
                    f"The policy answered {int(each)}, which may be the action labelled "
                    f"{labels[code]!r} or the code of {labels[int(each)]!r}. Answer with labels as "
                    f"text, such as {labels[code]!r}, or give probabilities(states)."
                )
            meant[answered == each] = code
        return meant


def _distinct(answered: AnyArray) -> tuple[list[str], IntArray]:
    """Return the texts that occur, and which of them stands in each place, flat.

    Found one by one by comparison: policies answer with few texts, and sorting many is slow.
    """
    flat = answered.ravel()
    which = np.full(flat.shape, -1, dtype=np.intp)
    distinct: list[str] = []
    while len(left := np.flatnonzero(which < 0)):
        distinct.append(str(flat[left[0]]))
        which[left[flat[left] == distinct[-1]]] = len(distinct) - 1
    return distinct, which


def _is_whole(label: str) -> bool:
    return label.removeprefix("-").isdecimal()


def _columns(own: tuple[str, ...], names: tuple[str, ...]) -> tuple[int, ...] | None:
    """Return where the policy's state variables stand among the log's; None for as they are."""
    if not own or not names or own == names:
        return None
    if unnamed(own) or unnamed(names):
        if len(own) != len(names):
            raise PolicyError(
                f"The policy was made for {len(own)} state variables, {_some(own)}. The log has "
                f"{len(names)}: {_some(names)}."
            )
        return None
    place = {name: j for j, name in enumerate(names)}
    texts = {name.partition("=")[0] for name in names if "=" in name}
    known = {name.partition("=")[0] for name in own if "=" in name}
    absent = [
        name
        for name in own
        if name not in place and not ("=" in name and name.partition("=")[0] in texts)
    ]
    if absent:
        raise PolicyError(
            f"The policy was made for the state variables {_some(own)}. The log has no "
            f"{_some(absent)}; it has {_some(names)}."
        )
    new = [name for name in names if name.partition("=")[0] in known and name not in own]
    if new:
        raise PolicyError(
            f"The policy has never seen {_some(new)}, which the log has: a category that it does not "
            f"know. Learn on a log that has it, or leave these episodes out."
        )
    # A category that does not occur in the log is one that no row has: zero everywhere.
    return tuple(place.get(name, _ABSENT) for name in own)


def _codes(policy: Any, space: Discrete) -> tuple[int, ...] | None:
    """Return the log's code of each of the policy's actions, −1 for none; None if they are alike."""
    own, count = getattr(policy, "action_labels", None), int(policy.n_actions)
    if own is None and space.labels is None:
        if count >= space.n:  # codes that the log does not have are refused when they are answered
            return None
        return tuple(range(count))
    if own is None or space.labels is None:
        if count != space.n:
            raise PolicyError(
                f"The policy chooses among {count} actions{'' if own is None else f' ({_some(own)})'}"
                f", the log has {space.n}"
                f"{'' if space.labels is None else f' ({_some(space.labels)})'}: without labels on "
                f"both sides they cannot be matched."
            )
        return None
    if tuple(own) == space.labels:
        return None
    place = {label: code for code, label in enumerate(space.labels)}
    return tuple(place.get(label, _ABSENT) for label in own)


def _refuse_absent(policy: Any, action: int, space: Discrete) -> None:
    labels = getattr(policy, "action_labels", None)
    raise PolicyError(
        f"The policy takes the action {str(action) if labels is None else labels[action]!r}, which "
        f"the log does not have. It has {_some([space.label(code) for code in range(space.n)])}."
    )


def _some(names: Sequence[str], most: int = 8) -> str:
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
