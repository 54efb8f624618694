"""Neural policies to ONNX: states and actions are scaled inside, so both are in the log's own units."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray
from tailproof.deep.critics import CategoricalPolicy, NeuralPolicy
from tailproof.deep.networks import Stack
from tailproof.export.graph import Graph


def export_policy(policy: NeuralPolicy, path: str | Path) -> None:
    """Write the policy as ONNX: states (n, p) to actions (n, q), or, if discrete, to (n,) int64.

    A Gaussian policy is exported as the action of its mean.
    """
    graph, scaling = Graph(), policy.scaling

    def number(values: Any) -> str:
        return graph.constant(np.asarray(values, dtype=np.float32))

    centred = graph.node("Sub", "states", number(scaling.state_mean))
    states = graph.node("Div", centred, number(scaling.state_scale))
    outputs = _perceptrons(graph, policy.stack, states)
    outputs = graph.node("Squeeze", outputs, graph.integers(0))
    result: tuple[str, str, list[Any]]
    if isinstance(policy, CategoricalPolicy):
        result = graph.node("ArgMax", outputs, axis=1, keepdims=0), "INT64", ["n"]
    else:
        ends = [graph.integers(value) for value in (0, scaling.action_width, 1)]
        squashed = graph.node("Tanh", graph.node("Slice", outputs, *ends))
        wide = graph.node("Mul", squashed, number(scaling.action_half))
        action = graph.node("Add", wide, number(scaling.action_middle))
        result = action, "FLOAT", ["n", scaling.action_width]
    graph.write(Path(path), len(scaling.state_mean), {"actions": result}, kind="FLOAT")


def _perceptrons(graph: Graph, stack: Stack, inputs: str) -> str:
    """Return the outputs of every network of the stack, (S, n, out)."""
    hidden = inputs
    last = len(stack.weights) - 1
    for layer, (weight, bias) in enumerate(zip(stack.weights, stack.biases, strict=True)):
        both: list[AnyArray] = [weight.cpu().numpy(), bias.cpu().numpy()]
        product = graph.node("MatMul", hidden, graph.constant(both[0]))
        hidden = graph.node("Add", product, graph.constant(both[1]))
        if layer < last:
            hidden = graph.node("Relu", hidden)
    return hidden
