"""Bind a policy to a log: states by encoder or name, actions by label, columns and arrays by row."""

from __future__ import annotations

import inspect
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray, as_array, count_of
from tailproof.errors import (
    LogError,
    PolicyError,
    TailproofWarning,
    did_you_mean,
    listed,
    require_module,
)
from tailproof.log.columns import EARLIER
from tailproof.log.log import Log, Origin, unnamed
from tailproof.log.spaces import ActionSpace, Discrete
from tailproof.log.validation import require_probabilities
from tailproof.policies.answers import (
    ABSENT,
    action_codes,
    has_columns,
    probabilities_by_name,
    require_no_flags,
)
from tailproof.policies.forms import (
    BoundPolicy,
    Column,
    EpsilonGreedy,
    Logged,
    MixedPolicy,
    Mixture,
    OnFrame,
    SampledPolicy,
    StatePolicy,
    StochasticPolicy,
    Uniform,
    is_deterministic,
    name_of,
    policy_errors,
)
from tailproof.policies.text import policy_from_text

if TYPE_CHECKING:
    from tailproof.io.encoder import Encoder

# Error messages of numpy and scikit-learn when code for a frame receives an array.
_NAMELESS = ("valid indices", "integer (or boolean) type", "only supported for dataframes")
_UNNAMED = "does not have valid feature names"


class Predictor(Protocol):
    """A fitted model of scikit-learn."""

    def predict(self, X: object) -> Any:
        """Return one action per state."""


#: Forms of a policy: a function of states, an object with ``probabilities`` or ``sample``, a column of
#: the log's table, an array with one action per row, a fitted model, or text as on the command line.
Policy = (
    Callable[[Any], Any]
    | StochasticPolicy
    | SampledPolicy
    | BoundPolicy
    | Column
    | Logged
    | OnFrame
    | Predictor
    | Sequence[Any]
    | npt.NDArray[Any]
    | str
)


#: Turns states of the log into those that a policy knows.
StatesOf = Callable[[FloatArray], Any]


def for_log(policy: Policy | None, log: Log) -> Any:
    """Return the policy as a `BoundPolicy` over the log's states and actions.

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
    >>> for_log(lambda states: ["buy"] * len(states), log).choose(log.states)
    array([1])
    """
    if policy is None:
        return None
    bound = _bound(policy, log)
    _require_available(bound, log)
    return bound


def _bound(policy: Any, log: Log) -> BoundPolicy:
    if getattr(policy, "past", None) is not None:  # a learned one, with a memory
        policy = policy.policy
    if isinstance(policy, str):
        policy = policy_from_text(policy, log.action_space)
    if isinstance(policy, Mixture):
        parts = tuple((share, _bound(part, log)) for share, part in policy.parts)
        return MixedPolicy(parts, log.action_space)
    if isinstance(policy, EpsilonGreedy):  # it explores all actions, available or not
        (share, part), (rest, explores) = policy.parts
        every = StatePolicy(explores, log.action_space)
        return MixedPolicy(((share, _bound(part, log)), (rest, every)), log.action_space)
    mask = log.table_rows.available
    if isinstance(policy, Uniform) and mask is not None:
        probabilities = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
        return RowPolicy("The uniform policy", log.action_space, probabilities)
    if isinstance(policy, RowPolicy):
        if len(policy.values) != log.table_rows.count:
            raise PolicyError(f"{policy.name} was made for another log.")
        return policy
    if isinstance(policy, BoundPolicy):
        return policy
    bound = _by_row(policy, log) or _by_rule(policy, log)
    if bound is None:
        bound = for_names(policy, log.state_names, log.action_space, encoder=log.encoder)
    elif isinstance(bound, RowPolicy):
        return bound
    return _with_kind_of_answer(bound, log)


