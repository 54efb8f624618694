"""The default method for one-step logs: weights, outcome models, scores, and the choice among them."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from tailproof.arrays import BoolArray, FloatArray, IntArray
from tailproof.critics.base import Numbers
from tailproof.critics.task import PolicyOnLog, Task, on_log, place_of_group
from tailproof.errors import LogError
from tailproof.estimators.choice import OneStepChoice, guarantee, one_step_choice, standard_error
from tailproof.log.folds import Folds, label_hash
from tailproof.log.log import Log
from tailproof.log.spaces import ActionSpace
from tailproof.parallel import one_tree_thread
from tailproof.profile.observations import Observations, common_rewards, common_value, rare_spread
from tailproof.profile.shape import reward_shape
from tailproof.robust.spreads import Spread, centred, hall_spread
from tailproof.rules import RULES

FOLDS = 5  # of every cross-fit
_MOST_COLUMNS = 300  # most state columns; those dominated by one value are dropped first


@dataclass(frozen=True, eq=False)
class OneStepRows:
    """The input of the estimators for one-step logs.

    Rows, columns and actions are ordered by their ranks: shuffling the file, swapping columns,
    relabelling actions or changing a unit gives the same numbers.
    """

    states: FloatArray  # (n, d) standardised, without constant and repeated columns
    binary: BoolArray  # (d,) which columns have two values
    actions: IntArray  # (n,)
    rewards: FloatArray  # (n,)
    propensity: FloatArray | None  # (n,) if it was logged
    policy: FloatArray  # (n, A) π(a | s)
    observations: Observations  # the independent observation of each row: its group, or itself
    fold: IntArray  # (n,) the fold in which each row is held out; observations stay whole
    space: ActionSpace  # of the log
    codes: IntArray  # (A,) the log's code of each action
    order: IntArray  # (n,) the position of each row in the log

    @property
    def count(self) -> int:
        """Number of rows, n."""
        return len(self.rewards)

    @property
    def n_actions(self) -> int:
        """Number of actions, A."""
        return int(self.policy.shape[1])

    def taken(self, table: FloatArray) -> FloatArray:
        """Return the entries of a table (n, A) at the logged actions, (n,)."""
        return np.asarray(table[np.arange(self.count), self.actions])


def is_one_step(task: Task) -> bool:
    """Return whether the estimators for one-step logs apply: discrete actions, logged starts."""
    log = task.log
    if not (isinstance(log, Log) and log.is_bandit and log.is_discrete):
        return False
    return task.initial_states is None or np.array_equal(task.initial_states, log.states)


def canonical_rows(task: Task, rng: np.random.Generator) -> OneStepRows:
    """Return the rows of a one-step log in an order that depends only on contents and seed."""
    log: Log = task.log
    key = int(rng.integers(2**63))
    reward_hash = label_hash(_ranks(log.rewards), 1)
    action_order = _action_order(log.actions, reward_hash, log.n_actions)
    relabelled = np.argsort(action_order)[log.actions]
    base = reward_hash + label_hash(relabelled, 2)
    states, signatures, ranked = _columns(log.states, base)
    content = base.copy()
    for signature, ranks in zip(signatures, ranked.T, strict=True):
        content += label_hash(ranks, int(signature >> np.uint64(1)))
    if log.propensity is not None:
        content += label_hash(_ranks(log.propensity), 3)
    shuffled = label_hash(content.view(np.int64), key)
    order = np.argsort(shuffled, kind="stable")
    unit = np.arange(len(order)) if log.group_ids is None else place_of_group(log, key)[order]
    return OneStepRows(
        states=states[order],
        binary=np.array([len(np.unique(column)) == 2 for column in ranked.T], dtype=bool),
        actions=relabelled[order],
        rewards=log.rewards[order],
        propensity=None if log.propensity is None else log.propensity[order],
        policy=task.action_probabilities[np.ix_(order, action_order)],
        observations=Observations(unit, "row" if log.group_ids is None else "group"),
        fold=unit % FOLDS,
        space=log.action_space,
        codes=action_order,
        order=order,
    )


def _ranks(values: FloatArray) -> IntArray:
    """Return the dense rank of each value, which does not depend on the unit."""
    return np.unique(values, return_inverse=True)[1]


def _action_order(actions: IntArray, reward_hash: IntArray, n_actions: int) -> IntArray:
    """Return the actions sorted by their frequency and their rewards."""
    count = np.bincount(actions, minlength=n_actions)
    low, high = (
        np.bincount(actions, weights=part.astype(float), minlength=n_actions)
        for part in (reward_hash & np.uint64(0xFFFFF), reward_hash >> np.uint64(44))
    )
    return np.lexsort((high, low, count))


def _columns(states: FloatArray, base: IntArray) -> tuple[FloatArray, IntArray, IntArray]:
    """Return distinct standardised columns in canonical order, their signatures and dense ranks."""
    kept: dict[int, list[tuple[FloatArray, IntArray]]] = {}
    for column in states.T:
        spread = column.std()
        if not spread > 1e-12 * np.abs(column).max():
            continue
        ranks = _ranks(column)
        signature = int((label_hash(ranks, 4) ^ base).sum(dtype=np.uint64))
        scaled = (column - column.mean()) / spread
        alike = kept.setdefault(signature, [])
        if not any(np.allclose(scaled, other, rtol=0, atol=1e-9) for other, _ in alike):
            alike.append((scaled, ranks))
    listed = [(signature, *pair) for signature in sorted(kept) for pair in kept[signature]]
    if len(listed) > _MOST_COLUMNS:
        listed.sort(key=lambda each: int(np.bincount(each[2]).max()))
        listed = sorted(listed[:_MOST_COLUMNS], key=lambda each: each[0])
    if not listed:
        nothing = np.empty((len(states), 0))
        return nothing, np.empty(0, dtype=np.uint64), nothing.astype(int)
    signatures = np.array([each[0] for each in listed], dtype=np.uint64)
    scaled = np.stack([each[1] for each in listed], axis=1)
    return scaled, signatures, np.stack([each[2] for each in listed], axis=1)


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


FLOOR = 0.01  # smallest estimated propensity
_FEW_ACTIONS_WEIGHTS = 8  # most actions for which logistic regression and boosting are fast enough
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
    if rows.n_actions > _FEW_ACTIONS_WEIGHTS:
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


_WORTH = 0.85  # a robust point must reduce the variance to at most this share
_DOUBT = 2.0  # standard errors beyond which two tails count as different
_FEW = 60  # rows that do not tell their tails


class RowScores(NamedTuple):
    """A value, and the influence of each row on it."""

    value: float  # mean(q̂(s, π)) + Σ w (r − q̂) / Σ w
    influence: FloatArray  # (n,) centred at 0: the value's error is their mean
    residuals: FloatArray  # (n,) r − q̂(s, a)


def doubly_robust(outcome: Prediction, weights: FloatArray, rewards: FloatArray) -> RowScores:
    """Return the self-normalised doubly robust value; weights have the mean 1."""
    residuals = rewards - outcome.logged
    mean = float((weights * residuals).mean())
    direct = float(outcome.policy.mean())
    influence = outcome.policy - direct + weights * (residuals - mean)
    return RowScores(direct + mean, influence, residuals)


def choose_outcome(outcomes: dict[str, Prediction], weights: FloatArray, rows: OneStepRows) -> str:
    """Return the model whose scores vary least on clipped rewards, or "none".

    It must beat "none" by one standard error of the difference between the squared scores.
    """
    clipped = winsorised(rows.rewards)
    return _least(
        {name: doubly_robust(each, weights, clipped).influence for name, each in outcomes.items()},
        rows,
    )


def best_fit(outcomes: dict[str, Prediction], rows: OneStepRows) -> str:
    """Return the model that predicts clipped rewards best, whatever the policy, or "none"."""
    clipped = winsorised(rows.rewards)
    errors = {name: clipped - each.logged for name, each in outcomes.items()}
    return _least({name: each - each.mean() for name, each in errors.items()}, rows)


def _least(samples: dict[str, FloatArray], rows: OneStepRows) -> str:
    squares = {name: rows.observations.sums(each) ** 2 for name, each in samples.items()}
    best = min(squares, key=lambda name: float(squares[name].mean()))
    lead = squares["none"] - squares[best]
    return best if lead.mean() > lead.std() / np.sqrt(len(lead)) else "none"


def huber_threshold(residuals: FloatArray, actions: IntArray) -> float | None:
    """Return the threshold of the Huber mean of least variance, if both tails are heavy and similar.

    Similar means that the numbers beyond the threshold on the two sides, and the clipped amounts,
    differ by at most two standard errors; in the rows of each action by as many as all actions
    together exceed in one of ten logs. The variance must also fall by 15 %. Rewards with an atom,
    such as binary ones, keep their plain mean.
    """
    even = np.ones(len(residuals))
    if len(residuals) < _FEW or np.unique(residuals, return_counts=True)[1].max() > 0.1 * len(even):
        return None
    plain = float(residuals.var()) / len(residuals)
    best: tuple[float, float] | None = None
    size = np.abs(residuals - np.median(residuals))
    for threshold in np.quantile(size, [0.75, 0.85, 0.9, 0.95, 0.98]).tolist():
        if not _balanced(residuals, threshold, _DOUBT):
            return None
        off = np.abs(residuals - weighted_huber(residuals, even, threshold))
        slope = float((off <= threshold).sum())
        variance = float((np.minimum(off, threshold) ** 2).sum()) / slope**2
        if best is None or variance < best[0]:
            best = variance, threshold
    if best is None or best[0] > _WORTH * plain:
        return None
    own = [residuals[actions == action] for action in np.unique(actions)]
    doubt = float(ndtri(1 - 0.05 / len(own)))
    return best[1] if all(_balanced(each, best[1], doubt) for each in own) else None


def _balanced(residuals: FloatArray, threshold: float, doubt: float) -> bool:
    """Return whether the tails beyond the threshold are alike; so are tails of few rows."""
    off: FloatArray = residuals - float(np.median(residuals))
    right, left = int((off > threshold).sum()), int((off < -threshold).sum())
    if right + left < 10:
        return True
    off = residuals - weighted_huber(residuals, np.ones(len(residuals)), threshold)
    excess = off - np.clip(off, -threshold, threshold)
    return bool(
        abs(right - left) <= doubt * np.sqrt(right + left)
        and abs(excess.sum()) <= doubt * np.sqrt((excess**2).sum())
    )


def weighted_huber(residuals: FloatArray, weights: FloatArray, threshold: float) -> float:
    """Return the weighted Huber mean of residuals."""
    y, v = residuals[weights > 0], weights[weights > 0]
    location = float(np.median(y))
    for _ in range(50):
        near = np.minimum(1, threshold / np.maximum(np.abs(y - location), 1e-300)) * v
        moved = float((near * y).sum() / near.sum())
        if abs(moved - location) < 1e-9 * threshold:
            return moved
        location = moved
    return location


def action_weights(rows: OneStepRows) -> FloatArray:
    """Return π̄(a) / P̂(a), the weights for actions independent of states, with mean 1, (n,)."""
    share = np.bincount(rows.actions, minlength=rows.n_actions) / rows.count
    ratio = rows.policy.mean(axis=0) / np.maximum(share, 1 / rows.count)
    weights: FloatArray = ratio[rows.actions]
    mean = weights.mean()
    return weights / mean if mean > 0 else np.ones(rows.count)


def shrunk(scores: RowScores, target: RowScores, rows: OneStepRows) -> float:
    """Return the value shrunk towards a less variable one, b: b + d³ / (d² + var d), d = value − b.

    The share d²/(d² + var d) of the difference is kept: nearly all if the two differ clearly.
    """
    difference = scores.value - target.value
    moved = rows.observations.sums(scores.influence - target.influence)
    variance = float((moved**2).sum()) / rows.count**2
    if variance == 0 or difference == 0:
        return scores.value
    return target.value + difference / (1 + variance / difference / difference)


_INSIDE = 0.05  # the point is clipped to the interval with this error probability on each side


def one_step_numbers(task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
    """Estimate the policy's value from a one-step log with discrete actions, on each fold."""
    key = int(rng.integers(2**63))
    choices = []
    for k in range(folds.count):
        own = task
        if folds.count > 1:
            own = replace(task, log=folds.log(task.log, k), initial_states=None)
        with one_tree_thread():
            choices.append(evaluate_rows(canonical_rows(own, np.random.default_rng(key))))
    values = np.array([choice.value for choice in choices])
    if folds.count > 1:
        return Numbers(values)
    return Numbers(values, choice=replace(choices[0], measured=partial(reward_shape, task.log)))


