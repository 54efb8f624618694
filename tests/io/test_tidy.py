"""Tables as they are: gaps, dates, many categories, costs, outcomes among states, no state at all."""

import datetime as dt
import warnings
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import Column, evaluate, read_log
from tailproof.errors import LogError, TailproofWarning
from tailproof.io import read
from tailproof.policies.binding import for_log

BASE = {"action": ["a", "b", "a", "b"], "reward": [1.0, 2.0, 3.0, 4.0]}


def test_a_missing_number_is_the_median_and_has_an_indicator():
    reading = read(BASE | {"x_age": [1.0, None, 5.0, 3.0]})
    assert reading.log.state_names == ("x_age", "x_age is missing")
    assert reading.log.states.tolist() == [[1, 0], [3, 1], [5, 0], [3, 0]]
    assert "x_age (1, the median 3)" in reading.describe()


def test_a_missing_text_is_a_category_of_its_own():
    reading = read(BASE | {"x_shop": ["n", None, "s", "n"]})
    assert reading.log.state_names == ("x_shop=(missing)", "x_shop=n", "x_shop=s")
    assert reading.log.states[1].tolist() == [1, 0, 0]


def test_median_gives_a_missing_text_the_most_common_one_and_an_indicator():
    log = read_log(BASE | {"x_shop": ["n", None, "s", "n"]}, missing="median")
    assert log.state_names == ("x_shop=n", "x_shop=s", "x_shop is missing")
    assert log.states[1].tolist() == [1, 0, 1]


def test_a_missing_boolean_is_a_number_with_an_indicator():
    log = read_log(BASE | {"x_new": [True, None, True, False]})
    assert log.state_names == ("x_new=true", "x_new=true is missing")
    assert log.states.tolist() == [[1, 0], [1, 1], [1, 0], [0, 0]]


def test_whole_episodes_are_dropped_and_columns_stay_with_their_rows():
    table = {
        "episode": [1, 1, 2, 2],
        "x": [1.0, 2.0, 3.0, 4.0],
        "new": ["a", "a", "b", "a"],
        **BASE,
        "reward": [1.0, None, 3.0, 4.0],
    }
    said = "1 of 2 episodes left out, 2 of 4 rows, for missing values of reward.$"
    with pytest.warns(TailproofWarning, match=said):
        log = read_log(table, missing="drop-episode", terminated=True)
    assert log.rewards.tolist() == [3.0, 4.0]
    policy = for_log(Column("new"), log)
    assert policy.choose(log.states, log.table_rows.rows).tolist() == [1, 0]
    assert policy.choose(log.next_states, log.table_rows.next_rows)[0] == 0


def test_episodes_with_missing_states_are_kept_when_episodes_are_dropped():
    table = {
        "episode": [1, 2, 3, 3, 3],
        "x_age": [1.0, None, 3.0, 4.0, 5.0],
        "x_shop": [None, "n", "s", "s", "s"],
        "action": ["a", "b", "a", "b", "a"],
        "reward": [1.0, 2.0, 3.0, None, 5.0],
    }
    reading = read(table, missing="drop-episode", terminated=True)
    kept = {name: column[:2] for name, column in table.items()}
    assert reading.log.states.tolist() == read_log(kept).states.tolist()
    assert reading.log.rewards.tolist() == [1.0, 2.0]
    (said,) = reading.cautions
    assert "1 of 3 episodes left out, 3 of 5 rows, for missing values of reward." in said
    assert "longer than those that are kept, 3 rows on average against 1: the answer is" in said


def test_missing_rewards_of_episodes_are_not_to_be_cut_out_of_them():
    table = BASE | {"reward": [1.0, None, 2.0, 3.0], "x": [0.0, 1.0, 2.0, 3.0]}
    with pytest.raises(LogError, match="or pass missing='drop-episode' to leave out these rows"):
        read_log(table)
    assert "1 of 4 rows left out, for" in read(table, missing="drop-episode").describe()
    with pytest.raises(
        LogError, match="to leave out the whole episodes that they are in"
    ) as caught:
        read_log(table | {"episode": [1, 1, 2, 2]})
    assert "drop these rows" not in str(caught.value)


def test_error_names_all_columns_at_once():
    table = BASE | {"x_age": [1.0, None, None, 3.0], "x_shop": ["n", None, "s", "n"]}
    table["reward"] = [1.0, None, 2.0, 3.0]
    with pytest.raises(LogError, match=r"'x_age' has 2 .*'x_shop' has 1 .*'reward' has 1 missing"):
        read_log(table, missing="error")
    with pytest.raises(LogError, match=r"'reward' has 1 missing value.*'drop-episode'") as caught:
        read_log(table)
    assert "x_age" not in str(caught.value)


