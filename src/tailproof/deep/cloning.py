"""Policies by weighted imitation of the log, several at once: cloning, and IQL's and SQL's policy."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tailproof.deep.actors import LOG_STD
from tailproof.deep.adam import Adam, cosine
from tailproof.deep.data import Draws, Table
from tailproof.deep.losses import (
    cross_entropy_gradient,
    cross_entropy_loss,
    likelihood_gradients,
    likelihood_loss,
    regression_gradient,
    regression_loss,
)
from tailproof.deep.networks import Parameters, Pass, Shape, initial_values
from tailproof.deep.qfunctions import generators, healthy


class CloningLearner:
    """P policies that imitate the same rows with different weights.

    Continuous actions: π(s) = tanh of a network, by squared error, or, if `gaussian`, by the likelihood
    of a normal distribution around it; discrete ones: a softmax, by likelihood. The learning rate falls
    with a cosine to zero.

    Parameters
    ----------
    table
        With a column ``"weights"`` of P entries.
    draws
        One draw of rows a step, for all policies.
    """

    def __init__(
        self,
        table: Table,
        draws: Draws,
        seed: int,
        *,
        hidden: Sequence[int],
        batch: int,
        n_actions: int | None,
        learning_rate: float,
        steps: int,
        gaussian: bool = False,
    ) -> None:
        self.table, self.draws, self.steps = table, draws, steps
        self.discrete = n_actions is not None
        self.members = table["weights"].shape[1]
        self.alive = torch.ones(self.members, dtype=torch.bool)
        outputs = table["actions"].shape[1] if n_actions is None else n_actions
        widths = (table["states"].shape[1], *hidden, outputs)
        device = str(table.values.device)
        self.parameters = Parameters({"policy": Shape(self.members, widths)}, device)
        self.stack = self.parameters.stacks["policy"]
        # One seed for all: policies that differ in their weights alone.
        start = initial_values(self.stack.shape, generators([seed] * self.members, 1, 4))
        self.stack.flat.copy_(torch.from_numpy(start))
        self._pass = Pass(self.stack, batch, self.parameters.gradients["policy"])
        self._states = torch.empty(self.members, batch, widths[0], device=device)
        self.adam = Adam(self.parameters.flat, self.parameters.gradient, learning_rate)
        # One standard deviation for each entry of the action, the same in all states.
        self.log_std = torch.zeros(self.members, 1, outputs, device=device)
        self._by_log_std = torch.zeros_like(self.log_std)
        self._adam_std = None
        if gaussian and not self.discrete:
            self._adam_std = Adam(self.log_std, self._by_log_std, learning_rate)
        self._last: tuple[Tensor, Tensor, Tensor] | None = None

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

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's loss by policy, (P,)."""
        assert self._last is not None
        if self._adam_std is not None:
            return {"policy loss": likelihood_loss(*self._last, self.log_std)}
        loss = cross_entropy_loss if self.discrete else regression_loss
        return {"policy loss": loss(*self._last)}

    def probe(self, rows: Tensor) -> Tensor:  # noqa: ARG002
        """Return nothing: a policy has no values, (P, 0)."""
        return torch.empty(self.members, 0)

    def health(self) -> Tensor:
        """Return which policies' parameters are all finite, (P,)."""
        return healthy([(self.stack, 1)], self.members)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        spread = {} if self._adam_std is None else self._adam_std.tensors("spread")
        return {**self.adam.tensors("policy"), **spread, "alive": self.alive}
