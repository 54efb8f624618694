"""Policies to ONNX graphs: features, critics, aggregate and choice in one file. Extra `deep`.

The graph computes in double precision what numpy computes, so that it takes the same actions. Whatever
runs ONNX can act with it; nothing of tailproof is needed.
"""

from __future__ import annotations

import hashlib
import importlib
from base64 import b64encode
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.algorithms.learners.state_critics import StateCritics
from tailproof.arrays import AnyArray
from tailproof.ensemble.aggregate import Aggregate, Mean, MeanMinusStd, order_weights
from tailproof.ensemble.critics import LinearCritics
from tailproof.errors import PolicyError, TailproofError
from tailproof.export.scores import linear_values, scores_in
from tailproof.features import Polynomial
from tailproof.files.atomic import write_whole
from tailproof.files.container import sealed_page
from tailproof.policies.greedy import CriticPolicy, SoftmaxPolicy

_OPSET, _IR_VERSION = 18, 9  # old enough for the runtimes of the last years
#: Under which properties of a graph its description stands, and the SHA-256 of its bytes.
METADATA_KEY, CHECKSUM_KEY = "tailproof", "tailproof-sha256"
UNSEALED = b"0" * 64  # what stands for the checksum while it is computed
Output = tuple[str, str, list[Any]]  # its name in the graph, the kind of its numbers, its shape


def export_policy(policy: CriticPolicy, path: str | Path) -> None:
    """Write a policy over linear critics or trees as ONNX.

    Input ``states`` (n, p), double. Outputs: ``actions`` (n,) of a greedy policy or ``probabilities``
    (n, A) of a softmax, and ``values``, the aggregated Q(s, a) of the actions to choose from.
    """
    if Path(path).suffix != ".onnx":
        raise PolicyError(
            f"policy.save writes ONNX, to a file that ends in .onnx. Got {str(path)!r}; "
            f"Learned.save writes tailproof's own format."
        )
    graph = Graph()
    values, dimension = _values(graph, policy)
    outputs: dict[str, Output] = {"values": (values, "DOUBLE", ["n", len(policy.actions)])}
    if isinstance(policy, SoftmaxPolicy):
        chances = graph.softmax(values, policy.temperature)
        spread = np.zeros((len(policy.actions), policy.n_actions))
        spread[np.arange(len(policy.actions)), list(policy.actions)] = 1.0
        everywhere = graph.node("MatMul", chances, graph.constant(spread))
        outputs = {"probabilities": (everywhere, "DOUBLE", ["n", policy.n_actions]), **outputs}
    else:
        best = graph.node("ArgMax", values, axis=1, keepdims=0)
        codes = graph.constant(np.asarray(policy.actions, dtype=np.int64))
        outputs = {"actions": (graph.node("Gather", codes, best), "INT64", ["n"]), **outputs}
    graph.write(Path(path), dimension, outputs, _metadata(policy))


def _metadata(policy: CriticPolicy) -> dict[str, Any]:
    """Return what states and actions are called and who taught it, for whoever loads the policy."""
    marks = None if policy.taught is None else np.asarray(policy.taught, dtype="<i8").tobytes()
    return {
        "taught": None if marks is None else b64encode(marks).decode(),
        "state_names": list(policy.state_names),
        "action_labels": None if policy.action_labels is None else list(policy.action_labels),
        "n_actions": policy.n_actions,
    }


def sealed_graph(model: Any, metadata: dict[str, Any] | None = None) -> bytes:
    """Return the bytes of an ONNX model with a description and a checksum of all of them."""
    given = {} if metadata is None else {METADATA_KEY: sealed_page(metadata).decode()}
    for key, value in {**given, CHECKSUM_KEY: UNSEALED.decode()}.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    content: bytes = model.SerializeToString()
    digest = hashlib.sha256(content).hexdigest().encode()
    head, _, tail = content.rpartition(UNSEALED)
    return head + digest + tail


def _values(graph: Graph, policy: CriticPolicy) -> tuple[str, int | str]:
    """Return the aggregated Q(s, a) of the actions to choose from, (n, A), and the states' size.

    Trees look at some columns only, and take states of any size that has them.
    """
    members = policy.critic.members
    if isinstance(members, StateCritics):
        axis = graph.integers(0)
        single = [
            graph.node("Unsqueeze", scores_in(graph, "states", member), axis)
            for member in members.members
        ]
        every = graph.node("Concat", *single, axis=0)  # (K, n, A)
        combined = graph.aggregate(every, policy.critic.aggregate, members.count)
        return graph.columns(combined, list(policy.actions)), "p"
    if not isinstance(members, LinearCritics):
        raise PolicyError(
            f"Only linear critics over PerAction or Additive features, and trees, can be exported to "
            f"ONNX. Got {type(members).__name__}."
        )
    each = linear_values(graph, "states", members.features, members.theta)  # (K, n, A)
    combined = graph.aggregate(each, policy.critic.aggregate, members.count)
    dimension = members.features.state_dimension  # type: ignore[attr-defined]
    return graph.columns(combined, list(policy.actions)), dimension