def evaluate_rows(rows: OneStepRows) -> OneStepChoice:
    """Choose model, interval and point for the rows of a one-step log."""
    raw, estimated = row_weights(rows)
    w, rewards, observations = raw / raw.mean(), rows.rewards, rows.observations
    common = common_rewards(rewards, rows.actions, rows.n_actions)
    atoms = None if common is None else Prediction(common[rows.actions], rows.policy @ common)
    rare = atoms is not None and (
        observations.events((rewards != atoms.logged) & (w > 0)) < RULES.rare_events
    )
    outcomes = {"none": atoms} if rare and atoms is not None else fit_outcomes(rows)
    name = choose_outcome(outcomes, w, rows)
    scores = doubly_robust(outcomes[name], w, rewards)
    robust, logged = _huber_means(rows, w, outcomes) if atoms is None else (None, None)
    influence = observations.influence(scores.influence)
    spread = _spread(rows, w, scores, influence, atoms if rare else None)
    if robust is not None:
        spread = centred(spread, robust)
    steady = outcomes[name] if name != "none" else outcomes.get("ridge", outcomes["none"])
    marginal = doubly_robust(steady, action_weights(rows), rewards)
    value, how, why = _point(rows, name, scores, marginal, spread, robust)
    plain = doubly_robust(no_outcome(rows), w, rewards)
    plain_error = standard_error(observations.influence(plain.influence))
    gain = plain_error / spread.error if 0 < spread.error < np.inf else 1.0
    return one_step_choice(
        observations,
        rewards,
        raw,
        influence,
        spread,
        common=None if atoms is None else atoms.logged,
        rare=rare,
        robust=logged,
        cautions=_cautions(rows, estimated),
        value=value,
        estimator=how,
        plain_error=plain_error,
        alternatives={
            "importance sampling": float((raw * rewards).mean()),
            "self-normalised importance sampling": plain.value,
            "doubly robust": scores.value,
            "marginal weights": marginal.value,
        },
        sentences=_reasons(rows, estimated, name, rare=rare, point=why, gain=gain),
        guarantee=guarantee(observations, raw, rewards, known=estimated is None),
        on_log=_on_log(rows, raw),
        weights=raw[np.argsort(rows.order)],
    )


