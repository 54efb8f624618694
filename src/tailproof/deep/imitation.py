"""Policies by weighted imitation of the log: cloning, and IQL's and SQL's policies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tailproof.arrays import FloatArray
from tailproof.critics.ensembles import Critics
from tailproof.critics.task import Task
from tailproof.deep.checkpoint import training_fingerprint
from tailproof.deep.critics import NeuralCritics, NeuralPolicy
from tailproof.deep.data import Scaling
from tailproof.deep.fitting import DeepFitted
from tailproof.deep.history import History
from tailproof.deep.learners import ImitationLearner
from tailproof.deep.losses import reduce
from tailproof.deep.settings import Run
from tailproof.deep.stack import Shape, Stack
from tailproof.deep.training import train
from tailproof.errors import MethodError
from tailproof.learners.cloning import imitated_episodes
from tailproof.log.folds import Folds
from tailproof.log.log import Log
from tailproof.robust.aggregates import Aggregate
from tailproof.robust.tails import effective_rows

if TYPE_CHECKING:
    from tailproof.deep.bases import BehaviourCloning, Implicit


def policy_weights(
    base: Implicit, log: Log, critics: NeuralCritics, aggregates: Sequence[Aggregate]
) -> FloatArray:
    """Return the weight of each transition, from aggregate_k Q_k(s, a) − aggregate_k V_k(s), (P, n)."""
    scale = critics.scaling.reward_scale
    q = torch.from_numpy(critics.values(log.states, log.actions) * scale)  # (K, n)
    v = torch.from_numpy(critics.state_values(log.states) * scale)
    advantages = [reduce(each, q) - reduce(each, v) for each in aggregates]
    return np.stack([spread_weights(base, each).numpy() for each in advantages])


def spread_weights(base: Implicit, advantage: Tensor) -> Tensor:
    """Return weights (n,) of advantages, multiplied by one factor to reach the base's `share`.

    The factor is 1 if the effective share is large enough; with factor 0 all weights are equal.
    """
    weights = base.action_weight(advantage)
    if effective_share(weights) >= base.share:
        return weights
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        enough = effective_share(base.action_weight(advantage * middle)) >= base.share
        low, high = (middle, high) if enough else (low, middle)
    return base.action_weight(advantage * low)


def effective_share(weights: Tensor) -> float:
    """Return (Σw)² / nΣw²: 1 for equal weights, 1/n for a single weight, 0 for none."""
    return effective_rows(weights.numpy()) / len(weights)


def clone(
    base: Implicit | BehaviourCloning,
    log: Log,
    scaling: Scaling,
    weights: FloatArray,
    *,
    seed: int,
) -> tuple[Sequence[NeuralPolicy], History]:
    """Train one policy per row of weights (P, n) by weighted imitation of the log.

    The checkpoint folder depends on the weights, so that saved critics can serve several aggregates.
    """
    imitation, run = base.imitation, base.run
    learner = ImitationLearner(base, imitation, log, scaling, weights, seed=seed)
    mark = training_fingerprint(replace(base, run=Run()), seed, imitation, learner.table.values)
    if run.checkpoint is not None:
        run = replace(run, checkpoint=Path(run.checkpoint) / mark[:12])
    training = train(
        learner, imitation.steps, phase="policy", run=run, fingerprint=mark, stop=base.stop
    )
    return learner.policies(), training


def extract(
    base: Implicit,
    task: Task,
    critics: Critics,
    aggregates: Sequence[Aggregate],
    *,
    seed: int,
) -> list[DeepFitted]:
    """Train one policy per aggregate of the same critics, in one stack."""
    if not isinstance(critics, NeuralCritics) or critics.v is None:
        raise MethodError(
            f"{type(base).__name__} extracts policies from its own critics. Got {critics!r}."
        )
    weights = policy_weights(base, task.log, critics, aggregates)
    policies, training = clone(base, task.log, critics.scaling, weights, seed=seed)
    return [DeepFitted(critics, training=training, policy=policy) for policy in policies]


def fit_cloning(base: BehaviourCloning, task: Task, folds: Folds, *, seed: int) -> DeepFitted:
    """Train one policy on the selected episodes with equal weights; its critics are zero."""
    (chosen,), notes = imitated_episodes([task.log], top=base.top, rank=base.rank)
    log = task.log if base.top == 1 else task.log.take(chosen)
    scaling = Scaling.of(log, standardise=base.standardise, reward_scale=1.0)
    even = np.ones((1, log.n_transitions))
    (policy,), training = clone(base, log, scaling, even, seed=seed)
    inputs = len(scaling.state_mean) + scaling.action_width
    shape = Shape(folds.count, (inputs, scaling.n_actions or 1))
    zero = Stack(shape, torch.zeros(shape.parameters))
    critics = NeuralCritics(zero, None, 1, scaling, np.ones(folds.count, dtype=bool))
    return DeepFitted(critics, np.empty((0, folds.count)), notes, training, policy)
