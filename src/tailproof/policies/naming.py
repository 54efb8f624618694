"""Match the states and actions of policies and logs by name, never by position alone.

A policy may have `state_names`, its state variables in order, and `action_labels`, the labels of its
action codes; the policies of `learn` and `load_policy` do. Then a log with columns in another order,
or with additional actions, is converted to the policy's order; missing names raise an error.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tailproof.arrays import AnyArray, FloatArray, IntArray, such
from tailproof.data.log import GAP, OTHER, Log, unnamed
from tailproof.data.spaces import ActionSpace, Discrete
from tailproof.data.view import LogView
from tailproof.errors import PolicyError, listed
from tailproof.policies.answers import ABSENT, action_codes, labels_of
from tailproof.policies.blame import own_errors
from tailproof.policies.by_row import RowLaw, RowPolicy, by_row, require_rows
from tailproof.policies.rules import bind_rule
from tailproof.policies.simple import (
    EpsilonGreedy,
    Mixture,
    SampledPolicy,
    StochasticPolicy,
    Uniform,
    action_probabilities,
    chosen_integers,
)
from tailproof.policies.text import policy_from_text


class Predictor(Protocol):
    """A fitted model of scikit-learn."""

    def predict(self, X: Any) -> Any:
        """Return one action per state."""


#: Forms of a policy: a function of states, an object with ``probabilities`` or ``sample``, a column of
#: the log's table, an array with one action per row, a fitted model, or text as on the command line.
Policy = (
    Callable[[Any], Any]
    | StochasticPolicy
    | SampledPolicy
    | RowPolicy
    | Predictor
    | Sequence[Any]
    | npt.NDArray[Any]
    | str
)


def for_log(policy: Policy | None, log: LogView) -> Any:
    """Return the policy as a function of the log's states that returns the log's action codes.

    Parameters
    ----------
    policy
        As in `evaluate`; None stays None.
    log
        The log with the state variables and actions.

    Examples
    --------
    >>> from tailproof import Discrete, Log
    >>> log = Log.from_arrays(
    ...     [[0.0]], [1], [1.0], [[0.0]], episode=[0], action_space=Discrete(2, ("hold", "buy"))
    ... )
    >>> for_log(lambda states: ["buy"] * len(states), log)(log.states)
    array([1])
    """
    bound = _bound(policy, log)
    if bound is not None and isinstance(log, Log):
        _require_available(bound, log)
    return bound


def _bound(policy: Any, log: LogView) -> Any:
    if isinstance(policy, str):
        policy = policy_from_text(policy, log.action_space)
    if isinstance(policy, EpsilonGreedy):
        return replace(policy, policy=_bound(policy.policy, log))
    if isinstance(policy, Mixture):
        parts = tuple((share, _bound(part, log)) for share, part in policy.parts)
        return replace(policy, parts=parts)
    mask = log.table_rows.available if isinstance(log, Log) else None
    if isinstance(policy, Uniform) and mask is not None:
        law = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        return RowLaw("The uniform policy", len(law), law)
    if policy is None or isinstance(policy, _Matched):
        return policy
    if isinstance(policy, RowPolicy):
        if policy.count != require_rows(log, policy.name).table_rows.count:
            raise PolicyError(f"{policy.name} was made for another log.")
        return policy
    bound = by_row(policy, log) or bind_rule(policy, log)
    if isinstance(bound, RowPolicy):
        return bound
    matched = for_names(bound, log.state_names, log.action_space)
    if type(matched) is Answering and isinstance(log, Log):
        matched = replace(matched, given_names=log.state_names)
        if _answers_with_a_law(matched, log):
            return AnsweringLaw(**vars(matched))
    return matched


def _answers_with_a_law(policy: Answering, log: Log) -> bool:
    """Return whether a function returns probabilities, (n, A), instead of one action per state."""
    states = policy.states(log.states[:2])
    try:
        answered = np.shape(policy.policy(states.copy()))
    except Exception:  # the evaluation will raise it again
        return False
    return log.n_actions > 1 and answered == (len(states), log.n_actions)


def for_names(policy: Any, state_names: Sequence[str], space: ActionSpace) -> Any:
    """Return the policy as `for_log` does, for these state names (() for none) and this space."""
    if isinstance(policy, EpsilonGreedy):
        return replace(policy, policy=for_names(policy.policy, state_names, space))
    if policy is None or isinstance(policy, _Matched | RowPolicy | Mixture):
        return policy
    columns = _columns(tuple(getattr(policy, "state_names", None) or ()), tuple(state_names))
    if not isinstance(space, Discrete):
        if columns is None:
            return policy
        return (MatchedDraws if hasattr(policy, "sample") else MatchedStates)(policy, columns)
    if getattr(policy, "n_actions", None) is None:
        if hasattr(policy, "probabilities"):
            return policy if columns is None else MatchedLaw(policy, columns, None, space)
        return Answering(policy, columns, None, space) if callable(policy) else policy
    codes = _codes(policy, space)
    if columns is None and codes is None:
        return policy
    law = hasattr(policy, "probabilities")
    return (MatchedLaw if law else MatchedChoice)(policy, columns, codes, space)


@dataclass(frozen=True, eq=False)
class _Matched:
    """A policy; its state variable j is the sum of the log's `columns[j]`, 0 if empty."""

    policy: Any
    columns: tuple[tuple[int, ...], ...] | None

    def states(self, states: FloatArray) -> FloatArray:
        """Return the states in the policy's own variables, (n, p)."""
        if self.columns is None:
            return states
        if all(len(places) == 1 for places in self.columns):
            return states[:, [place for (place,) in self.columns]]
        given = np.zeros((len(states), len(self.columns)), dtype=states.dtype)
        for j, places in enumerate(self.columns):
            given[:, j] = states[:, list(places)].sum(axis=1)
        return given


