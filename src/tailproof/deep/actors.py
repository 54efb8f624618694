"""Policies that climb a critic: SAC's squashed Gaussian, and TD3+BC's, which also clones."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor

from tailproof.deep.critics import LOG_STD
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


class Actor(ABC):
    """A policy that the critics' gradient moves, one network for R rows per step.

    Parameters
    ----------
    outputs
        Outputs of the network for each entry of the action.
    """

    kind: str  # of the policy that it becomes

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
        """Return actions in the next states, (R, q), and what the backup subtracts for them."""

    @abstractmethod
    def act(self, states: Tensor, noise: Tensor) -> Tensor:
        """Return actions that the critics will judge, (R, q), and remember the way back."""

    @abstractmethod
    def gradients(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:
        """Write all gradients, given Q (R,) and ∂Q/∂a (R, q) at those actions."""

    def improve(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:
        """Take one step, given Q (R,) and ∂Q/∂a (R, q) at those actions."""
        self.gradients(value, by_action, logged)
        self.adam.step()

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's losses."""
        return {"policy loss": self._loss.view(1)}

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return self.adam.tensors("policy")


class Squashed(NamedTuple):
    """A squashed Gaussian's parts at R states: a, log π(a), σε and where log σ is not clipped."""

    action: Tensor
    log_density: Tensor
    deviation: Tensor
    free: Tensor


class SoftActor(Actor):
    """SAC's policy: a = tanh(μ(s) + σ(s)ε), rewarded for entropy with a temperature that adapts.

    The temperature is held so that the entropy of the policy is near `target_entropy`.
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
        """Return actions in the next states and α·log π of them."""
        drawn = squash(self._looking.forward(states.unsqueeze(0))[0], noise)
        return drawn.action, self.log_temperature.exp() * drawn.log_density

    def act(self, states: Tensor, noise: Tensor) -> Tensor:
        """Return actions that the critics will judge, and remember the way back."""
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
    """TD3+BC's policy: climbs Q, normalised, and stays near the logged actions (Fujimoto & Gu, 2021).

    The backup uses a slow copy of the policy, with clipped noise on its action.
    """

    kind = "deterministic"

    def __init__(self, group: MemberGroup, rows: int) -> None:
        super().__init__(group, rows)
        self.target_rate = group.target_rate
        self.slow = self.stack.copy()
        self._looking = Pass(self.slow, rows)
        self._action = self._loss

    def after(self, states: Tensor, noise: Tensor) -> tuple[Tensor, None]:
        """Return the slow policy's actions in the next states, blurred."""
        action = self._looking.forward(states.unsqueeze(0))[0].tanh()
        limit = self.settings.noise_limit
        blur = (self.settings.noise * noise).clamp_(-limit, limit)
        return (action + blur).clamp_(-1, 1), None

    def act(self, states: Tensor, noise: Tensor) -> Tensor:  # noqa: ARG002
        """Return actions that the critics will judge, and remember the way back."""
        self._action = self._training.forward(states.unsqueeze(0))[0].tanh()
        return self._action

    def improve(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:
        """Take one step of the policy; its slow copy follows."""
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
