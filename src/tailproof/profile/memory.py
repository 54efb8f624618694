"""Whether the logged columns tell all that matters, or what came earlier in an episode adds to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np
import scipy  # its parts are imported on first use

from tailproof.arrays import BoolArray, FloatArray, IntArray
from tailproof.critics.task import rank_of_group
from tailproof.errors import Caution
from tailproof.features import Standardise
from tailproof.log.columns import DECAYS, CriticColumns, Past, decayed
from tailproof.log.log import Log
from tailproof.parallel import one_thread
from tailproof.rules import RULES

_ROWS = 6_000  # most rows for the test
_FOLDS = 3
_FEWEST = 20  # groups of episodes, and ten rows of each where rewards come last
_AHEAD = 0.9  # decay of the rewards to come, by which next states are valued
_SETS: tuple[tuple[Past, ...], ...] = (
    ("actions",),
    ("actions", "rewards"),
    ("actions", "rewards", "states"),
)
_DECAYS = ((0.8,), (0.95,), (0.5, 0.8))  # for critics: more averages are too alike to fit
_ALIKE = 0.5  # standard errors by which more columns must be better
_RIDGE = 0.01  # share of each column's sum of squares
_DIGITS = 6


@dataclass(frozen=True)
class Memory:
    """What came earlier in an episode and helps to predict rewards or next states.

    Attributes
    ----------
    columns
        The fewest summaries that predict as well as all, by held-out loss.
    surprise
        Standard errors by which they improve the prediction of rewards (0 if not), and of next states.
    """

    columns: CriticColumns
    surprise: tuple[float, float]

    def __str__(self) -> str:
        """Return the finding in one sentence."""
        *others, last = self.columns.past
        what = f"{', '.join(others)} and {last}" if others else last
        reward, after = self.surprise
        of, errors = ("rewards", reward) if reward else ("states", after)
        return (
            f"The logged columns do not tell all that matters: earlier {what} of an episode help to "
            f"predict its later {of}, by {errors:.0f} standard errors on held-out episodes."
        )

    def caution(self, *, seen: bool) -> Caution:
        """Return it as a caution, with what follows for critics that see the summaries or do not."""
        if seen:
            then = "Critics are given averages of them, which the policy does not need."
            return Caution("hidden_state", f"{self} {then}")
        then = (
            "This method does not see them, and its values may be far off: use the default, or add to "
            "the state what was done so far, such as how often."
        )
        return Caution("hidden_state", f"{self} {then}", voids=True)


class _Target(NamedTuple):
    """Something to predict, what states and actions leave of it, and the rows that count."""

    residuals: FloatArray  # (folds, m) for each fold, by trees that were not fitted to it
    rows: BoolArray  # (m,)
    spread: float  # Σ (y − mean y)² over these rows


def find_memory(log: Log, *, step: bool = False) -> Memory | None:
    """Return what the history of episodes adds to the logged columns; None if nothing.

    Boosted trees predict the ranks of the rewards, and the value of the next state (by trees fitted
    to the rewards to come), from states and actions; `step`: and from the step. Their residuals are
    regressed on states and actions with and without summaries of the past (`CriticColumns`). Each third
    of the groups is predicted from the others only, and the gain in squared error is compared with its
    standard error over groups. Trees see no history: lagged states would stand in for a poor fit.
    """
    lengths = log.lengths
    if log.n_groups < _FEWEST or lengths.max() < 2 or np.ptp(log.rewards) == 0:
        return None
    base = CriticColumns(step=step).added_to(log) if step else log
    later = np.flatnonzero(log.step_of_row > 0)
    delayed = comes_last(log)
    sample = later[:: max(1, len(later) // _ROWS)]
    if delayed:  # the last rows hold all rewards
        last = (log.starts[1:] - 1)[lengths > 1]
        sample = np.union1d(sample, last[:: max(1, len(last) // _ROWS)])
    if len(sample) < (10 * _FEWEST if delayed else RULES.hidden_rows):
        return None
    found = _History.of(log, base, sample)
    with one_thread():
        targets = list(found.targets(log.starts[1:] - 1 if delayed else None))
    reward = [found.gains(targets[0], columns) for columns in _widest()]
    products = [found.gains(targets[0], columns, products=True) for columns in _widest()]
    after = [found.gains(targets[1], columns) for columns in _widest()]
    seen = any(_surprising(each, RULES.hidden_reward) for each in reward)
    acts = not seen and any(_surprising(each, RULES.hidden_effect) for each in products)
    if not (seen or acts or any(_surprising(each, RULES.hidden_next) for each in after)):
        return None
    of_rewards = max(map(_errors, products if acts else reward))
    surprise = (of_rewards if seen or acts else 0.0, max(map(_errors, after)))
    return Memory(found.choose(targets, products=acts), surprise)


def _widest() -> list[CriticColumns]:
    return [CriticColumns(False, past, DECAYS) for past in _SETS]


def _surprising(gains: FloatArray, errors: float) -> bool:
    return _errors(gains) >= errors and float(gains.sum()) >= RULES.hidden_share


def comes_last(log: Log) -> bool:
    """Return whether rewards come at the last step of episodes only."""
    early = np.ones(log.n_transitions, dtype=bool)
    early[log.starts[1:] - 1] = False
    return bool(early.any()) and not log.rewards[early].any()


def _errors(gains: FloatArray) -> float:
    """Return the mean of gains by group in standard errors."""
    error = float(gains.std(ddof=1)) / np.sqrt(len(gains))
    return float(gains.mean()) / error if error > 0 else 0.0


@dataclass(frozen=True, eq=False)
class _History:
    """Some rows of a log, and models of what follows them."""

    log: Log
    rows: IntArray  # (m,) rows of the log
    fold: IntArray  # (m,)
    group: IntArray  # (m,)
    inputs: FloatArray  # (m, …) standardised state and action, for trees
    linear: FloatArray  # (m, …) the same with their products, for regressions
    states: FloatArray  # (m, …) standardised
    next_states: FloatArray  # (m, …)

    @classmethod
    def of(cls, log: Log, base: Log, rows: IntArray) -> _History:
        """Return these rows in an order set by their contents; `base` has the columns of critics."""
        standardise = Standardise.fit(base.states, tame=True)
        states = standardise(base.states[rows]).round(_DIGITS)
        order = np.lexsort((log.rewards[rows], *states.T))
        rows, states = rows[order], states[order]
        constant = np.ones((len(rows), 1))
        if log.is_discrete:
            count = log.action_counts
            shown = np.argsort(count, kind="stable")
            taken: FloatArray = np.eye(log.n_actions)[:, shown[count[shown] > 0]][log.actions[rows]]
            linear = _products(np.column_stack([constant, states]), taken)
        else:
            actions = np.asarray(log.actions, dtype=float).reshape(log.n_transitions, -1)
            taken = Standardise.fit(actions, tame=True)(actions[rows]).round(_DIGITS)
            linear = np.column_stack([constant, states, taken])
        episode = log.episode_of_row[rows]
        return cls(
            log=log,
            rows=rows,
            fold=rank_of_group(log, 0)[episode] % _FOLDS,
            group=log.group_of_episode[episode],
            inputs=np.column_stack([states, taken]),
            linear=linear,
            states=states,
            next_states=standardise(base.next_states[rows]).round(_DIGITS),
        )

    def targets(self, rewarded: IntArray | None) -> Iterator[_Target]:
        """Yield the ranks of rewards (of some rows of the log, if given), and values of next states."""
        log, rows = self.log, self.rows
        ranks = scipy.stats.rankdata(log.rewards) / log.n_transitions
        every = np.ones(len(rows), dtype=bool)
        yield self._left(ranks[rows], every if rewarded is None else np.isin(rows, rewarded))
        backwards = log.n_transitions - log.starts[::-1]
        to_come = decayed(ranks[::-1, None], backwards, _AHEAD)[::-1, 0]
        values = _trees(self.states, to_come[rows], self.next_states)
        yield self._left(values * ~log.terminated[rows], every)

    def _left(self, target: FloatArray, rows: BoolArray) -> _Target:
        """Return what trees that were fitted to other folds leave of a target."""
        predicted = np.stack(
            [
                _trees(self.inputs[own], target[own], self.inputs)
                for own in (rows & (self.fold == k) for k in range(_FOLDS))
            ]
        )
        residuals = np.empty((_FOLDS, len(target)))
        for k in range(_FOLDS):  # without the trees of fold k, and of the row's own fold
            for own in range(_FOLDS):
                others = [j for j in range(_FOLDS) if j not in (k, own)]
                here = self.fold == own
                residuals[k, here] = target[here] - predicted[others][:, here].mean(axis=0)
        spread = float(rows.sum() * target[rows].var())
        return _Target(residuals, rows, spread)

    def gains(
        self, target: _Target, columns: CriticColumns, *, products: bool = False
    ) -> FloatArray:
        """Return the share of a target's variance that summaries explain, by group, (G,).

        `products`: the effect of discrete actions may depend on the summaries too.
        """
        past = columns.added_to(self.log).states[self.rows, len(self.log.state_names) :]
        if products and self.log.is_discrete:
            taken = np.eye(self.log.n_actions)[self.log.actions[self.rows]]
            past = _products(past, taken)
        wider, saved = np.column_stack([self.linear, past]), np.zeros(len(past))
        for k in range(_FOLDS):
            own, others = (target.rows & each for each in (self.fold == k, self.fold != k))
            left = target.residuals[k]
            without, given = (
                (left[own] - x[own] @ _ridge(x[others], left[others])) ** 2
                for x in (self.linear, wider)
            )
            saved[own] = without - given
        by_group = np.bincount(self.group, saved, minlength=self.log.n_groups)
        return np.asarray(by_group / max(target.spread, 1e-300))

    def choose(self, targets: list[_Target], *, products: bool) -> CriticColumns:
        """Return the fewest columns whose gain is within half a standard error of the best."""
        tried = [CriticColumns(False, past, decays) for past, decays in product(_SETS, _DECAYS)]
        first, second = targets
        gains = [
            self.gains(first, each, products=products) + self.gains(second, each) for each in tried
        ]
        best = max(gains, key=lambda each: float(each.sum()))
        enough = [i for i, each in enumerate(gains) if _errors(best - each) <= _ALIKE]
        sizes = [len(each.past) * len(each.decays) for each in tried]
        return tried[min(enough, key=lambda i: (sizes[i], -float(gains[i].sum())))]


def _products(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the products of the columns of two matrices, (n, p·q)."""
    return np.asarray((first[:, :, None] * second[:, None, :]).reshape(len(first), -1))


def _ridge(inputs: FloatArray, target: FloatArray) -> FloatArray:
    gram = inputs.T @ inputs
    penalty = _RIDGE * np.diag(gram) + 1e-9
    return np.asarray(np.linalg.solve(gram + np.diag(penalty), inputs.T @ target))


def _trees(inputs: FloatArray, target: FloatArray, asked: FloatArray) -> FloatArray:
    """Return predictions of boosted trees; their mean where there are too few rows."""
    from sklearn.ensemble import HistGradientBoostingRegressor

    if not inputs.shape[1] or len(target) < 2 * _FEWEST:
        return np.full(len(asked), target.mean() if len(target) else 0.0)
    trees = HistGradientBoostingRegressor(
        max_iter=40,
        learning_rate=0.15,
        max_leaf_nodes=8,
        min_samples_leaf=30,
        max_bins=64,
        early_stopping=False,
        random_state=0,
    ).fit(inputs, target)
    return np.asarray(trees.predict(asked))
