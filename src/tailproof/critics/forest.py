"""Forest FQE: trees as an averaging operator, and the policy's occupancy from its transpose.

With the trees fixed, Q(s, a) is the mean over trees of the mean of r + γ V(s') in the leaf of (s, a).
That is an average of targets with weights that do not depend on them, so that its fixed point exists,
is unique, and stays within the range of the rewards (Gordon, 1995; Ormoneit and Sen, 2002). The
transposed averages propagate the starting distribution through the log and give each row a
non-negative share of the policy's visits.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
from scipy import sparse
from scipy.sparse.linalg import LinearOperator, bicgstab

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray, order_by
from tailproof.critics.task import Pairs, PolicyActions, Target
from tailproof.critics.trees import TreeArrays, averages, grown, training_rows
from tailproof.features import Standardise
from tailproof.log.horizon import leading_columns
from tailproof.log.log import Log
from tailproof.rules import RULES

_TREES = 15
_ROUNDS = 2  # the first trees fit rewards and state changes, the second the fitted values
_PARTS = 3
_MOST_ROWS = 20_000  # training rows of one forest; more rows make it slower, not much better
_SETTLED = 1e-8
_MIXTURES = 8  # of the state changes that the first trees are grown on, if there are many
_DIGITS = 5  # decimals of the inputs and targets, so that rounding errors do not change the trees


@dataclass(frozen=True, eq=False)
class Forest:
    """Q(s, a) as the mean of leaf values."""

    inputs: Inputs
    trees: TreeArrays
    values: FloatArray = field(default_factory=lambda: np.empty(0))  # (nodes,)

    def leaves(self, pairs: Pairs) -> IntArray:
        """Return the leaves of state-action pairs, (P, T)."""
        return self.trees.leaves(self.inputs(pairs))

    def at(self, pairs: Pairs) -> FloatArray:
        """Return Q at state-action pairs, (P,)."""
        return np.asarray(self.values[self.leaves(pairs)].mean(axis=1))

    def under(self, actions: PolicyActions) -> FloatArray:
        """Return E_π Q(s, ·), (n,)."""
        pairs = actions.pairs()
        own = self.at(pairs) * pairs.weights
        return np.bincount(pairs.row, weights=own, minlength=len(actions.states)).astype(float)

    def averages(self, leaves: IntArray) -> sparse.csr_matrix:
        """Return the matrix that averages rows within each leaf, (nodes, n)."""
        return averages(leaves, self.trees.nodes)

    def spreads(self, pairs: Pairs, rows: int, kept: BoolArray | None = None) -> sparse.csr_matrix:
        """Return the matrix from leaf values to E_π over rows, (rows, nodes).

        Where some leaves hold no row (`kept` is false), a pair's weight goes to its other leaves.
        """
        leaves = self.leaves(pairs)
        own = np.full(leaves.shape, 1 / leaves.shape[1])
        if kept is not None:
            found = kept[leaves]
            own = found / np.maximum(found.sum(axis=1, keepdims=True), 1)
        weight = (own * pairs.weights[:, None]).ravel()
        places = np.repeat(pairs.row, leaves.shape[1]), leaves.ravel()
        return sparse.csr_matrix((weight, places), shape=(rows, self.trees.nodes))


@dataclass(frozen=True, eq=False)
class Inputs:
    """The trees' inputs: standardised state, action, and the policy's agreement with the action."""

    standardise: Standardise
    n_actions: int | None  # None for continuous ones
    actions: tuple[int, ...] = ()  # actions that have an indicator, rarest first
    columns: tuple[int, ...] | None = None  # those of the inputs that are kept; None for all

    @classmethod
    def fit(cls, log: Log) -> Inputs:
        """Return the inputs of this log; they do not depend on the order of columns or labels."""
        standardise = Standardise.fit(log.states, tame=True)
        if not log.is_discrete:
            return cls(standardise, None)
        order = actions_by_contents(log)
        # of two actions, one indicator suffices; of very many, the rarest fill no leaf
        seen = order[-RULES.tree_columns :] if log.n_actions > 2 else order[:1]
        return cls(standardise, log.n_actions, tuple(seen.tolist()))

    def __call__(self, pairs: Pairs) -> FloatArray:
        """Return the inputs, (P, p + A + 1) or (P, p + q + 1)."""
        taken: AnyArray = pairs.actions
        if self.n_actions is not None:
            taken = taken[:, None] == np.array(self.actions)
        z = self.standardise(pairs.states)
        found = np.column_stack([z, taken, pairs.agreement])
        found = found if self.columns is None else found[:, list(self.columns)]
        return found.round(_DIGITS).astype(np.float32)


def actions_by_contents(log: Log) -> IntArray:
    """Return the discrete actions, rarest first, in an order that does not depend on labels, (A,)."""
    count = np.bincount(log.actions, minlength=log.n_actions)
    ranks = np.unique(log.rewards, return_inverse=True)[1]
    paid = np.bincount(log.actions, ranks, minlength=log.n_actions)
    return np.lexsort((paid, count))


@dataclass(frozen=True, eq=False)
class CrossFitted:
    """Predictions for each row by a forest that was fitted without the row's episode."""

    occupancy: FloatArray  # (n,) ω ≥ 0: the policy's discounted visits over the log's, of mean Σ γᵗ
    values: FloatArray  # (n,) Q(s, a)
    next_values: FloatArray  # (n,) V(s')
    first_values: FloatArray  # (m,) V(s₀)
    lost: float  # share of the policy's visits with no logged row in the same leaf

    def residuals(self, rewards: FloatArray, gamma: float) -> FloatArray:
        """Return the Bellman residuals r + γ V(s') − Q(s, a), (n,)."""
        return np.asarray(rewards + gamma * self.next_values - self.values)


