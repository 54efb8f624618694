"""Importance weights of one-step logs, with propensities as logged or estimated by cross-fitting."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailproof.algorithms.one_step.designs import quadratic
from tailproof.algorithms.one_step.rows import FOLDS, Rows
from tailproof.arrays import FloatArray, IntArray
from tailproof.errors import LogError

FLOOR = 0.01  # the least estimated propensity
_FEW_ACTIONS = 8  # up to which logistic regression and boosting are affordable
_TREE_ROWS = 100_000
_JUDGING_ROWS = 200_000  # whose likelihood decides between models; the rows stand in random order


@dataclass(frozen=True, eq=False)
class Weights:
    """w_i = π(a_i | s_i) / μ(a_i | s_i).

    Attributes
    ----------
    raw
        As they are, (n,).
    normalised
        Over their mean, (n,).
    estimated
        How propensities were estimated; None where they were logged.
    """

    raw: FloatArray
    normalised: FloatArray
    estimated: str | None

    @property
    def effective(self) -> float:
        """(Σw)² / Σw²: the number of equally weighted rows that would say as much."""
        return float(self.raw.sum() ** 2 / (self.raw**2).sum())


def importance_weights(rows: Rows) -> Weights:
    """Return the weights of the logged rows; propensities that nobody logged are estimated."""
    target = rows.taken(rows.policy)
    if not target.any():
        raise LogError(
            "The log never takes an action that the policy takes in the same state, so it says "
            "nothing about the policy. Log some of its actions, or evaluate a policy closer to the "
            "log."
        )
    if rows.propensity is not None:
        raw, how = target / rows.propensity, None
    else:
        probabilities, how = estimated_propensities(rows)
        raw = target / probabilities
    return Weights(raw, raw / raw.mean(), how)


def estimated_propensities(rows: Rows) -> tuple[FloatArray, str]:
    """Return P̂(a_i | s_i), cross-fitted, (n,), and the model with the best held-out likelihood.

    The candidates are the actions' frequencies; a logistic regression on squares and products; and
    boosted trees. Of many actions, linear discriminants instead of the last two.
    """
    some = np.arange(min(rows.count, _JUDGING_ROWS))
    models = {"the actions' frequencies": (_fitted(rows, None, rows.states), rows.states)}
    if rows.states.shape[1]:
        for name, (model, inputs) in _classifiers(rows).items():
            models[name] = _fitted(rows, model, inputs), inputs
    found = {name: _held_out(rows, *model, some) for name, model in models.items()}
    fit = {name: np.log(np.maximum(each, 1e-6)).mean() for name, each in found.items()}
    best = max(fit, key=lambda name: fit[name])
    rest = _held_out(rows, *models[best], np.arange(len(some), rows.count))
    return np.clip(np.concatenate([found[best], rest]), FLOOR, 1), best


def _classifiers(rows: Rows) -> dict[str, tuple[object, FloatArray]]:
    from sklearn.discriminant_analysis import LinearDiscriminantAnalysis
    from sklearn.ensemble import HistGradientBoostingClassifier
    from sklearn.linear_model import LogisticRegression

    if rows.n_actions > _FEW_ACTIONS:
        linear = LinearDiscriminantAnalysis(solver="lsqr", shrinkage="auto")
        return {"linear discriminants": (linear, rows.states)}
    trees = HistGradientBoostingClassifier(
        max_iter=40,
        max_leaf_nodes=8,
        min_samples_leaf=int(np.clip(min(rows.count, _TREE_ROWS) // 100, 20, None)),
        early_stopping=False,
        random_state=0,
    )
    return {
        "logistic regression": (LogisticRegression(C=0.1, max_iter=300), quadratic(rows)),
        "boosting": (trees, rows.states),
    }


def _fitted(rows: Rows, model: object, inputs: FloatArray) -> list[Any]:
    """Return a model, or the frequency of each action, for each fold, which it has not seen."""
    import warnings

    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    found: list[Any] = []
    for fold in range(FOLDS):
        train = np.flatnonzero(rows.fold != fold)
        seen = rows.actions[train]
        if model is None or not len(train) or (seen == seen[0]).all():
            found.append((np.bincount(seen, minlength=rows.n_actions) + 0.5) / (len(seen) + 0.5))
            continue
        fitted = clone(model)
        with warnings.catch_warnings():  # a fit that has not converged loses by its likelihood
            warnings.simplefilter("ignore", ConvergenceWarning)
            found.append(fitted.fit(inputs[train[:_TREE_ROWS]], seen[:_TREE_ROWS]))
    return found


def _held_out(rows: Rows, models: list[Any], inputs: FloatArray, some: IntArray) -> FloatArray:
    """Return the probability of some rows' actions by the models that have not seen them."""
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
