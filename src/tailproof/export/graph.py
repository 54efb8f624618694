"""Export policies as ONNX graphs, from features to actions in one file. Extra `deep`.

The graph computes in double precision, as numpy does, so that it takes the same actions. Any ONNX
runtime can run it without tailproof.
"""

from __future__ import annotations

import hashlib
import importlib
from base64 import b64encode
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.algorithms.learners.state_critics import StateCritics
from tailproof.ensemble.aggregate import Aggregate, Mean, MeanMinusStd, order_weights
from tailproof.ensemble.critics import LinearCritics
from tailproof.errors import PolicyError, TailproofError
from tailproof.export.scores import linear_values, scores_in, state_features
from tailproof.features import Polynomial
from tailproof.files.atomic import write_whole
from tailproof.files.container import sealed_page
from tailproof.policies.greedy import CriticPolicy, SoftmaxPolicy
from tailproof.policies.linear import LinearPolicy

_OPSET, _IR_VERSION = 18, 9  # supported by runtimes of the last years
#: Properties of a graph with its description, and with the SHA-256 of its bytes.
METADATA_KEY, CHECKSUM_KEY = "tailproof", "tailproof-sha256"
UNSEALED = b"0" * 64  # placeholder for the checksum while it is computed
Output = tuple[str, str, list[Any]]  # name in the graph, number type, shape


def export_policy(policy: CriticPolicy, path: str | Path) -> None:
    """Write a policy over linear critics or trees as ONNX.

    Input: ``states`` (n, p), double. Outputs: ``actions`` (n,) of a greedy policy or ``probabilities``
    (n, A) of a softmax, and ``values``, the aggregated Q(s, a) of the policy's actions.
    """
    _require_name(path)
    graph = Graph()
    values, dimension = _values(graph, policy)
    outputs: dict[str, Output] = {"values": (values, "DOUBLE", ["n", len(policy.actions)])}
    if isinstance(policy, SoftmaxPolicy):
        scaled = graph.node("Div", values, float(policy.temperature))
        chances = graph.node("Softmax", scaled, axis=1)
        spread = np.zeros((len(policy.actions), policy.n_actions))
        spread[np.arange(len(policy.actions)), list(policy.actions)] = 1.0
        everywhere = graph.node("MatMul", chances, spread)
        outputs = {"probabilities": (everywhere, "DOUBLE", ["n", policy.n_actions]), **outputs}
    else:
        best = graph.node("ArgMax", values, axis=1, keepdims=0)
        codes = graph.integers(policy.actions)
        outputs = {"actions": (graph.node("Gather", codes, best), "INT64", ["n"]), **outputs}
    graph.write(Path(path), dimension, outputs, _metadata(policy))


def export_regression(policy: LinearPolicy, path: str | Path) -> None:
    """Write a regression of continuous actions as ONNX: ``states`` (n, p) to ``actions`` (n, q)."""
    _require_name(path)
    graph = Graph()
    z = graph.node("Div", graph.node("Sub", "states", policy.mean), policy.scale)
    size, width = len(policy.mean), policy.weights.shape[1]
    psi = state_features(graph, z, Polynomial(), size)
    free = graph.node("MatMul", psi, policy.weights)
    actions = graph.node("Max", graph.node("Min", free, policy.high), policy.low)
    graph.write(Path(path), size, {"actions": (actions, "DOUBLE", ["n", width])})


def _require_name(path: str | Path) -> None:
    if Path(path).suffix != ".onnx":
        raise PolicyError(
            f"policy.save writes ONNX, to a file that ends in .onnx. Got {str(path)!r}; "
            f"Learned.save writes tailproof's own format."
        )


def _metadata(policy: CriticPolicy) -> dict[str, Any]:
    """Return the names of states and actions and the hashes of the training episodes."""
    marks = None if policy.taught is None else np.asarray(policy.taught, dtype="<i8").tobytes()
    return {
        "taught": None if marks is None else b64encode(marks).decode(),
        "state_names": list(policy.state_names),
        "action_labels": None if policy.action_labels is None else list(policy.action_labels),
        "n_actions": policy.n_actions,
    }


