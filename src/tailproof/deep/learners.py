"""Learners of K members at once: neural FQE, IQL and SQL, SAC-N and TD3+BC, weighted imitation.

Every loss is a function of stacked parameters; autograd and one Adam step per update do the rest.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from tailproof.arrays import FloatArray
from tailproof.deep.bases import SAC, TD3BC, ActorCritic, Implicit, NeuralFQE
from tailproof.deep.critics import LOG_STD, NeuralCritics, NeuralPolicy, split_policies
from tailproof.deep.data import Scaling, Transitions, normal_draws, row_draws
from tailproof.deep.history import returns_to_go
from tailproof.deep.losses import (
    cloned_policy_loss,
    cross_entropy_loss,
    error_loss,
    likelihood_loss,
    reduce,
    regression_loss,
    soft_policy_loss,
    squashed_log_density,
)
from tailproof.deep.settings import DeepSettings, Imitation
from tailproof.deep.stack import Adam, Shape, Stack, cosine, finite
from tailproof.deep.training import Learner, compiled
from tailproof.errors import MethodError
from tailproof.log.log import Log
from tailproof.robust.aggregates import Aggregate, Mean

if TYPE_CHECKING:
    from tailproof.deep.fitting import MemberGroup


class CriticLearner(Learner):
    """T·K Q-functions trained by regression; the value of member k is the smallest of its T.

    Network t·K + k is the t-th of member k. Targets come from the member's own target networks or, with
    a `backup`, from the aggregate over all members that have not diverged.

    Parameters
    ----------
    huber
        Threshold of the Huber loss; None for squared errors.
    others
        Further networks that the same optimiser trains; the first is V.
    """

    def __init__(
        self,
        group: MemberGroup,
        *,
        backup: Aggregate | None,
        twins: int = 1,
        huber: float | None = None,
        others: Sequence[Stack] = (),
    ) -> None:
        settings, n_actions = group.settings, group.scaling.n_actions
        self.group, self.table, self.draws = group, group.transitions, group.draws
        self.backup, self.twins, self.huber = backup, twins, huber
        self.members, self.batch = len(group.seeds), settings.batch
        self.alive, self.limits = torch.ones(self.members, dtype=torch.bool), group.limits
        self.discrete, self.target_rate = n_actions is not None, group.target_rate
        inputs = self.inputs(self.table).shape[1]
        shape = Shape(twins * self.members, (inputs, *settings.hidden, n_actions or 1))
        self.q = Stack.random(shape, group.seeds, stream=2, device=settings.run.device)
        self.target_q = self.q.copy()
        self.others, networks = others, (self.q, *others)
        parameters = [part for stack in networks for part in stack.parameters]
        self.adam = Adam(parameters, settings.learning_rate)
        #: Rows at which every member is evaluated: its own, or all members' with a backup.
        self.rows = self.batch * (1 if backup is None else group.n_draws)
        self._losses = compiled(self.losses, settings.run)
        self._living: Tensor | None = (
            None  # indices of the members that have not diverged, if fewer
        )

    def update(self, step: int) -> None:
        """Take one gradient step."""
        batch = self.table.gather(self.draws(step))
        self.descend(self._losses(batch, self.next_inputs(batch, step)))
        self.follow()

    def losses(self, batch: Transitions, following: Tensor) -> dict[str, Tensor]:
        """Return the losses by name, (…, K) each; `following` are the inputs of the next step."""
        raise NotImplementedError

    def next_inputs(self, batch: Transitions, step: int) -> Tensor:  # noqa: ARG002
        """Return the networks' inputs after the transitions, (M, B, d)."""
        return batch["next_states"]

    def descend(self, losses: dict[str, Tensor]) -> None:
        """Take one optimiser step on the sum of the losses, and keep them as metrics."""
        self.adam.minimise(torch.cat([loss.reshape(-1) for loss in losses.values()]).sum())
        self.metrics = {
            name: loss.detach().view(-1, self.members).mean(0) for name, loss in losses.items()
        }

    def follow(self) -> None:
        """Update the target networks: θ̄ ← (1 − ρ)θ̄ + ρθ."""
        self.target_q.flat.lerp_(self.q.flat, self.target_rate)

    def mark(self, alive: Tensor) -> None:
        """Leave members that have diverged out of the common backup."""
        super().mark(alive)
        self._living = None if bool(alive.all()) else alive.nonzero()[:, 0].to(self.q.flat.device)

    def inputs(self, batch: Transitions) -> Tensor:
        """Return the inputs of the Q networks, (…, d)."""
        return batch["states" if self.discrete else "pairs"]

    def at_logged(self, values: Tensor, actions: Tensor) -> Tensor:
        """Return the entries of values (…, n, out) at logged actions (…, n, q), (…, n)."""
        if not self.discrete:
            return values.squeeze(-1)
        return values.gather(-1, actions.long().expand(*values.shape[:-1], 1)).squeeze(-1)

    def all_twins(self, stack: Stack, inputs: Tensor) -> Tensor:
        """Return every network at inputs (1 or K, n, d), (T, K, n, out)."""
        each = inputs.expand(self.members, *inputs.shape[1:])
        outputs = stack(each.repeat(self.twins, 1, 1))
        return outputs.view(self.twins, self.members, *outputs.shape[1:])

    def q_loss(self, batch: Transitions, after: Tensor) -> Tensor:
        """Return the loss of Q's regression on r + γ(1 − terminal)·after (K or M, B), (T, K)."""
        target = torch.addcmul(batch.column("rewards"), batch.column("discounts"), after)
        every = self.all_twins(self.q, self.inputs(batch))
        return error_loss(self.at_logged(every, batch["actions"]) - target, self.huber)

    def for_backup(self, rows: Tensor) -> Tensor:
        """Return rows (M, B, w) unchanged or, with a backup, as (1, M·B, w) for all members."""
        return rows if self.backup is None else rows.reshape(1, -1, rows.shape[-1])

    def target_values(self, inputs: Tensor) -> Tensor:
        """Return each member's smallest target Q at inputs (M, B, d), (K, B or M·B, out)."""
        return self.all_twins(self.target_q, self.for_backup(inputs)).amin(0)

    def combine(self, values: Tensor) -> Tensor:
        """Return values (K, B) unchanged or, with a backup, aggregate (K, M·B) to (M, B)."""
        if self.backup is None:
            return values
        living = values if self._living is None else values[self._living]
        return reduce(self.backup, living).view(-1, self.batch)

    def logged_values(self, rows: Tensor) -> Tensor:
        """Return all target Q at logged rows (1 or K, m), (T, K, m)."""
        batch = self.table.gather(rows)
        return self.at_logged(self.all_twins(self.target_q, self.inputs(batch)), batch["actions"])

    def probe(self) -> Tensor:
        """Return every member's Q at the monitored rows, (K, m)."""
        return self.logged_values(self.group.probe_rows.view(1, -1)).amin(0)

    def measure(self, steps: int) -> dict[str, FloatArray]:
        """Return time constants, steps · ρ · (1 − γ), and each member's mean value."""
        clock = steps * self.target_rate / (self.group.horizon * self.group.settings.delay)
        return {"time constants": np.array([clock]), **self.mean_values()}

    def mean_values(self) -> dict[str, FloatArray]:
        """Return each member's mean value in the log's unit, and quantities to compare it with."""
        return {"mean value": self.probe().mean(1).cpu().numpy() / self.group.scaling.reward_scale}

    def health(self) -> Tensor:
        """Return which members' parameters and optimiser states are all finite, (K,)."""
        parts = (*self.target_q.parameters, *self.adam.parameters, *self.adam.second)
        return finite(parts, self.members)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**self.adam.tensors("critics"), "target q": self.target_q.flat, "alive": self.alive}

    def critics(self) -> NeuralCritics:
        """Return the target networks as critics, with V if the learner has one."""
        v = self.others[0].copy() if self.others else None
        alive = self.alive.numpy().copy()
        return NeuralCritics(self.target_q.copy(), v, self.twins, self.group.scaling, alive)


