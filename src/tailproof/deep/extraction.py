"""From critics to a policy: weighted imitation of the whole log."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tailproof.algorithms.base import Fitted
from tailproof.algorithms.learners.ranking import imitated_episodes
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.data.partition import Folds
from tailproof.deep.checkpoint import fingerprint
from tailproof.deep.cloning import CloningLearner
from tailproof.deep.critics import NeuralCritics, NeuralPolicy, split_policies
from tailproof.deep.data import Draws, Scaling, Table
from tailproof.deep.environments import play
from tailproof.deep.history import History, Measurements
from tailproof.deep.implicit import Rule
from tailproof.deep.networks import Shape, Stack
from tailproof.deep.reductions import reduce
from tailproof.deep.settings import DeepSettings, Run
from tailproof.deep.train import train
from tailproof.ensemble.aggregate import Aggregate
from tailproof.errors import MethodError

if TYPE_CHECKING:
    from tailproof.deep.bases import BehaviourCloning, Implicit


@dataclass(frozen=True)
class DeepFitted(Fitted):
    """Critics, what training measured, and the policy where it was trained with them."""

    training: History = field(default_factory=History)
    policy: NeuralPolicy | None = None


@dataclass(frozen=True)
class Extracted:
    """A policy taken from critics, and what its training measured."""

    policy: NeuralPolicy
    training: History


def policy_weights(
    rule: Rule,
    log: Log,
    critics: NeuralCritics,
    aggregates: Sequence[Aggregate],
    *,
    share: float,
) -> FloatArray:
    """Return the weight of each transition, from aggregate_k Q_k(s, a) − aggregate_k V_k(s), (P, n)."""
    scale = critics.scaling.reward_scale
    q = torch.from_numpy(critics.values(log.states, log.actions) * scale)  # (K, n)
    v = torch.from_numpy(critics.state_values(log.states) * scale)
    advantages = [reduce(each, q) - reduce(each, v) for each in aggregates]
    return np.stack([spread_weights(rule, each, share).numpy() for each in advantages])


def spread_weights(rule: Rule, advantage: Tensor, share: float) -> Tensor:
    """Return weights (n,) of advantages, shrunk by one factor until they are worth `share` of the log.

    The factor is 1 where it can be; an advantage of 0 weighs all alike and is worth the whole log.
    """
    weights = rule.weight(advantage)
    if effective_share(weights) >= share:
        return weights
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        enough = effective_share(rule.weight(advantage * middle)) >= share
        low, high = (middle, high) if enough else (low, middle)
    return rule.weight(advantage * low)


def effective_share(weights: Tensor) -> float:
    """Return (Σw)² / nΣw²: 1 for even weights, 1/n for a single one, 0 for none."""
    total = float(weights.square().sum())
    return float(weights.sum()) ** 2 / (len(weights) * total) if total > 0 else 0.0


def clone(
    settings: DeepSettings,
    log: Log,
    scaling: Scaling,
    weights: FloatArray,
    *,
    steps: int,
    seed: int,
    hidden: tuple[int, ...],
) -> tuple[Sequence[NeuralPolicy], History]:
    """Train a policy for each row of weights (P, n) by weighted imitation of the log.

    Policies of other weights save themselves in another folder, so that critics saved once serve
    several aggregates.
    """
    run = settings.run
    table = Table.of(log, scaling, 0.0, settings, {"weights": weights.T})
    rows = np.arange(log.n_transitions)
    learner = CloningLearner(
        table,
        Draws([rows], [seed], settings.batch, run.device),
        seed,
        hidden=hidden,
        batch=settings.batch,
        n_actions=scaling.n_actions,
        learning_rate=settings.learning_rate,
        steps=steps,
        gaussian=getattr(settings, "policy", "") == "gaussian",
    )
    mark = fingerprint(replace(settings, run=Run()), seed, steps, hidden, table.values)
    folder = None if run.checkpoint is None else Path(run.checkpoint) / mark[:12]
    kind = "deterministic" if scaling.n_actions is None else "categorical"

    def policies() -> Sequence[NeuralPolicy]:
        return split_policies(learner.stack, scaling, kind)

    training = train(
        learner,
        steps,
        phase="policy",
        run=replace(run, checkpoint=folder),
        fingerprint=mark,
        evaluate=player(run, policies),
        stop=settings.stop,
    )
    return policies(), training


def extract(
    settings: Implicit,
    task: Task,
    critics: NeuralCritics,
    aggregates: Sequence[Aggregate],
    *,
    seed: int,
) -> list[Extracted]:
    """Train a policy for each aggregate of the same critics, side by side."""
    if not isinstance(critics, NeuralCritics) or critics.v is None:
        raise MethodError(
            f"{type(settings).__name__} extracts policies from its own critics. Got {critics!r}."
        )
    weights = policy_weights(settings.rule(), task.log, critics, aggregates, share=settings.share)
    found, training = clone(
        settings,
        task.log,
        critics.scaling,
        weights,
        steps=settings.policy_steps,
        seed=seed,
        hidden=settings.policy_hidden or settings.hidden,
    )
    return [Extracted(policy, training) for policy in found]


def player(
    run: Run, policies: Callable[[], Sequence[NeuralPolicy]]
) -> Callable[[], Measurements] | None:
    """Return what plays the policies while they train, or none if it was not asked for."""
    chosen = run.evaluation
    if chosen is None:
        return None

    def evaluate() -> Measurements:
        means = np.array(
            [
                play(chosen.environment, policy, episodes=chosen.episodes, seed=chosen.seed).mean()
                for policy in policies()
            ]
        )
        if chosen.score is None:
            return {"return": means}
        return {"return": means, "score": np.array([chosen.score(float(m)) for m in means])}

    return evaluate


def fit_cloning(settings: BehaviourCloning, task: Task, folds: Folds, *, seed: int) -> DeepFitted:
    """Train one policy on the imitated episodes, every transition alike; its critics say zero."""
    (chosen,), notes = imitated_episodes([task.log], top=settings.top, rank=settings.rank)
    log = task.log if settings.top == 1 else task.log.take(chosen)
    scaling = Scaling.of(log, standardise=settings.standardise, reward_scale=1.0)
    policies, training = clone(
        settings,
        log,
        scaling,
        np.ones((1, log.n_transitions)),
        steps=settings.steps,
        seed=seed,
        hidden=settings.hidden,
    )
    inputs = len(scaling.state_mean) + scaling.action_width
    shape = Shape(folds.count, (inputs, scaling.n_actions or 1))
    zero = NeuralCritics(
        Stack(shape, torch.zeros(shape.parameters)),
        None,
        1,
        scaling,
        np.ones(folds.count, dtype=bool),
    )
    return DeepFitted(
        zero, np.empty((0, folds.count)), notes, training=training, policy=policies[0]
    )
