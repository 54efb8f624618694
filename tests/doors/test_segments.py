"""Gains by segment, from the scores of one estimate."""

import json

import numpy as np
import pytest

from tailproof import Always, LogProfile, compare, evaluate, read_log
from tailproof.doors.segments import segment_labels
from tailproof.errors import LogError, MethodError

REGIONS = np.array(["north", "south", "west"])


def shop(n=1_500, *, seed=0, effect=(4.0, 0.0, -4.0), **more):
    """Return a table of a randomised mailing whose effect depends on the region."""
    rng = np.random.default_rng(seed)
    place, mailed = rng.integers(3, size=n), rng.integers(2, size=n)
    spend = 10 + rng.pareto(3.0, n) + np.array(effect)[place] * mailed
    return {
        "region": REGIONS[place].tolist(),
        "age": rng.integers(18, 80, n).tolist(),
        "action": mailed.tolist(),
        "spend": spend.tolist(),
        "propensity": [0.5] * n,
        **more,
    }


@pytest.fixture(scope="module")
def estimate():
    log = read_log(shop(), state="age", reward="spend")
    return evaluate(log, Always(1))


def test_segments_add_up_to_the_mean_of_the_scores(estimate):
    for column in ("region", "age"):
        found = estimate.by(column)
        rows = np.array([each.rows for each in found.segments])
        gains = np.array([each.gain.value for each in found.segments])
        whole = estimate.choice.spread.centre - estimate.logged.spread.centre
        assert rows.sum() == 1_500
        assert np.isclose(np.average(gains, weights=rows), whole)


def test_known_effects_are_found_for_whom_they_are(estimate):
    found = estimate.by("region")
    assert [each.verdict.word for each in found.segments] == [
        "better",
        "no difference shown",
        "worse",
    ]
    assert found.sentence == (
        "Clearly better in 1 of 3 segments by region, clearly worse in 1 (west)."
    )
    assert found["north"].interval.low < 2.0 < found["north"].interval.high
    assert json.loads(json.dumps(found.to_dict()))["segments"][2]["verdict"] == "worse"
    assert "west" in str(found)


def test_values_by_row_are_the_same_as_the_column(estimate):
    table = shop()
    assert (
        estimate.by(np.array(table["region"])).to_dict()["segments"]
        == (estimate.by("region").to_dict()["segments"])
    )


def test_more_segments_or_candidates_widen_the_intervals(estimate):
    halves = np.arange(1_500) % 2
    few = estimate.by(halves).segments[0]
    assert few.level < estimate.by("age").segments[0].level
    two = compare(LogProfile(estimate.task.log), {"mail": Always(1), "none": Always(0)})
    assert two.by("region").segments[0].level > estimate.by("region").segments[0].level
    assert two.by("region", policy="none")["west"].verdict.word == "better"


def test_rows_of_one_customer_may_be_in_several_segments():
    table = shop(customer=[i // 3 for i in range(1_500)])
    log = read_log(table, state="age", reward="spend", group="customer")
    found = evaluate(log, Always(1))
    north = found.by("region")["north"]
    assert north.verdict.word == "better"
    with pytest.raises(LogError) as error:
        evaluate(log, Always(1), method="snips").by("region")
    assert error.value.argument == "by"


def test_few_events_get_the_intervals_of_rare_ones():
    rng = np.random.default_rng(3)
    table = shop()
    table["spend"] = np.where(rng.random(1_500) < 0.03, 50.0, 0.0).tolist()
    found = evaluate(read_log(table, state="age", reward="spend"), Always(1)).by("region")
    assert all(each.gain.spread.ahead.kind.startswith("gamma") for each in found.segments)
    assert not found.named("better") + found.named("worse")


def test_a_segment_without_the_policy_cannot_tell():
    table = shop()
    unmailed = [i for i, each in enumerate(table["action"]) if each == 0][:20]
    for i in unmailed:
        table["region"][i] = "island"
    found = evaluate(read_log(table, state="age", reward="spend"), Always(1)).by("region")
    assert found["island"].verdict.word == "cannot tell"
    assert "0 of its 20 rows" in str(found["island"].gain.declined)


def test_numbers_are_cut_into_quarters_and_rare_values_put_together():
    many = [f"shop {i % 40:02}" for i in range(1_500)]
    gaps = [None if i % 10 == 0 else float(i) for i in range(1_500)]
    log = read_log(shop(shop=many, gaps=gaps), state="age", reward="spend")
    _, codes, names = segment_labels(log, "age")
    assert len(names) == 4
    assert np.bincount(codes).min() > 300
    assert segment_labels(log, "shop")[2][-1] == "other"
    assert len(segment_labels(log, "shop")[2]) == 12
    assert segment_labels(log, "gaps")[2][-1] == "missing"


@pytest.mark.parametrize("column", ["spend", "regoin", [1, 2, 3]])
def test_what_is_no_segment_is_refused(estimate, column):
    with pytest.raises(LogError) as error:
        estimate.by(column)
    assert error.value.argument == "by"


def test_methods_without_scores_are_refused():
    log = read_log(shop(400), state="age", reward="spend")
    with pytest.raises(MethodError) as error:
        evaluate(log, Always(1), method="roam-dm", gamma=0.0).by("region")
    assert error.value.argument == "by"


def test_episodes_are_in_the_segment_of_their_first_row():
    from tailproof.worlds import CartPole

    world = CartPole()
    log = world.log(episodes=60, seed=1)
    halves = (log.episode_of_row % 2).tolist()
    found = evaluate(log, world.target(), gamma=0.9).by(halves)
    assert [each.rows for each in found.segments] == [30, 30]
    assert found.note


def test_numbers_that_are_labels_are_in_their_order():
    shops = [i % 11 + 1 for i in range(1_500)]
    log = read_log(shop(shop=shops), state="age", reward="spend")
    assert segment_labels(log, "shop")[2] == [str(i + 1) for i in range(11)]


def test_the_verdict_is_that_of_the_interval_and_says_why_there_is_none(estimate):
    for each in estimate.by("region").segments:
        excludes = not each.interval.low <= 0 <= each.interval.high
        assert (each.verdict.word in ("better", "worse")) == excludes
    record = estimate.by(["few"] * 12 + ["many"] * 1_488).to_dict()["segments"]
    assert (record[0]["verdict"], record[0]["reason"]) == ("cannot tell", ["too_few"])


def test_rows_of_a_segment_are_those_of_the_file_whatever_they_weigh():
    rng = np.random.default_rng(1)
    n = 300
    table = {
        "x": rng.normal(size=n),
        "region": np.repeat(["north", "south"], [100, 200]),
        "action": rng.integers(2, size=n),
        "reward": rng.normal(size=n),
        "weight": rng.integers(1, 4, n),
        "propensity": np.full(n, 0.5),
    }
    log = read_log(table, state="x", weight="weight")
    found = evaluate(log, Always(1)).by("region")
    assert [each.rows for each in found.segments] == [100, 200]