class FQELearner(CriticLearner):
    """Q_k by regression on r + γ(1 − terminal)·E_π Q_k(s', ·) or, with a backup, its aggregate.

    The transitions contain the policy in the next states: for discrete actions the column
    ``"policy"`` with π(a|s'), for continuous ones ``"next_actions"`` with L drawn actions, of which
    each step uses one, in turn. Next values are clipped to the range that the rewards allow, so that
    critics cannot diverge by extrapolating to actions that the log lacks.
    """

    def __init__(self, group: MemberGroup, settings: NeuralFQE) -> None:
        super().__init__(group, backup=group.backup, huber=settings.huber)
        rewards = group.log.rewards * group.scaling.reward_scale
        each = [rewards[rows] for rows in group.rows[: group.n_draws]]  # with a backup, one for all
        bounds = [[min(0.0, seen.min()), max(0.0, seen.max())] for seen in each]
        every = torch.tensor(bounds, dtype=torch.float64) * group.horizon
        self.low, self.high = every.to(self.q.flat).unsqueeze(-1).unbind(1)  # (K, 1) each

    def next_inputs(self, batch: Transitions, step: int) -> Tensor:
        """Return the next states, with one of the drawn actions if actions are continuous."""
        states = batch["next_states"]
        if self.discrete:
            return states
        every, width = batch["next_actions"], batch["actions"].shape[-1]
        start = step % (every.shape[-1] // width) * width
        return torch.cat([every[..., start : start + width], states], dim=-1)

    def losses(self, batch: Transitions, following: Tensor) -> dict[str, Tensor]:
        """Return the loss of Q, (T, K)."""
        with torch.no_grad():
            after = self.target_values(following)
            if self.discrete:
                after = after * self.for_backup(batch["policy"])
            after = self.combine(after.sum(-1)).clamp(self.low, self.high)
        return {"q loss": self.q_loss(batch, after)}


class ImplicitLearner(CriticLearner):
    """Q_k and V_k of K members: V by IQL's or SQL's loss, Q by regression on r + γ(1 − terminal)V(s').

    All gradients of a step are evaluated at the old parameters, so that one optimiser step updates Q
    and V. With a `backup`, both targets use aggregate_k Q_k(s, a) and aggregate_k V_k(s').
    """

    def __init__(self, group: MemberGroup, settings: Implicit) -> None:
        self.settings = settings
        widths = (group.transitions["states"].shape[1], *settings.hidden, 1)
        shape = Shape(len(group.seeds), widths, settings.layer_norm)
        self.v = Stack.random(shape, group.seeds, stream=3, device=settings.run.device)
        super().__init__(
            group,
            backup=group.backup,
            twins=settings.twins,
            huber=settings.huber,
            others=[self.v],
        )
        self._returns = _LoggedReturns(group)

    def losses(self, batch: Transitions, following: Tensor) -> dict[str, Tensor]:
        """Return the losses of Q, (T, K), and V, (K,)."""
        with torch.no_grad():
            q = self.target_values(self.inputs(batch))
            q = self.combine(self.at_logged(q, self.for_backup(batch["actions"])))
            after = self.combine(self.state_values(self.for_backup(following)))
        value = self.state_values(batch["states"])
        return {
            "q loss": self.q_loss(batch, after),
            "v loss": self.settings.value_loss(q - value, value),
        }

    def state_values(self, states: Tensor) -> Tensor:
        """Return V_k(s) at states (1 or K, n, p), (K, n)."""
        return self.v(states.expand(self.members, *states.shape[1:])).squeeze(-1)

    def mean_values(self) -> dict[str, FloatArray]:
        """Return mean V, mean logged return, and the loss of V from taking the smaller Q."""
        logged, unit = self._returns, self.group.scaling.reward_scale
        every = self.logged_values(logged.rows)  # (T, K, m)
        gap = (every.mean(0) - every.amin(0)).mean(1).cpu().numpy()
        values = self.state_values(self.table["states"][logged.rows]).cpu().numpy()
        after = self.state_values(self.table["next_states"][logged.ends]).cpu().numpy()
        return {
            "mean value": (values - logged.carried * after).mean(axis=1) / unit,
            "logged return": logged.returns.mean(axis=1),
            # V is too low by the gap at every future step, and Q inherits the error of V.
            "pessimism": gap * logged.ahead.mean(axis=1) / unit,
        }


class _LoggedReturns:
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
        log, gamma, rows = group.log, group.gamma, group.return_rows
        ends = (log.starts[1:] - 1)[log.episode_of_row[rows]]
        left = ends - rows + 1
        device = group.settings.run.device
        self.rows, self.ends = (torch.from_numpy(each).to(device) for each in (rows, ends))
        self.returns = returns_to_go(log, gamma)[rows] * (not group.settings.zero_rewards)
        self.carried = np.where(log.terminated[ends], 0.0, gamma**left)
        self.ahead = left.astype(float) if gamma == 1 else (1 - gamma**left) / (1 - gamma)


class ActorCriticLearner(CriticLearner):
    """Critics regress on r + γ(1 − terminal)(aggregate_k Q_k(s', a') − …); the policy maximises them.

    The policy's objective uses the same aggregate (min over N for SAC-N, mean − 2·std for SAC-N
    (STD)). The policy and the target networks are updated every `delay` steps.
    """

    backup: Aggregate

    def __init__(self, group: MemberGroup, settings: ActorCritic) -> None:
        super().__init__(group, backup=group.backup or Mean(), twins=settings.twins)
        self.delay, self.width = settings.delay, group.scaling.action_width
        self.actor = SoftActor(group, settings) if isinstance(settings, SAC) else ClonedActor(group)
        shape = (2, self.rows, self.width)
        self.normals = normal_draws(group.seeds[0], shape, settings.run.device)
        self._fixed_q = self.q.fixed()
        self._policy_losses = compiled(partial(self.actor.losses, self.judge), settings.run)

    def update(self, step: int) -> None:
        """Take one gradient step of the critics, and every `delay` steps one of the policy."""
        batch = self.table.gather(self.draws(step))
        noise = self.normals(step)
        self.descend(self._losses(batch, noise[0]))
        if step % self.delay == 0:
            states, logged = (batch[name].flatten(0, 1) for name in ("states", "actions"))
            self.actor.descend(self._policy_losses(states, noise[1], logged))
            self.follow()
        self.metrics = {**self.metrics, **self.actor.metrics}

    def losses(self, batch: Transitions, following: Tensor) -> dict[str, Tensor]:
        """Return the loss of Q, (1, K); `following` is the noise of the policy's next actions."""
        with torch.no_grad():
            states = batch["next_states"]
            action, cost = self.actor.next_actions(states.flatten(0, 1), following)
            pairs = torch.cat([action.view(*states.shape[:2], -1), states], dim=-1)
            after = self.combine(self.target_values(pairs).squeeze(-1)) - cost.view(-1, self.batch)
        return {"q loss": self.q_loss(batch, after)}

    def judge(self, action: Tensor, states: Tensor) -> Tensor:
        """Return the aggregate of Q over living members at actions (R, q) in states (R, p), (R,)."""
        networks, members = self._fixed_q, self.members
        if self._living is not None:  # through diverged members, gradients are NaN
            living, members = self._living.tolist(), len(self._living)
            networks = networks.members(
                [t * self.members + k for t in range(self.twins) for k in living]
            )
        pairs = torch.cat([action, states], dim=-1)
        values = networks(pairs).view(self.twins, members, -1).amin(0)  # (K, R)
        return reduce(self.backup, values)

    def policies(self) -> Sequence[NeuralPolicy]:
        """Return the policy that maximises the critics."""
        return split_policies(self.actor.stack, self.group.scaling, self.actor.kind)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**super().tensors(), **self.actor.tensors()}


