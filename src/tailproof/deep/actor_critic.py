"""SAC-N and TD3+BC: K critics that meet in the backup, and one policy that climbs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.deep.actors import Actor
from tailproof.deep.critic_learner import CriticLearner
from tailproof.deep.critics import NeuralPolicy, split_policies
from tailproof.deep.data import Transitions, normal_draws
from tailproof.deep.fitting import MemberGroup
from tailproof.deep.networks import Pass
from tailproof.deep.reductions import derivative, picked, reduce
from tailproof.ensemble.aggregate import Aggregate, Mean
from tailproof.errors import MethodError


class ActorCriticLearner(CriticLearner):
    """Critics regress on r + γ(1 − terminal)(aggregate_k Q_k(s', a') − …); the policy climbs them.

    The aggregate (min over N for SAC-N, mean − 2·std for SAC-N (STD)) stands in the policy's objective
    too. The policy and the slow copies move every `delay` steps.
    """

    backup: Aggregate

    def __init__(self, group: MemberGroup) -> None:
        settings = group.settings
        super().__init__(group, backup=group.backup or Mean(), twins=settings.twins)
        self.delay, self.width = settings.delay, group.scaling.action_width
        self.actor: Actor = settings.actor()(group, self.rows)
        shape = (2, self.rows, self.width)
        self.normals = normal_draws(group.seeds[0], shape, settings.run.device)
        self._judging = Pass(self.q, self.rows)

    @classmethod
    def prepare(cls, settings: Any, task: Task) -> tuple[Any, Mapping[str, FloatArray]]:
        """Check that actions are continuous."""
        if task.log.is_discrete:
            raise MethodError(
                f"{type(settings).__name__} needs continuous actions; the log has "
                f"{task.log.action_space}. Use IQL() or SQL() for discrete ones."
            )
        return settings, {}

    def update(self, step: int) -> None:
        """Take one gradient step of the critics, and one of the policy when it is due."""
        batch = self.table.gather(self.draws(step))
        noise = self.normals(step)
        self.critic_gradients(batch, noise[0])
        self.adam.step()
        if step % self.delay == 0:
            self.actor.improve(*self.judge(batch, noise[1]))
            self.follow()

    def critic_gradients(self, batch: Transitions, noise: Tensor) -> None:
        """Write the gradient of the critics."""
        states = batch["next_states"]
        action, cost = self.actor.after(states.reshape(-1, states.shape[-1]), noise)
        pairs = torch.cat([action.view(*states.shape[:2], -1), states], dim=-1)
        after = self.agreed(self.slow_values(pairs).squeeze(-1))
        self.regress(batch, after if cost is None else after - cost.view_as(after))

    def judge(self, batch: Transitions, noise: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the aggregate of Q at the policy's actions, its gradient by them, and the log's."""
        states = batch["states"].reshape(-1, batch["states"].shape[-1])
        action = self.actor.act(states, noise)
        pairs = torch.cat([action, states], dim=-1)
        every = self._judging.forward(pairs.expand(self.q.shape.count, -1, -1))
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

    def policies(self) -> Sequence[NeuralPolicy]:
        """Return the policy that climbs the critics."""
        return split_policies(self.actor.stack, self.group.scaling, self.actor.kind)

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's losses."""
        return {**super().metrics(), **self.actor.metrics()}

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**super().tensors(), **self.actor.tensors()}