def _with_kind_of_answer(bound: StatePolicy, log: Log) -> StatePolicy:
    """Return the policy, having asked a function about two rows whether it gives probabilities."""
    bound = replace(bound, state_names=bound.state_names or log.state_names)
    plain = callable(bound.policy) and is_deterministic(bound.policy) and log.is_discrete
    if not plain or getattr(bound.policy, "n_actions", None) is not None or log.n_actions < 2:
        return bound
    states = log.states[:2]
    try:
        answers = bound.policy(bound.given(states))
        shape = np.shape(answers)
    except Exception:  # the evaluation will raise it again
        return bound
    probabilities = shape == (len(states), log.n_actions) or (
        has_columns(answers) and len(shape) > 1
    )
    return replace(bound, gives_probabilities=probabilities)


def for_names(
    policy: object,
    state_names: Sequence[str],
    space: ActionSpace,
    *,
    encoder: Encoder | None = None,
) -> StatePolicy:
    """Bind a policy to states of these names (() for none), of this encoder, and these actions.

    A policy may have the attributes ``encoder`` or ``state_names`` of the log that it was made for, and
    ``n_actions`` and ``action_labels`` of its own actions: it then gets the states that it knows, and
    its actions are matched by label.
    """
    own = getattr(policy, "encoder", None)
    states_of: StatesOf | None
    if own is not None and encoder is not None:
        states_of = None
        if own.variables != encoder.variables:
            try:
                own.require_translation(encoder)
            except LogError as error:
                raise PolicyError(
                    f"The policy was made for the state variables {listed(own.state_names)}. {error}"
                ) from error
            states_of = partial(_translated, own, encoder)
    else:
        states_of = _selection(tuple(getattr(policy, "state_names", ())), tuple(state_names))
    codes = None
    if isinstance(space, Discrete) and getattr(policy, "n_actions", None) is not None:
        codes = _codes(policy, space)
    return StatePolicy(policy, space, states_of=states_of, codes=codes)


def _translated(own: Encoder, theirs: Encoder, states: FloatArray) -> FloatArray:
    """Return the states of the policy's encoder, (n, p'), for those of the log's, (n, p)."""
    try:
        return own.translate(states, theirs)
    except LogError as error:
        raise PolicyError(f"The policy does not know all states of this log. {error}") from error


def _selected(places: tuple[int, ...], states: FloatArray) -> FloatArray:
    """Return some of the state variables, in another order, (n, p')."""
    return states[:, list(places)]


def _framed(rule: Rule, names: tuple[str, ...], states: FloatArray) -> Any:
    """Return states as a pandas frame, or by name where pandas is missing."""
    if rule.takes_mappings:
        return dict(zip(names, states.T.copy(), strict=True))
    return _pandas().DataFrame(states, columns=list(names))


def _pandas() -> Any:
    return require_module("pandas", "pandas", "A policy that takes a frame", PolicyError)


def _selection(own: tuple[str, ...], names: tuple[str, ...]) -> StatesOf | None:
    """Return the log's columns of the policy's state variables; None if they are the same."""
    if not own or not names or own == names:
        return None
    if unnamed(own) or unnamed(names):
        if len(own) != len(names):
            raise PolicyError(
                f"The policy was made for {len(own)} state variables, {listed(own)}. The log has "
                f"{len(names)}: {listed(names)}.{_kept(own)}"
            )
        return None
    if absent := [name for name in own if name not in names]:
        raise PolicyError(
            f"The policy was made for the state variables {listed(own)}. The log has no "
            f"{listed(absent)}; it has {listed(names)}.{_kept(absent)}"
        )
    return partial(_selected, tuple(names.index(name) for name in own))


def _kept(absent: Sequence[str]) -> str:
    """Return how to add averages of the episode so far to a log, if those are absent."""
    if not absent[-1].startswith(EARLIER):
        return ""
    return (
        " The averages of earlier steps are no columns of the log: give learned.past.added_to(log) in "
        "place of the log, or use Learned.load(file).evaluate(log)."
    )


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


