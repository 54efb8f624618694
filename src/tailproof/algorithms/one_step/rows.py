"""A one-step log as arrays in an order that depends on the contents, not on the file."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailproof.algorithms.default.target import place_of_group
from tailproof.algorithms.one_step.observations import Observations
from tailproof.algorithms.task import Task
from tailproof.arrays import BoolArray, FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.partition import label_hash
from tailproof.data.spaces import ActionSpace

FOLDS = 5  # of every cross-fit
_MOST_COLUMNS = 300  # most state columns; those dominated by one value are dropped first


@dataclass(frozen=True, eq=False)
class OneStepRows:
    """The input of the estimators for one-step logs.

    Rows, columns and actions are ordered by their ranks: shuffling the file, swapping columns,
    relabelling actions or changing a unit gives the same numbers.
    """

    states: FloatArray  # (n, d) standardised, without constant and repeated columns
    binary: BoolArray  # (d,) which columns have two values
    actions: IntArray  # (n,)
    rewards: FloatArray  # (n,)
    propensity: FloatArray | None  # (n,) if it was logged
    policy: FloatArray  # (n, A) π(a | s)
    observations: Observations  # the independent observation of each row: its group, or itself
    fold: IntArray  # (n,) the fold in which each row is held out; observations stay whole
    space: ActionSpace  # of the log
    codes: IntArray  # (A,) the log's code of each action
    order: IntArray  # (n,) the position of each row in the log

    @property
    def count(self) -> int:
        """Number of rows, n."""
        return len(self.rewards)

    @property
    def n_actions(self) -> int:
        """Number of actions, A."""
        return int(self.policy.shape[1])

    def taken(self, table: FloatArray) -> FloatArray:
        """Return the entries of a table (n, A) at the logged actions, (n,)."""
        return np.asarray(table[np.arange(self.count), self.actions])


def is_one_step(task: Task) -> bool:
    """Return whether the estimators for one-step logs apply: discrete actions, logged starts."""
    log = task.log
    if not (isinstance(log, Log) and log.is_bandit and log.is_discrete):
        return False
    return task.initial_states is None or np.array_equal(task.initial_states, log.states)


def canonical_rows(task: Task, rng: np.random.Generator) -> OneStepRows:
    """Return the rows of a one-step log in an order that depends only on contents and seed."""
    log: Log = task.log
    key = int(rng.integers(2**63))
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
    unit = np.arange(len(order)) if log.group_ids is None else place_of_group(log, key)[order]
    return OneStepRows(
        states=states[order],
        binary=np.array([len(np.unique(column)) == 2 for column in ranked.T], dtype=bool),
        actions=relabelled[order],
        rewards=log.rewards[order],
        propensity=None if log.propensity is None else log.propensity[order],
        policy=task.action_probabilities[np.ix_(order, action_order)],
        observations=Observations(unit, "row" if log.group_ids is None else "group"),
        fold=unit % FOLDS,
        space=log.action_space,
        codes=action_order,
        order=order,
    )


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
