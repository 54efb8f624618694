"""Behaviour estimate b̂(a|s) by randomised trees, with leaf size chosen on held-out episodes."""

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
_SMALLEST = (2, 5, 15, 40)  # candidates for the smallest number of rows in a leaf
_TAUGHT = 0.7  # share of the groups to train on while the leaf size is chosen
_DOUBT = 0.02  # share of the uniform distribution mixed in when held-out actions are scored
_REPEATED = 0.5  # `exact` applies if at most this share of the rows are distinct states


def fit_behaviour(
    log: Log, *, seed: int = 0, exact: bool = False, propensities: bool = True
) -> TreeValues:
    """Return b̂(a|s) as the mean share of each action in the leaves of extremely randomised trees.

    Every split considers every column, because behaviour often depends sharply on few of them.
    The leaf size is the one that predicts the actions of held-out episodes best.

    Parameters
    ----------
    exact
        Where states repeat, grow trees until every state has its own leaf, so that b̂ is the action
        frequency in exactly this state. Larger leaves predict better there but are worse to deploy:
        they smooth over single states in which the action matters.
    propensities
        Whether to use logged propensities instead of shares; not valid for selected episodes.
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
    # with two rows per leaf most actions are unseen, and their probability would be a guess
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

    The probability of an action is the harmonic mean of its rows' propensities: their number over
    Σ 1/μ, which estimates the number of all rows of the leaf. It is exact where the behaviour is
    constant in the leaf. The remaining probability goes to the actions unseen in the leaf, in
    proportion to their frequency in the log.
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