def _require_available(policy: BoundPolicy, log: Log) -> None:
    """Raise if the policy takes an action in a row where it is not available."""
    origin = log.table_rows
    if origin.available is None:
        return
    alive = np.flatnonzero(~log.terminated & (origin.next_rows >= 0))
    rows = np.concatenate([origin.rows, origin.next_rows[alive]])
    states = np.concatenate([log.states, log.next_states[alive]])
    wrong = (policy.probabilities(states, rows) > 1e-9) & ~origin.available[rows]
    if wrong.any():
        at, action = (int(each[0]) for each in np.nonzero(wrong))
        label = log.action_space.label(action)  # type: ignore[union-attr]
        raise PolicyError(
            f"The policy takes {label!r} in row {int(rows[at])} (the first row is 0), where it was not "
            f"available ({count_of(len(np.unique(rows[wrong.any(axis=1)])))}). Let it choose among the "
            f"actions that are."
        )


@dataclass(frozen=True, eq=False)
class RowPolicy(BoundPolicy):
    """A policy given by row of the log's table; `name` is used in messages."""

    name: str
    space: ActionSpace
    values: AnyArray  # (N,) action codes, (N, A) probabilities, or (N, q) continuous actions

    @property
    def deterministic(self) -> bool:
        """Whether it takes one action in each row."""
        return not isinstance(self.space, Discrete) or self.values.ndim == 1

    def answer(self, states: FloatArray, rows: IntArray | None) -> AnyArray:  # noqa: ARG002
        """Return the actions or probabilities in these rows."""
        if rows is None:
            raise PolicyError(
                f"{self.name} says what to do in the rows of the log and nowhere else. Other initial "
                f"states, simulations and logs that stay on disk need a function of the states."
            )
        return self.values[
            np.maximum(rows, 0)
        ]  # −1 is a terminal next state, whose action is not used


def _by_row(policy: Any, log: Log) -> RowPolicy | None:
    """Return a column, array or logging policy as a policy by row; None for other policies."""
    if isinstance(policy, Logged):
        return _logged(log)
    if isinstance(policy, Column):
        return _column(policy.name, log)
    plain = isinstance(policy, np.ndarray | list | tuple)
    sized = hasattr(policy, "__array__") and hasattr(policy, "__len__") and not callable(policy)
    if not (plain or sized):
        return None
    origin, name = log.table_rows, f"The {type(policy).__name__}"
    if len(policy) != origin.count:
        raise PolicyError(
            f"{name} of what the policy does must have an entry for each of the {origin.count} rows of "
            f"the log's table. Got {len(policy)}."
        )
    require_index(policy, origin, PolicyError)
    return row_policy(policy, log, name, of_table=not plain)


def row_policy(
    answers: Any,
    log: Log,
    name: str,
    *,
    of_table: bool = False,
    names: Sequence[Any] | None = None,
    places: IntArray | None = None,
) -> RowPolicy:
    """Return the policy with these actions or probabilities for each row of the table, checked.

    `of_table` says that they are a column, in which 0 and 1 are more likely flags than codes; `names`
    are the actions of columns of probabilities. `places`, (N,), is given where the actions are the
    distinct ones of a column: which of them is in each row.
    """
    if has_columns(answers) and len(answers.columns) > 1:
        names = list(answers.columns)
    count, space = log.table_rows.count, log.action_space
    values = as_array(name, answers, PolicyError)
    every = slice(None) if places is None else places
    if (places is None and len(values) != count) or values.ndim > 2:
        raise PolicyError(
            f"{name} must answer for each of the {count} rows. Got the shape {values.shape}."
        )
    if not isinstance(space, Discrete):
        reals = values.astype(float).reshape(len(values), -1)[every]
        _require_known(np.isnan(reals).any(axis=1), log, name)
        return RowPolicy(name, space, reals)
    if names is not None or (values.ndim == 2 and values.shape[1] > 1):
        return _probabilities(values, names, log, name)
    if of_table:
        require_no_flags(values.ravel(), space, name)
    codes = action_codes(values.ravel(), space, who=name)
    if codes.dtype.kind == "f":
        codes = np.where(np.isnan(codes), ABSENT, codes)
    wrong = (codes.dtype.kind not in "iubf") or (codes != np.round(codes)).any()
    if wrong or (codes >= space.n).any() or (codes < ABSENT).any():
        labels = listed(space.names)
        odd = values.ravel()[np.argmax((codes >= space.n) | (codes < ABSENT))]
        raise PolicyError(f"{name} must answer with the log's actions, {labels}. Got {odd!r}.")
    codes = codes.astype(np.intp)[every]
    _require_known(codes == ABSENT, log, name)
    return RowPolicy(name, space, codes)