@dataclass(frozen=True, eq=False)
class MatchedStates(_Matched):
    """A deterministic policy with continuous actions."""

    def __call__(self, states: FloatArray) -> AnyArray:
        """Return one action per state, (n, q)."""
        return np.asarray(self.policy(self.states(states)))


@dataclass(frozen=True, eq=False)
class MatchedDraws(_Matched):
    """A distribution over continuous actions."""

    def sample(self, states: FloatArray, rng: np.random.Generator) -> AnyArray:
        """Return one action per state, (n, q)."""
        return np.asarray(self.policy.sample(self.states(states), rng))

    def log_prob(self, states: FloatArray, actions: FloatArray) -> FloatArray:
        """Return the log density at the actions, (n,)."""
        if not hasattr(self.policy, "log_prob"):
            raise PolicyError(f"{type(self.policy).__name__} has no log_prob(states, actions).")
        return np.asarray(self.policy.log_prob(self.states(states), actions))


@dataclass(frozen=True, eq=False)
class _MatchedCodes(_Matched):
    """A policy over discrete actions; `codes` maps its codes to the log's, None if equal."""

    codes: tuple[int, ...] | None
    space: Discrete

    @property
    def n_actions(self) -> int:
        """Number of actions of the log."""
        return self.space.n


@dataclass(frozen=True, eq=False)
class MatchedChoice(_MatchedCodes):
    """A deterministic policy with its own action codes."""

    def __call__(self, states: FloatArray) -> IntArray:
        """Return the log's codes of the actions, (n,)."""
        answered = chosen_integers(self.policy, self.states(states), self.policy.n_actions)
        if self.codes is None:
            return answered
        codes: IntArray = np.asarray(self.codes)[answered]
        if (codes == ABSENT).any():
            _refuse_absent(self.policy, int(answered[(codes == ABSENT).argmax()]), self.space)
        return codes


@dataclass(frozen=True, eq=False)
class MatchedLaw(_MatchedCodes):
    """A distribution over a policy's own action codes."""

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a | s) over the log's actions, (n, A)."""
        own = np.asarray(self.policy.probabilities(self.states(states)), dtype=float)
        if self.codes is None:
            return own
        codes = np.asarray(self.codes)
        absent = (codes == ABSENT) & (own > 0).any(axis=0)
        if absent.any():
            _refuse_absent(self.policy, int(absent.argmax()), self.space)
        chances = np.zeros((len(own), self.space.n))
        kept = codes != ABSENT
        chances[:, codes[kept]] = own[:, kept]
        return chances


@dataclass(frozen=True, eq=False)
class Answering(_MatchedCodes):
    """A user's function that returns the log's labels or action codes."""

    given_names: tuple[str, ...] = ()

    def __call__(self, states: FloatArray) -> IntArray:
        """Return the log's codes of the actions, (n,)."""
        given, translate = self.states(states), partial(action_codes, space=self.space)
        with own_errors(self, given):
            return chosen_integers(self.policy, given, self.space.n, translate=translate)


