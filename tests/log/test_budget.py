"""Memory budgets: what fits is untouched, what does not is sampled and said."""

from __future__ import annotations

import resource
import warnings
from dataclasses import replace

import numpy as np
import pytest

from tailproof import Log, read_log
from tailproof.log.budget import (
    SampleWarning,
    fits_budget,
    rows_in_budget,
    sample_to_budget,
    within_budget,
)
from tailproof.log.log import physical_memory


@pytest.fixture(scope="module")
def log() -> Log:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(1_000, 2))
    return Log.from_arrays(
        x, rng.integers(2, size=1_000), rng.normal(size=1_000), x,
        episode=np.arange(1_000), terminated=np.ones(1_000, dtype=bool),
    )  # fmt: skip


def test_a_limit_of_the_operating_system_is_the_memory(monkeypatch):
    whole = physical_memory()
    monkeypatch.setattr(resource, "getrlimit", lambda _: (123_456_789, resource.RLIM_INFINITY))
    assert physical_memory() == min(whole, 123_456_789)
    monkeypatch.setattr(resource, "getrlimit", lambda _: (resource.RLIM_INFINITY,) * 2)
    assert physical_memory() >= whole


def test_a_log_that_fits_is_the_same_object(log):
    assert within_budget(log, None) is log
    assert within_budget(log, 10**9) is log
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert sample_to_budget(log, "nobody") is log
        assert sample_to_budget(log, "nobody", most=1_000) is log


def test_rows_beyond_the_budget_are_sampled_and_counted(log):
    limited = within_budget(log, 300_000)
    assert limited.budget is not None
    assert not fits_budget(limited)
    with pytest.warns(SampleWarning, match="of 1,000 rows"):
        taken = sample_to_budget(limited, "somebody")
    assert 0 < taken.n_transitions <= rows_in_budget(limited)
    assert taken.budget is None


def test_at_most_so_many_rows_are_taken_even_if_more_fit(log):
    with pytest.warns(SampleWarning):
        assert sample_to_budget(log, "somebody", most=100).n_transitions <= 100


def test_more_memory_never_means_fewer_rows(log):
    budgets = (10_000, 100_000, 1_000_000, 10_000_000)
    rows = [rows_in_budget(replace(log, budget=each)) for each in budgets]
    assert rows == sorted(rows)


def test_a_budget_counts_for_tables_in_memory(tmp_path):
    path = tmp_path / "log.csv"
    rows = "\n".join(f"{i % 7},{i % 2},{i % 3}" for i in range(400))
    path.write_text(f"x,action,reward\n{rows}\n", encoding="utf-8")
    columns = {"state": "x", "action": "action", "reward": "reward", "episode": False}
    assert read_log(path, **columns, budget=10**9).budget is None
    assert read_log(path, **columns, budget=50_000).budget is not None
