"""Laws that hold whatever the answer is: units, order, shifts, names and files change nothing else."""

from functools import partial

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tailproof import Discrete, Log, compare, diagnose, evaluate, learn, method
from tailproof.io import read_log

EVALUATORS = [
    *("lstd", "fqe", "mis", "dr", "roam-dm", "roam-variant", "roam-fqe", "roam-mis", "roam-dr"),
    *("ma-dm", "b-roam-dm", "b-roam-mis"),
]
LEARNERS = ["fqi", "room-vm", "p-room-vm", "room-fqi", "p-room-fqi", "pb", "lstd-q"]
GAMMA = 0.8
# The steps of these logs are drawn independently: next states are not those of the next row.
pytestmark = pytest.mark.filterwarnings("ignore:The next state of")


def columns(seed=0, episodes=60, length=6):
    """Return a log as columns, with labels for actions and episodes."""
    rng = np.random.default_rng(seed)
    n = episodes * length
    actions = rng.integers(2, size=n)
    states = rng.standard_normal((n, 2))
    return {
        "episode": [f"e{i}" for i in np.repeat(np.arange(episodes), length)],
        "step": np.tile(np.arange(length), episodes),
        "x_a": states[:, 0],
        "x_b": states[:, 1],
        "next_x_a": 0.5 * states[:, 0] + rng.standard_normal(n),
        "next_x_b": 0.5 * states[:, 1] - actions,
        "action": np.array(["buy", "hold"])[actions],
        "reward": states[:, 0] * actions + rng.standard_t(1.5, size=n),
        "propensity": np.full(n, 0.5),
    }


def log_of(table):
    return read_log(table)


def policy(states):
    return np.where(states[:, 0] > 0, "hold", "buy")


def value(table, name, chosen=policy):
    return evaluate(log_of(table), chosen, method=name, gamma=GAMMA, seed=4).value


def actions_of(table, name):
    """Return the labels of a learned policy's actions in fixed states, named as in the table."""
    log = log_of(table)
    learned = learn(log, method=name, gamma=GAMMA, seed=4)
    grid = np.random.default_rng(9).standard_normal((200, 2))
    at = {"x_a": grid[:, 0], "x_b": grid[:, 1]}
    states = np.column_stack([at[each] for each in log.state_names])
    return [log.action_space.label(int(code)) for code in learned.policy(states)]


def permuted(table, order):
    return {name: np.asarray(values)[order] for name, values in table.items()}


def episodes_shuffled(table):
    ids = np.array([int(each[1:]) for each in table["episode"]])
    order = np.random.default_rng(1).permutation(ids.max() + 1)
    return permuted(table, np.argsort(order[ids], kind="stable"))


def rows_shuffled(table):
    return permuted(table, np.random.default_rng(1).permutation(len(table["reward"])))


def columns_reversed(table):
    return dict(reversed(table.items()))


def relabelled(table):
    """The same actions under names that sort the other way round."""
    names = {"buy": "zz", "hold": "aa"}
    return {**table, "action": np.array([names[each] for each in table["action"]])}


SAME = [episodes_shuffled, rows_shuffled, columns_reversed]


@pytest.mark.parametrize("change", SAME)
@pytest.mark.parametrize("name", EVALUATORS)
def test_the_order_of_rows_and_columns_does_not_matter(change, name):
    table = columns()
    by_name = {"x_a": 0, "x_b": 1}

    def named(states, log):
        at = log.state_names.index("x_a")
        return np.where(states[:, at] > 0, "hold", "buy")

    assert set(by_name) == set(log_of(table).state_names)
    one, other = log_of(table), log_of(change(table))
    pair = [
        evaluate(log, partial(named, log=log), method=name, gamma=GAMMA, seed=4).value
        for log in (one, other)
    ]
    assert pair[0] == pytest.approx(pair[1], rel=1e-8)


@pytest.mark.parametrize("change", SAME)
@pytest.mark.parametrize("name", LEARNERS)
def test_what_is_learned_does_not_depend_on_the_order(change, name):
    assert actions_of(columns(), name) == actions_of(change(columns()), name)


