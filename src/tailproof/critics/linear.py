"""A log as rows of features, the additive statistics of linear algorithms, and their solutions."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple, TypeVar

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray, RowIndex, require_products
from tailproof.critics.ensembles import Critics, LinearCritics
from tailproof.critics.penalties import MOST, PerObservation, Relative, Ridge, RidgeChoice, as_ridge
from tailproof.critics.task import Task
from tailproof.errors import LogError, MethodError, SingularError, SingularWarning
from tailproof.features import Blocks, Dense, Features, PerAction, at_actions
from tailproof.features.units import OwnUnits, Span, ranges, sums
from tailproof.log.folds import Folds, Split
from tailproof.log.log import CHUNK, Chunk, Log, physical_memory
from tailproof.parallel import Local
from tailproof.robust.means import Mean, SampleMean, apply_mean
from tailproof.robust.pooling import TailPooled


class Segment(NamedTuple):
    """Rows of one member whose features lie in one block."""

    member: int
    block: int
    rows: slice
    counts: FloatArray | None  # (m,) multiplicity of each row for the member; None for 1
    following: tuple[tuple[int, slice], ...]  # blocks of φ', and their rows in the segment

    def within(self, span: slice) -> slice:
        """Convert a slice within the segment to one of all rows."""
        return slice(self.rows.start + span.start, self.rows.start + span.stop)

    def weighed(self, values: FloatArray) -> FloatArray:
        """Return values of the segment's rows, (…, m), times their multiplicity."""
        return values if self.counts is None else values * self.counts


@dataclass(frozen=True)
class Rows:
    """A chunk of a log in feature space."""

    chunk: Chunk
    order: IntArray | None  # (m,) the chunk's row of each row here; None for the same order
    rewards: FloatArray  # (m,)
    inner: FloatArray  # (w, m) the block of φ(s, a) that is not zero
    n_blocks: int
    segments: tuple[Segment, ...]
    after: Any  # φ(s', ·) as Blocks or Dense, 0 where terminated; None without `with_next_states`
    chosen: IntArray | None  # (m,) a deterministic policy's action in s'
    next_weights: FloatArray | None  # (L, m) π(·|s') of a stochastic one; None without a policy

    def block(self, number: int) -> slice:
        """Return the positions of a block's features."""
        return slice(number * len(self.inner), (number + 1) * len(self.inner))

    @cached_property
    def last_values(self) -> dict[tuple[int, int], tuple[FloatArray, FloatArray]]:
        """θ and its v(s'), (m,), of the last pass that compared targets, by member and block."""
        return {}

    @cached_property
    def next_inner(self) -> FloatArray:
        """ψ(s') for features in blocks, else φ' = Σ_a π(a|s') φ(s', a), (w, m)."""
        if isinstance(self.after, Blocks):
            return np.asarray(self.after.psi.T)
        if self.next_weights is not None:
            return np.asarray(self.after.mix(self.next_weights.T).T)
        return np.asarray(self.after.phi[:, 0].T)

    def following(self, block: int, rows: RowIndex) -> FloatArray:
        """Return the part of φ' in one block, for rows where it may lie there, (w, m)."""
        inner: FloatArray = self.next_inner[:, rows]
        if self.n_blocks > 1 and self.next_weights is not None:
            return np.asarray(inner * self.next_weights[block, rows])
        return inner

    def values(self, segment: Segment, theta: FloatArray) -> FloatArray:
        """Return φᵀθ in the rows of a segment, (…, m), for θ of shape (…, d)."""
        return np.asarray(theta[..., self.block(segment.block)] @ self.inner[:, segment.rows])

    def add_moment(self, total: FloatArray, segment: Segment, values: FloatArray) -> None:
        """Add Σφv over the rows of a segment to the total of its member, (K, d)."""
        weighed = self.inner[:, segment.rows] @ segment.weighed(values)
        total[segment.member, self.block(segment.block)] += weighed

    def next_values(self, theta: FloatArray, rows: RowIndex = slice(None)) -> FloatArray:
        """Return φ'ᵀθ in some rows, (…, m), for θ of shape (…, d)."""
        inner = self.next_inner[:, rows]
        if self.n_blocks == 1:
            return np.asarray(theta @ inner)
        values = np.zeros((*theta.shape[:-1], inner.shape[1]))
        for number in range(self.n_blocks):
            own = theta[..., self.block(number)] @ inner
            if self.next_weights is not None:
                values += own * self.next_weights[number, rows]
            elif self.chosen is not None:
                np.copyto(values, own, where=self.chosen[rows] == number)
        return values


