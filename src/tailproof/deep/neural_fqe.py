"""Neural fitted Q-evaluation of a policy, for K members at once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.deep.convergence import horizon_of
from tailproof.deep.critic_learner import CriticLearner
from tailproof.deep.data import Scaling, Transitions
from tailproof.deep.group import MemberGroup
from tailproof.errors import MethodError

if TYPE_CHECKING:
    from tailproof.deep.bases import NeuralFQE


class FQELearner(CriticLearner):
    """Q_k by regression on r + γ(1 − terminal)·E_π Q_k(s', ·), or, with a backup, its aggregate.

    The transitions hold what the policy does in the next states: for discrete actions the column
    ``"policy"`` with π(a|s'), for continuous ones ``"next_actions"`` with L drawn actions, which the
    steps take in turn. What follows a step is kept between the smallest and the largest value that
    the rewards allow, so that a critic which extrapolates to actions that the log never took cannot
    run away.
    """

    def __init__(self, group: MemberGroup) -> None:
        super().__init__(group, backup=group.backup, huber=group.settings.huber)
        rewards = group.log.rewards * group.scaling.reward_scale
        each = [rewards[rows] for rows in group.rows[: group.n_draws]]  # members that meet have one
        bounds = [[min(0.0, seen.min()), max(0.0, seen.max())] for seen in each]
        every = torch.tensor(bounds, dtype=torch.float64) * group.horizon
        self.bounds = every.to(self.q.flat).unsqueeze(-1).unbind(1)  # (K, 1) each

    @classmethod
    def prepare(cls, settings: NeuralFQE, task: Task) -> tuple[NeuralFQE, Mapping[str, FloatArray]]:
        """Return settings, and the policy's actions in the next states.

        With automatic settings values, not rewards, have size one: networks learn these sooner. IQL
        and SQL cannot have this, because β and α are in units of scaled reward; nor can a Huber loss.
        """
        if task.policy is None:
            raise MethodError(
                "NeuralFQE evaluates a policy and was given none; to learn one use IQL(), SQL() or "
                "SAC()."
            )
        scaling = Scaling.of(
            task.log, standardise=settings.standardise, reward_scale=settings.reward_scale
        )
        if settings.reward_scale == "auto" and settings.huber is None:
            scale = scaling.reward_scale / horizon_of(task.log, task.gamma)
            settings = replace(settings, reward_scale=scale)
        actions, weights = task.next_actions(slice(None))
        if task.log.is_discrete:
            return settings, {"policy": weights}
        kept = actions[:, : settings.draws]
        n, count = kept.shape[:2]
        scaled = scaling.actions(kept.reshape(n * count, -1))
        return settings, {"next_actions": scaled.reshape(n, -1)}

    def gradients(self, step: int) -> None:
        """Write the gradient of every parameter at this step's batch."""
        batch = self.table.gather(self.draws(step))
        self.regress(batch, self.agreed(self._after(batch, step)).clamp(*self.bounds))

    def _after(self, batch: Transitions, step: int) -> Tensor:
        """Return E_π Q(s', ·), (K, B or M·B)."""
        states = batch["next_states"]
        if self.discrete:
            return (self.slow_values(states) * self.spread(batch["policy"])).sum(-1)
        every, width = batch["next_actions"], batch["actions"].shape[-1]
        start = step % (every.shape[-1] // width) * width
        pairs = torch.cat([every[..., start : start + width], states], dim=-1)
        return self.slow_values(pairs).squeeze(-1)
