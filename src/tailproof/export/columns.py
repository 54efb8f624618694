"""The columns of a table as inputs of an ONNX graph, and the encoder as its first nodes.

A graph that has learned its encoder takes what a new table holds: numbers, text and dates. It reads
them as `Encoder.encode` does, with operators of the ONNX standard alone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tailproof.arrays import AnyArray, FloatArray
from tailproof.io.encoder import Encoder, Variable
from tailproof.log.log import MISSING, OTHER

if TYPE_CHECKING:
    from tailproof.export.onnx import Graph

#: Microseconds since 1970 of a missing date: what NumPy writes for NaT.
NO_DATE = np.iinfo(np.int64).min
_DAY, _HOUR = 86_400_000_000, 3_600_000_000  # microseconds
_UTC = (None, "UTC", "Etc/UTC", "GMT", "+00:00")


class Input(NamedTuple):
    """An input of a graph."""

    name: str
    kind: str  # "DOUBLE", "STRING" or "INT64"
    shape: tuple[str | int, ...]
    words: str  # what it holds


def inputs_of(encoder: Encoder) -> dict[str, Input]:
    """Return the inputs that stand for the columns of a table, by name."""
    return {each.name: each for each in map(_input, encoder.variables)}


def read_columns(graph: Graph, encoder: Encoder) -> tuple[str, str]:
    """Add the encoder to a graph; return the states, (n, p), and which rows it reads, (n,).

    Rows that it refuses have states of zero.
    """
    parts: list[str] = []
    refused: list[str] = []
    for variable in encoder.variables:
        kind = "date" if variable.kind in ("days", "hour", "weekday") else variable.kind
        values, odd = _READ[kind](graph, variable, _input(variable).name)
        parts += values
        refused += odd
    read = graph.node("Not", refused[0] if len(refused) == 1 else _any(graph, refused))
    states = graph.node("Concat", *parts, axis=1)
    kept = graph.node("Where", graph.node("Unsqueeze", read, [1]), states, 0.0)
    return kept, read


def columns_of(encoder: Encoder, states: FloatArray) -> dict[str, AnyArray]:
    """Return the inputs of a graph for states, (n, p), that the encoder has made."""
    found: dict[str, AnyArray] = {}
    for variable, place in encoder.places:
        name, own = _input(variable).name, states.T[place]
        if variable.kind == "list":
            found[name] = np.ascontiguousarray(own[: variable.width].T)
        elif variable.kind == "text":
            found[name] = np.array(
                variable.decode(own).fill_null(MISSING).to_pylist(), dtype=object
            )
        elif variable.kind == "days":
            instants = variable.decode(own).cast("int64").fill_null(int(NO_DATE))
            found[name] = instants.to_numpy().astype(np.int64)
        elif name not in found:  # or it is a part of the date that was given above
            gaps = variable.has_indicator & (own[-1] == 1)
            found[name] = np.where(gaps, np.nan, own[0])
    return found


def _input(variable: Variable) -> Input:
    """Return the input that a variable is read from."""
    name, kind = variable.column, variable.kind
    if kind == "text":
        gap = f"'{MISSING}'" if "" in variable.labels else f"'' or '{MISSING}'"
        return Input(name, "STRING", ("n",), f"text; {gap} where it is missing")
    if kind == "list":
        return Input(name, "DOUBLE", ("n", variable.width), f"lists of {variable.width} numbers")
    if kind == "truth":
        return Input(name, "DOUBLE", ("n",), "1 for true, 0 for false; NaN where it is missing")
    if kind == "number":
        return Input(name, "DOUBLE", ("n",), "numbers; NaN where one is missing")
    if kind != "days" and variable.zone not in _UTC:  # graphs know nothing of time zones
        words = f"{kind} in the zone {variable.zone}; NaN where the date is missing"
        return Input(variable.base, "DOUBLE", ("n",), words)
    return Input(name, "INT64", ("n",), f"microseconds since 1970 (UTC); {NO_DATE} for no date")


def _any(graph: Graph, conditions: list[str]) -> str:
    found = conditions[0]
    for each in conditions[1:]:
        found = graph.node("Or", found, each)
    return found


def _filled(
    graph: Graph, variable: Variable, values: str, gaps: str, odd: str | None = None
) -> tuple[list[str], list[str]]:
    """Return the variables of values (n,), and the rows to refuse."""
    refused = [] if odd is None else [odd]
    if variable.fill is None:
        return [_column(graph, values)], [*refused, gaps]
    filled = graph.node("Where", gaps, float(variable.fill), values)
    indicator = graph.node("Cast", gaps, to=graph.onnx.TensorProto.DOUBLE)
    return [_column(graph, filled), _column(graph, indicator)], refused


def _column(graph: Graph, values: str) -> str:
    return graph.node("Unsqueeze", values, [1])


def _numbers(graph: Graph, variable: Variable, given: str) -> tuple[list[str], list[str]]:
    return _filled(graph, variable, given, graph.node("IsNaN", given), graph.node("IsInf", given))


def _truths(graph: Graph, variable: Variable, given: str) -> tuple[list[str], list[str]]:
    gaps = graph.node("IsNaN", given)
    either = [graph.node("Equal", given, value) for value in (0.0, 1.0)]
    odd = graph.node("Not", _any(graph, [*either, gaps]))
    return _filled(graph, variable, given, gaps, odd)


def _lists(graph: Graph, _: Variable, given: str) -> tuple[list[str], list[str]]:
    finite = graph.node("Sub", given, given)  # 0, and NaN where an entry is not finite
    odd = graph.node("IsNaN", graph.node("ReduceSum", finite, [1], keepdims=0))
    return [given], [odd]


def _dates(graph: Graph, variable: Variable, given: str) -> tuple[list[str], list[str]]:
    if given != variable.column:  # the hour or the weekday itself, in a time zone
        return _numbers(graph, variable, given)
    gaps = graph.node("Equal", given, np.int64(NO_DATE))
    within = graph.node("Mod", given, np.int64(_DAY))  # since midnight
    if variable.kind == "hour":
        part = graph.node("Div", within, np.int64(_HOUR))
    elif variable.kind == "weekday":
        days = graph.node("Div", graph.node("Sub", given, within), np.int64(_DAY))
        # the first of January 1970 was a Thursday
        part = graph.node("Mod", graph.node("Add", days, np.int64(3)), np.int64(7))
    else:
        part = given
    value = graph.node("Cast", part, to=graph.onnx.TensorProto.DOUBLE)
    if variable.kind == "days":
        value = graph.node("Div", value, float(_DAY))
    return _filled(graph, variable, value, gaps)


def _texts(graph: Graph, variable: Variable, given: str) -> tuple[list[str], list[str]]:
    labels = variable.labels
    place = {label: code for code, label in enumerate(labels)}
    absent = [text for text in ("", MISSING) if text not in place]
    gap = -1
    if variable.fill is not None:
        gap = place.get(str(variable.fill), place.get(OTHER, -1))
    codes = {**place, **dict.fromkeys(absent, gap)}
    code = _looked_up(graph, given, codes, default=place.get(OTHER, -1))
    known = graph.node("Equal", _column(graph, code), np.arange(len(labels))[None])
    parts = [graph.node("Cast", known, to=graph.onnx.TensorProto.DOUBLE)]
    if variable.has_indicator:
        gaps = _looked_up(graph, given, dict.fromkeys(absent, 1), default=0)
        parts.append(_column(graph, graph.node("Cast", gaps, to=graph.onnx.TensorProto.DOUBLE)))
    return parts, [graph.node("Less", code, np.int64(0))]


def _looked_up(graph: Graph, given: str, codes: dict[str, int], *, default: int) -> str:
    return graph.node(
        "LabelEncoder",
        given,
        domain="ai.onnx.ml",
        keys_strings=list(codes),
        values_int64s=list(codes.values()),
        default_int64=default,
    )


_READ: dict[str, Callable[[Graph, Variable, str], tuple[list[str], list[str]]]] = {
    "number": _numbers,
    "truth": _truths,
    "list": _lists,
    "date": _dates,
    "text": _texts,
}
