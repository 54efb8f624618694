"""SAC-N and TD3+BC: K critics that meet in the backup, and one policy that climbs them."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from tailproof.deep.actors import Actor
from tailproof.deep.adam import Adam
from tailproof.deep.data import Batch, Draws, Normals, Table
from tailproof.deep.losses import squared_gradient, squared_loss
from tailproof.deep.networks import Parameters, Pass, Stack
from tailproof.deep.qfunctions import QFunctions, agree, critic_shape, healthy
from tailproof.deep.reductions import derivative, picked, reduce
from tailproof.ensemble.aggregate import Aggregate, Mean


class ActorCriticLearner:
    """Critics regress on r + γ(1 − terminal)(aggregate_k Q_k(s', a') − …); the policy climbs them.

    Parameters
    ----------
    backup
        min over N for SAC-N, mean − 2·std for SAC-N (STD); it stands in the policy's objective too.
    delay
        The policy and the slow copies move every so many steps.
    """

    def __init__(
        self,
        table: Table,
        draws: Draws,
        normals: Normals,
        seeds: Sequence[int],
        actor: Actor,
        *,
        shared: bool,
        backup: Aggregate | None,
        hidden: Sequence[int],
        batch: int,
        twins: int,
        delay: int,
        learning_rate: float,
        target_rate: float,
    ) -> None:
        self.table, self.draws, self.normals, self.actor = table, draws, normals, actor
        self.backup: Aggregate = Mean() if backup is None else backup
        self.members, self.twins, self.delay = len(seeds), twins, delay
        self.target_rate = target_rate
        self.alive = torch.ones(self.members, dtype=torch.bool)
        states, self.width = table["states"].shape[1], table["actions"].shape[1]
        shape = critic_shape(self.members, twins, states, self.width, None, hidden)
        self.parameters = Parameters({"q": shape}, str(table.values.device))
        rows = batch * (1 if shared else self.members)
        self.q = QFunctions(
            self.parameters, seeds, twins=twins, batch=batch, crossing=rows, n_actions=None
        )
        self.adam = Adam(self.parameters.flat, self.parameters.gradient, learning_rate)
        self._judging = Pass(self.q.stack, rows)
        self._error: Tensor | None = None

    def update(self, step: int) -> None:
        """Take one gradient step of the critics, and one of the policy when it is due."""
        batch = self.table.gather(self.draws(step))
        noise = self.normals(step)
        self.critic_gradients(batch, noise[0])
        self.adam.step()
        if step % self.delay == 0:
            self.actor.improve(*self.judge(batch, noise[1]))
            self.q.follow(self.target_rate)

    def critic_gradients(self, batch: Batch, noise: Tensor) -> None:
        """Write the gradient of the critics."""
        states = batch["next_states"]
        action, cost = self.actor.after(states.reshape(-1, states.shape[-1]), noise)
        pairs = torch.cat([action.view(*states.shape[:2], -1), states], dim=-1)
        after = agree(
            self.backup, self.q.crossed_values(pairs).squeeze(-1), self.alive, len(states)
        )
        if cost is not None:
            after = after - cost.view_as(after)
        target = torch.addcmul(batch.column("rewards"), batch.column("discounts"), after)
        self._error = self.q.predict(batch) - target  # (T, K, B)
        self.q.learn(squared_gradient(self._error))

    def judge(self, batch: Batch, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the aggregate of Q at the policy's actions, its gradient by them, and the log's."""
        states = batch["states"].reshape(-1, batch["states"].shape[-1])
        action = self.actor.act(states, noise)
        pairs = torch.cat([action, states], dim=-1)
        every = self._judging.forward(pairs.expand(self.q.stack.shape.count, -1, -1))
        values, twin = every.view(self.twins, self.members, -1).min(0)  # (K, R)
        living = values[self.alive]
        logged = batch["actions"].reshape(-1, self.width)
        return reduce(self.backup, living), self._by_action(living, twin), logged

    def _by_action(self, living: Tensor, twin: Tensor) -> Tensor:
        """Return the gradient by the actions of the aggregate of living members' values, (R, q)."""
        place = picked(self.backup, living)
        if place is not None:
            member = self.alive.nonzero()[:, 0].to(place.device)[place]  # (R,)
            network = twin.gather(0, member.unsqueeze(0))[0] * self.members + member
            return self._judging.backward_chosen(network, self.width)
        share = torch.zeros(twin.shape, device=living.device)
        share[self.alive] = derivative(self.backup, living)
        weights = torch.zeros(self.twins, *twin.shape, device=living.device)
        weights.scatter_(0, twin.unsqueeze(0), share.unsqueeze(0))
        flowing = weights.view(self.twins * self.members, -1, 1)
        back = self._judging.backward(flowing, to_parameters=False, to_inputs=self.width)
        if not bool(self.alive.all()):  # what a dead member sends back is not a number
            back = back[self.alive.repeat(self.twins)]
        return back.sum(0)

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's losses."""
        assert self._error is not None
        return {"q loss": squared_loss(self._error).mean(0), **self.actor.metrics()}

    def probe(self, rows: Tensor) -> Tensor:
        """Return every member's Q at these rows of the table, (K, m)."""
        pairs = self.table["pairs"][rows]
        return self.q.slow(pairs).view(self.twins, self.members, -1).amin(0)

    def health(self) -> Tensor:
        """Return which members' numbers are all finite, the optimiser's included, (K,)."""
        second = Stack(self.q.stack.shape, self.adam.second)
        return healthy([(self.q.slow, self.twins), (second, self.twins)], self.members)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {
            **self.adam.tensors("critics"),
            **self.actor.tensors(),
            "slow": self.q.slow.flat,
            "alive": self.alive,
        }