@pytest.mark.parametrize("name", EVALUATORS)
def test_names_of_actions_do_not_matter(name):
    def other(states):
        return np.where(states[:, 0] > 0, "aa", "zz")

    assert value(columns(), name) == pytest.approx(
        value(relabelled(columns()), name, other), rel=1e-8
    )


@pytest.mark.parametrize("name", LEARNERS)
def test_learned_actions_keep_their_names(name):
    names = {"buy": "zz", "hold": "aa"}
    before, after = actions_of(columns(), name), actions_of(relabelled(columns()), name)
    assert [names[each] for each in before] == after


@pytest.mark.parametrize("scale", [4.0, 2.0**-20, 2.0**40])  # powers of two round alike
@pytest.mark.parametrize("name", EVALUATORS)
def test_rewards_in_other_units_give_values_in_other_units(name, scale):
    table = columns()
    other = {**table, "reward": scale * table["reward"]}
    assert value(other, name) == pytest.approx(scale * value(table, name), rel=1e-12)


@pytest.mark.parametrize("scale", [4.0, 2.0**-20, 2.0**40])
@pytest.mark.parametrize("name", LEARNERS)
def test_rewards_in_other_units_teach_the_same_policy(name, scale):
    table = columns()
    assert actions_of(table, name) == actions_of({**table, "reward": scale * table["reward"]}, name)


@pytest.mark.parametrize("name", ["lstd", "mis", "roam-mis", "fqe", "roam-variant"])
def test_a_reward_for_every_step_adds_its_discounted_sum(name):
    """Nothing terminates, so a constant b adds b / (1 − γ), but for what the ridge takes."""
    table = columns()
    shifted = {**table, "reward": table["reward"] + 3.0}
    chosen = method(name, ridge=1e-10)
    assert value(shifted, chosen) == pytest.approx(value(table, chosen) + 3 / (1 - GAMMA), rel=1e-5)


@pytest.mark.parametrize("name", ["lstd", "fqe", "mis", "dr", "roam-dm", "roam-mis"])
def test_states_in_other_units_change_nothing_but_the_ridge(name):
    table = columns()
    other = {**table}
    for each in ("x_a", "next_x_a"):
        other[each] = 8.0 * table[each]
    chosen = method(name, ridge=1e-12)
    assert value(other, chosen) == pytest.approx(value(table, chosen), rel=1e-5)


@pytest.mark.parametrize("lazy", [False, True])
@pytest.mark.parametrize("name", EVALUATORS)
def test_one_file_or_several_are_the_same_log(name, lazy, tmp_path):
    table = pa.table(columns())
    pq.write_table(table, tmp_path / "one.parquet")
    (tmp_path / "many").mkdir()
    for i, first in enumerate(range(0, 360, 50)):  # episodes go on from file to file
        pq.write_table(table.slice(first, 50), tmp_path / "many" / f"{i:02d}.parquet")
    logs = [read_log(tmp_path / each, lazy=lazy) for each in ("one.parquet", "many")]
    pair = [evaluate(each, policy, method=name, gamma=GAMMA, seed=4).value for each in logs]
    assert pair[0] == pytest.approx(pair[1], rel=1e-9)
    assert pair[0] == pytest.approx(value(columns(), name), rel=1e-8)


def one_step(seed=0, n=400):
    table = columns(seed, episodes=n, length=1)
    drop = ("next_x_a", "next_x_b", "episode", "step")
    return {name: values for name, values in table.items() if name not in drop}


