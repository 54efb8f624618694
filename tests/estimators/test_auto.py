import numpy as np
import pytest

from examples.storm import storage
from tailproof import Absolute, Log, Method, Split, evaluate, method
from tailproof.estimators.sequential import Auto
from tailproof.noise import Gamma, Gaussian, Pareto, StudentT
from tailproof.profile.shape import clusters


def run(world, noise, episodes=100, **options):
    log = world.log(episodes=episodes, noise=noise, seed=12)
    return evaluate(log, world.target(), gamma=0.99, **options)


def test_without_noise_it_is_lstd(cartpole):
    log = cartpole.log(episodes=50, seed=1)
    plain = evaluate(log, cartpole.target(), method="lstd", gamma=0.99).value
    assert evaluate(log, cartpole.target(), gamma=0.99).value == pytest.approx(plain, rel=1e-3)


def test_gaussian_noise_gets_the_plain_mean(cartpole):
    estimate = run(cartpole, Gaussian(1.0))
    assert not estimate.choice.skewed
    assert estimate.value == pytest.approx(estimate.choice.alternatives["plain LSTD"], abs=0.2)
    assert estimate.choice.unit == "step"


def test_symmetric_heavy_tails_get_a_robust_mean_and_a_narrow_interval(cartpole):
    estimate = run(cartpole, StudentT(1.1))
    truth = cartpole.truth().value
    assert estimate.choice.estimator == "Huber mean"
    assert abs(estimate.value - truth) < 2
    interval = estimate.interval(0.95)
    assert interval.low < estimate.value < interval.high
    assert interval.high - interval.low < 4
    assert estimate.lower_bound(0.95).value > interval.low
    assert "times as large" in " ".join(estimate.choice.reasons)


def test_skew_is_noticed_and_not_trimmed_away(cartpole):
    for sign in (1, -1):
        estimate = run(cartpole, Gamma(4, sign=sign))
        assert estimate.choice.skewed
        plain = estimate.choice.alternatives["plain LSTD"]
        assert estimate.value == pytest.approx(plain, abs=0.1)
        biased = estimate.choice.alternatives["Huber regression"]
        assert abs(biased - plain) > 5


def test_strong_skew_gets_a_wide_interval_longer_on_the_side_of_the_tail(cartpole):
    for sign in (1, -1):
        estimate = run(cartpole, Pareto(1.5, sign))
        assert estimate.choice.skewed
        interval = estimate.interval(0.9)
        assert interval.low < cartpole.truth().value < interval.high
        centre = estimate.choice.spread.centre
        assert sign * (interval.high - centre) > sign * (centre - interval.low)


@pytest.mark.slow
def test_folds_are_combined_and_have_no_interval_of_the_first_one(cartpole):
    log = cartpole.log(episodes=40, seed=1)
    split = Method(base=Auto(), partition=Split(3))
    estimate = evaluate(log, cartpole.target(), method=split, gamma=0.99)
    assert estimate.choice is None
    assert estimate.fold_values.min() <= estimate.value <= estimate.fold_values.max()


@pytest.mark.slow
def test_a_storm_is_one_outlier_and_weeks_are_the_unit():
    log = storage.log("HB_NORTH", 2021, 0)
    chosen = Method(base=Auto(features=storage.HourlyFeatures(), ridge=Absolute(0.1)))
    for policy in storage.CANDIDATES.values():
        estimate = evaluate(log, policy, method=chosen, gamma=1.0)
        assert estimate.choice.unit == "group"
        assert abs(estimate.value) < 200  # the plain mean is off by hundreds


def test_neighbouring_episodes_are_noticed_where_no_groups_are_named():
    log = storage.log("HB_NORTH", 2021, 0)
    ungrouped = Log.from_arrays(
        log.states, log.actions, log.rewards, log.next_states,
        episode=log.episode_of_row, terminated=log.terminated, action_space=log.action_space,
    )  # fmt: skip
    name, unit = clusters(ungrouped, np.abs(log.rewards))
    assert name == "block"
    assert len(np.unique(unit)) == 52


def test_independent_noise_is_not_clustered(cartpole, rng):
    log = cartpole.log(episodes=50, seed=0)
    for draw in (rng.standard_normal, rng.standard_cauchy):
        assert clusters(log, np.abs(draw(log.n_transitions)))[0] == "step"


def test_a_bandit_log_needs_no_discount(rng):
    n = 3000
    states, actions = rng.normal(size=(n, 1)), rng.integers(2, size=n)
    log = Log.from_arrays(
        states, actions, actions + rng.standard_t(1.2, n), states,
        episode=range(n), terminated=np.ones(n, bool),
    )  # fmt: skip
    estimate = evaluate(log, lambda states: np.ones(len(states), int))
    assert estimate.value == pytest.approx(1, abs=0.2)


def test_sparse_rewards_are_not_rounded_down_to_nothing(rng):
    """Twenty sales in a thousand visits: calling them outliers would be wrong by everything."""
    n = 4000
    states = rng.normal(size=(n, 1))
    rewards = np.where(rng.random(n) < 0.02, 50.0, 0.0)
    log = Log.from_arrays(
        states,
        rng.integers(2, size=n),
        rewards,
        states,
        episode=range(n),
        terminated=np.ones(n, bool),
    )
    estimate = evaluate(log, lambda states: np.ones(len(states), int))
    assert estimate.value == pytest.approx(1.0, abs=0.5)


@pytest.mark.slow
def test_the_seed_decides_and_folds_compose(cartpole):
    first, again, other = (run(cartpole, StudentT(1.5), 25, seed=seed) for seed in (3, 3, 4))
    assert first.to_dict() == again.to_dict()
    assert first.value != other.value
    folded = run(cartpole, StudentT(1.5), 40, method=Method(base=Auto(), partition=Split(4)))
    assert folded.fold_values.shape == (4,)
    assert method("auto").base == Auto()
