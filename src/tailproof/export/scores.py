"""Action values as parts of an ONNX graph: trees, constants, standardised features.

Trees are traversed level by level with gathers, in double precision, so that the graph reaches the
same leaves as numpy.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from tailproof.algorithms.learners.state_critics import (
    Fixed,
    LinearScores,
    LogShares,
    Supported,
)
from tailproof.algorithms.learners.tree_arrays import TreeArrays, TreeValues
from tailproof.arrays import FloatArray
from tailproof.errors import PolicyError
from tailproof.features import Additive, Basis, PerAction, Polynomial, Standardise
from tailproof.features.state_maps import REACH

if TYPE_CHECKING:
    from tailproof.export.graph import Graph


def scores_in(graph: Graph, states: str, member: Any) -> str:
    """Return the scores of all actions, (n, A), of one member of `StateCritics`."""
    if isinstance(member, TreeValues):
        return _tree_values(graph, states, member)
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
    raise PolicyError(f"{type(member).__name__} cannot be exported to ONNX.")


def linear_values(graph: Graph, states: str, features: Any, theta: FloatArray) -> str:
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


def state_features(graph: Graph, states: str, features: Any, dimension: int) -> str:
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
