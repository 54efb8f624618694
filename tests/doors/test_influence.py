"""What decides a number: the effect of leaving a unit out, exact for a mean."""

import numpy as np
import pytest

from tailproof import Log, diagnose, evaluate
from tailproof.doors.decisive import decisive_units, influence_on, influence_on_gain
from tailproof.doors.diagnose import resolve
from tailproof.errors import MethodError, TailproofError
from tailproof.log.log import discounted_returns


def without(log: Log, episodes) -> Log:
    return log.take(np.setdiff1d(np.arange(log.n_episodes), episodes))


def random_log(seed: int, *, episodes: int = 12, **options) -> Log:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, 12, size=episodes)
    n = int(lengths.sum())
    return Log.from_arrays(
        rng.normal(size=(n, 2)),
        rng.integers(2, size=n),
        rng.standard_t(2, size=n),
        rng.normal(size=(n, 2)),
        episode=np.repeat(np.arange(episodes), lengths),
        **options,
    )


def test_without_an_answer_the_mean_return_is_taken_apart_exactly():
    log = random_log(5)
    returns = discounted_returns(log, 0.9)
    found = influence_on(None, log, gamma=0.9, top=3)
    assert (found.of, found.value) == ("average", pytest.approx(returns.mean()))
    order = np.argsort(-np.abs(returns - returns.mean()))[:3]
    assert [each.label for each in found.units] == [str(each) for each in order]
    for each, episode in zip(found.units, order, strict=True):
        assert each.without == pytest.approx(np.delete(returns, episode).mean())
        assert each.effect == pytest.approx(returns.mean() - each.without)
    assert found.value_without_all == pytest.approx(np.delete(returns, order).mean())
    sizes = np.abs(returns - returns.mean())
    assert found.share == pytest.approx(sizes[order].sum() / sizes.sum())


def test_copies_that_weights_made_are_left_out_together():
    """An episode of weight 3 counts three times, and goes three times."""
    log = random_log(6, episodes=6)
    copied = log.take(np.array([0, 0, 0, 1, 2, 3, 4, 5]))
    returns = discounted_returns(log, 1.0)
    found = influence_on(None, copied, gamma=1.0)
    first = next(each for each in found.units if each.label == "0")
    assert first.without == pytest.approx(returns[1:].mean())
    assert first.reward == pytest.approx(returns[0])
    assert len(found.units) == 6


def test_one_episode_has_no_rivals():
    log = random_log(8, episodes=1)
    found = diagnose(log).influence
    assert found.units == ()
    assert found.value == pytest.approx(log.rewards.sum())
    assert found.share == 0


def test_equal_returns_have_no_influence():
    log = random_log(9).with_rewards(np.zeros(random_log(9).n_transitions))
    assert diagnose(log).influence.units == ()


def test_of_an_answer_it_is_that_on_the_gain(cartpole):
    log = cartpole.log(episodes=30, steps=10, seed=1)
    estimate = evaluate(log, cartpole.target(), gamma=0.9)
    found = influence_on(estimate, log, gamma=0.9)
    assert found == influence_on_gain(estimate)
    assert (found.of, found.value) == ("difference from what was logged", estimate.gain.value)
    assert found.units == decisive_units(estimate)
    assert found.units == diagnose(log, cartpole.target(), gamma=0.9).influence.units
    effects = estimate.choice.gain_influence / (len(estimate.choice.gain_influence) - 1)
    assert abs(found.units[0].effect) == pytest.approx(np.abs(effects).max())


@pytest.mark.filterwarnings("ignore::tailproof.errors.TailproofWarning")
def test_a_void_answer_decides_nothing():
    """Half of what the policy does was never logged: only the log's own average is shown."""
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(2000, 1)), rng.integers(2, size=2000)
    log = Log.from_arrays(
        states, actions, rng.normal(size=2000), states, episode=range(2000), action_space=3
    )
    found = diagnose(log, lambda s: np.where(s[:, 0] > 0, 2, 0)).influence
    assert found.of == "average"
    assert found.value == pytest.approx(log.rewards.mean())


def test_results_become_json_and_frames():
    found = influence_on(None, random_log(9), gamma=1.0, top=3)
    assert list(found.to_frame()["name"]) == [each.name for each in found.units]
    assert found.to_dict()["units"][0]["effect"] == found.units[0].effect


def test_bad_input_is_named():
    log = random_log(10)
    with pytest.raises(TailproofError) as refused:
        resolve(log, None, gamma=1.5, method=None)
    assert refused.value.argument == "gamma"
    with pytest.raises(TailproofError, match="gamma, the discount, must be given"):
        resolve(log, "always:1", gamma=None, method=None)
    with pytest.raises(MethodError, match=r"method must be a name or a Method. Got 7"):
        resolve(log, None, gamma=None, method=7)
