"""The learning studies of docs/deep.md: methods compared on one log, trained in one stack."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy.stats import spearmanr

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.task import Task
from tailproof.deep.bases import IQL, SQL
from tailproof.deep.data import Scaling
from tailproof.deep.fitting import (
    DeepFitted,
    clone,
    effective_share,
    fit_critics,
    member_seeds,
    policy_weights,
)
from tailproof.errors import FoldError
from tailproof.learners.cloning import Rank, best_episodes
from tailproof.log.folds import Folds, Split
from tailproof.log.log import Log
from tailproof.robust.aggregates import Aggregate, Mean, Median, Quantile

RANKS: tuple[Rank, ...] = ("sum", "median")
_GAMMA = 0.99
_COMPARED = 10_000  # number of rows to compare advantages


def to_return_range(log: Log, width: float = 1000.0) -> Log:
    """Return the log with rewards scaled so that the episodes' returns span `width`, as the paper's."""
    returns = np.add.reduceat(log.rewards, log.starts[:-1])
    return log.with_rewards(log.rewards * (width / (returns.max() - returns.min())))


def with_variants(log: Log, rewards: Sequence[FloatArray]) -> Log:
    """Return one copy of the log's episodes per variant of the rewards, concatenated."""
    episode, copies = log.episode_of_row, len(rewards)
    return Log.from_arrays(
        np.concatenate([log.states] * copies),
        np.concatenate([log.actions] * copies),
        np.concatenate(rewards),
        np.concatenate([log.next_states] * copies),
        episode=np.concatenate([episode + copy * log.n_episodes for copy in range(copies)]),
        terminated=np.concatenate([log.terminated] * copies),
        action_space=log.action_space,
    )


def variant_folds(log: Log, copies: int, folds: int, rng: np.random.Generator) -> Folds:
    """Return folds of `with_variants`: each copy as a whole, then the K parts of the first."""
    parts = Split(folds).assign(log, rng).counts  # (K, episodes)
    whole, width = parts.sum(axis=0), parts.shape[1]
    counts = np.zeros((copies + folds, copies * width), dtype=parts.dtype)
    for copy in range(copies):
        counts[copy, copy * width : (copy + 1) * width] = whole
    counts[copies:, :width] = parts
    return Folds(counts)


def clipped(rewards: FloatArray, share: float) -> FloatArray:
    """Return rewards winsorised at this share on either side."""
    return np.clip(rewards, *np.quantile(rewards, [share, 1 - share]))


def implicit_study(
    log: Log,
    base: IQL | SQL,
    *,
    seed: int,
    folds: int,
    quantile: float,
    clip: float = 0.01,
    baselines: bool = True,
) -> dict[str, Any]:
    """Train the base and K folds as one stack, then policies.

    With `baselines` also the base on clipped and on zero rewards, cloning, and cloning of the best 30 %
    of the episodes by the sum of their rewards and by median × length. Scores are those of all
    evaluations. Methods whose critics diverge have no policy and no score.
    """
    variants, weights = {"vanilla": log.rewards}, {}
    if baselines:
        variants["clipped"] = clipped(log.rewards, clip)
        variants["zero-reward"] = np.zeros(log.n_transitions)
        weights["bc"] = np.ones(log.n_transitions)
    fitted = _critics_of(base, log, variants, folds=folds, seed=seed)
    vanilla = fitted["vanilla"]
    for group, aggregates in _rows(variants, quantile).items():
        members = fitted[group]
        if members is not None:
            every = policy_weights(base, log, members.critics, list(aggregates.values()))
            weights.update(zip(aggregates, every, strict=True))

    def curves(imitated: Log, weights: FloatArray) -> FloatArray:
        """Train policies with these weights, and return the scores along the way, (P, E)."""
        scaling = Scaling.of(imitated, standardise=base.standardise, reward_scale=1.0)
        _, training = clone(base, imitated, scaling, weights, seed=seed)
        return np.asarray(training["score"].values).T

    found: dict[str, FloatArray] = {}
    if weights:  # all critics may have diverged
        found.update(zip(weights, curves(log, np.stack(list(weights.values()))), strict=True))
    for rank in RANKS if baselines else ():
        best = log.take(best_episodes(log, top=0.3, rank=rank).best)
        found[f"percent-{rank}"] = curves(best, np.ones((1, best.n_transitions)))[0]
    measured = ("time constants", "mean value", "logged return", "pessimism")
    return {
        "scores": {name: curve.tolist() for name, curve in found.items()},
        "worth": {name: effective_share(torch.from_numpy(each)) for name, each in weights.items()},
        "critics": {
            name: float(vanilla.training[name].values[-1, 0]) for name in measured if vanilla
        },
    }


