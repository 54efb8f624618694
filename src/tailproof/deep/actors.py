"""Policies that climb a critic: SAC's squashed Gaussian, and TD3+BC's, which also clones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from tailproof.deep.adam import Adam
from tailproof.deep.losses import (
    cloned_policy_gradient,
    cloned_policy_loss,
    soft_policy_gradient,
    soft_policy_loss,
    squashed_log_density,
    temperature_gradient,
)
from tailproof.deep.networks import Parameters, Pass, Shape, initial_values
from tailproof.deep.qfunctions import generators

LOG_STD = (-5.0, 2.0)  # beyond these a squashed Gaussian is a constant, or a coin


class Actor(Protocol):
    """A policy that the critics' gradient moves."""

    parameters: Parameters

    def after(self, states: Tensor, noise: Tensor) -> tuple[Tensor, Tensor | None]:
        """Return actions in the next states, (R, q), and what the backup subtracts for them."""

    def act(self, states: Tensor, noise: Tensor) -> Tensor:
        """Return actions that the critics will judge, (R, q), and remember the way back."""

    def improve(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:
        """Take one step, given Q (R,) and ∂Q/∂a (R, q) at those actions."""

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's losses."""

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""


@dataclass(frozen=True)
class Gaussian:
    """A squashed Gaussian's parts at R states: a, log π(a), σε and where log σ is not clipped."""

    action: Tensor
    log_density: Tensor
    deviation: Tensor
    free: Tensor


class SoftActor:
    """SAC's policy: a = tanh(μ(s) + σ(s)ε), rewarded for entropy with a temperature that adapts.

    The temperature is held so that the entropy of the policy is near `target_entropy`.
    """

    def __init__(
        self,
        states: int,
        actions: int,
        seed: int,
        rows: int,
        *,
        hidden: Sequence[int],
        learning_rate: float,
        target_entropy: float,
        temperature: float,
        device: str = "cpu",
    ) -> None:
        self.target_entropy = target_entropy
        self.parameters = Parameters({"policy": Shape(1, (states, *hidden, 2 * actions))}, device)
        self.stack = self.parameters.stacks["policy"]
        start = initial_values(self.stack.shape, generators([seed], 1, 4))
        self.stack.flat.copy_(torch.from_numpy(start))
        self._looking = Pass(self.stack, rows)
        self._training = Pass(self.stack, rows, self.parameters.gradients["policy"])
        self.log_temperature = torch.full((1,), temperature, device=device).log_()
        self._by_temperature = torch.zeros_like(self.log_temperature)
        self.adam = Adam(self.parameters.flat, self.parameters.gradient, learning_rate)
        self.adam_temperature = Adam(self.log_temperature, self._by_temperature, learning_rate)
        self._acted: Gaussian | None = None
        self._loss = torch.zeros(1)

    def after(self, states: Tensor, noise: Tensor) -> tuple[Tensor, Tensor]:
        """Return actions in the next states and α·log π of them."""
        drawn = squash(self._looking.forward(states.unsqueeze(0))[0], noise)
        return drawn.action, self.log_temperature.exp() * drawn.log_density

    def act(self, states: Tensor, noise: Tensor) -> Tensor:
        """Return actions that the critics will judge, and remember the way back."""
        self._acted = squash(self._training.forward(states.unsqueeze(0))[0], noise)
        return self._acted.action

    def improve(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:  # noqa: ARG002
        """Take one step of the policy, then one of the temperature."""
        self.gradients(value, by_action)
        self.adam.step()
        self.adam_temperature.step()

    def gradients(self, value: Tensor, by_action: Tensor) -> None:
        """Write the gradients of policy and temperature."""
        assert self._acted is not None
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
        assert self._acted is not None
        return {
            "policy loss": self._loss.view(1),
            "entropy": -self._acted.log_density.mean().view(1),
            "temperature": self.log_temperature.exp(),
        }

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**self.adam.tensors("policy"), **self.adam_temperature.tensors("temperature")}


def squash(outputs: Tensor, noise: Tensor) -> Gaussian:
    """Return the squashed Gaussian of a network's outputs (R, 2q) at standard normals (R, q)."""
    mean, raw = outputs.chunk(2, dim=-1)
    log_std = raw.clamp(*LOG_STD)
    deviation = log_std.exp() * noise
    unsquashed = mean + deviation
    density = squashed_log_density(unsquashed, noise, log_std)
    return Gaussian(unsquashed.tanh(), density, deviation, (raw == log_std).to(raw.dtype))


class ClonedActor:
    """TD3+BC's policy: climbs Q, normalised, and stays near the logged actions (Fujimoto & Gu, 2021).

    The backup asks a slow copy of the policy, with clipped noise on its action.
    """

    def __init__(
        self,
        states: int,
        actions: int,
        seed: int,
        rows: int,
        *,
        hidden: Sequence[int],
        learning_rate: float,
        target_rate: float,
        alpha: float,
        noise: float,
        noise_limit: float,
        device: str = "cpu",
    ) -> None:
        self.alpha, self.noise, self.noise_limit = alpha, noise, noise_limit
        self.target_rate = target_rate
        self.parameters = Parameters({"policy": Shape(1, (states, *hidden, actions))}, device)
        self.stack = self.parameters.stacks["policy"]
        start = initial_values(self.stack.shape, generators([seed], 1, 4))
        self.stack.flat.copy_(torch.from_numpy(start))
        self.slow = self.stack.copy()
        self._looking = Pass(self.slow, rows)
        self._training = Pass(self.stack, rows, self.parameters.gradients["policy"])
        self.adam = Adam(self.parameters.flat, self.parameters.gradient, learning_rate)
        self._action = torch.zeros(1)
        self._loss = torch.zeros(1)

    def after(self, states: Tensor, noise: Tensor) -> tuple[Tensor, None]:
        """Return the slow policy's actions in the next states, blurred."""
        action = self._looking.forward(states.unsqueeze(0))[0].tanh()
        blur = (self.noise * noise).clamp_(-self.noise_limit, self.noise_limit)
        return (action + blur).clamp_(-1, 1), None

    def act(self, states: Tensor, noise: Tensor) -> Tensor:  # noqa: ARG002
        """Return actions that the critics will judge, and remember the way back."""
        self._action = self._training.forward(states.unsqueeze(0))[0].tanh()
        return self._action

    def improve(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:
        """Take one step of the policy; its slow copy follows."""
        self.gradients(value, by_action, logged)
        self.adam.step()
        self.slow.flat.lerp_(self.stack.flat, self.target_rate)

    def gradients(self, value: Tensor, by_action: Tensor, logged: Tensor) -> None:
        """Write the gradient of the policy."""
        gradient = cloned_policy_gradient(self._action, logged, value, by_action, self.alpha)
        self._training.backward(gradient.unsqueeze(0))
        self._loss = cloned_policy_loss(self._action, logged, value, self.alpha)

    def metrics(self) -> dict[str, Tensor]:
        """Return the policy's loss."""
        return {"policy loss": self._loss.view(1)}

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name."""
        return {**self.adam.tensors("policy"), "slow policy": self.slow.flat}