class Graph:
    """Nodes and constants of a graph in the making."""

    def __init__(self) -> None:
        self.onnx = require_onnx("onnx")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: AnyArray) -> str:
        """Add a constant and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def single(self, values: Any) -> str:
        """Return a constant in single precision."""
        return self.constant(np.asarray(values, dtype=np.float32))

    def integers(self, *values: int) -> str:
        """Return a constant of integers, such as axes, shapes and places."""
        return self.constant(np.array(values, dtype=np.int64))

    def node(self, kind: str, *inputs: str, outputs: int = 1, **attributes: Any) -> str:
        """Add a node and return the name of its first output."""
        names = [f"{kind.lower()}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, list(inputs), names, **attributes))
        return names[0]

    def columns(self, values: str, which: list[int]) -> str:
        """Return some columns of values (n, p)."""
        return self.node("Gather", values, self.constant(np.asarray(which, np.int64)), axis=1)

    def polynomial(self, states: str, features: Polynomial, dimension: int) -> str:
        """Return ψ(s), (n, p')."""
        parts = [states]
        if features.bias:
            one = self.node("Mul", self.columns(states, [0]), self.constant(np.zeros(1)))
            parts.insert(0, self.node("Add", one, self.constant(np.ones(1))))
        pairs = list(combinations(range(dimension), 2)) if features.degree > 1 else []
        if pairs:
            left = self.columns(states, [i for i, _ in pairs])
            parts.append(self.node("Mul", left, self.columns(states, [j for _, j in pairs])))
        return self.node("Concat", *parts, axis=1)

    def aggregate(self, values: str, aggregate: Aggregate, count: int) -> str:
        """Return the aggregate over the first axis of values (K, n, A)."""
        first = self.integers(0)
        if isinstance(aggregate, Mean | MeanMinusStd):
            mean = self.node("ReduceMean", values, first, keepdims=0)
            if isinstance(aggregate, Mean):
                return mean
            centred = self.node("Sub", values, mean)
            variance = self.node(
                "ReduceMean", self.node("Mul", centred, centred), first, keepdims=0
            )
            factor = self.constant(np.asarray(aggregate.factor, dtype=float))
            return self.node("Sub", mean, self.node("Mul", self.node("Sqrt", variance), factor))
        weights = order_weights(aggregate, count)
        if weights is None:
            raise PolicyError(
                f"Only Mean(), Median(), Quantile(q), TrimmedMean(fraction) and MeanMinusStd(factor) "
                f"can be exported to ONNX. Got {aggregate!r}."
            )
        every = self.integers(count)
        ordered = self.node("TopK", values, every, outputs=2, axis=0, largest=0)
        shares = self.constant(np.asarray(weights)[:, None, None])
        return self.node("ReduceSum", self.node("Mul", ordered, shares), first, keepdims=0)

    def softmax(self, values: str, temperature: float) -> str:
        """Return the softmax of values (n, A) over the actions."""
        scaled = self.node("Div", values, self.constant(np.asarray(float(temperature))))
        return self.node("Softmax", scaled, axis=1)

    def write(
        self,
        path: Path,
        dimension: int | str,
        outputs: dict[str, Output],
        metadata: dict[str, Any] | None = None,
        *,
        kind: str = "DOUBLE",
    ) -> None:
        """Check the graph and write it whole, with a sealed page of what is known about it.

        `kind` is that of the states' numbers; each output has a name in the graph, a kind and a shape.
        """
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        given = helper.make_tensor_value_info("states", getattr(kinds, kind), ["n", dimension])
        results = []
        for name, (made, own, shape) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [made], [name]))
            results.append(helper.make_tensor_value_info(name, getattr(kinds, own), shape))
        graph = helper.make_graph(self.nodes, "tailproof policy", [given], results, self.constants)
        model = helper.make_model(
            graph, opset_imports=[helper.make_opsetid("", _OPSET)], producer_name="tailproof"
        )
        model.ir_version = _IR_VERSION
        self.onnx.checker.check_model(model)
        write_whole(path, sealed_graph(model, metadata))


def require_onnx(module: str) -> Any:
    """Return a module of the extra `onnx`, or say how to install it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TailproofError(
            f"ONNX needs {module}, which is not installed. Run: pip install 'tailproof[onnx]'"
        ) from error
