"""Outcome models q̂(s, a), cross-fitted: what a reward should be, before any weight is used."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tailproof.algorithms.one_step.designs import gcv_ridge, quadratic
from tailproof.algorithms.one_step.observations import common_value
from tailproof.algorithms.one_step.rows import FOLDS, Rows
from tailproof.arrays import BoolArray, FloatArray, IntArray

_ENOUGH_FOR_AN_ARM = 30  # rows of an action below which it shares the model of all
_FEW_ACTIONS = 10  # up to which trees see the action; beyond, they see the state alone
TREE_ROWS = 100_000  # rows that trees are taught with at most


@dataclass(frozen=True, eq=False)
class Outcome:
    """One model's predictions for rows that it has not seen.

    Attributes
    ----------
    logged
        q̂(s_i, a_i), (n,).
    policy
        Σ_a π(a | s_i) q̂(s_i, a), (n,).
    """

    logged: FloatArray
    policy: FloatArray


def no_outcome(rows: Rows) -> Outcome:
    """Return q̂ = 0, with which doubly robust scores are importance sampling's."""
    return Outcome(np.zeros(rows.count), np.zeros(rows.count))


def winsorised(rewards: FloatArray) -> FloatArray:
    """Return rewards clipped at 1 and 99 %; of few that differ, at 5 and 95 % of those.

    To rank and teach models only: no estimate rests on them.
    """
    common = common_value(rewards)
    if common is None:
        return np.clip(rewards, *np.quantile(rewards, [0.01, 0.99]))
    events = rewards[rewards != common]
    if len(events) < 5:
        return rewards
    low, high = np.quantile(events, [0.05, 0.95])
    return np.clip(rewards, min(low, common), max(high, common))


def fit_outcomes(rows: Rows) -> dict[str, Outcome]:
    """Return the predictions of every rung: none, ridge, quadratic, per action, boosting."""
    wide = quadratic(rows)
    found = {
        "none": no_outcome(rows),
        "ridge": _shared(rows, rows.states),
        "quadratic": _shared(rows, wide),
    }
    found["quadratic per action"] = _per_action(rows, wide, found["quadratic"])
    found["boosting"] = _boosting(rows)
    return found


def _action_means(rows: Rows, train: BoolArray) -> FloatArray:
    """Return the mean reward of each action, or of all rows for one without any, (A,)."""
    rewards, actions = rows.rewards[train], rows.actions[train]
    count = np.bincount(actions, minlength=rows.n_actions)
    total = np.bincount(actions, weights=rewards, minlength=rows.n_actions)
    overall = rewards.mean() if len(rewards) else 0.0
    return np.where(count > 0, total / np.maximum(count, 1), overall)


def _shared(rows: Rows, inputs: FloatArray) -> Outcome:
    """Fit q̂(s, a) = mean of a + f(s), f by ridge."""

    def fit(train: BoolArray, residual: FloatArray) -> Callable[[BoolArray], FloatArray]:
        coefficients, intercept = gcv_ridge(inputs[train], residual)
        return lambda test: inputs[test] @ coefficients + intercept

    return _around_action_means(rows, fit)


def _around_action_means(
    rows: Rows, fit: Callable[[BoolArray, FloatArray], Callable[[BoolArray], FloatArray]]
) -> Outcome:
    logged, policy = np.zeros(rows.count), np.zeros(rows.count)
    for fold in range(FOLDS):
        train, test = rows.fold != fold, rows.fold == fold
        if not train.any() or not test.any():
            continue
        means = _action_means(rows, train)
        common = fit(train, rows.rewards[train] - means[rows.actions[train]])(test)
        logged[test] = means[rows.actions[test]] + common
        policy[test] = rows.policy[test] @ means + common
    return Outcome(logged, policy)


