"""What the log did: b̂(a|s) by randomised trees, as fine as held-out episodes allow."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tailproof.algorithms.learners.tree_arrays import TreeArrays, TreeValues, teaching_rows
from tailproof.arrays import FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.partition import shuffled_groups
from tailproof.features import Standardise

_TREES = 30
_SMALLEST = (2, 5, 15, 40)  # rows of a leaf, to choose from
_TAUGHT = 0.7  # of the groups teach while the leaf is chosen
_DOUBT = 0.02  # of uniform in the law that held-out actions are scored with
_REPEATED = 0.5  # of the rows: at most so many states may be distinct to count each by itself


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
    from sklearn.ensemble import ExtraTreesClassifier

    standardise = Standardise.fit(log.states, tame=True)
    z = standardise(log.states)
    inputs = z.astype(np.float32) if z.shape[1] else np.zeros((len(z), 1), dtype=np.float32)
    known = log.propensity if propensities else None
    rng = np.random.default_rng([seed, 7])
    rows = teaching_rows(log, np.arange(log.n_episodes), rng)

    def grow(rows: IntArray, smallest: int) -> TreeValues:
        forest: Any = ExtraTreesClassifier(
            _TREES, min_samples_leaf=smallest, max_features=None, random_state=seed, n_jobs=1
        ).fit(inputs[rows], log.actions[rows])
        trees = TreeArrays.of(forest)
        if known is not None:
            law = _leaf_law(trees, inputs[rows], log.actions[rows], known[rows], log.n_actions)
            return TreeValues(standardise, trees, law, log.n_actions)
        shares = np.concatenate([each.tree_.value[:, 0, :] for each in forest.estimators_])
        values = np.zeros((len(shares), log.n_actions))
        values[:, forest.classes_.astype(int)] = shares / shares.sum(axis=1, keepdims=True)
        return TreeValues(standardise, trees, values, log.n_actions)

    smallest = _SMALLEST[1]
    if exact and len(np.unique(z, axis=0)) <= _REPEATED * len(z):
        smallest = 1
    elif log.n_groups > 1 and z.shape[1]:
        smallest = _choose_leaf(log, known, grow, rng)
    return grow(rows, smallest)


def _choose_leaf(
    log: Log,
    propensity: FloatArray | None,
    grow: Callable[[IntArray, int], TreeValues],
    rng: np.random.Generator,
) -> int:
    order = shuffled_groups(log, rng)
    taught = np.isin(log.group_of_episode, order[: max(1, int(_TAUGHT * log.n_groups))])
    rows = teaching_rows(log, np.flatnonzero(taught), rng)
    held = teaching_rows(log, np.flatnonzero(~taught), rng)
    true = 1.0 if propensity is None else propensity[held]
    # of two rows with propensities most actions are unseen, and what is left to them is a guess
    sizes = _SMALLEST if propensity is None else _SMALLEST[1:]
    losses = []
    for smallest in sizes:
        chance = grow(rows, smallest)(log.states[held])[np.arange(len(held)), log.actions[held]]
        chance = (1 - _DOUBT) * chance + _DOUBT / log.n_actions
        losses.append(-np.mean(true * np.log(chance) + (1 - true) * np.log1p(-chance)))
    return sizes[int(np.argmin(losses))]


def _leaf_law(
    trees: TreeArrays, inputs: FloatArray, actions: IntArray, propensity: FloatArray, n_actions: int
) -> FloatArray:
    """Return b̂(a|leaf) from logged propensities, (nodes, A).

    That of an action is the harmonic mean of its rows' propensities: their number over Σ 1/μ, which
    estimates the number of all rows of the leaf. It is exact where the leaf has one behaviour. What
    is left belongs to the actions that the leaf has not seen, by their share in the log.
    """
    leaves, shape = trees.leaves(inputs), (trees.nodes, n_actions)
    at = (leaves * n_actions + actions[:, None]).ravel()
    size = trees.nodes * n_actions
    count = np.bincount(at, minlength=size).reshape(shape)
    inverse = np.bincount(at, weights=np.repeat(1 / propensity, leaves.shape[1]), minlength=size)
    law = count / np.maximum(inverse.reshape(shape), 1.0)  # 1/μ is never below 1
    unseen = (count == 0) * np.bincount(actions, minlength=n_actions)
    rest = np.maximum(1 - law.sum(axis=1, keepdims=True), 0.0)
    law += rest * unseen / np.maximum(unseen.sum(axis=1, keepdims=True), 1)
    return np.asarray(law / np.maximum(law.sum(axis=1, keepdims=True), 1e-12))
