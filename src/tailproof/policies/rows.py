"""Policies defined per row of the log's table, and answers converted to action codes."""

from __future__ import annotations

import re
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.errors import PolicyError, TailproofWarning, did_you_mean, listed
from tailproof.log.log import Log, LogView, Origin
from tailproof.log.spaces import Discrete
from tailproof.log.validation import require_laws

#: Code for no action: a missing value, or an action that the log does not have.
ABSENT = -1
_NUMBER = re.compile(r"-?\d+(\.\d+)?(e[+-]?\d+)?", re.ASCII)


def labels_of(space: Discrete) -> list[str]:
    """Return the log's action labels, by code."""
    return [space.label(code) for code in range(space.n)]


def action_codes(answered: AnyArray, space: Discrete, *, who: str = "The policy") -> AnyArray:
    """Return a policy's actions as the log's action codes, in the same shape; −1 for missing values.

    Text is always a label. A whole number is a code, unless the log's labels are numbers: then it is
    a label. Ambiguous numbers raise an error, and so do true and false unless the log's labels are
    true and false, or 1 and 0. Other values are returned unchanged.
    """
    if answered.dtype.kind == "O":
        missing = np.array([_is_missing(each) for each in answered.flat]).reshape(answered.shape)
        if missing.any() and not missing.all():
            codes = np.full(answered.shape, ABSENT)
            codes[~missing] = action_codes(_plain(answered[~missing]), space, who=who)
            return codes
        answered = _plain(answered)
    if answered.dtype.kind == "U":
        return _label_codes(answered, space, who)
    if answered.dtype.kind == "b":
        return _truth_codes(answered, space, who)
    if space.labels is None or answered.dtype.kind not in "iuf":
        return answered
    labels = labels_of(space)
    place = {float(label): code for code, label in enumerate(labels) if _NUMBER.fullmatch(label)}
    numbered = len(place) == len(labels)
    meant = answered.copy()
    for each in np.unique(answered[np.isfinite(answered)]):
        code = place.get(float(str(each)))  # a 32-bit 14.99 too
        is_code = 0 <= each < space.n and each == int(each)
        if code is None and numbered and (is_code or each != int(each)):
            raise PolicyError(
                f"{who} answered {each:g}, which is none of the log's actions, {listed(labels)}. "
                f"Answer with these."
            )
        if code is None or code == each:
            continue
        if is_code:
            raise PolicyError(
                f"{who} answered {int(each)}, which may be the action labelled {labels[code]!r} or "
                f"the code of {labels[int(each)]!r}. Answer with labels as text, such as "
                f"{labels[code]!r}, or give probabilities(states)."
            )
        meant[answered == each] = code
    return meant


def law_by_name(values: FloatArray, names: Sequence[Any], space: Discrete, who: str) -> FloatArray:
    """Return probabilities with columns named by action, in the log's order of actions, (n, A).

    Actions without a column have probability 0; columns of actions that the log lacks must be 0.
    """
    codes = np.full(len(names), ABSENT)
    for j, name in enumerate(names):
        try:
            codes[j] = int(action_codes(np.array([name]), space, who=who)[0])
        except PolicyError:
            if (values[:, j] > 0).any():
                raise
    law = np.zeros((len(values), space.n))
    kept = (codes >= 0) & (codes < space.n)
    law[:, codes[kept]] = values[:, kept]
    return law


def _plain(answered: AnyArray) -> AnyArray:
    """Return an object array as text, booleans or numbers, if all its entries are of one kind."""
    if all(isinstance(each, str) for each in answered.flat):
        return answered.astype(np.str_) if answered.size else answered
    if all(isinstance(each, bool | np.bool_) for each in answered.flat):
        return answered.astype(bool)
    if all(isinstance(each, int | float | np.number) for each in answered.flat):
        return answered.astype(float)
    return answered


def _truth_codes(answered: AnyArray, space: Discrete, who: str) -> IntArray:
    """Return the codes of the actions labelled true and false, or 1 and 0."""
    labels = labels_of(space)
    place = {label.lower(): code for code, label in enumerate(labels)}
    for no, yes in (("false", "true"), ("0", "1")):
        if no in place and yes in place:
            return np.where(answered, place[yes], place[no])
    first, second = labels[0], labels[-1]
    raise PolicyError(
        f"{who} answered with true and false, which do not say which action is meant. The log's "
        f"actions are {listed(labels)}; answer with these, as "
        f"numpy.where(condition, {first!r}, {second!r}) does."
    )


def _is_missing(value: Any) -> bool:
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _label_codes(answered: AnyArray, space: Discrete, who: str) -> IntArray:
    """Return the codes of labels, by one comparison per label, which is faster than sorting."""
    place = {label: code for code, label in enumerate(labels_of(space))}
    codes = np.full(answered.shape, ABSENT, dtype=np.intp)
    while (left := codes == ABSENT).any():
        label = str(answered[left][0])
        if label not in place:
            raise PolicyError(
                f"{who} must answer with the log's actions, {listed(list(place))}. Got {label!r}."
                f"{did_you_mean(label, list(place))}"
            )
        codes[left & (answered == label)] = place[label]
    return codes


