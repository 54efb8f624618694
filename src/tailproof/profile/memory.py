"""Whether the logged columns tell all that matters, or what came earlier in an episode adds to it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import NamedTuple

import numpy as np
import scipy  # its parts are imported on first use

from tailproof.arrays import FloatArray, IntArray, order_by
from tailproof.critics.task import rank_of_group
from tailproof.critics.trees import averages, grown, predicts
from tailproof.errors import Caution
from tailproof.features import Standardise
from tailproof.log.columns import DECAYS, CriticColumns, Past, decayed
from tailproof.log.horizon import leading_columns
from tailproof.log.log import Log
from tailproof.parallel import one_thread
from tailproof.rules import RULES

_ROWS = 8_000  # most rows for the test
_FOLDS = 2
_FEWEST = 20  # groups of episodes, and ten rows of each where rewards come last
_AHEAD = 0.9  # decay of the rewards to come, by which next states are valued
_MIXTURES = 4  # of the summaries that trees are grown on
_COMMON = 6  # actions, the most frequent ones, whose effects are tested
_NARROW = 12  # state columns of which summaries are made; of more, only of actions and rewards
_CURVED = 6  # state columns whose squares and products are taken out too: trees leave curves
_RARE = 0.01  # share of the rewards that are extreme, and …
_FAR = 4.0  # … their distance from the median in interquartile ranges
_SHARE = 0.1  # least probability of an event, over its mean: trees of rare events are rough
_SLACK = 1.3  # standard errors over groups are too large where few groups have an event
_PAST: tuple[Past, ...] = ("actions", "rewards", "states")
_DECAYS = (0.5, 0.8)  # for critics: slower averages lie far from the logged ones
_NEARLY = 0.85  # share of what the best averages explain that fewer ones must
_EXPLAINED = 0.05  # share of a variance below which what is left is the trees' error, not chance
_RIDGE = 0.01  # share of each column's sum of squares
_DIGITS = 6
_EVERY = {"rewards", "extreme rewards", "ends", "states"}


@dataclass(frozen=True)
class Memory:
    """What came earlier in an episode and helps to predict what follows.

    Attributes
    ----------
    columns
        Summaries that predict nearly as well as any, on held-out episodes.
    of
        What they help to predict most clearly: rewards, extreme rewards, ends or states.
    surprise
        The covariance of what states and actions leave of it and of a summary, in standard errors.
    certain
        Whether it is beyond doubt. If not, critics do not see the summaries.
    """

    columns: CriticColumns
    of: str
    surprise: float
    certain: bool = True

    def __str__(self) -> str:
        """Return the finding in one sentence."""
        *others, last = self.columns.past
        what = f"{', '.join(others)} and {last}" if others else last
        return (
            f"The logged columns do not tell all that matters: earlier {what} of an episode help to "
            f"predict its later {self.of}, by {self.surprise:.0f} standard errors on held-out episodes."
        )

    def caution(self, *, seen: bool) -> Caution:
        """Return it as a caution, with what follows for critics that see the summaries or do not."""
        if seen:
            then = "Critics are given averages of them, which the policy does not need."
            return Caution("hidden_state", f"{self} {then}")
        then = (
            "This method does not see them, and its values may be far off: use the default, or add to "
            "the state what happened so far, such as a count."
        )
        return Caution("hidden_state", f"{self} {then}", voids=True)


def find_memory(log: Log, *, step: bool = False) -> Memory | None:
    """Return what the history of episodes adds to the logged columns; None if nothing is in sight.

    If the logged state (`step`: with the step) tells all, then what states and actions leave of a
    target is uncorrelated with what they leave of any summary of the past (`CriticColumns`). Both are
    left by trees fitted to other groups, so that an error of the one counts only as far as it goes with
    an error of the other (Shah and Peters, 2020). Targets are ranks of rewards, extreme rewards, ends
    of episodes, changes of states, and values of next states (by trees fitted to the rewards to come).
    Covariances, also with one action's rows alone, are compared with their standard error over groups.
    A first look takes out no more than a quadratic function, which costs little and mistakes curves for
    memory rather than the other way round. The targets of which it finds any must be confirmed by
    coarse trees, and then by finer ones.
    """
    lengths = log.lengths
    if log.n_groups < _FEWEST or lengths.max() < 2 or np.ptp(log.rewards) == 0:
        return None
    later, delayed = np.flatnonzero(log.step_of_row > 0), comes_last(log)
    last = (log.starts[1:] - 1)[lengths > 1]
    if len(later) < (10 * _FEWEST if delayed else RULES.hidden_rows):
        return None
    base = CriticColumns(step=step).added_to(log) if step else log
    asked: list[tuple[IntArray, set[str]]] = [(later, _EVERY)]
    if delayed:  # the last rows hold all rewards
        asked = [(last, {"rewards"}), (later, {"states"})]
    with one_thread():
        for fit in (None, *_FITS):
            found = [_Left.of(log, base, _some(rows), wanted, fit) for rows, wanted in asked]
            surprises = [each for left in found for each in left.surprises()]
            most, in_sight = (
                max(surprises),
                {s.of for s in surprises if s.ratio >= RULES.hidden_doubt},
            )
            if not in_sight:
                return None
            asked = [(rows, wanted & in_sight) for rows, wanted in asked if wanted & in_sight]
    columns = _choose(found)
    return None if columns is None else Memory(columns, most.of, most.surprise, most.ratio >= 1)


def comes_last(log: Log) -> bool:
    """Return whether rewards come at the last step of episodes only."""
    early = np.ones(log.n_transitions, dtype=bool)
    early[log.starts[1:] - 1] = False
    return bool(early.any()) and not log.rewards[early].any()


def _some(rows: IntArray) -> IntArray:
    """Return rows, or evenly spaced ones of many."""
    if len(rows) <= _ROWS:
        return rows
    return np.asarray(rows[np.linspace(0, len(rows) - 1, _ROWS).astype(np.intp)])


class _Trees(NamedTuple):
    """How finely trees are grown."""

    trees: int
    smallest: int  # rows of a leaf
    again: int  # times that they fit what they left: less bias where values bend


_FITS = (_Trees(10, 5, 3), _Trees(20, 3, 6))  # the second, slower one confirms what the first finds


class _Surprise(NamedTuple):
    """A covariance over what is needed to believe it, in standard errors, and what it is of."""

    ratio: float
    surprise: float
    of: str


@dataclass(frozen=True, eq=False)
class _Left:
    """What trees that see the state and the action leave of some rows' targets and summaries."""

    names: tuple[str, ...]  # of the targets
    targets: FloatArray  # (m, targets) standardised, less what trees explain
    chances: FloatArray  # (m, targets) the variance of events by their probability
    past: FloatArray  # (m, q) summaries, in the same way
    kinds: list[tuple[Past, float]]  # what each summary is of, and its decay
    taken: FloatArray  # (m, …) indicators of the most frequent actions
    fold: IntArray  # (m,)
    group: IntArray  # (m,)

    @classmethod
    def of(cls, log: Log, base: Log, rows: IntArray, wanted: set[str], fit: _Trees | None) -> _Left:
        """Fit trees, if any, to the rows of each half of the groups; critics see `base`."""
        standardise = Standardise.fit(base.states, tame=True)
        states = standardise(base.states[rows]).round(_DIGITS)
        order = order_by(log.rewards[rows], *states.T)
        rows, states = rows[order], states[order]
        actions, taken = _actions(log, rows)
        inputs = np.column_stack([states, actions]).astype(np.float32)
        episode = log.episode_of_row[rows]
        fold = rank_of_group(log, 0)[episode] % _FOLDS
        after = standardise(base.next_states[rows]).round(_DIGITS)
        found = [*_targets(log, rows, states, after, fold, wanted, fit)]
        names = tuple(name for name, _ in found)
        targets = np.column_stack([target for _, target in found])
        past, kinds = _summaries(log, rows)
        joined = np.column_stack([targets, past])
        spread = joined.std(axis=0)
        spread[spread == 0] = 1.0
        standard = ((joined - joined.mean(axis=0)) / spread).round(_DIGITS)
        left = standard
        if fit is not None:
            kept = leading_columns(inputs, standard[:, 0], smallest=fit.smallest)
            left = standard - _by_others(inputs[:, kept], standard, fold, len(names), fit)
        smooth = _quadratic(states)
        smooth = _products(smooth, actions) if log.is_discrete else smooth
        left = left - smooth @ _ridge(smooth, left)
        count = len(names)
        mean, scale = targets.mean(axis=0), spread[:count]
        chances = (targets - left[:, :count] * scale).clip(_SHARE * mean, 1.0) / scale**2
        group = np.unique(log.group_of_episode[episode], return_inverse=True)[1]
        return cls(names, left[:, :count], chances, left[:, count:], kinds, taken, fold, group)

    def surprises(self) -> Iterator[_Surprise]:
        """Yield the largest covariance of each target with a summary."""
        past = np.column_stack([self.past, _products(self.past, self.taken)])
        limits = {"rewards": RULES.hidden_reward, "states": RULES.hidden_next}
        for name, left, chance in zip(self.names, self.targets.T, self.chances.T, strict=True):
            if name == "states" and (left**2).mean() < _EXPLAINED:
                continue
            both = left[:, None] * past
            by_group = np.stack([np.bincount(self.group, each) for each in both.T], axis=1)
            total = np.abs(both.sum(axis=0))
            errors = total / np.sqrt((by_group**2).sum(axis=0) + 1e-300)
            if name not in limits:  # rare events: few groups have one
                by_chance = total / np.sqrt(chance @ past**2 + 1e-300)
                errors = np.minimum(_SLACK * errors, by_chance)
            most = float(errors.max(initial=0.0))
            yield _Surprise(most / limits.get(name, RULES.hidden_event), most, name)

    def _of(self, columns: CriticColumns) -> list[int]:
        return [k for k, (past, decay) in enumerate(self.kinds)
                if past in columns.past and decay in columns.decays]  # fmt: skip

    def width(self, columns: CriticColumns) -> int:
        """Return how many summaries these columns are."""
        return len(self._of(columns))

    def gains(self, columns: CriticColumns) -> float:
        """Return the shares of the targets' variances that summaries explain on held-out groups.

        They are added, of targets of which any is explained.
        """
        chosen = self._of(columns)
        inputs = np.column_stack(
            [self.past[:, chosen], _products(self.past[:, chosen], self.taken)]
        )
        saved = np.zeros(self.targets.shape[1])
        for k in range(_FOLDS):
            own, others = self.fold == k, self.fold != k
            left = self.targets[own] - inputs[own] @ _ridge(inputs[others], self.targets[others])
            saved += (self.targets[own] ** 2 - left**2).sum(axis=0)
        return float(np.maximum(saved, 0.0).sum()) / len(inputs)


