"""Stacked multilayer perceptrons: parameters stacked along K, one batched product per layer.

The backward pass is hand-written on preallocated buffers. All parameters of a learner lie in one flat
tensor, so that the optimiser step and the target update are one call each.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import cos, pi

import numpy as np
import torch
from torch import Tensor
from torch.optim.adam import adam

#: Products with at most this many columns are computed transposed, which is up to ten times as fast.
_NARROW = 12


@dataclass(frozen=True)
class Shape:
    """`count` perceptrons with layers of these widths, including input and output.

    Examples
    --------
    >>> Shape(5, (14, 256, 256, 1)).parameters
    349445
    """

    count: int
    widths: tuple[int, ...]

    @property
    def layers(self) -> tuple[tuple[int, int], ...]:
        """Input and output width of every layer."""
        return tuple(zip(self.widths[:-1], self.widths[1:], strict=True))

    @property
    def parameters(self) -> int:
        """Total number of parameters."""
        return self.count * sum((wide + 1) * out for wide, out in self.layers)


class Stack:
    """Perceptrons of one shape whose weights are views into a flat tensor.

    Layer l maps h to relu(h W_l + b_l), the last one without the relu.
    """

    def __init__(self, shape: Shape, flat: Tensor) -> None:
        self.shape = shape
        self.flat = flat
        sizes = [size * out for wide, out in shape.layers for size in (wide, 1)]
        parts = torch.split(flat, [shape.count * size for size in sizes])
        outs = shape.widths[1:]
        self.weights = [  # (S, in, out)
            part.view(shape.count, -1, out) for part, out in zip(parts[::2], outs, strict=True)
        ]
        self.biases = [  # (S, 1, out)
            part.view(shape.count, 1, out) for part, out in zip(parts[1::2], outs, strict=True)
        ]

    def __reduce__(self) -> tuple[type[Stack], tuple[Shape, Tensor]]:
        return Stack, (self.shape, self.flat.clone())

    def members(self, chosen: Sequence[int]) -> Stack:
        """Return a copy with only these perceptrons."""
        index = torch.as_tensor(list(chosen), dtype=torch.long, device=self.flat.device)
        return _stacked([(weight[index], bias[index]) for weight, bias in self.layers()])

    def layers(self) -> Iterator[tuple[Tensor, Tensor]]:
        """Return weight and bias of every layer."""
        return zip(self.weights, self.biases, strict=True)

    def finite(self) -> Tensor:
        """Return which perceptrons' parameters are all finite, (S,)."""
        parts = [part.flatten(1).isfinite().all(1) for layer in self.layers() for part in layer]
        return torch.stack(parts).all(0).cpu()

    def copy(self) -> Stack:
        """Return a copy with its own memory."""
        return Stack(self.shape, self.flat.clone())

    def __call__(self, inputs: Tensor, *, rows: int = 4096) -> Tensor:
        """Return the outputs at (n, d) or (S, n, d) inputs, (S, n, out), `rows` at a time."""
        if inputs.ndim == 2:
            inputs = inputs.expand(self.shape.count, *inputs.shape)
        results = []
        for chunk in torch.split(inputs, rows, dim=1):
            hidden = chunk
            for layer, (weight, bias) in enumerate(self.layers()):
                hidden = torch.baddbmm(bias, hidden, weight)
                if layer < len(self.weights) - 1:
                    hidden.relu_()
            results.append(hidden)
        return torch.cat(results, dim=1)


def concatenate(stacks: Sequence[Stack]) -> Stack:
    """Return the perceptrons of several stacks with equal widths as one stack."""
    return _stacked(
        [
            (torch.cat([weight for weight, _ in layers]), torch.cat([bias for _, bias in layers]))
            for layers in zip(*(stack.layers() for stack in stacks), strict=True)
        ]
    )


def _stacked(layers: Sequence[tuple[Tensor, Tensor]]) -> Stack:
    """Return a stack of layers' weights (S, in, out) and biases (S, 1, out), copied."""
    weights = [weight for weight, _ in layers]
    widths = (weights[0].shape[1], *(weight.shape[2] for weight in weights))
    flat = torch.cat([part.reshape(-1) for layer in layers for part in layer])
    return Stack(Shape(len(weights[0]), widths), flat)


def initialise(stack: Stack, seeds: Sequence[int], stream: int) -> None:
    """Draw weights and biases uniformly within ±1/√(input width).

    Network t·K + k is the t-th of the member with seed k. Its initial values depend only on that seed,
    the stream and t, so that a member starts the same alone and among others.
    """
    for place in range(stack.shape.count):
        twin, member = divmod(place, len(seeds))
        generator = np.random.default_rng([seeds[member], stream, twin])
        for weight, bias in stack.layers():
            bound = 1 / np.sqrt(weight.shape[1])
            for part in (weight[place], bias[place, 0]):
                drawn = generator.uniform(-bound, bound, tuple(part.shape))
                part.copy_(torch.from_numpy(drawn))


class Parameters:
    """Several stacks in one flat tensor, and their gradient in another of the same layout."""

    def __init__(self, shapes: dict[str, Shape], device: str = "cpu") -> None:
        self.shapes = shapes
        total = sum(shape.parameters for shape in shapes.values())
        self.flat = torch.zeros(total, device=device)
        self.gradient = torch.zeros(total, device=device)
        self.stacks, self.gradients = self.split(self.flat), self.split(self.gradient)

    def split(self, flat: Tensor) -> dict[str, Stack]:
        """Return views of a flat tensor of this layout as stacks, by name."""
        parts = torch.split(flat, [shape.parameters for shape in self.shapes.values()])
        return {
            name: Stack(shape, part)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }


