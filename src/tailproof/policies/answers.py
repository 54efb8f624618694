"""What policies answer, as codes and probabilities of a log: matched by label, never by place."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal, InvalidOperation

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.errors import PolicyError, did_you_mean, listed
from tailproof.log.spaces import Discrete

#: Code for no action: a missing value, or an action that the log does not have.
ABSENT = -1


def has_columns(answers: object) -> bool:
    """Return whether answers are a frame, whose columns are named."""
    return hasattr(answers, "columns") and hasattr(answers, "to_numpy")


def action_codes(answered: AnyArray, space: Discrete, *, who: str = "The policy") -> AnyArray:
    """Return a policy's actions as the log's action codes, in the same shape; −1 for missing values.

    Text is always a label. A whole number is a code, unless the log's labels are numbers: then it is
    a label. Ambiguous numbers raise an error, and so do true and false unless the log's labels are
    true and false, or 1 and 0. Other values are returned unchanged.
    """
    if answered.dtype.kind == "O":
        missing = np.array([is_missing(each) for each in answered.flat]).reshape(answered.shape)
        if missing.any() and not missing.all():
            codes = np.full(answered.shape, ABSENT)
            codes[~missing] = action_codes(_plain(answered[~missing]), space, who=who)
            return codes
        answered = _plain(answered)
    if answered.dtype.kind == "U":
        return _label_codes(answered, space, who)
    if answered.dtype.kind == "b":
        return _truth_codes(answered, space, who)
    whole_objects = answered.dtype.kind == "O" and all(isinstance(a, int) for a in answered.flat)
    if space.labels is None or not (answered.dtype.kind in "iuf" or whole_objects):
        return answered
    return _number_codes(answered, space, who)


def _number_codes(answered: AnyArray, space: Discrete, who: str) -> AnyArray:
    """Return the codes of numbers, which are labels if the log's labels are numbers, else codes.

    A number means the label that is written like it, or else the only one that is equal to it.
    """
    labels = space.names
    place = {label: code for code, label in enumerate(labels)}
    values = [_number(label) for label in labels]
    numbered = None not in values
    meant = answered.copy()
    finite = answered[np.isfinite(answered)] if answered.dtype.kind == "f" else answered
    for each in set(finite.flat) if answered.dtype.kind == "O" else np.unique(finite):
        exact = Decimal(str(each))  # a 32-bit 14.99 too
        equal = [code for code, value in enumerate(values) if value == exact]
        code = place.get(str(each), equal[0] if len(equal) == 1 else None)
        is_whole = exact == exact.to_integral_value()
        is_code = is_whole and 0 <= exact < space.n
        if code is None and (len(equal) > 1 or (numbered and (is_code or not is_whole))):
            raise PolicyError(
                f"{who} answered {each:g}, which is none of the log's actions, {listed(labels)}. "
                f"Answer with these."
            )
        if code is None or code == exact:
            continue
        if is_code:
            raise PolicyError(
                f"{who} answered {int(each)}, which may be the action labelled {labels[code]!r} or "
                f"the code of {labels[int(each)]!r}. Answer with labels as text, such as "
                f"{labels[code]!r}, or give probabilities(states)."
            )
        meant[answered == each] = code
    return meant


def _number(label: str) -> Decimal | None:
    """Return the number that a label spells, or None."""
    try:
        value = Decimal(label)
    except InvalidOperation:
        return None
    return value if value.is_finite() and label.isascii() else None


def probabilities_by_name(
    values: AnyArray, names: Sequence[object], space: Discrete, who: str
) -> FloatArray:
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
    kept = (codes >= 0) & (codes < space.n)
    if not kept.all() and (values[:, ~kept] > 0).any():
        odd = [str(name) for name, there in zip(names, kept, strict=True) if not there]
        raise PolicyError(
            f"{who} gives probabilities of {listed(odd)}, which the log does not have. It has "
            f"{listed(space.names)}; name the columns by these."
        )
    if len(set(codes[kept].tolist())) < kept.sum():
        raise PolicyError(
            f"{who} must give one column of probabilities for each action. Got "
            f"{listed(list(map(str, names)))}."
        )
    probabilities = np.zeros((len(values), space.n))
    probabilities[:, codes[kept]] = values[:, kept]
    return probabilities


def _plain(answered: AnyArray) -> AnyArray:
    """Return an object array as text, booleans or numbers, if all its entries are of one kind."""
    if all(isinstance(each, str) for each in answered.flat):
        return answered.astype(np.str_) if answered.size else answered
    if all(isinstance(each, bool | np.bool_) for each in answered.flat):
        return answered.astype(bool)
    if all(isinstance(each, int | np.integer) for each in answered.flat):
        small = all(abs(int(each)) < 2**63 for each in answered.flat)
        return answered.astype(np.int64) if small else answered
    if all(isinstance(each, int | float | np.number) for each in answered.flat):
        return answered.astype(float)
    return answered


def _truth_codes(answered: AnyArray, space: Discrete, who: str) -> IntArray:
    """Return the codes of the actions labelled true and false, or 1 and 0."""
    labels = space.names
    place = {label.lower(): code for code, label in enumerate(labels)}
    for no, yes in (("false", "true"), ("0", "1")):
        if no in place and yes in place:
            return np.where(answered, place[yes], place[no])
    raise PolicyError(_no_truth(who, "true and false", labels))


def require_no_flags(values: AnyArray, space: Discrete, who: str) -> None:
    """Raise if a column of a table, (n,), holds only 0 and 1 beside actions with other labels."""
    labels = space.names
    if space.labels is None or all(_number(label) is not None for label in labels):
        return
    if values.dtype.kind == "O":
        values = _plain(np.array([each for each in values if not is_missing(each)], dtype=object))
    if values.dtype.kind in "iuf" and np.isin(values, (0, 1)).all():
        raise PolicyError(_no_truth(who, "0 and 1", labels))


def _no_truth(who: str, what: str, labels: Sequence[str]) -> str:
    return (
        f"{who} answered with {what}, which do not say which action is meant. The log's "
        f"actions are {listed(labels)}; answer with these, as "
        f"numpy.where(condition, {labels[0]!r}, {labels[-1]!r}) does."
    )


def is_missing(value: object) -> bool:
    """Return whether a value is None, NaN or pandas' own kind of missing."""
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _label_codes(answered: AnyArray, space: Discrete, who: str) -> IntArray:
    """Return the codes of labels, by one comparison per label, which is faster than sorting."""
    place = {label: code for code, label in enumerate(space.names)}
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
