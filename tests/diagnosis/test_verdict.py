import numpy as np
import pytest

from tailproof import Log, diagnose, evaluate
from tailproof.diagnosis.verdict import decide
from tailproof.judgement.shape import reward_shape
from tailproof.noise import Pareto, StudentT


@pytest.fixture(scope="module")
def heavy_shape(cartpole):
    log = cartpole.log(episodes=20, noise=StudentT(df=1.3), seed=1)
    return log, reward_shape(log), diagnose(log).influence


def improvements(heavy_shape, heaviest):
    log, shape, influence = heavy_shape
    return decide(
        log, shape, None, settings={}, overlap=None, influence=influence, heaviest=heaviest
    ).improvements


def test_an_index_just_above_one_is_said_without_overflow(heavy_shape):
    """2^(α / (α − 1)) is beyond all floats at α = 1.0005."""
    for index in (1.0005, 1 + 1e-12):
        assert any("more than a thousand times" in each for each in improvements(heavy_shape, index))


def test_an_index_just_below_two_is_no_reason_to_complain(heavy_shape):
    """At α = 1.99 half the error takes 4 times the log, as it does with light tails."""
    assert not any("half its error" in each for each in improvements(heavy_shape, 1.99))
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


def test_the_summary_names_what_evaluate_takes(cartpole):
    log = cartpole.log(episodes=30, noise=Pareto(1.5), seed=2)
    verdict = diagnose(log, cartpole.target(), gamma=0.99).verdict
    assert verdict.summary.startswith(
        "Rewards have heavy, skewed tails: use the default method, which"
    )
    assert f"takes the {verdict.estimator} over {verdict.units:,} steps" in verdict.summary
