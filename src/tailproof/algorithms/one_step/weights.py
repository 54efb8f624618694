"""Importance weights of one-step logs, with propensities as logged or estimated by cross-fitting."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailproof.algorithms.one_step.designs import quadratic
from tailproof.algorithms.one_step.rows import FOLDS, Rows
from tailproof.arrays import FloatArray
from tailproof.errors import LogError

FLOOR = 0.01  # the least estimated propensity
_FEW_ACTIONS = 8  # up to which logistic regression and boosting are affordable
_TREE_ROWS = 100_000


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
    marginal = _cross_fitted(rows, None, rows.states)
    found = {"the actions' frequencies": marginal}
    if rows.states.shape[1]:
        for name, (model, inputs) in _classifiers(rows).items():
            found[name] = _cross_fitted(rows, model, inputs)
    fit = {name: np.log(np.maximum(each, 1e-6)).mean() for name, each in found.items()}
    best = max(fit, key=lambda name: fit[name])
    return np.clip(found[best], FLOOR, 1), best


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


def _cross_fitted(rows: Rows, model: object, inputs: FloatArray) -> FloatArray:
    """Return the probability of each logged action by a model that has not seen its fold, (n,)."""
    import warnings

    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    found = np.zeros(rows.count)
    for fold in range(FOLDS):
        train = np.flatnonzero(rows.fold != fold)
        test = np.flatnonzero(rows.fold == fold)
        if not len(train) or not len(test):
            continue
        seen = rows.actions[train]
        if model is None or (seen == seen[0]).all():
            share = (np.bincount(seen, minlength=rows.n_actions) + 0.5) / (len(seen) + 0.5)
            found[test] = share[rows.actions[test]]
            continue
        fitted = clone(model)
        with warnings.catch_warnings():  # a fit that has not converged loses by its likelihood
            warnings.simplefilter("ignore", ConvergenceWarning)
            fitted.fit(inputs[train[:_TREE_ROWS]], seen[:_TREE_ROWS])
        table = np.zeros((len(test), rows.n_actions))
        table[:, fitted.classes_] = fitted.predict_proba(inputs[test])
        found[test] = table[np.arange(len(test)), rows.actions[test]]
    return found