@dataclass(frozen=True)
class Membership:
    """The members of each episode, in the form that `arrange` needs."""

    members: int
    fold_of_episode: IntArray | None  # (E,) −1 for none; None if one member has all episodes
    counts: IntArray | None  # (K, E), where members share episodes

    @classmethod
    def of(cls, folds: Folds) -> Membership:
        """Convert folds to this form."""
        if folds.count == 1 and (folds.counts == 1).all():
            return cls(1, None, None)
        if folds.are_disjoint:
            return cls(folds.count, folds.fold_of_episode().astype(np.int16), None)
        return cls(folds.count, None, folds.counts)


def arrange(
    chunk: Chunk,
    task: Task,
    features: Features,
    membership: Membership,
    *,
    with_next_states: bool = True,
) -> Rows:
    """Return a chunk of a log in feature space, with next states if `with_next_states`."""
    n_blocks = features.n_actions if isinstance(features, PerAction) else 1
    following, every, weights = task.following(chunk) if with_next_states else (None, None, None)
    keys: list[tuple[AnyArray, int]] = []
    groups = 1
    if membership.fold_of_episode is not None:
        groups = membership.members
        keys.append((membership.fold_of_episode.take(chunk.episode), groups))
    if n_blocks > 1:
        keys.append((chunk.actions, n_blocks))
        if following is not None:
            keys.append((following, n_blocks))
    order, borders = _sorted(keys, len(chunk))
    borders = borders.reshape(groups, n_blocks, -1, 2)
    towards = range(n_blocks if with_next_states and task.policy is not None else 0)
    if membership.counts is None:
        segments = _disjoint_segments(borders, towards)
    else:
        segments = _shared_segments(
            borders, towards, membership.counts[:, _take(chunk.episode, order)]
        )
    ends = chunk.terminated if with_next_states and chunk.terminated.any() else None
    terminated = None if ends is None else _take(ends, order)
    states = _take(chunk.states, order)
    if isinstance(features, PerAction):
        inner = features.state_features(states)
    else:
        inner = features(states, _take(chunk.actions, order))
    after: Blocks | Dense | None = None
    if with_next_states:
        after = at_actions(features, _take(chunk.next_states, order), _take(every, order))
        after = _without(after, terminated)
    return Rows(
        chunk=chunk,
        order=order,
        rewards=_take(chunk.rewards, order).astype(float, copy=False),
        inner=inner.T,
        n_blocks=n_blocks,
        segments=tuple(segments),
        after=after,
        chosen=None if following is None else _take(following, order),
        next_weights=None if weights is None else _take(weights, order).T,
    )


def _sorted(keys: list[tuple[AnyArray, int]], m: int) -> tuple[IntArray | None, IntArray]:
    """Return the sorting order by keys in 0..size−1, and the range of each combination in it.

    Rows with a negative first key come before all combinations. Without keys the order is None.
    """
    if not keys:
        return None, np.array([[0, m]])
    combinations = int(np.prod([size for _, size in keys]))
    # small integers, because numpy sorts those in linear time
    kind: Any = np.int8 if combinations < 2**7 else np.int16 if combinations < 2**15 else np.int64
    code: Any = keys[0][0].astype(kind)
    for values, size in keys[1:]:
        code = code * kind(size) + values.astype(kind)
    order = np.argsort(code, kind="stable")
    edges = np.searchsorted(code, np.arange(combinations + 1, dtype=kind), sorter=order)
    return order, np.column_stack([edges[:-1], edges[1:]])


def _take(values: Any, order: IntArray | None) -> Any:
    """Return rows in another order, fast for either memory layout."""
    if order is None:
        return values
    if values.ndim == 2 and not values.flags.c_contiguous:
        return values.T.take(order, axis=1).T
    return values.take(order, axis=0)


def _without(after: Blocks | Dense, terminated: BoolArray | None) -> Blocks | Dense:
    """Return φ(s', ·) with zeros after terminal transitions."""
    if terminated is None:
        return after
    if isinstance(after, Blocks):
        return Blocks(np.where(terminated, 0.0, after.psi.T).T)
    return Dense(np.where(terminated[:, None, None], 0.0, after.phi))


