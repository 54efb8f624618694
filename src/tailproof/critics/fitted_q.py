"""Fitted Q: FQE and FQI, which differ only in the value v(s') of the next state."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray
from tailproof.critics.base import PLACES, Capabilities, Fitted, Needs
from tailproof.critics.ensembles import RegressorCritics
from tailproof.critics.linear import (
    Design,
    Regularised,
    Rows,
    Segment,
    regularise,
    robust_scale,
    solve,
)
from tailproof.critics.penalties import EVALUATING, RidgeChoice, require_ridge
from tailproof.critics.rewards import Rewards, as_rewards, with_rewards
from tailproof.critics.task import Task
from tailproof.errors import MethodError, PartitionError
from tailproof.features import Features, PerAction, as_features
from tailproof.log.folds import Folds
from tailproof.log.log import Log
from tailproof.parameters import COUNT, POSITIVE, Configurable, OneOf
from tailproof.robust.aggregates import Aggregate

#: What the first critic is fitted to: r / (1 − γ), or zero.
Start = Literal["reward", "zero"]
_TILE = 8192  # next states at a time, so that their K·A values fit in the cache


def logged_actions(log: Log) -> IntArray:
    """Return the discrete actions that occur in the log: only these are ever backed up or chosen."""
    return np.flatnonzero(log.action_counts)


def require_actions(log: Log, folds: Folds, features: Features) -> None:
    """Raise if actions have separate models and some fold lacks a logged action."""
    if not isinstance(features, PerAction):
        return
    taken = np.zeros((log.n_episodes, log.n_actions), dtype=bool)
    for part in log.parts:
        for chunk in log.chunks(part):
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


@dataclass(frozen=True, kw_only=True)
class Backup(ABC):
    """v(s') of next states, from the row's own member or the members' aggregate."""

    aggregate: Aggregate | None = None  # None: each member backs up its own Q
    aggregate_first: bool = False  # whether before the expectation or maximum over actions

    def __call__(
        self, rows: Rows, theta: FloatArray, segments: Sequence[Segment] | None = None
    ) -> Iterator[tuple[Segment, FloatArray]]:
        """Yield some segments, all by default, and v(s') in their rows, (m,); θ is (K, d)."""
        segments = rows.segments if segments is None else segments
        if self.aggregate is None:
            for segment in segments:
                yield segment, self._own(rows, segment.rows, theta[segment.member])
            return
        first = min(segment.rows.start for segment in segments)
        span = slice(first, max(segment.rows.stop for segment in segments))
        finite = theta[np.isfinite(theta).all(axis=1)]
        shared = np.full(span.stop - first, np.nan)
        if len(finite):
            shared = self._combined(rows, span, finite, self.aggregate)
        for segment in segments:
            yield segment, shared[segment.rows.start - first : segment.rows.stop - first]

    @abstractmethod
    def _own(self, rows: Rows, span: slice, theta: FloatArray) -> FloatArray:
        """Return v(s') of one member, θ of shape (d,), in some rows, (m,)."""

    @abstractmethod
    def _combined(
        self, rows: Rows, span: slice, theta: FloatArray, aggregate: Aggregate
    ) -> FloatArray:
        """Return the members' v(s') together in some rows, (m,)."""


@dataclass(frozen=True, kw_only=True)
class ExpectedBackup(Backup):
    """v(s') = E_π Q(s', ·); the paper's text aggregates before the expectation, its box after."""

    def _own(self, rows: Rows, span: slice, theta: FloatArray) -> FloatArray:
        return rows.next_values(theta, span)

    def _combined(
        self, rows: Rows, span: slice, theta: FloatArray, aggregate: Aggregate
    ) -> FloatArray:
        if self.aggregate_first and rows.next_weights is not None:
            combined = aggregate(rows.after.take(span).values(theta))  # (L, m)
            return np.asarray((combined * rows.next_weights[:, span]).sum(axis=0))
        # a deterministic policy needs the values of one action only
        return aggregate(rows.next_values(theta, span))


@dataclass(frozen=True, kw_only=True)
class GreedyBackup(Backup):
    """v(s') = max_a Q(s', a) over `actions`; the paper's box aggregates before the maximum."""

    actions: IntArray
    aggregate_first: bool = True

    def choice(self, rows: Rows, segment: Segment, theta: FloatArray) -> IntArray:
        """Return the greedy action of the segment's member in each s', (m,)."""
        own = theta[segment.member : segment.member + 1]
        values = rows.after.take(segment.rows).values(own)[0, self.actions]
        return np.asarray(self.actions[values.argmax(axis=0)])

    def _own(self, rows: Rows, span: slice, theta: FloatArray) -> FloatArray:
        return self._tiled(rows, span, theta[None], lambda values: self._best(values[0]))

    def _combined(
        self, rows: Rows, span: slice, theta: FloatArray, aggregate: Aggregate
    ) -> FloatArray:
        if self.aggregate_first:
            return self._tiled(rows, span, theta, lambda values: self._best(aggregate(values)))
        return self._tiled(rows, span, theta, lambda values: aggregate(self._best(values)))

    @staticmethod
    def _tiled(
        rows: Rows, span: slice, theta: FloatArray, best_of: Callable[[FloatArray], FloatArray]
    ) -> FloatArray:
        """Return `best_of` the values (K, A, m) at next states, few of them at a time."""
        edges = [*range(span.start, span.stop, _TILE), span.stop]
        tiles = [slice(first, last) for first, last in pairwise(edges)]
        return np.concatenate([best_of(rows.after.take(tile).values(theta)) for tile in tiles])

    def _best(self, values: FloatArray) -> FloatArray:
        """Return the largest of the actions' values, from (…, A, m) to (…, m)."""
        best = values[..., self.actions[0], :]
        for action in self.actions[1:]:
            best = np.maximum(best, values[..., action, :])
        return best


@dataclass(frozen=True)
class Targets:
    """A pass over the data: Σφ v(s'), and by how much the Bellman targets change.

    y are the Bellman targets of θ, y' those of the `previous` θ; without one, y' = `scale` · r, to
    which the first θ was fitted.
    """

    backup: Backup
    theta: FloatArray  # (K, d)
    members: Collection[int]
    compare: bool  # whether to compare y with y'
    previous: FloatArray | None = None  # (K, d)
    scale: float = 0.0

    def __call__(self, design: Design, part: range) -> FloatArray:
        """Return Σφ v(s') of one part, then Σ|y − y'| and Σ|y'| as two more columns, (K, d + 2)."""
        size, gamma = design.features.size, design.task.gamma
        total = np.zeros((design.folds.count, size + 2))
        for rows in design.rows(part):
            segments = [each for each in rows.segments if each.member in self.members]
            if not segments:
                continue
            before = None
            if self.previous is not None and self.compare:
                before = self._values(rows, self.previous, segments)
            now = self._values(rows, self.theta, segments)
            for place, (segment, values) in enumerate(zip(segments, now, strict=True)):
                rows.add_moment(total[:, :size], segment, values)
                if self.compare:
                    rewards = rows.rewards[segment.rows]
                    old = self.scale * rewards
                    if before is not None:
                        old = rewards + gamma * before[place]
                    sizes = np.abs(np.stack([rewards + gamma * values - old, old]))  # (2, m)
                    total[segment.member, size:] += segment.weighed(sizes).sum(axis=1)
        return total

    def _values(
        self, rows: Rows, theta: FloatArray, segments: Sequence[Segment]
    ) -> list[FloatArray]:
        """Return v(s') in the rows of some segments; the last values of kept rows are used again."""
        if not self.compare:
            return [values for _, values in self.backup(rows, theta, segments)]
        known = [rows.last_values.get((segment.member, segment.block)) for segment in segments]
        if all(each is not None and each[0] is theta for each in known):
            return [each[1] for each in known if each is not None]
        found = []
        for segment, values in self.backup(rows, theta, segments):
            rows.last_values[segment.member, segment.block] = theta, values
            found.append(values)
        return found


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


def turns(members: int, *, in_turn: bool) -> list[list[int]]:
    """Return the members that are refitted at once, turn by turn, in one iteration."""
    return [[k] for k in range(members)] if in_turn else [list(range(members))]


def iterate(
    design: Design,
    theta: FloatArray,
    *,
    matrix: FloatArray,
    moment: FloatArray,
    iterations: int,
    backup: Backup,
    in_turn: bool = False,
    stopping: Stopping | None = None,
    scale: float = 0.0,
) -> tuple[FloatArray, FloatArray]:
    """Return θ after the iterations, (K, d), and max|Δθ| of each member and iteration, (iterations, K).

    `matrix` and `moment` are Σφφᵀ + λI, (K, d, d), and Σφr, (K, d). Members are refitted all at once or
    `in_turn`. The first θ was fitted to `scale` · r; with `stopping`, the history ends when all members
    have stopped.
    """
    inverse, gamma, (count, size) = np.linalg.inv(matrix), design.task.gamma, theta.shape
    history = np.zeros((iterations, count))
    # the θ that each turn of the last iteration took its targets from
    previous: list[FloatArray | None] = [None] * len(turns(count, in_turn=in_turn))
    for number, moved in enumerate(history):
        first, changes = theta, np.zeros((count, 2))
        for place, members in enumerate(turns(count, in_turn=in_turn)):
            active = [k for k in members if stopping is None or stopping.active[k]]
            targets = Targets(backup, theta, active, stopping is not None, previous[place], scale)
            passed = design.reduce(targets, operator.add)
            changes += passed[:, size:]
            right = moment + gamma * passed[:, :size]
            previous[place], theta = theta, theta.copy()
            theta[active] = (inverse[active] @ right[active, :, None])[..., 0]
        np.abs(theta - first).max(axis=1, out=moved)
        if stopping is not None:
            stopping.update(*changes.T)
            if stopping.done:
                return theta, history[: number + 1]
        if not moved.any():  # a fixed point: further iterations change nothing
            break
    return theta, history


def iterate_huber(
    design: Design,
    theta: FloatArray,
    *,
    matrix: FloatArray,
    iterations: int,
    backup: Backup,
    huber: float,
) -> tuple[FloatArray, FloatArray]:
    """Return what `iterate` does for Huber's loss instead of squares.

    Its threshold is `huber`, in robust standard deviations of the residuals.
    """
    inverse = np.linalg.inv(matrix)
    history = np.zeros((iterations, len(theta)))
    excess: list[FloatArray] = []  # part of the residuals beyond the threshold, by segment
    for moved in history:
        right, targets = _huber_moments(design, theta, excess, backup)
        previous, theta = theta, (inverse @ right[..., None])[..., 0]
        excess = _excess(design, theta, targets, huber)
        np.abs(theta - previous).max(axis=1, out=moved)
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
        for segment, values in backup(rows, theta, None):
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

    def refit(
        critics: RegressorCritics, targets: Sequence[FloatArray], members: Iterable[int]
    ) -> RegressorCritics:
        models = [*critics.members, *[None] * (folds.count - critics.count)]
        for k in members:
            models[k] = clone(model)
            if models[k].get_params().get("random_state", 0) is None:
                models[k].set_params(random_state=seeds[k])
            models[k].fit(inputs[rows[k]], targets[k])
        return RegressorCritics(tuple(models), critics.n_actions)

    ahead, alive = _Ahead.of(task), (~log.terminated).astype(float)

    def target(critics: RegressorCritics, k: int) -> FloatArray:
        """Return the Bellman targets in the rows of fold k."""
        if backup is None:
            critics = critics.subset(np.array([k]))
        values = ahead.at(critics, rows[k])  # (K, L, m)
        if backup is None:
            found = ahead.value(values, rows[k])[0]
        elif settings.aggregate_first:
            found = ahead.value(backup(values), rows[k])
        else:
            found = backup(ahead.value(values, rows[k]))
        return np.asarray(log.rewards[rows[k]] + task.gamma * alive[rows[k]] * found)

    scale = starting_scale(settings.start, task.gamma)
    targets = [log.rewards[chosen] * scale for chosen in rows]
    stopping = settings.stopping(folds.count, together=backup is not None)
    critics = refit(critics, targets, range(folds.count))
    history: list[list[float]] = []
    while len(history) < settings.iterations and not stopping.done:
        before = list(targets)
        for members in turns(folds.count, in_turn=settings.in_turn and backup is not None):
            active = [k for k in members if stopping.active[k]]
            targets = [target(critics, k) if k in active else old for k, old in enumerate(targets)]
            critics = refit(critics, targets, active)
        moves = [np.abs(new - old) for new, old in zip(targets, before, strict=True)]
        history.append([float(move.max()) for move in moves])
        if settings.tolerance is not None:
            sizes = [
                (move.sum(), np.abs(old).sum()) for move, old in zip(moves, before, strict=True)
            ]
            stopping.update(*np.transpose(sizes))
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
        A number is a penalty per observation of the coefficients as they are, `Absolute(λ)` one that
        ignores the number of rows, and ``"cv"`` chooses one per observation by cross-validation over
        episodes: these depend on the units of the states. `Relative`, the default of FQE, does not; the
        default of FQI is a number.
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
        The paper's released code has 0.005. A change of 0.5 % can leave 0.5 % / (1 − γ) to go, half
        of the value at γ = 0.99; and when it stops depends on the noise. None, the default, never
        does.
    in_turn
        At `backup`, whether the folds are refitted one after another, so that the targets of a fold
        hold the new critics of the folds before it, as the paper's boxes and its released code have
        it; by default all at once, from the critics of the last iteration. They have the same fixed
        points; where a `tolerance` stops early, they differ.
    """

    constraints: ClassVar = {
        "iterations": COUNT,
        "start": OneOf("reward", "zero"),
        **dict.fromkeys(("tolerance", "huber"), POSITIVE),
    }

    features: Features | str | None = None
    ridge: RidgeChoice = EVALUATING
    iterations: int = 100
    start: Start = "reward"
    model: Any = None
    aggregate_first: bool = False
    tolerance: float | None = None
    in_turn: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
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
        system = regularise(design, self.ridge, rng)
        if passes:
            both = ExpectedBackup(aggregate=backup, aggregate_first=self.aggregate_first)
            return self._passes(system, both)
        theta, history = _iterate_statistics(system, self)
        diverged = _diverged(theta, history)
        if self.iterations < _SHOWING:  # too few updates to detect divergence from their growth
            diverged = diverged | system.expands()
        return Fitted(system.critics(theta, diverged), history)

    def stopping(self, members: int, *, together: bool) -> Stopping:
        """Return the rule by which members stop before the last iteration."""
        return Stopping(self.tolerance, together, np.ones(members, dtype=bool))

    def _passes(self, system: Regularised, backup: Backup) -> Fitted:
        """Iterate with a pass over the data in each iteration, or one for each member in turn."""
        shared, design = backup.aggregate is not None, system.design
        stopping = self.stopping(design.folds.count, together=shared)
        theta, history = iterate(
            design,
            _first(system, self.start),
            matrix=system.matrix,
            moment=system.stats.moment,
            iterations=self.iterations,
            backup=backup,
            in_turn=self.in_turn and shared,
            stopping=None if self.tolerance is None else stopping,
            scale=starting_scale(self.start, design.task.gamma),
        )
        return Fitted(system.critics(theta, _diverged(theta, history)), history)


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

    ridge: RidgeChoice = 2.5e-3
    aggregate_first: bool = True
    reward: Rewards | str | None = None
    huber: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        as_rewards(self.reward)
        if self.huber is not None and (self.tolerance is not None or self.in_turn):
            raise MethodError(
                f"tolerance and in_turn are settings of the squared loss, and huber={self.huber!r} is "
                f"another. Got tolerance={self.tolerance!r}, in_turn={self.in_turn!r}; leave them out."
            )
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
        system = regularise(Design(task, features, folds, keep=True), self.ridge, rng)
        greedy = GreedyBackup(
            actions=logged_actions(task.log),
            aggregate=backup,
            aggregate_first=self.aggregate_first,
        )
        fitted = self._fitted(system, greedy)
        while (bad := ~fitted.critics.healthy()).any():
            more = system.raised(bad | (backup is not None))  # members with one backup together
            if more is None:
                break
            system, fitted = more, self._fitted(more, greedy)
        return fitted

    def _fitted(self, system: Regularised, greedy: GreedyBackup) -> Fitted:
        if self.huber is None:
            return self._passes(system, greedy)
        theta, history = iterate_huber(
            system.design,
            _first(system, self.start),
            matrix=system.matrix,
            iterations=self.iterations,
            backup=greedy,
            huber=self.huber,
        )
        return Fitted(system.critics(theta, _diverged(theta, history)), history)


def _first(system: Regularised, start: Start) -> FloatArray:
    moment = system.stats.moment
    if start == "zero":
        return np.zeros_like(moment)
    scale = starting_scale(start, system.design.task.gamma)
    return scale * solve(system.matrix, moment[..., None])[..., 0]


def _iterate_statistics(system: Regularised, settings: FittedQ) -> tuple[FloatArray, FloatArray]:
    """Iterate θ ← c + Pθ with c = (Σφφᵀ+λI)⁻¹Σφr and P = γ(Σφφᵀ+λI)⁻¹Σφφ'ᵀ: no data needed."""
    stats = system.stats
    right = np.concatenate(
        [system.design.task.gamma * stats.cross, stats.moment[..., None]], axis=2
    )
    both = solve(system.matrix, right)
    update, constant = both[..., :-1], both[..., -1:]
    theta = _first(system, settings.start)[..., None]  # (K, d, 1)
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
