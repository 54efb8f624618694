"""Rows that were logged twice are warned of; rewards that repeat by chance are not."""

import numpy as np
import pandas as pd
import pytest

from tailproof import evaluate
from tailproof.errors import LogError
from tailproof.io import read


def frame(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    reward = np.where(rng.random(n) < 0.4, (10 * rng.pareto(1.8, n)).round(3), 0.0)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 70, n),
            "action": rng.choice(["mail", "none"], n),
            "reward": reward,
        }
    )


@pytest.mark.parametrize("state", [None, "age"])
@pytest.mark.parametrize("share", [0.4, 1.0, 3.0])
def test_copies_of_rows_are_warned_of(state, share):
    table = frame()
    again = table.sample(frac=share, replace=True, random_state=1)
    if share == 3.0:
        again = pd.concat([table] * 2)
    (caution,) = read(pd.concat([table, again]), state=state).cautions
    assert "are exact copies of others" in caution
    assert "table.drop_duplicates()" in caution
    assert read(table, state=state).cautions == ()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("state", [None, "age"])
def test_rewards_that_repeat_by_chance_are_no_copies(seed, state):
    rng = np.random.default_rng(seed)
    prices = (10 * rng.pareto(1.8, 300)).round(2)
    table = frame(6000, seed)
    table["reward"] = rng.choice(prices, len(table))  # a catalogue of prices
    assert read(table, state=state).cautions == ()
    assert read(table.assign(reward=rng.integers(0, 5, 6000)), state=state).cautions == ()
    once = table.assign(action=np.where(np.arange(6000) < 5700, "mail", "none"))
    assert read(once, state=None).cautions == ()  # nearly all rows have the same action


@pytest.mark.parametrize("seed", range(5))
def test_rewards_that_states_and_actions_decide_are_no_copies(seed):
    rng = np.random.default_rng(seed)
    margin = (10 * rng.pareto(1.8, (100, 2))).round(2)
    product, sent = rng.integers(0, 100, 6000), rng.integers(0, 2, 6000)
    table = {"product": product, "action": sent, "reward": margin[product, sent]}
    assert read(table, state="product").cautions == ()
    table["reward"] = margin[product, 0]  # decided by the product alone
    assert not any("copies" in each for each in read(table, state="product").cautions)


def test_rows_that_other_columns_tell_apart_are_no_copies(tmp_path):
    rng = np.random.default_rng(0)
    prices = (10 * rng.pareto(1.8, 400)).round(2)
    listed = rng.choice(prices, 3000)
    offer = rng.choice(["none", "half"], 3000)
    table = pd.DataFrame({"listed": listed, "offer": offer})
    table["revenue"] = np.where(offer == "half", listed / 2, listed).round(2)
    ordered = table.assign(order=[f"no. {row}" for row in range(3000)], paid=[[1]] * 3000)
    assert read(ordered, state="listed").cautions == ()
    ordered.drop(columns="paid").to_csv(tmp_path / "log.csv", index=False)
    assert read(tmp_path / "log.csv", state="listed").cautions == ()
    twice = pd.concat([ordered, ordered])
    (caution,) = read(twice, state="listed").cautions
    count = (table["revenue"] > 0).sum()
    assert caution.startswith(f"{count:,} of the {2 * count:,} rows with a reward")


def test_copies_may_be_one_group_or_weigh_more():
    table = pd.concat([frame(), frame()])
    assert read(table.assign(order=[*range(1500)] * 2), state="age", group="order").cautions == ()


def test_a_step_that_was_logged_twice_is_named_a_copy():
    table = frame(60).assign(unit=np.repeat(np.arange(12), 5), step=list(range(5)) * 12)
    parts = {"state": "age", "episode": "unit", "step": "step", "terminated": True}
    twice = pd.concat([table, table[10:17]])
    with pytest.raises(LogError, match=r"\(7 such pairs\); 7 of them are exact copies: drop them"):
        read(twice, **parts)
    with pytest.raises(LogError, match=r"1 such pairs\); name another step column, or pass step=F"):
        read(pd.concat([table, table[:1].assign(age=1)]), **parts)


@pytest.mark.parametrize("lazy", [False, True])
def test_labels_that_differ_by_case_or_blanks_are_warned_of(lazy, tmp_path):
    table = frame(400)
    table.loc[::7, "action"] = "Mail"
    table.loc[::11, "action"] = "mail "
    table.to_parquet(tmp_path / "log.parquet")
    (caution,) = read(tmp_path / "log.parquet", state="age", lazy=lazy).cautions
    assert "count as different actions: 'Mail' and 'mail' and 'mail '." in caution
    table["action"] = table["action"].str.strip().str.lower()
    assert read(table, state="age").cautions == ()