def learner_of(group: MemberGroup) -> CriticLearner:
    """Return the learner of a group of members, by the base that they train."""
    settings = group.settings
    if isinstance(settings, Implicit):
        return ImplicitLearner(group, settings)
    if isinstance(settings, ActorCritic):
        return ActorCriticLearner(group, settings)
    if isinstance(settings, NeuralFQE):
        return FQELearner(group, settings)
    raise MethodError(f"{type(settings).__name__} has no learner.")


#: The aggregate of Q at actions (R, q) in states (R, p), (R,).
Judge = Callable[[Tensor, Tensor], Tensor]


class Actor(ABC):
    """A policy network that is trained by the critics' gradient.

    Parameters
    ----------
    outputs
        Network outputs per entry of the action.
    """

    kind: str  # of the resulting policy
    measured: tuple[str, ...] = ("policy loss",)

    def __init__(self, group: MemberGroup, outputs: int = 1) -> None:
        settings, scaling = group.settings, group.scaling
        widths = (len(scaling.state_mean), *settings.hidden, outputs * scaling.action_width)
        seeds, device = group.seeds[:1], settings.run.device
        self.stack = Stack.random(Shape(1, widths), seeds, stream=4, device=device)
        self.adam = Adam(self.stack.parameters, settings.learning_rate)
        #: Of the last update, which need not be the last step; saved, so that a history resumes.
        self.metrics = {name: torch.zeros(1, device=device) for name in self.measured}

    @abstractmethod
    def next_actions(self, states: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions in the next states, (R, q), and what the backup subtracts, (R,)."""

    @abstractmethod
    def losses(
        self, judge: Judge, states: Tensor, noise: Tensor, logged: Tensor
    ) -> dict[str, Tensor]:
        """Return the ``"policy loss"`` and other metrics, (1,) each."""

    def descend(self, losses: dict[str, Tensor]) -> None:
        """Take one optimiser step, and keep the metrics."""
        self.adam.minimise(losses["policy loss"].sum())
        for name, value in losses.items():
            self.metrics[name].copy_(value.detach())

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        metrics = {f"metric.{name}": value for name, value in self.metrics.items()}
        return {**self.adam.tensors("policy"), **metrics}


def squash(outputs: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
    """Return a squashed Gaussian's actions a = tanh(μ + σε), (R, q), and log π(a), (R,).

    μ and log σ are a network's outputs, (R, 2q), and ε standard normals, (R, q).
    """
    mean, log_std = outputs.chunk(2, dim=-1)
    log_std = log_std.clamp(*LOG_STD)
    raw = mean + log_std.exp() * noise
    return raw.tanh(), squashed_log_density(raw, noise, log_std)


class SoftActor(Actor):
    """SAC's policy a = tanh(μ(s) + σ(s)ε), with an entropy bonus of adaptive temperature.

    The temperature is adapted to keep the entropy of the policy near `target_entropy`.
    """

    kind = "gaussian"
    measured = ("policy loss", "entropy", "temperature")

    def __init__(self, group: MemberGroup, settings: SAC) -> None:
        super().__init__(group, outputs=2)
        target = settings.target_entropy
        self.target_entropy = -float(group.scaling.action_width) if target is None else target
        start = self.stack.flat.new_full((1,), settings.temperature).log_()
        self.log_temperature = start.requires_grad_()
        self.adam_temperature = Adam([self.log_temperature], settings.learning_rate)

    def next_actions(self, states: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions in the next states and their α·log π."""
        action, log_density = squash(self.stack(states)[0], noise)
        return action, self.log_temperature.exp() * log_density

    def losses(
        self,
        judge: Judge,
        states: Tensor,
        noise: Tensor,
        logged: Tensor,  # noqa: ARG002
    ) -> dict[str, Tensor]:
        """Return the policy's loss and its entropy."""
        action, log_density = squash(self.stack(states)[0], noise)
        value, temperature = judge(action, states), self.log_temperature.exp().detach()
        return {
            "policy loss": soft_policy_loss(log_density, value, temperature).view(1),
            "entropy": -log_density.detach().mean().view(1),
        }

    def descend(self, losses: dict[str, Tensor]) -> None:
        """Take one step of the policy, then one of the temperature."""
        super().descend(losses)
        excess = self.metrics["entropy"] - self.target_entropy
        self.adam_temperature.minimise((self.log_temperature * excess).sum())
        self.metrics["temperature"].copy_(self.log_temperature.detach().exp())

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**super().tensors(), **self.adam_temperature.tensors("temperature")}


