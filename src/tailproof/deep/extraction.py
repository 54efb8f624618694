"""From critics to a policy: weighted imitation of the whole log."""

from __future__ import annotations

from collections.abc import Sequence
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
from tailproof.deep.checkpoint import training_fingerprint
from tailproof.deep.cloning import CloningLearner
from tailproof.deep.critics import NeuralCritics, NeuralPolicy
from tailproof.deep.data import Scaling
from tailproof.deep.history import History
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
    base: Implicit, log: Log, critics: NeuralCritics, aggregates: Sequence[Aggregate]
) -> FloatArray:
    """Return the weight of each transition, from aggregate_k Q_k(s, a) − aggregate_k V_k(s), (P, n)."""
    scale = critics.scaling.reward_scale
    q = torch.from_numpy(critics.values(log.states, log.actions) * scale)  # (K, n)
    v = torch.from_numpy(critics.state_values(log.states) * scale)
    advantages = [reduce(each, q) - reduce(each, v) for each in aggregates]
    return np.stack([spread_weights(base, each).numpy() for each in advantages])


def spread_weights(base: Implicit, advantage: Tensor) -> Tensor:
    """Return weights (n,) of advantages, shrunk by one factor until they are worth the base's share.

    The factor is 1 where it can be; an advantage of 0 weighs all alike and is worth the whole log.
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
    learner = CloningLearner(settings, log, scaling, weights, steps=steps, seed=seed, hidden=hidden)
    run, saved = settings.run, settings.run.checkpoint
    mark = training_fingerprint(
        replace(settings, run=Run()), seed, steps, hidden, learner.table.values
    )
    own = replace(run, checkpoint=None if saved is None else Path(saved) / mark[:12])
    training = train(learner, steps, phase="policy", run=own, fingerprint=mark, stop=settings.stop)
    return learner.policies(), training


def extract(
    base: Implicit,
    task: Task,
    critics: NeuralCritics,
    aggregates: Sequence[Aggregate],
    *,
    seed: int,
) -> list[Extracted]:
    """Train a policy for each aggregate of the same critics, side by side."""
    if not isinstance(critics, NeuralCritics) or critics.v is None:
        raise MethodError(
            f"{type(base).__name__} extracts policies from its own critics. Got {critics!r}."
        )
    found, training = clone(
        base,
        task.log,
        critics.scaling,
        policy_weights(base, task.log, critics, aggregates),
        steps=base.policy_steps,
        seed=seed,
        hidden=base.policy_hidden or base.hidden,
    )
    return [Extracted(policy, training) for policy in found]


def fit_cloning(settings: BehaviourCloning, task: Task, folds: Folds, *, seed: int) -> DeepFitted:
    """Train one policy on the imitated episodes, every transition alike; its critics say zero."""
    (chosen,), notes = imitated_episodes([task.log], top=settings.top, rank=settings.rank)
    log = task.log if settings.top == 1 else task.log.take(chosen)
    scaling = Scaling.of(log, standardise=settings.standardise, reward_scale=1.0)
    even = np.ones((1, log.n_transitions))
    (policy,), training = clone(
        settings, log, scaling, even, steps=settings.steps, seed=seed, hidden=settings.hidden
    )
    inputs = len(scaling.state_mean) + scaling.action_width
    shape = Shape(folds.count, (inputs, scaling.n_actions or 1))
    zero = Stack(shape, torch.zeros(shape.parameters))
    critics = NeuralCritics(zero, None, 1, scaling, np.ones(folds.count, dtype=bool))
    return DeepFitted(critics, np.empty((0, folds.count)), notes, training, policy)
