import numpy as np
import pytest

from tailproof import Log, diagnose, evaluate
from tailproof.doors.diagnose import decide
from tailproof.noise import Pareto, StudentT
from tailproof.profile.profile import LogProfile


@pytest.fixture(scope="module")
def heavy_shape(cartpole):
    log = cartpole.log(episodes=20, noise=StudentT(df=1.3), seed=1)
    return log, LogProfile(log).reward_shape, diagnose(log).influence


def improvements(heavy_shape, heaviest):
    log, shape, influence = heavy_shape
    return decide(
        log, shape, None, settings={}, overlap=None, influence=influence, heaviest=heaviest
    ).improvements


def test_an_index_just_above_one_is_said_without_overflow(heavy_shape):
    """2^(α / (α − 1)) is beyond all floats at α = 1.0005."""
    for index in (1.0005, 1 + 1e-12):
        assert any(
            "more than a thousand times" in each for each in improvements(heavy_shape, index)
        )


def test_an_index_just_below_two_is_no_reason_to_complain(heavy_shape):
    """At α = 1.99 half the error takes 4 times the log, as it does with light tails."""
    assert not any("to halve its error" in each for each in improvements(heavy_shape, 1.99))
    assert any("takes 8 times" in each for each in improvements(heavy_shape, 1.5))


def test_blocks_of_episodes_are_counted_in_plain_words():
    rng = np.random.default_rng(3)
    storms = np.repeat(rng.standard_t(1.2, 100) * (rng.random(100) < 0.1) * 50, 10)
    rewards = rng.normal(size=3000) + np.repeat(storms, 3)
    states = rng.normal(size=(3000, 1))
    log = Log.from_arrays(
        states, rng.integers(2, size=3000), rewards, states, episode=np.arange(3000) // 3
    )
    choice = evaluate(log, lambda s: np.ones(len(s), dtype=int), gamma=0.5).choice
    assert choice.unit == "block"
    said = " ".join(choice.reasons)
    assert f"{choice.units} blocks of neighbouring episodes" in said
    assert "episodess" not in said


def test_the_summary_says_what_to_do_and_the_reasons_what_evaluate_takes(cartpole):
    log = cartpole.log(episodes=30, noise=Pareto(1.5), seed=2)
    verdict = diagnose(log, cartpole.target(), gamma=0.99).verdict
    assert verdict.summary.startswith("Rewards have heavy, skewed tails: use the default method")
    assert any(verdict.estimator in each for each in verdict.reasons)


def test_a_week_of_influential_neighbours_asks_for_groups():
    rng = np.random.default_rng(1)
    day, storm = np.repeat(np.arange(200), 4), np.repeat(np.arange(200) // 7 == 9, 4)
    rewards = rng.normal(size=800) * np.where(storm, 500.0, 1.0)
    states, actions = rng.normal(size=800), rng.integers(2, size=800)

    def wishes(log):
        return " ".join(diagnose(log, gamma=0.9).verdict.improvements)

    def made(rewards):
        return Log.from_arrays(states, actions, rewards, states, episode=day)

    log = made(rewards)
    assert "Episodes 63 to 69 follow each other" in wishes(log)
    assert "--group" in wishes(log)
    assert "follow each other" not in wishes(log.with_groups(day // 7))
    assert "follow each other" not in wishes(made(rng.normal(size=800)))


def test_jackpots_are_not_said_to_be_most_rewards():
    rng = np.random.default_rng(1)
    rewards = np.where(rng.random(2000) < 0.5, 0.0, rng.normal(size=2000))
    rewards[:6] = 1e5
    row = np.arange(2000.0)
    log = Log.from_arrays(0 * row, row % 2 == 0, rewards, 0 * row, episode=row)
    said = diagnose(log).verdict.summary
    assert said.startswith("A few rewards lie far beyond all others: ")
    rare = Log.from_arrays(0 * row, row % 2 == 0, 1.0 * (row % 50 == 0), 0 * row, episode=row)
    assert diagnose(rare).verdict.summary.startswith("Most rows have the same reward, ")


@pytest.mark.slow
def test_a_one_step_log_has_one_discount_and_its_rows_are_rows():
    rng = np.random.default_rng(1)
    rewards, row = rng.standard_t(1.5, 500), np.arange(500)
    states, actions = rng.normal(size=500), rng.integers(2, size=500)
    log = Log.from_arrays(states, actions, rewards, states, episode=row, terminated=row >= 0)
    found = {diagnose(log).gamma, diagnose(log, "always:1").gamma}
    found |= {evaluate(log, "always:1", gamma=gamma).gamma for gamma in (None, 0.0, 0.9)}
    assert found == {0.0}
    assert str(evaluate(log, "always:1", gamma=0.9).unit) == "reward per row"
    assert "episode" not in " ".join(diagnose(log).verdict.improvements)
