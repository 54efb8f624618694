"""Columns for the outcome models: the state, its squares and its products, within a budget."""

from __future__ import annotations

import numpy as np

from tailproof.algorithms.one_step.rows import OneStepRows
from tailproof.arrays import FloatArray, IntArray

_LEAST, _MOST = 100, 300  # columns, whatever the number of rows


def quadratic(rows: OneStepRows) -> FloatArray:
    """Return standardised states, squares and products, as many as the rows can teach, (n, e).

    Squares of two-valued columns and products of columns that are never non-zero together, such as
    dummies of one category, say nothing new and are never formed. Squares come before products, and
    products all or none, so that no order of columns matters.
    """
    states, n = rows.states, rows.count
    budget = int(np.clip(n // 50, _LEAST, _MOST))
    squares = np.flatnonzero(~rows.binary)
    columns = [states]
    if states.shape[1] + len(squares) <= budget:
        columns.append(_standardised(states[:, squares] ** 2))
        first, second = _pairs(rows)
        if states.shape[1] + len(squares) + len(first) <= budget:
            columns.append(_standardised(states[:, first] * states[:, second]))
    return np.hstack(columns)


def _pairs(rows: OneStepRows) -> tuple[IntArray, IntArray]:
    first, second = np.triu_indices(rows.states.shape[1], k=1)
    if not len(first):
        return first, second
    # a two-valued column is "on" at its rarer value, which dummies of one category never share
    on = np.where(rows.binary, np.abs(rows.states) > 1, True).astype(float)
    together = on.T @ on
    both = rows.binary[first] & rows.binary[second]
    kept = ~both | (together[first, second] > 0)
    return first[kept], second[kept]


def _standardised(columns: FloatArray) -> FloatArray:
    spread = columns.std(axis=0)
    columns = columns[:, spread > 1e-9]
    scaled: FloatArray = (columns - columns.mean(axis=0)) / spread[spread > 1e-9]
    return scaled


def gcv_ridge(inputs: FloatArray, target: FloatArray) -> tuple[FloatArray, float]:
    """Return coefficients and intercept of the penalty with the least cross-validation error (GCV)."""
    n, centre, level = len(target), inputs.mean(axis=0), float(target.mean())
    if n < 10 or inputs.shape[1] == 0:
        return np.zeros(inputs.shape[1]), level
    centred, deviation = inputs - centre, target - level
    spectrum, basis = np.linalg.eigh(centred.T @ centred)
    spectrum, moment = np.maximum(spectrum, 0), basis.T @ (centred.T @ deviation)
    penalties = n * np.logspace(-3, 3, 13)  # (P,)
    damped = spectrum + penalties[:, None]  # (P, e)
    squares = moment**2
    lost = deviation @ deviation - (squares * (2 / damped - spectrum / damped**2)).sum(axis=1)
    free = np.maximum(n - 1 - (spectrum / damped).sum(axis=1), 1e-9)
    best = int(np.argmin(np.maximum(lost, 0) / free**2))
    coefficients = basis @ (moment / damped[best])
    return coefficients, level - float(centre @ coefficients)
