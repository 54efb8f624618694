"""The learning studies of docs/deep.md: rows against each other on one log, trained side by side."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from tailproof.algorithms.learners.ranking import Rank, best_episodes
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.data.partition import Folds, Replicate, Split
from tailproof.deep.actor_bases import SAC
from tailproof.deep.bases import IQL, SQL
from tailproof.ensemble.aggregate import Aggregate, Mean, MeanMinusStd, Median, Quantile
from tailproof.errors import FoldError
from tailproof.noise import StudentT, add_noise

RANKS: tuple[Rank, ...] = ("sum", "median")


def to_return_range(log: Log, width: float = 1000.0) -> Log:
    """Return the log with rewards scaled so that the episodes' returns span `width`, as the paper's."""
    returns = np.add.reduceat(log.rewards, log.starts[:-1])
    return log.with_rewards(log.rewards * (width / (returns.max() - returns.min())))


def prepared(log: Log, *, kappa: float, df: float, seed: int) -> Log:
    """Return the log with scaled rewards and, if κ > 0, Student noise on them."""
    scaled = to_return_range(log)
    return scaled if kappa == 0 else add_noise(scaled, StudentT(df=df, kappa=kappa), seed=seed)


def with_variants(log: Log, clip: float) -> Log:
    """Return the log, then its episodes with rewards winsorised at `clip`, then with rewards of 0."""
    clipped = np.clip(log.rewards, *np.quantile(log.rewards, [clip, 1 - clip]))
    episode = log.episode_of_row
    return Log.from_arrays(
        np.concatenate([log.states] * 3),
        np.concatenate([log.actions] * 3),
        np.concatenate([log.rewards, clipped, np.zeros_like(clipped)]),
        np.concatenate([log.next_states] * 3),
        episode=np.concatenate([episode + copy * log.n_episodes for copy in range(3)]),
        terminated=np.concatenate([log.terminated] * 3),
        action_space=log.action_space,
    )


def variant_folds(log: Log, folds: int, rng: np.random.Generator) -> Folds:
    """Return folds of `with_variants`: each copy as a whole, then the K parts of the first."""
    parts = Split(folds).assign(log, rng).counts  # (K, episodes)
    whole, width = parts.sum(axis=0), parts.shape[1]
    counts = np.zeros((3 + folds, 3 * width), dtype=parts.dtype)
    for copy in range(3):
        counts[copy, copy * width : (copy + 1) * width] = whole
    counts[3:, :width] = parts
    return Folds(counts)


def implicit_study(
    log: Log, base: IQL | SQL, *, seed: int, folds: int, quantile: float, clip: float = 0.01
) -> dict[str, Any]:
    """Train the base, also on clipped and on zero rewards, and K folds as one stack, then policies.

    Beside them stand cloning, and cloning of the best 30 % of the episodes by the sum of their rewards
    and by median × length.
    """
    from tailproof.deep.critics import NeuralCritics
    from tailproof.deep.extraction import clone, policy_weights
    from tailproof.deep.fitting import fit_implicit, member_seeds

    rng = np.random.default_rng(seed)
    task = Task(with_variants(log, clip), 0.99, None, log.first_states)
    members = variant_folds(log, folds, rng)
    seeds = member_seeds(members.count, rng)
    fitted = fit_implicit(base, task, members, backup=None, seeds=seeds)
    critics = fitted.critics
    assert isinstance(critics, NeuralCritics)
    asked: list[tuple[list[int], list[Aggregate]]] = [([k], [Mean()]) for k in range(3)]
    asked.append((list(range(3, folds + 3)), [Mean(), Median(), Quantile(quantile)]))
    weights = np.concatenate(
        [
            policy_weights(
                base.rule(), log, critics.subset(np.array(chosen)), aggregates, share=base.share
            )
            for chosen, aggregates in asked
        ]
        + [np.ones((1, log.n_transitions))]
    )

    def scores(imitated: Log, weights: FloatArray) -> FloatArray:
        """Train policies of these weights, and return their scores, (evaluations, P)."""
        hidden = base.policy_hidden or base.hidden
        steps = base.policy_steps
        _, training = clone(
            base, imitated, critics.scaling, weights, steps=steps, seed=seed, hidden=hidden
        )
        return training["score"].values

    found = [scores(log, weights)]
    for rank in RANKS:
        best = log.take(best_episodes(log, top=0.3, rank=rank).best)
        found.append(scores(best, np.ones((1, best.n_transitions))))
    names = ("vanilla", "clipped", "zero-reward", "ma", "room-vm", "p-room-vm", "bc")
    evaluations = np.concatenate(found, axis=1)
    history, vanilla = fitted.training, 0
    return {
        "evaluations": {
            name: evaluations[:, k].tolist()
            for k, name in enumerate((*names, *(f"percent-{rank}" for rank in RANKS)))
        },
        "time constants": float(history["time constants"].values[-1, 0]),
        "value": float(history["mean value"].values[-1, vanilla]),
        "logged return": float(history["logged return"].values[-1, vanilla]),
    }


def sac_study(log: Log, base: SAC, *, seed: int, critics: int) -> dict[str, Any]:
    """Train SAC-N and SAC-N (STD) on the same log.

    One that diverges leaves no policy, which is a result too: it has the reason and no scores.
    """
    result: dict[str, Any] = {"scores": {}, "evaluations": {}, "q scale": {}, "diverged": {}}
    result["time constants"] = {}
    task = Task(log, 0.99, None, log.first_states)
    for name, aggregate in (("sac-n", Quantile(0.0)), ("sac-n-std", MeanMinusStd(2.0))):
        rng = np.random.default_rng(seed)
        folds = Replicate(critics).assign(log, rng)
        run, saved = base.run, base.run.checkpoint
        own = replace(
            base, run=replace(run, checkpoint=None if saved is None else f"{saved}/{name}")
        )
        try:
            training = own.fit(task, folds, backup=aggregate, rng=rng).training
        except FoldError as error:
            result["diverged"][name] = str(error)
            continue
        scores = training["score"].values[:, 0]
        result["scores"][name] = float(scores[-10:].mean())
        result["evaluations"][name] = scores.tolist()
        result["time constants"][name] = training.convergence.time_constants
        result["q scale"][name] = training["q scale"].values.mean(axis=1).tolist()
    return result
