import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tailproof
from tailproof import Always, Continuous, Discrete, Log
from tailproof.errors import LogError, TailproofError


def small(**changes):
    columns = {
        "states": np.arange(12.0).reshape(6, 2),
        "actions": np.array([0, 1, 0, 1, 1, 0]),
        "rewards": np.array([1.0, 2.0, 3.0, 4.0, 5.0, 6.0]),
        "next_states": np.arange(2.0, 14.0).reshape(6, 2),
        "episode": ["a", "a", "a", "b", "c", "c"],
    }
    columns.update(changes)
    arrays = [columns.pop(name) for name in ("states", "actions", "rewards", "next_states")]
    return Log.from_arrays(*arrays, **columns)


@given(st.lists(st.integers(1, 5), min_size=1, max_size=12))
def test_episodes_tile_the_log_whatever_their_lengths(lengths):
    n = sum(lengths)
    log = Log.from_arrays(
        np.arange(n),
        np.zeros(n, dtype=int),
        np.arange(n),
        np.arange(n),
        episode=np.repeat(np.arange(len(lengths)), lengths),
    )
    assert [episode.n_transitions for episode in log] == lengths
    assert np.array_equal(np.concatenate([episode.rewards for episode in log]), log.rewards)
    assert np.array_equal(log.first_states[:, 0], np.cumsum([0, *lengths[:-1]]))
    assert np.array_equal(np.bincount(log.episode_of_row), lengths)


def test_indexing_and_slicing_by_episode_give_views():
    log = small()
    assert np.shares_memory(log[0].states, log.states)
    assert np.shares_memory(log[1:3].rewards, log.rewards)
    assert log[-1].episode_ids.tolist() == ["c"]
    assert log[1:].rewards.tolist() == [4.0, 5.0, 6.0]
    assert log[1:].starts.tolist() == [0, 1, 3]


def test_take_repeats_and_reorders_episodes():
    taken = small().take([2, 0, 2])
    assert taken.episode_ids.tolist() == ["c", "a", "c"]
    assert taken.rewards.tolist() == [5.0, 6.0, 1.0, 2.0, 3.0, 5.0, 6.0]
    assert small()[::2].episode_ids.tolist() == ["a", "c"]


def test_without_flags_every_episode_is_truncated_and_none_terminates():
    log = small()
    assert not log.terminated.any()
    assert log.truncated.tolist() == [False, False, True, True, False, True]
    assert not log.always_terminates


def test_a_terminated_end_is_not_also_truncated():
    log = small(terminated=[0, 0, 1, 1, 0, 1], truncated=[0, 0, 1, 0, 0, 0])
    assert log.always_terminates
    assert not log.truncated.any()


def test_groups_hold_episodes_together():
    log = small(group=["x", "x", "x", "y", "x", "x"])
    assert log.n_groups == 2
    assert log.group_of_episode.tolist() == [0, 1, 0]
    assert small().n_groups == 3


def test_spaces_are_inferred_from_actions_or_taken_from_gymnasium():
    import gymnasium as gym

    assert small().action_space == Discrete(2)
    assert small(action_space=4).n_actions == 4
    assert small(action_space=gym.spaces.Discrete(3)).n_actions == 3
    assert small(actions=np.linspace(-1, 1, 6)).action_space == Continuous(1)
    box = gym.spaces.Box(-1.0, 1.0, (2,))
    assert small(actions=np.zeros((6, 2)), action_space=box).action_space.dimension == 2


def test_repr_shows_shapes():
    text = repr(small(propensity=np.full(6, 0.5)))
    assert "6 transitions, 3 episodes; states (6, 2), actions (6,) of 2 actions" in text
    assert "propensities)" in text
    assert "no propensities" not in text


def test_a_bandit_is_a_log_of_one_step_episodes():
    assert small(episode=range(6)).is_bandit
    assert not small().is_bandit


