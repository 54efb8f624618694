"""Fitted Q: FQE and FQI, which differ only in the value v(s') of the next state."""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NamedTuple

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.critics.base import PLACES, Capabilities, Fitted, Needs
from tailproof.critics.ensembles import LinearCritics, RegressorCritics
from tailproof.critics.linear import (
    Design,
    Rows,
    Segment,
    Statistics,
    regularised_statistics,
    require_ridge,
    robust_scale,
    solve,
)
from tailproof.critics.rewards import as_rewards, with_rewards
from tailproof.critics.task import Task
from tailproof.errors import MethodError, PartitionError
from tailproof.features import Features, PerAction, as_features
from tailproof.log.folds import Folds
from tailproof.log.stored import AnyLog, action_counts
from tailproof.parameters import Configurable
from tailproof.robust.aggregates import Aggregate

#: What the first critic is fitted to: r / (1 − γ), or zero.
Start = Literal["reward", "zero"]
_TILE = 8192  # next states at a time, so that their K·A values fit in the cache

#: Maps rows and θ, (K, d), to pairs of a segment and v(s') in its rows, (m,).
Backup = Callable[[Rows, FloatArray], Iterator[tuple[Segment, FloatArray]]]


def logged_actions(log: AnyLog) -> IntArray:
    """Return the discrete actions that occur in the log: only these are ever backed up or chosen."""
    return np.flatnonzero(action_counts(log))


def require_actions(log: AnyLog, folds: Folds, features: Features) -> None:
    """Raise if actions have separate models and some fold lacks a logged action."""
    if not isinstance(features, PerAction):
        return
    taken = np.zeros((log.n_episodes, log.n_actions), dtype=bool)
    for part in log.parts:
        for chunk in log.chunks(part, with_next_states=False):
            taken[chunk.episode, chunk.actions] = True
    for action in logged_actions(log):
        seen = (folds.counts[:, taken[:, action]] > 0).any(axis=1)  # (K,)
        if not seen.all():
            label = log.action_space.label(int(action))  # type: ignore[union-attr]
            raise PartitionError(
                f"Fold {int(np.flatnonzero(~seen)[0])} of {folds.count} never takes action {label}, so "
                f"its critic knows nothing of it ({int(taken[:, action].sum())} of {log.n_episodes} "
                f"episodes take it). Use fewer folds, or features that the actions share."
            )


@dataclass(frozen=True)
class ExpectedBackup:
    """v(s') = E_π Q(s', ·), from the row's own member or the members' aggregate."""

    aggregate: Aggregate | None = None  # None: each member backs up its own Q
    aggregate_first: bool = False  # before the expectation (the paper's text) or after it (its box)

    def __call__(self, rows: Rows, theta: FloatArray) -> Iterator[tuple[Segment, FloatArray]]:
        """Yield each segment and v(s') in its rows, (m,)."""
        if self.aggregate is None:
            return (
                (segment, rows.next_values(theta[segment.member], segment.rows))
                for segment in rows.segments
            )
        finite = theta[np.isfinite(theta).all(axis=1)]
        if len(finite) == 0:
            shared = np.full(len(rows.rewards), np.nan)
        elif self.aggregate_first and rows.next_weights is not None:
            combined = self.aggregate(rows.after.values(finite))  # (L, m)
            shared = (combined * rows.next_weights).sum(axis=0)
        else:  # a deterministic policy needs the values of one action only
            shared = self.aggregate(rows.next_values(finite))
        return ((segment, shared[segment.rows]) for segment in rows.segments)