def _disjoint_segments(borders: IntArray, towards: range) -> Iterator[Segment]:
    """Yield the segments if every row has one member; borders are (K, blocks, next blocks, 2)."""
    for member, of_member in enumerate(borders.tolist()):
        for block, spans in enumerate(of_member):
            first, last = spans[0][0], spans[-1][1]
            if first == last:
                continue
            if len(spans) == 1:
                spans = [(first, last) for _ in towards]
            following = tuple(
                (number, slice(start - first, stop - first))
                for number, (start, stop) in enumerate(spans)
                if start < stop
            )
            yield Segment(member, block, slice(first, last), None, following)


def _shared_segments(borders: IntArray, towards: range, counts: IntArray) -> Iterator[Segment]:
    """Yield the segments if members share rows; `counts`, (K, m), are the multiplicities."""
    for segment in _disjoint_segments(borders, towards):
        for member, times in enumerate(counts[:, segment.rows]):
            yield segment._replace(member=member, counts=times.astype(float))


T = TypeVar("T")
_KEPT = 1 << 29  # most bytes of feature rows that are kept between passes
_WIDEST = 1 << 22  # most numbers in the features of one chunk


@dataclass(frozen=True)
class Design:
    """A task in feature space, divided among K members, as an iterable of rows.

    Algorithms that pass over the data more than once set `keep`; rows that are too large are still
    computed in every pass. Algorithms that need no next states set `with_next_states` to False.
    """

    task: Task
    features: Features
    folds: Folds
    keep: bool = False
    with_next_states: bool = True

    def __iter__(self) -> Iterator[Rows]:
        return (rows for part in self.task.log.parts for rows in self.rows(part))

    def rows(self, part: range) -> Iterable[Rows]:
        """Return the rows of one part of the log."""
        if not self._keeps:
            return self._make(part)
        if part not in self._kept:
            self._kept[part] = list(self._make(part))
        return self._kept[part]

    def reduce(self, function: Callable[[Design, range], T], combine: Callable[[T, T], T]) -> T:
        """Return ``function(design, part)`` for all parts of the log, combined in their order.

        The task's engine decides where this runs, so the function must be picklable with its data.
        Without a policy, kept rows stay in this process.
        """
        engine = Local() if self._stays else self.task.engine
        return engine.map_reduce(function, self.task.log.parts, combine, shared=self)

    @cached_property
    def statistics(self) -> Statistics:
        """The statistics of all rows, from one pass over the data."""
        found: Statistics = self.reduce(part_statistics, operator.add)
        require_products(found.gram, LogError)
        return found

    @cached_property
    def units(self) -> OwnUnits:
        """The features in units of their own, from all rows of the log, whatever the folds."""
        require_room(2 * self.folds.count, self.features.size)
        return OwnUnits.of(self.features, self._ranges, self._sums)

    @cached_property
    def in_own_units(self) -> Design:
        """The same task and folds, in features of their own units."""
        return replace(self, features=self.units.features)

    def _ranges(self, span: Span) -> FloatArray:
        return self.reduce(partial(_ranges_of_part, span), np.maximum)

    def _sums(self, span: Span) -> FloatArray:
        return self.reduce(partial(_sums_of_part, span), operator.add)

    @property
    def shares_rows(self) -> bool:
        """Whether several members see the same rows."""
        return self._membership.counts is not None

    @property
    def _stays(self) -> bool:
        return self._keeps and self.task.policy is None

    @cached_property
    def _keeps(self) -> bool:
        if not self.keep:
            return False
        log = self.task.log
        copies = 4 if self.task.policy is not None else 1 + log.n_actions
        size = 8 * log.n_transitions * self.features.size * copies
        if log.budget is not None and size + log.bytes_in_memory > log.budget:
            return False
        return bool(size <= _KEPT)

    @cached_property
    def _kept(self) -> dict[range, list[Rows]]:
        return {}

    @cached_property
    def _membership(self) -> Membership:
        return Membership.of(self.folds)

    def _make(self, part: range) -> Iterator[Rows]:
        blocks = self.features.n_actions if isinstance(self.features, PerAction) else 1
        # one matrix product per member, action and next action: enough rows to make each efficient
        wanted = 512 * self.folds.count * blocks**2
        size = max(CHUNK, min(wanted, _WIDEST * blocks // self.features.size))
        log = self.task.log
        if self._stays:
            size = log.n_transitions
        for chunk in log.chunks(part, size):
            yield arrange(
                chunk,
                self.task,
                self.features,
                self._membership,
                with_next_states=self.with_next_states,
            )

    def __getstate__(self) -> dict[str, Any]:
        return {each.name: getattr(self, each.name) for each in fields(self)}


@dataclass(frozen=True)
class Statistics:
    """Σφφᵀ, Σφφ'ᵀ, Σφr and the number of rows, for each member; they add up over rows."""

    gram: FloatArray  # (K, d, d)
    cross: FloatArray  # (K, d, d)
    moment: FloatArray  # (K, d)
    count: FloatArray  # (K,)

    @classmethod
    def zeros(cls, members: int, size: int) -> Statistics:
        """Return zero statistics; raise if they need more than a quarter of the memory."""
        require_room(2 * members, size)
        square = (members, size, size)
        return cls(np.zeros(square), np.zeros(square), np.zeros(square[:2]), np.zeros(members))

    def map(self, function: Callable[..., FloatArray], *others: Statistics) -> Statistics:
        """Apply a function to each of the four arrays, together with those of `others`."""
        return Statistics(*map(function, *(vars(each).values() for each in (self, *others))))

    def __add__(self, other: Statistics) -> Statistics:
        return self.map(operator.add, other)


def accumulate(rows: Rows, total: Statistics) -> None:
    """Add the rows' statistics to a total; without a policy there is no φ' and no `cross`."""
    for segment in rows.segments:
        member, block, inner = (
            segment.member,
            rows.block(segment.block),
            rows.inner[:, segment.rows],
        )
        weighted = segment.weighed(inner)  # (w, m)
        total.gram[member, block, block] += weighted @ inner.T
        total.moment[member, block] += weighted @ rows.rewards[segment.rows]
        total.count[member] += inner.shape[1] if segment.counts is None else segment.counts.sum()
        for number, span in segment.following:
            after = rows.following(number, segment.within(span))
            total.cross[member, block, rows.block(number)] += weighted[:, span] @ after.T


def _ranges_of_part(span: Span, design: Design, part: range) -> FloatArray:
    chunks = design.task.log.chunks(part)
    return np.asarray(np.max([ranges(span(each.states, each.actions)) for each in chunks], axis=0))


def _sums_of_part(span: Span, design: Design, part: range) -> FloatArray:
    chunks = design.task.log.chunks(part)
    return np.asarray(sum(sums(span(each.states, each.actions)) for each in chunks))


def part_statistics(design: Design, part: range) -> Statistics:
    """Return the statistics of one part of the log."""
    total = Statistics.zeros(design.folds.count, design.features.size)
    for rows in design.rows(part):
        accumulate(rows, total)
    return total


@dataclass(frozen=True)
class Regularised:
    """Σφφᵀ + P of each member, with the statistics it came from."""

    design: Design  # of the features in which θ is solved
    stats: Statistics
    ridge: Ridge
    penalty: FloatArray  # (K,) λ
    given: Design  # of the features as they were given

    @cached_property
    def matrix(self) -> FloatArray:
        """Σφφᵀ + P, (K, d, d)."""
        return self.stats.gram + self.penalty[:, None, None] * _shape(self.given, self.ridge)

    @property
    def bellman(self) -> FloatArray:
        """A = Σφ(φ − γφ')ᵀ + P, (K, d, d)."""
        return self.matrix - self.design.task.gamma * self.stats.cross

    def critics(self, theta: FloatArray, diverged: BoolArray | None = None) -> LinearCritics:
        """Return the critics of θ, in the features as they were given."""
        if isinstance(self.ridge, Relative):
            theta = self.given.units.given(theta)
        found = LinearCritics(self.given.features, theta)
        return found if diverged is None else replace(found, diverged=diverged)

    def expands(self, cross: FloatArray | None = None) -> BoolArray:
        """Return for which members θ ← (Σφφᵀ + P)⁻¹ Σφ (r + γφ'ᵀθ) has no limit, (K,).

        It has one if the spectral radius of γ (Σφφᵀ + P)⁻¹ Σφφ'ᵀ is below 1. `cross` is Σφφ'ᵀ, by
        default that of the statistics.
        """
        following = self.design.task.gamma * (self.stats.cross if cross is None else cross)
        step = solve(self.matrix, following)
        radius = [
            np.abs(np.linalg.eigvals(each)).max() if np.isfinite(each).all() else np.inf
            for each in step
        ]
        return np.asarray(radius) > 1 + 1e-9

    def raised(self, members: BoolArray) -> Regularised | None:
        """Return the system with ten times the penalty of some members; None if none may be raised."""
        if not isinstance(self.ridge, Relative) or self.ridge.value == 0:
            return None
        most = np.maximum(MOST * self.stats.count, self.penalty)
        penalty = np.where(members, np.minimum(10 * self.penalty, most), self.penalty)
        return None if (penalty == self.penalty).all() else replace(self, penalty=penalty)

    def stable(self, cross: FloatArray | None = None) -> Regularised:
        """Return the system with the smallest of the penalties at which fitted Q has a limit."""
        found = self
        while isinstance(self.ridge, Relative):
            expands = found.expands(cross)
            more = found.raised(expands) if expands.any() else None
            if more is None:
                break
            found = more
        return found


def _shape(design: Design, ridge: Ridge) -> FloatArray:
    """Return P / λ: all coefficients alike, or all but the constant function, (d, d)."""
    identity = np.eye(design.features.size)
    free = isinstance(ridge, Relative) and ridge.towards == "constant"
    constant = design.units.constant if free else None
    if constant is None:
        return identity
    return np.asarray(identity - np.outer(constant, constant) / (constant @ constant))


def _check_rank(system: Regularised) -> None:
    """Refuse a rank-deficient Gram matrix without a ridge; with one, warn where the policy goes there.

    The error is a `SingularError`, the warning a `SingularWarning`: the ridge sets the missing
    directions of θ.
    """
    gram, d = system.stats.gram, system.design.features.size
    require_products(gram, LogError)
    spectrum = np.linalg.eigvalsh(gram)  # (K, d) ascending
    ranks = (spectrum > 1e-13 * np.maximum(spectrum[:, -1:], 1e-300)).sum(axis=1)
    if (ranks == d).all():
        return
    worst = int(ranks.argmin())
    found = (
        f"The feature matrix of fold {worst} has rank {ranks[worst]} of {d}: some features are "
        f"constant, repeated, or belong to an action that the fold never takes."
    )
    if system.penalty[worst] == 0:
        raise SingularError(f"{found} Use a positive ridge, or drop those features.")
    if _goes_beyond(system.design, system.stats, worst, d - int(ranks[worst])):
        warnings.warn(
            f"{found} The ridge decides about them: it sets their weights to zero.",
            SingularWarning,
            stacklevel=2,
        )


def _goes_beyond(design: Design, stats: Statistics, fold: int, missing: int) -> bool:
    """Return whether the policy's features leave the span of the fold's features."""
    null = np.linalg.eigh(stats.gram[fold])[1][:, :missing]  # (d, missing)
    log = design.task.log
    if design.task.policy is None:  # a greedy policy may take any logged action in any state
        some = log.next_states[:: max(1, log.n_transitions // 2_000)]
        reached = [
            np.abs(design.features(some, np.full(len(some), action)) @ null).max()
            for action in np.unique(log.actions)
        ]
        return bool(max(reached) > 1e-6)
    points = design.task.initial_points()
    start = design.features(points.states, points.actions)
    later = stats.cross[fold].T @ null / stats.count[fold]
    return bool(max(np.abs(start @ null).max(), np.abs(later).max()) > 1e-6)


def solve(matrix: FloatArray, right: FloatArray) -> FloatArray:
    """Return matrix⁻¹ right for each member, NaN for a member whose system is singular."""
    try:
        return np.linalg.solve(matrix, right)
    except np.linalg.LinAlgError:
        solution = np.full(right.shape, np.nan)
        for k, (one, vector) in enumerate(zip(matrix, right, strict=True)):
            if np.linalg.matrix_rank(one) == len(one):
                solution[k] = np.linalg.solve(one, vector)
        return solution


def fixed_point(
    gram: FloatArray, stats: Statistics, gamma: float, cross: FloatArray | None = None
) -> FloatArray:
    """Return θ of (Σφφᵀ + λI − γΣφφ'ᵀ)θ = Σφr for each member, (K, d): LSTD.

    `gram` is Σφφᵀ + λI; `cross` is Σφφ'ᵀ, by default that of the statistics.
    """
    matrix = gram - gamma * (stats.cross if cross is None else cross)
    return solve(matrix, stats.moment[..., None])[..., 0]


def robust_scale(residuals: FloatArray) -> float:
    """Return 1.4826 · median |u|, a robust standard deviation.

    If most residuals are zero, the median is over the non-zero ones. If all are zero, the scale is
    infinite, because there is no noise to clip.

    Examples
    --------
    >>> round(robust_scale(np.array([-1.0, 1.0, 1.0, -1.0, 1e9])), 4)
    1.4826
    >>> robust_scale(np.zeros(3))
    inf
    """
    size = np.abs(residuals)
    middle = float(np.median(size))
    if middle == 0:
        size = size[size > 0]
        middle = float(np.median(size)) if len(size) else np.inf
    return 1.4826 * middle


def require_room(matrices: int, size: int) -> None:
    """Raise if so many matrices, (size, size), need more than a quarter of the memory."""
    needed, allowed = 8 * matrices * size**2, physical_memory() // 4
    if needed > allowed:
        raise MethodError(
            f"{size:,} features need {matrices} matrices of {needed / 1e9:.1f} GB together, and may "
            f"take {allowed / 1e9:.1f} GB. Use fewer state columns, actions or folds, or features of "
            f"a lower degree.",
            argument="features",
        )


@dataclass(frozen=True)
class Regression:
    """A robust linear fit of y on φ, with the terms needed for its standard error."""

    beta: FloatArray  # (d,)
    residuals: FloatArray  # (n,) y − φᵀβ
    scores: FloatArray  # (n,) ψ_τ(residual)
    inverse: FloatArray  # (d, d) of mean φφᵀ1{|residual| < τ}: β̂ − β is the mean of inverse · φψ_τ


def huber_regression(
    phi: FloatArray,
    target: FloatArray,
    *,
    threshold: float = 1.345,
    ridge: float = 1e-10,
    iterations: int = 100,
    tolerance: float = 1e-4,
) -> Regression:
    """Return β with Σφψ_τ(y − φᵀβ) = nλβ, ψ_τ(u) = clip(u, ±τ), on one factorisation.

    τ is `threshold` times the `robust_scale` of y − φᵀβ, updated in each step. The start is least
    squares on targets clipped at three robust standard deviations from their median.

    Parameters
    ----------
    phi, target
        (n, d) and (n,).
    ridge
        λ relative to mean ‖φ‖²: only large enough to determine β where the data do not.
    tolerance
        The iteration ends if a step changes the fit by less than this share of τ.

    Examples
    --------
    >>> x = np.column_stack([np.ones(9), np.arange(9.0)])
    >>> y = 2 * np.arange(9.0)
    >>> y[3] += 1e6
    >>> huber_regression(x, y).beta.round(3) + 0.0
    array([0., 2.])
    """
    n = len(phi)
    with np.errstate(over="ignore", invalid="ignore"):
        gram = phi.T @ phi / n
    require_products(gram, LogError)
    inverse = np.linalg.inv(gram + ridge * np.trace(gram) * np.eye(len(gram)))
    centre = float(np.median(target))
    reach = 3 * robust_scale(target - centre)
    beta = inverse @ (np.clip(target, centre - reach, centre + reach) @ phi) / n
    for _ in range(iterations):
        fitted = phi @ beta
        residuals = target - fitted
        # rounding errors count as zero; compared with each row's own size, as others may be outliers
        residuals[np.abs(residuals) <= 1e-12 * (np.abs(target) + np.abs(fitted))] = 0.0
        limit = threshold * robust_scale(residuals)
        inside = max(float(np.mean(np.abs(residuals) < limit)), 1 / n)
        pulled = np.clip(residuals, -limit, limit)
        # Newton's step is 1/inside times Huber's; Huber's converges for factors below 2
        step = inverse @ (pulled @ phi) / n * min(1 / inside, 1.9)
        if 2 * np.count_nonzero(residuals) < n:  # the fit passes through most points
            break
        beta = beta + step
        if np.isinf(limit) or np.abs(phi @ step).max() <= tolerance * limit:
            break
    # the share of residuals within τ may depend on φ, so use the curvature of those rows
    within = phi[np.abs(residuals) < limit]
    curvature = within.T @ within / n + gram / n  # add 1/n of the full Gram matrix for stability
    slope = np.linalg.inv(curvature + ridge * np.trace(gram) * np.eye(len(gram)))
    return Regression(beta, target - phi @ beta, pulled, slope)


CANDIDATES = tuple(10.0**power for power in range(-8, 1))


def regularise(design: Design, ridge: RidgeChoice, rng: np.random.Generator) -> Regularised:
    """Return Σφφᵀ + P for each fold, after checking its rank."""
    chosen = choose_ridge(design, rng=rng) if ridge == "cv" else as_ridge(ridge, relative=True)
    solved = design.in_own_units if isinstance(chosen, Relative) else design
    stats = solved.statistics
    system = Regularised(solved, stats, chosen, chosen.penalty(stats.count), design)
    _check_rank(system)
    return system.stable()


def choose_ridge(design: Design, *, rng: np.random.Generator, parts: int = 5) -> PerObservation:
    """Return the penalty per observation whose critics predict held-out episodes best.

    Episodes (or groups) are split in `parts`; for each candidate a critic is fitted without one part
    and scored by the mean absolute Bellman error Σ|r + γφ'ᵀθ − φᵀθ| on it. The absolute error is
    used because a few heavy-tailed rewards would dominate a squared one. Without a policy the critic
    is the ridge regression of the reward.

    The penalty is chosen once on the whole log and used for all folds.
    """
    log = design.task.log
    if log.n_groups < 2:
        return PerObservation(1e-6)
    folds = Split(min(parts, log.n_groups)).assign(log, rng)
    held_out = Design(design.task, design.features, folds)
    rest = held_out.statistics.map(total_without)
    identity = np.eye(design.features.size)
    penalties = [PerObservation(value).penalty(rest.count) for value in CANDIDATES]
    theta = np.stack(
        [
            fixed_point(rest.gram + each[:, None, None] * identity, rest, design.task.gamma)
            for each in penalties
        ]
    )
    errors = held_out.reduce(partial(_held_out_errors, theta), operator.add)
    errors[~np.isfinite(errors)] = np.inf
    return PerObservation(CANDIDATES[int(errors.argmin())])


def _held_out_errors(theta: FloatArray, design: Design, part: range) -> FloatArray:
    """Return Σ|r + γφ'ᵀθ − φᵀθ| of each candidate over one part of the log, (C,)."""
    errors = np.zeros(len(theta))
    for rows in design.rows(part):
        for segment in rows.segments:
            own = theta[:, segment.member]
            residual = rows.rewards[segment.rows] - rows.values(segment, own)
            if design.task.policy is not None:
                residual += design.task.gamma * rows.next_values(own, segment.rows)
            errors += np.abs(residual).sum(axis=1)
    return errors


def total_without(per_part: FloatArray) -> FloatArray:
    """Return, for each part, the sum of all the others."""
    return np.asarray(per_part.sum(axis=0) - per_part)


Unit = Literal["step", "episode", "group"]
UNITS: tuple[Unit, ...] = ("step", "episode", "group")


def _shape_of(log: Log, episodes: IntArray | None) -> tuple[IntArray, IntArray]:
    """Return the lengths and the groups of some episodes, by default all, (E,) each."""
    if episodes is None:
        return log.lengths, log.group_of_episode
    lengths = log.lengths[episodes]
    if log.group_ids is None:  # each, also if it occurs twice, is a group of its own
        return lengths, np.arange(len(lengths))
    return lengths, np.unique(log.group_ids[episodes], return_inverse=True)[1]


def unit_mean(
    samples: FloatArray,
    log: Log,
    episodes: IntArray | None = None,
    *,
    mean: Mean,
    unit: Unit,
    rng: np.random.Generator,
) -> float:
    """Return the robust mean of per-step samples, taken over steps or sums of episodes or groups.

    `samples` are those of the rows of some episodes, by default all. If they are not finite (the fold's
    system is singular), the mean is NaN.
    """
    lengths, group = _shape_of(log, episodes)
    if unit == "step":
        group = np.repeat(group, lengths)
    else:
        samples = np.add.reduceat(samples, np.cumsum(lengths) - lengths)
    if unit == "group":
        samples = np.bincount(group, weights=samples).astype(float)
        group = np.arange(len(samples))
    if not np.isfinite(samples).all():
        return float("nan")
    # with E units of n steps, the mean of steps is E / n times the mean of sums
    together = unit != "step" or log.group_ids is not None  # else steps count as independent
    value = apply_mean(mean, samples, groups=group if together else None, rng=rng)
    return value * len(samples) / int(lengths.sum())


def weighted_samples(
    rewards: FloatArray,
    weights: FloatArray,
    log: Log,
    episodes: IntArray | None = None,
    *,
    mean: Mean | TailPooled,
) -> tuple[FloatArray, Mean]:
    """Return w·r with pooled tails if the mean asks for them, (n,), and the mean of these samples."""
    if not isinstance(mean, TailPooled):
        return weights * rewards, mean
    lengths, group = _shape_of(log, episodes)
    groups = np.repeat(group, lengths)

    def sums(values: FloatArray) -> FloatArray:
        return np.bincount(groups, weights=values).astype(float)

    pooled = mean.rewards(rewards, weights, sums=sums)
    return weights * pooled, SampleMean()


def check_mean(mean: object, unit: object, *, pools: bool = False) -> None:
    """Refuse a mean that cannot be called and a unit that does not exist.

    `pools`: whether weights and rewards are known apart, which `TailPooled` needs.
    """
    if isinstance(mean, TailPooled):
        if not pools:
            raise MethodError(
                "TailPooled() pools rewards, not residuals of a model: use it with 'mis' or 'ips', or "
                "'auto', whose doubly robust scores of one-step logs have pooled tails."
            )
    elif not callable(mean):
        raise MethodError(
            f"mean must be one of tailproof.means, for instance AdaptiveHuber(), or a function of the "
            f"samples. Got {mean!r}."
        )
    if unit not in UNITS:
        raise MethodError(f"unit must be one of {', '.join(UNITS)}. Got {unit!r} instead.")


def weights_of_part(direction: FloatArray, design: Design, part: range) -> FloatArray:
    """Return φᵀdirection in the rows of one part, (J, m), or (1, m) where every row has one member.

    `direction` is (J, d), of each member.
    """
    members = design.folds.count if design.shares_rows else 1
    found = [np.zeros((members, 0))]
    for rows in design.rows(part):
        values = np.zeros((members, len(rows.chunk)))
        for segment in rows.segments:
            places = segment.rows if rows.order is None else rows.order[segment.rows]
            seen = 1.0 if segment.counts is None else segment.counts > 0
            own = rows.values(segment, direction[segment.member])
            values[segment.member if members > 1 else 0, places] = own * seen
        found.append(values)
    return np.concatenate(found, axis=1)


def side_by_side(one: FloatArray, other: FloatArray) -> FloatArray:
    """Return the columns of both arrays."""
    return np.concatenate([one, other], axis=1)


_AT_ONCE = 1 << 20  # rows whose features are in memory at once


def bellman_residuals(critic: Critics, task: Task, rows: RowIndex = slice(None)) -> FloatArray:
    """Return δ of a critic with one member at these rows of the task's log, (m,).

    Terminal transitions have no next value.
    """
    log = task.log
    if not isinstance(rows, slice) and len(rows) > _AT_ONCE:  # the features of all may be too many
        some = [rows[first : first + _AT_ONCE] for first in range(0, len(rows), _AT_ONCE)]
        return np.concatenate([bellman_residuals(critic, task, each) for each in some])
    actions, weights = task.next_actions(rows)
    after = (_values(critic, task, log.next_states[rows], actions) * weights).sum(axis=1)
    after[log.terminated[rows]] = 0.0
    now = _values(critic, task, log.states[rows], log.actions[rows][:, None])[:, 0]
    return np.asarray(log.rewards[rows] + task.gamma * after - now)


def _values(critic: Critics, task: Task, states: FloatArray, actions: AnyArray) -> FloatArray:
    """Return Q at L actions of each state, (m, L); `actions` is (m, L) or (m, L, q)."""
    if task.log.is_discrete:  # one call for all actions computes the features of each state once
        every = critic.action_values(states, task.log.n_actions)[0]  # (A, m)
        return np.take_along_axis(every.T, actions, axis=1)
    columns = [critic.values(states, actions[:, i])[0] for i in range(actions.shape[1])]
    return np.stack(columns, axis=1)