NAN = np.array([1.0, 2.0, np.nan, 4.0, 5.0, 6.0])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rewards": NAN}, r"rewards must be finite\. Got nan at row 2 \(1 such entries"),
        (
            {"rewards": np.where(np.isnan(NAN), np.inf, 1)},
            r"rewards must be finite\. Got inf at row 2",
        ),
        (
            {"states": np.column_stack([NAN, NAN])},
            r"states must be finite\. Got nan at row 2, column 0 \(2 such entries",
        ),
        (
            {"next_states": np.full((6, 2), np.inf)},
            r"next_states must be finite\. Got inf at row 0",
        ),
        (
            {"next_states": np.zeros((6, 3))},
            r"next_states must have the shape of states, \(6, 2\)\. Got",
        ),
        ({"rewards": np.zeros(5)}, r"rewards must have the shape \(6,\).* Got \(5,\)"),
        ({"rewards": ["x"] * 6}, r"rewards must be floats\. Got dtype <U1"),
        ({"states": np.array([["a", "b"]] * 6)}, r"states must be real numbers\. Got dtype <U1"),
        (
            {"actions": [0, 1, 0, 1, 1, 7], "action_space": 2},
            r"actions must lie in 0\.\.1\. Got 7 at row 5",
        ),
        ({"actions": [0, 1, 0, 1, 1, -1]}, r"actions must lie in 0\.\.1\. Got -1 at row 5"),
        (
            {"actions": [0.5] * 6, "action_space": 2},
            r"Discrete actions must be integers of shape \(6,\)",
        ),
        ({"actions": [0, 1]}, r"actions must have 6 rows, as states have\. Got shape \(2,\)"),
        ({"actions": ["l"] * 6}, r"actions must be integers or reals\. Got dtype <U1"),
        ({"episode": [0, 0]}, r"episode must have the shape \(6,\)"),
        (
            {"episode": ["a", "b", "a", "b", "c", "c"]},
            r"The rows of an episode must be contiguous\. Episode a appears in 2 separate runs; sort",
        ),
        (
            {"group": ["x", "y", "x", "x", "x", "x"]},
            r"A group holds whole episodes\. Episode a has the groups x and y",
        ),
        (
            {"terminated": [1, 0, 0, 0, 0, 0]},
            r"terminated may be true only at the last row of an episode, .* in row 0",
        ),
        ({"terminated": [0.5] * 6}, r"terminated must be booleans\. Got dtype float64"),
        (
            {"propensity": [0.5, 0.5, 0.0, 0.5, 0.5, 0.5]},
            r"propensity must lie in \(0, 1\]\. Got 0 at row 2 \(1 such row.*an action that was",
        ),
        ({"propensity": [1.5] * 6}, r"propensity must lie in \(0, 1\]\. Got 1\.5 at row 0"),
        ({"state_names": ["one"]}, r"state_names must name the 2 state variables\. Got 1"),
        ({"action_space": "two"}, r"action_space must be a number of actions"),
    ],
)
def test_bad_columns_are_refused_by_name(changes, text):
    with pytest.raises(LogError, match=text):
        small(**changes)


def test_an_empty_log_is_refused():
    with pytest.raises(LogError, match=r"A log needs at least one transition\. Got none"):
        Log.from_arrays(np.empty((0, 2)), [], [], np.empty((0, 2)), episode=[])
    with pytest.raises(LogError, match=r"at least one episode\. Got the empty slice"):
        small()[2:2]
    with pytest.raises(IndexError, match="Episode 3 of a log with 3 episodes"):
        small()[3]


def test_continuous_actions_stay_within_their_bounds():
    with pytest.raises(LogError, match=r"within the action space's bounds\. Got \[2\.0\] at row 0"):
        small(actions=np.full(6, 2.0), action_space=Continuous(1, (-1.0,), (1.0,)))
    with pytest.raises(LogError, match="actions must have 2 columns, as the action space does"):
        small(actions=np.full(6, 0.0), action_space=Continuous(2))
    with pytest.raises(LogError, match="This needs discrete actions"):
        _ = small(actions=np.full(6, 0.5)).n_actions


