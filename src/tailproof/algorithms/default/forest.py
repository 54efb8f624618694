"""Forest FQE: trees as an averaging operator, and the policy's visits as its dual.

With the trees fixed, Q(s, a) is the mean over trees of the mean of r + γ V(s') in the leaf of (s, a).
That is an average of targets with weights that do not depend on them, so that its fixed point exists,
is unique, and stays within the range of the rewards (Gordon, 1995; Ormoneit and Sen, 2002). Read
backwards, the same averages carry the starting distribution along the log: they give each row the
share of the policy's visits that it stands for, never negative.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, bicgstab

from tailproof.algorithms.default.target import Actions, Pairs, Target, shuffled_groups
from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.features import Standardise

_TREES = 15
_ROUNDS = 2  # trees of reward and change of state first, then of the fitted values
_PARTS = 3
_TAUGHT = 20_000  # rows that teach one forest; more make it slower, not much better
_SETTLED = 1e-8
_DIGITS = 5  # of what trees see: what differs by rounding only must not grow other trees


@dataclass(frozen=True, eq=False)
class Forest:
    """Q(s, a) as the mean of leaf values."""

    inputs: Inputs
    trees: Any
    offset: IntArray  # (T,) of each tree's nodes
    nodes: int
    values: FloatArray  # (nodes,)

    def leaves(self, pairs: Pairs) -> IntArray:
        """Return the leaves of state-action pairs, (P, T)."""
        return _leaves(self.trees, self.offset, self.inputs(pairs))

    def at(self, pairs: Pairs) -> FloatArray:
        """Return Q at state-action pairs, (P,)."""
        return np.asarray(self.values[self.leaves(pairs)].mean(axis=1))

    def under(self, actions: Actions) -> FloatArray:
        """Return E_π Q(s, ·), (n,)."""
        pairs = actions.pairs()
        own = self.at(pairs) * pairs.weights
        return np.bincount(pairs.row, weights=own, minlength=len(actions.states)).astype(float)


@dataclass(frozen=True, eq=False)
class Inputs:
    """What trees see: the standardised state, the action, and how far the policy agrees with it."""

    standardise: Standardise
    n_actions: int | None  # None for continuous ones
    actions: tuple[int, ...] = ()  # the indicators that are seen, by how often each was taken

    @classmethod
    def fit(cls, log: Log) -> Inputs:
        """Return the inputs of this log; the order of columns and labels in a file changes nothing."""
        standardise = Standardise.fit(log.states, tame=True)
        if not log.is_discrete:
            return cls(standardise, None)
        count = np.bincount(log.actions, minlength=log.n_actions)
        ranks = np.unique(log.rewards, return_inverse=True)[1]
        paid = np.bincount(log.actions, ranks, minlength=log.n_actions)
        order = np.lexsort((paid, count))
        seen = order if log.n_actions > 2 else order[:1]  # of two, the other says the same
        return cls(standardise, log.n_actions, tuple(seen.tolist()))

    def __call__(self, pairs: Pairs) -> FloatArray:
        """Return the inputs, (P, p + A + 1) or (P, p + q + 1)."""
        taken: AnyArray = pairs.actions
        if self.n_actions is not None:
            taken = np.eye(self.n_actions)[:, list(self.actions)][taken]
        else:
            taken = np.asarray(taken).reshape(len(pairs.row), -1)
        z = self.standardise(pairs.states)
        return np.column_stack([z, taken, pairs.agreement]).round(_DIGITS).astype(np.float32)


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """What forests that never saw a row's episode say about it.

    Attributes
    ----------
    occupancy
        ω ≥ 0 of each row, (n,): the policy's discounted visits over the log's, of mean Σ γᵗ.
    values, next_values, first_values
        Q(s, a) and V(s') of each row, and V where episodes start.
    lost
        Share of the policy's visits that no logged row stands for.
    """

    occupancy: FloatArray  # (n,)
    values: FloatArray  # (n,)
    next_values: FloatArray  # (n,)
    first_values: FloatArray  # (m,)
    lost: float


def cross_fit_forests(target: Target, rewards: FloatArray, *, seed: int = 0) -> CrossFitted:
    """Fit a forest on each two thirds of the groups of episodes, and ask it about the other third."""
    log, rng = target.log, np.random.default_rng(seed)
    parts = min(_PARTS, log.n_groups)
    part = shuffled_groups(log, seed + 1) % parts  # (E,)
    n, m = log.n_transitions, len(target.first.states)
    part_of_first = part if target.starts_with_episodes else np.arange(m) % parts
    occupancy, values, following = np.empty(n), np.empty(n), np.zeros(n)
    first, lost = np.empty(m), 0.0
    here = logged_pairs(target)
    inputs = Inputs.fit(log)
    for k in range(parts):
        taught = _some_rows(log, np.flatnonzero(part != k) if parts > 1 else np.arange(1), rng)
        forest = grow_forest(target, here, inputs, rewards, taught, seed=seed + k)
        own, starts = log.rows(np.flatnonzero(part == k)), np.flatnonzero(part_of_first == k)
        if len(starts) == 0:
            starts = np.arange(m)
        values[own] = forest.at(_take(here, own))
        following[own] = forest.under(target.next.take(own))
        first[starts] = forest.under(target.first.take(starts))
        occupancy[own], gone = _visits(forest, target, here, own, starts, rng)
        lost += gone * len(own) / n
    return CrossFitted(occupancy, values, following, first, lost)


def logged_pairs(target: Target) -> Pairs:
    """Return the logged state-action pairs, (n,)."""
    log, n = target.log, target.log.n_transitions
    return Pairs(np.arange(n), log.states, log.actions, target.agreement, np.ones(n))


def grow_forest(
    target: Target, here: Pairs, inputs: Inputs, rewards: FloatArray, rows: IntArray, *, seed: int
) -> Forest:
    """Grow trees on some rows and solve for the values of their leaves."""
    from sklearn.ensemble import ExtraTreesRegressor

    log, gamma = target.log, target.gamma
    smallest = int(np.clip(len(rows) // 400, 5, 30))
    seen = inputs(_take(here, rows))
    rows = rows[np.lexsort((*seen.T, rewards[rows]))]  # sums then do not depend on the file's order
    seen = inputs(_take(here, rows))
    following = target.next.take(rows).pairs()
    reward = rewards[rows]
    targets = _first_targets(inputs.standardise, log.states[rows], log.next_states[rows], reward)
    for number in range(_ROUNDS if gamma > 0 else 1):
        trees = ExtraTreesRegressor(
            _TREES,
            min_samples_leaf=smallest,
            max_features=1.0,
            random_state=(seed * _ROUNDS + number) % 2**32,
            n_jobs=1,
        ).fit(seen, _standard(targets if gamma > 0 else reward))
        counts = [each.tree_.node_count for each in trees.estimators_]
        offset, nodes = np.cumsum([0, *counts[:-1]]), sum(counts)
        leaves = _leaves(trees, offset, seen)
        average = _averages(leaves, nodes)
        after = _spreads(
            following, _leaves(trees, offset, inputs(following)), (len(rows), nodes), None
        )
        base = average @ reward
        values = _solve(lambda v, a=average, f=after: v - gamma * (a @ (f @ v)), base, gamma)
        targets = reward + gamma * (after @ values)
    return Forest(inputs, trees, offset, nodes, values)


def _first_targets(
    standardise: Standardise, states: FloatArray, following: FloatArray, rewards: FloatArray
) -> FloatArray:
    """Return rewards and changes of state, standardised: what the first trees are grown on."""
    change = standardise(following) - standardise(states)
    scale = change.std(axis=0)
    both = np.column_stack([_standard(rewards), change / np.where(scale > 0, scale, 1.0)])
    return both if both.shape[1] > 1 else both[:, 0]


def _standard(targets: FloatArray) -> FloatArray:
    """Return targets in standard deviations, rounded: trees then do not split on rounding errors."""
    centred = targets - targets.mean(axis=0)
    scale = centred.std(axis=0)
    return np.asarray((centred / np.where(scale > 0, scale, 1.0)).round(_DIGITS))


def _visits(
    forest: Forest,
    target: Target,
    here: Pairs,
    own: IntArray,
    starts: IntArray,
    rng: np.random.Generator,
) -> tuple[FloatArray, float]:
    """Return the occupancy of held-out rows, of mean Σ γᵗ, and the share that finds no row.

    The mass ℓ of the leaves solves ℓ = ℓ₀ + γ Σ_rows (share of the row in its leaves' mass) · (leaves
    of what follows). On many rows it is solved with some of them and spread over all.
    """
    leaves = forest.leaves(_take(here, own))
    some = slice(None) if len(own) <= _TAUGHT else np.sort(rng.choice(len(own), _TAUGHT, False))
    share = _averages(leaves[some], forest.nodes)  # (nodes, rows): 1 / count in the leaf
    reached = np.asarray(share.sum(axis=1)).ravel() > 0
    pairs = target.first.take(starts).pairs()
    entering = _spreads(pairs, forest.leaves(pairs), (len(starts), forest.nodes), reached)
    after = target.next.take(own[some]).pairs()
    shape = (len(leaves[some]), forest.nodes)
    onward = _spreads(after, forest.leaves(after), shape, reached)
    begin = np.asarray(entering.sum(axis=0)).ravel() / len(starts)
    gamma = target.gamma
    back, rows_of = onward.T.tocsr(), share.T.tocsr()
    mass = _solve(lambda m: m - gamma * (back @ (rows_of @ m)), begin, gamma)
    mass = np.maximum(mass, 0.0)
    row_mass = rows_of @ mass
    lacking = 1 - np.asarray(onward.sum(axis=1)).ravel() / np.maximum(
        np.bincount(after.row, weights=after.weights, minlength=shape[0]), 1e-12
    )
    alive = np.bincount(after.row, minlength=shape[0]) > 0
    gone = 1 - float(begin.sum()) + gamma * float((row_mass * lacking * alive).sum())
    lost = gone / max(gone + float(row_mass.sum()) * max(1 - gamma, 1e-6), 1e-12)
    every = row_mass if isinstance(some, slice) else _averages(leaves, forest.nodes).T @ mass
    return np.asarray(every * len(own)), min(max(lost, 0.0), 1.0)


def _some_rows(log: Any, episodes: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the rows of these episodes, or of as many as are worth their time."""
    rows: IntArray = log.rows(episodes)
    if len(rows) <= _TAUGHT:
        return rows
    shuffled = rng.permutation(episodes)
    enough = np.searchsorted(np.cumsum(log.lengths[shuffled]), _TAUGHT) + 1
    chosen: IntArray = log.rows(np.sort(shuffled[:enough]))
    return chosen[: 2 * _TAUGHT]


def _take(pairs: Pairs, rows: IntArray) -> Pairs:
    return Pairs(
        np.arange(len(rows)),
        pairs.states[rows],
        pairs.actions[rows],
        pairs.agreement[rows],
        pairs.weights[rows],
    )


def _leaves(trees: Any, offset: IntArray, inputs: FloatArray) -> IntArray:
    if len(inputs) == 0:  # all rows of a part may be terminal; scikit-learn refuses to predict none
        return np.empty((0, len(offset)), dtype=np.intp)
    return np.asarray(trees.apply(inputs) + offset)


def _averages(leaves: IntArray, nodes: int) -> Any:
    """Return the matrix that averages rows within each leaf, (nodes, n)."""
    n, trees = leaves.shape
    count = np.bincount(leaves.ravel(), minlength=nodes)
    flat = leaves.ravel()
    rows = np.repeat(np.arange(n), trees)
    return sparse.csr_matrix((1.0 / count[flat], (flat, rows)), shape=(nodes, n))


def _spreads(pairs: Pairs, leaves: IntArray, shape: tuple[int, int], kept: Any) -> Any:
    """Return the matrix from leaf values to E_π over rows, (rows, nodes).

    Where some leaves hold no row (`kept` is false), a pair's weight goes to its other leaves.
    """
    own = np.full(leaves.shape, 1 / leaves.shape[1])
    if kept is not None:
        found = kept[leaves]
        own = found / np.maximum(found.sum(axis=1, keepdims=True), 1)
    weight = (own * pairs.weights[:, None]).ravel()
    rows = np.repeat(pairs.row, leaves.shape[1])
    return sparse.csr_matrix((weight, (rows, leaves.ravel())), shape=shape)


def _solve(apply: Any, right: FloatArray, gamma: float) -> FloatArray:
    """Return x with apply(x) = right, where `apply` is the identity less γ times an average."""
    if gamma == 0 or not right.any():
        return right
    size = len(right)
    start = right / max(1 - gamma, 1e-3)
    operator = LinearOperator((size, size), matvec=apply, dtype=float)
    found, failed = bicgstab(operator, right, x0=start, rtol=_SETTLED, atol=0.0, maxiter=400)
    if failed == 0 and np.isfinite(found).all():
        return np.asarray(found)
    values = start
    for _ in range(2_000):  # the plain iteration always converges, if slowly
        step = right - apply(values)
        values = values + step
        if np.abs(step).max() <= _SETTLED * max(np.abs(values).max(), 1e-300):
            break
    return values