def _per_action(rows: Rows, inputs: FloatArray, shared: Outcome) -> Outcome:
    """Fit a ridge to each action that has rows enough, and take the shared model for the others."""
    logged, policy = shared.logged.copy(), shared.policy.copy()
    least = _ENOUGH_FOR_AN_ARM if rows.n_actions <= _FEW_ACTIONS else 3 * inputs.shape[1]
    for fold in range(FOLDS):
        train, test = rows.fold != fold, np.flatnonzero(rows.fold == fold)
        counts = np.bincount(rows.actions[train], minlength=rows.n_actions)
        if (counts < least).all():
            continue
        means = _action_means(rows, train)
        # the shared model's f(s), to be replaced action by action
        common = shared.logged[test] - means[rows.actions[test]]
        for action in np.flatnonzero(counts >= least):
            own = train & (rows.actions == action)
            coefficients, intercept = gcv_ridge(inputs[own], rows.rewards[own])
            predicted = inputs[test] @ coefficients + intercept
            change = predicted - means[action] - common
            policy[test] += rows.policy[test, action] * change
            here = rows.actions[test] == action
            logged[test[here]] = predicted[here]
    return Outcome(logged, policy)


def _boosting(rows: Rows) -> Outcome:
    """Fit few small trees to clipped rewards: of state and action, or of the state among many."""
    target = winsorised(rows.rewards)
    if rows.n_actions > _FEW_ACTIONS:

        def fit(train: BoolArray, residual: FloatArray) -> Callable[[BoolArray], FloatArray]:
            low, high = np.quantile(residual, [0.01, 0.99])
            clipped = np.clip(residual, low, high)
            return _trees(rows.states[train], clipped, rows.states, residual.mean())

        return _around_action_means(rows, fit)
    logged, policy = np.zeros(rows.count), np.zeros(rows.count)
    chosen = np.eye(rows.n_actions)
    for fold in range(FOLDS):
        train, test = rows.fold != fold, np.flatnonzero(rows.fold == fold)
        if not train.any() or not len(test):
            continue
        inputs = np.hstack([rows.states[train], chosen[rows.actions[train]]])
        model = _tree_model(inputs, target[train], rows.count)
        shift = rows.rewards[train].mean() - target[train].mean()  # what clipping took away
        for action in range(rows.n_actions):
            wanted = (rows.policy[test, action] > 0) | (rows.actions[test] == action)
            places: IntArray = test[wanted]
            if not len(places):
                continue
            repeated = np.broadcast_to(chosen[action], (len(places), rows.n_actions))
            predicted = model(np.hstack([rows.states[places], repeated])) + shift
            policy[places] += rows.policy[places, action] * predicted
            here = rows.actions[places] == action
            logged[places[here]] = predicted[here]
    return Outcome(logged, policy)


def _trees(
    inputs: FloatArray, target: FloatArray, everywhere: FloatArray, mean: float
) -> Callable[[BoolArray], FloatArray]:
    if inputs.shape[1] == 0:
        return lambda test: np.full(int(test.sum()), mean)
    model = _tree_model(inputs, target, len(everywhere))
    shift = mean - target.mean()
    return lambda test: model(everywhere[test]) + shift


def _tree_model(
    inputs: FloatArray, target: FloatArray, count: int
) -> Callable[[FloatArray], FloatArray]:
    from sklearn.ensemble import HistGradientBoostingRegressor  # slow to import

    model = HistGradientBoostingRegressor(
        max_iter=40,
        max_leaf_nodes=8,
        l2_regularization=1.0,
        min_samples_leaf=int(np.clip(min(count, TREE_ROWS) // 125, 10, None)),
        early_stopping=False,
        random_state=0,
    )
    # the trees compute in single precision, which a far-off level would use up
    spread = float(target.std()) or 1.0
    centre = float(target.mean())
    model.fit(inputs[:TREE_ROWS], (target[:TREE_ROWS] - centre) / spread)

    def predict(at: FloatArray) -> FloatArray:
        return np.asarray(model.predict(at), dtype=float) * spread + centre

    return predict