def _column(pattern: str, log: Log) -> RowPolicy:
    origin, name = log.table_rows, f"Column {pattern!r}"
    if origin.table is None:
        raise PolicyError(
            f"{name}: this log was made of arrays and has no other columns. Pass the array of actions "
            f"itself, or read the log from a table."
        )
    there = origin.table.names
    if "*" not in pattern:
        if pattern not in there:
            raise PolicyError(_no_column(pattern, origin))
        from tailproof.io.values import distinct_values  # imports pyarrow

        distinct, places = distinct_values(origin.table.read([pattern], [pattern]).column(0))
        return row_policy(distinct, log, name, of_table=True, places=places)
    form = re.compile("(.+)".join(map(re.escape, pattern.split("*", 1))), re.DOTALL)
    found = {each: match[1] for each in there if (match := form.fullmatch(each))}
    if not found:
        raise PolicyError(f"No column matches {pattern!r}. The log has: {listed(there, 20)}.")
    table = origin.table.read(list(found))
    columns = {label: table[name].to_pylist() for name, label in found.items()}
    return row_policy(np.column_stack([*columns.values()]), log, name, names=[*columns])


def _no_column(name: str, origin: Origin) -> str:
    assert origin.table is not None
    if said := origin.table.hidden.get(name):
        advice = " Write logged for the policy that logged." if said == "the action" else ""
        return f"Column {name!r} is {said}: no policy knows it before it acts.{advice}"
    there = origin.table.names
    return (
        f"There is no column {name!r} for the policy. The log has: {listed(there, 20)}."
        f"{did_you_mean(name, there)}"
    )


def _probabilities(values: AnyArray, names: Sequence[Any] | None, log: Log, name: str) -> RowPolicy:
    assert isinstance(log.action_space, Discrete)
    try:
        probabilities = values.astype(float)
    except ValueError as error:
        raise PolicyError(f"{name} must hold probabilities, that is numbers. {error}.") from error
    if names is not None:
        probabilities = probabilities_by_name(probabilities, names, log.action_space, name)
    if probabilities.shape[1] != log.n_actions:
        raise PolicyError(
            f"{name} must give a probability for each of the {log.n_actions} actions, "
            f"{listed(log.action_space.names)}. Got "
            f"{probabilities.shape[1]} columns."
        )
    _require_known(np.isnan(probabilities).any(axis=1), log, name)
    probabilities = np.nan_to_num(probabilities)
    sums, used, whose = probabilities.sum(axis=1), _used(log), f"{name[0].lower()}{name[1:]}"
    require_probabilities(f"The probabilities of {whose}", probabilities, used, PolicyError)
    if (np.abs(sums - 1)[used] > 1e-6).any():
        warnings.warn(
            f"The probabilities of {whose} add up to 1 only nearly, as if they "
            f"were rounded; they were divided by their sums.",
            TailproofWarning,
            stacklevel=2,
        )
    return RowPolicy(name, log.action_space, probabilities / np.where(sums > 0, sums, 1)[:, None])


def _used(log: Log) -> BoolArray:
    """Return which table rows are states or next states of the log, (N,)."""
    used = np.zeros(log.table_rows.count, dtype=bool)
    alive = log.table_rows.next_rows[~log.terminated]
    used[log.table_rows.rows] = True
    used[alive[alive >= 0]] = True
    return used


