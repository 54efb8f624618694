"""Cross-fitted outcome models q̂(s, a): predictions of the reward."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tailproof.algorithms.one_step.observations import common_value
from tailproof.algorithms.one_step.rows import FOLDS, OneStepRows
from tailproof.arrays import FloatArray, IntArray

_ENOUGH_FOR_AN_ARM = 30  # an action with fewer rows uses the shared model
_FEW_ACTIONS = 10  # up to this number the action is an input of the trees; beyond, only the state
TREE_ROWS = 100_000  # most training rows of trees
_LEAST, _MOST = 100, 300  # limits of the number of columns of a design

Model = Callable[[FloatArray], FloatArray]


class Prediction(NamedTuple):
    """One model's predictions for held-out rows, (n,) each."""

    logged: FloatArray  # q̂(s_i, a_i)
    policy: FloatArray  # Σ_a π(a | s_i) q̂(s_i, a)


def no_outcome(rows: OneStepRows) -> Prediction:
    """Return q̂ = 0: doubly robust scores are then those of importance sampling."""
    return Prediction(np.zeros(rows.count), np.zeros(rows.count))


def winsorised(rewards: FloatArray) -> FloatArray:
    """Return rewards clipped at 1 and 99 %; if few differ from the common one, at 5 and 95 % of those.

    They serve only to fit and rank models, never as the rewards of an estimate.
    """
    common = common_value(rewards)
    if common is None:
        return np.clip(rewards, *np.quantile(rewards, [0.01, 0.99]))
    events = rewards[rewards != common]
    if len(events) < 5:
        return rewards
    low, high = np.quantile(events, [0.05, 0.95])
    return np.clip(rewards, min(low, common), max(high, common))


def fit_outcomes(rows: OneStepRows) -> dict[str, Prediction]:
    """Return the predictions of every model: none, ridge, quadratic, per action, boosting."""
    wide = quadratic(rows)
    shared = _shared(rows, wide, _ridge)
    few = rows.n_actions <= _FEW_ACTIONS
    return {
        "none": no_outcome(rows),
        "ridge": _shared(rows, rows.states, _ridge),
        "quadratic": shared,
        "quadratic per action": _per_action(rows, wide, shared),
        "boosting": _boosting(rows) if few else _shared(rows, rows.states, _clipped_trees),
    }


def _folds(rows: OneStepRows) -> Iterator[tuple[IntArray, IntArray]]:
    """Yield training and test rows of each fold, if neither is empty."""
    for fold in range(FOLDS):
        train, test = np.flatnonzero(rows.fold != fold), np.flatnonzero(rows.fold == fold)
        if len(train) and len(test):
            yield train, test


def _action_means(rows: OneStepRows, train: IntArray) -> FloatArray:
    """Return the mean reward of each action, or of all rows for an action without rows, (A,)."""
    rewards, actions = rows.rewards[train], rows.actions[train]
    count = np.bincount(actions, minlength=rows.n_actions)
    total = np.bincount(actions, weights=rewards, minlength=rows.n_actions)
    return np.where(count > 0, total / np.maximum(count, 1), rewards.mean())


def _shared(
    rows: OneStepRows, inputs: FloatArray, fit: Callable[[FloatArray, FloatArray, int], Model]
) -> Prediction:
    """Fit q̂(s, a) = mean of a + f(s)."""
    logged, policy = no_outcome(rows)
    for train, test in _folds(rows):
        means = _action_means(rows, train)
        residual = rows.rewards[train] - means[rows.actions[train]]
        common = fit(inputs[train], residual, rows.count)(inputs[test])
        logged[test] = means[rows.actions[test]] + common
        policy[test] = rows.policy[test] @ means + common
    return Prediction(logged, policy)


def _ridge(inputs: FloatArray, target: FloatArray, _: int) -> Model:
    coefficients, intercept = gcv_ridge(inputs, target)
    return lambda at: at @ coefficients + intercept


def _per_action(rows: OneStepRows, inputs: FloatArray, shared: Prediction) -> Prediction:
    """Fit a ridge to each action with enough rows, and use the shared model for the others."""
    logged, policy = shared.logged.copy(), shared.policy.copy()
    least = _ENOUGH_FOR_AN_ARM if rows.n_actions <= _FEW_ACTIONS else 3 * inputs.shape[1]
    for train, test in _folds(rows):
        counts = np.bincount(rows.actions[train], minlength=rows.n_actions)
        means = _action_means(rows, train)
        # the shared model's f(s), to be replaced action by action
        common = shared.logged[test] - means[rows.actions[test]]
        for action in np.flatnonzero(counts >= least):
            own = train[rows.actions[train] == action]
            predicted = _ridge(inputs[own], rows.rewards[own], rows.count)(inputs[test])
            policy[test] += rows.policy[test, action] * (predicted - means[action] - common)
            here = rows.actions[test] == action
            logged[test[here]] = predicted[here]
    return Prediction(logged, policy)


def _boosting(rows: OneStepRows) -> Prediction:
    """Fit few small trees on state and action to clipped rewards."""
    target = winsorised(rows.rewards)
    logged, policy = no_outcome(rows)
    chosen = np.eye(rows.n_actions)
    for train, test in _folds(rows):
        inputs = np.hstack([rows.states[train], chosen[rows.actions[train]]])
        model = _trees(inputs, target[train], rows.rewards[train].mean(), rows.count)
        for action in range(rows.n_actions):
            wanted = (rows.policy[test, action] > 0) | (rows.actions[test] == action)
            places: IntArray = test[wanted]
            if not len(places):
                continue
            repeated = np.broadcast_to(chosen[action], (len(places), rows.n_actions))
            predicted = model(np.hstack([rows.states[places], repeated]))
            policy[places] += rows.policy[places, action] * predicted
            here = rows.actions[places] == action
            logged[places[here]] = predicted[here]
    return Prediction(logged, policy)


def _clipped_trees(inputs: FloatArray, target: FloatArray, count: int) -> Model:
    """Fit few small trees on the state to clipped residuals."""
    mean = target.mean()
    if inputs.shape[1] == 0:
        return lambda at: np.full(len(at), mean)
    return _trees(inputs, np.clip(target, *np.quantile(target, [0.01, 0.99])), mean, count)


def _trees(inputs: FloatArray, target: FloatArray, mean: float, count: int) -> Model:
    """Fit trees to a clipped target; predictions are shifted back to the unclipped mean."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # slow to import

    model = HistGradientBoostingRegressor(
        max_iter=40,
        max_leaf_nodes=8,
        l2_regularization=1.0,
        min_samples_leaf=int(np.clip(min(count, TREE_ROWS) // 125, 10, None)),
        early_stopping=False,
        random_state=0,
    )
    # trees compute in single precision, which a large constant would use up
    spread, centre = float(target.std()) or 1.0, float(target.mean())
    model.fit(inputs[:TREE_ROWS], (target[:TREE_ROWS] - centre) / spread)
    shift = mean - target.mean()

    return lambda at: np.asarray(model.predict(at), dtype=float) * spread + centre + shift


def quadratic(rows: OneStepRows) -> FloatArray:
    """Return standardised states, squares and products, as many as the rows allow, (n, e).

    Squares of two-valued columns and products of columns that are never non-zero together, such as
    dummies of one category, add no information and are left out. Squares are added before products,
    each all or none, so that the order of columns does not matter.
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