def test_missing_next_states_are_filled_as_states_are_and_unknown_ones_are_not():
    table = {
        "episode": [1, 1, 2, 2],
        "x_1": [1.0, None, 3.0, 5.0],
        "x_2": [1.0, 2.0, 3.0, 4.0],
        "next_x_1": [None, None, 5.0, None],
        "next_x_2": [2.0, None, 4.0, None],
        "done": [False, True, False, True],
        **BASE,
    }
    log = read_log(table)
    assert log.state_names == ("x_1", "x_1 is missing", "x_2")
    assert log.next_states[0].tolist() == [3.0, 1.0, 2.0]
    assert log.n_transitions == 4


@given(gaps=st.lists(st.booleans(), min_size=4, max_size=30).filter(lambda gaps: not all(gaps)))
def test_filling_changes_nothing_but_the_gaps(gaps):
    values = np.arange(len(gaps), dtype=float)
    table = {"x": np.where(gaps, np.nan, values), "a": [0, 1] * 15, "r": values}
    log = read_log({name: column[: len(gaps)] for name, column in table.items()})
    kept = ~np.array(gaps)
    assert log.states[kept, 0].tolist() == values[kept].tolist()
    if any(gaps):
        assert log.states[:, 1].tolist() == [float(gap) for gap in gaps]
        assert set(log.states[~kept, 0]) == {np.median(values[kept])}
    else:
        assert log.state_names == ("x",)


def test_dates_become_days_hours_and_weekdays():
    days = [dt.datetime(1970, 1, 1, 12), dt.datetime(1970, 1, 2), None, dt.datetime(1970, 1, 9, 6)]
    log = read_log(BASE | {"x_at": days})
    table = dict(zip(log.state_names, log.states.T.tolist(), strict=True))
    assert table["x_at"] == [0.5, 1.0, 1.0, 8.25]
    assert table["x_at (hour)"] == [12, 0, 6, 6]
    assert table["x_at (weekday)"][:2] == [3, 4]
    assert table["x_at is missing"] == [0, 0, 1, 0]


def test_numbers_that_are_names_are_categories():
    log = read_log(BASE | {"x_site": [7, 12, 7, None]}, categorical="x_site")
    assert log.state_names == ("x_site=(missing)", "x_site=12", "x_site=7")
    with pytest.raises(LogError, match=r"columns of the state or the action. y is neither"):
        read_log(BASE | {"x_site": [7, 12, 7, 7]}, categorical=["y"])


def test_rare_categories_are_put_together_and_said():
    rng = np.random.default_rng(0)
    codes = np.minimum(rng.geometric(0.05, 2000), 200)
    table = {"x_code": [f"c{i}" for i in codes], "a": [0, 1] * 1000, "r": rng.normal(size=2000)}
    reading = read(table, categories=10)
    assert reading.log.states.shape[1] == 10
    assert (reading.log.states.sum(axis=1) == 1).all()
    counts = pd.Series(table["x_code"]).value_counts()
    place = reading.log.state_names.index(f"x_code={counts.index[0]}")
    assert reading.log.states[:, place].sum() == counts.iloc[0]
    assert "the 9 most common are kept" in reading.describe()


def test_columns_that_look_like_outcomes_are_warned_of():
    table = BASE | {"age": [1, 2, 3, 4], "converted": [0, 1, 0, 1], "order_revenue": [0, 9, 0, 9]}
    with pytest.warns(TailproofWarning, match="converted, order_revenue look like an outcome"):
        read_log(table, state="*")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        read_log(table, state=["age", "converted"])  # named, so meant


@pytest.mark.parametrize(
    "name",
    ["days_since_purchase", "spend_last_90d", "prior_sales", "Avg Spend", "purchase_propensity"],
)
def test_what_is_known_of_earlier_orders_is_no_outcome(name):
    assert read(BASE | {"age": [1, 2, 3, 4], name: [0.5, 0.1, 0.2, 0.3]}, state="*").cautions == ()


def test_a_pattern_brings_no_identifiers():
    table = {
        "code": [f"k{i}" for i in range(90)],
        "empty": [None] * 90,
        "age": np.arange(90.0),
        "action": ["a", "b"] * 45,
        "reward": [1.0] * 90,
    }
    with pytest.warns(TailproofWarning, match="It is left out") as caught:
        log = read_log(table, state="*")
    assert any(
        "'empty' holds no values at all. It is left out" in str(each.message) for each in caught
    )
    assert log.state_names == ("age",)


@pytest.mark.parametrize("name", ["revenue", "profit", "margin", "value", "spend"])
def test_rewards_by_their_usual_names(name):
    assert read({"x": [1.0, 2.0], "a": [0, 1], name: [3.0, 4.0]}).columns.reward == name


def test_a_cost_is_a_negative_reward_and_said():
    reading = read({"x": [1.0, 2.0], "a": [0, 1], "cost": [3.0, 4.0]})
    assert reading.log.rewards.tolist() == [-3.0, -4.0]
    assert "Column 'cost' is read as a cost: less of it is better" in reading.describe()
    assert "reward: −cost" in reading.describe()
    named = read({"x": [1.0, 2.0], "a": [0, 1], "fee": [3.0, 4.0]}, reward="-fee")
    assert named.log.rewards.tolist() == [-3.0, -4.0]
    with pytest.warns(TailproofWarning, match=r"More of 'cost' counts as better.*reward='-cost'"):
        read_log({"x": [1.0, 2.0], "a": [0, 1], "cost": [3.0, 4.0]}, reward="cost")