def _require_known(unknown: BoolArray, log: Log, name: str) -> None:
    """Raise if the policy is undefined in a state or next state of the log."""
    beyond = int(((log.table_rows.next_rows < 0) & ~log.terminated).sum())
    if beyond:
        raise PolicyError(
            f"{name} says what to do in rows of the log, but the next states of {beyond} steps are not "
            f"rows of the table. Pass next_state=False to take next states from the rows, "
            f"terminated=True if episodes end there, or write the policy as a function of the states."
        )
    missing = unknown & _used(log)
    if missing.any():
        raise PolicyError(
            f"{name} is missing in {int(missing.sum())} rows, the first of them row "
            f"{int(missing.argmax())} (the first row is 0): say what the policy does there."
        )


def require_index(values: object, origin: Origin, error: type[Exception]) -> None:
    """Raise if the index of a pandas Series or frame differs from that of the log's table."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(values, pandas.Series | pandas.DataFrame):
        return
    plain = pandas.RangeIndex(origin.count)
    expected = plain if origin.index is None else origin.index
    if not (values.index.equals(expected) or (origin.table is None and values.index.equals(plain))):
        raise error(
            f"The {type(values).__name__} has other row labels (its index) than the log's table, so "
            f"that its rows may be in another order. Reindex it, or pass its values (.to_numpy()) if "
            f"they are in the order of the log's rows."
        )


def _logged(log: Log) -> RowPolicy:
    from tailproof.critics.behaviour import behaviour_probabilities  # imports scikit-learn

    if not log.is_discrete:
        raise PolicyError("logged, as a policy, needs discrete actions. These are continuous.")
    origin = log.table_rows
    probabilities, after = behaviour_probabilities(log)
    table = np.full((origin.count, log.n_actions), 1 / log.n_actions)
    known = origin.next_rows >= 0
    table[origin.next_rows[known]] = after[known]
    table[origin.rows] = probabilities
    if origin.available is not None:
        table *= origin.available
        table /= np.maximum(table.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return RowPolicy("The logged policy", log.action_space, table)


@dataclass(frozen=True, eq=False)
class Rule:
    """A function or model, how to ask it, and the input that it needs."""

    policy: Any
    space: ActionSpace
    ask: Callable[[Any], Any]
    frame: bool | None  # whether it needs a frame; None if unknown until it is called
    columns: tuple[str, ...] = ()  # columns it needs, in this order; all columns if empty
    classes: Any = None  # actions of the columns of its output

    @property
    def __name__(self) -> str:
        return name_of(self.policy)

    @property
    def __wrapped__(self) -> Any:
        return self.policy  # where errors of its own are looked for

    @classmethod
    def of(cls, policy: object, space: ActionSpace) -> Rule | None:
        """Return how to call a function, fitted model or `predict_proba`; None for other policies."""
        if isinstance(policy, OnFrame):
            return cls(policy.function, space, policy.function, True)
        model: Any = getattr(policy, "__self__", None) if inspect.ismethod(policy) else policy
        if hasattr(model, "predict") and not hasattr(model, "probabilities"):
            gives_probabilities = getattr(policy, "__name__", "predict") == "predict_proba"
            names = tuple(map(str, getattr(model, "feature_names_in_", ())))
            frame = True if names else (False if hasattr(model, "n_features_in_") else None)
            ask = model.predict_proba if gives_probabilities else model.predict
            classes = getattr(model, "classes_", None) if gives_probabilities else None
            return cls(model, space, ask, frame, names, classes)
        if not callable(policy) or any(
            getattr(policy, name, None) is not None
            for name in ("probabilities", "sample", "n_actions", "state_names")
        ):
            return None
        return cls(policy, space, policy, True if _annotated(policy) else None)

    @property
    def takes_mappings(self) -> bool:
        """Whether it gets arrays by name: pandas is missing, and it does not ask for a frame."""
        return self.frame is None and find_spec("pandas") is None

    def within(self, names: Sequence[str]) -> bool:
        """Return whether these columns include all that it needs."""
        return set(self.columns) <= set(names)

    def require(self, names: Sequence[str]) -> None:
        """Raise unless these columns include all that it needs."""
        absent = [each for each in self.columns if each not in names]
        if absent:
            raise PolicyError(
                f"The policy {name_of(self)} was fitted on {listed(self.columns, 20)}. The log "
                f"has no {listed(absent, 20)} to give it; it has {listed(names, 20)}."
            )

    def __call__(self, given: Any) -> Any:
        """Return what it answers to a frame or an array; probabilities by class in the log's order."""
        if has_columns(given) and self.columns:
            self.require(list(map(str, given.columns)))
            given = given[list(self.columns)]
        rows = getattr(given, "index", None)  # a rule may change the frame
        answers = self.ask(given)
        if isinstance(answers, Iterator):
            answers = list(answers)
        answers = self._in_order(answers, rows)
        if self.classes is None or has_columns(answers):
            return answers
        assert isinstance(self.space, Discrete)
        return probabilities_by_name(
            np.asarray(answers), self.classes, self.space, f"The policy {name_of(self)}"
        )

    def _in_order(self, answers: Any, rows: Any) -> Any:
        """Return a Series or frame of answers in the order of the rows asked about, by its index."""
        pandas = sys.modules.get("pandas")
        if pandas is None or not isinstance(answers, pandas.Series | pandas.DataFrame):
            return answers
        if not isinstance(rows, pandas.Index) or answers.index.equals(rows):
            return answers
        if answers.index.names == rows.names and len(answers) == len(rows):
            places = answers.index.get_indexer(rows) if answers.index.is_unique else np.array([-1])
            if (places >= 0).all():
                return answers.iloc[places]
        raise PolicyError(
            f"The policy {name_of(self)} answered with a {type(answers).__name__} whose row labels "
            f"(its index) are not those of the frame it got, so that its rows may be in another order. "
            f"Reindex it, or return its values (.to_numpy()) if they are in the order of the rows."
        )