class Pass:
    """Buffers for the forward and backward pass of `rows` inputs through a stack.

    Parameters
    ----------
    stack
        The perceptrons.
    rows
        Number of inputs per perceptron.
    gradient
        Where the gradient of the parameters is written; None for forward passes only.
    """

    def __init__(self, stack: Stack, rows: int, gradient: Stack | None = None) -> None:
        self.stack = stack
        self.gradient = gradient
        self.inputs = stack.flat.new_empty(0)
        count, widths = stack.shape.count, stack.shape.widths
        self.outputs = [stack.flat.new_empty(count, rows, width) for width in widths[1:]]
        self.back = [stack.flat.new_empty(count, rows, width) for width in widths[1:-1]]

    def forward(self, inputs: Tensor) -> Tensor:
        """Return the outputs at the inputs (S, rows, d), (S, rows, out); a buffer, overwritten."""
        self.inputs = hidden = inputs
        last = len(self.outputs) - 1
        for layer, (weight, bias) in enumerate(self.stack.layers()):
            output = self.outputs[layer]
            if weight.shape[2] <= _NARROW:
                output.copy_(torch.baddbmm(bias.mT, weight.mT.contiguous(), hidden.mT).mT)
            else:
                torch.baddbmm(bias, hidden, weight, out=output)
            if layer < last:
                output.relu_()
            hidden = output
        return hidden

    def backward(
        self, gradient: Tensor, *, to_parameters: bool = True, to_inputs: int = 0
    ) -> Tensor:
        """Backpropagate the outputs' gradient (S, m, out), m at most the rows of the forward pass.

        Overwrites the buffer of the parameters' gradient, and returns the gradient of the first
        `to_inputs` entries of the inputs, (S, m, to_inputs).
        """
        rows = gradient.shape[1]
        flowing = gradient
        for layer in range(len(self.outputs) - 1, -1, -1):
            weight = self.stack.weights[layer]
            entering = (self.outputs[layer - 1] if layer else self.inputs)[:, :rows]
            if to_parameters:
                if self.gradient is None:
                    raise RuntimeError("This pass has no buffer for the parameters' gradient.")
                if weight.shape[2] <= _NARROW:
                    self.gradient.weights[layer].copy_(torch.bmm(flowing.mT, entering).mT)
                else:
                    torch.bmm(entering.mT, flowing, out=self.gradient.weights[layer])
                torch.sum(flowing, dim=1, keepdim=True, out=self.gradient.biases[layer])
            if layer == 0:
                break
            below = self.back[layer - 1][:, :rows]
            if weight.shape[2] == 1:
                torch.mul(flowing, weight.mT, out=below)
            else:
                torch.bmm(flowing, weight.mT, out=below)
            flowing = torch.ops.aten.threshold_backward.grad_input(
                below, entering, 0.0, grad_input=below
            )
        return torch.bmm(flowing, self.stack.weights[0][:, :to_inputs].mT)

    def backward_chosen(self, chosen: Tensor, to_inputs: int) -> Tensor:
        """Return ∂(output of network chosen[r] at row r)/∂(first inputs of row r), (rows, to_inputs).

        For networks with one output. If an aggregate selects one member per row, such as the
        minimum, this backpropagates each row through that member only: 1/S of the work.
        """
        result = torch.empty(len(chosen), to_inputs, device=chosen.device)
        for network in range(self.stack.shape.count):
            rows = (chosen == network).nonzero()[:, 0]
            if len(rows) == 0:
                continue
            flowing = self.stack.weights[-1][network, :, 0].expand(len(rows), -1)
            for layer in range(len(self.outputs) - 1, 0, -1):
                active = self.outputs[layer - 1][network].index_select(0, rows) > 0
                weight = self.stack.weights[layer - 1][network]
                below = weight if layer > 1 else weight[:to_inputs]
                flowing = torch.mm(flowing * active, below.t())
            result[rows] = flowing
        return result


class Adam:
    """Adam (Kingma & Ba, 2015), θ ← θ − η·m̂/(√v̂ + ε), fused into one pass over the parameters.

    Parameters
    ----------
    parameters, gradient
        Flat tensors; the step reads the gradient and changes the parameters in place.
    learning_rate
        η.
    """

    def __init__(self, parameters: Tensor, gradient: Tensor, learning_rate: float) -> None:
        self.parameters = parameters
        self.gradient = gradient
        self.learning_rate = learning_rate
        self.first = torch.zeros_like(parameters)
        self.second = torch.zeros_like(parameters)
        self.steps = torch.zeros((), device=parameters.device)

    def step(self, *, rate: float = 1.0) -> None:
        """Take one step, with the learning rate multiplied by `rate`."""
        adam(
            [self.parameters],
            [self.gradient],
            [self.first],
            [self.second],
            [],
            [self.steps],
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
        """Return the optimiser's state tensors by name, not copied."""
        names = ("parameters", "first", "second", "steps")
        return {f"{prefix}.{name}": getattr(self, name) for name in names}


def cosine(step: int, steps: int) -> float:
    """Return the factor ½(1 + cos(π·step/steps)), from 1 at the start to 0 at the end.

    Examples
    --------
    >>> cosine(0, 100), round(cosine(50, 100), 3), cosine(100, 100)
    (1.0, 0.5, 0.0)
    """
    return 0.5 * (1 + cos(pi * step / steps))
