"""Importance weights of one-step logs, with propensities as logged or estimated by cross-fitting."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tailproof.algorithms.one_step.outcomes import quadratic
from tailproof.algorithms.one_step.rows import FOLDS, OneStepRows
from tailproof.arrays import FloatArray, IntArray
from tailproof.errors import LogError

FLOOR = 0.01  # smallest estimated propensity
_FEW_ACTIONS = 8  # most actions for which logistic regression and boosting are fast enough
_TREE_ROWS = 100_000
_JUDGING_ROWS = 200_000  # rows used to choose the model by likelihood; rows are in random order


def row_weights(rows: OneStepRows) -> tuple[FloatArray, str | None]:
    """Return w_i = π(a_i | s_i) / μ(a_i | s_i), (n,), and how μ was estimated if it was not logged."""
    target = rows.taken(rows.policy)
    if not target.any():
        raise LogError(
            "The log never takes an action that the policy takes in the same state, so it says "
            "nothing about the policy. Log some of its actions, or evaluate a policy closer to the "
            "log."
        )
    if rows.propensity is not None:
        return target / rows.propensity, None
    propensity, how = estimated_propensities(rows)
    return target / propensity, how


def estimated_propensities(rows: OneStepRows) -> tuple[FloatArray, str]:
    """Return P̂(a_i | s_i), cross-fitted, (n,), and the model with the best held-out likelihood.

    The candidates are the actions' frequencies; a logistic regression on squares and products; and
    boosted trees. With many actions, linear discriminants replace the last two.
    """
    some = np.arange(min(rows.count, _JUDGING_ROWS))
    models = {
        name: (_fitted(rows, model, inputs), inputs)
        for name, (model, inputs) in _classifiers(rows).items()
    }
    found = {name: _held_out(rows, *model, some) for name, model in models.items()}
    fit = {name: np.log(np.maximum(each, 1e-6)).mean() for name, each in found.items()}
    best = max(fit, key=lambda name: fit[name])
    rest = _held_out(rows, *models[best], np.arange(len(some), rows.count))
    return np.clip(np.concatenate([found[best], rest]), FLOOR, 1), best


def _classifiers(rows: OneStepRows) -> dict[str, tuple[Any, FloatArray]]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    found: dict[str, tuple[Any, FloatArray]] = {"the actions' frequencies": (None, rows.states)}
    if rows.states.shape[1] == 0:
        return found
    if rows.n_actions > _FEW_ACTIONS:
        linear = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        return {**found, "linear discriminants": (linear, rows.states)}
    trees = HistGradientBoostingClassifier(
        max_iter=40,
        max_leaf_nodes=8,
        min_samples_leaf=int(np.clip(min(rows.count, _TREE_ROWS) // 100, 20, None)),
        early_stopping=False,
        random_state=0,
    )
    return {
        **found,
        "logistic regression": (LogisticRegression(C=0.1, max_iter=300), quadratic(rows)),
        "boosting": (trees, rows.states),
    }


def _fitted(rows: OneStepRows, model: Any, inputs: FloatArray) -> list[Any]:
    """Return, for each fold, a model (or action frequencies) fitted to the other folds."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    found: list[Any] = []
    for fold in range(FOLDS):
        train = np.flatnonzero(rows.fold != fold)
        seen = rows.actions[train]
        if model is None or not len(train) or (seen == seen[0]).all():
            found.append((np.bincount(seen, minlength=rows.n_actions) + 0.5) / (len(seen) + 0.5))
            continue
        with warnings.catch_warnings():  # the likelihood rejects fits that did not converge
            warnings.simplefilter("ignore", ConvergenceWarning)
            found.append(clone(model).fit(inputs[train[:_TREE_ROWS]], seen[:_TREE_ROWS]))
    return found


def _held_out(
    rows: OneStepRows, models: list[Any], inputs: FloatArray, some: IntArray
) -> FloatArray:
    """Return the probability of some rows' actions by models fitted without these rows."""
    found = np.zeros(len(some))
    for fold, model in enumerate(models):
        places = np.flatnonzero(rows.fold[some] == fold)
        test, taken = some[places], rows.actions[some[places]]
        if isinstance(model, np.ndarray):
            found[places] = model[taken]
        elif len(test):
            table = np.zeros((len(test), rows.n_actions))
            table[:, model.classes_] = model.predict_proba(inputs[test])
            found[places] = table[np.arange(len(test)), taken]
    return found
