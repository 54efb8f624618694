"""Sample weights as repetitions, and actions that are not always available."""

import numpy as np
import pandas as pd
import pytest

from tailproof import Column, EpsilonGreedy, diagnose, evaluate, learn, read_log
from tailproof.errors import LogError, MethodError, PolicyError, StateWarning, TailproofWarning
from tailproof.policies.binding import for_log
from tailproof.policies.forms import action_probabilities


@pytest.fixture(scope="module")
def table():
    rng = np.random.default_rng(0)
    n = 300
    x = rng.standard_normal(n)
    action = rng.choice(["a", "b", "c"], n)
    frame = pd.DataFrame({"x": x, "action": action, "reward": x + rng.standard_normal(n)})
    frame["weight"] = rng.choice([0.5, 1.0, 1.5], n)
    frame["propensity"] = 1 / 3
    frame["available_a"] = True
    frame["available_b"] = (action == "b") | (x > 0)
    frame["available_c"] = (action == "c") | (x < 0)
    return frame


def test_a_weight_counts_as_so_many_rows(table):
    log = read_log(table, weight="weight")
    doubled = table.loc[table.index.repeat((2 * table["weight"]).astype(int))]
    assert log.rewards.mean() == pytest.approx(np.average(table["reward"], weights=table["weight"]))
    with pytest.warns(TailproofWarning, match="exact copies of others"):
        copied = read_log(doubled)
    with pytest.warns(StateWarning, match="same x"):  # copies of a row share its number
        expected = evaluate(copied, "always:a", method="snips").value
    assert evaluate(log, "always:a", method="snips").value == pytest.approx(expected)


def test_copies_are_one_observation(table):
    once = evaluate(read_log(table), "always:a").lower_bound(0.9).value
    ten = table.assign(weight=np.where(table.index % 2, 10, 10.0))
    assert evaluate(read_log(ten, weight="weight"), "always:a").lower_bound(0.9).value == once
    log = read_log(table, weight="weight")
    assert log.n_groups == len(table)


def test_rows_keep_their_columns_when_they_are_repeated(table):
    log = read_log(table.assign(new=np.where(table["x"] > 0, "a", "c")), weight="weight", state="x")
    law = action_probabilities(
        for_log(Column("new"), log), log.states, log.n_actions, rows=log.table_rows.rows
    )
    np.testing.assert_array_equal(law[:, 0] == 1, log.states[:, 0] > 0)


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        ([1.0, -1.0], "Weights must be at least 0"),
        ([0.0, 0.0], "not all 0"),
        ([1.0, None], "'w' has 1 missing value"),
    ],
)
def test_weights_that_cannot_be_counted_are_refused(weights, message):
    with pytest.raises(LogError, match=message):
        read_log(
            {"x": [0.0, 1.0], "action": [0, 1], "reward": [1.0, 2.0], "w": weights}, weight="w"
        )


def test_weights_of_many_digits_are_rounded_and_said():
    rng = np.random.default_rng(1)
    n = 2000
    weights = rng.uniform(0.3, 3, n)
    table = {"x": rng.normal(size=n), "action": rng.integers(2, size=n), "reward": rng.random(n)}
    with pytest.warns(TailproofWarning, match="weights in column 'w'.*are rounded to multiples of"):
        log = read_log(table | {"w": weights}, weight="w")
    assert log.n_transitions <= 20.5 * n
    exact = np.average(table["reward"], weights=weights)
    assert log.rewards.mean() == pytest.approx(exact, rel=2e-3)
    assert log.once.n_transitions == n


@pytest.mark.slow
def test_copies_are_not_counted_shown_or_taken_for_a_tail(table):
    plain, weighted = read_log(table), read_log(table, weight="weight")
    assert weighted.n_transitions > len(table)
    np.testing.assert_array_equal(weighted.once.rewards, plain.rewards)
    assert plain.once is plain
    found = evaluate(weighted, "always:a")
    assert (found.n_transitions, found.n_episodes, found.on_log.rows) == (300, 300, 300)
    named = evaluate(weighted, "always:a", method="snips")
    assert named.on_log.effective_rows == pytest.approx(found.on_log.effective_rows, rel=0.05)
    assert found.on_log.effective_rows <= (table["action"] == "a").sum()
    learned = learn(weighted)
    assert learned.n_episodes == 300
    own, copied = diagnose(plain), diagnose(weighted)
    assert (copied.transitions, copied.episodes, copied.groups) == (300, 300, None)
    assert copied.tails["rewards"].right == own.tails["rewards"].right
    assert copied.clustering == own.clustering
    assert copied.verdict.tails == own.verdict.tails
    assert len({each.row for each in copied.influence.units}) == 10


def test_an_episode_decides_with_all_of_its_copies(table):
    weighted = read_log(table, weight="weight")
    found = diagnose(weighted).influence
    first = found.units[0]
    rest = table.drop(index=first.row)
    expected = np.average(rest["reward"], weights=rest["weight"])
    assert first.without == pytest.approx(expected)


def test_a_weight_changes_within_no_episode():
    table = {
        "episode": [0, 0],
        "x": [0.0, 1.0],
        "action": [0, 1],
        "reward": [1.0, 2.0],
        "w": [1, 2],
    }
    with pytest.raises(LogError, match="must be the same in all its rows"):
        read_log(table, weight="w", terminated=True)


def test_a_policy_may_take_only_what_is_available(table):
    log = read_log(table, state="x", available="available_*")
    mask = table[["available_a", "available_b", "available_c"]].to_numpy()
    rows = log.table_rows.rows
    law = action_probabilities(for_log("uniform", log), log.states, 3, rows=rows)
    np.testing.assert_allclose(law, mask / mask.sum(axis=1, keepdims=True))
    logged = action_probabilities(for_log("logged", log), log.states, 3, rows=rows)
    assert (logged[~mask] == 0).all()
    assert np.isfinite(evaluate(log, "always:a").value)
    for policy in ("always:b", EpsilonGreedy(lambda s: np.zeros(len(s)), 0.1, n_actions=3)):
        with pytest.raises(
            PolicyError, match=r"takes '[bc]' in row \d+ .*where it was not available"
        ):
            evaluate(log, policy)
    with pytest.raises(MethodError) as error:  # new rows would not say what is available
        learn(log)
    assert error.value.argument == "available"


def test_lists_of_available_actions(table):
    names = [f"available_{label}" for label in "abc"]
    lists = [
        "|".join(label for label, there in zip("abc", row, strict=True) if there)
        for row in table[names].to_numpy()
    ]
    bare = table.drop(columns=names)
    for column in (lists, [each.split("|") for each in lists]):
        log = read_log(bare.assign(options=column), state="x", available="options")
        np.testing.assert_array_equal(log.table_rows.available, table[names].to_numpy())


def test_what_was_taken_was_available(table):
    wrong = table.assign(available_a=False)
    with pytest.raises(LogError, match=r"must have been available\. Got 'a' at row \d+ "):
        read_log(wrong, state="x", available="available_*")
    with pytest.raises(LogError, match="none is named after 'c'"):
        read_log(table, state="x", available=["available_a", "available_b"])