class ClonedActor(Actor):
    """TD3+BC's policy: maximises normalised Q minus the squared distance to the logged actions.

    See Fujimoto & Gu (2021). The backup uses a target policy with clipped noise on its actions.
    """

    kind = "deterministic"

    def __init__(self, group: MemberGroup) -> None:
        super().__init__(group)
        assert isinstance(group.settings, TD3BC)
        self.settings, self.target_rate = group.settings, group.target_rate
        self.target = self.stack.copy()

    def next_actions(self, states: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return the target policy's actions in the next states, with noise."""
        action = self.target(states)[0].tanh()
        limit = self.settings.noise_limit
        blurred = (action + (self.settings.noise * noise).clamp(-limit, limit)).clamp(-1, 1)
        return blurred, torch.zeros_like(blurred[:, 0])

    def losses(
        self,
        judge: Judge,
        states: Tensor,
        noise: Tensor,  # noqa: ARG002
        logged: Tensor,
    ) -> dict[str, Tensor]:
        """Return the policy's loss."""
        action = self.stack(states)[0].tanh()
        value = judge(action, states)
        loss = cloned_policy_loss(action, logged, value, self.settings.alpha)
        return {"policy loss": loss.view(1)}

    def descend(self, losses: dict[str, Tensor]) -> None:
        """Take one step of the policy, then update the target policy."""
        super().descend(losses)
        self.target.flat.lerp_(self.stack.flat, self.target_rate)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**super().tensors(), "target policy": self.target.flat}