@dataclass(frozen=True)
class Column:
    """The policy in a column of the log's table: its action in each row.

    The name of a column with actions, or a pattern such as ``"p_*"`` for one column of probabilities
    per action, where the star is the action's label. In logs with several steps, the policy's action
    in the next state is that of the next row of the episode.

    Examples
    --------
    >>> from tailproof import evaluate, read_log
    >>> table = {"action": ["a", "b"] * 50, "reward": [1.0, 3.0] * 50, "new": ["b"] * 100}
    >>> round(evaluate(read_log(table), Column("new")).value, 6)
    3.0
    """

    name: str


@dataclass(frozen=True)
class Logged:
    """The logging policy, estimated by a classifier; logged propensities are kept."""


@dataclass(frozen=True, eq=False)
class RowPolicy:
    """A policy defined per row of a table with `count` rows; `name` is used in messages."""

    name: str
    count: int

    def places(self, rows: IntArray | None) -> IntArray:
        """Return the rows; raise an error if there are none."""
        if rows is None:
            raise PolicyError(
                f"{self.name} says what to do in the rows of the log and nowhere else. Other initial "
                f"states, simulations and logs that stay on disk need a function of the states."
            )
        return np.maximum(rows, 0)  # −1 is a terminal next state, whose action is not used


@dataclass(frozen=True, eq=False)
class RowChoice(RowPolicy):
    """One action per row."""

    actions: AnyArray  # (N,) codes, or (N, q) reals

    def choose_at(self, states: FloatArray, rows: IntArray | None) -> AnyArray:  # noqa: ARG002
        """Return the actions in these rows, (n,) or (n, q)."""
        chosen: AnyArray = self.actions[self.places(rows)]
        return chosen

    def __call__(self, states: FloatArray) -> AnyArray:
        """Raise: the policy is defined only at rows of the log."""
        return self.choose_at(states, None)


