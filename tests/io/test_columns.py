"""Guessing columns: what is found, what is ambiguous, and what is said about it."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import read_log
from tailproof.errors import LogError
from tailproof.io.columns import CONVENTIONS, Columns, resolve_columns

PLAIN = ("x_1", "x_2", "action", "reward")


@pytest.mark.parametrize(
    ("part", "name"),
    [(part, name) for part, rows in CONVENTIONS.items() for row in rows for name in row],
)
def test_every_conventional_name_is_guessed(part, name):
    others = [n for n in ("x_1", "action", "reward", "episode") if n != part]
    found = resolve_columns([*others, name])
    assert found.parts()[part] == (name,)
    assert part in found.guessed


@pytest.mark.parametrize(
    "names",
    [
        ("state_a", "state_b"),
        ("obs_0", "obs_1"),
        ("x1", "x2"),
        ("s",),
        ("observation",),
        ("Context Age", "context-income"),
        ("feature_0",),
    ],
)
def test_families_of_states_are_guessed_in_the_order_of_the_table(names):
    assert resolve_columns([*names, "a", "r"]).state == names


def test_next_states_are_guessed_beside_their_states():
    found = resolve_columns(["next_x_2", "x_1", "next_x_1", "x_2", "action", "reward", "episode"])
    assert found.state == ("x_1", "x_2")
    assert found.next_state == ("next_x_1", "next_x_2")


def test_continuous_actions_of_several_columns_are_guessed():
    assert resolve_columns(["s_0", "action_0", "action_1", "action_prob", "r"]).action == (
        "action_0",
        "action_1",
    )


def test_a_better_name_beats_a_lesser_one():
    found = resolve_columns(["x", "a", "action", "episode", "user_id", "reward"])
    assert found.action == ("action",)
    assert found.episode == ("episode",)
    assert set(found.ignored) == {"a", "user_id"}


def test_step_is_not_guessed_without_episodes():
    assert resolve_columns([*PLAIN, "time"]).step is None
    assert resolve_columns([*PLAIN, "time", "episode"]).step == "time"


def test_a_time_that_is_a_state_still_orders_the_rows():
    found = resolve_columns(["t", "y", "a", "r", "episode"], state=["t", "y"])
    assert (found.step, found.state) == ("t", ("t", "y"))


def test_false_means_there_is_none():
    found = resolve_columns([*PLAIN, "prob", "episode"], propensity=False, episode=False)
    assert (found.propensity, found.episode) == ((), ())


def test_a_pattern_takes_what_no_other_part_has():
    found = resolve_columns(["id", "age", "a", "r", "income"], state="*", episode="id")
    assert found.state == ("age", "income")


def test_names_and_patterns_mix_and_a_named_column_stays_a_state():
    names = ["x_b", "x_a", "x_week", "step", "a", "r", "episode"]
    found = resolve_columns(names, state=["step", "x_*", "x_a"], group="x_week")
    assert found.state == ("step", "x_b", "x_a")
    assert (found.step, found.group) == ("step", "x_week")


def test_patterns_of_states_and_next_states_are_paired_by_what_the_star_stands_for():
    names = ["in.b", "in.a", "out.a", "out.b", "a", "r", "episode"]
    found = resolve_columns(names, state="in.*", next_state="out.*")
    assert found.state == ("in.b", "in.a")
    assert found.next_state == ("out.b", "out.a")


@pytest.mark.parametrize(
    ("names", "given", "text"),
    [
        (
            ("x", "action", "reward", "terminal", "is_terminal"),
            {},
            "could be the terminated: termin",
        ),
        (("x_1", "obs_1", "action", "reward"), {}, "More than one family .* x_1; obs_1. Say which"),
        (("x", "reward"), {}, "No column looks like the action. The log has: x, reward"),
        (("0.1", "0.2"), {}, "No column looks like the action or the reward.*as in action="),
        ((), {}, "The log has: no columns"),
        (PLAIN, {"reward": "rewrd"}, "no column 'rewrd' for reward.*Did you mean 'reward'"),
        (PLAIN, {"state": "y_*"}, "No column matches the state pattern"),
        (PLAIN, {"state": ["x", "y_*"]}, "No column matches the state pattern"),
        (PLAIN, {"state": ["x_1", "x_1"]}, "state must name each column once"),
        (PLAIN, {"state": []}, "state must name each column once"),
        (PLAIN, {"state": 3}, "state must be a column name, a list of names or a pattern. Got 3"),
        (PLAIN, {"reward": "x_*"}, "reward is one column. Got x_1, x_2"),
        (PLAIN, {"group": True}, "group must be a column name, or False"),
        (
            PLAIN,
            {"reward": "action", "action": "action"},
            "one part of the log only. Got 'action' for action and reward",
        ),
        (
            PLAIN,
            {"state": ["reward"]},
            "No column looks like the reward. 'reward' could be the reward, but was taken as a state",
        ),
        (("x", "x", "a", "r"), {}, "Column names must differ. Got x more than once"),
        ((*PLAIN, "next_x_1"), {}, "Next states are given for some .* no next_x_2"),
        ((*PLAIN, "y"), {"next_state": ["y"]}, "next-state column for each of the 2 state columns"),
        (
            ("in.a", "out.b", "a", "r"),
            {"state": "in.*", "next_state": "out.*"},
            "must match columns that correspond",
        ),
    ],
)
def test_what_cannot_be_resolved_is_said(names, given, text):
    with pytest.raises(LogError, match=text):
        resolve_columns(names, **given)


def test_describe_says_what_was_guessed_and_what_is_left():
    said = resolve_columns([*PLAIN, "note"], reward="reward").describe()
    assert said == (
        "state: x_1, x_2 (guessed); action: action (guessed); reward: reward; not used: note"
    )


@pytest.mark.slow
@given(st.lists(st.text(max_size=12), max_size=10))
def test_any_names_give_columns_or_an_error(names):
    try:
        found = resolve_columns(names)
    except LogError:
        return
    assert isinstance(found, Columns)
    assert set(found.used()) | set(found.ignored) == set(names)
    assert not set(found.used()) & set(found.ignored)


def test_a_star_takes_no_next_states_for_states():
    table = {
        "episode": [0, 0, 1, 1],
        "position": [0.0, 1.0, 0.0, 1.0],
        "next_position": [1.0, 2.0, 1.0, 2.0],
        "action": [0, 1, 1, 0],
        "reward": [1.0, 0.0, 1.0, 0.0],
    }
    log = read_log(table, state="*")
    assert log.state_names == ("position",)
    assert log.next_states.ravel().tolist() == [1.0, 2.0, 1.0, 2.0]


def test_weeks_order_the_rows_of_an_episode():
    table = {
        "customer": ["a", "a", "b", "b"],
        "week": [2, 1, 1, 2],
        "x": [0.0, 1.0, 2.0, 3.0],
        "action": [0, 1, 1, 0],
        "reward": [1.0, 0.0, 1.0, 0.0],
    }
    log = read_log(table, state="x", terminated=True)
    assert log.states.ravel().tolist() == [1.0, 0.0, 2.0, 3.0]
