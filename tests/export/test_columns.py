"""An ONNX graph over the columns of a table decides as the policy does, without us."""

import json
import subprocess
import sys
import warnings
from datetime import UTC, datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest

from tailproof import (
    GreedyPolicy,
    Mean,
    Median,
    PerAction,
    SoftmaxPolicy,
    learn,
    load_policy,
    read_log,
)
from tailproof.critics.ensembles import Ensemble, LinearCritics
from tailproof.critics.trees import Fixed, StateCritics, StateTree
from tailproof.errors import PolicyError, TailproofWarning
from tailproof.features import Basis, Polynomial
from tailproof.learners.exact_tree import best_tree, tree_arrays
from tailproof.policies.forms import LinearPolicy

pytest.importorskip("onnx")
pytest.importorskip("onnxruntime")

STATE = ["age", "orders", "town", "sure", "rare", "member", "when", "born", "abroad", "taste"]
BARE = """
import json, sys
import numpy as np
import onnxruntime

asked = json.load(sys.stdin)
kinds = {"tensor(double)": float, "tensor(int64)": np.int64, "tensor(string)": object}
found = {}
for name, path in asked["graphs"].items():
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    given = {
        each.name: np.array(asked["columns"][each.name], dtype=kinds[each.type])
        for each in session.get_inputs()
    }
    outputs = {each.name: each.shape for each in session.get_outputs()}
    wanted = [each for each in ("labels", "actions", "probabilities") if each in outputs]
    answers = session.run(wanted, given)
    found[name] = {each: answer.tolist() for each, answer in zip(wanted, answers)}
loaded = [name for name in ("tailproof", "pandas", "pyarrow", "sklearn") if name in sys.modules]
json.dump({"found": found, "loaded": loaded}, sys.stdout)
"""


def shop(rows, seed):
    """Return a table with every kind of column, gaps in most of them."""
    rng = np.random.default_rng(seed)
    hole = rng.random((5, rows)) < 0.1
    start = datetime(1960, 1, 1)
    when = [start + timedelta(minutes=int(each)) for each in rng.integers(0, 40_000_000, rows)]
    utc = [each.replace(tzinfo=UTC) for each in when]
    return pa.table(
        {
            "age": pa.array(rng.normal(40, 10, rows).round(2), mask=hole[0]),
            "orders": rng.integers(0, 9, rows),
            "town": pa.array(rng.choice(["north", "south", "o'hara"], rows), mask=hole[1]),
            "sure": rng.choice(["a", "", "b"], rows),
            "rare": pa.array(rng.choice([*"abcdefgh"], rows, p=[0.5, 0.3] + [0.2 / 6] * 6)),
            "member": pa.array(rng.random(rows) < 0.5, mask=hole[2]),
            "when": pa.array(when, pa.timestamp("us"), mask=hole[3]),
            "born": pa.array(when, pa.timestamp("us")).cast(pa.date32(), safe=False),
            "abroad": pa.array(utc, pa.timestamp("us", "Europe/Berlin"), mask=hole[4]),
            "taste": pa.array(list(rng.normal(size=(rows, 2)))),
            "action": rng.choice(["none", "it's 10 % off", "voucher"], rows),
            "reward": rng.normal(size=rows),
        }
    )


def inputs(table):
    """Return the columns as somebody without tailproof would write them."""
    columns = {name: table[name].to_pylist() for name in STATE}

    def micros(values):
        given = [None if each is None else np.datetime64(each, "us") for each in values]
        return np.array(given, dtype="datetime64[us]").astype(np.int64).tolist()

    local = columns["abroad"]
    utc = [None if each is None else each.astimezone(UTC).replace(tzinfo=None) for each in local]
    nan = float("nan")
    return {
        **columns,
        **{
            name: [nan if each is None else float(each) for each in columns[name]]
            for name in ("age", "orders", "member")
        },
        **{
            name: ["(missing)" if each is None else each for each in columns[name]]
            for name in ("town", "sure", "rare")
        },
        "when": micros(columns["when"]),
        "born": micros(columns["born"]),
        "abroad": micros(utc),
        "abroad (hour)": [nan if each is None else float(each.hour) for each in local],
        "abroad (weekday)": [nan if each is None else float(each.weekday()) for each in local],
    }


def odd_rows():
    """Return a table in which some rows must be refused, and some unknown texts are read."""
    table = shop(60, 3)
    town = ["elsewhere", *table["town"].to_pylist()[1:]]
    rare = [*table["rare"].to_pylist()[:-1], "z"]  # one of the others
    age = [table["age"][0].as_py(), float("inf"), *table["age"].to_pylist()[2:]]
    orders = [*table["orders"].to_pylist()[:2], None, *table["orders"].to_pylist()[3:]]
    for name, values in {"town": town, "rare": rare, "age": age, "orders": orders}.items():
        table = table.set_column(table.column_names.index(name), name, pa.array(values))
    return table


