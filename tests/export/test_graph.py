"""A policy as an ONNX graph takes the same actions, to the last state."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof import (
    FQI,
    Cloning,
    Discrete,
    GreedyPolicy,
    Joint,
    Log,
    Mean,
    MeanMinusStd,
    Median,
    Method,
    PerAction,
    Polynomial,
    Quantile,
    SoftmaxPolicy,
    Split,
    TrimmedMean,
    evaluate,
    learn,
    load_policy,
)
from tailproof.critics.ensembles import Ensemble, LinearCritics
from tailproof.errors import PolicyError, StorageError, TaughtWarning
from tailproof.export.onnx import OnnxPolicy
from tailproof.features import Additive, Basis
from tailproof.files import SavedFileError
from tailproof.learners.cloning import TreeCloning
from tailproof.parallel import Local

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

AGGREGATES = [Mean(), Median(), Quantile(0.0), Quantile(0.1), Quantile(0.4, rule="lower")]
AGGREGATES += [TrimmedMean(0.2), MeanMinusStd(2.0), MeanMinusStd(1.0, ddof=1)]


def critic(count, actions, state_features, dimension, aggregate, seed):
    features = PerAction(state_features, dimension, actions)
    theta = np.random.default_rng(seed).standard_t(2, size=(count, features.size))
    return Ensemble(LinearCritics(features, theta, np.zeros(count, dtype=bool)), aggregate)


@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
@pytest.mark.parametrize("count", [3, 4, 5])
def test_actions_are_identical(aggregate, count, tmp_path, rng):
    policy = GreedyPolicy(critic(count, 3, Polynomial(), 4, aggregate, seed=count), 3)
    policy.save(tmp_path / "policy.onnx")
    again = load_policy(tmp_path / "policy.onnx")
    states = rng.standard_normal((5000, 4))
    assert isinstance(again, OnnxPolicy)
    assert again.deterministic
    assert np.array_equal(again(states), policy(states))
    assert set(policy(states).tolist()) == {0, 1, 2}


@pytest.mark.parametrize("features", [PerAction, Additive])
@pytest.mark.parametrize("knots", [0, 3])
def test_standardised_features_are_part_of_the_graph(features, knots, tmp_path, rng):
    states = rng.standard_t(2, size=(300, 3)) * [1e-3, 1.0, 50.0]
    known = features(Basis.fit(states, squares=True, knots=knots), 3, 2)
    theta = rng.normal(size=(3, known.size))
    both = Ensemble(LinearCritics(known, theta, np.zeros(3, dtype=bool)), Median())
    policy = GreedyPolicy(both, 2)
    policy.save(tmp_path / "policy.onnx")
    assert np.array_equal(load_policy(tmp_path / "policy.onnx")(states), policy(states))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["constant", "one-step", "forest-fqi"])
def test_trees_are_walked_as_numpy_walks_them(name, heavy_log, tmp_path, rng):
    policy = learn(heavy_log, method=name, gamma=0.9).policy
    policy.save(tmp_path / "policy.onnx")
    again = load_policy(tmp_path / "policy.onnx")
    states = np.concatenate([heavy_log.states, 3 * rng.standard_normal((500, 4))])
    assert np.array_equal(again(states), policy(states))


@pytest.mark.parametrize("exact", [False, True])
def test_a_cloned_behaviour_keeps_its_probabilities(exact, tabular, tmp_path):
    log = tabular.log(episodes=30, steps=20, seed=1)
    chosen = Method(base=TreeCloning(exact=exact), at="pointwise")
    policy = learn(log, method=chosen, gamma=0.9).softmax(1.0)
    policy.save(tmp_path / "policy.onnx")
    states = np.vstack([np.eye(4), np.full((1, 4), 0.3)])
    found = load_policy(tmp_path / "policy.onnx").probabilities(states)
    assert found == pytest.approx(policy.probabilities(states))


@settings(max_examples=15)
@given(
    dimension=st.integers(1, 5),
    degree=st.integers(1, 2),
    bias=st.booleans(),
    actions=st.lists(st.integers(0, 4), min_size=1, unique=True),
    seed=st.integers(0, 1000),
)
def test_any_shape_and_any_choice_of_actions(
    tmp_path_factory, dimension, degree, bias, actions, seed
):
    path = tmp_path_factory.mktemp("onnx") / "policy.onnx"
    ensemble = critic(3, 5, Polynomial(degree=degree, bias=bias), dimension, Median(), seed)
    states = np.random.default_rng(seed).standard_normal((200, dimension))
    greedy = GreedyPolicy(ensemble, 5, tuple(actions))
    greedy.save(path)
    assert np.array_equal(load_policy(path)(states), greedy(states))
    softmax = SoftmaxPolicy(ensemble, 5, tuple(actions), temperature=0.7)
    softmax.save(path)
    again = load_policy(path)
    assert not again.deterministic
    assert again.probabilities(states) == pytest.approx(softmax.probabilities(states), abs=1e-12)


def test_the_order_in_which_actions_are_given_does_not_matter(rng):
    ensemble, states = critic(3, 4, Polynomial(), 2, Median(), seed=5), rng.normal(size=(200, 2))
    first, other = (GreedyPolicy(ensemble, 4, order) for order in ((0, 1, 2, 3), (2, 3, 1, 0)))
    assert np.array_equal(first(states), other(states))
    assert set(first(states)) > {0}


@pytest.mark.parametrize("name", ["room-fqi", "p-room-vm", "pb", "lstd-q", "bc"])
def test_what_was_learned_acts_the_same_in_the_world(name, cartpole, tmp_path):
    log = cartpole.log(episodes=30, steps=60, seed=2)
    policy = learn(log, method=name, gamma=0.99).policy
    policy.save(tmp_path / "policy.onnx")
    again = load_policy(tmp_path / "policy.onnx")
    assert np.array_equal(again(log.states), policy(log.states))
    values = [cartpole.value(each, episodes=20, steps=50, seed=1) for each in (policy, again)]
    assert values[0] == values[1]


def test_unlogged_actions_stay_unchosen(tmp_path, rng):
    ensemble = critic(3, 4, Polynomial(), 2, Median(), seed=0)
    policy = GreedyPolicy(ensemble, 4, (1, 3))
    policy.save(tmp_path / "policy.onnx")
    assert set(load_policy(tmp_path / "policy.onnx")(rng.standard_normal((500, 2)))) == {1, 3}


def test_the_values_are_in_the_graph(tmp_path, rng):
    import onnxruntime

    policy = GreedyPolicy(critic(5, 2, Polynomial(), 3, Median(), seed=1), 2)
    policy.save(tmp_path / "policy.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "policy.onnx")
    states = rng.standard_normal((50, 3))
    values = session.run(["values"], {"states": states})[0]
    assert values == pytest.approx(policy.values(states), rel=1e-12)


def test_a_graph_of_single_precision_is_fed_what_it_wants(tmp_path, rng):
    import onnx

    helper, kinds = onnx.helper, onnx.TensorProto
    first = onnx.numpy_helper.from_array(np.array([[1.0], [0.0]], dtype=np.float32), "first")
    zero = onnx.numpy_helper.from_array(np.array(0.0, dtype=np.float32), "zero")
    nodes = [
        helper.make_node("MatMul", ["s", "first"], ["x"]),
        helper.make_node("Greater", ["x", "zero"], ["positive"]),
        helper.make_node("Cast", ["positive"], ["choice"], to=kinds.INT64),
    ]
    graph = helper.make_graph(
        nodes,
        "someone else's",
        [helper.make_tensor_value_info("s", kinds.FLOAT, ["n", 2])],
        [helper.make_tensor_value_info("choice", kinds.INT64, ["n", 1])],
        [first, zero],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    onnx.save(model, tmp_path / "own.onnx")
    states = rng.standard_normal((20, 2))
    policy = load_policy(tmp_path / "own.onnx")
    assert np.array_equal(policy(states)[:, 0], states[:, 0] > 0)
    with pytest.raises(PolicyError, match=r"takes states of shape \(n, 2\). Got \(20, 1\)"):
        policy(states[:, :1])


def test_what_cannot_be_exported_says_so(cartpole, tmp_path):
    log = cartpole.log(episodes=12, steps=30, seed=3)
    joint = LinearCritics(Joint(4, 1), np.zeros((1, Joint(4, 1).size)), np.zeros(1, dtype=bool))
    with pytest.raises(
        PolicyError, match="Only linear critics over PerAction or Additive features"
    ):
        GreedyPolicy(Ensemble(joint, Mean()), 2).save(tmp_path / "x.onnx")
    own = Method(base=FQI(), partition=Split(3), aggregate=lambda values: values[0], at="pointwise")
    with pytest.raises(PolicyError, match=r"Only Mean\(\), Median\(\)"):
        learn(log, method=own, gamma=0.9).policy.save(tmp_path / "x.onnx")
    with pytest.raises(PolicyError, match=r"ends in .onnx. Got .*Learned.save writes"):
        learn(log, method="fqi", gamma=0.9).policy.save(tmp_path / "x.pkl")

    class Squares:
        def size(self, dimension):
            return dimension

        def __call__(self, states):
            return np.asarray(states) ** 2

    squares = PerAction(Squares(), 4, 2)
    with pytest.raises(PolicyError, match="Only Polynomial and Basis features of the state"):
        learn(log, method=Method(base=Cloning(features=squares)), gamma=0.9).policy.save(
            tmp_path / "x.onnx"
        )
    assert not list(tmp_path.iterdir())


def test_files_that_are_no_graph(tmp_path):
    (tmp_path / "x.onnx").write_bytes(b"not a graph")
    with pytest.raises(SavedFileError, match="is no ONNX graph that can be run"):
        load_policy(tmp_path / "x.onnx")


def test_policies_refuse_actions_that_do_not_exist():
    ensemble = critic(1, 2, Polynomial(), 2, Mean(), seed=0)
    with pytest.raises(PolicyError, match=r"actions must lie in 0\.\.1. Got \[2\]"):
        GreedyPolicy(ensemble, 2, (2,))


def test_labels_do_not_matter_to_the_graph(tmp_path, rng):
    states = rng.standard_normal((60, 2))
    log = Log.from_arrays(
        states,
        rng.integers(2, size=60),
        rng.standard_normal(60),
        states,
        episode=np.repeat(np.arange(20), 3),
        action_space=Discrete(2, ("hold", "sell")),
    )
    policy = learn(log, method="fqi", gamma=0.5).policy
    policy.save(tmp_path / "x.onnx")
    assert np.array_equal(load_policy(tmp_path / "x.onnx")(states), policy(states))


# Graphs of others: fixed batches, other types, and what they cannot take.


def own_graph(path, kind, rows):
    """Write a graph that chooses action 1 where the first state is positive."""
    import onnx
    from onnx import TensorProto, helper

    given = helper.make_tensor_value_info("x", getattr(TensorProto, kind), [rows, 2])
    made = helper.make_tensor_value_info("y", TensorProto.INT64, [rows])
    nodes = [
        helper.make_node("Cast", ["x"], ["f"], to=TensorProto.FLOAT),
        helper.make_node("Gather", ["f", "zero"], ["first"], axis=1),
        helper.make_node("Greater", ["first", "nought"], ["sign"]),
        helper.make_node("Cast", ["sign"], ["y"], to=TensorProto.INT64),
    ]
    constants = [
        onnx.numpy_helper.from_array(np.array(0, dtype=np.int64), "zero"),
        onnx.numpy_helper.from_array(np.array(0, dtype=np.float32), "nought"),
    ]
    graph = helper.make_graph(nodes, "own", [given], [made], constants)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
    model.ir_version = 9
    path.write_bytes(model.SerializeToString())
    return load_policy(path)


@pytest.mark.parametrize("kind", ["FLOAT", "DOUBLE", "FLOAT16", "INT32", "INT64"])
@pytest.mark.parametrize("rows", ["n", 1, 7])
def test_graphs_of_any_type_and_batch_run(tmp_path, kind, rows, rng):
    policy = own_graph(tmp_path / "own.onnx", kind, rows)
    states = rng.integers(-5, 5, (40, 2)).astype(float)
    assert np.array_equal(policy(states), (states[:, 0] > 0).astype(int))
    again = pickle.loads(pickle.dumps(policy))
    (tmp_path / "own.onnx").unlink()  # another process or machine does not have it
    assert np.array_equal(again(states), policy(states))


def test_states_that_a_graph_cannot_take_are_refused(tmp_path):
    with pytest.raises(PolicyError, match=r"takes tensor\(int32\), that is whole numbers"):
        own_graph(tmp_path / "own.onnx", "INT32", "n")(np.array([[0.5, 1.0]]))
    with pytest.raises(PolicyError, match=r"takes tensor\(float16\), that is numbers of its range"):
        own_graph(tmp_path / "own.onnx", "FLOAT16", "n")(np.array([[1e6, 1.0]]))
    with pytest.raises(PolicyError, match=r"takes states of shape \(n, 2\)"):
        own_graph(tmp_path / "own.onnx", "FLOAT", "n")(np.zeros((3, 1)))


def test_a_failed_export_leaves_the_old_file(tmp_path, monkeypatch):
    policy = GreedyPolicy(critic(3, 2, Polynomial(), 3, Median(), seed=1), 2)
    policy.save(tmp_path / "x.onnx")
    before = (tmp_path / "x.onnx").read_bytes()

    def full(*_):
        raise OSError("the disk is full")

    monkeypatch.setattr("os.replace", full)
    with pytest.raises(StorageError, match="the disk is full"):
        GreedyPolicy(critic(5, 2, Polynomial(), 3, Median(), seed=2), 2).save(tmp_path / "x.onnx")
    assert (tmp_path / "x.onnx").read_bytes() == before
    assert [each.name for each in tmp_path.iterdir()] == ["x.onnx"]


@pytest.mark.slow
def test_an_onnx_policy_runs_in_processes_and_with_checkpoints(tmp_path, cartpole):
    log = cartpole.log(episodes=30, steps=20, seed=1)
    learn(log, method="fqi", gamma=0.9).policy.save(tmp_path / "x.onnx")
    policy = load_policy(tmp_path / "x.onnx")
    with pytest.warns(TaughtWarning, match="of 30 episodes were used to learn this policy"):
        evaluate(log, policy, method="lstd", gamma=0.9)
    log = cartpole.log(episodes=30, steps=20, seed=2)
    wanted = evaluate(log, policy, method="lstd", gamma=0.9).value
    with Local(workers=2, kind="processes", checkpoint=tmp_path / "progress") as engine:
        assert evaluate(log, policy, method="lstd", gamma=0.9, engine=engine).value == wanted


@pytest.mark.slow
def test_a_flipped_bit_in_a_graph_of_ours_is_noticed_wherever_it_is(tmp_path, rng):
    policy = GreedyPolicy(
        critic(3, 2, Polynomial(), 3, Median(), seed=1), 2, state_names=("a", "b", "c")
    )
    policy.save(tmp_path / "x.onnx")
    whole = (tmp_path / "x.onnx").read_bytes()
    for place in rng.integers(len(whole), size=300):
        flipped = bytearray(whole)
        flipped[place] ^= 1 << int(rng.integers(8))
        (tmp_path / "y.onnx").write_bytes(flipped)
        with pytest.raises(SavedFileError):
            load_policy(tmp_path / "y.onnx")
