"""Bind a policy to a log: rules over frames, states and actions matched by name."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tailproof.arrays import AnyArray, FloatArray, IntArray, such
from tailproof.errors import PolicyError, listed
from tailproof.log.log import GAP, OTHER, Log, LogView, unnamed
from tailproof.log.spaces import ActionSpace, Discrete
from tailproof.policies.forms import (
    EpsilonGreedy,
    Mixture,
    SampledPolicy,
    StochasticPolicy,
    Uniform,
    action_probabilities,
    called,
    chosen_integers,
    own_errors,
)
from tailproof.policies.rows import (
    ABSENT,
    RowLaw,
    RowPolicy,
    action_codes,
    by_row,
    labels_of,
    law_by_name,
    require_rows,
    row_policy,
)
from tailproof.policies.text import policy_from_text

# Error messages of numpy and scikit-learn when code for a frame receives an array.
_NAMELESS = ("valid indices", "integer (or boolean) type", "only supported for dataframes")
_UNNAMED = "does not have valid feature names"


@dataclass(frozen=True)
class OnFrame:
    """A function of a pandas frame; see `on_frame`."""

    function: Callable[[Any], Any]

    @property
    def __name__(self) -> str:
        return called(self.function)


def on_frame(function: Callable[[Any], Any]) -> OnFrame:
    """Declare that a policy takes a pandas frame with the log's original columns and labels.

    It returns labels, action codes, or probabilities: an array (n, A) in the order of the log's
    actions, or a frame with columns named by action. The frame contains no rewards, logged actions,
    propensities or next states.

    A function needs no declaration if its first parameter is annotated with ``DataFrame``, or if it
    uses its argument as a frame (``states["age"]``).

    Examples
    --------
    >>> @on_frame
    ... def policy(states):
    ...     return ["email" if days >= 30 else "none" for days in states["days_since_order"]]
    """
    return OnFrame(function)


@dataclass(frozen=True, eq=False)
class Rule:
    """How to call a function or model, and the input that it needs."""

    policy: Any
    ask: Callable[[Any], Any]
    frame: bool | None  # whether it needs a frame; None if unknown until it is called
    columns: tuple[str, ...] = ()  # columns it needs, in this order; all columns if empty
    classes: Any = None  # actions of the columns of its output

    @property
    def name(self) -> str:
        """Its name in messages."""
        return f"The policy {called(self.policy)}"

    def within(self, names: Sequence[str]) -> bool:
        """Return whether these columns include all that it needs."""
        return set(self.columns) <= set(names)

    def selected(self, frame: Any) -> Any:
        """Return the columns of a frame that it needs; raise an error if some are missing."""
        self.require(list(map(str, frame.columns)))
        return frame[list(self.columns)] if self.columns else frame

    def require(self, names: Sequence[str]) -> None:
        """Raise unless these columns include all that it needs."""
        absent = [each for each in self.columns if each not in names]
        if absent:
            raise PolicyError(
                f"{self.name} was fitted on the columns {listed(self.columns, 20)}. The log "
                f"has no {listed(absent, 20)} to give it; it has {listed(names, 20)}."
            )


def as_rule(policy: Any) -> Rule | None:
    """Return how to call a function, fitted model or `predict_proba`; None for other policies."""
    if isinstance(policy, OnFrame):
        return Rule(policy.function, policy.function, True)
    model: Any = getattr(policy, "__self__", None) if inspect.ismethod(policy) else policy
    if hasattr(model, "predict") and not hasattr(model, "probabilities"):
        by_law = getattr(policy, "__name__", "predict") == "predict_proba"
        names = tuple(map(str, getattr(model, "feature_names_in_", ())))
        frame = True if names else (False if hasattr(model, "n_features_in_") else None)
        ask = model.predict_proba if by_law else model.predict
        return Rule(model, ask, frame, names, getattr(model, "classes_", None) if by_law else None)
    if not callable(policy) or any(
        getattr(policy, name, None) is not None
        for name in ("probabilities", "sample", "n_actions", "state_names")
    ):
        return None
    return Rule(policy, policy, True if _annotated(policy) else None)


def _annotated(function: Any) -> bool:
    """Return whether the first parameter of a function is annotated as a data frame."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):
        return False
    return first is not None and "DataFrame" in str(first.annotation)