def sealed_graph(model: Any, metadata: dict[str, Any] | None = None) -> bytes:
    """Return the bytes of an ONNX model with its description and a checksum."""
    given = {} if metadata is None else {METADATA_KEY: sealed_page(metadata).decode()}
    for key, value in {**given, CHECKSUM_KEY: UNSEALED.decode()}.items():
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    content: bytes = model.SerializeToString()
    digest = hashlib.sha256(content).hexdigest().encode()
    head, _, tail = content.rpartition(UNSEALED)
    return head + digest + tail


def _values(graph: Graph, policy: CriticPolicy) -> tuple[str, int | str]:
    """Return the aggregated Q(s, a) of the policy's actions, (n, A), and the size of the states.

    Trees use some columns only, and accept states of any size that includes these.
    """
    members, dimension = policy.critic.members, "p"
    if isinstance(members, StateCritics):
        each = [scores_in(graph, "states", member) for member in members.members]
        every = graph.node("Concat", *(graph.node("Unsqueeze", one, [0]) for one in each), axis=0)
    elif isinstance(members, LinearCritics):
        dimension = members.features.state_dimension  # type: ignore[attr-defined]
        every = linear_values(graph, "states", members.features, members.theta)
    else:
        raise PolicyError(
            f"Only linear critics over PerAction or Additive features, and trees, can be exported to "
            f"ONNX. Got {type(members).__name__}."
        )
    combined = graph.aggregate(every, policy.critic.aggregate, members.count)  # of (K, n, A)
    return graph.columns(combined, list(policy.actions)), dimension


class Graph:
    """Collects the nodes and constants of a graph."""

    def __init__(self) -> None:
        self.onnx = require_onnx("onnx")
        self.nodes: list[Any] = []
        self.constants: list[Any] = []

    def constant(self, values: Any) -> str:
        """Add a constant and return its name."""
        name = f"constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def integers(self, values: Any) -> str:
        """Add an integer constant and return its name."""
        return self.constant(np.asarray(values, dtype=np.int64))

    def node(self, kind: str, *inputs: Any, outputs: int = 1, **attributes: Any) -> str:
        """Add a node, whose inputs may be numbers, and return the name of its first output."""
        given = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        names = [f"{kind.lower()}_{len(self.nodes)}_{i}" for i in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, given, names, **attributes))
        return names[0]

    def columns(self, values: str, which: list[int]) -> str:
        """Return some columns of values (n, p)."""
        return self.node("Gather", values, self.integers(which), axis=1)

    def repeated(self, states: str, row: Any) -> str:
        """Return the same numbers (q,) for each of n states, (n, q)."""
        zero = self.node("Mul", self.columns(states, [0]), np.zeros(1))
        return self.node("Add", zero, np.asarray(row, dtype=float))

    def aggregate(self, values: str, aggregate: Aggregate, count: int) -> str:
        """Return the aggregate over the first axis of values (K, n, A)."""
        if isinstance(aggregate, Mean | MeanMinusStd):
            mean = self.node("ReduceMean", values, [0], keepdims=0)
            if isinstance(aggregate, Mean):
                return mean
            centred = self.node("Sub", values, mean)
            squares = self.node("Mul", centred, centred)
            std = self.node("Sqrt", self.node("ReduceMean", squares, [0], keepdims=0))
            return self.node("Sub", mean, self.node("Mul", std, float(aggregate.factor)))
        weights = order_weights(aggregate, count)
        if weights is None:
            raise PolicyError(
                f"Only Mean(), Median(), Quantile(q), TrimmedMean(fraction) and MeanMinusStd(factor) "
                f"can be exported to ONNX. Got {aggregate!r}."
            )
        ordered = self.node("TopK", values, [count], outputs=2, axis=0, largest=0)
        shares = self.node("Mul", ordered, np.asarray(weights)[:, None, None])
        return self.node("ReduceSum", shares, [0], keepdims=0)

    def write(
        self,
        path: Path,
        dimension: int | str,
        outputs: dict[str, Output],
        metadata: dict[str, Any] | None = None,
        *,
        kind: str = "DOUBLE",
    ) -> None:
        """Check the graph and write it atomically, with its description and checksum.

        `kind` is the number type of the states; each output has a name, a type and a shape.
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
    """Return a module of the extra `onnx`; if missing, raise an error with the install command."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TailproofError(
            f"ONNX needs {module}, which is not installed. Run: pip install 'tailproof[onnx]'"
        ) from error
