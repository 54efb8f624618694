"""Rules in SQL and Python decide as the policy they are written of, row by row."""

import sqlite3
from datetime import datetime, timedelta

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tailproof import GreedyPolicy, Mean, learn, read_log
from tailproof.critics.ensembles import Ensemble
from tailproof.critics.trees import Fixed, StateCritics, StateTree, TreeArrays
from tailproof.errors import PolicyError
from tailproof.learners.rules import rule_of

LABELS = ("none", "it's 10 % off", "voucher")


def shop(rows, seed, *, gaps=True):
    """Return a table with every kind of column that a rule can test."""
    rng = np.random.default_rng(seed)
    hole = rng.random((4, rows)) < (0.1 if gaps else 0.0)
    start = datetime(2024, 1, 1)
    when = [start + timedelta(minutes=int(each)) for each in rng.integers(0, 400_000, rows)]
    towns = rng.choice(["north", "south", "o'hara", "west"], rows, p=[0.5, 0.3, 0.15, 0.05])
    return pa.table(
        {
            "age": pa.array(rng.normal(40, 10, rows).round(2), mask=hole[0]),
            "orders": rng.integers(0, 9, rows),
            "town": pa.array(towns, mask=hole[1]),
            "sure": rng.choice(["a", "b"], rows),
            "member": pa.array(rng.random(rows) < 0.5, mask=hole[2]),
            "when": pa.array(when, pa.timestamp("us"), mask=hole[3]),
            "action": rng.choice(LABELS, rows),
            "reward": rng.normal(size=rows),
        }
    )


STATE = ["age", "orders", "town", "sure", "member", "when"]
LOG = read_log(shop(600, 0), state=STATE, missing="category", categories=3)


def policy_of(scores):
    critic = Ensemble(StateCritics((scores,)), Mean())
    return GreedyPolicy(critic, 3, action_labels=LOG.action_space.labels)


def random_tree(seed):
    """Return a tree of depth 2 with splits of random variables between values of the log."""
    rng = np.random.default_rng(seed)
    columns = rng.integers(0, LOG.states.shape[1], 3)
    thresholds = []
    for column in columns:
        values = np.unique(LOG.states[:, column])
        place = rng.integers(len(values) - 1)
        thresholds.append(values[place : place + 2].mean())
    tree = TreeArrays(
        roots=np.array([0]),
        column=np.array([columns[0], columns[1], columns[2], -1, -1, -1, -1]),
        threshold=np.array([*thresholds, 0.0, 0.0, 0.0, 0.0]),
        left=np.array([1, 3, 5, -1, -1, -1, -1]),
        right=np.array([2, 4, 6, -1, -1, -1, -1]),
    )
    return StateTree(tree, rng.random((7, 3)))


def expected(policy, table):
    """Return the label of each row, None where the encoder refuses it."""
    states, refused = LOG.encoder.encode(table)
    labels = [LOG.action_space.labels[code] for code in policy(np.nan_to_num(states))]
    for each in refused:
        for row in each.rows:
            labels[row] = None
    return labels


def in_duckdb(rule, table):
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect() as connection:
        connection.register("customers", table)
        found = connection.sql(f"SELECT {rule.sql()} AS action FROM customers")
        return found.to_arrow_table()["action"].to_pylist()


def in_sqlite(rule, table):
    rows = [
        {
            key: each.isoformat(" ") if isinstance(each, datetime) else each
            for key, each in row.items()
        }
        for row in table.to_pylist()
    ]
    with sqlite3.connect(":memory:") as connection:
        names = ", ".join(f'"{name}"' for name in table.column_names)
        connection.execute(f"CREATE TABLE customers ({names})")
        marks = ", ".join(f":{name}" for name in table.column_names)
        connection.executemany(f"INSERT INTO customers VALUES ({marks})", rows)
        query = f"SELECT {rule.sql('sqlite')} FROM customers"
        return [each[0] for each in connection.execute(query)]


def in_python(rule, table):
    scope = {"__builtins__": {"str": str, "int": int}}  # nothing can be imported
    exec(rule.python(), scope)
    return [scope["decide"](row) for row in table.to_pylist()]


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 100_000))
def test_every_form_decides_alike(seed):
    policy, table = policy_of(random_tree(seed)), shop(60, seed)
    rule = rule_of(policy, LOG.encoder)
    wanted = expected(policy, table)
    assert in_python(rule, table) == wanted
    assert in_duckdb(rule, table) == wanted
    assert in_sqlite(rule, table) == wanted


def test_unseen_categories_are_others_or_refused():
    table = shop(40, 5)
    towns = pa.array(["elsewhere"] * 20 + table["town"].to_pylist()[20:])
    sure = pa.array(["c"] * 5 + table["sure"].to_pylist()[5:])
    table = table.set_column(2, "town", towns).set_column(3, "sure", sure)
    for seed in range(20):
        policy = policy_of(random_tree(seed))
        rule, wanted = rule_of(policy, LOG.encoder), expected(policy, table)
        assert wanted[:5] == [None] * 5
        assert wanted[5] is not None
        assert in_python(rule, table) == in_duckdb(rule, table) == in_sqlite(rule, table) == wanted


def test_a_constant_is_one_sentence():
    rule = rule_of(policy_of(Fixed(np.array([0.0, 2.0, 1.0]))), LOG.encoder)
    best = LOG.action_space.labels[1]
    assert rule.text() == f"always {best}"
    assert set(in_duckdb(rule, shop(9, 1, gaps=False))) == {best}
    assert set(in_python(rule, shop(9, 1, gaps=False))) == {best}


def test_the_words_of_a_learned_tree_name_columns_and_actions():
    rng = np.random.default_rng(3)
    recency, offer = rng.integers(0, 100, 3_000), rng.integers(0, 2, 3_000)
    region = rng.choice(["north", "south"], 3_000)
    gain = np.where((recency > 60) & (region == "north"), 4.0, -1.0)
    table = pa.table(
        {
            "recency": recency,
            "region": region,
            "action": np.where(offer == 1, "voucher", "none"),
            "reward": offer * gain + rng.normal(size=3_000),
        }
    )
    log = read_log(table, state=["recency", "region"])
    rule = rule_of(learn(log, method="policy-tree", gamma=0.0).policy, log.encoder)
    [kept] = [sorted(where) for where, leaf in rule.leaves() if leaf.action == "voucher"]
    recent, north = kept
    assert north == "region is north"
    assert recent.startswith("recency > ")
    assert 57 <= float(recent.removeprefix("recency > ")) <= 62


def test_splits_that_lead_to_the_same_action_are_left_out():
    tree = random_tree(1)
    alike = StateTree(tree.tree, np.tile([1.0, 0.0, 0.0], (7, 1)))
    assert rule_of(policy_of(alike), LOG.encoder).text() == f"always {LOG.action_space.labels[0]}"


def test_a_forest_is_no_rule():
    learned = learn(LOG, method="policy-scores", gamma=0.0)
    with pytest.raises(PolicyError, match="policy-tree"):
        rule_of(learned.policy, LOG.encoder)


def test_an_unknown_dialect():
    rule = rule_of(policy_of(random_tree(2)), LOG.encoder)
    with pytest.raises(PolicyError, match="dialect"):
        rule.sql("oracle")
