"""Which rows decide an answer: what leaving one out changes, by its number in the file."""

import numpy as np
import pytest

from tailproof import Log, evaluate
from tailproof.doors.decisive import decisive_units
from tailproof.io import read_log


def bandit(n=400, group=None, seed=0, outlier=90.0):
    rng = np.random.default_rng(seed)
    actions = rng.integers(2, size=n)
    rewards = actions + rng.normal(size=n)
    rewards[7] = outlier
    names = {"episode": np.arange(n), "propensity": np.full(n, 0.5)}
    states = np.zeros(n)
    return Log.from_arrays(states, actions, rewards, states, group=group, **names)


@pytest.mark.parametrize("method", ["snips", "ips"])
def test_the_effect_is_that_of_leaving_the_row_out(method):
    log = bandit(outlier=15.0)
    estimate = evaluate(log, "always:1", method=method)
    first = decisive_units(estimate)[0]
    assert (first.noun, first.row, first.label, first.reward) == ("row", 7, "", 15.0)
    again = evaluate(log.take(np.flatnonzero(np.arange(400) != 7)), "always:1", method=method)
    assert first.without == pytest.approx(again.gain.value, abs=0.05 * abs(first.effect))
    assert first.effect + first.without == pytest.approx(estimate.gain.value)


def test_of_the_default_it_is_nearly_so():
    """The point is not the mean of the scores: the sizes of extremes are pooled."""
    rng = np.random.default_rng(2)
    n = 2000
    actions = rng.integers(2, size=n)
    bought = rng.random(n) < 0.2 + 0.1 * actions
    rewards = np.where(bought, 30 * (1 + rng.pareto(1.6, n)), 0.0)
    names = {"episode": np.arange(n), "propensity": np.full(n, 0.5)}
    log = Log.from_arrays(np.zeros(n), actions, rewards, np.zeros(n), **names)
    estimate = evaluate(log, "always:1")
    first = decisive_units(estimate)[0]
    again = evaluate(log.take(np.flatnonzero(np.arange(n) != first.row)), "always:1")
    assert 0.5 < first.effect / (estimate.gain.value - again.gain.value) < 2


def test_units_are_groups_where_rows_belong_together():
    group = np.arange(400) // 4
    units = decisive_units(evaluate(bandit(group=group), "always:1", method="snips"))
    assert (units[0].noun, units[0].label, units[0].row) == ("group", "1", None)
    sizes = [abs(each.effect) for each in units]
    assert sizes == sorted(sizes, reverse=True)
    assert len(units) == 10


def test_units_are_episodes_of_several_steps(cartpole):
    log = cartpole.log(episodes=30, steps=10, seed=1)
    units = decisive_units(evaluate(log, cartpole.target(), gamma=0.9), top=3)
    assert {each.noun for each in units} == {"episode"}
    for each in units:
        own = log.episode_ids[log.episode_of_row] == int(each.label)
        assert each.reward == pytest.approx(log.rewards[own].sum())


@pytest.mark.filterwarnings("ignore::tailproof.errors.TailproofWarning")
def test_a_row_has_its_number_in_the_file_whatever_was_left_out(tmp_path):
    log = bandit()
    lines = ["customer,offer,propensity,spend"]
    for i, (action, reward) in enumerate(zip(log.actions, log.rewards, strict=True)):
        spend = "" if i < 5 else f"{reward:.3f}"  # these rows are left out
        lines.append(f"c{i},{action},0.5,{spend}")
    (tmp_path / "log.csv").write_text("\n".join(lines))
    columns = {"action": "offer", "reward": "spend", "missing": "drop-episode"}
    for episode, label in ((False, ""), ("customer", "c7")):
        read = read_log(tmp_path / "log.csv", episode=episode, **columns)
        assert read.n_transitions == 395
        first = decisive_units(evaluate(read, "always:1", method="snips"))[0]
        assert (first.row, first.label, first.reward) == (7, label, 90.0)


def test_methods_without_scores_and_results_without_a_log_have_none(cartpole):
    import pickle

    log = cartpole.log(episodes=40, steps=10, seed=1)
    assert decisive_units(evaluate(log, cartpole.target(), method="roam-dm", gamma=0.9)) == ()
    stored = pickle.loads(pickle.dumps(evaluate(log, cartpole.target(), gamma=0.9)))
    assert decisive_units(stored) == ()


def test_a_row_that_is_all_of_its_group_has_the_group_as_its_id():
    group = np.array([f"K{i}" for i in range(400)])
    first = decisive_units(evaluate(bandit(group=group), "always:1", method="snips"))[0]
    assert (first.noun, first.label, first.row) == ("row", "K7", 7)
