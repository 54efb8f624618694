"""What the log did: b̂(a|s) by randomised trees, as fine as held-out episodes allow."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from tailproof.algorithms.learners.tree_arrays import TreeArrays, TreeValues
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.partition import shuffled_groups
from tailproof.features import Standardise

_TREES = 30
_SMALLEST = (2, 5, 15, 40)  # rows of a leaf, to choose from
_TAUGHT = 0.7  # of the groups teach while the leaf is chosen
_DOUBT = 0.02  # of uniform in the law that held-out actions are scored with
_REPEATED = 0.5  # of the rows: at most so many states may be distinct to count each by itself
_MOST = 20_000  # rows that teach a forest: more make it slower, not much better


def behaviour_of(task: Task) -> TreeValues:
    """Return the estimated behaviour of the task's log, fitted once for all who ask."""
    found: TreeValues = task.once("behaviour", lambda: fit_behaviour(task.log, seed=task.seed))
    return found


def fit_behaviour(
    log: Log, *, seed: int = 0, exact: bool = False, propensities: bool = True
) -> TreeValues:
    """Return b̂(a|s) as the mean share of each action in the leaves of extremely randomised trees.

    Every column is looked at in every split, because behaviour often depends sharply on few of them.
    The size of the leaves is the one that predicts the actions of held-out episodes best.

    Parameters
    ----------
    exact
        Whether trees are grown until every state has its own leaf, where states repeat: as often in
        each way as the log in this very state. Larger leaves predict better there, and are worse to
        deploy: they smooth over the one cell in which the next action matters.
    propensities
        Whether logged propensities replace the shares; not where episodes were selected.
    """
    standardise = Standardise.fit(log.states, tame=True)
    z = standardise(log.states)
    rng = np.random.default_rng([seed, 7])
    rows = some_rows(log, np.arange(log.n_episodes), rng)
    known = log.propensity if propensities else None
    data = _Rows(standardise, z, log.actions, known, log.n_actions, seed)
    smallest = _SMALLEST[1]
    if exact and len(np.unique(z, axis=0)) <= _REPEATED * len(z):
        smallest = 1
    elif log.n_groups > 1 and z.shape[1]:
        smallest = _choose_leaf(log, data, rng)
    return _grow(data, rows, smallest)


class _Rows(NamedTuple):
    """What trees of the behaviour are grown on."""

    standardise: Standardise
    z: FloatArray  # (n, p)
    actions: IntArray  # (n,)
    propensity: FloatArray | None  # (n,)
    n_actions: int
    seed: int


def _choose_leaf(log: Log, data: _Rows, rng: np.random.Generator) -> int:
    order = shuffled_groups(log, rng)
    taught = np.isin(log.group_of_episode, order[: max(1, int(_TAUGHT * log.n_groups))])
    rows = some_rows(log, np.flatnonzero(taught), rng)
    held = some_rows(log, np.flatnonzero(~taught), rng)
    true = 1.0 if data.propensity is None else data.propensity[held]
    # of two rows with propensities most actions are unseen, and what is left to them is a guess
    sizes = _SMALLEST if data.propensity is None else _SMALLEST[1:]
    losses = []
    for smallest in sizes:
        law = _grow(data, rows, smallest)
        chance = law(log.states[held])[np.arange(len(held)), log.actions[held]]
        chance = (1 - _DOUBT) * chance + _DOUBT / log.n_actions
        losses.append(-np.mean(true * np.log(chance) + (1 - true) * np.log1p(-chance)))
    return sizes[int(np.argmin(losses))]


def _grow(data: _Rows, rows: IntArray, smallest: int) -> TreeValues:
    from sklearn.ensemble import ExtraTreesClassifier

    z, actions = data.z[rows], data.actions[rows]
    inputs = z.astype(np.float32) if z.shape[1] else np.zeros((len(z), 1), dtype=np.float32)
    forest: Any = ExtraTreesClassifier(
        _TREES, min_samples_leaf=smallest, max_features=None, random_state=data.seed, n_jobs=1
    ).fit(inputs, actions)
    trees = TreeArrays.of(forest)
    if data.propensity is not None:
        values = _leaf_law(trees.leaves(inputs), trees.nodes, actions, data.propensity[rows], data)
        return TreeValues(data.standardise, trees, values, data.n_actions)
    shares = np.concatenate([each.tree_.value[:, 0, :] for each in forest.estimators_])
    values = np.zeros((len(shares), data.n_actions))
    values[:, forest.classes_.astype(int)] = shares / shares.sum(axis=1, keepdims=True)
    return TreeValues(data.standardise, trees, values, data.n_actions)


def _leaf_law(
    leaves: IntArray, nodes: int, actions: IntArray, propensity: FloatArray, data: _Rows
) -> FloatArray:
    """Return b̂(a|leaf) from logged propensities, (nodes, A).

    That of an action is the harmonic mean of its rows' propensities: their number over Σ 1/μ, which
    estimates the number of all rows of the leaf. It is exact where the leaf has one behaviour. What
    is left belongs to the actions that the leaf has not seen, by their share in the log.
    """
    at = (leaves * data.n_actions + actions[:, None]).ravel()
    size = nodes * data.n_actions
    count = np.bincount(at, minlength=size).reshape(nodes, -1)
    inverse = np.bincount(at, weights=np.repeat(1 / propensity, leaves.shape[1]), minlength=size)
    law = count / np.maximum(inverse.reshape(nodes, -1), 1.0)  # 1/μ is never below 1
    unseen = (count == 0) * np.bincount(actions, minlength=data.n_actions)
    rest = np.maximum(1 - law.sum(axis=1, keepdims=True), 0.0)
    law += rest * unseen / np.maximum(unseen.sum(axis=1, keepdims=True), 1)
    return np.asarray(law / np.maximum(law.sum(axis=1, keepdims=True), 1e-12))


def some_rows(log: Log, episodes: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the rows of these episodes, or of as many whole ones as are worth their time."""
    rows: IntArray = log.rows(episodes)
    if len(rows) <= _MOST:
        return rows
    shuffled = rng.permutation(episodes)
    enough = int(np.searchsorted(np.cumsum(log.lengths[shuffled]), _MOST)) + 1
    return np.asarray(log.rows(np.sort(shuffled[:enough])))