def advantage_study(
    log: Log, clean: Log, base: IQL | SQL, *, seed: int, folds: int, quantile: float
) -> dict[str, float]:
    """Return the rank correlation of each method's Q − V with the noise-free advantages.

    These are r + γV(s') − V(s) of rewards and critics without noise; in a deterministic world they are
    exact up to errors of V. ``"clean"`` is the correlation of these critics' own Q − V, an approximate
    upper limit. Methods whose critics diverge are missing.
    """
    variants = {
        "vanilla": log.rewards,
        "clipped": clipped(log.rewards, 0.01),
        "clean": clean.rewards,
    }
    fitted = _critics_of(base, log, variants, folds=folds, seed=seed)
    reference = fitted["clean"]
    if reference is None:
        return {}
    rows = np.linspace(0, clean.n_transitions - 1, _COMPARED).astype(int)
    states, actions = clean.states[rows], clean.actions[rows]
    critics = reference.critics
    carried = np.where(clean.terminated[rows], 0.0, _GAMMA)
    true = (
        clean.rewards[rows]
        + carried * critics.state_values(clean.next_states[rows])[0]
        - critics.state_values(states)[0]
    )
    found = {}
    for group, aggregates in _rows(variants, quantile).items():
        fit = fitted[group]
        if fit is None:
            continue
        q, v = fit.critics.values(states, actions), fit.critics.state_values(states)
        for name, aggregate in aggregates.items():
            advantage = aggregate(q) - aggregate(v)
            found[name] = float(spearmanr(advantage, true).statistic)
    return found


def _rows(variants: Iterable[str], quantile: float) -> dict[str, dict[str, Aggregate]]:
    """Return the policies taken from each group of members, and how each combines its members."""
    found: dict[str, dict[str, Aggregate]] = {name: {name: Mean()} for name in variants}
    found["folds"] = {"ma": Mean(), "room-vm": Median(), "p-room-vm": Quantile(quantile)}
    return found


def _critics_of(
    base: IQL | SQL, log: Log, variants: Mapping[str, FloatArray], *, folds: int, seed: int
) -> dict[str, DeepFitted | None]:
    """Train one member per variant of the rewards, and K folds of the first variant, as one stack.

    If half of the stack diverges, each group is trained separately, with the same result, because a
    member's draws depend only on its own seed. Diverged members of a group are left out; a group that
    lost half of its members is None.
    """
    rng = np.random.default_rng(seed)
    task = Task(with_variants(log, list(variants.values())), _GAMMA, None, log.first_states)
    members = variant_folds(log, len(variants), folds, rng)
    seeds = np.array(member_seeds(members.count, rng))
    parts = np.split(np.arange(members.count), range(1, len(variants) + 1))
    groups = dict(zip([*variants, "folds"], parts, strict=True))

    def fit(settings: IQL | SQL, chosen: IntArray) -> DeepFitted | None:
        part, own = members.subset(chosen), seeds[chosen].tolist()
        try:
            return fit_critics(settings, task, part, backup=None, seeds=own)
        except FoldError:
            return None

    together = fit(base, np.arange(members.count))
    if together is None:
        alone = replace(base, run=replace(base.run, checkpoint=None))  # saved are other members
        return {name: fit(alone, chosen) for name, chosen in groups.items()}
    found: dict[str, DeepFitted | None] = {}
    for name, chosen in groups.items():
        alive = chosen[together.critics.healthy()[chosen]]
        kept = 2 * len(alive) > len(chosen)
        found[name] = replace(together, critics=together.critics.subset(alive)) if kept else None
    return found
