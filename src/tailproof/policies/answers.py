"""Convert the output of policies (labels, codes, probabilities) to the log's action codes."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.spaces import Discrete
from tailproof.errors import PolicyError, did_you_mean, listed

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