@dataclass(frozen=True)
class GreedyBackup:
    """v(s') = max_a Q(s', a) over `actions`, from the row's own member or the members' aggregate."""

    actions: IntArray
    aggregate: Aggregate | None = None  # None: each member backs up its own Q
    aggregate_first: bool = True  # before the maximum (the paper's box) or after it (its text)

    def __call__(self, rows: Rows, theta: FloatArray) -> Iterator[tuple[Segment, FloatArray]]:
        """Yield each segment and v(s') in its rows, (m,)."""
        if self.aggregate is None:
            for segment in rows.segments:
                own = theta[segment.member : segment.member + 1]
                yield segment, self._values(rows, segment.rows, own)
        else:
            finite = theta[np.isfinite(theta).all(axis=1)]
            shared = self._values(rows, slice(0, len(rows.rewards)), finite)
            for segment in rows.segments:
                yield segment, shared[segment.rows]

    def choice(self, rows: Rows, segment: Segment, theta: FloatArray) -> IntArray:
        """Return the greedy action of the segment's member in each s', (m,)."""
        own = theta[segment.member : segment.member + 1]
        values = rows.after.take(segment.rows).values(own)[0, self.actions]
        return np.asarray(self.actions[values.argmax(axis=0)])

    def _values(self, rows: Rows, span: slice, theta: FloatArray) -> FloatArray:
        best = np.full(span.stop - span.start, np.nan)
        for first in range(0, len(best) if len(theta) else 0, _TILE):
            tile = slice(span.start + first, min(span.start + first + _TILE, span.stop))
            values = rows.after.take(tile).values(theta)  # (K, A, m)
            if self.aggregate is None:
                found = self._best(values[0])
            elif self.aggregate_first:
                found = self._best(self.aggregate(values))
            else:
                found = self.aggregate(self._best(values))
            best[first : first + _TILE] = found
        return best

    def _best(self, values: FloatArray) -> FloatArray:
        """Return the largest of the actions' values, from (…, A, m) to (…, m)."""
        best = values[..., self.actions[0], :]
        for action in self.actions[1:]:
            best = np.maximum(best, values[..., action, :])
        return best


def _backed_up(backup: Backup, theta: FloatArray, design: Design, part: Any) -> FloatArray:
    """Return Σφ v(s') of one part for each member, (K, d)."""
    total = np.zeros((design.folds.count, design.features.size))
    for rows in design.rows(part):
        for segment, values in backup(rows, theta):
            rows.add_moment(total, segment, values)
    return total


def _backed_up_and_changed(
    backup: Backup,
    theta: FloatArray,
    previous: FloatArray | None,
    scale: float,
    design: Design,
    part: Any,
) -> FloatArray:
    """Return Σφ v(s'), then Σ|y − y'| and Σ|y'| as two more columns, of one part, (K, d + 2).

    y are the Bellman targets of θ, y' those of the `previous` θ; without one, y' = `scale` · r, to
    which the first θ was fitted.
    """
    size, gamma = design.features.size, design.task.gamma
    total = np.zeros((design.folds.count, size + 2))
    for rows in design.rows(part):
        before = None if previous is None else backup(rows, previous)
        for segment, values in backup(rows, theta):
            rows.add_moment(total[:, :size], segment, values)
            rewards = rows.rewards[segment.rows]
            old = scale * rewards if before is None else rewards + gamma * next(before)[1]
            sizes = np.abs(np.stack([rewards + gamma * values - old, old]))  # (2, m)
            total[segment.member, size:] += segment.weighed(sizes).sum(axis=1)
    return total


def starting_scale(start: Start, gamma: float) -> float:
    """Return c such that the first critic is fitted to c · r."""
    if start == "zero":
        return 0.0
    return 1 / (1 - gamma) if gamma < 1 else 1.0


@dataclass
class Stopping:
    """Which members still iterate: a member stops when its targets hardly change.

    The rule of the paper's released code: mean |y − y'| / mean |y'| < `tolerance`, where y and y' are
    the member's Bellman targets of this iteration and the last. Members that share a backup stop
    together, when it holds for all of them.
    """

    tolerance: float | None
    together: bool
    active: BoolArray  # (K,)

    def update(self, change: FloatArray, size: FloatArray) -> None:
        """Stop members for which Σ|y − y'| is small beside Σ|y'|, both (K,)."""
        assert self.tolerance is not None
        still = ~(change < self.tolerance * size)  # NaN goes on
        self.active = self.active & (still.any() if self.together else still)

    @property
    def done(self) -> bool:
        """Whether no member iterates any more."""
        return not self.active.any()


