"""Save learned policies as ONNX graphs, and load policies from files."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode, b64encode
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import combinations
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray, checked_states, one_or_many
from tailproof.critics.ensembles import LinearCritics
from tailproof.critics.greedy import CriticPolicy, SoftmaxPolicy
from tailproof.critics.trees import (
    Fixed,
    Limited,
    LinearScores,
    LogShares,
    StateCritics,
    StateTree,
    Supported,
    TreeArrays,
    TreeValues,
)
from tailproof.doors.learned import KIND, Learned
from tailproof.errors import PolicyError, require_module
from tailproof.export.columns import Input, columns_of, inputs_of, read_columns
from tailproof.features import Additive, Basis, PerAction, Polynomial, Standardise
from tailproof.features.maps import REACH
from tailproof.files import (
    SavedFileError,
    from_parts,
    is_file_of,
    opened_page,
    sealed_page,
    write_whole,
)
from tailproof.policies.forms import DeterministicPolicy, LinearPolicy, made_for
from tailproof.robust.aggregates import Aggregate, Mean, MeanMinusStd, order_weights

if TYPE_CHECKING:
    from tailproof.io.encoder import Encoder


def scores_in(graph: Graph, states: str, member: object) -> str:
    """Return the scores of all actions, (n, A), of one member of `StateCritics`."""
    if isinstance(member, TreeValues):
        return _tree_values(graph, states, member)
    if isinstance(member, StateTree):
        leaf = graph.node("Squeeze", _leaves(graph, states, member.tree), [1])
        return graph.node("Gather", graph.constant(member.values), leaf)
    if isinstance(member, LogShares):
        return graph.node("Log", _tree_values(graph, states, member.behaviour))
    if isinstance(member, Fixed):
        return graph.repeated(states, member.scores)
    if isinstance(member, LinearScores):
        single = linear_values(graph, states, member.features, member.theta[None])
        return graph.node("Squeeze", single, [0])
    if isinstance(member, Supported):
        shares = _tree_values(graph, states, member.behaviour)
        most = graph.node("ReduceMax", shares, [1], keepdims=1)
        limit = graph.node("Mul", most, float(member.share))
        allowed = graph.node("GreaterOrEqual", shares, limit)
        return graph.node("Where", allowed, scores_in(graph, states, member.scores), -np.inf)
    if isinstance(member, Limited):
        limited = graph.node(
            "Add", *(scores_in(graph, states, each) for each in (member.scores, member.barred))
        )
        if member.cost_column < 0:
            return graph.node("Sub", limited, member.prices)
        cost = graph.columns(states, [member.cost_column])
        return graph.node("Sub", limited, graph.node("Mul", cost, member.prices))
    raise PolicyError(f"{type(member).__name__} cannot be exported to ONNX.")


def linear_values(graph: Graph, states: str, features: object, theta: FloatArray) -> str:
    """Return φ(s, a)ᵀθ_k at every action, (K, n, A)."""
    if not isinstance(features, PerAction | Additive):
        raise PolicyError(
            f"Only linear critics over PerAction or Additive features, and trees, can be exported to "
            f"ONNX. Got {features!r}."
        )
    psi = state_features(graph, states, features.state_features, features.state_dimension)
    count, n_actions = len(theta), features.n_actions
    if isinstance(features, PerAction):
        blocks = theta.reshape(count, n_actions, -1)
        return graph.node("MatMul", psi, np.swapaxes(blocks, 1, 2))
    shared = np.pad(theta[:, n_actions:], ((0, 0), (1, 0)))[..., None]  # 0 for the bias
    common = graph.node("MatMul", psi, shared)  # (K, n, 1)
    return graph.node("Add", common, theta[:, None, :n_actions])


def state_features(graph: Graph, states: str, features: object, dimension: int) -> str:
    """Return ψ(s), (n, p')."""
    pairs: Sequence[tuple[int, int]]
    if isinstance(features, Polynomial):
        z, bias = states, features.bias
        pairs = list(combinations(range(dimension), 2)) if features.degree > 1 else []
        knots: list[tuple[int, float]] = []
    elif isinstance(features, Basis):
        z, bias, pairs = _standardised(graph, states, features.standardise), True, features.pairs
        knots = [(place, knot) for place, each in enumerate(features.knots) for knot in each]
    else:
        raise PolicyError(
            f"Only Polynomial and Basis features of the state can be exported to ONNX. Got "
            f"{features!r}."
        )
    parts = [graph.repeated(states, np.ones(1)), z] if bias else [z]
    if pairs:
        left, right = (graph.columns(z, [pair[k] for pair in pairs]) for k in (0, 1))
        parts.append(graph.node("Mul", left, right))
    if knots:
        columns = graph.columns(z, [place for place, _ in knots])
        beyond = graph.node("Sub", columns, np.array([knot for _, knot in knots]))
        parts.append(graph.node("Max", beyond, 0.0))
    return graph.node("Concat", *parts, axis=1)


def _standardised(graph: Graph, states: str, standardise: Standardise) -> str:
    """Return z, (n, kept columns)."""
    kept = graph.columns(states, list(standardise.columns))
    centred = graph.node("Sub", kept, np.array(standardise.centre))
    z = graph.node("Div", centred, np.array(standardise.scale))
    if not standardise.tame:
        return z
    size = graph.node("Abs", z)
    beyond = graph.node("Max", graph.node("Sub", size, REACH), 0.0)
    grown = graph.node("Add", graph.node("Log", graph.node("Add", beyond, 1.0)), REACH)
    tamed = graph.node("Mul", graph.node("Sign", z), grown)
    return graph.node("Where", graph.node("Greater", size, REACH), tamed, z)


def _tree_values(graph: Graph, states: str, values: TreeValues) -> str:
    kinds, table = graph.onnx.TensorProto, graph.constant(values.values)
    single = graph.node("Cast", _standardised(graph, states, values.standardise), to=kinds.FLOAT)
    z = graph.node("Cast", single, to=kinds.DOUBLE)  # trees use single-precision inputs
    if values.values.ndim == 2:
        leaves = _leaves(graph, z, values.trees)  # (n, T)
        return graph.node("ReduceMean", graph.node("Gather", table, leaves), [1], keepdims=0)
    each = []
    for row in np.eye(values.n_actions):
        pairs = graph.node("Concat", z, graph.repeated(states, row), axis=1)
        found = graph.node("Gather", table, _leaves(graph, pairs, values.trees))  # (n, T)
        each.append(graph.node("ReduceMean", found, [1], keepdims=1))
    return graph.node("Concat", *each, axis=1)


def _leaves(graph: Graph, inputs: str, trees: TreeArrays) -> str:
    """Return the leaf of each row in each tree, (n, T)."""
    leaf = trees.column < 0
    own = np.arange(trees.nodes)
    column = graph.integers(np.where(leaf, 0, trees.column))
    threshold = graph.constant(trees.threshold)
    left, right = (graph.integers(np.where(leaf, own, side)) for side in (trees.left, trees.right))
    count = graph.node("Shape", inputs, start=0, end=1)
    shape = graph.node("Concat", count, [len(trees.roots)], axis=0)
    node = graph.node("Expand", graph.integers(trees.roots[None]), shape)
    for _ in range(_depth(trees)):
        seen = graph.node("GatherElements", inputs, graph.node("Gather", column, node), axis=1)
        low = graph.node("LessOrEqual", seen, graph.node("Gather", threshold, node))
        node = graph.node(
            "Where", low, graph.node("Gather", left, node), graph.node("Gather", right, node)
        )
    return node


def _depth(trees: TreeArrays) -> int:
    """Return the depth of the deepest tree."""
    nodes, depth = trees.roots, 0
    while len(nodes := nodes[trees.column[nodes] >= 0]):
        nodes = np.concatenate([trees.left[nodes], trees.right[nodes]])
        depth += 1
    return depth


_OPSET, _ML_OPSET, _IR_VERSION = 18, 3, 9  # supported by runtimes of the last years
#: Properties of a graph with its description, and with the SHA-256 of its bytes.
METADATA_KEY, CHECKSUM_KEY = "tailproof", "tailproof-sha256"
INSTALL = "'tailproof[onnx]'"
_UNSEALED = "0" * 64  # placeholder for the checksum while it is computed
Output = tuple[str, str, list[Any]]  # name in the graph, number type, shape


def export_policy(policy: CriticPolicy, path: str | Path) -> None:
    """Write a policy over linear critics or trees as ONNX.

    Inputs: the columns of the policy's table by name (`tailproof.export.columns`), or ``states``
    (n, p) of a log of arrays. Outputs: ``actions`` (n,), the likeliest ones, as codes and as
    ``labels``; ``probabilities`` (n, A); ``values``, the aggregated Q(s, a) of the policy's actions.
    Rows that the encoder refuses have the action −1, an empty label and NaN.
    """
    _require_name(path)
    graph = Graph()
    values, dimension = _values(graph, policy)
    best = graph.node("ArgMax", values, axis=1, keepdims=0)
    actions = graph.node("Gather", graph.integers(policy.actions), best)
    probabilities = None
    if isinstance(policy, SoftmaxPolicy):
        scaled = graph.node("Div", values, float(policy.temperature))
        spread = np.eye(policy.n_actions)[list(policy.actions)]
        probabilities = graph.node("MatMul", graph.node("Softmax", scaled, axis=1), spread)
    outputs = graph.decided(actions, probabilities, policy.n_actions, policy.action_labels)
    outputs["values"] = (values, "DOUBLE", ["n", len(policy.actions)])
    marks = None if policy.taught is None else np.asarray(policy.taught, dtype="<i8").tobytes()
    metadata = {
        **made_for(policy),
        "taught": None if marks is None else b64encode(marks).decode(),
        "n_actions": policy.n_actions,
        "draws": isinstance(policy, SoftmaxPolicy),
    }
    graph.write(Path(path), dimension, outputs, metadata, encoder=policy.encoder)


def export_regression(policy: LinearPolicy, path: str | Path) -> None:
    """Write a regression of continuous actions as ONNX: columns or states to ``actions`` (n, q)."""
    _require_name(path)
    graph = Graph()
    z = graph.node("Div", graph.node("Sub", "states", policy.mean), policy.scale)
    size, width = len(policy.mean), policy.weights.shape[1]
    psi = state_features(graph, z, Polynomial(), size)
    free = graph.node("MatMul", psi, policy.weights)
    actions = graph.node("Max", graph.node("Min", free, policy.high), policy.low)
    output: Output = (actions, "DOUBLE", ["n", width])
    metadata = {**made_for(policy), "n_actions": None}
    graph.write(Path(path), size, {"actions": output}, metadata, encoder=policy.encoder)


def _require_name(path: str | Path) -> None:
    if Path(path).suffix != ".onnx":
        raise PolicyError(
            f"policy.save writes ONNX, to a file that ends in .onnx. Got {str(path)!r}; "
            f"Learned.save writes tailproof's own format."
        )


def _sealed(model: Any, metadata: dict[str, Any]) -> bytes:
    """Return the bytes of an ONNX model with its description and a checksum."""
    for key, value in ((METADATA_KEY, sealed_page(metadata).decode()), (CHECKSUM_KEY, _UNSEALED)):
        entry = model.metadata_props.add()
        entry.key, entry.value = key, value
    content: bytes = model.SerializeToString()
    head, _, tail = content.rpartition(_UNSEALED.encode())
    return head + hashlib.sha256(content).hexdigest().encode() + tail


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
        self.onnx = require_module("onnx", INSTALL, "ONNX")
        self.nodes: list[Any] = []
        self.made = 0
        self.constants: list[Any] = []

    def constant(self, values: object) -> str:
        """Add a constant and return its name."""
        name = f"/constant_{len(self.constants)}"
        self.constants.append(self.onnx.numpy_helper.from_array(np.ascontiguousarray(values), name))
        return name

    def integers(self, values: object) -> str:
        """Add an integer constant and return its name."""
        return self.constant(np.asarray(values, dtype=np.int64))

    def node(self, kind: str, *inputs: object, outputs: int = 1, **attributes: object) -> str:
        """Add a node, whose inputs may be numbers, and return the name of its first output."""
        given = [each if isinstance(each, str) else self.constant(each) for each in inputs]
        self.made += 1
        names = [f"/{kind.lower()}_{self.made}_{i}" for i in range(outputs)]
        self.nodes.append(self.onnx.helper.make_node(kind, given, names, **attributes))
        return names[0]

    def columns(self, values: str, which: list[int]) -> str:
        """Return some columns of values (n, p)."""
        return self.node("Gather", values, self.integers(which), axis=1)

    def repeated(self, states: str, row: object) -> str:
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
            return self.node("Sub", mean, self.node("Mul", std, aggregate.factor_for(count)))
        weights = order_weights(aggregate, count)
        if weights is None:
            raise PolicyError(
                f"Only Mean(), Median(), Quantile(q), TrimmedMean(fraction) and MeanMinusStd(factor) "
                f"can be exported to ONNX. Got {aggregate!r}."
            )
        ordered = self.node("TopK", values, [count], outputs=2, axis=0, largest=0)
        shares = self.node("Mul", ordered, np.asarray(weights)[:, None, None])
        return self.node("ReduceSum", shares, [0], keepdims=0)

    def decided(
        self, actions: str, probabilities: str | None, n_actions: int, labels: Sequence[str] | None
    ) -> dict[str, Output]:
        """Return the outputs of discrete actions: codes (n,), labels (n,), probabilities (n, A)."""
        if probabilities is None:
            codes = self.node("Unsqueeze", actions, [1])
            taken = self.node("Equal", codes, np.arange(n_actions)[None])
            probabilities = self.node("Cast", taken, to=self.onnx.TensorProto.DOUBLE)
        names = [*map(str, range(n_actions))] if labels is None else labels
        named = self.node("Gather", np.array(names, dtype=object), actions)
        return {
            "actions": (actions, "INT64", ["n"]),
            "labels": (named, "STRING", ["n"]),
            "probabilities": (probabilities, "DOUBLE", ["n", n_actions]),
        }

    def write(
        self,
        path: Path,
        dimension: int | str,
        outputs: dict[str, Output],
        metadata: dict[str, object],
        *,
        encoder: Encoder | None = None,
        kind: str = "DOUBLE",
    ) -> None:
        """Check the graph and write it atomically, with its description and checksum.

        `kind` is the number type of the states; each output has a name, a type and a shape. With an
        encoder that has columns, these are the inputs, and the rows that it refuses have no answer.
        """
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        inputs = [Input("states", kind, ("n", dimension), "states, in the order of state_names")]
        by_column = encoder is not None and bool(encoder.variables)
        if encoder is not None and by_column:
            outputs, inputs = self._over_columns(outputs, encoder, kind)
        results = []
        for name, (made, own, shape) in outputs.items():
            self.nodes.append(helper.make_node("Identity", [made], [name]))
            results.append(helper.make_tensor_value_info(name, getattr(kinds, own), shape))
        given = [
            helper.make_tensor_value_info(
                each.name, getattr(kinds, each.kind), each.shape, each.words
            )
            for each in inputs
        ]
        graph = helper.make_graph(self.nodes, "tailproof policy", given, results, self.constants)
        opsets = [helper.make_opsetid("", _OPSET), helper.make_opsetid("ai.onnx.ml", _ML_OPSET)]
        model = helper.make_model(graph, opset_imports=opsets, producer_name="tailproof")
        metadata = {**metadata, "by_column": by_column}
        model.ir_version = _IR_VERSION
        self.onnx.checker.check_model(model)
        write_whole(path, _sealed(model, metadata))

    def _over_columns(
        self, outputs: dict[str, Output], encoder: Encoder, kind: str
    ) -> tuple[dict[str, Output], list[Input]]:
        """Put the encoder before the nodes that read ``states``; return outputs and inputs."""
        later, self.nodes = self.nodes, []
        inputs, (made, read) = inputs_of(encoder), read_columns(self, encoder)
        if taken := [name for name in ("states", *outputs) if name in inputs]:
            raise PolicyError(
                f"The column {taken[0]!r} has the name of another part of the graph. Rename it in the "
                f"log's table and learn again."
            )
        helper, kinds = self.onnx.helper, self.onnx.TensorProto
        cast = helper.make_node("Cast", [made], ["states"], to=getattr(kinds, kind))
        encoding, self.nodes = [*self.nodes, cast], []
        answered: dict[str, Output] = {}
        for name, (found, own, shape) in outputs.items():
            if own == "STRING":
                nothing: Any = np.array("", dtype=object)
            else:
                missing = -1 if own == "INT64" else np.nan
                nothing = np.array(
                    missing, dtype=helper.tensor_dtype_to_np_dtype(getattr(kinds, own))
                )
            rows = read if len(shape) == 1 else self.node("Unsqueeze", read, [1])
            answered[name] = (self.node("Where", rows, found, nothing), own, shape)
        self.nodes = [*encoding, *later, *self.nodes]
        return answered, list(inputs.values())


_TYPES = {
    "tensor(double)": np.float64,
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}


@dataclass(frozen=True, eq=False)
class OnnxPolicy:
    """A policy in an ONNX graph, whose inputs are states (n, p), or the columns of a table.

    It keeps the bytes of the file, so that it can be sent to other processes and machines, and later
    changes of the file have no effect.

    Attributes
    ----------
    deterministic
        Whether it takes its output ``actions``, or else its first output. Otherwise its output
        ``probabilities`` is a distribution over discrete actions.
    by_column
        Whether its inputs are the columns of the encoder.

    Examples
    --------
    >>> import os, tempfile
    >>> from tailproof import learn
    >>> from tailproof.export.onnx import load
    >>> from tailproof.worlds import CartPole
    >>> log = CartPole().log(episodes=20)
    >>> policy = learn(log, method="room-vm", gamma=0.99).policy
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     policy.save(os.path.join(folder, "policy.onnx"))
    ...     again = load(os.path.join(folder, "policy.onnx"))
    >>> bool((again(log.states) == policy(log.states)).all())
    True
    """

    path: str
    content: bytes = field(repr=False)
    deterministic: bool = True
    by_column: bool = False
    n_actions: int | None = None
    state_names: tuple[str, ...] = ()
    action_labels: tuple[str, ...] | None = None
    encoder: Encoder | None = field(default=None, repr=False)
    taught: IntArray | None = field(default=None, repr=False)

    @cached_property
    def session(self) -> Any:
        """The runtime's session, created on first use."""
        return _session(self.path, self.content)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "session"}

    @one_or_many
    def __call__(self, states: FloatArray) -> AnyArray:
        """Return the likeliest action in each state, (n,) or (n, q); for one state (p,), one action."""
        if self.deterministic:
            return self.run(states, "actions")
        return np.asarray(self.probabilities(states).argmax(axis=1))

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a | s), (n, A)."""
        return np.asarray(self.run(states, "probabilities"), dtype=float)

    def run(self, states: FloatArray, wanted: str) -> AnyArray:
        """Return one output of the graph, (n, ...)."""
        if self.by_column:
            assert self.encoder is not None  # `load_onnx` has matched it with the inputs
            array = checked_states(states, len(self.encoder.state_names), PolicyError)
            return self._answers(columns_of(self.encoder, array), len(array), wanted)
        given = self.session.get_inputs()[0]
        names = [each.name for each in self.session.get_outputs()]
        output = wanted if wanted in names else names[0]
        array, fixed = _as_input(states, given, self.path), given.shape[0]
        count = len(array)
        size = fixed if isinstance(fixed, int) and fixed > 0 else max(count, 1)
        if size == fixed:  # pad the last batch
            array = np.pad(array, ((0, -count % size if count else size), (0, 0)))
        batches = np.split(array, range(size, len(array), size))
        found = [self._answers({given.name: batch}, len(batch), output) for batch in batches]
        return np.concatenate(found)[:count]

    def _answers(self, given: dict[str, AnyArray], count: int, output: str) -> AnyArray:
        try:
            values = np.asarray(self.session.run([output], given)[0])
        except Exception as error:  # onnxruntime has a type of its own for every way to fail
            reason = str(error).splitlines()[0]
            raise PolicyError(f"The policy in {self.path} could not be run: {reason}") from error
        if values.ndim == 0 or len(values) != count:
            raise PolicyError(
                f"The policy in {self.path} must answer with a row for each state. Got the shape "
                f"{values.shape} for {count} states."
            )
        return values


def load_onnx(path: str | Path) -> OnnxPolicy:
    """Return the policy in an ONNX graph: one of ours, or any other with states (n, p) as input.

    The graph must be one file: weights in other files are not read.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise SavedFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    sealed = _is_sealed(content, str(path))
    session = _session(str(path), content)
    described = _described(session, str(path), sealed)
    draws = described.pop("draws", None)
    inputs, encoder = session.get_inputs(), described.get("encoder")
    if described.get("by_column"):
        if encoder is None or [each.name for each in inputs] != [*inputs_of(encoder)]:
            raise SavedFileError(f"{path} is inconsistent: its inputs are not its columns.")
    elif len(inputs) != 1:
        raise SavedFileError(
            f"A policy has one input, the states. {path} has {len(inputs)}: "
            f"{', '.join(each.name for each in inputs)}."
        )
    elif inputs[0].type not in _TYPES:
        raise SavedFileError(
            f"A policy takes states as numbers ({', '.join(_TYPES)}). {path} takes {inputs[0].type}."
        )
    if draws is None:  # a graph that was made elsewhere
        draws = "probabilities" in (each.name for each in session.get_outputs())
    policy = OnnxPolicy(str(path), content, deterministic=not draws, **described)
    vars(policy)["session"] = session
    return policy


