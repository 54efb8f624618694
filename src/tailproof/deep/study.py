"""The learning study of docs/deep.md: rows against each other on rollouts of known policies.

``python -m tailproof.deep.study --data rollouts --out results.jsonl hopper-mixed --kappa 10`` trains
the vanilla base, the base on clipped rewards, MA, ROOM-VM, P-ROOM-VM, zero-reward training and cloning
on one data set and appends a line of JSON for each seed. Run it again and it goes on where it stopped.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import shutil
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.aggregate import Aggregate, Mean, MeanMinusStd, Median, Quantile
from tailproof.algorithms.task import Task
from tailproof.arrays import AnyArray, FloatArray
from tailproof.deep.bases import IQL, SAC, SQL
from tailproof.deep.environments import ENVIRONMENTS
from tailproof.deep.scores import scorer
from tailproof.deep.settings import Evaluation, Run
from tailproof.errors import FoldError
from tailproof.log import Log
from tailproof.noise import StudentT, add_noise
from tailproof.partition import Folds, Replicate, Split, Whole
from tailproof.spaces import Continuous


def rollout_log(arrays: Mapping[str, AnyArray]) -> Log:
    """Return the log of arrays in D4RL's manner, with the observation that each episode ended in."""
    ends = arrays["terminals"] | arrays["timeouts"]
    following = np.concatenate([arrays["observations"][1:], arrays["observations"][-1:]])
    following[ends] = arrays["final_observations"]
    width = arrays["actions"].shape[1]
    return Log.from_arrays(
        arrays["observations"],
        arrays["actions"],
        arrays["rewards"],
        following,
        episode=np.concatenate([[0], np.cumsum(ends)[:-1]]),
        terminated=arrays["terminals"],
        action_space=Continuous(width, (-1.0,) * width, (1.0,) * width),
    )


def to_return_range(log: Log, width: float = 1000.0) -> Log:
    """Return the log with rewards scaled so that the episodes' returns span `width`, as the paper's."""
    returns = np.add.reduceat(log.rewards, log.starts[:-1])
    return log.with_rewards(log.rewards * (width / (returns.max() - returns.min())))


def prepared(log: Log, *, kappa: float, df: float, seed: int) -> Log:
    """Return the log with scaled rewards and, if κ > 0, Student noise on them."""
    scaled = to_return_range(log)
    return scaled if kappa == 0 else add_noise(scaled, StudentT(df=df, kappa=kappa), seed=seed)