def _spread(
    rows: OneStepRows,
    w: FloatArray,
    scores: RowScores,
    influence: FloatArray,
    rare: Prediction | None,
) -> Spread:
    """Return the spread of the mean score: `Rare` for rare events, otherwise `Hall`."""
    observations = rows.observations
    if rare is not None and (rows.rewards != rare.logged).any():
        error = float(rare.policy.std()) / np.sqrt(rows.count)
        usual, differ = float(rare.policy.mean()), rows.rewards - rare.logged
        return rare_spread(observations, usual, differ, w, common_error=error)
    pooled = None
    if observations.name != "group":
        pooled = scores.residuals, float(w[w > 0].mean())
    return hall_spread(scores.value, influence, observations.sums(w) > 0, pooled=pooled)


def _on_log(rows: OneStepRows, weights: FloatArray) -> PolicyOnLog:
    """Return the policy's actions in the rows, with the log's own action codes."""
    shares = np.empty(rows.n_actions)
    shares[rows.codes] = rows.policy.mean(axis=0)
    agreement = float(rows.taken(rows.policy).mean())
    return on_log(rows.space, shares=shares, agreement=agreement, rows=rows.count, weights=weights)


def _huber_means(
    rows: OneStepRows, w: FloatArray, outcomes: dict[str, Prediction]
) -> tuple[float, float] | tuple[None, None]:
    """Return Huber means of the policy's and the log's scores, or None if tails are not alike.

    The log alone decides about that, the model and the threshold: a policy that does what was logged
    must have the logged value.
    """
    even = np.ones(rows.count)
    unclipped = {key: each for key, each in outcomes.items() if key != "boosting"}
    steady = unclipped[best_fit(unclipped, rows)]
    residuals = rows.rewards - steady.logged
    if (threshold := huber_threshold(residuals, rows.actions)) is None:
        return None, None
    own, logged = (weighted_huber(residuals, each, threshold) for each in (w, even))
    return float(steady.policy.mean()) + own, float(steady.logged.mean()) + logged


