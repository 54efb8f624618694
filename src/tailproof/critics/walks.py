"""Where a policy leads: walks through the transitions of the log, and how far they leave it."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.spatial import cKDTree

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray, order_by
from tailproof.critics.forest import actions_by_contents
from tailproof.critics.task import Target
from tailproof.features import Standardise
from tailproof.log.log import Log

_ROWS = 6_000  # rows to walk through; more make neighbours nearer, and walks slower
_WALKS = 200
_STEPS = 100  # most steps of a walk
_REST = 0.05  # share of the discounted future that a walk leaves out
_NEAREST = 5  # rows among which the next transition is drawn
_FEW_VALUES = 12  # columns with fewer take the next value of a row instead of its change
_OFTEN = 20  # rows with the same next value, and …
_SET = 0.5  # … share of a column's variance among the values before it, if it is set
_LEAF = 64  # rows in a leaf of such a tree: the least time with a few columns
_OWN = 1_000  # rows whose distance to other groups is measured
_COMMON = 0.99  # quantile of these distances, and …
_FAR = 1.5  # … multiple of it beyond which a state is unlike the logged ones
_WIDE = 20  # columns beyond which distances to all rows take less time than a tree of them
_APART = 1e3  # distance of discrete actions, so that the nearest row has the same action


class Visits(NamedTuple):
    """The discounted visits of a policy's walks."""

    unlike: float  # share of them in states unlike the logged ones, beyond that of logged behaviour
    steps: float  # Σ γᵗ over the steps of a walk, in the mean


class Neighbours(NamedTuple):
    """Rows by nearness."""

    rows: FloatArray  # (m, k)
    tree: cKDTree | None  # of the rows; None if they have many columns
    squares: FloatArray  # (m,) the rows' squared distances from 0

    @classmethod
    def of(cls, rows: FloatArray) -> Neighbours:
        """Return some rows by nearness."""
        tree = cKDTree(rows, leafsize=_LEAF) if rows.shape[1] <= _WIDE else None
        return cls(rows, tree, (rows**2).sum(axis=1))

    def nearest(self, points: FloatArray, count: int) -> tuple[FloatArray, IntArray]:
        """Return the distances of points to the nearest rows, and the rows, (w, count) each."""
        if self.tree is not None:
            found = self.tree.query(points, k=range(1, count + 1))
            return np.asarray(found[0]), np.asarray(found[1])
        squares = self.squares - 2 * points @ self.rows.T  # less those of the points
        some = np.argpartition(squares, min(count, len(self.rows) - 1), axis=1)[:, :count]
        exact = np.sqrt(((self.rows[some] - points[:, None]) ** 2).sum(axis=2))
        order = np.lexsort((some, exact), axis=1)
        return np.take_along_axis(exact, order, 1), np.take_along_axis(some, order, 1)


@dataclass(frozen=True, eq=False)
class Moves:
    """The transitions of a log, in an order set by their contents."""

    log: Log
    rows: IntArray  # (m,)
    places: FloatArray  # (m, k) standardised states
    ahead: FloatArray  # (m, k) standardised next states
    actions: FloatArray  # (m, c) coordinates of actions
    order: IntArray  # (A,) discrete actions; empty for continuous ones
    standardise: Standardise
    standardise_actions: Standardise | None
    _logged: dict[Any, Visits] = field(default_factory=dict, repr=False)

    @classmethod
    def of(cls, log: Log) -> Moves:
        """Take the transitions of a log, or evenly spaced ones of a large log."""
        standardise = Standardise.fit(log.states, tame=True)
        places, ahead = standardise(log.states), standardise(log.next_states)
        if log.is_discrete:
            scale, order = None, actions_by_contents(log)
            actions: FloatArray = _APART * np.argsort(order)[log.actions, None].astype(float)
        else:
            given = np.asarray(log.actions, dtype=float).reshape(log.n_transitions, -1)
            scale, order = Standardise.fit(given), np.empty(0, dtype=np.intp)
            actions = np.asarray(scale(given), dtype=float)
        keys = (*actions.T, *ahead.T.round(9), *places.T.round(9))
        rows = order_by(*keys)
        if len(rows) > _ROWS:
            rows = rows[np.linspace(0, len(rows) - 1, _ROWS).astype(np.intp)]
        taken = places[rows], ahead[rows], actions[rows]
        return cls(log, rows, *taken, order, standardise, scale)

    @cached_property
    def states(self) -> Neighbours:
        """The states, by nearness."""
        return Neighbours.of(self.places)

    @cached_property
    def pairs(self) -> Neighbours:
        """States and actions, by nearness: rows with the same discrete action are nearest."""
        return Neighbours.of(np.hstack([self.places, self.actions]))

    @cached_property
    def copied(self) -> BoolArray:
        """Which next values are taken as they are, (m, k), as nearby states do not change alike.

        Those of columns with few values, and those that are set: the same number follows on values
        that vary as all others do (a delivery, the days since a purchase after one).
        """
        found = np.zeros(self.places.shape, dtype=bool)
        for k, (here, ahead) in enumerate(zip(self.places.T, self.ahead.T, strict=True)):
            if len(np.unique(here)) <= _FEW_VALUES:
                found[:, k] = True
                continue
            value, count = np.unique(ahead, return_inverse=True, return_counts=True)[1:]
            own = here - here.mean()
            mean = np.bincount(value, own) / count
            spread = np.bincount(value, (own - mean[value]) ** 2) / count
            found[:, k] = ((count >= _OFTEN) & (spread >= _SET * own.var()))[value]
        return found

    @cached_property
    def limit(self) -> float:
        """The distance to the nearest row beyond which a state is unlike the logged ones."""
        some = np.linspace(0, len(self.rows) - 1, min(_OWN, len(self.rows))).astype(np.intp)
        distance, near = self.states.nearest(self.places[some], min(30, len(self.rows)))
        group = self.log.group_of_episode[self.log.episode_of_row[self.rows]]
        other = group[near] != group[some][:, None]
        own = np.where(other, distance, distance[:, -1:]).min(axis=1)
        return max(_FAR * float(np.quantile(own, _COMMON)), 1e-6)

    def logged(self, starts: FloatArray, gamma: float, seed: int) -> Visits:
        """Walk from the starts by logged actions; the same for all policies."""
        key = gamma, seed, starts.tobytes()
        if key not in self._logged:
            self._logged[key] = self.walk(starts, gamma, np.random.default_rng([seed, 4]), None)
        return self._logged[key]

    def walk(
        self, starts: FloatArray, gamma: float, rng: np.random.Generator, policy: Policy | None
    ) -> Visits:
        """Walk from the starts, (w, k), by the policy, or by logged actions where it is None."""
        here, factor, total, unlike = starts, 1.0, 0.0, 0.0
        for _ in range(_horizon(gamma)):
            k = min(_NEAREST, len(self.rows))
            distance, near = self.states.nearest(here, 1 if policy else k)
            total += factor * len(here)
            unlike += factor * np.count_nonzero(distance[:, 0] > self.limit)
            if policy is not None:
                taken = policy.draw(near[:, 0], rng)
                near = self.pairs.nearest(np.hstack([here, taken]), k)[1]
            row = near[np.arange(len(here)), rng.integers(0, k, len(here))]
            moved = here + self.ahead[row] - self.places[row]
            here = np.where(self.copied[row], self.ahead[row], moved)
            here = here[~self.log.terminated[self.rows[row]]]
            factor *= gamma
            if not len(here) or not factor:
                break
        return Visits(unlike / total, total / len(starts))


