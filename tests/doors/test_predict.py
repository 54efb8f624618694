"""A learned policy decides for tables: each row alone, in any file, in any order, and after a save."""

import numpy as np
import pyarrow as pa
import pytest

from tailproof import Learned, Log, learn, read_log
from tailproof.errors import LogError, MethodError

METHODS = ("policy-tree", "policy-scores", "constant", "fqi", "bc")


def customers(rows, seed):
    rng = np.random.default_rng(seed)
    age = pa.array(rng.normal(40, 12, rows).round(1), mask=rng.random(rows) < 0.1)
    region = rng.choice(["north", "south", "west"], rows)
    offer = rng.integers(0, 2, rows)
    spend = offer * np.where(region == "north", 3.0, -1.0) + rng.normal(size=rows)
    return pa.table(
        {
            "age": age,
            "region": region,
            "action": np.where(offer == 1, "voucher", "none"),
            "reward": spend,
        }
    )


LOG = read_log(customers(800, 0), state=["age", "region"])


@pytest.fixture(scope="module", params=METHODS)
def learned(request):
    return learn(LOG, method=request.param, gamma=0.0)


def test_a_row_has_one_decision(learned, tmp_path):
    table = customers(40, 1)
    labels = learned.predict(table)
    alone = [learned.predict(table.slice(row, 1))[0] for row in range(40)]
    order = np.random.default_rng(0).permutation(40)
    other = (
        table.take(order).select(["reward", "region", "age"]).append_column("x", pa.array(order))
    )
    assert list(labels) == alone
    assert list(learned.predict(other)) == list(labels[order])
    learned.save(tmp_path / "policy.tailproof")
    loaded = Learned.load(tmp_path / "policy.tailproof")
    assert list(loaded.predict(table)) == list(labels)
    assert set(labels) <= {"none", "voucher"}


def test_probabilities_are_those_of_the_labels(learned):
    table = customers(30, 2)
    chances = learned.probabilities(table)
    assert sorted(chances) == ["none", "voucher"]
    np.testing.assert_allclose(sum(chances.values()), 1.0)
    likelier = np.where(chances["voucher"] > chances["none"], "voucher", "none")
    clear = chances["voucher"] != chances["none"]
    assert (learned.predict(table)[clear] == likelier[clear]).all()


def test_a_file_is_read_like_a_frame(learned, tmp_path):
    from pyarrow import csv

    table = customers(25, 3)
    csv.write_csv(table, tmp_path / "new.csv")
    assert list(learned.predict(tmp_path / "new.csv")) == list(learned.predict(table))


def test_what_the_log_never_had_is_refused_by_name(learned):
    table = customers(5, 4)
    with pytest.raises(LogError, match="'region'"):
        learned.predict(table.set_column(1, "region", pa.array(["mars"] * 5)))
    with pytest.raises(LogError, match="age"):
        learned.predict(table.drop_columns(["age"]))


def test_arrays_have_no_columns():
    states = np.random.default_rng(5).normal(size=(200, 1))
    actions = np.arange(200) % 2
    log = Log.from_arrays(states, actions, 1.0 * actions, states, episode=range(200))
    with pytest.raises(MethodError, match="arrays"):
        learn(log, method="constant", gamma=0.0).predict({"x": [1.0]})


def test_the_rule_of_a_tree_and_of_its_file(tmp_path):
    tree = learn(LOG, method="policy-tree", gamma=0.0)
    assert "region is north" in tree.rule.text()
    tree.save(tmp_path / "tree.tailproof")
    assert Learned.load(tmp_path / "tree.tailproof").rule.sql() == tree.rule.sql()
