"""Policies by weighted imitation of the log, several at once: cloning, and IQL's and SQL's policy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.deep.adam import Adam, cosine
from tailproof.deep.critics import LOG_STD, NeuralPolicy, split_policies
from tailproof.deep.data import Scaling, Transitions, row_draws
from tailproof.deep.losses import (
    cross_entropy_gradient,
    cross_entropy_loss,
    likelihood_gradients,
    likelihood_loss,
    regression_gradient,
    regression_loss,
)
from tailproof.deep.networks import Parameters, Pass, Shape, initialise
from tailproof.deep.settings import DeepSettings
from tailproof.deep.train import Learner


class CloningLearner(Learner):
    """P policies that imitate the same rows with different weights (P, n).

    Continuous actions: π(s) = tanh of a network, by squared error, or, if the settings' policy is
    ``"gaussian"``, by the likelihood of a normal distribution around it; discrete ones: a softmax, by
    likelihood. The learning rate falls with a cosine to zero.
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
        # One seed for all: policies that differ in their weights alone.
        initialise(self.stack, [seed] * self.members, stream=4)
        self._pass = Pass(self.stack, batch, self.parameters.gradients["policy"])
        self._states = self.stack.flat.new_empty(self.members, batch, widths[0])
        self.adam = Adam(self.parameters.flat, self.parameters.gradient, rate)
        # One standard deviation for each entry of the action, the same in all states.
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
        """Return the policies of all weights."""
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