@dataclass(frozen=True, eq=False)
class RowLaw(RowPolicy):
    """A distribution over the log's actions per row."""

    law: FloatArray  # (N, A)

    def law_at(self, states: FloatArray, rows: IntArray | None) -> FloatArray:  # noqa: ARG002
        """Return π(a | row), (n, A)."""
        chosen: FloatArray = self.law[self.places(rows)]
        return chosen

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Raise: the policy is defined only at rows of the log."""
        return self.law_at(states, None)


def by_row(policy: Any, log: LogView) -> RowPolicy | None:
    """Return a column, array or logging policy as a policy per row; None for other policies."""
    if isinstance(policy, Logged):
        return _logged(require_rows(log, "logged"))
    if isinstance(policy, Column):
        return _column(policy.name, require_rows(log, f"Column({policy.name!r})"))
    if not is_answers(policy):
        return None
    known = require_rows(log, "An array")
    origin, name = known.table_rows, f"The {type(policy).__name__}"
    if len(policy) != origin.count:
        raise PolicyError(
            f"{name} of what the policy does must have an entry for each of the {origin.count} rows of "
            f"the log's table. Got {len(policy)}."
        )
    _require_index(policy, origin)
    return row_policy(policy, known, name)


def is_answers(policy: Any) -> bool:
    """Return whether this is not a policy but an array or Series of its actions, one per row."""
    plain = isinstance(policy, np.ndarray | list | tuple)
    sized = hasattr(policy, "__array__") and hasattr(policy, "__len__")
    return plain or (sized and not callable(policy))


def row_policy(answers: Any, log: Log, name: str) -> RowPolicy:
    """Return the policy with these actions or probabilities per table row, checked."""
    count, space = log.table_rows.count, log.action_space
    named = getattr(answers, "columns", None)
    values = np.asarray(answers)
    if len(values) != count or values.ndim > 2:
        raise PolicyError(
            f"{name} must answer for each of the {count} rows. Got the shape {values.shape}."
        )
    if not isinstance(space, Discrete):
        reals = values.astype(float).reshape(count, -1)
        _require_known(np.isnan(reals).any(axis=1), log, name)
        return RowChoice(name, count, reals)
    if values.ndim == 2 and values.shape[1] > 1:
        return _as_law(values, None if named is None else list(named), log, name)
    codes = action_codes(values.reshape(count), space, who=name)
    if codes.dtype.kind == "f":
        codes = np.where(np.isnan(codes), ABSENT, codes)
    wrong = (codes.dtype.kind not in "iubf") or (codes != np.round(codes)).any()
    if wrong or (codes >= space.n).any() or (codes < ABSENT).any():
        labels = listed(labels_of(space))
        odd = values.reshape(count)[np.argmax((codes >= space.n) | (codes < ABSENT))]
        raise PolicyError(f"{name} must answer with the log's actions, {labels}. Got {odd!r}.")
    codes = codes.astype(np.intp)
    _require_known(codes == ABSENT, log, name)
    return RowChoice(name, count, codes)


def require_rows(log: LogView, who: str) -> Log:
    """Return the log; raise an error if it is not in memory."""
    if isinstance(log, Log):
        return log
    raise PolicyError(
        f"{who} is a policy by row, which needs the log in memory. Read it with lazy=False, or write "
        f"the policy as a function of the states."
    )


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
        values = origin.table.read([pattern]).column(0).to_pylist()
        return row_policy(np.array(values, dtype=object), log, name)
    form = re.compile("(.+)".join(map(re.escape, pattern.split("*", 1))), re.DOTALL)
    found = {each: match[1] for each in there if (match := form.fullmatch(each))}
    if not found:
        raise PolicyError(f"No column matches {pattern!r}. The log has: {listed(there, 20)}.")
    columns = origin.table.read(list(found)).columns
    try:
        law = np.column_stack([np.array(each.to_pylist(), dtype=float) for each in columns])
    except ValueError as error:
        raise PolicyError(
            f"The columns {listed(list(found))} must hold probabilities, that is numbers. {error}."
        ) from error
    return _as_law(law, list(found.values()), log, name)


def _no_column(name: str, origin: Origin) -> str:
    assert origin.table is not None
    if said := getattr(origin.table, "hidden", {}).get(name):
        advice = " Write logged for the policy that logged." if said == "the action" else ""
        return f"Column {name!r} is {said}: no policy knows it before it acts.{advice}"
    there = origin.table.names
    return (
        f"There is no column {name!r} for the policy. The log has: {listed(there, 20)}."
        f"{did_you_mean(name, there)}"
    )


def _as_law(values: AnyArray, names: Sequence[Any] | None, log: Log, name: str) -> RowPolicy:
    assert isinstance(log.action_space, Discrete)
    law = values.astype(float)
    if names is not None:
        law = law_by_name(law, names, log.action_space, name)
    if law.shape[1] != log.n_actions:
        raise PolicyError(
            f"{name} must give a probability for each of the {log.n_actions} actions, "
            f"{listed(labels_of(log.action_space))}. Got "
            f"{law.shape[1]} columns."
        )
    _require_known(np.isnan(law).any(axis=1), log, name)
    law = np.nan_to_num(law)
    sums, used, whose = law.sum(axis=1), _used(log), f"{name[0].lower()}{name[1:]}"
    require_laws(f"The probabilities of {whose}", law, used, PolicyError)
    if (np.abs(sums - 1)[used] > 1e-6).any():
        warnings.warn(
            f"The probabilities of {whose} add up to 1 only nearly, as if they "
            f"were rounded; they were divided by their sums.",
            TailproofWarning,
            stacklevel=2,
        )
    return RowLaw(name, len(law), law / np.where(sums > 0, sums, 1)[:, None])


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
            f"{name} says what to do in rows of the log, but what follows {beyond} of its steps stands "
            f"in no row. Pass next_state=False to take next states from the rows, terminated=True if "
            f"episodes end there, or write the policy as a function of the states."
        )
    missing = unknown & _used(log)
    if missing.any():
        raise PolicyError(
            f"{name} is missing in {int(missing.sum())} rows, the first of them row "
            f"{int(missing.argmax())} (the first row is 0): say what the policy does there."
        )


def _require_index(policy: Any, origin: Origin) -> None:
    """Raise if the index of a pandas Series or frame differs from that of the log's frame."""
    pandas = sys.modules.get("pandas")
    if pandas is None or not isinstance(policy, pandas.Series | pandas.DataFrame):
        return
    plain = pandas.RangeIndex(origin.count)
    expected = plain if origin.index is None else origin.index
    if not (policy.index.equals(expected) or (origin.table is None and policy.index.equals(plain))):
        raise PolicyError(
            f"The {type(policy).__name__} has other row labels (its index) than the log's table, so "
            f"that its rows may be in another order. Reindex it, or pass its values (.to_numpy()) if "
            f"they stand in the order of the log's rows."
        )


def _logged(log: Log) -> RowLaw:
    from tailproof.critics.behaviour import behaviour_law  # imports scikit-learn

    if not log.is_discrete:
        raise PolicyError("logged, as a policy, needs discrete actions. These are continuous.")
    origin = log.table_rows
    law, after = behaviour_law(log)
    table = np.full((origin.count, log.n_actions), 1 / log.n_actions)
    known = origin.next_rows >= 0
    table[origin.next_rows[known]] = after[known]
    table[origin.rows] = law
    if origin.available is not None:
        table *= origin.available
        table /= np.maximum(table.sum(axis=1, keepdims=True), np.finfo(float).tiny)
    return RowLaw("The logged policy", origin.count, table)