@dataclass(frozen=True, eq=False)
class AnsweringLaw(Answering):
    """A user's function that returns probabilities, (n, A)."""

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a | s), (n, A)."""
        with own_errors(self, states):
            return np.asarray(self.policy(np.array(self.states(states))), dtype=float)


def _columns(own: tuple[str, ...], names: tuple[str, ...]) -> tuple[tuple[int, ...], ...] | None:
    """Return the log's columns of each state variable of the policy; None if they are the same."""
    if not own or not names or own == names:
        return None
    if unnamed(own) or unnamed(names):
        if len(own) != len(names):
            raise PolicyError(
                f"The policy was made for {len(own)} state variables, {listed(own)}. The log has "
                f"{len(names)}: {listed(names)}."
            )
        return None
    place = {name: (j,) for j, name in enumerate(names)}
    texts = {name.partition("=")[0] for name in names if "=" in name}
    known = {name.partition("=")[0] for name in own if "=" in name}
    absent = [
        name
        for name in own
        if name not in place
        and not ("=" in name and name.partition("=")[0] in texts)
        and not (name.endswith(GAP) and name.removesuffix(GAP) in place)
    ]
    if absent:
        raise PolicyError(
            f"The policy was made for the state variables {listed(own)}. The log has no "
            f"{listed(absent)}; it has {listed(names)}."
        )
    new = [name for name in names if name.partition("=")[0] in known and name not in own]
    others = {name.partition("=")[0]: name for name in own if name.endswith(f"={OTHER}")}
    for name in list(new):
        if (rare := others.get(name.partition("=")[0])) is not None:
            place[rare] = (*place.get(rare, ()), *place[name])
            new.remove(name)
    new = [name for name in new if not name.endswith(GAP)]
    if new:
        raise PolicyError(
            f"The policy has never seen {listed(new)}, which the log has: a category that it does not "
            f"know. Learn on a log that has it, or leave these episodes out."
        )
    # A category or missing-value indicator that does not occur in the log is zero in all rows.
    return tuple(place.get(name, ()) for name in own)


def _codes(policy: Any, space: Discrete) -> tuple[int, ...] | None:
    """Return the log's code of each action of the policy, −1 for none; None if they are equal."""
    own, count = getattr(policy, "action_labels", None), int(policy.n_actions)
    if own is None and space.labels is None:
        if count >= space.n:  # codes that the log lacks raise an error when they are returned
            return None
        return tuple(range(count))
    if own is None or space.labels is None:
        if count != space.n:
            raise PolicyError(
                f"The policy chooses among {count} actions{'' if own is None else f' ({listed(own)})'}"
                f", the log has {space.n}"
                f"{'' if space.labels is None else f' ({listed(space.labels)})'}: without labels on "
                f"both sides they cannot be matched."
            )
        return None
    if tuple(own) == space.labels:
        return None
    place = {label: code for code, label in enumerate(space.labels)}
    return tuple(place.get(label, ABSENT) for label in own)


def _refuse_absent(policy: Any, action: int, space: Discrete) -> None:
    labels = getattr(policy, "action_labels", None)
    raise PolicyError(
        f"The policy takes the action {str(action) if labels is None else labels[action]!r}, which "
        f"the log does not have. It has {listed(labels_of(space))}."
    )


def _require_available(policy: Any, log: Log) -> None:
    """Raise if the policy takes an action in a row where it is not available."""
    origin = log.table_rows
    if origin.available is None:
        return
    alive = np.flatnonzero(~log.terminated & (origin.next_rows >= 0))
    rows = np.concatenate([origin.rows, origin.next_rows[alive]])
    states = np.concatenate([log.states, log.next_states[alive]])
    law = action_probabilities(policy, states, log.n_actions, rows=rows)
    wrong = (law > 1e-9) & ~origin.available[rows]
    if wrong.any():
        at, action = (int(each[0]) for each in np.nonzero(wrong))
        label = log.action_space.label(action)  # type: ignore[union-attr]
        raise PolicyError(
            f"The policy takes {label!r} in row {int(rows[at])} (the first row is 0), where it was not "
            f"available ({such(len(np.unique(rows[wrong.any(axis=1)])))}). Let it choose among the "
            f"actions that are."
        )