def _choose(found: list[_Left]) -> CriticColumns | None:
    """Return the fewest averages that explain nearly as much on held-out groups as any.

    Critics that see more columns than they need explode. Earlier actions are always among them, as a
    policy changes them. None if no average explains anything there: then the trees are at fault.
    """
    first, *others = (each for each in _PAST if any(kind == each for kind, _ in found[0].kinds))
    tried = [
        CriticColumns(False, (first, *some), (decay,))
        for count in range(len(others) + 1)
        for some in combinations(others, count)
        for decay in _DECAYS
    ]
    gains = np.array([sum(left.gains(columns) for left in found) for columns in tried])
    if gains.max() < RULES.hidden_gain:
        return None
    widths = [found[0].width(columns) for columns in tried]
    enough = np.flatnonzero(gains >= _NEARLY * gains.max())
    return tried[min(enough, key=lambda k: (widths[k], -gains[k]))]


def _targets(
    log: Log,
    rows: IntArray,
    states: FloatArray,
    after: FloatArray,
    fold: IntArray,
    wanted: set[str],
    fit: _Trees | None,
) -> Iterator[tuple[str, FloatArray]]:
    """Yield what is to be predicted, by name, (m,) each; events are 0 or 1."""
    ranks = scipy.stats.rankdata(log.rewards) / log.n_transitions
    ended = log.terminated[rows]
    if "rewards" in wanted:
        yield "rewards", ranks[rows]
    if "extreme rewards" in wanted:
        low, middle, high = np.quantile(log.rewards, [0.25, 0.5, 0.75])
        distance = np.abs(log.rewards - middle)
        limit = max(float(np.quantile(distance, 1 - _RARE)), _FAR * float(high - low))
        extreme = (distance >= limit) & (distance > 0)
        if 0 < extreme[rows].sum() <= 2 * _RARE * len(rows):
            yield "extreme rewards", extreme[rows].astype(float)
    if "ends" in wanted and ended.any() and not ended.all():
        yield "ends", ended.astype(float)
    if "states" in wanted:
        if fit is not None:
            backwards = log.n_transitions - log.starts[::-1]
            ahead = decayed(ranks[::-1, None], backwards, _AHEAD)[::-1, 0]
            to_come = ahead[rows, None].round(_DIGITS)
            inputs, following = states.astype(np.float32), after.astype(np.float32)
            # the change of a value: what trees remember of a single episode cancels
            yield "states", _by_others(inputs, to_come, fold, 1, fit, following)[:, 0] * ~ended
        for change in np.where(ended[:, None], 0.0, after - states).T[:_NARROW]:
            yield "states", scipy.stats.rankdata(change.round(_DIGITS))


