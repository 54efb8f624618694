"""Ridge regression with its penalty by generalised cross-validation, and sizes predicted by it."""

from __future__ import annotations

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.robust.pooling import Sizes

_FEWEST_SIZES = 60  # rows beyond a threshold from which on sizes are predicted
_MOST_COLUMNS = 30  # columns that predict sizes: those with the largest correlation
_DOUBT = 2.0  # standard errors by which a prediction must be better than none
_FARTHEST = 3.0  # standard deviations at which states are clipped, and the largest log size


def gcv_ridge(inputs: FloatArray, target: FloatArray) -> tuple[FloatArray, float]:
    """Return coefficients and intercept for the penalty with the smallest GCV error."""
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


def sizes_by_state(states: FloatArray, fold: IntArray) -> Sizes:
    """Return how large the excess of a row is to be expected, by its state, up to a factor.

    A ridge regression of log excess on standardised states and their squares, fitted without the row's
    fold. All sizes are alike where it does not predict held-out rows clearly better than their mean.

    Parameters
    ----------
    states
        Standardised, (n, d).
    fold
        In which each row is held out, (n,).
    """

    def sizes(excess: FloatArray) -> FloatArray:
        rows, found = np.flatnonzero(excess > 0), np.ones(len(excess))
        if len(rows) < _FEWEST_SIZES or states.shape[1] == 0:
            return found
        size = np.log(excess[rows])
        size = np.maximum(size, np.quantile(size, 0.05))  # the excess may be as small as it likes
        near = np.clip(states[rows], -_FARTHEST, _FARTHEST)
        inputs, part = np.hstack([near, near**2]), fold[rows]
        predicted, mean = np.zeros(len(rows)), np.zeros(len(rows))
        for held_out in np.unique(part):
            train, test = part != held_out, part == held_out
            if not train.any():
                return found
            used = _most_correlated(inputs[train], size[train])
            coefficients, intercept = gcv_ridge(inputs[train][:, used], size[train])
            predicted[test] = inputs[test][:, used] @ coefficients + intercept
            mean[test] = size[train].mean()
        better = (size - mean) ** 2 - (size - predicted) ** 2
        if better.mean() > _DOUBT * better.std() / np.sqrt(len(better)):
            found[rows] = np.exp(np.clip(predicted - size.mean(), -_FARTHEST, _FARTHEST))
        return found

    return sizes


def _most_correlated(inputs: FloatArray, target: FloatArray) -> IntArray:
    """Return the columns that vary and have the largest correlation with the target."""
    centred = inputs - inputs.mean(axis=0)
    spread = centred.std(axis=0)
    varies = np.flatnonzero(spread > 1e-9)
    strength = np.abs((target - target.mean()) @ centred[:, varies]) / spread[varies]
    return np.sort(varies[np.argsort(-strength, kind="stable")[:_MOST_COLUMNS]])
