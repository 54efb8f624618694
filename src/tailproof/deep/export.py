"""Export to ONNX: the policy, and the aggregated critic, as graphs that need nothing of ours.

The graphs are built node by node from the stacked weights; scaling of states, actions and rewards is
inside, so inputs and outputs are in the log's own units.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray
from tailproof.deep.checkpoint import write_whole
from tailproof.deep.critics import CategoricalPolicy, NeuralCritics, NeuralPolicy
from tailproof.deep.networks import Stack
from tailproof.deep.reductions import order_weights
from tailproof.deep.settings import require_module
from tailproof.ensemble.aggregate import Aggregate, Mean, MeanMinusStd
from tailproof.errors import MethodError
from tailproof.export.graph import sealed_graph

_OPSET, _IR_VERSION = 18, 9  # old enough for runtimes of the last years


class _Graph:
    """Nodes and constants of a graph in the making."""

    def __init__(self) -> None:
        self.onnx: Any = require_module("onnx", "'tailproof[deep]'", "ONNX exports")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: AnyArray) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def number(self, values: Any) -> str:
        return self.constant(np.asarray(values, dtype=np.float32))

    def node(self, kind: str, *inputs: str, **attributes: Any) -> str:
        name = f"n{len(self.nodes)}"
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), [name], **attributes))
        return name

    def perceptrons(self, stack: Stack, inputs: str) -> str:
        """Return the outputs of every network of the stack, (S, n, out)."""
        hidden = inputs
        last = len(stack.weights) - 1
        for layer, (weight, bias) in enumerate(zip(stack.weights, stack.biases, strict=True)):
            product = self.node("MatMul", hidden, self.constant(weight.cpu().numpy()))
            hidden = self.node("Add", product, self.constant(bias.cpu().numpy()))
            if layer < last:
                hidden = self.node("Relu", hidden)
        return hidden

    def scaled(self, values: str, middle: AnyArray, scale: AnyArray) -> str:
        centred = self.node("Sub", values, self.number(middle))
        return self.node("Div", centred, self.number(scale))

    def aggregated(self, values: str, aggregate: Aggregate, count: int) -> str:
        """Return the aggregate over the first axis of values (K, n)."""
        first = self.constant(np.array([0], dtype=np.int64))
        if isinstance(aggregate, Mean | MeanMinusStd):
            mean = self.node("ReduceMean", values, first, keepdims=0)
            if isinstance(aggregate, Mean):
                return mean
            centred = self.node("Sub", values, mean)
            square = self.node("Mul", centred, centred)
            std = self.node("Sqrt", self.node("ReduceMean", square, first, keepdims=0))
            return self.node("Sub", mean, self.node("Mul", std, self.number(aggregate.factor)))
        weights = order_weights(aggregate, count)
        if weights is None:
            raise MethodError(
                f"Only Mean(), Median(), Quantile(q), TrimmedMean(fraction) and "
                f"MeanMinusStd(factor) can be exported. Got {aggregate!r} instead."
            )
        every = self.constant(np.array([count], dtype=np.int64))
        name = f"n{len(self.nodes)}"
        self.nodes.append(
            self.onnx.helper.make_node(
                "TopK", [values, every], [name, f"{name}_places"], axis=0, largest=0
            )
        )
        shares = self.number(np.asarray(weights)[:, None])
        return self.node("ReduceSum", self.node("Mul", name, shares), first, keepdims=0)

    def write(
        self, path: Path, inputs: dict[str, int], output: str, what: str, width: int | None
    ) -> None:
        """Check the graph and write it; the output `what` is (n, width), or (n,)."""
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        given = [
            helper.make_tensor_value_info(name, kinds.FLOAT, ["n", entries])
            for name, entries in inputs.items()
        ]
        kind = kinds.INT64 if self.nodes[-1].op_type == "ArgMax" else kinds.FLOAT
        self.nodes.append(helper.make_node("Identity", [output], [what]))
        shape = ["n"] if width is None else ["n", width]
        result = helper.make_tensor_value_info(what, kind, shape)
        graph = helper.make_graph(self.nodes, "tailproof", given, [result], self.constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="tailproof"
        )
        model.ir_version = _IR_VERSION
        self.onnx.checker.check_model(model)
        write_whole(path, sealed_graph(model))


def export_policy(policy: NeuralPolicy, path: str | Path) -> None:
    """Write the policy as ONNX: states (n, p) to actions (n, q), or, if discrete, to (n,) int64.

    A Gaussian policy is exported as the action of its mean.
    """
    graph, scaling = _Graph(), policy.scaling
    states = graph.scaled("states", scaling.state_mean, scaling.state_scale)
    outputs = graph.perceptrons(policy.stack, states)
    outputs = graph.node("Squeeze", outputs, graph.constant(np.array([0], dtype=np.int64)))
    if isinstance(policy, CategoricalPolicy):
        action = graph.node("ArgMax", outputs, axis=1, keepdims=0)
    else:
        axes = [np.array([value], dtype=np.int64) for value in (0, scaling.action_width, 1)]
        means = graph.node("Slice", outputs, *[graph.constant(each) for each in axes])
        squashed = graph.node("Tanh", means)
        wide = graph.node("Mul", squashed, graph.number(scaling.action_half))
        action = graph.node("Add", wide, graph.number(scaling.action_middle))
    width = scaling.action_width or None
    graph.write(Path(path), {"states": len(scaling.state_mean)}, action, "actions", width)


def export_critic(critics: NeuralCritics, aggregate: Aggregate, path: str | Path) -> None:
    """Write Q(s, a) = aggregate_k Q_k(s, a) as ONNX: states and actions to values.

    Continuous actions: inputs states (n, p) and actions (n, q), output (n,). Discrete ones: input
    states, output the value of every action, (n, A).
    """
    graph, scaling = _Graph(), critics.scaling
    inputs = graph.scaled("states", scaling.state_mean, scaling.state_scale)
    entries = {"states": len(scaling.state_mean)}
    if scaling.action_middle is not None and scaling.action_half is not None:
        actions = graph.scaled("actions", scaling.action_middle, scaling.action_half)
        inputs = graph.node("Concat", actions, inputs, axis=1)
        entries["actions"] = scaling.action_width
    values = graph.perceptrons(critics.q, inputs)  # (T·K, n, out)
    shape = np.array([critics.twins, critics.count, -1, scaling.n_actions or 1], dtype=np.int64)
    twins = graph.node("Reshape", values, graph.constant(shape))
    first = graph.constant(np.array([0], dtype=np.int64))
    members = graph.node("ReduceMin", twins, first, keepdims=0)  # (K, n, out)
    if scaling.n_actions is None:
        members = graph.node("Squeeze", members, graph.constant(np.array([2], dtype=np.int64)))
        together = graph.aggregated(members, aggregate, critics.count)
    else:
        flat = graph.constant(np.array([critics.count, -1], dtype=np.int64))
        together = graph.aggregated(graph.node("Reshape", members, flat), aggregate, critics.count)
        square = graph.constant(np.array([-1, scaling.n_actions], dtype=np.int64))
        together = graph.node("Reshape", together, square)
    result = graph.node("Div", together, graph.number(scaling.reward_scale))
    graph.write(Path(path), entries, result, "values", scaling.n_actions)
