"""Learners of the Q-functions of K members at once: the base class, neural FQE, and IQL and SQL."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from tailproof.arrays import FloatArray
from tailproof.critics.task import Task
from tailproof.deep.critics import NeuralCritics
from tailproof.deep.data import Scaling, Transitions
from tailproof.deep.fitting import MemberGroup
from tailproof.deep.history import horizon_of, returns_to_go
from tailproof.deep.losses import error_gradient, error_loss
from tailproof.deep.networks import Adam, Parameters, Pass, Shape, initialise
from tailproof.deep.reductions import reduce
from tailproof.deep.train import Learner
from tailproof.errors import MethodError
from tailproof.robust.aggregates import Aggregate

if TYPE_CHECKING:
    from tailproof.deep.bases import NeuralFQE


class CriticLearner(Learner):
    """T·K Q-functions trained by regression; the value of member k is the smallest of its T.

    Network t·K + k is the t-th of member k. Targets come from the member's own target networks or, with
    a `backup`, from the aggregate over all members that have not diverged.

    Parameters
    ----------
    huber
        Threshold of the Huber loss; None for squared errors.
    others
        Shapes of additional networks that the same optimiser trains.
    """

    def __init__(
        self,
        group: MemberGroup,
        *,
        backup: Aggregate | None,
        twins: int = 1,
        huber: float | None = None,
        others: Mapping[str, Shape] | None = None,
    ) -> None:
        settings, n_actions = group.settings, group.scaling.n_actions
        self.group, self.table, self.draws = group, group.transitions, group.draws
        self.backup, self.twins, self.huber = backup, twins, huber
        self.members, self.batch = len(group.seeds), settings.batch
        self.target_rate = group.target_rate
        self.alive, self.limits = torch.ones(self.members, dtype=torch.bool), group.limits
        self.discrete = n_actions is not None
        inputs = self.inputs(self.table).shape[1]
        shape = Shape(twins * self.members, (inputs, *settings.hidden, n_actions or 1))
        self.parameters = Parameters({"q": shape, **(others or {})}, settings.run.device)
        self.q = self.parameters.stacks["q"]
        initialise(self.q, group.seeds, stream=2)
        self.slow = self.q.copy()
        self.adam = Adam(self.parameters.flat, self.parameters.gradient, settings.learning_rate)
        #: Rows at which every member is evaluated: its own, or all members' with a backup.
        self.rows = self.batch * (1 if backup is None else group.n_draws)
        self._training = Pass(self.q, self.batch, self.parameters.gradients["q"])
        self._looking = Pass(self.slow, self.rows)
        self._inputs = self.q.flat.new_empty(shape.count, self.batch, inputs)
        self._error = self.q.flat.new_empty(0)
        self._watched = group.watched

    @classmethod
    def prepare(cls, settings: Any, task: Task) -> tuple[Any, Mapping[str, FloatArray]]:  # noqa: ARG003
        """Check the task; return its settings and additional columns of the transitions."""
        return settings, {}

    def update(self, step: int) -> None:
        """Take one gradient step."""
        self.gradients(step)
        self.adam.step()
        self.follow()

    def gradients(self, step: int) -> None:
        """Write the gradient of every parameter at this step's batch."""
        raise NotImplementedError

    def follow(self) -> None:
        """Update the target networks: θ̄ ← (1 − ρ)θ̄ + ρθ."""
        self.slow.flat.lerp_(self.q.flat, self.target_rate)

    def inputs(self, batch: Transitions) -> Tensor:
        """Return the inputs of the Q networks, (…, d)."""
        return batch["states" if self.discrete else "pairs"]

    def at_logged(self, values: Tensor, actions: Tensor) -> Tensor:
        """Return the entries of values (…, n, out) at logged actions (…, n, q), (…, n)."""
        if not self.discrete:
            return values.squeeze(-1)
        return values.gather(-1, actions.long().expand(*values.shape[:-1], 1)).squeeze(-1)

    def regress(self, batch: Transitions, after: Tensor) -> None:
        """Write the gradient of Q's regression on r + γ(1 − terminal)·after, (K or M, B)."""
        target = torch.addcmul(batch.column("rewards"), batch.column("discounts"), after)
        shape = (self.twins, self.members, *self._inputs.shape[1:])
        self._inputs.view(shape).copy_(self.inputs(batch))
        outputs = self._training.forward(self._inputs)
        predicted = self.at_logged(outputs.view(*shape[:3], -1), batch["actions"])  # (T, K, B)
        self._error = predicted - target
        gradient = error_gradient(self._error, self.huber).unsqueeze(-1)
        if self.discrete:
            logged = batch["actions"].long().expand_as(gradient)
            gradient = torch.zeros(*shape[:3], outputs.shape[-1], device=outputs.device).scatter_(
                -1, logged, gradient
            )
        self._training.backward(gradient.reshape(len(outputs), self.batch, -1))

    def spread(self, rows: Tensor) -> Tensor:
        """Return rows (M, B, w) unchanged or, with a backup, as (1, M·B, w) for all members."""
        return rows if self.backup is None else rows.reshape(1, -1, rows.shape[-1])

    def slow_values(self, inputs: Tensor) -> Tensor:
        """Return each member's smallest target Q at inputs (M, B, d), (K, B or M·B, out)."""
        given = self.spread(inputs)
        outputs = self._looking.forward(
            given.expand(self.members, *given.shape[1:]).repeat(self.twins, 1, 1)
        )
        return outputs.view(self.twins, self.members, *outputs.shape[1:]).amin(0)

    def agreed(self, values: Tensor) -> Tensor:
        """Return values (K, B) unchanged or, with a backup, aggregate (K, M·B) to (M, B)."""
        if self.backup is None:
            return values
        living = values if bool(self.alive.all()) else values[self.alive]
        return reduce(self.backup, living).view(-1, self.batch)

    def every_slow(self, batch: Transitions) -> Tensor:
        """Return all target Q at logged rows (M, m), (T, K, m)."""
        inputs = self.inputs(batch)
        values = self.slow(inputs[0] if len(inputs) == 1 else inputs.repeat(self.twins, 1, 1)).view(
            self.twins, self.members, inputs.shape[1], -1
        )
        return self.at_logged(values, batch["actions"])

    def probe(self) -> Tensor:
        """Return every member's Q at the monitored rows, (K, m)."""
        return self.every_slow(self.table.gather(self._watched.view(1, -1))).amin(0)

    def measure(self, steps: int) -> dict[str, FloatArray]:
        """Return time constants, steps · ρ · (1 − γ), and each member's mean value."""
        clock = steps * self.target_rate / (self.group.horizon * self.group.settings.delay)
        return {"time constants": np.array([clock]), **self.mean_values()}

    def mean_values(self) -> dict[str, FloatArray]:
        """Return each member's mean value in the log's unit, and quantities to compare it with."""
        return {"mean value": self.probe().mean(1).cpu().numpy() / self.group.scaling.reward_scale}

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's loss by member, (K,)."""
        return {"q loss": error_loss(self._error, self.huber).mean(0)}

    def health(self) -> Tensor:
        """Return which members' parameters and optimiser states are all finite, (K,)."""
        moments = self.parameters.split(self.adam.second).values()
        stacks = (self.slow, *self.parameters.stacks.values(), *moments)
        return torch.cat([stack.finite().view(-1, self.members) for stack in stacks]).all(0)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**self.adam.tensors("critics"), "slow": self.slow.flat, "alive": self.alive}

    def critics(self) -> NeuralCritics:
        """Return the target networks as critics, with V if there is one."""
        v = self.parameters.stacks.get("v")
        return NeuralCritics(
            self.slow.copy(),
            None if v is None else v.copy(),
            self.twins,
            self.group.scaling,
            self.alive.numpy().copy(),
        )