def test_a_column_of_records_is_refused_with_what_to_do():
    table = {"who": [{"age": 1}, {"age": 2}], "action": ["a", "b"], "reward": [1.0, 2.0]}
    with pytest.raises(LogError, match=r"'who' holds records, not numbers or text.*json_normalize"):
        read(table, state="who")
    flat = pd.json_normalize(pd.DataFrame(table).to_dict("records"))
    assert read(flat, state="who.age").log.states.tolist() == [[1.0], [2.0]]


def test_always_is_a_way_to_say_that_episodes_terminate():
    table = frame(60).assign(unit=np.repeat(np.arange(12), 5), step=list(range(5)) * 12)
    parts = {"state": "age", "episode": "unit", "step": "step"}
    logs = [read(table, terminated=each, **parts).log for each in (True, "always")]
    assert logs[0].terminated.tolist() == logs[1].terminated.tolist()
    assert logs[0].always_terminates


def test_several_columns_name_an_episode(tmp_path):
    table = frame(60).assign(house=np.repeat([1, 2], 30), day=list(np.repeat([7, 8, 9], 10)) * 2)
    table["hour"] = list(range(10)) * 6
    table.to_csv(tmp_path / "log.csv", index=False)
    joined = table.assign(both=table["house"].astype(str) + "-" + table["day"].astype(str))
    parts = {"step": "hour", "terminated": True}
    expected = read(joined, state="age", episode="both", **parts).log
    for source in (table, tmp_path / "log.csv"):
        reading = read(source, state="*", episode=["house", "day"], **parts)
        assert reading.columns.state == ("age",)
        assert reading.columns.episode == ("house", "day")
        assert reading.log.rewards.tolist() == expected.rewards.tolist()
        assert reading.log.episode_ids.tolist()[0] == "1 / 7"
    path = tmp_path / "log.parquet"
    table.to_parquet(path)
    mapped = read(path, lazy=True, state="age", episode=["house", "day"], **parts).log
    assert mapped.rewards.tolist() == expected.rewards.tolist()
    assert mapped.episode_ids.tolist() == reading.log.episode_ids.tolist()


def visits(rows):
    table = {
        "patient": np.repeat(np.arange(10), 4),
        "visit_no": np.tile(np.arange(1, 5), 10).astype(np.uint8),
        "seen_on": pd.date_range("2024-01-01", periods=40).strftime("%Y-%m-%d").to_numpy(),
        "note": np.arange(40.0) % 7,
        "x": np.arange(40.0),
        "action": np.arange(40) % 2,
        "reward": np.arange(40) % 3.0,
    }
    return {name: values[rows] for name, values in table.items()}


def test_a_column_that_may_be_the_step_is_said_and_one_that_contradicts_the_file_is_warned_of():
    named = {"episode": "patient", "state": "x", "terminated": True}
    inorder, reversed_ = visits(np.arange(40)), visits(np.arange(40)[::-1])
    reading = read(inorder, **named)
    assert reading.cautions == ()
    assert any(
        note.endswith("order of the file, in which visit_no, seen_on grows.")
        for note in reading.notes
    )
    (said,) = read(reversed_, **named).cautions
    assert "but visit_no, seen_on would put them in another" in said
    assert "pass step='visit_no'" in said
    for step in (False, "visit_no"):
        assert read(reversed_, **named, step=step).cautions == ()


def test_episodes_of_one_row_are_said_to_be_such():
    table = visits(np.arange(40)) | {"uid": np.arange(40)}
    reading = read(table, episode="uid", state="x")
    assert "Every episode of 'uid' has one row" in reading.describe()
    assert str(evaluate(reading.log, "uniform", gamma=0.9).unit) == "reward per row"
    assert (
        "has one row" not in read(table, episode="patient", state="x", terminated=True).describe()
    )


@pytest.mark.parametrize("part", ["episode", "group"])
def test_ids_that_differ_by_blanks_are_warned_of(part):
    """Half of a customer's rows would be another customer."""
    table = frame(300)
    customer = np.char.add("c", (np.arange(300) // 4).astype(str))
    given = {"state": "age", part: "customer"}
    clean = read(table.assign(customer=customer), **given)
    assert not any("blanks" in each for each in clean.cautions)
    customer = np.where(np.arange(300) % 4 == 3, np.char.add(customer, " "), customer)
    said = read(table.assign(customer=customer), **given).cautions
    assert any("'c0' and 'c0 ' (75 such)" in each for each in said), said
