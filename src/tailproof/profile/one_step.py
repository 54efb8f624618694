"""One-step logs: rows in canonical order, propensities and outcome models, all by the log alone."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple, Protocol

import numpy as np
from scipy.special import ndtri

from tailproof.arrays import BoolArray, FloatArray, IntArray
from tailproof.critics.ridge import gcv_ridge, sizes_by_state
from tailproof.critics.task import rank_of_group
from tailproof.log.folds import label_hash
from tailproof.log.log import Log
from tailproof.log.spaces import ActionSpace
from tailproof.parallel import one_tree_thread
from tailproof.profile.observations import Observations, common_rewards, common_value, logged_scores
from tailproof.robust.gains import Scored
from tailproof.robust.pooling import PoolingLevels, common_reward

FOLDS = 5  # of every cross-fit
_MOST_COLUMNS = 300  # most state columns; those dominated by one value are dropped first
_ENOUGH_FOR_AN_ARM = 30  # an action with fewer rows uses the shared model
_FEW_ACTIONS = 10  # up to this number the action is an input of the trees; beyond, only the state
TREE_ROWS = 100_000  # most training rows of trees
_LEAST, _MOST = 100, 300  # limits of the number of columns of a design
FLOOR = 0.01  # smallest estimated propensity
_FEW_ACTIONS_WEIGHTS = 8  # most actions for which logistic regression and boosting are fast enough
_JUDGING_ROWS = 200_000  # rows used to choose the model by likelihood; rows are in random order
_WORTH = 0.85  # a robust point must reduce the variance to at most this share
_DOUBT = 2.0  # standard errors beyond which two tails count as different
_FEW = 60  # rows that do not tell their tails


class Outcome(Protocol):
    """A model q̂(s, a) of the reward; it predicts rows that it was not fitted to."""

    @property
    def logged(self) -> FloatArray:
        """q̂(s_i, a_i), (n,)."""

    def under(self, policy: FloatArray) -> FloatArray:
        """Return Σ_a π(a | s_i) q̂(s_i, a), (n,), for probabilities (n, A)."""


class Propensities(NamedTuple):
    """P(a_i | s_i) of the logging policy, and the model that estimated it; None if it was logged."""

    values: FloatArray  # (n,)
    estimated_by: str | None


class RobustMean(NamedTuple):
    """How residuals r − q̂(s, a) are averaged where both tails are heavy and alike."""

    outcome: Outcome
    threshold: float  # of the Huber mean

    def residual(self, rows: OneStepRows, weights: FloatArray) -> float:
        """Return the weighted Huber mean of the residuals."""
        return weighted_huber(rows.rewards - self.outcome.logged, weights, self.threshold)


@dataclass(frozen=True, eq=False)
class OneStepRows:
    """The rows of a one-step log with discrete actions, and what follows from them alone.

    Rows, columns and actions are ordered by their ranks: shuffling the file, swapping columns,
    relabelling actions or changing a unit gives the same numbers.
    """

    states: FloatArray  # (n, d) standardised, without constant and repeated columns
    binary: BoolArray  # (d,) which columns have two values
    actions: IntArray  # (n,)
    rewards: FloatArray  # (n,)
    propensity: FloatArray | None  # (n,) if it was logged
    n_actions: int  # A
    observations: Observations  # the independent observation of each row: its group, or itself
    fold: IntArray  # (n,) the fold in which each row is held out; observations stay whole
    space: ActionSpace  # of the log
    codes: IntArray  # (A,) the log's code of each action
    order: IntArray  # (n,) the position of each row in the log
    copies: IntArray | None = (
        None  # (n,) how often weights repeat a row, at the first of them, else 0
    )

    @classmethod
    def of(cls, log: Log, key: int) -> OneStepRows:
        """Return the rows in an order that depends only on their contents and on the key."""
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
        unit = np.arange(len(order)) if log.group_ids is None else rank_of_group(log, key)[order]
        return cls(
            states=states[order],
            binary=np.array([len(np.unique(column)) == 2 for column in ranked.T], dtype=bool),
            actions=relabelled[order],
            rewards=log.rewards[order],
            propensity=None if log.propensity is None else log.propensity[order],
            n_actions=log.n_actions,
            observations=Observations(unit, "row" if log.group_ids is None else "group"),
            fold=unit % FOLDS,
            space=log.action_space,
            codes=action_order,
            order=order,
            copies=None if log.once is log else _copies(log.copy_of[order]),
        )

    @property
    def count(self) -> int:
        """Number of rows, n."""
        return len(self.rewards)

    def taken(self, table: FloatArray) -> FloatArray:
        """Return the entries of a table (n, A) at the logged actions, (n,)."""
        return np.asarray(table[np.arange(self.count), self.actions])

    def in_order(self, probabilities: FloatArray) -> FloatArray:
        """Return a table (n, A) of the log with its rows and actions in the order of these rows."""
        return np.asarray(probabilities[np.ix_(self.order, self.codes)])

    def in_log(self, values: FloatArray) -> FloatArray:
        """Return values of these rows, (n,), in the order of the log."""
        found = np.empty_like(values)
        found[self.order] = values
        return found

    @cached_property
    def unit_of_row(self) -> IntArray:
        """The observation of each row, in the order of the log, (n,)."""
        found = np.empty(self.count, dtype=np.intp)
        found[self.order] = self.observations.of_sample
        return found

    @cached_property
    def propensities(self) -> Propensities:
        """The logged propensities, or else estimated ones."""
        if self.propensity is not None:
            return Propensities(self.propensity, None)
        with one_tree_thread():
            return estimated_propensities(self)

    @cached_property
    def common(self) -> AdditiveOutcome | None:
        """The reward that most rows of each action have, as a model of the reward; None without one."""
        common = common_rewards(self.rewards, self.actions, self.n_actions)
        if common is None:
            return None
        return AdditiveOutcome.of(self, np.tile(common, (FOLDS, 1)), np.zeros(self.count))

    @cached_property
    def usual(self) -> float | None:
        """The most frequent reward, if more than 5 % of the rows have it."""
        return common_reward(self.rewards)

    @cached_property
    def pooling(self) -> PoolingLevels:
        """Rewards with pooled extremes, for each threshold of `robust.pooling`."""
        return PoolingLevels.of(self.rewards)

    @cached_property
    def pooling_by_state(self) -> PoolingLevels:
        """The same, relative to the sizes that the state predicts; `pooling` if it predicts none."""
        found = PoolingLevels.of(self.rewards, sizes=sizes_by_state(self.states, self.fold))
        pairs = zip(found.pooled, self.pooling.pooled, strict=True)
        return self.pooling if all(np.array_equal(*pair) for pair in pairs) else found

    @cached_property
    def clipped(self) -> FloatArray:
        """Rewards without their extremes, to fit and rank models, never to estimate with, (n,)."""
        return winsorised(self.rewards)

    @cached_property
    def no_outcome(self) -> AdditiveOutcome:
        """q̂ = 0: doubly robust scores are then those of importance sampling."""
        return AdditiveOutcome.of(self, np.zeros((FOLDS, self.n_actions)), np.zeros(self.count))

    @cached_property
    def outcomes(self) -> dict[str, Outcome]:
        """All models of the reward: none, ridge, quadratic, per action, boosting."""
        with one_tree_thread():
            return fit_outcomes(self)

    @cached_property
    def robust(self) -> RobustMean | None:
        """The robust mean of the residuals, if their tails are heavy and alike.

        The log alone decides about that, the model and the threshold: a policy that does what was
        logged must have the logged value.
        """
        unclipped = {name: each for name, each in self.outcomes.items() if name != "boosting"}
        errors = {name: self.clipped - each.logged for name, each in unclipped.items()}
        best = self.least_varying({name: each - each.mean() for name, each in errors.items()})
        residuals = self.rewards - unclipped[best].logged
        threshold = huber_threshold(residuals, self.actions)
        return None if threshold is None else RobustMean(unclipped[best], threshold)

    def logged_scores(self, *, policy_is_rare: bool) -> Scored:
        """Return the logged value with its scores, beside a policy whose events are rare, or not."""
        return self._logged_beside_rare if policy_is_rare else self._logged

    @cached_property
    def _logged(self) -> Scored:
        if self.common is not None:
            return logged_scores(
                self.observations, self.rewards, common=self.common.logged, pool=True
            )
        robust = None
        if self.robust is not None:
            even = np.ones(self.count)
            robust = float(self.robust.outcome.logged.mean()) + self.robust.residual(self, even)
        return logged_scores(self.observations, self.rewards, robust=robust, pool=True)

    @cached_property
    def _logged_beside_rare(self) -> Scored:
        common = None if self.common is None else self.common.logged
        return logged_scores(
            self.observations, self.rewards, common=common, policy_is_rare=True, pool=True
        )

    def least_varying(self, samples: dict[str, FloatArray]) -> str:
        """Return the name of the samples, (n,) each, with the smallest mean square, or "none".

        It must beat "none" by one standard error of the difference between the squares.
        """
        squares = {name: self.observations.sums(each) ** 2 for name, each in samples.items()}
        best = min(squares, key=lambda name: float(squares[name].mean()))
        lead = squares["none"] - squares[best]
        return best if lead.mean() > lead.std() / np.sqrt(len(lead)) else "none"


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


Model = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, eq=False)
class AdditiveOutcome:
    """q̂(s, a) = mean of a in the other folds + f(s)."""

    fold: IntArray  # (n,)
    means: FloatArray  # (FOLDS, A)
    common: FloatArray  # (n,) f(s_i)
    logged: FloatArray  # (n,)

    @classmethod
    def of(cls, rows: OneStepRows, means: FloatArray, common: FloatArray) -> AdditiveOutcome:
        """Return the model of some rows."""
        return cls(rows.fold, means, common, means[rows.fold, rows.actions] + common)

    def under(self, policy: FloatArray) -> FloatArray:
        """Return Σ_a π(a | s_i) q̂(s_i, a), (n,)."""
        by_fold = policy @ self.means.T  # (n, FOLDS)
        return np.asarray(by_fold[np.arange(len(policy)), self.fold] + self.common)


@dataclass(frozen=True, eq=False)
class PerActionOutcome:
    """A model of each action with enough rows; a shared one for the others."""

    shared: AdditiveOutcome
    own: IntArray  # (B,) the actions with a model in any fold
    excess: FloatArray  # (B, n) the action's model less the shared one
    logged: FloatArray  # (n,)

    def under(self, policy: FloatArray) -> FloatArray:
        """Return Σ_a π(a | s_i) q̂(s_i, a), (n,)."""
        found = self.shared.under(policy)
        for action, excess in zip(self.own, self.excess, strict=True):
            found += policy[:, action] * excess
        return found


class BoostedOutcome:
    """Few small trees on state and action; actions are predicted where a policy takes them."""

    def __init__(self, rows: OneStepRows, models: list[Model | None]) -> None:
        self._states, self._fold, self._models = rows.states, rows.fold, models
        self._table = np.full((rows.n_actions, rows.count), np.nan)  # the predictions so far
        self._complete = np.zeros(rows.n_actions, dtype=bool)  # whether none is missing
        self.logged = np.zeros(rows.count)
        for action in range(rows.n_actions):
            here = rows.actions == action
            self.logged[here] = self._predicted(action, here)[here]

    def under(self, policy: FloatArray) -> FloatArray:
        """Return Σ_a π(a | s_i) q̂(s_i, a), (n,)."""
        found = np.zeros(len(policy))
        for action, share in enumerate(policy.T):
            if self._complete[action]:
                found += share * self._table[action]
                continue
            taken = share > 0
            found[taken] += share[taken] * self._predicted(action, taken)[taken]
        return found

    def _predicted(self, action: int, wanted: BoolArray) -> FloatArray:
        """Return the predictions for an action, (n,), known at least in the wanted rows."""
        table: FloatArray = self._table[action]
        missing = wanted & np.isnan(table)
        chosen = np.eye(len(self._table))[action]
        for fold, model in enumerate(self._models):
            rows = np.flatnonzero(missing & (self._fold == fold))
            if len(rows):
                repeated = np.broadcast_to(chosen, (len(rows), len(chosen)))
                inputs = np.hstack([self._states[rows], repeated])
                with one_tree_thread():
                    table[rows] = 0.0 if model is None else model(inputs)
        self._complete[action] = not np.isnan(table).any()
        return table


def fit_outcomes(rows: OneStepRows) -> dict[str, Outcome]:
    """Fit every model without each fold; where no state varies, only the means of actions."""
    if rows.states.shape[1] == 0:
        return {"none": rows.no_outcome, "ridge": _shared(rows, rows.states, _ridge)}
    wide = quadratic(rows)
    shared = _shared(rows, wide, _ridge)
    few = rows.n_actions <= _FEW_ACTIONS
    return {
        "none": rows.no_outcome,
        "ridge": _shared(rows, rows.states, _ridge),
        "quadratic": shared,
        "quadratic per action": _per_action(rows, wide, shared),
        "boosting": _boosting(rows) if few else _shared(rows, rows.states, _clipped_trees),
    }


def _folds(rows: OneStepRows) -> Iterator[tuple[int, IntArray, IntArray]]:
    """Yield each fold with its training and test rows, if neither is empty."""
    for fold in range(FOLDS):
        train, test = np.flatnonzero(rows.fold != fold), np.flatnonzero(rows.fold == fold)
        if len(train) and len(test):
            yield fold, train, test


class _Sample(NamedTuple):
    """Which training rows trees are fitted to, how often each counts, and how many there are in all."""

    kept: IntArray | slice
    weights: IntArray | None
    of_rows: int

    @classmethod
    def of(cls, rows: OneStepRows, train: IntArray) -> _Sample:
        """Return the first `TREE_ROWS`; of more than these, the copies that weights make once."""
        if rows.copies is None or len(train) <= TREE_ROWS:
            return cls(slice(TREE_ROWS), None, rows.count)
        kept = np.flatnonzero(rows.copies[train])[:TREE_ROWS]
        return cls(kept, rows.copies[train[kept]], len(kept))


def _copies(row: IntArray) -> IntArray:
    """Return how often each row of the file is repeated, at the first of its copies, (n,)."""
    first = np.flatnonzero(np.diff(row, prepend=-1))  # equal rows stand together
    found = np.zeros(len(row), dtype=np.intp)
    found[first] = np.diff(first, append=len(row))
    return found


def _action_means(rows: OneStepRows, train: IntArray) -> FloatArray:
    """Return the mean reward of each action, or of all rows for an action without rows, (A,)."""
    rewards, actions = rows.rewards[train], rows.actions[train]
    count = np.bincount(actions, minlength=rows.n_actions)
    total = np.bincount(actions, weights=rewards, minlength=rows.n_actions)
    return np.where(count > 0, total / np.maximum(count, 1), rewards.mean())


def _shared(
    rows: OneStepRows, inputs: FloatArray, fit: Callable[[FloatArray, FloatArray, _Sample], Model]
) -> AdditiveOutcome:
    """Fit q̂(s, a) = mean of a + f(s)."""
    means, common = np.zeros((FOLDS, rows.n_actions)), np.zeros(rows.count)
    for fold, train, test in _folds(rows):
        means[fold] = _action_means(rows, train)
        residual = rows.rewards[train] - means[fold, rows.actions[train]]
        common[test] = fit(inputs[train], residual, _Sample.of(rows, train))(inputs[test])
    return AdditiveOutcome.of(rows, means, common)


def _ridge(inputs: FloatArray, target: FloatArray, _: _Sample | None = None) -> Model:
    coefficients, intercept = gcv_ridge(inputs, target)
    return lambda at: at @ coefficients + intercept


def _per_action(rows: OneStepRows, inputs: FloatArray, shared: AdditiveOutcome) -> PerActionOutcome:
    """Fit a ridge to each action with enough rows."""
    least = _ENOUGH_FOR_AN_ARM if rows.n_actions <= _FEW_ACTIONS else 3 * inputs.shape[1]
    counts = np.bincount(rows.actions, minlength=rows.n_actions)
    own = np.flatnonzero(counts >= least)  # in some fold perhaps too few
    excess, logged = np.zeros((len(own), rows.count)), shared.logged.copy()
    for fold, train, test in _folds(rows):
        for place, action in enumerate(own):
            taught = train[rows.actions[train] == action]
            if len(taught) < least:
                continue
            predicted = _ridge(inputs[taught], rows.rewards[taught])(inputs[test])
            excess[place, test] = predicted - shared.means[fold, action] - shared.common[test]
            here = rows.actions[test] == action
            logged[test[here]] = predicted[here]
    return PerActionOutcome(shared, own, excess, logged)


def _boosting(rows: OneStepRows) -> BoostedOutcome:
    """Fit few small trees on state and action to clipped rewards."""
    models: list[Model | None] = [None] * FOLDS
    chosen = np.eye(rows.n_actions)
    for fold, train, _ in _folds(rows):
        inputs = np.hstack([rows.states[train], chosen[rows.actions[train]]])
        mean = rows.rewards[train].mean()
        models[fold] = _trees(inputs, rows.clipped[train], mean, _Sample.of(rows, train))
    return BoostedOutcome(rows, models)


def _clipped_trees(inputs: FloatArray, target: FloatArray, sample: _Sample) -> Model:
    """Fit few small trees on the state to clipped residuals."""
    mean = target.mean()
    if inputs.shape[1] == 0:
        return lambda at: np.full(len(at), mean)
    return _trees(inputs, np.clip(target, *np.quantile(target, [0.01, 0.99])), mean, sample)


def _trees(inputs: FloatArray, target: FloatArray, mean: float, sample: _Sample) -> Model:
    """Fit trees to a clipped target; predictions are shifted back to the unclipped mean."""
    from sklearn.ensemble import HistGradientBoostingRegressor  # slow to import

    model = HistGradientBoostingRegressor(
        max_iter=40,
        max_leaf_nodes=8,
        l2_regularization=1.0,
        min_samples_leaf=int(np.clip(min(sample.of_rows, TREE_ROWS) // 125, 10, None)),
        early_stopping=False,
        random_state=0,
    )
    # trees compute in single precision, which a large constant would use up
    spread, centre = float(target.std()) or 1.0, float(target.mean())
    scaled = (target[sample.kept] - centre) / spread
    model.fit(inputs[sample.kept], scaled, sample_weight=sample.weights)
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


def estimated_propensities(rows: OneStepRows) -> Propensities:
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
    return Propensities(np.clip(np.concatenate([found[best], rest]), FLOOR, 1), best)


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
        min_samples_leaf=int(np.clip(min(rows.count, TREE_ROWS) // 100, 20, None)),
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
            found.append(clone(model).fit(inputs[train[:TREE_ROWS]], seen[:TREE_ROWS]))
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
