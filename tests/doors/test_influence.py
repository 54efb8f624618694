import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import IPS, Absolute, Joint, Log, evaluate, method
from tailproof.doors.diagnose import most_influential, reference, resolve
from tailproof.errors import MethodError, TailproofError
from tailproof.log.log import discounted_returns
from tailproof.noise import StudentT
from tailproof.worlds import CartPole

FEW = {"top": 3, "folds": 4}


def influence(log, policy=None, *, gamma=None, method=None, top=10, folds=10, seed=0):
    """Return what `diagnose` says of the most influential episodes."""
    discount, chosen = resolve(log, policy, gamma=gamma, method=method)
    estimate = reference(log, policy, gamma=discount, method=chosen, seed=seed)
    return most_influential(estimate, top=top, folds=min(folds, log.n_groups), seed=seed)


def without(log: Log, episode: int) -> Log:
    return log.take(np.delete(np.arange(log.n_episodes), episode))


def random_log(seed: int, *, episodes: int = 12, terminating: bool = False) -> Log:
    rng = np.random.default_rng(seed)
    lengths = rng.integers(4, 12, size=episodes)
    n = int(lengths.sum())
    terminated = np.zeros(n, dtype=bool)
    if terminating:
        terminated[np.cumsum(lengths) - 1] = True
    return Log.from_arrays(
        rng.normal(size=(n, 2)),
        rng.integers(2, size=n),
        rng.standard_t(2, size=n),
        rng.normal(size=(n, 2)),
        episode=np.repeat(np.arange(episodes), lengths),
        terminated=terminated,
    )


def to_the_right(states: np.ndarray) -> np.ndarray:
    return (states[:, 0] > 0).astype(int)


@pytest.mark.slow
@given(st.integers(0, 30), st.booleans())
def test_each_effect_is_that_of_refitting_without_the_episode(seed: int, terminating: bool):
    log = random_log(seed, terminating=terminating)
    settings = {"gamma": 0.8, "method": method("lstd", ridge=1e-3)}
    found = influence(log, to_the_right, **settings, **FEW)
    whole = evaluate(log, to_the_right, **settings).value
    assert found.value == pytest.approx(whole)
    for each in found.episodes:
        refitted = evaluate(without(log, each.episode), to_the_right, **settings).value
        assert each.value_without == pytest.approx(refitted, rel=1e-6)
        assert each.effect == pytest.approx(whole - refitted, rel=1e-6, abs=1e-9)


def test_an_absolute_ridge_stays_when_an_episode_goes():
    log = random_log(1)
    settings = {"gamma": 0.8, "method": method("lstd", ridge=Absolute(2.0))}
    worst = influence(log, to_the_right, **settings, **FEW).episodes[0]
    refitted = evaluate(without(log, worst.episode), to_the_right, **settings).value
    assert worst.value_without == pytest.approx(refitted)


def test_no_episode_outside_the_list_moves_the_estimate_more():
    log = random_log(3, episodes=80)
    settings = {"gamma": 0.5, "method": method("lstd", ridge=1e-3)}
    found = influence(log, to_the_right, top=5, folds=4, **settings)
    effects = [
        found.value - evaluate(without(log, e), to_the_right, **settings).value for e in range(80)
    ]
    expected = np.argsort(-np.abs(effects))[:5]
    assert [each.episode for each in found.episodes] == expected.tolist()


def test_a_planted_outlier_is_the_most_influential_and_hardly_moves_the_median():
    world = CartPole()
    log = world.log(episodes=60, seed=2)
    rewards = log.rewards.copy()
    rewards[log.starts[17] + 5] += 5000.0
    spoilt = log.with_rewards(rewards)
    found = influence(spoilt, world.target(), gamma=0.99, folds=6)
    first, second = found.episodes[:2]
    assert first.episode == 17
    clean = evaluate(without(log, 17), world.target(), gamma=0.99, method="lstd").value
    assert first.value_without == pytest.approx(clean)
    assert abs(first.effect) > 10 * abs(second.effect)
    assert abs(first.median_effect) < abs(first.effect) / 10
    assert found.share > 0.5


def test_leaving_all_of_them_out_is_a_refit_too():
    log = random_log(4, episodes=30)
    settings = {"gamma": 0.8, "method": method("lstd", ridge=1e-3)}
    found = influence(log, to_the_right, **settings, **FEW)
    kept = np.setdiff1d(np.arange(30), [each.episode for each in found.episodes])
    refitted = evaluate(log.take(kept), to_the_right, **settings).value
    assert found.value_without_all == pytest.approx(refitted)