def cross_fit_forests(target: Target, rewards: FloatArray, *, seed: int = 0) -> CrossFitted:
    """Fit a forest on each two thirds of the groups of episodes, and evaluate it on the other third."""
    log, rng = target.log, np.random.default_rng(seed)
    parts = min(_PARTS, log.n_groups)
    part, part_of_first = target.split(seed + 1, parts)
    n, m = log.n_transitions, len(target.first.states)
    occupancy, values, following = np.empty(n), np.empty(n), np.zeros(n)
    first, lost = np.empty(m), 0.0
    inputs = Inputs.fit(log)
    for k in range(parts):
        train = training_rows(log, np.flatnonzero(part != k) if parts > 1 else np.arange(1), rng)
        forest = _grown(target, inputs, rewards, train[: 2 * _MOST_ROWS], seed=seed + k)
        own, starts = log.rows(np.flatnonzero(part == k)), np.flatnonzero(part_of_first == k)
        if len(starts) == 0:
            starts = np.arange(m)
        values[own] = forest.at(_logged_pairs(target, own))
        following[own] = forest.under(target.next.take(own))
        first[starts] = forest.under(target.first.take(starts))
        occupancy[own], gone = _visits(forest, target, own, starts, rng)
        lost += gone * len(own) / n
    return CrossFitted(occupancy, values, following, first, lost)


def _logged_pairs(target: Target, rows: IntArray) -> Pairs:
    log, count = target.log, len(rows)
    logged = log.states[rows], log.actions[rows], target.agreement[rows]
    return Pairs(np.arange(count), *logged, np.ones(count))


