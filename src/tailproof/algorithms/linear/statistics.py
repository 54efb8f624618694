"""A log as rows of features, and the additive statistics that linear algorithms need.

`accumulate` adds some rows to the `Statistics` of each fold, statistics of parts add up, and every
linear algorithm solves a small system with them. It takes one pass over the data; memory grows with
d², not with n.
"""

from __future__ import annotations

import operator
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from tailproof.algorithms.rows import Dealing, Rows, arrange
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, require_products
from tailproof.data.log import Log
from tailproof.data.partition import Folds
from tailproof.data.view import CHUNK, physical_memory
from tailproof.engines import Local
from tailproof.errors import LogError, MethodError, SingularError, SingularWarning
from tailproof.features import Features, PerAction
from tailproof.parameters import Configurable

T = TypeVar("T")
_KEPT = 1 << 29  # most bytes of feature rows that are kept between passes
_WIDEST = 1 << 22  # most numbers in the features of one chunk


@dataclass(frozen=True)
class Absolute(Configurable):
    """A ridge penalty λ that does not depend on the number of rows, as in the paper."""

    value: float

    def penalty(self, count: FloatArray) -> FloatArray:
        """Return λ for folds of these numbers of rows, (K,)."""
        return np.full(len(count), float(self.value))


@dataclass(frozen=True)
class PerObservation(Configurable):
    """A ridge penalty λ = value · n: equally strong for a fold and the whole log."""

    value: float

    def penalty(self, count: FloatArray) -> FloatArray:
        """Return λ for folds of these numbers of rows, (K,)."""
        return self.value * np.asarray(count, dtype=float)


Ridge = Absolute | PerObservation


def as_ridge(ridge: Any) -> Ridge:
    """Return a number as a penalty per observation; refuse anything that is not a penalty."""
    penalty = ridge if isinstance(ridge, Absolute | PerObservation) else None
    if isinstance(ridge, int | float | np.number) and not isinstance(ridge, bool):
        penalty = PerObservation(float(ridge))
    if penalty is None or not (np.isfinite(penalty.value) and penalty.value >= 0):
        raise MethodError(
            f"ridge must be a number of at least 0 (per observation), Absolute(number) or 'cv'. "
            f"Got {ridge!r} instead."
        )
    return penalty


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

    def rows(self, part: Any) -> Iterable[Rows]:
        """Return the rows of one part of the log."""
        if not self._keeps:
            return self._make(part)
        if part not in self._kept:
            self._kept[part] = list(self._make(part))
        return self._kept[part]

    def reduce(self, function: Callable[[Design, Any], T], combine: Callable[[T, T], T]) -> T:
        """Return ``function(design, part)`` for all parts of the log, combined in their order.

        The task's engine decides where this runs, so the function must be picklable with its data.
        Without a policy, kept rows stay in this process.
        """
        engine = Local() if self._stays else self.task.engine
        return engine.map_reduce(function, self.task.log.parts, combine, shared=self._portable)

    @cached_property
    def statistics(self) -> Statistics:
        """The statistics of all rows, from one pass over the data."""
        summary: PartSummary = self.reduce(summarise_part, operator.add)
        if self.task.log.stays_on_disk:
            self.task.first_met[:] = [summary.first_states]
        require_products(summary.statistics.gram, LogError)
        return summary.statistics

    @property
    def shares_rows(self) -> bool:
        """Whether several members see the same rows."""
        return self._dealing.counts is not None

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
        if log.stays_on_disk and size + log.bytes_in_memory > log.memory_budget:
            return False
        return bool(size <= _KEPT)

    @cached_property
    def _portable(self) -> Design:
        """The design without the log's parts, which are sent to workers one by one."""
        log = self.task.log.without_parts()
        return self if log is self.task.log else replace(self, task=replace(self.task, log=log))

    @cached_property
    def _kept(self) -> dict[Any, list[Rows]]:
        return {}

    @cached_property
    def _dealing(self) -> Dealing:
        return Dealing.of(self.folds)

    def _make(self, part: Any) -> Iterator[Rows]:
        blocks = self.features.n_actions if isinstance(self.features, PerAction) else 1
        # one matrix product per member, action and next action: enough rows to make each efficient
        wanted = 512 * self.folds.count * blocks**2
        size = max(CHUNK, min(wanted, _WIDEST * blocks // self.features.size))
        log = self.task.log
        if self._stays:
            size = log.n_transitions
        # continuous policies draw actions for each row, so rows without a transition are dropped
        for chunk in log.chunks(
            part, size, with_next_states=self.with_next_states, compact=not log.is_discrete
        ):
            yield arrange(
                chunk,
                self.task,
                self.features,
                self._dealing,
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
        needed, allowed = 2 * 8 * members * size**2, physical_memory() // 4
        if needed > allowed:
            raise MethodError(
                f"{size} features of {members} members need matrices of {needed / 1e9:.1f} GB, and may "
                f"take {allowed / 1e9:.1f} GB. Use fewer state columns, actions or folds, or features "
                f"of a lower degree."
            )
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


@dataclass(frozen=True)
class PartSummary:
    """The results of one pass over some parts of a log."""

    statistics: Statistics
    first_states: FloatArray  # (e, p) for a log on disk; empty for one in memory

    def __add__(self, other: PartSummary) -> PartSummary:
        both = [self.first_states, other.first_states]
        return PartSummary(self.statistics + other.statistics, np.concatenate(both))


def summarise_part(design: Design, part: Any) -> PartSummary:
    """Return the statistics of one part of the log."""
    log = design.task.log
    total = Statistics.zeros(design.folds.count, design.features.size)
    first: list[FloatArray] = [np.empty((0, len(log.state_names)))]
    for rows in design.rows(part):
        accumulate(rows, total)
        if log.stays_on_disk:
            first.append(log.first_states_in(rows.chunk))
    return PartSummary(total, np.concatenate(first))


def regularised(design: Design, stats: Statistics, penalty: FloatArray) -> FloatArray:
    """Return Σφφᵀ + λI, (K, d, d), after checking its rank.

    A rank-deficient Gram matrix raises a `SingularError` without a ridge. With a ridge it gives a
    `SingularWarning` if the policy needs the missing directions, where the ridge sets θ to zero.
    """
    gram, d = stats.gram, stats.gram.shape[-1]
    require_products(gram, LogError)
    spectrum = np.linalg.eigvalsh(gram)  # (K, d) ascending
    ranks = (spectrum > 1e-13 * np.maximum(spectrum[:, -1:], 1e-300)).sum(axis=1)
    if (ranks < d).any():
        worst = int(ranks.argmin())
        found = (
            f"The feature matrix of fold {worst} has rank {ranks[worst]} of {d}: some features are "
            f"constant, repeated, or belong to an action that the fold never takes."
        )
        if penalty[worst] == 0:
            raise SingularError(f"{found} Use a positive ridge, or drop those features.")
        if _goes_beyond(design, stats, worst, d - int(ranks[worst])):
            warnings.warn(
                f"{found} The ridge decides about them: it sets their weights to zero.",
                SingularWarning,
                stacklevel=2,
            )
    return gram + penalty[:, None, None] * np.eye(d)


def _goes_beyond(design: Design, stats: Statistics, fold: int, missing: int) -> bool:
    """Return whether the policy's features leave the span of the fold's features."""
    null = np.linalg.eigh(stats.gram[fold])[1][:, :missing]  # (d, missing)
    log = design.task.log
    if design.task.policy is None:  # a greedy policy may take any logged action in any state
        if not isinstance(log, Log):
            return True
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
