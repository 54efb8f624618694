"""Array types, and the checks that all public functions share."""

from collections.abc import Callable
from functools import wraps
from typing import Any, SupportsInt

import numpy as np
import numpy.typing as npt

from tailproof.errors import TailproofError

FloatArray = npt.NDArray[np.floating[Any]]
IntArray = npt.NDArray[np.integer[Any]]
BoolArray = npt.NDArray[np.bool_]
AnyArray = npt.NDArray[Any]
#: Some rows of an array.
RowIndex = slice | npt.NDArray[np.integer[Any]] | npt.NDArray[np.bool_]


def as_array(name: str, values: object, error: type[TailproofError]) -> AnyArray:
    """Return `values` as an array; raise `error` if any entry is masked, that is missing."""
    if isinstance(values, np.ma.MaskedArray) and np.ma.getmaskarray(values).any():
        masked = np.ma.getmaskarray(values)
        row = int(np.argwhere(masked)[0][0]) if masked.ndim else 0
        raise error(
            f"{name} has {int(masked.sum())} masked entries, the first at row {row}: they are missing. "
            f"Drop or impute these rows before building the log."
        )
    try:
        return np.asarray(values)
    except ValueError as differ:
        raise error(f"The rows of {name} differ in length. Give all as many entries.") from differ


def order_by(*keys: AnyArray) -> IntArray:
    """Return the order of rows by keys, the last one first, as `np.lexsort` does.

    If the last key has no ties, no other is looked at: with many keys that takes most of the time.
    """
    order = np.argsort(keys[-1], kind="stable")
    last = keys[-1][order]
    return order if (last[1:] != last[:-1]).all() else np.lexsort(keys)


def count_of(rows: SupportsInt) -> str:
    """Return a number of rows in words: "1 such row", "3 such rows"."""
    return f"{int(rows)} such row{'' if rows == 1 else 's'}"


def refuse_rows(
    bad: BoolArray,
    rule: str,
    advice: str,
    error: type[TailproofError],
    *,
    values: Any = None,
    row_of: Callable[[int], int] = int,
) -> None:
    """Raise `error` if some rows, (n,), break a rule; name the first, its value, and how many do.

    `row_of` gives the number of a row in the file, if the rows were moved.
    """
    if not bad.any():
        return
    at = int(bad.argmax())
    said = f"row {row_of(at)} ({count_of(bad.sum())}; the first row is 0)"
    if values is None:
        raise error(f"{rule}. This does not hold in {said}; {advice}.")
    value = values[at]  # of NumPy or of Arrow
    value = value.as_py() if hasattr(value, "as_py") else np.asarray(value).tolist()
    shown = f"{value:g}" if isinstance(value, float) else f"{value!r:.80}"
    raise error(f"{rule}. Got {shown} at {said}; {advice}.")


def require_finite(name: str, values: FloatArray, error: type[TailproofError]) -> None:
    """Raise `error` unless every entry of `values` is finite, naming the first that is not."""
    with np.errstate(over="ignore", invalid="ignore"):
        if np.isfinite(values.sum()) or np.isfinite(values).all():  # a finite sum is cheap proof
            return
    bad = np.argwhere(~np.isfinite(values))
    where = tuple(int(i) for i in bad[0])
    raise error(
        f"{name} must be finite. Got {values[where]} at row {where[0]}"
        f"{f', column {where[1]}' if len(where) > 1 else ''} ({len(bad)} such entries in all); "
        f"drop or impute these rows before building the log."
    )


def checked_states(states: npt.ArrayLike, width: int, error: type[TailproofError]) -> FloatArray:
    """Return states as finite numbers, (n, width); raise `error` if they are not."""
    given = np.asarray(states, dtype=float)
    if given.ndim != 2 or given.shape[1] != width:
        raise error(f"states must have the shape (n, {width}). Got {given.shape} instead.")
    require_finite("states", given, error)
    return given


def require_products(gram: FloatArray, error: type[TailproofError]) -> None:
    """Raise `error` if the Gram matrix is not finite: products of large features overflow."""
    if not np.isfinite(gram).all():
        raise error(
            "The states are so large that products of the features overflow. Divide each state "
            "column by its scale, or use features that do not multiply states."
        )


def one_or_many(method: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    """Let a policy method that takes states (n, p) also take one state (p,) and return one action."""

    @wraps(method)
    def call(self: Any, states: Any) -> Any:
        if np.ndim(states) == 1:
            return method(self, np.asarray(states)[None])[0]
        return method(self, states)

    return call


def is_number(text: str) -> bool:
    """Return whether a text is a number as Python writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True
