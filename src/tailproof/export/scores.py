"""Scores of actions as parts of an ONNX graph: trees, constants, standardised features.

Trees are walked level by level with gathers, in double precision, so that the graph goes exactly where
numpy goes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tailproof.algorithms.learners.state_critics import (
    Fixed,
    LinearScores,
    LogShares,
    Supported,
)
from tailproof.algorithms.learners.tree_arrays import TreeArrays, TreeValues
from tailproof.arrays import AnyArray, FloatArray
from tailproof.errors import PolicyError
from tailproof.features import Additive, Basis, PerAction, Polynomial, Standardise
from tailproof.features.state_maps import REACH


def scores_in(graph: Any, states: str, member: Any) -> str:
    """Return the scores of every action, (n, A), of one member of `StateCritics`."""
    if isinstance(member, TreeValues):
        return _tree_values(graph, states, member)
    if isinstance(member, LogShares):
        return str(graph.node("Log", _tree_values(graph, states, member.behaviour)))
    if isinstance(member, Fixed):
        zero = graph.node("Mul", graph.columns(states, [0]), graph.constant(np.zeros(1)))
        return str(graph.node("Add", zero, graph.constant(np.asarray(member.scores, dtype=float))))
    if isinstance(member, LinearScores):
        first = graph.constant(np.array([0], dtype=np.int64))
        single = linear_values(graph, states, member.features, member.theta[None])
        return str(graph.node("Squeeze", single, first))
    if isinstance(member, Supported):
        shares = _tree_values(graph, states, member.behaviour)
        last = graph.constant(np.array([1], dtype=np.int64))
        most = graph.node("ReduceMax", shares, last, keepdims=1)
        limit = graph.node("Mul", most, graph.constant(np.asarray(float(member.share))))
        allowed = graph.node("GreaterOrEqual", shares, limit)
        inside = scores_in(graph, states, member.scores)
        return str(graph.node("Where", allowed, inside, graph.constant(np.asarray(-np.inf))))
    raise PolicyError(f"{type(member).__name__} cannot be exported to ONNX.")


def state_features(graph: Any, states: str, features: Any, dimension: int) -> str:
    """Return ψ(s), (n, p')."""
    if isinstance(features, Polynomial):
        return str(graph.polynomial(states, features, dimension))
    if isinstance(features, Basis):
        return _basis(graph, states, features)
    raise PolicyError(
        f"Only Polynomial and Basis features of the state can be exported to ONNX. Got {features!r}."
    )


def linear_values(graph: Any, states: str, features: Any, theta: FloatArray) -> str:
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
        return str(graph.node("MatMul", psi, graph.constant(np.swapaxes(blocks, 1, 2))))
    shared = np.pad(theta[:, n_actions:], ((0, 0), (1, 0)))[..., None]  # nothing for the bias
    common = graph.node("MatMul", psi, graph.constant(shared))  # (K, n, 1)
    return str(graph.node("Add", common, graph.constant(theta[:, None, :n_actions])))


def _standardised(graph: Any, states: str, standardise: Standardise) -> str:
    """Return z, (n, kept columns)."""
    kept = graph.columns(states, list(standardise.columns))
    centred = graph.node("Sub", kept, graph.constant(np.array(standardise.centre)))
    z = graph.node("Div", centred, graph.constant(np.array(standardise.scale)))
    if not standardise.tame:
        return str(z)
    reach, one = graph.constant(np.asarray(REACH)), graph.constant(np.asarray(1.0))
    size = graph.node("Abs", z)
    beyond = graph.node("Max", graph.node("Sub", size, reach), graph.constant(np.asarray(0.0)))
    grown = graph.node("Add", graph.node("Log", graph.node("Add", beyond, one)), reach)
    tamed = graph.node("Mul", graph.node("Sign", z), grown)
    return str(graph.node("Where", graph.node("Greater", size, reach), tamed, z))


def _basis(graph: Any, states: str, basis: Basis) -> str:
    z = _standardised(graph, states, basis.standardise)
    zero = graph.node("Mul", graph.columns(states, [0]), graph.constant(np.zeros(1)))
    parts = [graph.node("Add", zero, graph.constant(np.ones(1))), z]
    if basis.pairs:
        left, right = (graph.columns(z, [pair[k] for pair in basis.pairs]) for k in (0, 1))
        parts.append(graph.node("Mul", left, right))
    columns = [place for place, knots in enumerate(basis.knots) for _ in knots]
    if columns:
        knots = graph.constant(np.array([knot for each in basis.knots for knot in each]))
        beyond = graph.node("Sub", graph.columns(z, columns), knots)
        parts.append(graph.node("Max", beyond, graph.constant(np.asarray(0.0))))
    return str(graph.node("Concat", *parts, axis=1))


def _tree_values(graph: Any, states: str, values: TreeValues) -> str:
    z = _single(graph, _standardised(graph, states, values.standardise))
    table = graph.constant(values.values)
    middle = graph.constant(np.array([1], dtype=np.int64))
    if values.values.ndim == 2:
        leaves = _leaves(graph, z, values.trees)  # (n, T)
        return str(
            graph.node("ReduceMean", graph.node("Gather", table, leaves), middle, keepdims=0)
        )
    each = []
    zero = graph.node("Mul", graph.columns(states, [0]), graph.constant(np.zeros(1)))
    for row in np.eye(values.n_actions):
        action = graph.node("Add", zero, graph.constant(row))
        leaves = _leaves(graph, graph.node("Concat", z, action, axis=1), values.trees)
        found = graph.node("Gather", table, leaves)  # (n, T)
        each.append(graph.node("ReduceMean", found, middle, keepdims=1))
    return str(graph.node("Concat", *each, axis=1))


def _single(graph: Any, values: str) -> str:
    """Return numbers rounded to single precision, as trees see them, in double."""
    kinds = graph.onnx.TensorProto
    return str(graph.node("Cast", graph.node("Cast", values, to=kinds.FLOAT), to=kinds.DOUBLE))


def _leaves(graph: Any, inputs: str, trees: TreeArrays) -> str:
    """Return the leaf of each row in each tree, (n, T)."""
    leaf = trees.column < 0
    own = np.arange(trees.nodes)

    def held(array: AnyArray) -> str:
        return str(graph.constant(np.asarray(array)))

    column = held(np.where(leaf, 0, trees.column).astype(np.int64))
    threshold = held(trees.threshold)
    left, right = (
        held(np.where(leaf, own, side).astype(np.int64)) for side in (trees.left, trees.right)
    )
    count = graph.node("Shape", inputs, start=0, end=1)
    shape = graph.node("Concat", count, held(np.array([len(trees.roots)])), axis=0)
    node = graph.node("Expand", held(trees.roots.astype(np.int64)[None]), shape)
    for _ in range(_depth(trees)):
        seen = graph.node("GatherElements", inputs, graph.node("Gather", column, node), axis=1)
        low = graph.node("LessOrEqual", seen, graph.node("Gather", threshold, node))
        node = graph.node(
            "Where", low, graph.node("Gather", left, node), graph.node("Gather", right, node)
        )
    return str(node)


def _depth(trees: TreeArrays) -> int:
    """Return how many questions lead to the deepest leaf."""
    nodes, depth = trees.roots, 0
    while len(nodes := nodes[trees.column[nodes] >= 0]):
        nodes = np.concatenate([trees.left[nodes], trees.right[nodes]])
        depth += 1
    return depth
