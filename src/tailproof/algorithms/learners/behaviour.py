"""What the log did: b̂(a|s) by randomised trees, as fine as held-out episodes allow."""

from __future__ import annotations

from typing import Any

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
_MOST = 20_000  # rows that teach a forest: more make it slower, not much better


def behaviour_of(task: Task) -> TreeValues:
    """Return the estimated behaviour of the task's log, fitted once for all who ask."""
    if "behaviour" not in task.known:
        task.known["behaviour"] = fit_behaviour(task.log, seed=task.seed)
    found: TreeValues = task.known["behaviour"]
    return found


def fit_behaviour(log: Log, *, seed: int = 0) -> TreeValues:
    """Return b̂(a|s) as the mean share of each action in the leaves of extremely randomised trees.

    Every column is looked at in every split, because behaviour often depends sharply on few of them.
    The size of the leaves is the one whose law makes the actions of held-out episodes likeliest.
    """
    standardise = Standardise.fit(log.states, tame=True)
    z = standardise(log.states)
    rng = np.random.default_rng([seed, 7])
    rows = some_rows(log, np.arange(log.n_episodes), rng)
    smallest = _SMALLEST[1]
    if log.n_groups > 1 and z.shape[1]:
        smallest = _choose_leaf(log, standardise, z, rng, seed)
    return _grow(standardise, z[rows], log.actions[rows], log.n_actions, smallest, seed)


def _choose_leaf(
    log: Log, standardise: Standardise, z: FloatArray, rng: np.random.Generator, seed: int
) -> int:
    order = shuffled_groups(log, rng)
    taught = np.isin(log.group_of_episode, order[: max(1, int(_TAUGHT * log.n_groups))])
    rows = some_rows(log, np.flatnonzero(taught), rng)
    held = some_rows(log, np.flatnonzero(~taught), rng)
    losses = []
    for smallest in _SMALLEST:
        law = _grow(standardise, z[rows], log.actions[rows], log.n_actions, smallest, seed)
        chance = law(log.states[held])[np.arange(len(held)), log.actions[held]]
        losses.append(-np.log((1 - _DOUBT) * chance + _DOUBT / log.n_actions).mean())
    return _SMALLEST[int(np.argmin(losses))]


def _grow(
    standardise: Standardise,
    z: FloatArray,
    actions: IntArray,
    n_actions: int,
    smallest: int,
    seed: int,
) -> TreeValues:
    from sklearn.ensemble import ExtraTreesClassifier

    inputs = z.astype(np.float32) if z.shape[1] else np.zeros((len(z), 1), dtype=np.float32)
    forest: Any = ExtraTreesClassifier(
        _TREES, min_samples_leaf=smallest, max_features=None, random_state=seed, n_jobs=1
    ).fit(inputs, actions)
    shares = np.concatenate([each.tree_.value[:, 0, :] for each in forest.estimators_])
    values = np.zeros((len(shares), n_actions))
    values[:, forest.classes_.astype(int)] = shares / shares.sum(axis=1, keepdims=True)
    return TreeValues(standardise, TreeArrays.of(forest), values, n_actions)


def some_rows(log: Log, episodes: IntArray, rng: np.random.Generator) -> IntArray:
    """Return the rows of these episodes, or of as many whole ones as are worth their time."""
    rows: IntArray = log.rows(episodes)
    if len(rows) <= _MOST:
        return rows
    shuffled = rng.permutation(episodes)
    enough = int(np.searchsorted(np.cumsum(log.lengths[shuffled]), _MOST)) + 1
    return np.asarray(log.rows(np.sort(shuffled[:enough])))
