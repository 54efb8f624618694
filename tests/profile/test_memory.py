"""Hidden state is found where it matters and not elsewhere, and the default's critics see the past."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tailproof import Log, LogProfile, diagnose, evaluate
from tailproof.errors import StateWarning
from tailproof.log.columns import CriticColumns
from tailproof.policies.forms import Always
from tailproof.profile import memory, profile
from tailproof.profile.memory import comes_last, find_memory
from tailproof.worlds import CartPole


def log_of(rows, *, logged: bool) -> Log:
    """Return steps (x, level, action, reward, next x, next level) of all episodes as a log."""
    now, before, actions, rewards, later, after = (
        np.stack(each, axis=1).ravel() for each in zip(*rows, strict=True)
    )
    states, following = ([now, before], [later, after]) if logged else ([now], [later])
    return Log.from_arrays(
        np.column_stack(states), actions, rewards, np.column_stack(following),
        episode=np.repeat(range(len(rows[0][0])), len(rows)),
    )  # fmt: skip


def tired(rng, *, logged: bool, episodes: int = 150, steps: int = 20) -> Log:
    """Offers (action 1) pay 2 − 2.5·tiredness; tiredness ← 0.8·tiredness + 0.2·offer."""
    x = rng.normal(size=(steps + 1, episodes))
    level, rows = np.zeros(episodes), []
    for step in range(steps):
        offered = (rng.random(episodes) < 0.4).astype(int)
        reward = x[step] + offered * 2 - 2.5 * level + rng.standard_t(2.5, size=episodes)
        after = 0.8 * level + 0.2 * offered
        rows.append((x[step], level, offered, reward, x[step + 1], after))
        level = after
    return log_of(rows, logged=logged)


def worn(rng, *, logged: bool, episodes: int = 150, steps: int = 40) -> Log:
    """Use (action 0) wears, service (1) mends; a worn machine seldom fails, which costs 30."""
    load = rng.random(size=(steps + 1, episodes))
    wear, rows = np.zeros(episodes), []
    for step in range(steps):
        serviced = (rng.random(episodes) < 0.25).astype(int)
        failed = rng.random(episodes) < 0.06 * (wear > 4) * (serviced == 0)
        reward = load[step] - serviced - 30 * failed + rng.normal(size=episodes)
        after = np.where(serviced == 1, 0.0, wear + 1)
        rows.append((load[step], wear, serviced, reward, load[step + 1], after))
        wear = after
    return log_of(rows, logged=logged)


@pytest.mark.parametrize("seed", range(3))
def test_rare_failures_that_depend_on_hidden_wear_are_found(seed):
    found = find_memory(worn(np.random.default_rng(seed), logged=False))
    assert found is not None
    assert found.of == "extreme rewards"
    assert not beyond_doubt(worn(np.random.default_rng(seed), logged=True))


def beyond_doubt(log: Log) -> bool:
    """Whether hidden state is found without a doubt."""
    found = find_memory(log)
    return found is not None and found.certain


class Often:
    """Offers in 60 % of all states."""

    def probabilities(self, states):
        return np.tile([0.4, 0.6], (len(states), 1))


def truth(gamma: float) -> float:
    """The value of `Often`."""
    steps = np.arange(2_000)
    return float((0.6 * (2 - 2.5 * (1 - 0.8**steps)) * gamma**steps).sum())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_earlier_actions_are_found_and_named_and_mend_the_value(seed):
    log = tired(np.random.default_rng(seed), logged=False)
    found = find_memory(log)
    assert found is not None
    assert "actions" in found.columns.past
    with pytest.warns(StateWarning):
        estimate = evaluate(log, Often(), gamma=0.9)
    assert [each.code for each in estimate.cautions] == ["hidden_state"]
    assert not estimate.cautions[0].voids
    interval = estimate.interval(0.9)
    assert interval.low <= truth(0.9) <= interval.high
    blind = evaluate(log, Often(), gamma=0.9, method="lstd")
    assert abs(estimate.value - truth(0.9)) < 0.5 * abs(blind.value - truth(0.9))


def test_critics_see_no_more_of_the_past_than_they_need(rng):
    """Offers alone tire: earlier actions, which a policy changes, and little else are averaged."""
    found = find_memory(tired(rng, logged=False, episodes=300))
    assert found is not None
    assert found.columns.past[0] == "actions"
    assert len(found.columns.past) < 3


@pytest.mark.parametrize("seed", range(3))
def test_a_state_that_tells_all_needs_no_past(seed):
    assert not beyond_doubt(tired(np.random.default_rng(seed), logged=True))


@pytest.mark.parametrize(("episodes", "steps"), [(40, 25), (100, 20), (60, 60)])
def test_a_pole_needs_no_past(episodes, steps):
    assert not beyond_doubt(CartPole().log(episodes=episodes, steps=steps, seed=3))


def test_a_log_without_a_trace_of_memory_grows_no_trees(monkeypatch, rng):
    grown, grow = [], memory.grown
    monkeypatch.setattr(memory, "grown", lambda *args, **kw: grown.append(kw) or grow(*args, **kw))
    x, offered = rng.normal(size=2001), rng.integers(2, size=2000)
    rewards = x[:-1] ** 2 + offered + rng.standard_t(3, size=2000)
    assert (
        find_memory(Log.from_arrays(x[:-1], offered, rewards, x[1:], episode=np.arange(2000) // 20))
        is None
    )
    assert not grown
    assert find_memory(tired(rng, logged=False)) is not None
    assert grown


def test_finer_looks_must_confirm_the_targets_of_the_first(monkeypatch, rng):
    """What is in sight at first alone is asked again, and other targets are not asked at all."""
    asked = []

    def look(log, base, rows, wanted, fit):
        asked.append((wanted, fit is None))
        ratios = {"rewards": 0.9 if fit is None else 0.5, "states": 0.6}
        surprises = [memory._Surprise(ratios[name], 5.0, name) for name in wanted & set(ratios)]
        return SimpleNamespace(surprises=lambda: surprises)

    monkeypatch.setattr(memory._Left, "of", look)
    assert find_memory(tired(rng, logged=True)) is None
    assert asked == [(memory._EVERY, True), ({"rewards"}, False)]


def test_where_hidden_state_is_in_doubt_critics_do_not_see_it_and_the_interval_widens(rng):
    log = tired(rng, logged=False, episodes=60)
    sure, unsure, blind = LogProfile(log), LogProfile(log), LogProfile(log)
    found = find_memory(tired(rng, logged=False))
    assert found is not None
    sure.past, unsure.past, blind.past = found, replace(found, certain=False), None
    with pytest.warns(StateWarning):
        evaluate(sure, Often(), gamma=0.9)
    doubted, certain = (evaluate(each, Often(), gamma=0.9) for each in (unsure, blind))
    assert not doubted.cautions
    assert doubted.value == certain.value
    wide, narrow = (each.interval(0.9) for each in (doubted, certain))
    assert wide.low < narrow.low
    assert wide.high > narrow.high


def test_a_policy_whose_past_was_hardly_ever_logged_has_a_wide_interval(rng):
    """Nobody went without service for long: where critics see earlier services, walks show it."""
    log = worn(rng, logged=False)
    seen, blind = LogProfile(log), LogProfile(log)
    columns = CriticColumns(past=("actions",), decays=(0.8,))
    seen.past, blind.past = memory.Memory(columns, "extreme rewards", 9.0), None
    with pytest.warns(StateWarning):
        estimate = evaluate(seen, Always(0), gamma=0.95)
    assert "in states unlike the logged ones" in estimate.interval(0.9).note
    assert "in states unlike" not in evaluate(blind, Always(0), gamma=0.95).interval(0.9).note
    with pytest.warns(StateWarning):
        usual = evaluate(seen, lambda states: np.full((len(states), 2), [0.75, 0.25]), gamma=0.95)
    assert "in states unlike" not in usual.interval(0.9).note


def test_the_order_of_episodes_columns_and_units_do_not_matter(rng):
    log = tired(rng, logged=False)
    log = Log.from_arrays(
        np.column_stack([log.states, rng.normal(size=log.n_transitions)]), log.actions,
        log.rewards, np.column_stack([log.next_states, rng.normal(size=log.n_transitions)]),
        episode=log.episode_of_row,
    )  # fmt: skip
    some = log.take(np.arange(log.n_episodes)[::-1])
    other = Log.from_arrays(
        8 * some.states[:, ::-1] + 1, some.actions, 4 * some.rewards, 8 * some.next_states[:, ::-1] + 1,
        episode=some.episode_ids[some.episode_of_row],
    )  # fmt: skip
    first, second = find_memory(log), find_memory(other)
    assert first is not None
    assert second is not None
    assert first.columns == second.columns
    np.testing.assert_allclose(first.surprise, second.surprise, rtol=1e-3)


def test_it_is_looked_for_once(monkeypatch, rng):
    looked, look = [], profile.find_memory
    monkeypatch.setattr(
        profile, "find_memory", lambda log, **given: looked.append(log) or look(log, **given)
    )
    shared = LogProfile(tired(rng, logged=True, episodes=40))
    evaluate(shared, Often(), gamma=0.9)
    diagnose(shared, Often(), gamma=0.9)
    part = shared.part(shared.log.take(np.arange(20)))
    assert part.memory is shared.memory
    assert len(looked) == 1


def paid_at_the_end(rng, *, counted: bool, episodes: int = 300, steps: int = 5) -> Log:
    """The last reward is the number of 1s taken so far, times noise; `counted`: the state holds it."""
    actions = rng.integers(2, size=(episodes, steps))
    before = np.cumsum(actions, axis=1) - actions
    x = rng.normal(size=(episodes, steps))
    states = np.stack(
        [x, before if counted else x**2, np.tile(range(steps), (episodes, 1))], axis=2
    )
    rewards = np.zeros((episodes, steps))
    rewards[:, -1] = actions.sum(axis=1) * (1 + rng.pareto(2.5, size=episodes))
    states = states.reshape(-1, 3)
    return Log.from_arrays(
        states, actions.ravel(), rewards.ravel(), np.roll(states, -1, axis=0),
        episode=np.repeat(range(episodes), steps),
        terminated=np.tile(np.arange(steps) == steps - 1, episodes),
    )  # fmt: skip


def test_a_reward_at_the_end_for_what_the_state_forgot_is_pointed_out(rng):
    forgets, counts = (paid_at_the_end(rng, counted=counted) for counted in (False, True))
    assert comes_last(forgets)
    assert not beyond_doubt(counts)
    with pytest.warns(StateWarning):
        estimate = evaluate(forgets, Always(1), gamma=1.0)
    with pytest.warns(StateWarning):
        blind = evaluate(forgets, Always(1), gamma=1.0, method="lstd")
    assert blind.verdict.reasons == ("hidden_state",)
    truth = 5 * (1 + 1 / 1.5)
    for each in (estimate, evaluate(counts, Always(1), gamma=1.0)):
        interval = each.interval(0.99)
        assert interval.low <= truth <= interval.high


@pytest.mark.parametrize("lengths", [(1, 1, 2), (2, 2, 1), (3, 2, 2, 4)])
def test_a_handful_of_episodes_says_nothing_about_what_the_state_forgot(lengths, rng):
    episode = np.repeat(range(len(lengths)), lengths)
    last = np.append(np.diff(episode) > 0, True)
    states = rng.normal(size=(len(episode), 1))
    log = Log.from_arrays(
        states, np.arange(len(episode)) % 2, np.where(last, states[:, 0], 0.0), states,
        episode=episode, terminated=last,
    )  # fmt: skip
    assert not beyond_doubt(log)
