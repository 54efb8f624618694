"""Q-functions of K members, several for each if asked, and their slowly following copies."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from tailproof.deep.data import Batch
from tailproof.deep.networks import Parameters, Pass, Shape, Stack, initial_values
from tailproof.deep.reductions import reduce
from tailproof.ensemble.aggregate import Aggregate


def critic_shape(
    members: int,
    twins: int,
    states: int,
    actions: int,
    n_actions: int | None,
    hidden: Sequence[int],
) -> Shape:
    """Return the shape of Q: pairs to a value, or, for discrete actions, states to A values."""
    if n_actions is None:
        return Shape(twins * members, (actions + states, *hidden, 1))
    return Shape(twins * members, (states, *hidden, n_actions))


def generators(seeds: Sequence[int], twins: int, stream: int) -> list[np.random.Generator]:
    """Return a generator for every network, twins outermost, from the members' seeds."""
    return [np.random.default_rng([seed, stream, twin]) for twin in range(twins) for seed in seeds]


class QFunctions:
    """T·K Q-functions; the value of member k is the smallest of its T.

    Parameters
    ----------
    parameters
        Hold the stack ``"q"``, twins outermost: network t·K + k is member k's t-th.
    batch
        Rows of a training step.
    crossing
        Rows at which all members are asked in a backup, 0 if they never are.
    """

    def __init__(
        self,
        parameters: Parameters,
        seeds: Sequence[int],
        *,
        twins: int,
        batch: int,
        crossing: int,
        n_actions: int | None,
    ) -> None:
        self.stack = parameters.stacks["q"]
        start = initial_values(self.stack.shape, generators(seeds, twins, 2))
        self.stack.flat.copy_(torch.from_numpy(start))
        self.slow = self.stack.copy()
        self.members, self.twins, self.discrete = len(seeds), twins, n_actions is not None
        self.training = Pass(self.stack, batch, parameters.gradients["q"])
        self.looking = Pass(self.slow, crossing or batch)
        self._inputs = torch.empty(
            self.stack.shape.count, batch, self.stack.shape.widths[0], device=self.stack.flat.device
        )
        self._actions: Tensor | None = None
        self._rows = batch

    def inputs(self, batch: Batch) -> Tensor:
        """Return what Q is asked at, (M, B, d)."""
        return batch["states" if self.discrete else "pairs"]

    def predict(self, batch: Batch) -> Tensor:
        """Return Q at the logged actions, (T, K, B), and remember the way back."""
        shape = (self.twins, self.members, *self._inputs.shape[1:])
        self._inputs.view(shape).copy_(self.inputs(batch))
        outputs = self.training.forward(self._inputs)
        if self.discrete:
            logged = batch.column("actions").long()
            self._actions = logged.expand(self.twins, self.members, -1)
            return at_actions(outputs.view(*shape[:3], -1), self._actions)
        return outputs.view(shape[:3])

    def learn(self, gradient: Tensor) -> None:
        """Write the parameters' gradient, given that of the predictions, (T, K, B)."""
        if self._actions is not None:
            every = torch.zeros_like(self.training.outputs[-1])
            every.view(*gradient.shape, -1).scatter_(
                -1, self._actions.unsqueeze(-1), gradient.unsqueeze(-1)
            )
            self.training.backward(every)
        else:
            self.training.backward(gradient.reshape(self.stack.shape.count, -1, 1))

    def slow_values(self, inputs: Tensor) -> Tensor:
        """Return the slow copies' smallest twin at each member's inputs (K or 1, B, d), (K, B, out)."""
        spread = inputs.expand(self.members, *inputs.shape[1:]).repeat(self.twins, 1, 1)
        outputs = self.looking.forward(spread)
        return outputs.view(self.twins, self.members, *outputs.shape[1:]).amin(0)

    def crossed_values(self, inputs: Tensor) -> Tensor:
        """Return every member's value at all M·B inputs (M, B, d), (K, M·B, out)."""
        return self.slow_values(inputs.reshape(1, -1, inputs.shape[-1]))

    def follow(self, rate: float) -> None:
        """Let the slow copies follow: θ̄ ← (1 − ρ)θ̄ + ρθ."""
        self.slow.flat.lerp_(self.stack.flat, rate)


def at_actions(values: Tensor, actions: Tensor) -> Tensor:
    """Return values (…, B, A) at actions (…, B), (…, B)."""
    return values.gather(-1, actions.unsqueeze(-1)).squeeze(-1)


def agree(aggregate: Aggregate, values: Tensor, alive: Tensor, draws: int) -> Tensor:
    """Return the aggregate over living members of values (K, M·B), as (M, B)."""
    living = values if bool(alive.all()) else values[alive]
    return reduce(aggregate, living).view(draws, -1)


def healthy(stacks: Sequence[tuple[Stack, int]], members: int) -> Tensor:
    """Return which members' parameters are all finite, (K,), given stacks and their twins."""
    fine = torch.ones(members, dtype=torch.bool)
    for stack, twins in stacks:
        for part in (*stack.weights, *stack.biases):
            finite = part.flatten(1).isfinite().all(1).cpu()
            fine &= finite.view(twins, members).all(0)
    return fine