def _point(
    rows: OneStepRows,
    name: str,
    scores: RowScores,
    marginal: RowScores,
    spread: Spread,
    robust: float | None,
) -> tuple[float, str, str]:
    """Return the point estimate, its name, and the reason for it."""
    if robust is not None:
        return (
            robust,
            "Huber mean of doubly robust scores",
            "Both tails are heavy and alike: the point is a Huber mean, and the middle of an interval "
            "that is as wide as all scores make it.",
        )
    low, high = spread.ends(_INSIDE, _INSIDE)
    base = "weighted mean" if name == "none" else f"doubly robust mean ({name})"
    point = float(np.clip(shrunk(scores, marginal, rows), low, high))
    if abs(point - scores.value) <= 1e-9 * max(abs(scores.value), spread.error):
        return point, base, "The point is the plain mean of the scores."
    return (
        point,
        f"{base}, shrunk",
        "The point is moved towards the value by marginal weights, as far as chance explains their "
        "difference; the interval is not.",
    )


def _cautions(rows: OneStepRows, estimated: str | None) -> tuple[str, ...]:
    """Return the errors that the interval does not include, in words."""
    never = np.bincount(rows.actions, minlength=rows.n_actions) == 0
    unlogged = float(rows.policy[:, never].sum() / rows.count)
    said = []
    if unlogged > 0:
        said.append(
            f"{unlogged:.0%} of the policy's actions were never logged: of these the interval knows "
            f"nothing"
        )
    if estimated is not None:
        said.append("it takes the estimated propensities for the true ones")
    return tuple(said)


def _reasons(
    rows: OneStepRows, estimated: str | None, model: str, *, rare: bool, point: str, gain: float
) -> tuple[str, ...]:
    """Return how the log was evaluated, in sentences."""
    said = "The logged propensities weigh the rows."
    if estimated is not None:
        said = (
            f"No propensities were logged: they are estimated by {estimated}, cross-fitted over 5 "
            f"folds, and none is below 1 %."
        )
    used = f"A model of the reward ({model}) makes the scores vary less, so they are doubly robust."
    if rare:
        used = (
            f"Fewer than {RULES.rare_events} of the policy's rewards differ from the common one: every "
            f"one counts fully, and no model of the reward is fitted."
        )
    elif model == "none":
        used = "No model of the reward makes the scores vary clearly less: plain weighted rewards."
    sampled = not rare and rows.count > 1.25 * TREE_ROWS
    more = {
        "The trees learnt from a sample of 100,000 rows.": sampled,
        "Rows of one group count as one observation.": rows.observations.name == "group",
        point: True,
        f"Plain importance sampling has {gain:.1f} times the standard error.": gain > 1.05,
    }
    return (said, used, *(sentence for sentence, holds in more.items() if holds))
