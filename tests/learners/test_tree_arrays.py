import pickle

import numpy as np
import pytest
from sklearn.ensemble import ExtraTreesClassifier, ExtraTreesRegressor
from sklearn.tree import DecisionTreeRegressor

from tailproof.critics.trees import (
    TreeArrays,
    TreeValues,
    grown,
    with_action,
)
from tailproof.features import Standardise
from tailproof.files import from_parts, to_parts
from tailproof.rules import RULES


@pytest.fixture(scope="module")
def inputs():
    return np.random.default_rng(1).normal(size=(300, 3)).astype(np.float32)


def test_rows_reach_the_leaves_that_scikit_learn_sends_them_to(inputs):
    target = inputs[:, 0] ** 2 + inputs[:, 1]
    forest = ExtraTreesRegressor(7, min_samples_leaf=5, random_state=0).fit(inputs, target)
    arrays = TreeArrays.of(forest.estimators_)
    other = np.random.default_rng(2).normal(size=(500, 3)).astype(np.float32)
    assert np.array_equal(arrays.leaves(other), forest.apply(other) + arrays.roots)


@pytest.mark.parametrize("classify", [False, True])
def test_trees_are_those_of_scikit_learns_forests(inputs, classify):
    target = np.digitize(inputs[:, 0], [-0.5, 0.5]) if classify else inputs[:, :2]
    kind = ExtraTreesClassifier if classify else ExtraTreesRegressor
    forest = kind(4, min_samples_leaf=5, max_features=1.0, random_state=3).fit(inputs, target)
    arrays = grown(inputs, target, trees=4, smallest=5, seed=3, classify=classify)
    for own, theirs in zip(arrays.native, forest.estimators_, strict=True):
        assert np.array_equal(own.threshold, theirs.tree_.threshold)
        assert np.array_equal(own.value, theirs.tree_.value)


def test_pickled_trees_send_rows_to_the_same_leaves(inputs):
    arrays = grown(inputs, inputs[:, 0], trees=4, smallest=5, seed=3)
    again = pickle.loads(pickle.dumps(arrays))
    assert not again.native
    assert np.array_equal(again.leaves(inputs), arrays.leaves(inputs))


def test_the_mean_of_leaf_values_is_the_forests_prediction(inputs):
    tree = DecisionTreeRegressor(max_depth=3, random_state=0).fit(inputs, inputs[:, 0])
    arrays = TreeArrays.of([tree])
    values = tree.tree_.value[:, 0, 0]
    assert values[arrays.leaves(inputs)].mean(axis=1) == pytest.approx(tree.predict(inputs))


def test_trees_without_a_question_send_everyone_to_the_root():
    tree = DecisionTreeRegressor().fit(np.zeros((4, 1)), np.ones(4))
    assert not TreeArrays.of([tree]).leaves(np.zeros((3, 0))).any()


@pytest.mark.parametrize("by_state", [True, False])
def test_values_are_saved_as_arrays_and_restored(inputs, by_state):
    scale = Standardise.fit(inputs.astype(float), tame=True)
    actions = np.arange(len(inputs)) % 2
    z = scale(inputs.astype(float))
    seen = z if by_state else with_action(z, actions, 2)
    forest = ExtraTreesRegressor(3, min_samples_leaf=20, random_state=0).fit(seen, inputs[:, 0])
    trees = TreeArrays.of(forest.estimators_)
    shape = (trees.nodes, 2) if by_state else (trees.nodes,)
    values = TreeValues(scale, trees, np.random.default_rng(0).normal(size=shape), 2)
    arrays = {}
    again = from_parts(to_parts(values, arrays), arrays)
    states = 10 * np.random.default_rng(3).normal(size=(50, 3))
    assert values(states).shape == (50, 2)
    assert np.array_equal(again(states), values(states))


def test_units_of_the_state_do_not_matter():
    rng = np.random.default_rng(4)
    states, scale = rng.normal(size=(400, 2)), np.array([1e-2, 1e5])
    found = []
    for factor in (np.ones(2), scale):
        standardise = Standardise.fit(states * factor, tame=True)
        found.append(standardise(states * factor))
    assert found[0] == pytest.approx(found[1])


def test_trees_of_wide_tables_compare_leading_columns_and_those_that_must_be_kept():
    rng = np.random.default_rng(4)
    wide = rng.normal(size=(400, RULES.tree_columns + 30)).astype(np.float32)
    target = 3 * wide[:, 17] + wide[:, -2]
    trees = grown(wide, target, trees=3, smallest=20, seed=1, always=2)
    compared = np.unique(trees.column[trees.column >= 0])
    assert 17 in compared
    assert len(set(compared) - {wide.shape[1] - 1, wide.shape[1] - 2}) <= RULES.tree_columns
    again = pickle.loads(pickle.dumps(trees))  # without what scikit-learn grew
    assert np.array_equal(trees.leaves(wide), again.leaves(wide))
