"""The behaviour policy b̂(a|s), estimated from the log."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
import scipy

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.trees import TreeArrays, TreeValues, grown, training_rows
from tailproof.errors import LogError
from tailproof.features import Standardise
from tailproof.log.folds import Split, split_groups
from tailproof.log.log import Log
from tailproof.log.validation import check_propensity

_TREES = 30
_SMALLEST = (2, 5, 15, 40)  # candidates for the smallest number of rows in a leaf
#: A leaf size, and whether one tree follows the changes of logged propensities.
Growth = tuple[int, bool]
_TRAIN_SHARE = 0.7  # share of the groups to train on while the leaf size is chosen
_DOUBT = 0.02  # share of the uniform distribution mixed in when held-out actions are scored
_REPEATED = 0.5  # `exact` applies if at most this share of the rows are distinct states


def fit_behaviour(
    log: Log, *, seed: int = 0, exact: bool = False, propensities: bool = True
) -> TreeValues:
    """Return b̂(a|s) as the mean share of each action in the leaves of extremely randomised trees.

    Every split considers every column, because behaviour often depends sharply on few of them.
    The leaf size is the one that predicts the actions of held-out episodes best. Logged propensities
    are exact, so that a single tree may find the rule that they follow: it is another candidate.

    Parameters
    ----------
    exact
        Where states repeat, grow trees until every state has its own leaf, so that b̂ is the action
        frequency in exactly this state. Larger leaves predict better there but are worse to deploy:
        they smooth over single states in which the action matters. With logged propensities this is
        one more candidate.
    propensities
        Whether to use logged propensities instead of shares; not valid for selected episodes.
    """
    from sklearn.tree import DecisionTreeRegressor

    standardise = Standardise.fit(log.states, tame=True)
    z = standardise(log.states)
    inputs = z.astype(np.float32) if z.shape[1] else np.zeros((len(z), 1), dtype=np.float32)
    known = log.propensity if propensities else None
    rng = np.random.default_rng([seed, 7])
    rows = training_rows(log, np.arange(log.n_episodes), rng)

    rule: FloatArray = np.empty(0)
    constant = known is not None and _is_constant(known, log.actions)
    if known is not None and not constant:
        rule = _followed(inputs, log.actions, known, log.n_actions, rows)

    def grow(rows: IntArray, growth: Growth) -> TreeValues:
        (smallest, follow), taken = growth, log.actions[rows]
        if follow:
            one = DecisionTreeRegressor(min_samples_leaf=smallest, random_state=seed)
            trees = TreeArrays.of([one.fit(inputs[rows], rule[rows])])
        else:
            count = _TREES if 2 * smallest <= len(rows) else 1  # trees without a split are alike
            trees = grown(
                inputs[rows], taken, trees=count, smallest=smallest, seed=seed, classify=True
            )
        if known is not None:
            probabilities = _leaf_probabilities(
                trees, inputs[rows], taken, known[rows], log.n_actions
            )
            return TreeValues(standardise, trees, probabilities, log.n_actions)
        shares = np.concatenate([each.value[:, 0, :] for each in trees.native])
        values = np.zeros((len(shares), log.n_actions))
        values[:, np.unique(taken)] = shares / shares.sum(axis=1, keepdims=True)
        return TreeValues(standardise, trees, values, log.n_actions)

    growth, own = (_SMALLEST[1], False), (1, False)
    exact = exact and len(np.unique(z, axis=0)) <= _REPEATED * len(z)
    if constant:  # as in an experiment: one leaf says it all
        growth = (len(rows), False)
    elif exact and known is None:
        growth = own
    elif log.n_groups > 1 and z.shape[1]:
        growth = _choose_growth(log, known, grow, rng, also=(own,) * exact)
    return grow(rows, growth)


def _is_constant(propensity: FloatArray, actions: IntArray) -> bool:
    """Return whether each action has one propensity in all rows, and they sum to 1."""
    seen = np.flatnonzero(np.bincount(actions))
    own = [propensity[actions == action] for action in seen]
    same = all(float(np.ptp(each)) <= 1e-9 for each in own)
    return same and abs(sum(float(each[0]) for each in own) - 1) <= 1e-6


def _followed(
    inputs: FloatArray, actions: IntArray, propensity: FloatArray, n_actions: int, rows: IntArray
) -> FloatArray:
    """Return the probabilities of all actions that logged propensities suggest, (n, A).

    The propensities of the rows of an action are its probability without noise: a tree of each action
    interpolates them. In each row the logged action has its own, and the others share the rest.
    """
    from sklearn.tree import DecisionTreeRegressor

    probabilities = np.zeros((len(inputs), n_actions))
    for action in np.unique(actions[rows]).tolist():
        own = rows[actions[rows] == action]
        tree = DecisionTreeRegressor(random_state=0).fit(inputs[own], propensity[own])
        probabilities[:, action] = tree.predict(inputs)
    at = np.arange(len(probabilities)), actions
    probabilities[at] = 0.0
    probabilities *= ((1 - propensity) / np.maximum(probabilities.sum(axis=1), 1e-12))[:, None]
    probabilities[at] = propensity
    return probabilities


def _choose_growth(
    log: Log,
    propensity: FloatArray | None,
    grow: Callable[[IntArray, Growth], TreeValues],
    rng: np.random.Generator,
    *,
    also: tuple[Growth, ...],
) -> Growth:
    count = log.n_groups
    train = split_groups(log, np.arange(count) < max(1, int(_TRAIN_SHARE * count)), rng)
    rows = training_rows(log, np.flatnonzero(train), rng)
    held = training_rows(log, np.flatnonzero(~train), rng)
    true = 1.0 if propensity is None else propensity[held]
    # with two rows per leaf most actions are unseen, and their probability would be a guess
    sizes = _SMALLEST if propensity is None else _SMALLEST[1:]
    kinds = (False,) if propensity is None else (False, True)
    tried = [*also, *((size, follow) for follow in kinds for size in sizes)]
    losses = []
    for growth in tried:
        chance = grow(rows, growth)(log.states[held])[np.arange(len(held)), log.actions[held]]
        chance = (1 - _DOUBT) * chance + _DOUBT / log.n_actions
        losses.append(-np.mean(true * np.log(chance) + (1 - true) * np.log1p(-chance)))
    return tried[int(np.argmin(losses))]


def _leaf_probabilities(
    trees: TreeArrays, inputs: FloatArray, actions: IntArray, propensity: FloatArray, n_actions: int
) -> FloatArray:
    """Return b̂(a|leaf) from logged propensities, (nodes, A).

    The probability of an action is the harmonic mean of its rows' propensities: their number over
    Σ 1/μ, which estimates the number of all rows of the leaf. It is exact where the behaviour is
    constant in the leaf. The remaining probability goes to the actions unseen in the leaf, in
    proportion to their frequency in the log.
    """
    leaves, shape = trees.leaves(inputs), (trees.nodes, n_actions)
    at = (leaves * n_actions + actions[:, None]).ravel()
    size = trees.nodes * n_actions
    count = np.bincount(at, minlength=size).reshape(shape)
    inverse = np.bincount(at, weights=np.repeat(1 / propensity, leaves.shape[1]), minlength=size)
    probabilities = count / np.maximum(inverse.reshape(shape), 1.0)  # 1/μ is never below 1
    unseen = (count == 0) * np.bincount(actions, minlength=n_actions)
    rest = np.maximum(1 - probabilities.sum(axis=1, keepdims=True), 0.0)
    probabilities += rest * unseen / np.maximum(unseen.sum(axis=1, keepdims=True), 1)
    return np.asarray(probabilities / np.maximum(probabilities.sum(axis=1, keepdims=True), 1e-12))


#: Classifiers that can be selected by name.
CLASSIFIERS = ("logistic", "boosting", "forest")
#: Rows used for calibration: it fits two numbers, for which more rows are not needed.
CALIBRATION_ROWS = 20_000


@dataclass(frozen=True, eq=False)
class EstimatedPropensity:
    """Estimated probabilities of the logged actions, and their quality.

    Attributes
    ----------
    values
        The estimate for each row, (n,), never 0.
    classifier
        The class of the classifier.
    folds
        Number of cross-fitting folds of episodes (or groups).
    log_loss
        Mean of −log of `values`: lower is better.
    baseline_log_loss
        The same for predictions that ignore the state, for comparison.
    calibration_error, raw_calibration_error
        Distance of predicted probabilities from observed frequencies, after and before
        calibration; see the function `calibration_error`.
    smallest
        The smallest of `values`, whose inverse is the largest weight.
    raised
        Number of rows whose action had probability 0 before calibration.
    temperatures, smoothing
        The calibration of each fold: T and ε in `estimate_propensities`.
    converged
        Whether the classifier's fit converged in every fold.
    """

    values: FloatArray = field(repr=False)  # (n,)
    classifier: str
    folds: int
    log_loss: float
    baseline_log_loss: float
    calibration_error: float
    raw_calibration_error: float
    smallest: float
    raised: int
    temperatures: tuple[float, ...]
    smoothing: tuple[float, ...]
    converged: bool = True

    def describe(self) -> str:
        """Return a text about the estimate and its quality."""
        return (
            f"Propensities are estimated, not logged: {self.classifier}, cross-fitted over "
            f"{self.folds} folds and calibrated. Log loss {self.log_loss:.3g} "
            f"({self.baseline_log_loss:.3g} if the state told nothing), calibration error "
            f"{self.calibration_error:.2g} (before calibration {self.raw_calibration_error:.2g}), "
            f"smallest {self.smallest:.2g}."
            + (f" {self.raised} probabilities of 0 were raised." if self.raised else "")
            + ("" if self.converged else " The classifier's fit did not converge.")
        )


def with_estimated_propensities(
    log: Log, *, classifier: object = None, folds: int = 5, seed: int = 0
) -> tuple[Log, EstimatedPropensity]:
    """Return the log with estimated propensities, which replace any logged ones, and their report.

    Examples
    --------
    >>> import numpy as np
    >>> from tailproof import Log
    >>> rng = np.random.default_rng(0)
    >>> states = rng.normal(size=2000)
    >>> right = 1 / (1 + np.exp(-states))
    >>> actions = (rng.random(2000) < right).astype(int)
    >>> log = Log.from_arrays(states, actions, states, states, episode=range(2000))
    >>> log, report = with_estimated_propensities(log)
    >>> truth = np.where(actions == 1, right, 1 - right)
    >>> bool(np.abs(log.propensity - truth).mean() < 0.02)
    True
    """
    report = estimate_propensities(log, classifier=classifier, folds=folds, seed=seed)
    values = check_propensity(report.values, log.n_transitions, log.action_space)
    return replace(log, propensity=values), report


def estimate_propensities(
    log: Log, *, classifier: object = None, folds: int = 5, seed: int = 0
) -> EstimatedPropensity:
    """Estimate π̂(a | s) of the logging policy at the logged actions.

    Cross-fitting: the classifier that predicts for a fold of whole episodes (or groups) is fitted on
    the other folds. Its prediction p is then calibrated to

        p̂(a) ∝ [(1 − ε) p(a) + ε m(a)]^(1/T),

    where m are the action frequencies in the other folds, with 1 added to each count so that no
    estimate is 0. T and ε minimise the log loss of the out-of-fold predictions in the other folds
    (these models were also fitted on this fold; for two parameters the effect is small).
    T is temperature scaling (Guo et al., 2017, section 4.2).

    Parameters
    ----------
    log
        A log with discrete actions.
    classifier
        ``"logistic"`` (the default: multinomial logistic regression on standardised states),
        ``"boosting"``, ``"forest"``, or any object with `fit` and `predict_proba`.
    folds
        Number of folds, at least 2.
    seed
        Seed of the folds and of the named classifiers.
    """
    if folds < 2:
        raise LogError(f"Cross-fitting needs at least 2 folds. Got {folds}.")
    model = _classifier(classifier, seed)
    found = _cross_fitted(model, log, folds, seed)
    at = np.arange(log.n_transitions), log.actions
    values = found.probabilities[at]
    frequency = np.bincount(log.actions, minlength=log.n_actions) / log.n_transitions
    occurring = frequency[frequency > 0]
    return EstimatedPropensity(
        values=values,
        classifier=_name(model),
        folds=folds,
        log_loss=float(-np.log(values).mean()),
        baseline_log_loss=float(-(occurring * np.log(occurring)).sum()) + 0.0,
        calibration_error=calibration_error(found.probabilities, log.actions),
        raw_calibration_error=calibration_error(found.raw, log.actions),
        smallest=float(values.min()),
        raised=int((found.raw[at] <= 0).sum()),
        temperatures=found.temperatures,
        smoothing=found.smoothing,
        converged=found.converged,
    )


def behaviour_probabilities(log: Log, *, seed: int = 0) -> tuple[FloatArray, FloatArray]:
    """Return π̂(a | s) of the logging policy in the states and in the next states, (n, A) each.

    The estimates are cross-fitted: no model predicts for its own training episodes. In the states,
    the logged action has its logged propensity, if any, and the other actions are rescaled.
    """
    folds = min(5, log.n_groups)
    if folds < 2 or np.ptp(log.states, axis=0).max() == 0:
        counts = np.bincount(log.actions, minlength=log.n_actions)
        probabilities = np.tile(counts / counts.sum(), (log.n_transitions, 1))
        return _with_logged(probabilities, log), probabilities
    found = _cross_fitted(
        _classifier(None, seed), log, folds, seed, with_next_states=not log.is_bandit
    )
    return _with_logged(found.probabilities, log), found.after


def _with_logged(probabilities: FloatArray, log: Log) -> FloatArray:
    if log.propensity is None:
        return probabilities
    at = np.arange(len(probabilities)), log.actions
    rest = 1 - probabilities[at]
    factor = np.where(rest > 0, (1 - log.propensity) / np.where(rest > 0, rest, 1), 0)
    probabilities = probabilities * factor[:, None]
    probabilities[at] = log.propensity
    return np.asarray(probabilities / probabilities.sum(axis=1, keepdims=True))


def calibration_error(probabilities: FloatArray, actions: IntArray, *, bins: int = 15) -> float:
    """Return ½ Σ_a Σ_b (n_ab / n) |mean prediction − observed frequency| of action a in bin b.

    The predictions for each action are divided into `bins` of about equal size; equal predictions
    share a bin. The factor ½ makes it a distance between distributions, from 0 to 1.

    Examples
    --------
    >>> import numpy as np
    >>> even = np.full((4, 2), 0.5)
    >>> calibration_error(even, np.array([0, 1, 1, 0])), calibration_error(even, np.zeros(4, int))
    (0.0, 0.5)
    """
    total = 0.0
    for action, predicted in enumerate(probabilities.T):
        edges = np.unique(np.quantile(predicted, np.linspace(0, 1, bins + 1)[1:-1]))
        within = np.searchsorted(edges, predicted, side="right")
        gaps = np.bincount(within, weights=predicted - (actions == action))
        total += float(np.abs(gaps).sum())
    return total / (2 * len(actions))


def _classifier(given: Any, seed: int) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestClassifier
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if given is None or given == "logistic":
        return make_pipeline(StandardScaler(), LogisticRegression(max_iter=500))
    if given == "boosting":
        return HistGradientBoostingClassifier(random_state=seed)
    if given == "forest":
        return RandomForestClassifier(min_samples_leaf=10, random_state=seed)
    if isinstance(given, str) or not (hasattr(given, "fit") and hasattr(given, "predict_proba")):
        raise LogError(
            f"classifier must be one of {', '.join(CLASSIFIERS)}, or have fit and predict_proba. "
            f"Got {given!r} instead."
        )
    return given


def _name(model: Any) -> str:
    steps = getattr(model, "steps", None)
    return type(steps[-1][1] if steps else model).__name__


class _CrossFitted(NamedTuple):
    """Out-of-fold predictions for each row."""

    raw: FloatArray  # (n, A) in the states, before calibration
    probabilities: FloatArray  # (n, A) calibrated
    after: FloatArray  # (n, A) calibrated, in the next states
    temperatures: tuple[float, ...]  # of each fold
    smoothing: tuple[float, ...]
    converged: bool


def _cross_fitted(
    model: Any, log: Log, folds: int, seed: int, *, with_next_states: bool = False
) -> _CrossFitted:
    """Return out-of-fold predictions, also for next states if `with_next_states`."""
    rng = np.random.default_rng(seed)
    fold = Split(folds).assign(log, rng).fold_of_episode()[log.episode_of_row]  # (n,)
    raw, raw_after = np.zeros((2, log.n_transitions, log.n_actions))
    marginal = np.empty((folds, log.n_actions))
    converged = True
    for k in range(folds):
        train, test = fold != k, np.flatnonzero(fold == k)
        seen = log.actions[train]
        marginal[k] = (np.bincount(seen, minlength=log.n_actions) + 1) / (len(seen) + log.n_actions)
        if (seen == seen[0]).all():  # only one class
            raw[test, seen[0]] = raw_after[test, seen[0]] = 1.0
            continue
        fitted, well = _fitted(model, log.states[train], seen)
        converged &= well
        into = np.ix_(test, np.asarray(fitted.classes_).astype(np.intp))
        raw[into] = _predicted(fitted, log.states[test])
        raw_after[into] = (
            _predicted(fitted, log.next_states[test]) if with_next_states else raw[into]
        )
    probabilities, after = np.empty((2, *raw.shape))
    settings = []
    for k in range(folds):
        own, others = fold == k, np.flatnonzero(fold != k)
        if len(others) > CALIBRATION_ROWS:
            others = rng.choice(others, CALIBRATION_ROWS, replace=False)
        settings.append(_fit_calibration(raw[others], marginal[[k]], log.actions[others]))
        probabilities[own] = _calibrated(raw[own], marginal[[k]], *settings[-1])
        after[own] = (
            _calibrated(raw_after[own], marginal[[k]], *settings[-1])
            if with_next_states
            else probabilities[own]
        )
    temperatures, smoothing = zip(*settings, strict=True)
    return _CrossFitted(raw, probabilities, after, temperatures, smoothing, converged)


def _fitted(model: Any, states: FloatArray, actions: IntArray) -> tuple[Any, bool]:
    """Return a fitted copy of a classifier, and whether it converged."""
    from sklearn.base import clone
    from sklearn.exceptions import ConvergenceWarning

    fitted = clone(model, safe=False)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        fitted.fit(states, actions)
    others = [each for each in caught if not issubclass(each.category, ConvergenceWarning)]
    for each in others:
        warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)
    return fitted, len(others) == len(caught)


def _predicted(fitted: Any, states: FloatArray) -> FloatArray:
    predicted = np.asarray(fitted.predict_proba(states), dtype=float)
    wanted = (len(states), len(fitted.classes_))
    if predicted.shape != wanted or not np.isfinite(predicted).all():
        raise LogError(
            f"{_name(fitted)}.predict_proba must return a finite probability for each of its "
            f"{wanted[1]} classes. Got the shape {predicted.shape}."
        )
    return predicted


def _calibrated(
    raw: FloatArray, marginal: FloatArray, temperature: float, share: float
) -> FloatArray:
    logits = np.log((1 - share) * raw + share * marginal) / temperature
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return np.asarray(powers / powers.sum(axis=1, keepdims=True))


def _fit_calibration(
    raw: FloatArray, marginal: FloatArray, actions: IntArray
) -> tuple[float, float]:
    """Return the temperature and the share of m with the smallest log loss."""
    at = np.arange(len(actions)), actions

    def settings(x: FloatArray) -> tuple[float, float]:
        return float(np.exp(x[0])), float(1 / (1 + np.exp(-x[1])))

    def loss(x: FloatArray) -> float:
        temperature, share = settings(x)
        logits = np.log((1 - share) * raw + share * marginal) / temperature
        highest = logits.max(axis=1)
        total = highest + np.log(np.exp(logits - highest[:, None]).sum(axis=1))
        return float((total - logits[at]).mean())

    # T lies within [1/20, 20]; ε lies between the weight of one observation and almost 1.
    bounds = [(-3.0, 3.0), (-np.log(max(len(actions), 2)), 5.0)]
    start = np.array([0.0, bounds[1][0] / 2])
    found = scipy.optimize.minimize(loss, start, method="L-BFGS-B", bounds=bounds)
    best = found.x if loss(found.x) <= loss(start) else start
    return settings(best)
