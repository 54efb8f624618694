"""Neural fitted Q-evaluation of a policy, for K members at once."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tailproof.deep.adam import Adam
from tailproof.deep.data import Batch, Draws, Table
from tailproof.deep.losses import huber_gradient, huber_loss, squared_gradient, squared_loss
from tailproof.deep.networks import Parameters, Stack
from tailproof.deep.qfunctions import QFunctions, agree, at_actions, critic_shape, healthy
from tailproof.ensemble.aggregate import Aggregate


class FQELearner:
    """Q_k by regression on r + γ(1 − terminal)·E_π Q_k(s', ·), or, with a backup, its aggregate.

    The table holds what the policy does in the next states: for discrete actions the column
    ``"policy"`` with π(a|s'), for continuous ones ``"next_actions"`` with L draws of an action each,
    which the steps take in turn. `bounds`, (K, 1) each, are the smallest and largest values that the
    rewards allow: what follows a step is kept between them, so that a critic which extrapolates to
    actions that the log never took cannot run away.
    """

    def __init__(
        self,
        table: Table,
        draws: Draws,
        seeds: Sequence[int],
        *,
        shared: bool,
        backup: Aggregate | None,
        hidden: Sequence[int],
        batch: int,
        huber: float | None,
        n_actions: int | None,
        learning_rate: float,
        target_rate: float,
        bounds: tuple[Tensor, Tensor] | None = None,
    ) -> None:
        self.table, self.draws, self.backup, self.bounds = table, draws, backup, bounds
        self.huber, self.target_rate = huber, target_rate
        self.members = len(seeds)
        self.alive = torch.ones(self.members, dtype=torch.bool)
        states, self.width = table["states"].shape[1], table["actions"].shape[1]
        shape = critic_shape(self.members, 1, states, self.width, n_actions, hidden)
        self.parameters = Parameters({"q": shape}, str(table.values.device))
        crossing = 0 if backup is None else batch * (1 if shared else self.members)
        self.q = QFunctions(
            self.parameters, seeds, twins=1, batch=batch, crossing=crossing, n_actions=n_actions
        )
        self.adam = Adam(self.parameters.flat, self.parameters.gradient, learning_rate)
        self._error: Tensor | None = None

    def update(self, step: int) -> None:
        """Take one gradient step."""
        self.gradients(step)
        self.adam.step()
        self.q.follow(self.target_rate)

    def gradients(self, step: int) -> None:
        """Write the gradient of every parameter at this step's batch."""
        batch = self.table.gather(self.draws(step))
        after = self._after(batch, step)
        if self.bounds is not None:
            after = after.clamp(*self.bounds)
        target = torch.addcmul(batch.column("rewards"), batch.column("discounts"), after)
        self._error = self.q.predict(batch) - target  # (1, K, B)
        self.q.learn(
            squared_gradient(self._error)
            if self.huber is None
            else huber_gradient(self._error, self.huber)
        )

    def _after(self, batch: Batch, step: int) -> Tensor:
        """Return E_π Q(s', ·), (K, B) or (M, B)."""
        states = batch["next_states"]
        if self.q.discrete:
            inputs, weights = states, batch["policy"]
        else:
            every = batch["next_actions"]
            start = step % (every.shape[-1] // self.width) * self.width
            inputs = torch.cat([every[..., start : start + self.width], states], dim=-1)
            weights = None
        ask = self.q.slow_values if self.backup is None else self.q.crossed_values
        values = ask(inputs)  # (K, B or M·B, out)
        if weights is None:
            values = values.squeeze(-1)
        else:
            spread = weights if self.backup is None else weights.reshape(1, -1, weights.shape[-1])
            values = (values * spread).sum(-1)
        if self.backup is None:
            return values
        return agree(self.backup, values, self.alive, len(states))

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's loss by member, (K,)."""
        assert self._error is not None
        loss = (
            squared_loss(self._error) if self.huber is None else huber_loss(self._error, self.huber)
        )
        return {"q loss": loss[0]}

    def probe(self, rows: Tensor) -> Tensor:
        """Return every member's Q at these rows of the table, (K, m)."""
        batch = self.table.gather(rows.view(1, -1))
        values = self.q.slow(self.q.inputs(batch)[0])  # (K, m, out)
        if self.q.discrete:
            return at_actions(values, batch.column("actions").long().expand(self.members, -1))
        return values.squeeze(-1)

    def health(self) -> Tensor:
        """Return which members' numbers are all finite, the optimiser's included, (K,)."""
        second = Stack(self.q.stack.shape, self.adam.second)
        return healthy([(self.q.slow, 1), (second, 1)], self.members)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**self.adam.tensors("critics"), "slow": self.q.slow.flat, "alive": self.alive}