def iterate(
    design: Design,
    theta: FloatArray,
    *,
    matrix: FloatArray,
    moment: FloatArray,
    iterations: int,
    backup: Backup,
    huber: float | None = None,
    stopping: Stopping | None = None,
    scale: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Return θ after the iterations, (K, d), and max|Δθ| of each member and iteration, (iterations, K).

    `matrix` and `moment` are Σφφᵀ + λI, (K, d, d), and Σφr, (K, d). The loss is squared, or Huber's
    with the threshold `huber` in robust standard deviations of the residuals. The first θ was fitted to
    `scale` · r; with `stopping`, the history ends when all members have stopped.
    """
    inverse, gamma = np.linalg.inv(matrix), design.task.gamma
    history = np.zeros((iterations, len(theta)))
    excess: list[FloatArray] = []  # part of the residuals beyond the threshold, by segment
    previous = None
    for number, moved in enumerate(history):
        if stopping is not None:
            both = partial(_backed_up_and_changed, backup, theta, previous, scale)
            total = design.reduce(both, operator.add)
            passed, change, size = total[:, :-2], total[:, -2], total[:, -1]
        elif huber is None:
            passed = design.reduce(partial(_backed_up, backup, theta), operator.add)
        if huber is None:
            right = moment + gamma * passed
        else:
            right, targets = _huber_moments(design, theta, excess, backup)
        fitted = (inverse @ right[..., None])[..., 0]
        if stopping is not None:
            fitted[~stopping.active] = theta[~stopping.active]
            stopping.update(change, size)
        previous, theta = theta, fitted
        if huber is not None:
            excess = _excess(design, theta, targets, huber)
        np.abs(theta - previous).max(axis=1, out=moved)
        if stopping is not None and stopping.done:
            return theta, history[: number + 1]
        if not moved.any():  # a fixed point: further iterations change nothing
            break
    return theta, history


def _huber_moments(
    design: Design, theta: FloatArray, excess: list[FloatArray], backup: Backup
) -> tuple[FloatArray, list[FloatArray]]:
    """Return Σφ(y − c) with Bellman targets y and shifts c, (K, d), and y of each segment.

    Σ Huber_τ(y − φᵀθ) is the smallest Σ (y − φᵀθ − c)²/2 + τΣ|c| over shifts c, one for each row. The
    best θ is the least-squares fit of y − c; the best c is the part of y − φᵀθ beyond ±τ. Every
    iteration updates both once; τ is `huber` times the `robust_scale` of the member's residuals.
    """
    targets: list[FloatArray] = []
    right = np.zeros_like(theta)
    for rows in design:
        for segment, values in backup(rows, theta):
            target = rows.rewards[segment.rows] + design.task.gamma * values
            shift = excess[len(targets)] if excess else 0.0
            rows.add_moment(right, segment, target - shift)
            targets.append(target)
    return right, targets


def _excess(
    design: Design, theta: FloatArray, targets: list[FloatArray], huber: float
) -> list[FloatArray]:
    """Return by how much each residual exceeds its threshold, by segment."""
    errors: list[tuple[int, FloatArray]] = []
    for rows in design:
        for segment in rows.segments:
            fitted = rows.values(segment, theta[segment.member])
            errors.append((segment.member, targets[len(errors)] - fitted))
    for k in range(len(theta)):
        own = [each for member, each in errors if member == k]
        limit = huber * robust_scale(np.concatenate(own))
        for each in own:
            each -= np.clip(each, -limit, limit)
    return [each for _, each in errors]


class _Ahead(NamedTuple):
    """Next states, actions there, (n, L), and weights; without a policy, all logged actions."""

    states: FloatArray
    actions: AnyArray
    weights: FloatArray | None

    @classmethod
    def of(cls, task: Task) -> _Ahead:
        log = task.log
        if task.policy is not None:
            return cls(log.next_states, *task.next_actions(slice(None)))
        logged = logged_actions(log)
        every = np.broadcast_to(logged, (log.n_transitions, len(logged)))
        return cls(log.next_states, every, None)

    def at(self, critics: RegressorCritics, rows: Any) -> FloatArray:
        """Return Q_k(s', a) at every action in some rows, (K, L, m)."""
        states, columns = self.states[rows], np.moveaxis(self.actions[rows], 1, 0)
        return np.stack([critics.values(states, column) for column in columns], axis=1)

    def value(self, values: FloatArray, rows: Any) -> FloatArray:
        """Return the expectation or the maximum over actions, from (…, L, m) to (…, m)."""
        if self.weights is None:
            return np.asarray(values.max(axis=-2))
        return np.asarray(np.einsum("...lm,ml->...m", values, self.weights[rows]))


def fit_regressors(
    settings: FittedQ,
    task: Task,
    folds: Folds,
    *,
    backup: Aggregate | None,
    rng: np.random.Generator,
) -> Fitted:
    """Refit a clone of the settings' model on each fold's Bellman targets in every iteration."""
    from sklearn.base import clone

    log, model = task.log, settings.model
    seeds = [int(seed) for seed in rng.integers(2**31, size=folds.count)]
    rows = [log.rows(folds.episodes(k)) for k in range(folds.count)]
    critics = RegressorCritics((), log.n_actions if log.is_discrete else None)
    inputs = critics.inputs(log.states, log.actions)

    def refit(targets: list[FloatArray], members: BoolArray) -> RegressorCritics:
        models = list(critics.models)
        for k in np.flatnonzero(members):
            fresh = clone(model)
            if "random_state" in fresh.get_params() and fresh.get_params()["random_state"] is None:
                fresh.set_params(random_state=seeds[k])
            models[k:] = [fresh.fit(inputs[rows[k]], targets[k]), *models[k + 1 :]]
        return RegressorCritics(tuple(models), critics.n_actions)

    scale = starting_scale(settings.start, task.gamma)
    before = [log.rewards[chosen] * scale for chosen in rows]
    stopping = settings.stopping(folds.count, together=backup is not None)
    critics = refit(before, stopping.active)
    ahead = _Ahead.of(task)

    def after(critics: RegressorCritics) -> list[FloatArray]:
        """Return v(s') in the rows of each fold."""
        if backup is None:
            alone = [critics.subset(np.array([k])) for k in range(folds.count)]
            pairs = zip(alone, rows, strict=True)
            return [ahead.value(ahead.at(own, chosen), chosen)[0] for own, chosen in pairs]
        values, every = ahead.at(critics, slice(None)), slice(None)
        if settings.aggregate_first:
            shared = ahead.value(backup(values), every)
        else:
            shared = backup(ahead.value(values, every))
        return [shared[chosen] for chosen in rows]

    alive = (~log.terminated).astype(float)
    history: list[list[float]] = []
    while len(history) < settings.iterations and not stopping.done:
        targets = [
            log.rewards[chosen] + task.gamma * alive[chosen] * found
            for chosen, found in zip(rows, after(critics), strict=True)
        ]
        critics = refit(targets, stopping.active)
        moves = [np.abs(new - old) for new, old in zip(targets, before, strict=True)]
        history.append([float(move.max()) for move in moves])
        if settings.tolerance is not None:
            change = np.array([move.sum() for move in moves])
            stopping.update(change, np.array([np.abs(old).sum() for old in before]))
        before = targets
    return Fitted(critics, np.array(history))


_SHOWING = 10  # number of updates needed to detect divergence from their growth


@dataclass(frozen=True, kw_only=True)
class FittedQ(Configurable):
    """The settings that FQE and FQI share.

    Each iteration regresses the Bellman target on φ(s, a), with a ridge λ:
    θ ← (Σφφᵀ + λI)⁻¹ Σφ (r + γ v(s')), where v(s') is E_π Q(s', ·) in FQE and max_a Q(s', a) in FQI.

    Parameters
    ----------
    features
        φ(s, a); by default bias, main effects and pairwise products of the state, one block for each
        discrete action.
    ridge
        Penalty per observation; `Absolute(λ)` for one that ignores the number of rows; ``"cv"`` to
        choose it by cross-validation over episodes.
    iterations
        Number of Bellman updates.
    start
        ``"reward"`` starts from the ridge fit of r / (1 − γ) (of r when γ = 1), as the paper's code
        does; ``"zero"`` starts from Q = 0.
    model
        A scikit-learn regressor to use in place of ridge regression; `features` and `ridge` are
        then ignored; its inputs are the state and the (one-hot) action.
    aggregate_first
        At `backup`, whether the members are aggregated at every action before the policy (or the
        maximum) is applied, or after.
    tolerance
        Stop before the last iteration when mean |y − y'| / mean |y'| is below this, where y and y' are
        a fold's Bellman targets of this iteration and the last; at `backup`, when it is in every fold.
        The paper's released code has 0.005. Heavy-tailed rewards enlarge |y'| and not |y − y'|, so
        that the heavier the tails, the earlier this stops; None, the default, never does.
    """

    features: Features | str | None = None
    ridge: Any = 1e-6
    iterations: int = 100
    start: Start = "reward"
    model: Any = None
    aggregate_first: bool = False
    tolerance: float | None = None

    def __post_init__(self) -> None:
        if self.tolerance is not None and not 0 < self.tolerance < np.inf:
            raise MethodError(
                f"tolerance must be above 0 and finite, or None for all iterations. "
                f"Got {self.tolerance!r} instead."
            )
        if self.iterations < 1:
            raise MethodError(f"iterations must be at least 1. Got {self.iterations!r} instead.")
        if self.start not in ("reward", "zero"):
            raise MethodError(f"start must be 'reward' or 'zero'. Got {self.start!r} instead.")
        require_ridge(self.ridge)
        if self.model is not None and not hasattr(self.model, "fit"):
            raise MethodError(
                f"model must be a scikit-learn regressor with fit and predict. "
                f"Got {type(self.model).__name__} instead."
            )

    @property
    def capabilities(self) -> Capabilities:
        """Combines members at every place; a regressor needs all rows in memory."""
        return Capabilities(PLACES, needs="chunks" if self.model is None else "memory")

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> Fitted:
        """Fit a critic on each fold, with `backup` inside every Bellman target if it is given."""
        if self.model is not None:
            return fit_regressors(self, task, folds, backup=backup, rng=rng)
        passes = backup is not None or self.tolerance is not None
        design = Design(task, as_features(self.features, task.log), folds, passes)
        matrix, stats = regularised_statistics(design, self.ridge, rng)
        if passes:
            return self._passes(design, matrix, stats, ExpectedBackup(backup, self.aggregate_first))
        theta, history = _iterate_statistics(stats, matrix, task.gamma, self)
        diverged = _diverged(theta, history)
        if self.iterations < _SHOWING:  # too few updates to detect divergence from their growth
            diverged = diverged | _expands(stats, matrix, task.gamma)
        return Fitted(LinearCritics(design.features, theta, diverged), history)

    def stopping(self, members: int, *, together: bool) -> Stopping:
        """Return the rule by which members stop before the last iteration."""
        return Stopping(self.tolerance, together, np.ones(members, dtype=bool))

    def _passes(
        self,
        design: Design,
        matrix: FloatArray,
        stats: Statistics,
        backup: ExpectedBackup | GreedyBackup,
        **loss: Any,
    ) -> Fitted:
        """Iterate with one pass over the data per iteration; with a tolerance, two."""
        stopping = self.stopping(design.folds.count, together=backup.aggregate is not None)
        theta, history = iterate(
            design,
            _first(stats, matrix, design.task.gamma, self.start),
            matrix=matrix,
            moment=stats.moment,
            iterations=self.iterations,
            backup=backup,
            stopping=None if self.tolerance is None else stopping,
            scale=starting_scale(self.start, design.task.gamma),
            **loss,
        )
        critics = LinearCritics(design.features, theta, _diverged(theta, history))
        return Fitted(critics, history)


@dataclass(frozen=True, kw_only=True)
class FQE(FittedQ):
    """Fitted Q-evaluation: v(s') = Σ_a π(a|s') Q(s', a).

    With one fold, or members that are combined only after fitting, and without a `tolerance`, the
    iterations need only Σφφᵀ, Σφφ'ᵀ and Σφr: one pass over the data. At `backup` (ROAM-FQE,
    algorithm 4) every iteration is a pass over the data, because the aggregate is taken at every next
    state; the algorithm box aggregates E_π Q_k(s', ·), and ``aggregate_first=True`` gives the order of
    the text, E_π of the aggregate.
    """


@dataclass(frozen=True, kw_only=True)
class FQI(FittedQ):
    """Fitted Q-iteration: v(s') = max_a Q(s', a).

    At `backup` (ROOM-FQI, algorithm 5) the box takes the maximum of the aggregate;
    ``aggregate_first=False`` gives the order of the text, the aggregate of the maxima. The maximum is
    taken over the logged actions only: there is no data on the others.

    Parameters
    ----------
    reward
        Rewards to learn from instead of the logged ones: ``"huber"`` or `HuberRewards(threshold)`, a
        robust regression of them; ``"zero"``, ``"one"`` or `ConstantRewards(value)`, constants without
        information; or a callable of a log and features.
    huber
        Fit every Bellman target with Huber's loss instead of squares, with this threshold in robust
        standard deviations of the residuals (1.345 is usual).
    """

    ridge: Any = 2.5e-3
    aggregate_first: bool = True
    reward: Any = None
    huber: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        as_rewards(self.reward)
        if self.huber is not None and not 0 < self.huber < np.inf:
            raise MethodError(f"huber must be above 0 and finite. Got {self.huber!r} instead.")
        if self.huber is not None and self.model is not None:
            raise MethodError(
                f"huber changes the loss of the ridge regression, which model= replaces. Got "
                f"huber={self.huber!r} with {type(self.model).__name__}; use a model that is robust "
                f"by itself, such as HuberRegressor()."
            )

    @property
    def capabilities(self) -> Capabilities:
        """Replaced rewards, Huber's loss and regressors need all rows in memory."""
        linear = self.model is None and self.reward is None and self.huber is None
        needs: Needs = "chunks" if linear else "memory"
        return Capabilities(PLACES, needs=needs, evaluates=False, learns=True)

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> Fitted:
        """Fit a critic on each fold, with `backup` inside every Bellman target if it is given."""
        task = with_rewards(task, self.reward, self.features)
        if self.model is not None:
            return super().fit(task, folds, backup=backup, rng=rng)
        features = as_features(self.features, task.log)
        require_actions(task.log, folds, features)
        design = Design(task, features, folds, keep=True)
        matrix, stats = regularised_statistics(design, self.ridge, rng)
        greedy = GreedyBackup(logged_actions(task.log), backup, self.aggregate_first)
        return self._passes(design, matrix, stats, greedy, huber=self.huber)


def _first(stats: Statistics, matrix: FloatArray, gamma: float, start: Start) -> FloatArray:
    if start == "zero":
        return np.zeros_like(stats.moment)
    return starting_scale(start, gamma) * solve(matrix, stats.moment[..., None])[..., 0]


def _iterate_statistics(
    stats: Statistics, matrix: FloatArray, gamma: float, settings: FittedQ
) -> tuple[FloatArray, FloatArray]:
    """Iterate θ ← c + Pθ with c = (Σφφᵀ+λI)⁻¹Σφr and P = γ(Σφφᵀ+λI)⁻¹Σφφ'ᵀ: no data needed."""
    right = np.concatenate([gamma * stats.cross, stats.moment[..., None]], axis=2)
    both = solve(matrix, right)
    update, constant = both[..., :-1], both[..., -1:]
    theta = _first(stats, matrix, gamma, settings.start)[..., None]  # (K, d, 1)
    history = np.empty((settings.iterations, len(theta)))
    for moved in history:
        previous, theta = theta, constant + update @ theta
        np.abs(theta - previous).max(axis=(1, 2), out=moved)
    return theta[..., 0], history


def _diverged(theta: FloatArray, history: FloatArray) -> BoolArray:
    """Return which members' updates grew instead of shrinking, (K,)."""
    bad = ~np.isfinite(theta).all(axis=1)
    if len(history) > 1:
        size = np.abs(theta).max(axis=1)
        grew = history[-1] > 2 * history[: max(len(history) // 2, 1)].max(axis=0)
        if len(history) < _SHOWING:  # a few updates may grow by accident, but not all of them
            grew &= (np.diff(history, axis=0) > 0).all(axis=0)
        bad |= grew & (history[-1] > 1e-6 * size)
    return np.asarray(bad)


def _expands(stats: Statistics, matrix: FloatArray, gamma: float) -> BoolArray:
    """Return for which members θ ← (Σφφᵀ + λI)⁻¹ Σφ (r + γφ'ᵀθ) has no limit, (K,).

    It has one if the spectral radius of γ (Σφφᵀ + λI)⁻¹ Σφφ'ᵀ is below 1.
    """
    step = solve(matrix, gamma * stats.cross)
    radius = [
        np.abs(np.linalg.eigvals(each)).max() if np.isfinite(each).all() else np.inf
        for each in step
    ]
    return np.asarray(radius) > 1 + 1e-9