def _grown(
    target: Target, inputs: Inputs, rewards: FloatArray, rows: IntArray, *, seed: int
) -> Forest:
    """Grow trees on some rows and solve for the values of their leaves."""
    log, gamma = target.log, target.gamma
    seen = inputs(_logged_pairs(target, rows))
    order = order_by(*seen.T, rewards[rows])  # sums then do not depend on the file's order
    rows, seen = rows[order], seen[order]
    here, following = _logged_pairs(target, rows), target.next.take(rows).pairs()
    reward = rewards[rows]
    change = inputs.standardise(log.next_states[rows]) - inputs.standardise(log.states[rows])
    # the first trees are grown on rewards and changes of state
    targets = np.column_stack([_standard(reward), _scaled(_mixed(change, seed))])
    targets = targets if targets.shape[1] > 1 else targets[:, 0]
    smallest = int(np.clip(len(rows) // 400, 5, 30))
    if seen.shape[1] > RULES.tree_columns:
        kept = leading_columns(seen, _standard(targets), smallest=smallest)
        inputs, seen = replace(inputs, columns=tuple(kept.tolist())), seen[:, kept]
    for number in range(_ROUNDS if gamma > 0 else 1):
        trees = grown(
            seen,
            _standard(targets if gamma > 0 else reward),
            trees=_TREES,
            smallest=smallest,
            seed=(seed * _ROUNDS + number) % 2**32,
        )
        forest = Forest(inputs, trees)
        average = forest.averages(forest.leaves(here))
        after = forest.spreads(following, len(rows))
        values = _solve(
            lambda v, a=average, f=after: v - gamma * (a @ (f @ v)), average @ reward, gamma
        )
        targets = reward + gamma * (after @ values)
    return replace(forest, values=values)


def _mixed(columns: FloatArray, seed: int) -> FloatArray:
    """Return the columns, or a few random mixtures of them if there are many."""
    count = columns.shape[1]
    if count <= RULES.tree_columns:
        return columns
    mixtures = np.random.default_rng([seed, count]).standard_normal((count, _MIXTURES))
    return np.asarray(_scaled(columns) @ mixtures)


def _scaled(columns: FloatArray) -> FloatArray:
    scale = columns.std(axis=0)
    return np.asarray(columns / np.where(scale > 0, scale, 1.0))


def _standard(targets: FloatArray) -> FloatArray:
    """Return targets standardised and rounded, so that trees do not split on rounding errors."""
    return _scaled(targets - targets.mean(axis=0)).round(_DIGITS)


def _visits(
    forest: Forest, target: Target, own: IntArray, starts: IntArray, rng: np.random.Generator
) -> tuple[FloatArray, float]:
    """Return the occupancy of held-out rows, of mean Σ γᵗ, and the share of visits without a row.

    The mass ℓ of the leaves solves ℓ = ℓ₀ + γ Σ_rows (share of the row in its leaves' mass) · (leaves
    of the next state). With many rows, ℓ is solved on a sample of them and then divided over all.
    """
    leaves, gamma = forest.leaves(_logged_pairs(target, own)), target.gamma
    some = (
        slice(None) if len(own) <= _MOST_ROWS else np.sort(rng.choice(len(own), _MOST_ROWS, False))
    )
    share = forest.averages(leaves[some])  # (nodes, rows): 1 / count in the leaf
    reached = np.asarray(share.sum(axis=1)).ravel() > 0
    entering = forest.spreads(target.first.take(starts).pairs(), len(starts), reached)
    after, count = target.next.take(own[some]).pairs(), len(own[some])
    onward = forest.spreads(after, count, reached)
    begin = np.asarray(entering.sum(axis=0)).ravel() / len(starts)
    back, rows_of = onward.T.tocsr(), share.T.tocsr()
    mass = _solve(lambda m: m - gamma * (back @ (rows_of @ m)), begin, gamma)
    mass = np.maximum(mass, 0.0)
    row_mass = rows_of @ mass
    lacking = 1 - np.asarray(onward.sum(axis=1)).ravel() / np.maximum(
        np.bincount(after.row, weights=after.weights, minlength=count), 1e-12
    )
    alive = np.bincount(after.row, minlength=count) > 0
    gone = 1 - float(begin.sum()) + gamma * float((row_mass * lacking * alive).sum())
    lost = gone / max(gone + float(row_mass.sum()) * max(1 - gamma, 1e-6), 1e-12)
    every = row_mass if isinstance(some, slice) else forest.averages(leaves).T @ mass
    return np.asarray(every * len(own)), min(max(lost, 0.0), 1.0)


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