class ImitationLearner(Learner):
    """P policies that imitate the same rows with different weights, (P, n).

    Continuous actions: π(s) = tanh of a network, by squared error or, if `likelihood`, by the
    likelihood of a normal distribution with this mean. Discrete actions: a softmax, by likelihood.
    The learning rate follows a cosine.
    """

    def __init__(
        self,
        settings: DeepSettings,
        imitation: Imitation,
        log: Log,
        scaling: Scaling,
        weights: FloatArray,
        *,
        seed: int,
    ) -> None:
        device = settings.run.device
        self.imitation, self.scaling = imitation, scaling
        self.discrete = scaling.n_actions is not None
        self.likelihood = imitation.likelihood and not self.discrete
        self.table = Transitions.of(log, scaling, 0.0, settings, {"weights": weights.T})
        self.draws = row_draws([np.arange(log.n_transitions)], [seed], settings.batch, device)
        self.members = len(weights)
        self.alive = torch.ones(self.members, dtype=torch.bool)
        outputs = scaling.n_actions or scaling.action_width
        shape = Shape(self.members, (len(scaling.state_mean), *imitation.hidden, outputs))
        # One seed for all: the policies differ only in their imitation weights.
        self.stack = Stack.random(shape, [seed] * self.members, stream=4, device=device)
        # One standard deviation per entry of the action, the same in all states.
        self.log_std = self.stack.flat.new_zeros(self.members, 1, outputs).requires_grad_()
        trained = [*self.stack.parameters, *([self.log_std] if self.likelihood else [])]
        self.adam = Adam(trained, settings.learning_rate)
        self._loss = compiled(self.loss, settings.run)

    def update(self, step: int) -> None:
        """Take one gradient step."""
        loss = self._loss(self.table.gather(self.draws(step)))
        self.adam.minimise(loss.sum(), rate=cosine(step, self.imitation.cosine))
        with torch.no_grad():
            self.log_std.clamp_(*LOG_STD)
        self.metrics = {"policy loss": loss.detach()}

    def loss(self, batch: Transitions) -> Tensor:
        """Return the loss of each policy on a batch, (P,)."""
        outputs = self.stack(batch["states"].expand(self.members, -1, -1))
        weight = batch["weights"][0].t()  # (P, B)
        if self.discrete:
            logged = batch.column("actions").long().expand(self.members, -1)
            return cross_entropy_loss(outputs, logged, weight)
        action = outputs.tanh() if self.imitation.squash else outputs
        if self.likelihood:
            return likelihood_loss(action, batch["actions"], weight, self.log_std)
        return regression_loss(action, batch["actions"], weight)

    def policies(self) -> Sequence[NeuralPolicy]:
        """Return the P policies."""
        continuous = "deterministic" if self.imitation.squash else "clipped"
        kind = "categorical" if self.discrete else continuous
        return split_policies(self.stack, self.scaling, kind)

    def health(self) -> Tensor:
        """Return which policies' parameters are all finite, (P,)."""
        return finite(self.stack.parameters, self.members)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**self.adam.tensors("policy"), "alive": self.alive}