def test_continuous_actions_have_influence_too():
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(400, 2)), rng.normal(size=(400, 1))
    rewards = -((actions[:, 0] - states[:, 0]) ** 2) + rng.normal(size=400)
    rewards[123] = 500.0
    log = Log.from_arrays(
        states, actions, rewards, rng.normal(size=(400, 2)), episode=np.repeat(np.arange(40), 10)
    )
    settings = {"gamma": 0.5, "method": method("lstd", features=Joint(2, 1))}
    worst = influence(log, lambda s: s[:, :1], **settings).episodes[0]
    assert worst.episode == 12
    refitted = evaluate(without(log, 12), lambda s: s[:, :1], **settings).value
    assert worst.value_without == pytest.approx(refitted)


def test_bandits_with_propensities_are_taken_apart_as_inverse_propensity_scoring():
    rng = np.random.default_rng(1)
    states, actions = rng.normal(size=(200, 1)), rng.integers(2, size=200)
    log = Log.from_arrays(
        states,
        actions,
        rng.standard_t(1.5, 200),
        states,
        episode=range(200),
        propensity=[0.5] * 200,
    )
    found = influence(log, to_the_right)
    assert found.estimator == "inverse propensity scoring"
    assert found.value == pytest.approx(evaluate(log, to_the_right, method="ips").value)
    worst = found.episodes[0]
    rest = evaluate(without(log, worst.episode), to_the_right, method="ips").value
    assert worst.value_without == pytest.approx(rest)
    direct = influence(log, to_the_right, method="lstd")
    assert direct.estimator == "LSTD"
    assert influence(log, to_the_right, method=method("ips")).value == found.value
    assert isinstance(method("ips").base, IPS)


def test_without_a_policy_the_mean_return_is_taken_apart():
    log = random_log(5)
    returns = discounted_returns(log, 0.9)
    found = influence(log, gamma=0.9, **FEW)
    assert found.value == pytest.approx(returns.mean())
    worst = found.episodes[0]
    assert worst.episode == np.abs(returns - returns.mean()).argmax()
    assert worst.value_without == pytest.approx(np.delete(returns, worst.episode).mean())
    assert found.standard_error == pytest.approx(returns.std() / np.sqrt(12) * 12 / 11)


def test_first_order_effects_tend_to_the_exact_ones():
    log = random_log(6, episodes=400)
    estimate = reference(log, to_the_right, gamma=0.5)
    some = np.arange(0, 400, 40)
    exact = estimate.value - estimate.without(some)
    assert np.allclose(estimate.effects[some], exact, rtol=0.05, atol=1e-4)


def test_fold_values_are_those_of_the_folds(cartpole: CartPole):
    log = cartpole.log(episodes=30, noise=StudentT(df=2.5), seed=1)
    estimate = reference(log, cartpole.target(), gamma=0.99)
    fold = estimate.block_of_episode % 3
    for k, value in enumerate(estimate.fold_values(3)):
        own = log.take(np.flatnonzero(fold == k))
        refitted = evaluate(
            own,
            cartpole.target(),
            gamma=0.99,
            method="lstd",
            initial_states=log.first_states,
        ).value
        assert value == pytest.approx(refitted, rel=1e-6)


def test_groups_stay_in_one_block():
    log = random_log(7, episodes=30)
    grouped = log.with_groups((log.episode_of_row // 3).astype(str))
    blocks = reference(grouped, None, gamma=1.0).block_of_episode
    assert (blocks.reshape(10, 3) == blocks[::3, None]).all()
    assert influence(grouped, **FEW).episodes[0].group is not None


def test_one_episode_has_no_rivals():
    log = random_log(8, episodes=1)
    found = influence(log)
    assert found.episodes == ()
    assert found.value == pytest.approx(log.rewards.sum())


def test_results_become_text_json_and_frames():
    found = influence(random_log(9), to_the_right, gamma=0.8, **FEW)
    assert list(found.to_frame()["episode"]) == [each.episode for each in found.episodes]
    assert found.to_dict()["episodes"][0]["effect"] == found.episodes[0].effect
    assert f"{found.episodes[0].episode}  moves the estimate by" in str(found)


def test_bad_input_is_named():
    log = random_log(10)
    with pytest.raises(TailproofError) as refused:
        influence(log, gamma=1.5)
    assert refused.value.argument == "gamma"
    with pytest.raises(TailproofError, match="gamma, the discount, must be given"):
        influence(log, to_the_right)
    with pytest.raises(MethodError, match=r"method must be a name or a Method. Got 7"):
        influence(log, method=7)
