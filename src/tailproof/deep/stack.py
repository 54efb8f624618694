"""Stacked multilayer perceptrons: one batched product per layer serves all members.

The parameters of a stack lie in one flat tensor, so that copying, following and saving it are one
call each. Gradients come from autograd.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import cos, pi
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn.functional import layer_norm
from torch.optim.adam import adam


@dataclass(frozen=True)
class Shape:
    """`count` perceptrons with layers of these widths, including input and output.

    Parameters
    ----------
    normalised
        Whether a layer norm precedes each relu.

    Examples
    --------
    >>> Shape(5, (14, 256, 256, 1)).parameters
    349445
    """

    count: int
    widths: tuple[int, ...]
    normalised: bool = False

    @property
    def parts(self) -> list[tuple[int, int, int]]:
        """Shapes of all parameter tensors, in the order of the flat tensor."""
        shapes = []
        for layer, (wide, out) in enumerate(zip(self.widths, self.widths[1:], strict=False)):
            shapes += [(self.count, wide, out), (self.count, 1, out)]
            if self.normalised and layer < len(self.widths) - 2:
                shapes += [(self.count, 1, out)] * 2
        return shapes

    @property
    def parameters(self) -> int:
        """Total number of parameters."""
        return sum(count * wide * out for count, wide, out in self.parts)


class Layer(NamedTuple):
    """One layer of S perceptrons; `scale` and `shift` belong to the layer norm, if there is one."""

    weight: Tensor  # (S, in, out)
    bias: Tensor  # (S, 1, out)
    scale: Tensor | None = None  # (S, 1, out)
    shift: Tensor | None = None  # (S, 1, out)


class Stack:
    """Perceptrons of one shape whose parameters are views into a flat tensor.

    Layer l maps h to relu(h W_l + b_l), the last one without the relu; with a layer norm, to
    relu(scale · (h W_l + b_l − mean) / std + shift).

    Parameters
    ----------
    trainable
        Whether the parameters are leaves of autograd. They share the memory of `flat` either way.
    """

    __match_args__ = ("shape", "flat")

    def __init__(self, shape: Shape, flat: Tensor, *, trainable: bool = False) -> None:
        self.shape, self.flat = shape, flat
        sizes = [count * wide * out for count, wide, out in shape.parts]
        self.parameters = [
            part.detach().view(size).requires_grad_(trainable)
            for part, size in zip(torch.split(flat, sizes), shape.parts, strict=True)
        ]
        each, last = (4 if shape.normalised else 2), len(self.parameters) - 2
        self.layers = [Layer(*self.parameters[i : i + each]) for i in range(0, last, each)]
        self.layers.append(Layer(*self.parameters[last:]))

    @classmethod
    def random(
        cls, shape: Shape, seeds: Sequence[int], *, stream: int, device: str = "cpu"
    ) -> Stack:
        """Draw trainable weights and biases uniformly within ±1/√(input width).

        Network t·K + k is the t-th of the member with seed k. Its initial values depend only on that
        seed, the stream and t, so that a member starts the same alone and among others.
        """
        stack = cls(shape, torch.zeros(shape.parameters, device=device), trainable=True)
        with torch.no_grad():
            for network in range(shape.count):
                twin, member = divmod(network, len(seeds))
                generator = np.random.default_rng([seeds[member], stream, twin])
                for layer in stack.layers:
                    bound = 1 / np.sqrt(layer.weight.shape[1])
                    for part in (layer.weight[network], layer.bias[network, 0]):
                        drawn = generator.uniform(-bound, bound, tuple(part.shape))
                        part.copy_(torch.from_numpy(drawn))
                    if layer.scale is not None:
                        layer.scale.fill_(1.0)
        return stack

    @classmethod
    def join(cls, stacks: Sequence[Stack]) -> Stack:
        """Return the perceptrons of several stacks with equal widths as one stack, copied."""
        parts = [torch.cat(each) for each in zip(*(s.parameters for s in stacks), strict=True)]
        return cls._of_parts(stacks[0].shape, parts)

    @classmethod
    def _of_parts(cls, alike: Shape, parts: Sequence[Tensor]) -> Stack:
        shape = Shape(len(parts[0]), alike.widths, alike.normalised)
        return cls(shape, torch.cat([part.detach().reshape(-1) for part in parts]))

    def __reduce__(self) -> tuple[type[Stack], tuple[Shape, Tensor]]:
        return Stack, (self.shape, self.flat.clone())

    def members(self, chosen: Sequence[int]) -> Stack:
        """Return a copy with only these perceptrons."""
        index = torch.as_tensor(list(chosen), dtype=torch.long, device=self.flat.device)
        return self._of_parts(self.shape, [part[index] for part in self.parameters])

    def copy(self) -> Stack:
        """Return a copy with memory of its own."""
        return Stack(self.shape, self.flat.clone())

    def fixed(self) -> Stack:
        """Return a view of the same parameters through which gradients reach the inputs only."""
        return Stack(self.shape, self.flat)

    def __call__(self, inputs: Tensor) -> Tensor:
        """Return the outputs at (n, d) or (S, n, d) inputs, (S, n, out)."""
        hidden = inputs if inputs.ndim == 3 else inputs.expand(self.shape.count, *inputs.shape)
        for layer in self.layers[:-1]:
            hidden = torch.baddbmm(layer.bias, hidden, layer.weight)
            if layer.scale is not None and layer.shift is not None:
                hidden = layer_norm(hidden, hidden.shape[-1:]) * layer.scale + layer.shift
            hidden = hidden.relu_()
        return torch.baddbmm(self.layers[-1].bias, hidden, self.layers[-1].weight)

    def predict(self, inputs: Tensor, *, rows: int = 4096) -> Tensor:
        """Return the outputs without gradients, `rows` inputs at a time."""
        with torch.no_grad():
            return torch.cat([self(part) for part in torch.split(inputs, rows, dim=-2)], dim=1)


def finite(parameters: Sequence[Tensor], members: int) -> Tensor:
    """Return which members' parameters (T·K, …) are all finite, (K,)."""
    checks = [part.flatten(1).isfinite().all(1).view(-1, members).all(0) for part in parameters]
    return torch.stack(checks).all(0).cpu()


