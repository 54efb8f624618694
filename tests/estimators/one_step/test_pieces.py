"""One-step logs beyond their budget: all rows are scored, and the answer is that of memory."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pytest

from tailproof import Log, compare, evaluate
from tailproof.errors import LogError, TailproofWarning
from tailproof.log.budget import SampleWarning

ROWS = 6_000


def shop(rows: int = ROWS, *, seed: int = 0, groups: bool = False, propensity: bool = True) -> Log:
    rng = np.random.default_rng(seed)
    x, action = rng.normal(size=(rows, 3)), rng.integers(3, size=rows)
    spend = 3 * x[:, 0] + action * (x[:, 1] > 0) + rng.standard_t(3, size=rows)
    return Log.from_arrays(
        x, action, spend, x,
        episode=np.arange(rows), terminated=np.ones(rows, dtype=bool),
        propensity=np.full(rows, 1 / 3) if propensity else None,
        group=np.arange(rows) // 5 if groups else None,
    )  # fmt: skip


def third(states: np.ndarray) -> np.ndarray:
    return np.where(states[:, 1] > 0, 2, 0)


def small_budget(log: Log) -> Log:
    return replace(log, budget=200_000)


def quietly(log: Log, policy=third, **settings):
    """Evaluate, and fail if a sample was drawn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", SampleWarning)
        return evaluate(log, policy, **settings)


@pytest.mark.parametrize("method", ["snips", "ips"])
def test_weighted_means_of_a_log_beyond_its_budget_are_those_of_memory(method):
    log = shop()
    found, known = quietly(small_budget(log), method=method), quietly(log, method=method)
    assert found.value == pytest.approx(known.value, rel=1e-12)
    assert found.interval().low == pytest.approx(known.interval().low, rel=1e-9)


@pytest.mark.parametrize("groups", [False, True])
def test_the_default_scores_every_row_with_models_of_a_sample(groups):
    log = shop(groups=groups)
    found, known = quietly(small_budget(log)), quietly(log)
    assert found.choice.estimator == "doubly robust mean (per action)"
    assert found.on_log.rows == ROWS
    assert len(found.choice.weights) == ROWS
    assert any(f"{ROWS:,} rows are scored" in each for each in found.choice.reasons)
    assert found.value == pytest.approx(known.value, abs=known.choice.standard_error)
    assert found.choice.standard_error == pytest.approx(known.choice.standard_error, rel=0.15)
    assert found.gain.value == pytest.approx(known.gain.value, abs=known.choice.standard_error)
    assert found.on_log.agreement == pytest.approx(known.on_log.agreement)


def test_a_model_that_explains_nothing_is_left_out():
    log = shop()
    noise = log.with_rewards(np.random.default_rng(3).normal(size=ROWS))
    assert quietly(small_budget(noise)).value == pytest.approx(
        quietly(noise, method="snips").value, rel=1e-9
    )


def test_threads_change_no_digit():
    log = small_budget(shop())
    assert quietly(log).value == quietly(log, n_jobs=2).value


def test_a_constant_added_to_the_rewards_moves_the_value_by_it():
    log = shop()
    moved = log.with_rewards(log.rewards + 7)
    first, second = quietly(small_budget(log)), quietly(small_budget(moved))
    assert second.value - first.value == pytest.approx(7)
    assert second.choice.standard_error == pytest.approx(first.choice.standard_error, rel=1e-6)


def test_intervals_hold_as_often_as_they_say():
    """Over 40 logs; the value is E[x_1 > 0] · 2, because both other terms have mean 0."""
    held = 0
    for seed in range(40):
        found = quietly(small_budget(shop(1_500, seed=seed)))
        held += found.interval(0.9).low <= 1.0 <= found.interval(0.9).high
    assert 31 <= held <= 40  # of 40 with 0.9 each: fewer than 31 in one of 1,000 runs


def test_without_propensities_a_sample_is_drawn_and_named():
    with pytest.warns(SampleWarning):
        found = evaluate(small_budget(shop(propensity=False)), third)
    assert found.on_log.rows < ROWS


def test_policies_are_compared_on_all_rows():
    result = compare(small_budget(shop()), {"third": third, "none": lambda s: np.zeros(len(s))})
    assert result.best.name == "third"
    assert {each.estimate.on_log.rows for each in result.candidates} == {ROWS}


def test_a_policy_that_the_log_never_follows_is_refused():
    log = shop()
    never = replace(small_budget(log), actions=np.zeros_like(log.actions))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TailproofWarning)
        with pytest.raises(LogError):
            evaluate(never, lambda states: np.full(len(states), 2))