class Policy(NamedTuple):
    """A policy's actions in the rows of `Moves`: as it answers in the nearest logged state."""

    actions: AnyArray  # (m, L, c) coordinates
    cumulated: FloatArray  # (m, L) probabilities, added up

    def draw(self, rows: IntArray, rng: np.random.Generator) -> FloatArray:
        """Draw the coordinates of an action in each of some rows, (w, c)."""
        chances = self.cumulated[rows]
        chosen = (rng.random((len(rows), 1)) * chances[:, -1:] >= chances[:, :-1]).sum(axis=1)
        return np.asarray(self.actions[rows, chosen])

    @classmethod
    def of(cls, target: Target, moves: Moves) -> Policy:
        """Ask the policy of a target in the rows of its log."""
        task, log, rows = target.task, target.log, moves.rows
        if log.is_discrete:
            chances = task.action_probabilities[rows][:, moves.order]
            coordinates = _APART * np.arange(len(moves.order), dtype=float)[None, :, None]
            everywhere = np.broadcast_to(coordinates, (*chances.shape, 1))
            return cls(everywhere, np.cumsum(chances, axis=1))
        assert moves.standardise_actions is not None
        rng, places = np.random.default_rng([task.seed, 3]), task.log.table_rows.rows
        drawn, weights = task.acts.draws(
            task.log.states[rows], count=task.draws, rng=rng, rows=places[rows]
        )
        flat = np.asarray(drawn, dtype=float).reshape(weights.size, -1)
        actions = moves.standardise_actions(flat).reshape(*weights.shape, -1)
        return cls(actions, np.cumsum(weights, axis=1))


def _horizon(gamma: float) -> int:
    if gamma == 0:
        return 1
    return _STEPS if gamma == 1 else int(min(np.ceil(np.log(_REST) / np.log(gamma)), _STEPS))


def visits(target: Target, *, seed: int = 0, moves: Moves | None = None) -> Visits:
    """Return where the policy leads, by 200 walks through the log's transitions.

    From a state s, one of the five nearest rows with the policy's action is drawn, and its change of
    the state is added to s: so a walk may leave the log. The policy is asked in the logged state that
    is nearest to s. A state is unlike the logged ones if its nearest row is farther than 1.5 times the
    distance within which 99 % of logged rows have a row of another group. That also happens where
    changes do not add up, so the share of walks by logged actions is subtracted. The `moves` of the
    log may be given, if they are known.
    """
    moves = moves or Moves.of(target.log)
    if not moves.places.shape[1]:
        return Visits(0.0, 0.0)
    starts = moves.standardise(target.first.states)
    starts = starts[order_by(*starts.T.round(9))]
    starts = starts[np.linspace(0, len(starts) - 1, _WALKS).astype(np.intp)]
    logged = moves.logged(starts, target.gamma, seed)
    own = moves.walk(
        starts, target.gamma, np.random.default_rng([seed, 4]), Policy.of(target, moves)
    )
    return own._replace(unlike=max(own.unlike - logged.unlike, 0.0))