class FQELearner(CriticLearner):
    """Q_k by regression on r + γ(1 − terminal)·E_π Q_k(s', ·) or, with a backup, its aggregate.

    The transitions contain the policy in the next states: for discrete actions the column
    ``"policy"`` with π(a|s'), for continuous ones ``"next_actions"`` with L drawn actions, of which
    each step uses one, in turn. Next values are clipped to the range that the rewards allow, so that
    critics cannot diverge by extrapolating to actions that the log lacks.
    """

    def __init__(self, group: MemberGroup) -> None:
        super().__init__(group, backup=group.backup, huber=group.settings.huber)
        rewards = group.log.rewards * group.scaling.reward_scale
        each = [rewards[rows] for rows in group.rows[: group.n_draws]]  # with a backup, one for all
        bounds = [[min(0.0, seen.min()), max(0.0, seen.max())] for seen in each]
        every = torch.tensor(bounds, dtype=torch.float64) * group.horizon
        self.bounds = every.to(self.q.flat).unsqueeze(-1).unbind(1)  # (K, 1) each

    @classmethod
    def prepare(cls, settings: NeuralFQE, task: Task) -> tuple[NeuralFQE, Mapping[str, FloatArray]]:
        """Return settings, and the policy's actions in the next states.

        With automatic scaling, values instead of rewards are of order one, which networks learn
        faster. Not for IQL, SQL and Huber losses, whose settings are in units of scaled reward.
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


class ImplicitLearner(CriticLearner):
    """Q_k and V_k of K members: V by IQL's or SQL's loss, Q by regression on r + γ(1 − terminal)V(s').

    All gradients of a step are evaluated at the old parameters, so that one optimiser step updates Q
    and V. With a `backup`, both targets use aggregate_k Q_k(s, a) and aggregate_k V_k(s').
    """

    def __init__(self, group: MemberGroup) -> None:
        settings, backup = group.settings, group.backup
        states = group.transitions["states"].shape[1]
        shape = Shape(len(group.seeds), (states, *settings.hidden, 1))
        super().__init__(
            group, backup=backup, twins=settings.twins, huber=settings.huber, others={"v": shape}
        )
        self.settings = settings
        self.v = self.parameters.stacks["v"]
        initialise(self.v, group.seeds, stream=3)
        self._values = Pass(self.v, 2 * self.batch, self.parameters.gradients["v"])
        self._after = Pass(self.v, self.rows) if self.rows > self.batch else None
        self._states = self.v.flat.new_empty(self.members, 2 * self.batch, states)
        self._last = (self._error, self._error)
        self._recorded = _Recorded(group)

    def gradients(self, step: int) -> None:
        """Write the gradient of every parameter at this step's batch."""
        batch = self.table.gather(self.draws(step))
        rows = self.batch
        self._states[:, :rows].copy_(batch["states"])
        self._states[:, rows:].copy_(batch["next_states"])
        values = self._values.forward(self._states).squeeze(-1)  # (K, 2B)
        value, after = values[:, :rows], values[:, rows:]
        slow = self.at_logged(self.slow_values(self.inputs(batch)), self.spread(batch["actions"]))
        advantage = self.agreed(slow) - value  # (K, B)
        self.regress(batch, self._agreed_after(batch, after))
        self._values.backward(self.settings.value_gradient(advantage).unsqueeze(-1))
        self._last = (advantage, value)

    def _agreed_after(self, batch: Transitions, after: Tensor) -> Tensor:
        if self._after is not None:
            everywhere = self.spread(batch["next_states"]).expand(self.members, -1, -1)
            after = self._after.forward(everywhere).squeeze(-1)
        return self.agreed(after)

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's losses by member, (K,)."""
        return {**super().metrics(), "v loss": self.settings.value_loss(*self._last)}

    def mean_values(self) -> dict[str, FloatArray]:
        """Return mean V, mean logged return, and the loss of V from taking the smaller Q."""
        seen, unit = self._recorded, self.group.scaling.reward_scale
        every = self.every_slow(self.table.gather(seen.rows))  # (T, K, m)
        gap = (every.mean(0) - every.amin(0)).mean(1).cpu().numpy()
        values = self.v(self.table["states"][seen.rows]).squeeze(-1).cpu().numpy()
        after = self.v(self.table["next_states"][seen.ends]).squeeze(-1).cpu().numpy()
        return {
            "mean value": (values - seen.carried * after).mean(axis=1) / unit,
            "logged return": seen.returns.mean(axis=1),
            # V is too low by the gap at every future step, and Q inherits the error of V.
            "pessimism": gap * seen.ahead.mean(axis=1) / unit,
        }


class _Recorded:
    """Logged returns from some rows of each member, (K, m) each.

    Attributes
    ----------
    rows, ends
        The rows, and the last row of each row's episode.
    returns, carried
        The discounted logged return from each row on, and the weight γʰ of the value after the last
        logged step, 0 if the episode terminated.
    ahead
        Σ γᵗ over the logged steps from each row on: the return of one unit per step.
    """

    def __init__(self, group: MemberGroup) -> None:
        log, gamma, rows = group.log, group.gamma, group.own_watched
        ends = (log.starts[1:] - 1)[log.episode_of_row[rows]]
        left = ends - rows + 1
        device = group.settings.run.device
        self.rows, self.ends = (torch.from_numpy(each).to(device) for each in (rows, ends))
        self.returns = returns_to_go(log, gamma)[rows] * (not group.settings.zero_rewards)
        self.carried = np.where(log.terminated[ends], 0.0, gamma**left)
        self.ahead = left.astype(float) if gamma == 1 else (1 - gamma**left) / (1 - gamma)
