"""Parts of a log on which rungs are fitted again, and rungs that explode."""

from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from tailproof import Always, Log, evaluate
from tailproof.critics.task import Target, Task
from tailproof.estimators.ladder import Groups, Map, System, _mixed, _pull, _stable, fit_rung
from tailproof.features.ladder import basis_for
from tailproof.policies.binding import for_log


def groups(count=20, each=3):
    of_first = np.tile(np.arange(count), each)
    return Groups(count, of_first, of_first)


def test_parts_are_all_groups_but_one_and_then_halves():
    found = groups()
    assert found.parts.shape == (26, 20)
    assert (found.parts[:20].sum(axis=1) == 19).all()
    assert (found.parts[20:].sum(axis=1) == 10).all()
    assert (found.parts[20::2] + found.parts[21::2] == 1).all()
    assert len(groups(count=5).parts) == 5  # too few to be halved


def test_a_mean_is_not_pulled_and_a_biased_statistic_is(rng):
    found, values = groups(), rng.normal(size=60)
    halves = found.means(values)[20:]
    assert _pull(values.mean(), halves) == pytest.approx(0.0, abs=1e-12)
    assert _pull(values.mean() + 1 / 60, halves + 1 / 30) == pytest.approx(-1 / 60)


def rung(value, error, rng):
    """A rung with a jackknife error of this size."""
    noise = rng.normal(size=20)
    noise = (noise - noise.mean()) / noise.std()
    left_out = value + error * noise / np.sqrt(19)
    return SimpleNamespace(
        value=value, error=error, left_out=left_out, halves=np.full(6, value),
        refitted=np.concatenate([left_out, np.full(6, value)]),
        system=SimpleNamespace(groups=groups()),
    )  # fmt: skip


def test_rungs_that_explode_are_neither_averaged_nor_widen_by_their_distance(rng):
    calm = tuple(rung(value, 1.0, rng) for value in (10.0, 10.5, 11.0))
    wild = tuple(rung(value, 500.0, rng) for value in (200.0, -300.0))
    kept, dropped = _stable((*calm, *wild))
    assert (kept, dropped) == (calm, wild)
    blend = _mixed(None, (*calm, *wild), calm[1], None, None)
    assert blend.rungs == calm
    assert blend.shares == pytest.approx(1 / 3)
    alone = _mixed(None, calm, calm[1], None, None)
    # their choice was uncertain: one more standard error, and not hundreds
    assert blend.allowance == pytest.approx(alone.allowance + blend.error)


def test_critics_that_see_the_past_and_explode_are_held_by_those_that_do_not(rng):
    calm = tuple(rung(value, 2.9, rng) for value in (10.0, 10.0, 10.0))
    wild = tuple(rung(value, 100.0, rng) for value in (90.0, 90.0, 90.0))
    steady = rung(10.0, 1.0, rng)
    sure = _mixed(None, calm[:1], calm[0], None, None)
    assert sure.steadied(steady) is sure  # up to three times the error is the price of knowing more
    blend = _mixed(None, wild[:1], wild[0], None, None)
    held = blend.steadied(steady)
    excess = blend.error**2 - 9 * steady.error**2
    share = excess / (excess + 80.0**2)
    assert held.shares == pytest.approx([1 - share, share])
    assert held.value == pytest.approx(90.0 - 80.0 * share)
    assert held.error < blend.error
    assert held.allowance == pytest.approx(blend.allowance + 80.0 * share)


def accounts(seed):
    """Accounts of any age whose price creeps up, cut off after some months or closed."""
    rng, rows = np.random.default_rng(seed), []
    for episode, length in enumerate(rng.integers(10, 37, 350)):
        age, price = float(rng.integers(0, 24)), rng.uniform(0.8, 1.2)
        for month in range(length):
            raised, closed = int(rng.random() < 0.35), rng.random() < 0.025
            after = price + (0.06 if raised else -0.02)
            reward = 3 * after * (1 + rng.pareto(2.2))
            state, later = (age + month, price), (age + month + 1, after)
            rows.append((state, raised, reward, later, episode, closed))
            price = after
            if closed:
                break
    states, actions, rewards, later, episodes, closed = zip(*rows, strict=True)
    return Log.from_arrays(states, actions, rewards, later, episode=episodes, terminated=closed)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [2, 3])
def test_what_was_logged_keeps_its_value_where_states_only_grow(seed):
    lasts = 0.97 * 0.975  # discount times survival; mean prices grow by 0.008 a month
    truth = 3 * 2.2 / 1.2 * (1.008 / (1 - lasts) + 0.008 * lasts / (1 - lasts) ** 2)
    answer = evaluate(
        accounts(seed), lambda states: np.full((len(states), 2), [0.6, 0.4]), gamma=0.97
    )
    assert answer.logged_value == pytest.approx(
        truth, rel=0.15
    )  # splines alone: 223 and 176 for 116


def test_features_kept_as_sparse_give_the_same_equations(rng, monkeypatch):
    n, actions = 600, 40
    states, ahead = rng.normal(size=(n, 2)), rng.normal(size=(n, 2))
    taken, rewards = rng.integers(actions, size=n), rng.standard_t(3, n)
    log = Log.from_arrays(states, taken, rewards, ahead, episode=np.repeat(range(60), 10))
    task = Task(log, 0.9, for_log(Always(3), log), log.first_states)
    target = Target.of(task)
    system = System(Map(basis_for(log)), target, Groups.split(target), np.linspace(0.5, 1.5, n))
    found = []
    for share in (0.0, 1.1):
        monkeypatch.setattr("tailproof.estimators.ladder._SPARSE", share)
        rung = fit_rung("", replace(system), rewards)
        found.append(
            np.concatenate(
                [[rung.value], rung.refitted, rung.weights, *rung.influences(rewards)[1:]]
            )
        )
    np.testing.assert_allclose(*found, rtol=1e-9, atol=1e-12)