@pytest.mark.parametrize("name", ["ips", "snips", "bandit-dm", "bandit-dr"])
def test_laws_of_one_step_logs(name):
    table = one_step()
    base = evaluate(read_log(table), policy, method=name, seed=4).value
    doubled = {**table, "reward": 2 * table["reward"]}
    assert evaluate(read_log(doubled), policy, method=name, seed=4).value == pytest.approx(2 * base)
    backwards = permuted(table, np.arange(400)[::-1])
    if name in ("ips", "snips", "bandit-dm"):  # cross-fitting deals rows by their place
        found = evaluate(read_log(backwards), policy, method=name, seed=4).value
        assert found == pytest.approx(base, rel=1e-9)
    if name == "snips":
        shifted = {**table, "reward": table["reward"] + 7}
        found = evaluate(read_log(shifted), policy, method=name).value
        assert found == pytest.approx(base + 7, rel=1e-9)


def everyone(table):
    log = read_log(table)
    chosen = {
        "split": policy,
        "buy": lambda s: ["buy"] * len(s),
        "hold": lambda s: ["hold"] * len(s),
    }
    return compare(log, chosen, gamma=GAMMA, method="roam-dm", seed=4)


def test_comparisons_scale_and_do_not_depend_on_order():
    table = columns(episodes=120)
    base = everyone(table)
    scaled = everyone({**table, "reward": 4.0 * table["reward"]})
    turned = everyone(episodes_shuffled(table))
    names = [each.name for each in base.candidates]
    assert names == [each.name for each in scaled.candidates]
    assert names == [each.name for each in turned.candidates]
    assert base.probability_best == scaled.probability_best == turned.probability_best
    for one, other, third in zip(
        base.candidates, scaled.candidates, turned.candidates, strict=True
    ):
        assert other.gain.lower_bound.value == pytest.approx(
            4 * one.gain.lower_bound.value, rel=1e-9
        )
        assert third.gain.lower_bound.value == pytest.approx(one.gain.lower_bound.value, rel=1e-7)


def test_diagnoses_do_not_depend_on_units():
    table = columns(episodes=120)
    log, other = (read_log({**table, "reward": c * table["reward"]}) for c in (1.0, 2.0**30))
    one, two = (diagnose(each, policy, gamma=GAMMA) for each in (log, other))
    assert one.tails["rewards"].right.alpha == pytest.approx(two.tails["rewards"].right.alpha)
    assert one.verdict.method == two.verdict.method
    ones, twos = one.influence.units, two.influence.units
    assert ones
    assert [each.label for each in ones] == [each.label for each in twos]


@pytest.mark.parametrize("kind", ["f4", "f8"])
@pytest.mark.parametrize("steps", ["u1", "i8", "f8"])
@pytest.mark.parametrize("flag", [bool, "u1", "f8"])
def test_types_of_columns_do_not_matter(kind, steps, flag, tmp_path):
    table = columns()
    table |= {
        name: np.round(table[name], 1).astype("f4").astype("f8")
        for name in ("x_a", "x_b", "reward")
    }
    table["terminated"] = table["step"] == 5
    drop = ("next_x_a", "next_x_b")
    table = {name: values for name, values in table.items() if name not in drop}
    base = evaluate(read_log(table), policy, method="mis", gamma=0.0).value
    other = {
        **table,
        "step": table["step"].astype(steps),
        "terminated": table["terminated"].astype(flag),
    }
    other |= {name: table[name].astype(kind) for name in ("x_a", "x_b", "reward")}
    pq.write_table(pa.table(other), tmp_path / "t.parquet")
    for lazy in (False, True):
        found = evaluate(
            read_log(tmp_path / "t.parquet", lazy=lazy), policy, method="mis", gamma=0.0
        ).value
        assert found == pytest.approx(base, rel=1e-9)


def test_an_action_that_is_never_taken_changes_nothing():
    table = columns()
    log = read_log(table)
    wider = Log.from_arrays(
        log.states,
        log.actions,
        log.rewards,
        log.next_states,
        episode=log.episode_ids[log.episode_of_row],
        action_space=Discrete(3, (*log.action_space.labels, "never")),
        state_names=log.state_names,
    )
    for name in ("lstd", "mis", "roam-dm"):
        pair = [
            evaluate(each, policy, method=name, gamma=GAMMA, seed=4).value for each in (log, wider)
        ]
        assert pair[0] == pytest.approx(pair[1], rel=1e-8)