DATES = np.array(["2021-02-15"] * 6, dtype="datetime64[D]")
HIDDEN = np.ma.array(np.ones(6), mask=[0, 0, 1, 0, 0, 0])


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"rewards": HIDDEN}, r"rewards has 1 masked entries, the first at row 2"),
        ({"states": np.ma.array(np.ones((6, 2)), mask=True)}, "states has 12 masked entries"),
        ({"next_states": np.ma.masked_equal(np.eye(6)[:, :2], 1)}, "next_states has 2 masked"),
        ({"actions": np.ma.array([0] * 6, mask=[1] + [0] * 5)}, "actions has 1 masked entries"),
        ({"propensity": HIDDEN * 0.5}, "propensity has 1 masked entries"),
        ({"episode": np.ma.array(range(6), mask=[0] * 5 + [1])}, "episode has 1 masked entries"),
        ({"terminated": np.ma.array([False] * 6, mask=True)}, "terminated has 6 masked entries"),
        ({"rewards": DATES}, r"rewards must be floats\. Got dtype datetime64"),
        ({"rewards": DATES - DATES[0]}, r"rewards must be floats\. Got dtype timedelta64"),
        ({"rewards": ["1.5"] * 6}, r"rewards must be floats\. Got dtype <U3"),
        ({"rewards": np.ones(6) * 1j}, r"rewards must be floats\. Got dtype complex128"),
        ({"rewards": np.array(["1"] * 6, dtype=object)}, "rewards must be floats"),
        ({"states": DATES}, r"states must be real numbers\. Got dtype datetime64"),
        ({"actions": DATES, "action_space": 20_000}, "Discrete actions must be integers"),
        ({"propensity": DATES}, "propensity must be floats"),
        (
            {"episode": [*DATES[:5], np.datetime64("NaT")]},
            "episode must label every row.* in row 5",
        ),
        ({"group": [*DATES[:5], np.datetime64("NaT")]}, "group must label every row.* in row 5"),
        ({"group": [0.0, 0, 0, 0, 0, np.nan]}, "group must label every row.* in row 5"),
        ({"group": np.array(["a"] * 5 + [None])}, "group must label every row.* in row 5"),
        ({"episode": np.array([0, 1, 2, 3, 4, "x"], dtype=object)}, "labels of one kind"),
        ({"terminated": [0, 2, 0, 0, 0, 0]}, "terminated must be booleans.*such as 2"),
        ({"truncated": [0, -1, 0, 0, 0, 0]}, "truncated must be booleans.*such as -1"),
        ({"terminated": ["no"] * 6}, "terminated must be booleans"),
    ],
)
def test_what_is_no_number_or_missing_is_never_swallowed(changes, text):
    with pytest.raises(LogError, match=text):
        small(**changes)


def test_what_only_looks_odd_is_taken():
    plain = small()
    log = small(
        rewards=np.ma.array(plain.rewards, mask=False), terminated=[0.0, 0.0, 0.0, 0.0, 0.0, 1.0]
    )
    assert (log.rewards == plain.rewards).all()
    assert log.terminated.tolist() == [False] * 5 + [True]
    with pytest.raises(LogError, match="rewards has 6 masked"):
        plain.with_rewards(np.ma.array(np.ones(6), mask=True))


@pytest.mark.parametrize("size", [1e-160, 1e160])
@pytest.mark.parametrize("door", ["evaluate", "compare", "diagnose", "learn"])
def test_rewards_whose_squares_are_no_numbers_are_refused_by_every_door(door, size, rng):
    log = Log.from_arrays(
        rng.normal(size=(50, 1)), rng.integers(2, size=50), size * rng.normal(size=50),
        rng.normal(size=(50, 1)), episode=np.arange(50),
    )  # fmt: skip
    policies = {"compare": [{"a": Always(1)}], "learn": []}.get(door, [Always(1)])
    with pytest.raises(LogError) as caught:
        getattr(tailproof, door)(log, *policies)
    assert caught.value.argument == "reward"


@pytest.mark.parametrize("gamma", ["0.9", True, [0.9], np.nan, 1.5, -0.1])
@pytest.mark.parametrize("door", ["evaluate", "compare", "diagnose"])
def test_a_discount_that_is_no_number_is_refused_by_every_door(door, gamma, rng):
    states = rng.normal(size=(60, 1))
    log = Log.from_arrays(
        states, rng.integers(2, size=60), rng.normal(size=60), np.roll(states, -1, axis=0),
        episode=np.repeat(np.arange(20), 3), terminated=np.arange(60) % 3 == 2,
    )  # fmt: skip
    with pytest.raises(TailproofError) as caught:
        getattr(tailproof, door)(
            log, {"a": Always(1)} if door == "compare" else Always(1), gamma=gamma
        )
    assert caught.value.argument == "gamma"