class Adam:
    """Adam (Kingma & Ba, 2015), θ ← θ − η·m̂/(√v̂ + ε), on the gradients of a loss.

    Parameters
    ----------
    parameters
        Leaves of autograd; changed in place.
    learning_rate
        η.
    """

    def __init__(self, parameters: Sequence[Tensor], learning_rate: float) -> None:
        self.parameters = list(parameters)
        self.learning_rate = learning_rate
        self.first = [torch.zeros_like(part) for part in parameters]
        self.second = [torch.zeros_like(part) for part in parameters]
        self.steps = [torch.zeros((), device=part.device) for part in parameters]

    def minimise(self, loss: Tensor, *, rate: float = 1.0) -> None:
        """Take one step against the gradient of `loss`, with the learning rate times `rate`."""
        gradients = list(torch.autograd.grad(loss, self.parameters))
        with torch.no_grad():
            adam(
                self.parameters,
                gradients,
                self.first,
                self.second,
                [],
                self.steps,
                fused=True,
                amsgrad=False,
                beta1=0.9,
                beta2=0.999,
                lr=self.learning_rate * rate,
                weight_decay=0.0,
                eps=1e-8,
                maximize=False,
            )

    def tensors(self, prefix: str) -> dict[str, Tensor]:
        """Return parameters and optimiser state by name, not copied."""
        states = {
            "parameter": self.parameters,
            "first": self.first,
            "second": self.second,
            "steps": self.steps,
        }
        return {
            f"{prefix}.{name}.{index}": part.detach()
            for name, parts in states.items()
            for index, part in enumerate(parts)
        }


def cosine(step: int, steps: int) -> float:
    """Return the factor ½(1 + cos(π·step/steps)): 1 at the start, 0 after `steps`, then up again.

    Examples
    --------
    >>> cosine(0, 100), round(cosine(50, 100), 3), cosine(100, 100), cosine(200, 100)
    (1.0, 0.5, 0.0, 1.0)
    """
    return 0.5 * (1 + cos(pi * step / steps))
