"""Clipped rewards and memory budgets of mapped logs."""

from dataclasses import replace

import numpy as np
import pytest

from tailproof import Log, evaluate, learn, method, read_log


@pytest.fixture
def stored(tmp_path) -> Log:
    rng = np.random.default_rng(1)
    states = rng.normal(size=(400, 2))
    log = Log.from_arrays(
        states,
        rng.integers(2, size=400),
        rng.standard_t(1.5, size=400),
        rng.normal(size=(400, 2)),
        episode=np.arange(400) // 8,
    )
    log.to_parquet(tmp_path / "log.parquet")
    return read_log(tmp_path / "log.parquet", lazy=True)


def test_clipping_twice_is_clipping_once(stored, tmp_path):
    chosen = method("lstd", clip=0.1)
    policy = lambda s: np.zeros(len(s), dtype=int)  # noqa: E731
    here = evaluate(read_log(tmp_path / "log.parquet"), policy, method=chosen, gamma=0.9)
    there = evaluate(stored, policy, method=chosen, gamma=0.9)
    assert there.value == pytest.approx(here.value, rel=1e-8)
    assert there.logged_value == pytest.approx(here.logged_value, rel=1e-8)


def test_no_sweep_needs_more_than_the_budget(stored, tmp_path):
    small = replace(stored, budget=stored.bytes_in_memory // 2)
    expected = learn(read_log(tmp_path / "log.parquet"), method="fqi", gamma=0.9)
    found = learn(small, method="fqi", gamma=0.9)
    states = np.random.default_rng(2).normal(size=(50, 2))
    assert np.array_equal(found.policy(states), expected.policy(states))
