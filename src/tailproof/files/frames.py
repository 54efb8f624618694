"""Conversion of results to plain JSON values and to frames."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from typing import Any

import numpy as np


def plain(value: Any) -> Any:
    """Return dataclasses, arrays and numpy numbers as dicts, lists, numbers and strings.

    JSON has no NaN and no infinity: NaN becomes None, ±∞ the strings "inf" and "-inf".

    >>> plain({"a": np.array([1.0, np.nan]), "b": (np.int64(2), math.inf)})
    {'a': [1.0, None], 'b': [2, 'inf']}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return [plain(each) for each in value.tolist()]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    value = scalar(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def scalar(value: Any) -> Any:
    """Return a numpy scalar as the Python one, anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def as_frame(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Return rows as a pandas frame, or as a pyarrow table where pandas is not installed.

    >>> as_frame([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]).shape
    (2, 2)
    """
    try:
        import pandas
    except ImportError:
        import pyarrow

        return pyarrow.Table.from_pylist([dict(row) for row in rows])
    return pandas.DataFrame(list(rows))