def with_variants(log: Log, clip: float, other: FloatArray | None = None) -> Log:
    """Return the log, its episodes with rewards winsorised at `clip`, then with `other` ones or 0."""
    clipped = np.clip(log.rewards, *np.quantile(log.rewards, [clip, 1 - clip]))
    third = np.zeros_like(clipped) if other is None else other
    episode = np.repeat(np.arange(log.n_episodes), log.lengths)
    return Log.from_arrays(
        np.concatenate([log.states] * 3),
        np.concatenate([log.actions] * 3),
        np.concatenate([log.rewards, clipped, third]),
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
    """Train the base, also on clipped and on zero rewards, and K folds as one stack, then policies."""
    from torch import from_numpy

    from tailproof.deep.critics import NeuralCritics
    from tailproof.deep.extraction import clone, effective_share, policy_weights
    from tailproof.deep.fitting import fit_implicit, member_seeds

    rng = np.random.default_rng(seed)
    task = Task(with_variants(log, clip), 0.99, None, log.first_states)
    members = variant_folds(log, folds, rng)
    seeds = member_seeds(members.count, rng)
    started = time.perf_counter()
    fitted = fit_implicit(base, task, members, backup=None, seeds=seeds)
    trained = time.perf_counter()
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
    _, training = clone(
        base,
        log,
        critics.scaling,
        weights,
        steps=base.policy_steps,
        seed=seed,
        hidden=base.policy_hidden or base.hidden,
    )
    names = ("vanilla", "clipped", "zero-reward", "ma", "room-vm", "p-room-vm", "bc")
    scores = training["score"].values[-10:]  # (evaluations, P)
    return {
        "scores": {name: float(scores[:, k].mean()) for k, name in enumerate(names)},
        "evaluations": {name: scores[:, k].tolist() for k, name in enumerate(names)},
        "effective": {
            name: effective_share(from_numpy(weights[k])) for k, name in enumerate(names)
        },
        "q scale": fitted.training["q scale"].values[-1].tolist(),
        "healthy": critics.alive.tolist(),
        "seconds": [trained - started, time.perf_counter() - trained],
    }


def rank_study(
    clean: Log, noisy: Log, base: IQL | SQL, *, seed: int, folds: int, quantile: float, clip: float
) -> dict[str, Any]:
    """Return how well advantages learned from noisy rewards rank the log's actions; trains no policy.

    The yardstick is r + γV(s') − V(s) with clean rewards and the V that was learned from them, which is
    an advantage without error of its own where the world is deterministic.
    """
    from tailproof.deep.fitting import fit_implicit, member_seeds

    rng = np.random.default_rng(seed)
    task = Task(with_variants(noisy, clip, clean.rewards), 0.99, None, clean.first_states)
    members = variant_folds(noisy, folds, rng)
    seeds = member_seeds(members.count, rng)
    critics: Any = fit_implicit(base, task, members, backup=None, seeds=seeds).critics
    q, v = critics.values(clean.states, clean.actions), critics.state_values(clean.states)  # (K, n)
    after = np.where(clean.terminated, 0.0, 0.99 * critics.state_values(clean.next_states)[2])
    yardstick = _ranks(clean.rewards + after - v[2])

    def agreement(level: float | None, chosen: slice) -> float:
        """Rank with the mean of the members, or with this quantile of them."""
        reduced = [
            each[chosen].mean(axis=0) if level is None else np.quantile(each[chosen], level, axis=0)
            for each in (q, v)
        ]
        return float(np.corrcoef(_ranks(reduced[0] - reduced[1]), yardstick)[0, 1])

    return {
        "scores": {
            "clean": agreement(None, slice(2, 3)),
            "vanilla": agreement(None, slice(0, 1)),
            "clipped": agreement(None, slice(1, 2)),
            "ma": agreement(None, slice(3, None)),
            "room-vm": agreement(0.5, slice(3, None)),
            "p-room-vm": agreement(quantile, slice(3, None)),
        }
    }


def _ranks(values: FloatArray) -> FloatArray:
    return values.argsort().argsort().astype(float)


def clean_study(log: Log, bases: Mapping[str, IQL | SQL], *, seed: int) -> dict[str, Any]:
    """Train each base on the log as it is, and clone the log beside their policies."""
    from tailproof.deep.critics import NeuralCritics
    from tailproof.deep.extraction import clone, policy_weights

    task = Task(log, 0.99, None, log.first_states)
    weights, first = [], next(iter(bases.values()))
    for name, base in bases.items():
        rng = np.random.default_rng(seed)
        saved = base.run.checkpoint
        run = replace(base.run, checkpoint=None if saved is None else f"{saved}/{name}")
        fitted = replace(base, run=run).fit(task, Whole().assign(log, rng), backup=None, rng=rng)
        assert isinstance(fitted.critics, NeuralCritics)
        scaling = fitted.critics.scaling
        weights.append(policy_weights(base.rule(), log, fitted.critics, [Mean()], share=base.share))
    names = [*bases, "bc"]
    _, training = clone(
        first,
        log,
        scaling,
        np.concatenate([*weights, np.ones((1, log.n_transitions))]),
        steps=first.policy_steps,
        seed=seed,
        hidden=first.policy_hidden or first.hidden,
    )
    scores = training["score"].values[-10:]
    return {
        "scores": {name: float(scores[:, k].mean()) for k, name in enumerate(names)},
        "evaluations": {name: scores[:, k].tolist() for k, name in enumerate(names)},
    }


def sac_study(log: Log, base: SAC, *, seed: int, critics: int) -> dict[str, Any]:
    """Train SAC-N and SAC-N (STD) on the same log.

    One that diverges leaves no policy, which is a result too: it has the reason and no scores.
    """
    result: dict[str, Any] = {"scores": {}, "evaluations": {}, "q scale": {}, "diverged": {}}
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
        result["q scale"][name] = training["q scale"].values.mean(axis=1).tolist()
    return result


def main(arguments: list[str] | None = None) -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument("dataset", help="such as hopper-mixed: <data>/<dataset>*.npz")
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--study", choices=("iql", "sql", "sac", "clean", "rank"), default="iql")
    parser.add_argument("--kappa", type=float, default=0.0)
    parser.add_argument("--df", type=float, default=1.0)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--steps", type=int, default=30_000)
    parser.add_argument("--policy-steps", type=int, default=30_000)
    parser.add_argument("--hidden", type=int, nargs="+", default=[128, 128])
    parser.add_argument("--policy-hidden", type=int, nargs="+", default=[128, 128])
    parser.add_argument("--learning-rate", type=float, default=1e-3)
    parser.add_argument("--target-rate", type=float, default=0.02)
    parser.add_argument("--beta", type=float, default=3.0)
    parser.add_argument("--alpha", type=float, default=0.3)
    parser.add_argument("--share", type=float, default=0.7)
    parser.add_argument("--folds", type=int, default=5)
    parser.add_argument("--quantile", type=float, default=0.0)
    parser.add_argument("--episodes", type=int, default=5)
    parser.add_argument("--every", type=int, default=1_000)
    parser.add_argument("--checkpoints", type=Path, help="folder, so that a killed run goes on")
    given = parser.parse_args(arguments)
    path = next(iter(sorted(given.data.glob(f"{given.dataset}*.npz"))))
    with np.load(path) as arrays:
        log = rollout_log(dict(arrays))
    domain = given.dataset.split("-")[0]
    steps = given.steps if given.study == "sac" else given.policy_steps
    run = Run(
        threads=1,
        log_every=given.every,
        evaluation=Evaluation(
            environment=ENVIRONMENTS[domain],
            every=given.every,
            episodes=given.episodes,
            first=steps - 9 * given.every if given.study != "sac" else 0,
            score=scorer(domain),
        ),
    )
    shared: dict[str, Any] = {
        "steps": given.steps,
        "hidden": tuple(given.hidden),
        "learning_rate": given.learning_rate,
        "target_rate": given.target_rate,
        "reward_scale": 1.0,
        "run": run,
    }
    done = {tuple(json.loads(line)["key"]) for line in _lines(given.out)}
    for seed in given.seeds:
        weighing = {"sql": given.alpha, "sac": 0.0}.get(given.study, given.beta)
        key = (
            given.dataset,
            given.study,
            given.kappa,
            seed,
            given.steps,
            given.policy_steps,
            str(given.hidden),
            weighing,
            given.share,
        )
        if key in done:
            continue
        folder = None
        if given.checkpoints is not None:
            folder = given.checkpoints / hashlib.sha256(repr(key).encode()).hexdigest()[:16]
            shared["run"] = replace(run, checkpoint=folder, checkpoint_every=1_000)
        noisy = prepared(log, kappa=given.kappa, df=given.df, seed=1000 + seed)
        if given.study == "sac":
            result = sac_study(noisy, SAC(**shared), seed=seed, critics=10)
        else:
            shared |= {
                "policy_steps": given.policy_steps,
                "policy_hidden": tuple(given.policy_hidden),
                "share": given.share,
            }
            base: IQL | SQL = (
                SQL(alpha=given.alpha, **shared)
                if given.study == "sql"
                else IQL(beta=given.beta, **shared)
            )
            if given.study == "rank":
                result = rank_study(
                    to_return_range(log),
                    noisy,
                    base,
                    seed=seed,
                    folds=given.folds,
                    quantile=given.quantile,
                    clip=0.01,
                )
            elif given.study == "clean":
                automatic = shared | {"reward_scale": "auto"}
                bases: dict[str, IQL | SQL] = {
                    "iql": IQL(beta=given.beta, **automatic),
                    "sql": SQL(alpha=given.alpha, **automatic),
                }
                result = clean_study(log, bases, seed=seed)
            else:
                result = implicit_study(
                    noisy, base, seed=seed, folds=given.folds, quantile=given.quantile
                )
        with given.out.open("a", encoding="utf-8") as file:
            file.write(json.dumps({"key": key, **result}) + "\n")
        if folder is not None:
            shutil.rmtree(folder)


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


if __name__ == "__main__":
    main()
