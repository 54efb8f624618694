"""Adam on one flat tensor; its whole state is in `tensors`, for checkpoints."""

from __future__ import annotations

from math import cos, pi

import torch
from torch import Tensor
from torch.optim.adam import adam


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
        """Return the state by name, the tensors themselves."""
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