def _annotated(function: Any) -> bool:
    """Return whether the first parameter of a function is annotated as a data frame."""
    try:
        first = next(iter(inspect.signature(function).parameters.values()), None)
    except (TypeError, ValueError):
        return False
    return first is not None and "DataFrame" in str(first.annotation)


def _wants_names(rule: Rule, states: FloatArray) -> bool:
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


def _by_rule(policy: Any, log: Log) -> RowPolicy | StatePolicy | None:
    """Return a function or model bound to this log; None for other policies."""
    rule = Rule.of(policy, log.action_space)
    if rule is None:
        return None
    frame = rule.frame
    if frame is None:
        frame = _wants_names(rule, log.states[:2])
    table = log.table_rows.table
    if frame and table is not None:
        if rule.within(table.names):
            return _on_rows(rule, log)
        if not rule.within(log.state_names):
            rule.require(table.names)
    if not frame and rule.ask is policy:
        return StatePolicy(policy, log.action_space)  # a function of an array needs no conversion
    framed = partial(_framed, rule, log.state_names) if frame else None
    return StatePolicy(rule, log.action_space, states_of=framed)


def _on_rows(rule: Rule, log: Log) -> RowPolicy:
    """Evaluate a rule once on all rows of the log's table."""
    table = log.table_rows.table
    assert table is not None
    rule.require(table.names)
    texts = () if log.encoder is None else log.encoder.texts
    read = table.read(table.names, [name for name in texts if name in table.names])
    hint = ""
    if table.hidden:
        shown = ", ".join(f"{name} ({what})" for name, what in table.hidden.items())
        hint = f"Not among them, because no policy knows them before it acts: {shown}."
    frame: Any
    if rule.takes_mappings:
        from tailproof.io.values import unwrapped

        frame = {name: unwrapped(read[name]).to_numpy() for name in table.names}
        hint += " Without pandas a rule gets a dictionary of arrays by column; with it, a frame."
    else:
        _pandas()
        frame = read.to_pandas(date_as_object=False)  # to compare dates with text
    with policy_errors(rule.policy, columns=table.names, hint=hint.strip()):
        answers = rule(frame)
    return row_policy(answers, log, f"The policy {name_of(rule)}")
