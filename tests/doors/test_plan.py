"""Plans of tests, and the rows that would decide an answer."""

import json

import numpy as np
import pytest

from tailproof import Always, evaluate, plan, read_log
from tailproof.doors.plan import rows_to_decide
from tailproof.errors import LevelError, LogError
from tailproof.robust.planning import Shortfall
from tailproof.robust.tails import check_level


def log(rewards, **more):
    rng = np.random.default_rng(1)
    n = len(rewards)
    table = {"x": rng.normal(size=n), "action": rng.integers(2, size=n), "reward": rewards, **more}
    return read_log(table, state="x")


@pytest.mark.parametrize("level", ["0.9", None, [0.9]])
def test_a_level_that_is_no_number_is_refused(level):
    with pytest.raises(LevelError):
        check_level(level)


@pytest.mark.parametrize("scale", [1e160, 1e-160])
def test_rewards_without_squares_are_refused_by_name(scale):
    rng = np.random.default_rng(0)
    with pytest.raises(LogError) as found:
        plan(log(scale * rng.normal(size=50)))
    assert found.value.argument == "reward"


@pytest.fixture(scope="module")
def normal():
    return plan(log(np.random.default_rng(0).normal(10, 3, 2_000)), rows=(500, 2_000), gain=0.3)


def test_without_tails_the_plan_is_the_textbook_formula(normal):
    for rows in (500, 2_000):
        exact = (1.2816 + 0.8416) * 3 * np.sqrt(2 / rows)
        assert normal.detectable(rows) == pytest.approx(exact, rel=0.2)
    assert normal.needed == pytest.approx(2 * (3 * (1.2816 + 0.8416) / 0.3) ** 2, rel=0.4)


def test_the_gain_and_the_rows_are_inverse(normal):
    assert normal.detectable(normal.needed) == pytest.approx(0.3, rel=0.05)
    assert json.loads(json.dumps(normal.to_dict()))["rows_needed_per_arm"] == normal.needed
    assert "takes about" in str(normal)


def test_a_heavy_tail_shows_less_than_its_bulk_would():
    rewards = np.random.default_rng(2).pareto(1.5, 2_000)
    whole, bulk = (plan(log(each), rows=(2_000,)) for each in (rewards, rewards[rewards < 20]))
    assert whole.detectable(2_000) > bulk.detectable(2_000)


def test_a_shortfall_is_extended_by_its_slope():
    curve = Shortfall((100, 400), (2.0, 1.0), 0.9, 0.8)
    assert curve.detectable(1_600) == pytest.approx(0.5)
    assert curve.needed(0.5) == pytest.approx(1_600)
    assert curve.needed(0.0) == np.inf


def test_more_rows_would_decide_a_small_gain():
    rng = np.random.default_rng(4)
    data = log(rng.normal(10, 3, 1_500), propensity=np.full(1_500, 0.5))
    found = evaluate(data.with_rewards(data.rewards + 0.15 * data.actions), Always(1))
    needed = rows_to_decide(found)
    assert (needed > 1_500) == (found.verdict.word == "no difference shown")
    assert rows_to_decide(found, power=0.95) > needed


@pytest.mark.parametrize(
    ("asked", "error", "argument"),
    [
        ({"rows": [1]}, LogError, "rows"),
        ({"gain": -1.0}, LogError, "gain"),
        ({"power": 1.5}, LevelError, "power"),
    ],
)
def test_wrong_plans_are_refused(asked, error, argument):
    with pytest.raises(error) as raised:
        plan(log(np.arange(100.0)), **asked)
    assert raised.value.argument == argument


def test_rewards_that_are_all_equal_plan_nothing():
    with pytest.raises(LogError):
        plan(log(np.ones(30)))


@pytest.mark.slow
def test_sizes_that_are_alike_need_fewer_rows_under_a_heavy_tail():
    rewards = np.random.default_rng(2).pareto(1.5, 1_000)
    found = plan(log(rewards), rows=(1_000,), gain=1.0, sizes_within=0.1)
    assert found.curve_within.detectable(1_000) < found.detectable(1_000)
    assert found.needed_within < found.needed
    assert found.to_dict()["sizes_within"]["rows_needed_per_arm"] == found.needed_within
    assert "sizes within 10 %" in str(found)
    with pytest.raises(LevelError) as raised:
        plan(log(rewards), sizes_within=-0.1)
    assert raised.value.argument == "sizes_within"


def test_costs_are_saved_and_groups_are_said():
    rewards = np.random.default_rng(2).pareto(3.0, 400)
    table = {
        "x": np.arange(400) % 7,
        "action": [0, 1] * 200,
        "cost": rewards,
        "family": np.arange(400) // 2,
    }
    found = plan(table, state="x", reward="-cost", group="family", rows=(100,))
    assert str(found).startswith("100 rows in each arm show a saving of")
    assert "mean -" not in str(found)
    assert found.to_dict()["notes"] == [found.note] != []