@pytest.mark.parametrize("name", ["total_cost", "Claims Cost", "latency_ms", "losses"])
def test_a_reward_named_like_a_cost_is_doubted_unless_its_sign_is_said(name):
    table = {"x": [1.0, 2.0], "a": [0, 1], name: [3.0, 4.0]}
    (caution,) = read(table, reward=name).cautions
    assert f"More of '{name}' counts as better" in caution
    assert f"reward='-{name}'" in caution
    assert read(table, reward=f"-{name}").cautions == ()
    spent = {**table, name: [-3.0, 0.0]}  # already negative: more of it is better
    assert read(spent, reward=name).cautions == ()


@pytest.mark.parametrize(
    "name",
    [
        *("cost_saving", "loss_avoided", "closs", "revenue", "weight_loss_kg", "neg_latency"),
        *("damage_prevented", "cost_effectiveness", "claims_closed"),
    ],
)
def test_what_is_no_cost_is_not_doubted(name):
    assert read({"x": [1.0, 2.0], "a": [0, 1], name: [3.0, 4.0]}, reward=name).cautions == ()


def test_dates_written_as_text_are_names_if_they_are_said_to_be():
    table = BASE | {"week": ["2024-01-05", "2024-01-12"] * 2}
    log = read_log(table, state="week", categorical="week")
    assert log.state_names == ("week=2024-01-05", "week=2024-01-12")


def test_a_plain_ab_file_needs_no_state():
    rng = np.random.default_rng(0)
    table = {"variant": ["old", "new"] * 200, "revenue": rng.pareto(2.5, 400), "note": ["?"] * 400}
    reading = read(table)
    assert "compared as in a plain A/B test. Name some with state=..." in reading.describe()
    new = np.array(table["revenue"])[1::2].mean()
    plain = evaluate(reading.log, "always:new").choice.alternatives
    assert plain["self-normalised importance sampling"] == pytest.approx(new, abs=0.01)
    with pytest.raises(LogError, match="episodes of several steps need one"):
        read_log(table | {"episode": [0] * 400}, terminated=True)


def test_the_parts_that_are_missing_are_said_at_once():
    with pytest.raises(LogError, match=r"like the action or the reward.*action='offer_given', rew"):
        read_log({"age": [1], "segment": ["n"], "offer_given": ["a"], "total_spend": [1.0]})


def test_a_cost_is_suggested_with_its_sign():
    with pytest.raises(LogError, match=r"looks like the reward.*as in reward='-total_cost'"):
        read_log({"age": [1], "action": ["a"], "total_cost": [1.0]})


def test_costs_are_taken_off_wherever_the_action_was_taken():
    table = {"x": [0.0] * 4, **BASE}
    log = read_log(table, cost={"b": 0.5})
    assert log.rewards.tolist() == [1.0, 1.5, 3.0, 3.5]
    plain, net = (evaluate(read_log(table, cost=cost), "always:b") for cost in (None, {"b": 0.5}))
    assert net.value == pytest.approx(plain.value - 0.5)
    with pytest.raises(LogError, match="cost names the action 'B', which the log does not have"):
        read_log(table, cost={"B": 1.0})


def test_decimals_of_a_database_may_be_a_menu():
    prices = [Decimal("9.99"), Decimal("14.99")] * 20
    table = {"x": np.arange(40.0), "price": prices, "revenue": np.arange(40.0)}
    named = {"action": "price", "reward": "revenue", "state": "x"}
    log = read_log(table, **named, categorical="price")
    assert log.action_space.labels == ("9.99", "14.99")
    assert log.actions.tolist() == [0, 1] * 20
    assert "holds only 2 different numbers (9.99, 14.99)" in read(table, **named).describe()


@pytest.mark.parametrize("kind", [np.float64, np.float32, np.int64])
def test_numbers_of_an_action_may_be_a_menu(kind):
    prices = np.tile([19.5, 9.25, 14.75] if kind is not np.int64 else [30, 10, 20], 20).astype(kind)
    table = pd.DataFrame({"x": np.arange(60.0), "price": prices, "revenue": prices * 1.0})
    named = {"action": "price", "reward": "revenue", "state": "x"}
    log = read_log(table, **named, categorical="price")
    values = np.unique(prices)
    assert log.action_space.labels == tuple(str(value) for value in values)
    np.testing.assert_array_equal(values[log.actions], prices)
    for answer in (values[1], str(values[1])):
        found = evaluate(log, lambda rows, a=answer: [a] * len(rows), method="lstd").value
        assert found == pytest.approx(float(values[1]), rel=1e-3)
    said = read(table, **named).describe()
    assert ("pass categorical='price'" in said) == (kind is not np.int64)
    assert "categorical" not in read(table.assign(price=np.arange(60) / 7), **named).describe()