def policies_of(log):
    """Return policies of every form over the states of a log."""
    rng, width, n = np.random.default_rng(1), len(log.state_names), log.n_actions
    basis = Basis.fit(log.states, knots=2)
    features = PerAction(basis, width, n)
    theta = rng.normal(size=(3, features.size))
    linear = Ensemble(LinearCritics(features, theta, np.zeros(3, dtype=bool)), Median())
    tree = best_tree(log.states, rng.normal(size=(len(log.states), n)), depth=2)
    arrays = tree_arrays(tree)
    grown = StateTree(arrays, rng.normal(size=(arrays.nodes, n)))
    scores = {
        "linear": linear,
        "tree": Ensemble(StateCritics((grown,)), Mean()),
        "constant": Ensemble(StateCritics((Fixed(np.arange(n) * 1.0),)), Mean()),
    }
    named = {
        "state_names": log.state_names,
        "action_labels": log.action_space.labels,
        "encoder": log.encoder,
    }
    greedy = {name: GreedyPolicy(each, n, **named) for name, each in scores.items()}
    return {
        **greedy,
        "softmax": SoftmaxPolicy(linear, n, (0, 2), 0.3, **named),
        "clone": learn(log, method="bc", gamma=0.0).softmax(1.0),
    }


@pytest.fixture(scope="module", params=["category", "median"])
def answers(request, tmp_path_factory):
    """Save every form of policy, and ask its graph in a process without tailproof."""
    log = read_log(shop(200, 0), state=STATE, missing=request.param, categories=4)
    folder = tmp_path_factory.mktemp("graphs")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TailproofWarning)  # noise teaches nothing
        policies = policies_of(log)
    graphs = {name: str(folder / f"{name}.onnx") for name in policies}
    for name, policy in policies.items():
        policy.save(graphs[name])
    table = odd_rows()
    asked = json.dumps({"graphs": graphs, "columns": inputs(table)})
    ran = subprocess.run(
        [sys.executable, "-I", "-c", BARE], input=asked, capture_output=True, text=True, check=True
    )
    return log, policies, table, json.loads(ran.stdout), graphs


@pytest.mark.slow
def test_every_form_of_policy_decides_alike_without_us(answers):
    log, policies, table, said, graphs = answers
    assert said["loaded"] == []
    states, refused = log.encoder.encode(table)
    read = np.ones(table.num_rows, dtype=bool)
    for each in refused:
        read[each.rows] = False
    assert read.tolist()[:3] == [False] * 3
    assert read[3:].all()
    for name, policy in policies.items():
        found = said["found"][name]
        codes = np.where(read, policy(np.nan_to_num(states)), -1)
        assert found["actions"] == codes.tolist(), name
        labels = [log.action_space.labels[code] if code >= 0 else "" for code in codes]
        assert found["labels"] == labels, name
        chances = np.array(found["probabilities"])
        assert np.isnan(chances[~read]).all()
        wanted = policy.probabilities(states[read])
        np.testing.assert_allclose(chances[read], wanted, atol=1e-12, err_msg=name)
        again = load_policy(graphs[name])  # and as a policy of the library
        assert np.array_equal(again(states[read]), codes[read]), name
        assert again.deterministic == (name not in ("softmax", "clone"))


def test_a_regression_of_continuous_actions_takes_columns(tmp_path):
    import onnxruntime

    rng = np.random.default_rng(0)
    size, region = rng.normal(size=400), rng.choice(["east", "west"], 400)
    price = 2 * size + (region == "west") + 0.1 * rng.normal(size=400)
    table = {"size": size, "region": region, "price": price, "reward": price}
    log = read_log(table, state=["size", "region"], action="price")
    width = len(log.state_names)
    weights = rng.normal(size=(Polynomial().size(width), 1))
    ends = np.array([-2.0]), np.array([2.0])
    policy = LinearPolicy(weights, np.zeros(width), np.ones(width), *ends, encoder=log.encoder)
    policy.save(tmp_path / "price.onnx")
    session = onnxruntime.InferenceSession(tmp_path / "price.onnx")
    given = {"size": size[:9], "region": region[:9].astype(object)}
    found = session.run(["actions"], given)[0]
    np.testing.assert_allclose(found, policy(log.states[:9]), rtol=1e-12)
    given["region"][0] = "mars"
    assert np.isnan(session.run(["actions"], given)[0][0]).all()


def test_a_column_with_the_name_of_an_output_is_refused(tmp_path):
    rng = np.random.default_rng(0)
    table = {"values": rng.normal(size=200), "action": rng.integers(2, size=200)}
    log = read_log({**table, "reward": rng.normal(size=200)}, state="values")
    policy = learn(log, method="constant", gamma=0.0).policy
    with pytest.raises(PolicyError):
        policy.save(tmp_path / "x.onnx")
    assert not [*tmp_path.iterdir()]