def _session(path: str, content: bytes) -> Any:
    runtime = require_module("onnxruntime", INSTALL, "ONNX")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1  # more threads do not speed up small graphs
    options.log_severity_level = 4
    try:
        return runtime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # onnxruntime has a type of its own for every way to fail
        reason = str(error).splitlines()[0]
        raise SavedFileError(f"{path} is no ONNX graph that can be run: {reason}") from error


def _is_sealed(content: bytes, path: str) -> bool:
    """Return whether a graph has tailproof's checksum; raise an error if it does not match."""
    if CHECKSUM_KEY.encode() not in content:
        return False
    found = re.search(CHECKSUM_KEY.encode() + rb"\x12@([0-9a-f]{64})", content)
    seal = b"" if found is None else found[1]
    unsealed = content.replace(seal, _UNSEALED.encode()) if seal else content
    if hashlib.sha256(unsealed).hexdigest().encode() != seal:
        raise _damaged(path)
    return True


def _damaged(path: str) -> SavedFileError:
    return SavedFileError(
        f"{path} is damaged: its content does not match its checksum. Copy it again, or save it anew."
    )


def _described(session: Any, path: str, sealed: bool) -> dict[str, Any]:
    """Return the description in a graph that tailproof wrote; empty for others."""
    try:
        text = session.get_modelmeta().custom_metadata_map.get(METADATA_KEY)
    except UnicodeDecodeError as error:
        raise SavedFileError(f"{path} has properties that are no text: {error}.") from error
    if text is None:
        return {}
    if not sealed:
        raise _damaged(path)
    page = opened_page(text.encode(), f"The description in {path}")
    try:
        marks, count = page.get("taught"), page["n_actions"]
        return {
            **{
                name: from_parts(page[name]) for name in ("state_names", "action_labels", "encoder")
            },
            "taught": None if marks is None else np.frombuffer(b64decode(marks), dtype="<i8"),
            "n_actions": None if count is None else int(count),
            "by_column": bool(page.get("by_column", False)),
            "draws": page.get("draws"),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise SavedFileError(f"The description in {path} lacks {error}; save it again.") from error


def _as_input(states: FloatArray, given: Any, path: str) -> AnyArray:
    """Return states in the input type of a graph; raise an error if values do not fit it."""
    expected, kind = given.shape[-1] if given.shape else None, _TYPES[given.type]
    array = np.asarray(states)
    if array.ndim != 2 or (isinstance(expected, int) and array.shape[1] != expected):
        raise PolicyError(
            f"The policy in {path} takes states of shape (n, {expected}). Got {array.shape}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        cast = np.ascontiguousarray(array, dtype=kind)
        whole = np.issubdtype(kind, np.integer)
        fits = (cast == array).all() if whole else np.isfinite(cast).all()
    if not fits:
        what = "whole numbers of its range" if whole else "numbers of its range"
        raise PolicyError(
            f"The policy in {path} takes {given.type}, that is {what}. The states have others; "
            f"export it with double or float inputs."
        )
    return cast


def load(path: str | Path) -> DeterministicPolicy:
    """Return the policy in a file.

    Parameters
    ----------
    path
        An ``.onnx`` graph (from `GreedyPolicy.save`, or any other with states as input), or a file
        written by `Learned.save` or by the `save` of a neural policy.
    """
    if not Path(path).is_file():
        raise SavedFileError(f"There is no file {str(path)!r}.")
    if is_file_of(path, KIND):
        learned: DeterministicPolicy = Learned.load(path).policy
        return learned
    if is_file_of(path, "neural policy"):
        from tailproof.deep.settings import require_torch

        require_torch()
        from tailproof.deep.critics import load_policy

        return load_policy(path)
    if Path(path).suffix == ".onnx":
        return load_onnx(path)
    raise SavedFileError(
        f"{path} holds no policy that tailproof can read: give an .onnx file or one that "
        f"Learned.save wrote."
    )
