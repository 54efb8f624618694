"""SAC-N and TD3+BC: K critics with an aggregated backup, and one policy that maximises them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from tailproof.arrays import FloatArray
from tailproof.critics.task import Task
from tailproof.deep.critic_learner import CriticLearner
from tailproof.deep.critics import LOG_STD, NeuralPolicy, split_policies
from tailproof.deep.data import Transitions, normal_draws
from tailproof.deep.fitting import MemberGroup
from tailproof.deep.losses import (
    cloned_policy_gradient,
    cloned_policy_loss,
    soft_policy_gradient,
    soft_policy_loss,
    squashed_log_density,
    temperature_gradient,
)
from tailproof.deep.networks import Adam, Parameters, Pass, Shape, initialise
from tailproof.deep.reductions import derivative, picked, reduce
from tailproof.errors import MethodError
from tailproof.robust.aggregates import Aggregate, Mean


class Actor(ABC):
    """A policy network that is trained by the critics' gradient, on R rows per step.

    Parameters
    ----------
    outputs
        Network outputs per entry of the action.
    """

    kind: str  # of the resulting policy

    def __init__(self, group: MemberGroup, rows: int, outputs: int = 1) -> None:
        self.settings = group.settings
        states, actions = len(group.scaling.state_mean), group.scaling.action_width
        widths = (states, *self.settings.hidden, outputs * actions)
        self.parameters = Parameters({"policy": Shape(1, widths)}, self.settings.run.device)
        self.stack = self.parameters.stacks["policy"]
        initialise(self.stack, group.seeds[:1], stream=4)
        rate = self.settings.learning_rate
        self.adam = Adam(self.parameters.flat, self.parameters.gradient, rate)
        self._training = Pass(self.stack, rows, self.parameters.gradients["policy"])
        self._loss = torch.zeros(1)

    @abstractmethod
    def after(self, states: Tensor, noise: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return actions in the next states, (R, q), and the term that the backup subtracts."""

    @abstractmethod
    def act(self, states: Tensor, noise: Tensor) -> Tensor:
        """Return the policy's actions, (R, q), and keep what the gradient needs."""

    @abstractmethod
    def gradients(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:
        """Write all gradients, given Q (R,) and ∂Q/∂a (R, q) at the actions of `act`."""

    def improve(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:
        """Take one step, given Q (R,) and ∂Q/∂a (R, q) at the actions of `act`."""
        self.gradients(value, by_action, logged)
        self.adam.step()

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's losses."""
        return {"policy loss": self._loss.view(1)}

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return self.adam.tensors("policy")


class Squashed(NamedTuple):
    """A squashed Gaussian at R states: a, log π(a), σε, and where log σ is not clipped."""

    action: Tensor
    log_density: Tensor
    deviation: Tensor
    free: Tensor


class SoftActor(Actor):
    """SAC's policy a = tanh(μ(s) + σ(s)ε), with an entropy bonus of adaptive temperature.

    The temperature is adapted to keep the entropy of the policy near `target_entropy`.
    """

    kind = "gaussian"

    def __init__(self, group: MemberGroup, rows: int) -> None:
        super().__init__(group, rows, outputs=2)
        target = self.settings.target_entropy
        self.target_entropy = -float(group.scaling.action_width) if target is None else target
        self.log_temperature = self.stack.flat.new_full((1,), self.settings.temperature).log_()
        self._by_temperature = torch.zeros_like(self.log_temperature)
        self.adam_temperature = Adam(
            self.log_temperature, self._by_temperature, self.settings.learning_rate
        )
        self._looking = Pass(self.stack, rows)
        self._acted = Squashed(*[self._loss] * 4)

    def after(self, states: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions in the next states and their α·log π."""
        drawn = squash(self._looking.forward(states.unsqueeze(0))[0], noise)
        return drawn.action, self.log_temperature.exp() * drawn.log_density

    def act(self, states: Tensor, noise: Tensor) -> Tensor:
        """Return the policy's actions, and keep what the gradient needs."""
        self._acted = squash(self._training.forward(states.unsqueeze(0))[0], noise)
        return self._acted.action

    def improve(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:
        """Take one step of the policy, then one of the temperature."""
        super().improve(value, by_action, logged)
        self.adam_temperature.step()

    def gradients(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:  # noqa: ARG002
        """Write the gradients of policy and temperature."""
        drawn, temperature = self._acted, self.log_temperature.exp()
        by_mean, by_log_std = soft_policy_gradient(
            drawn.action, drawn.deviation, by_action, temperature
        )
        outputs = torch.cat([by_mean, by_log_std * drawn.free], dim=-1)
        self._training.backward(outputs.unsqueeze(0))
        self._by_temperature.copy_(temperature_gradient(drawn.log_density, self.target_entropy))
        self._loss = soft_policy_loss(drawn.log_density, value, temperature)

    def metrics(self) -> dict[str, Tensor]:
        """Return the policy's loss, its entropy and the temperature."""
        entropy = -self._acted.log_density.mean().view(1)
        temperature = self.log_temperature.exp()
        return {**super().metrics(), "entropy": entropy, "temperature": temperature}

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**super().tensors(), **self.adam_temperature.tensors("temperature")}


def squash(outputs: Tensor, noise: Tensor) -> Squashed:
    """Return the squashed Gaussian of a network's outputs (R, 2q) at standard normals (R, q)."""
    mean, raw = outputs.chunk(2, dim=-1)
    log_std = raw.clamp(*LOG_STD)
    deviation = log_std.exp() * noise
    unsquashed = mean + deviation
    density = squashed_log_density(unsquashed, noise, log_std)
    return Squashed(unsquashed.tanh(), density, deviation, (raw == log_std).to(raw.dtype))


class ClonedActor(Actor):
    """TD3+BC's policy: maximises normalised Q minus the squared distance to the logged actions.

    See Fujimoto & Gu (2021). The backup uses a target policy with clipped noise on its actions.
    """

    kind = "deterministic"

    def __init__(self, group: MemberGroup, rows: int) -> None:
        super().__init__(group, rows)
        self.target_rate = group.target_rate
        self.slow = self.stack.copy()
        self._looking = Pass(self.slow, rows)
        self._action = self._loss

    def after(self, states: Tensor, noise: Tensor) -> tuple[Tensor, None]:
        """Return the target policy's actions in the next states, with noise."""
        action = self._looking.forward(states.unsqueeze(0))[0].tanh()
        limit = self.settings.noise_limit
        blur = (self.settings.noise * noise).clamp_(-limit, limit)
        return (action + blur).clamp_(-1, 1), None

    def act(self, states: Tensor, noise: Tensor) -> Tensor:  # noqa: ARG002
        """Return the policy's actions, and keep what the gradient needs."""
        self._action = self._training.forward(states.unsqueeze(0))[0].tanh()
        return self._action

    def improve(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:
        """Take one step of the policy, then update the target policy."""
        super().improve(value, by_action, logged)
        self.slow.flat.lerp_(self.stack.flat, self.target_rate)

    def gradients(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:
        """Write the gradient of the policy."""
        given, alpha = (self._action, logged, value), self.settings.alpha
        gradient = cloned_policy_gradient(*given, by_action, alpha)
        self._training.backward(gradient.unsqueeze(0))
        self._loss = cloned_policy_loss(*given, alpha)

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**super().tensors(), "slow policy": self.slow.flat}


class ActorCriticLearner(CriticLearner):
    """Critics regress on r + γ(1 − terminal)(aggregate_k Q_k(s', a') − …); the policy maximises them.

    The policy's objective uses the same aggregate (min over N for SAC-N, mean − 2·std for SAC-N
    (STD)). The policy and the target networks are updated every `delay` steps.
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
        """Take one gradient step of the critics, and every `delay` steps one of the policy."""
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
        """Return the aggregate of Q at the policy's actions, ∂Q/∂a, and the logged actions."""
        states = batch["states"].reshape(-1, batch["states"].shape[-1])
        action = self.actor.act(states, noise)
        pairs = torch.cat([action, states], dim=-1)
        every = self._judging.forward(pairs.expand(self.q.shape.count, -1, -1))
        values, twin = every.view(self.twins, self.members, -1).min(0)  # (K, R)
        living = values[self.alive]
        logged = batch["actions"].reshape(-1, self.width)
        return reduce(self.backup, living), self._by_action(living, twin), logged

    def _by_action(self, living: Tensor, twin: Tensor) -> Tensor:
        """Return the derivative of the aggregate over alive members by the actions, (R, q)."""
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
        if not bool(self.alive.all()):  # gradients of diverged members are NaN
            back = back[self.alive.repeat(self.twins)]
        return back.sum(0)

    def policies(self) -> Sequence[NeuralPolicy]:
        """Return the policy that maximises the critics."""
        return split_policies(self.actor.stack, self.group.scaling, self.actor.kind)

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's losses."""
        return {**super().metrics(), **self.actor.metrics()}

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**super().tensors(), **self.actor.tensors()}
