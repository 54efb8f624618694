"""Columns that a pattern must not take for states, and states that decide the reward."""

import numpy as np
import pandas as pd
import pytest

from tailproof import Column, compare, diagnose, evaluate
from tailproof.errors import LogError
from tailproof.io import read
from tailproof.policies.text import policy_columns


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 400
    x, chance = rng.normal(size=n), rng.uniform(0.2, 0.8, n)
    sent = rng.random(n) < chance
    return pd.DataFrame(
        {
            "x": x,
            "rain": rng.random(n),
            "action": np.where(sent, "mail", "none"),
            "reward": x + rng.standard_t(2, n) + sent,
            "p": np.where(sent, chance, 1 - chance),
            "q_mail": chance,
            "q_none": 1 - chance,
            "new": np.where(x > 0, "mail", "none"),
        }
    )


def test_a_pattern_takes_no_probabilities_of_the_actions(table):
    reading = read(table.drop(columns="new"), state="*")
    assert reading.columns.state == ("x", "rain")
    (caution,) = reading.cautions
    assert "p, q_mail, q_none look like probabilities of the actions" in caution
    named = read(table.drop(columns="new"), state=["x", "p"])
    assert (named.columns.state, named.cautions) == (("x", "p"), ())
    alone = read(table[["x", "rain", "action", "reward", "p"]], state="*")
    assert alone.cautions[0].endswith("pass propensity='p'.")
    used = read(table, state="*", propensity="p", beside=["new", "q_*"])
    assert (used.columns.state, used.cautions) == (("x", "rain"), ())


def test_a_pattern_takes_propensities_of_customers_and_one_hot_states(table):
    plain = table[["x", "action", "reward"]]
    scored = plain.assign(churn_propensity=table["rain"], propensity_to_buy=table["rain"] / 2)
    reading = read(scored, state="*")
    assert reading.columns.state == ("x", "churn_propensity", "propensity_to_buy")
    assert reading.cautions == ()
    hot = np.random.default_rng(1).integers(0, 2, len(table))
    coded = {"action": (table["action"] == "mail") * 1, "reward": table["reward"]}
    assert read({"s_0": hot * 1.0, "s_1": 1.0 - hot, **coded}, state="s_*").cautions == ()
    leaking = {"s_0": 1.0 - coded["action"], "s_1": 1.0 * coded["action"], **coded}
    (caution,) = read(leaking, state="*").cautions
    assert "s_0, s_1 look like probabilities of the actions" in caution


@pytest.mark.parametrize(
    "door", [evaluate, diagnose, lambda log, policy, **more: compare(log, {"new": policy}, **more)]
)
def test_a_pattern_takes_no_column_of_the_policy(table, door):
    given = table[["x", "action", "reward", "new"]]
    answers = [
        door(given, policy, state=state).to_dict()
        for policy, state in ((Column("new"), "*"), ("column:new", "*"), (Column("new"), "x"))
    ]
    for answer in answers:
        answer.pop("seconds", None)
    assert answers[0] == answers[1] == answers[2]


def test_columns_of_policies_are_found_in_every_form():
    text = "0.2*column:q_* + 0.8*logged"
    assert policy_columns([text, "rules.py:mine", None, len]) == ("q_*",)


@pytest.mark.parametrize("change", [lambda r: 0.8 * r, lambda r: -r, lambda r: np.exp(r)])
def test_a_state_that_decides_the_reward_is_warned_of(table, change):
    plain = table[["x", "action", "reward"]]
    leaking = plain.assign(net=change(plain["reward"]))
    assert read(plain, state="*").cautions == ()
    (caution,) = read(leaking, state="*").cautions
    assert "The state net alone decides the reward" in caution


def test_named_states_of_episodes_may_decide_the_reward():
    rng = np.random.default_rng(0)
    queue = rng.integers(0, 9, 400)
    table = pd.DataFrame(
        {"queue": queue, "action": rng.integers(0, 2, 400), "reward": -1.0 * queue}
    )
    table["unit"] = np.repeat(np.arange(40), 10)
    parts = {"episode": "unit", "terminated": True}
    assert read(table, state="queue", **parts).cautions == ()
    (caution,) = read(table, state="q*", **parts).cautions
    assert "The state queue alone decides the reward" in caution


def test_a_leak_with_gaps_is_seen(table):
    rng = np.random.default_rng(1)
    leak = np.where(rng.random(len(table)) < 0.3, np.nan, 0.8 * table["reward"])
    assert any("'leak'" in said or "leak " in said for said in read(
        table.assign(leak=leak), state=["x", "leak"]
    ).cautions)  # fmt: skip


def test_several_columns_in_one_text_get_a_hint(table):
    with pytest.raises(LogError, match=r"\['x', 'rain'\]"):
        read(table, state="x, rain")
