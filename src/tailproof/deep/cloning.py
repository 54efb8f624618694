"""Several policies at once by weighted imitation of the log: cloning, and IQL's and SQL's policy."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tailproof.arrays import FloatArray
from tailproof.critics.base import Fitted
from tailproof.critics.task import Task
from tailproof.deep.checkpoint import training_fingerprint
from tailproof.deep.critics import LOG_STD, NeuralCritics, NeuralPolicy, split_policies
from tailproof.deep.data import Scaling, Transitions, row_draws
from tailproof.deep.history import History
from tailproof.deep.losses import (
    cross_entropy_gradient,
    cross_entropy_loss,
    likelihood_gradients,
    likelihood_loss,
    regression_gradient,
    regression_loss,
)
from tailproof.deep.networks import Adam, Parameters, Pass, Shape, Stack, cosine, initialise
from tailproof.deep.reductions import reduce
from tailproof.deep.settings import DeepSettings, Run
from tailproof.deep.train import Learner, train
from tailproof.errors import MethodError
from tailproof.learners.cloning import imitated_episodes
from tailproof.log.folds import Folds
from tailproof.log.log import Log
from tailproof.robust.aggregates import Aggregate

if TYPE_CHECKING:
    from tailproof.deep.bases import BehaviourCloning, Implicit


class CloningLearner(Learner):
    """P policies that imitate the same rows with different weights, (P, n).

    Continuous actions: π(s) = tanh of a network, by squared error or, if `policy` is ``"gaussian"``, by
    the likelihood of a normal distribution with this mean. Discrete actions: a softmax, by likelihood.
    The learning rate has cosine decay to zero.
    """

    def __init__(
        self,
        settings: DeepSettings,
        log: Log,
        scaling: Scaling,
        weights: FloatArray,
        *,
        steps: int,
        seed: int,
        hidden: Sequence[int],
    ) -> None:
        batch, device, rate = settings.batch, settings.run.device, settings.learning_rate
        self.scaling, self.steps, self.discrete = scaling, steps, scaling.n_actions is not None
        self.table = Transitions.of(log, scaling, 0.0, settings, {"weights": weights.T})
        self.draws = row_draws([np.arange(log.n_transitions)], [seed], batch, device)
        self.members = len(weights)
        self.alive = torch.ones(self.members, dtype=torch.bool)
        outputs = scaling.n_actions or scaling.action_width
        widths = (len(scaling.state_mean), *hidden, outputs)
        self.parameters = Parameters({"policy": Shape(self.members, widths)}, device)
        self.stack = self.parameters.stacks["policy"]
        # One seed for all: the policies differ only in their imitation weights.
        initialise(self.stack, [seed] * self.members, stream=4)
        self._pass = Pass(self.stack, batch, self.parameters.gradients["policy"])
        self._states = self.stack.flat.new_empty(self.members, batch, widths[0])
        self.adam = Adam(self.parameters.flat, self.parameters.gradient, rate)
        # One standard deviation per entry of the action, the same in all states.
        self.log_std = self.stack.flat.new_zeros(self.members, 1, outputs)
        self._by_log_std = torch.zeros_like(self.log_std)
        gaussian = getattr(settings, "policy", "") == "gaussian" and not self.discrete
        self._adam_std = Adam(self.log_std, self._by_log_std, rate) if gaussian else None
        self._last = (self._states, self._states, self._states)

    def update(self, step: int) -> None:
        """Take one gradient step."""
        self.gradients(step)
        rate = cosine(step, self.steps)
        self.adam.step(rate=rate)
        if self._adam_std is not None:
            self._adam_std.step(rate=rate)
            self.log_std.clamp_(*LOG_STD)

    def gradients(self, step: int) -> None:
        """Write the gradient of every parameter at this step's batch."""
        batch = self.table.gather(self.draws(step))
        self._states.copy_(batch["states"])
        weight = batch["weights"][0].t()  # (P, B)
        outputs = self._pass.forward(self._states)
        if self.discrete:
            logged = batch.column("actions").long().expand(self.members, -1)
            gradient = cross_entropy_gradient(outputs, logged, weight)
        else:
            logged = batch["actions"]
            outputs = outputs.tanh_()
            if self._adam_std is None:
                gradient = regression_gradient(outputs, logged, weight)
            else:
                gradient, by_log_std = likelihood_gradients(outputs, logged, weight, self.log_std)
                self._by_log_std.copy_(by_log_std)
        self._pass.backward(gradient)
        self._last = (outputs, logged, weight)

    def policies(self) -> Sequence[NeuralPolicy]:
        """Return the P policies."""
        kind = "categorical" if self.discrete else "deterministic"
        return split_policies(self.stack, self.scaling, kind)

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's loss by policy, (P,)."""
        if self._adam_std is not None:
            return {"policy loss": likelihood_loss(*self._last, self.log_std)}
        loss = cross_entropy_loss if self.discrete else regression_loss
        return {"policy loss": loss(*self._last)}

    def health(self) -> Tensor:
        """Return which policies' parameters are all finite, (P,)."""
        return self.stack.finite()

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        spread = {} if self._adam_std is None else self._adam_std.tensors("spread")
        return {**self.adam.tensors("policy"), **spread, "alive": self.alive}


@dataclass(frozen=True)
class DeepFitted(Fitted):
    """Critics, the policy trained with or from them, and the training history."""

    training: History = field(default_factory=History)
    policy: NeuralPolicy | None = None


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
    """Train one policy per row of weights (P, n) by weighted imitation of the log.

    The checkpoint folder depends on the weights, so that saved critics can serve several aggregates.
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
) -> list[DeepFitted]:
    """Train one policy per aggregate of the same critics, in one stack."""
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
    return [DeepFitted(critics, training=training, policy=policy) for policy in found]


def fit_cloning(settings: BehaviourCloning, task: Task, folds: Folds, *, seed: int) -> DeepFitted:
    """Train one policy on the selected episodes with equal weights; its critics are zero."""
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
