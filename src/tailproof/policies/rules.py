"""Rules and fitted models as policies: functions of a frame with the log's original columns."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.data.spaces import Discrete
from tailproof.data.view import LogView
from tailproof.errors import PolicyError, listed
from tailproof.policies.answers import action_codes, law_by_name
from tailproof.policies.blame import called, own_errors
from tailproof.policies.by_row import RowPolicy, row_policy

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
