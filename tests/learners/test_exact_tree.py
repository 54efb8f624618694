"""Exact policy trees against brute force."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof.errors import MethodError
from tailproof.learners.exact_tree import Node, best_tree, state_tree, tree_arrays
from tailproof.rules import RULES


def brute_force(x, scores, depth, smallest, cost):
    """Return the best value of a tree, by trying every split of every node."""
    best = scores.sum(axis=0).max()
    if depth == 0:
        return best
    for column in x.T:
        for cut in np.unique(column)[:-1]:
            low = column <= cut
            if min(low.sum(), (~low).sum()) >= smallest:
                value = sum(
                    brute_force(x[side], scores[side], depth - 1, smallest, cost)
                    for side in (low, ~low)
                )
                best = max(best, value - cost)
    return best


def made(seed, n=25, p=3, actions=3, levels=6):
    rng = np.random.default_rng(seed)
    x = rng.integers(0, levels, (n, p)).astype(float)
    return x, rng.standard_normal((n, actions))


def decisions(tree, x):
    """Return the actions of the rows, one by one."""

    def action(node, row):
        while node.left is not None:
            node = node.left if row[node.column] <= node.threshold else node.right
        return node.action

    return np.array([action(tree, row) for row in x])


@settings(max_examples=30, deadline=None)
@given(
    seed=st.integers(0, 10_000),
    depth=st.integers(0, 2),
    smallest=st.integers(1, 6),
    cost=st.floats(0, 3),
)
def test_no_tree_is_better(seed, depth, smallest, cost):
    x, scores = made(seed)
    tree = best_tree(x, scores, depth=depth, smallest=smallest, cost=cost)
    assert tree.value == pytest.approx(brute_force(x, scores, depth, smallest, cost))
    assert tree.depth <= depth


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 10_000), depth=st.integers(0, 3))
def test_its_decisions_earn_its_value(seed, depth):
    x, scores = made(seed, n=40)
    tree = best_tree(x, scores, depth=depth, smallest=3)
    earned = scores[np.arange(40), decisions(tree, x)].sum()
    assert earned == pytest.approx(tree.value)


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 10_000))
def test_a_third_level_never_costs(seed):
    x, scores = made(seed, n=60)
    two, three = (best_tree(x, scores, depth=depth, smallest=2) for depth in (2, 3))
    assert three.value >= two.value - 1e-9


def test_a_pattern_that_greedy_splits_miss():
    rng = np.random.default_rng(1)
    x = rng.integers(0, 2, (400, 3)).astype(float)
    right = (x[:, 0] != x[:, 2]).astype(int)
    scores = np.eye(2)[right]
    tree = best_tree(x, scores, depth=2)
    assert tree.value == 400
    assert {tree.column, tree.left.column, tree.right.column} == {0, 2}


def test_order_of_rows_and_units_of_columns_do_not_matter():
    x, scores = made(2, n=300, levels=200)
    order = np.random.default_rng(0).permutation(300)
    tree = best_tree(x, scores, depth=2)
    again = best_tree(1e-6 * x[order] + 3, scores[order], depth=2)
    assert again.value == pytest.approx(tree.value)
    assert (decisions(again, 1e-6 * x + 3) == decisions(tree, x)).all()


def test_leaves_are_as_large_as_asked():
    x, scores = made(3, n=500, levels=100)
    tree = best_tree(x, scores, depth=2, smallest=60)

    def leaves(node):
        if node.left is None:
            return [node.rows]
        return leaves(node.left) + leaves(node.right)

    assert min(leaves(tree)) >= 60
    assert sum(leaves(tree)) == 500


def test_a_cost_for_leaves_prunes():
    x, scores = made(4, n=300)
    values = [best_tree(x, scores, depth=2, cost=cost) for cost in (0.0, 5.0, 1e9)]
    assert values[0].depth == 2
    assert values[2].depth == 0
    assert values[2].value == pytest.approx(scores.sum(axis=0).max())


def test_arrays_take_every_row_to_its_leaf():
    x, scores = made(7, n=60, p=2)
    tree = best_tree(x, scores, depth=3)
    arrays = tree_arrays(tree, columns=(4, 1))  # the inputs are the fifth and second variable
    wide = np.random.default_rng(0).standard_normal((60, 5))
    wide[:, [4, 1]] = x
    leaf = arrays.leaves(wide, precision=np.float64)[:, 0]
    best = [scores[leaf == each].sum(axis=0).argmax() for each in leaf]
    assert (best == decisions(tree, x)).all()


def test_thresholds_are_round_and_separate_close_values():
    x = np.array([[1.0], [1.0 + 1e-15], [2.0]])
    tree = best_tree(x, np.array([[1.0, 0.0], [0.0, 5.0], [0.0, 1.0]]), depth=1)
    assert 1.0 <= tree.threshold < x[1, 0]
    assert best_tree(np.array([[59.2], [61.7]]), np.eye(2), depth=1).threshold == 60


def test_columns_that_do_not_vary_are_no_splits():
    _, scores = made(5)
    tree = best_tree(np.ones((25, 2)), scores, depth=2)
    assert tree == Node(value=tree.value, rows=25, action=tree.action)


def test_no_columns():
    _, scores = made(6)
    assert best_tree(np.empty((25, 0)), scores, depth=2).depth == 0


def test_depth_is_checked():
    with pytest.raises(MethodError, match="depth"):
        best_tree(np.ones((3, 1)), np.ones((3, 2)), depth=4)


def test_of_many_columns_the_leading_ones_are_searched():
    rng = np.random.default_rng(5)
    states = rng.normal(size=(500, RULES.search_columns + 20))
    gain = (states[:, 31] > 0) + 1.0 * (states[:, 3] > 0) - 1.5 + rng.normal(0, 0.1, 500)
    tree = state_tree(states, np.column_stack([gain, np.zeros(500)]), depth=2, smallest=20)
    compared = tree.tree.column[tree.tree.column >= 0]
    assert set(compared.tolist()) == {3, 31}