def _actions(log: Log, rows: IntArray) -> tuple[FloatArray, FloatArray]:
    """Return the actions of rows for trees, and indicators of the most frequent ones."""
    if not log.is_discrete:
        given = np.asarray(log.actions, dtype=float).reshape(log.n_transitions, -1)
        return Standardise.fit(given, tame=True)(given[rows]).round(_DIGITS), np.ones(
            (len(rows), 0)
        )
    count = log.action_counts
    shown = np.argsort(count, kind="stable")
    shown = shown[count[shown] > 0][-RULES.tree_columns :]
    taken = (log.actions[rows][:, None] == shown).astype(float)
    return taken, taken[:, -_COMMON:]


def _summaries(log: Log, rows: IntArray) -> tuple[FloatArray, list[tuple[Past, float]]]:
    """Return all summaries of what came before the rows, (m, q), and what each is of."""
    found, kinds = [], []
    for past in _PAST if len(log.state_names) <= _NARROW else _PAST[:2]:
        for decay in DECAYS:
            wider = CriticColumns(False, (past,), (decay,)).added_to(log)
            own = wider.states[rows, len(log.state_names) :]
            found.append(own)
            kinds += [(past, decay)] * own.shape[1]
    return np.column_stack(found), kinds


def _by_others(
    inputs: FloatArray,
    targets: FloatArray,
    fold: IntArray,
    leading: int,
    fit: _Trees,
    after: FloatArray | None = None,
) -> FloatArray:
    """Return predictions for the rows of each fold by trees fitted to the others, (m, …).

    Given the inputs `after` a step, return by how much the predictions change there.
    Trees are grown on the `leading` targets and mixtures of the others. What they leave is fitted by
    the same trees again, as boosting does.
    """
    grown_on, others = targets[:, :leading], targets[:, leading:]
    if others.shape[1]:
        by_contents = np.argsort(np.abs(np.tanh(others)).mean(axis=0).round(_DIGITS), kind="stable")
        mixing = np.random.default_rng(0).standard_normal((others.shape[1], _MIXTURES))
        mixed = others[:, by_contents] @ mixing / np.sqrt(others.shape[1])
        grown_on = np.column_stack([grown_on, mixed]).round(_DIGITS)
    found = np.zeros_like(targets)
    for k in range(_FOLDS):
        own, taught = fold == k, fold != k
        if not own.any() or taught.sum() < 2 * fit.smallest:
            continue
        trees = grown(
            inputs[taught], grown_on[taught], trees=fit.trees, smallest=fit.smallest, seed=k
        )
        leaves = trees.leaves(inputs[taught])
        average, back = averages(leaves, trees.nodes), predicts(leaves, trees.nodes)
        left = targets[taught]
        values = np.zeros((trees.nodes, *left.shape[1:]))
        for _ in range(1 + fit.again):
            step = average @ left
            left, values = left - back @ step, values + step
        found[own] = predicts(trees.leaves(inputs[own]), trees.nodes) @ values
        if after is not None:
            found[own] = predicts(trees.leaves(after[own]), trees.nodes) @ values - found[own]
    return found


def _products(first: FloatArray, second: FloatArray) -> FloatArray:
    """Return the products of the columns of two matrices, (n, p·q)."""
    return np.asarray((first[:, :, None] * second[:, None, :]).reshape(len(first), -1))


def _quadratic(states: FloatArray) -> FloatArray:
    """Return 1, the states, and their squares and products if they are few, (n, …)."""
    linear = np.column_stack([np.ones(len(states)), states])
    if states.shape[1] > _CURVED:
        return linear
    first, second = np.triu_indices(states.shape[1])
    return np.column_stack([linear, states[:, first] * states[:, second]])


def _ridge(inputs: FloatArray, target: FloatArray) -> FloatArray:
    gram = inputs.T @ inputs
    penalty = _RIDGE * np.diag(gram) + 1e-9
    return np.asarray(np.linalg.solve(gram + np.diag(penalty), inputs.T @ target))
