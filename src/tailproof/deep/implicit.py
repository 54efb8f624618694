"""IQL and SQL: values learned in the sample, for K members at once: one loss and one weight apart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tailproof.deep.adam import Adam
from tailproof.deep.data import Batch, Draws, Table
from tailproof.deep.losses import (
    expectile_gradient,
    expectile_loss,
    exponential_weight,
    huber_gradient,
    huber_loss,
    sparse_gradient,
    sparse_loss,
    sparse_weight,
    squared_gradient,
    squared_loss,
)
from tailproof.deep.networks import Parameters, Pass, Shape, Stack, initial_values
from tailproof.deep.qfunctions import (
    QFunctions,
    agree,
    at_actions,
    critic_shape,
    generators,
    healthy,
)
from tailproof.ensemble.aggregate import Aggregate


class Rule(Protocol):
    """What tells IQL and SQL apart: the loss of V, and the weight of an action in the policy."""

    def loss(self, advantage: Tensor, value: Tensor) -> Tensor:
        """Return the loss of V, (K,), with u = Q − V and V, (K, B)."""

    def gradient(self, advantage: Tensor) -> Tensor:
        """Return its gradient by V, (K, B)."""

    def weight(self, advantage: Tensor) -> Tensor:
        """Return how much the policy imitates an action with this advantage."""


@dataclass(frozen=True)
class Expectile:
    """IQL: V is an expectile of Q over logged actions, the policy weighs with exp(β(Q − V))."""

    expectile: float
    beta: float
    limit: float

    def loss(self, advantage: Tensor, value: Tensor) -> Tensor:  # noqa: ARG002
        """Return the loss of V, (K,)."""
        return expectile_loss(advantage, self.expectile)

    def gradient(self, advantage: Tensor) -> Tensor:
        """Return its gradient by V, (K, B)."""
        return expectile_gradient(advantage, self.expectile)

    def weight(self, advantage: Tensor) -> Tensor:
        """Return min(exp(β·u), limit)."""
        return exponential_weight(advantage, self.beta, self.limit)


@dataclass(frozen=True)
class Sparse:
    """SQL: actions whose advantage is below −2α get no weight at all."""

    alpha: float
    limit: float

    def loss(self, advantage: Tensor, value: Tensor) -> Tensor:
        """Return the loss of V, (K,)."""
        return sparse_loss(advantage, value, self.alpha)

    def gradient(self, advantage: Tensor) -> Tensor:
        """Return its gradient by V, (K, B)."""
        return sparse_gradient(advantage, self.alpha)

    def weight(self, advantage: Tensor) -> Tensor:
        """Return min(max(0, 1 + u/2α), limit)."""
        return sparse_weight(advantage, self.alpha).clamp_(max=self.limit)


class ImplicitLearner:
    """Q_k and V_k of K members: V by the rule, Q by regression on r + γ(1 − terminal)V(s').

    All gradients of a step are taken at the parameters before it, so that one optimiser step serves
    Q and V. With a `backup`, aggregate_k Q_k(s, a) and aggregate_k V_k(s') take the members' place in
    both targets.
    """

    def __init__(
        self,
        table: Table,
        draws: Draws,
        seeds: Sequence[int],
        rule: Rule,
        *,
        shared: bool,
        backup: Aggregate | None,
        hidden: Sequence[int],
        batch: int,
        twins: int,
        huber: float | None,
        n_actions: int | None,
        learning_rate: float,
        target_rate: float,
    ) -> None:
        self.table, self.draws, self.rule = table, draws, rule
        self.backup, self.huber, self.target_rate = backup, huber, target_rate
        self.members, self.twins, self.batch = len(seeds), twins, batch
        self.alive = torch.ones(self.members, dtype=torch.bool)
        states = table["states"].shape[1]
        actions = table["actions"].shape[1]
        device = str(table.values.device)
        shape = critic_shape(self.members, twins, states, actions, n_actions, hidden)
        self.parameters = Parameters(
            {"q": shape, "v": Shape(self.members, (states, *hidden, 1))}, device
        )
        crossing = 0 if backup is None else batch * (1 if shared else self.members)
        self.q = QFunctions(
            self.parameters,
            seeds,
            twins=twins,
            batch=batch,
            crossing=crossing,
            n_actions=n_actions,
        )
        self.v = self.parameters.stacks["v"]
        start = initial_values(self.v.shape, generators(seeds, 1, 3))
        self.v.flat.copy_(torch.from_numpy(start))
        self._values = Pass(self.v, 2 * batch, self.parameters.gradients["v"])
        self._after = Pass(self.v, crossing) if crossing > batch else None
        self._states = torch.empty(self.members, 2 * batch, states, device=device)
        self.adam = Adam(self.parameters.flat, self.parameters.gradient, learning_rate)
        self._last: tuple[Tensor, Tensor, Tensor] | None = None

    def update(self, step: int) -> None:
        """Take one gradient step."""
        self.gradients(step)
        self.adam.step()
        self.q.follow(self.target_rate)

    def gradients(self, step: int) -> None:
        """Write the gradient of every parameter at this step's batch."""
        batch = self.table.gather(self.draws(step))
        rows = self.batch
        self._states[:, :rows].copy_(batch["states"])
        self._states[:, rows:].copy_(batch["next_states"])
        values = self._values.forward(self._states).squeeze(-1)  # (K, 2B)
        value, after = values[:, :rows], values[:, rows:]
        advantage = self._slow(batch) - value  # (K, B)
        if self.backup is not None:
            after = self._agreed_after(batch, after)
        target = torch.addcmul(batch.column("rewards"), batch.column("discounts"), after)
        error = self.q.predict(batch) - target  # (T, K, B)
        self.q.learn(
            squared_gradient(error) if self.huber is None else huber_gradient(error, self.huber)
        )
        self._values.backward(self.rule.gradient(advantage).unsqueeze(-1))
        self._last = (advantage, value, error)

    def _slow(self, batch: Batch) -> Tensor:
        inputs = self.q.inputs(batch)
        if self.backup is None:
            values = self.q.slow_values(inputs)
            if not self.q.discrete:
                return values.squeeze(-1)
            return at_actions(values, batch.column("actions").long().expand(self.members, -1))
        crossed = self.q.crossed_values(inputs)  # (K, M·B, out)
        if self.q.discrete:
            logged = batch.column("actions").long().reshape(1, -1).expand(self.members, -1)
            crossed = at_actions(crossed, logged).unsqueeze(-1)
        return agree(self.backup, crossed.squeeze(-1), self.alive, len(inputs))

    def _agreed_after(self, batch: Batch, after: Tensor) -> Tensor:
        assert self.backup is not None
        states = batch["next_states"]
        if self._after is not None:
            everywhere = states.reshape(1, -1, states.shape[-1]).expand(self.members, -1, -1)
            after = self._after.forward(everywhere).squeeze(-1)
        return agree(self.backup, after, self.alive, len(states))

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's losses by member, (K,)."""
        assert self._last is not None
        advantage, value, error = self._last
        loss = squared_loss(error) if self.huber is None else huber_loss(error, self.huber)
        return {"q loss": loss.mean(0), "v loss": self.rule.loss(advantage, value)}

    def probe(self, rows: Tensor) -> Tensor:
        """Return every member's Q at these rows of the table, (K, m)."""
        batch = self.table.gather(rows.view(1, -1))
        values = self.q.slow(self.q.inputs(batch)[0]).view(self.twins, self.members, len(rows), -1)
        smallest = values.amin(0)
        if self.q.discrete:
            return at_actions(smallest, batch.column("actions").long().expand(self.members, -1))
        return smallest.squeeze(-1)

    def state_values(self, rows: Tensor, *, after: bool = False) -> Tensor:
        """Return each member's V at rows (K, m) of its own, or at the states after them, (K, m)."""
        states = self.table["next_states" if after else "states"]
        return self.v(states[rows.reshape(-1)].view(*rows.shape, -1)).squeeze(-1)

    def twins_gap(self, rows: Tensor) -> Tensor:
        """Return how far the smallest Q lies below the networks' mean, over rows (K, m), (K,)."""
        batch = self.table.gather(rows)  # (K, m, W)
        values = self.q.slow(self.q.inputs(batch).repeat(self.twins, 1, 1))
        every = values.view(self.twins, self.members, rows.shape[1], -1)
        gap = every.mean(0) - every.amin(0)
        if self.q.discrete:
            return at_actions(gap, batch.column("actions").long()).mean(1)
        return gap.mean((1, 2))

    def health(self) -> Tensor:
        """Return which members' numbers are all finite, the optimiser's included, (K,)."""
        second = self.adam.second
        size = self.q.stack.shape.parameters
        return healthy(
            [
                (self.q.slow, self.twins),
                (self.v, 1),
                (Stack(self.q.stack.shape, second[:size]), self.twins),
                (Stack(self.v.shape, second[size:]), 1),
            ],
            self.members,
        )

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**self.adam.tensors("critics"), "slow": self.q.slow.flat, "alive": self.alive}