def wants_names(rule: Rule, states: FloatArray) -> bool:
    """Call a rule with a few states as an array, and return whether it needs column names instead.

    It needs a frame only if it fails in a way specific to arrays: a text index, a missing frame
    attribute, or scikit-learn's error about missing column names.
    """
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            rule.ask(states.copy())
        except AttributeError as error:
            return isinstance(error.obj, np.ndarray)
        except Exception as error:  # the evaluation will raise the rule's own errors again
            kinds, text = (IndexError, ValueError), str(error)
            return isinstance(error, kinds) and any(each in text for each in _NAMELESS)
    return any(_UNNAMED in str(each.message) for each in caught)


def on_rows(rule: Rule, log: Log) -> RowPolicy:
    """Evaluate a rule once on all rows of the log's table."""
    table = log.table_rows.table
    assert table is not None
    rule.require(table.names)
    pandas_module()
    frame = table.read(table.names).to_pandas(date_as_object=False)  # to compare dates with text
    hint, hidden = "", getattr(table, "hidden", {})
    if hidden:
        listed = ", ".join(f"{name} ({what})" for name, what in hidden.items())
        hint = f"Not among them, because no policy knows them before it acts: {listed}."
    with own_errors(rule.policy, columns=table.names, hint=hint):
        answers = rule.ask(rule.selected(frame))
    if rule.classes is not None:
        assert isinstance(log.action_space, Discrete)
        answers = law_by_name(np.asarray(answers), rule.classes, log.action_space, rule.name)
    return row_policy(answers, log, rule.name)


@dataclass(frozen=True, eq=False)
class OnStates:
    """A rule evaluated on states: as an array, or as a frame with the state names."""

    rule: Rule
    names: tuple[str, ...]
    frame: bool
    space: Any

    @property
    def __name__(self) -> str:
        return called(self.rule.policy)

    def __call__(self, states: FloatArray) -> Any:
        """Return the rule's actions, or probabilities in the log's order of actions."""
        given: Any = states
        if self.frame:
            frame = pandas_module().DataFrame(states, columns=list(self.names))
            given = self.rule.selected(frame)
        with own_errors(self.rule.policy, None if self.frame else states, columns=self.names):
            answers = self.rule.ask(given)
        if self.rule.classes is not None:
            classes, name = self.rule.classes, self.rule.name
            return law_by_name(np.asarray(answers), classes, self.space, name)
        if hasattr(answers, "columns") and isinstance(self.space, Discrete):
            return law_by_name(answers.to_numpy(), list(answers.columns), self.space, self.__name__)
        values = np.asarray(answers)
        return action_codes(values, self.space) if values.dtype.kind == "O" else values


def bind_rule(policy: Any, log: LogView) -> Any:
    """Return a rule bound to this log; other policies are returned unchanged."""
    rule = as_rule(policy)
    if rule is None:
        return policy
    frame = rule.frame
    if frame is None:
        blank = np.zeros((2, len(log.state_names)))
        frame = wants_names(rule, log.states[:2] if isinstance(log, Log) else blank)
    if isinstance(log, Log):
        table = log.table_rows.table
        if frame and table is not None:
            if rule.within(table.names):
                return on_rows(rule, log)
            if not rule.within(log.state_names):
                rule.require(table.names)
    if not frame and rule.ask is policy:
        return policy  # a function of an array needs no conversion
    return OnStates(rule, log.state_names, frame, log.action_space)


def pandas_module() -> Any:
    """Return pandas; raise an error if it is not installed."""
    try:
        import pandas
    except ModuleNotFoundError as error:
        raise PolicyError(
            "A rule over named columns gets a pandas frame, and pandas is not installed: "
            "pip install pandas. Or write the rule for an array of the states."
        ) from error
    return pandas


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
