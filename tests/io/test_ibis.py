"""Ibis tables: a query runs where its data are, and its result is read as the same rows in memory."""

import ibis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailproof import evaluate, read_log


@pytest.fixture
def rows():
    rng = np.random.default_rng(0)
    n = 600
    return {
        "customer": np.arange(n),
        "week": rng.integers(1, 53, n),
        "x_age": rng.integers(18, 80, n).astype(float),
        "action": np.array(["none", "email"])[rng.integers(0, 2, n)],
        "propensity": np.full(n, 0.5),
        "margin": rng.pareto(2.0, n),
    }


@pytest.fixture
def table(rows, tmp_path):
    pq.write_table(pa.table(rows), tmp_path / "shop.parquet")
    return ibis.polars.connect().read_parquet(tmp_path / "shop.parquet")


def test_a_query_is_read_as_its_rows(table, rows):
    late = rows["week"] > 30
    expected = read_log({name: values[late] for name, values in rows.items()}, reward="margin")
    query = table.filter(table.week > 30).order_by("customer")
    for source in (query, query.to_pyarrow()):
        found = read_log(source, reward="margin")
        assert found.n_transitions == late.sum()
        assert np.array_equal(found.rewards, expected.rewards)
        assert np.array_equal(found.states, expected.states)
        assert found.action_space == expected.action_space


def test_a_door_takes_the_query_itself(table, rows):
    query = table.mutate(cost=table.margin * 0.1).drop("week").order_by("customer")
    found = evaluate(query, "always:email", state="x_age", reward="margin")
    expected = evaluate(
        {name: values for name, values in rows.items() if name != "week"},
        "always:email",
        state="x_age",
        reward="margin",
    )
    assert found.value == pytest.approx(expected.value)
