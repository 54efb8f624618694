import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from sklearn.linear_model import HuberRegressor

from tailproof import FQI, ConstantRewards, HuberRewards, Method, learn, method
from tailproof.critics.linear import huber_regression, robust_scale
from tailproof.critics.rewards import as_rewards
from tailproof.errors import MethodError
from tailproof.features import default_features
from tailproof.noise import Contaminated, Pareto, StudentT, add_noise


@pytest.fixture
def design(rng):
    phi = np.column_stack([np.ones(400), rng.standard_normal((400, 2))])
    return phi, phi @ np.array([1.0, -2.0, 0.5])


def test_a_huge_threshold_is_least_squares(design, rng):
    phi, clean = design
    target = clean + rng.standard_t(1.5, size=400)
    expected = np.linalg.lstsq(phi, target)[0]
    assert huber_regression(phi, target, threshold=1e12).beta == pytest.approx(expected, rel=1e-6)


def test_exact_data_are_fitted_exactly(design):
    phi, clean = design
    assert huber_regression(phi, clean).beta == pytest.approx(np.array([1.0, -2.0, 0.5]), rel=1e-8)


def test_the_estimating_equation_holds(design, rng):
    phi, clean = design
    target = clean + rng.standard_t(1.2, size=400)
    beta = huber_regression(phi, target, tolerance=1e-10).beta
    residual = target - phi @ beta
    limit = 1.345 * robust_scale(residual)
    assert phi.T @ np.clip(residual, -limit, limit) == pytest.approx(np.zeros(3), abs=1e-5)


@given(st.floats(1e3, 1e12), st.integers(0, 399))
def test_one_outlier_moves_it_little_whatever_its_size(size, place):
    rng = np.random.default_rng(0)
    phi = np.column_stack([np.ones(400), rng.standard_normal(400)])
    target = phi @ np.array([1.0, 2.0]) + 0.1 * rng.standard_normal(400)
    target[place] += size
    assert huber_regression(phi, target).beta == pytest.approx(np.array([1.0, 2.0]), abs=0.03)


def test_features_that_never_occur_get_no_weight(design):
    phi, clean = design
    padded = np.column_stack([phi, np.zeros(400)])
    assert huber_regression(padded, clean).beta[-1] == 0


def test_the_scale_asks_those_that_err():
    assert robust_scale(np.array([0.0, 0.0, 0.0, 2.0])) == pytest.approx(2 * 1.4826)
    assert robust_scale(np.zeros(4)) == np.inf


def test_symmetric_noise_is_removed_and_skewed_noise_moves_the_centre(cartpole):
    clean = cartpole.log(episodes=60, seed=1)
    made = HuberRewards()
    truth = made(clean, default_features(clean))
    for noise, closer in ((StudentT(1.0), True), (Contaminated(), True), (Pareto(1.5), False)):
        noisy = add_noise(clean, noise, seed=2)
        off = made(noisy, default_features(noisy)) - truth
        # Pareto 1.5 less its mean of 3 has its bulk near −1.6: the robust centre is not the mean.
        assert (abs(off.mean()) < 0.05) == closer


def test_rewards_by_name_and_by_hand(heavy_log):
    ones = learn(heavy_log, method="constant-reward", gamma=0.9)
    by_hand = learn(heavy_log.with_rewards(np.ones(4000)), method="fqi", gamma=0.9)
    assert np.array_equal(ones.members.theta, by_hand.members.theta)
    zero = learn(heavy_log, method="zero-reward", gamma=0.9)
    assert not zero.members.theta.any()
    halved = FQI(reward=lambda log, features: log.rewards / 2)
    half = learn(heavy_log, method=Method(base=halved), gamma=0.9)
    full = learn(heavy_log, method="fqi", gamma=0.9)
    assert 2 * half.members.theta == pytest.approx(full.members.theta)
    assert as_rewards("one") == ConstantRewards(1.0)


def test_a_huber_loss_with_a_huge_threshold_is_fqi(heavy_log):
    plain = learn(heavy_log, method="fqi", gamma=0.9)
    huge = learn(heavy_log, method=method("fqi", huber=1e12), gamma=0.9)
    assert huge.members.theta == pytest.approx(plain.members.theta, rel=1e-8)


def test_a_huber_loss_withstands_what_squares_do_not(cartpole):
    """Half a dozen absurd rewards: the Huber critic stays near the clean one, the other does not."""
    clean = cartpole.log(episodes=60, seed=1)
    rewards = clean.rewards.copy()
    rewards[::1000] = 1e5
    spoilt = clean.with_rewards(rewards)

    def q(log, **settings):
        learned = learn(log, method=method("fqi", **settings), gamma=0.9)
        return learned.critic.action_values(clean.states, 2)

    assert np.abs(q(spoilt) - q(clean)).mean() > 10
    assert np.abs(q(spoilt, huber=1.345) - q(clean)).mean() < 0.5


def test_settings_that_make_no_sense():
    with pytest.raises(MethodError, match="huber must be a finite number above 0"):
        FQI(huber=0.0)
    with pytest.raises(
        MethodError, match=r"reward must be None .as logged., 'huber', 'zero', 'one'"
    ):
        FQI(reward="hubert")
    with pytest.raises(MethodError, match="threshold must be a finite number above 0"):
        HuberRewards(-1.0)
    with pytest.raises(MethodError, match="huber changes the loss of the ridge regression"):
        FQI(huber=1.0, model=HuberRegressor())


def test_the_noise_of_beta_is_known_where_its_scale_depends_on_the_features(rng):
    """Two groups, one ten times as noisy: each coefficient's error as the influences predict it."""
    n, repeats = 400, 300
    group = np.arange(n) % 2
    phi = np.eye(2)[group]
    errors, predicted = [], []
    for _ in range(repeats):
        fit = huber_regression(phi, np.where(group == 1, 10.0, 1.0) * rng.standard_t(1.5, size=n))
        errors.append(fit.beta)
        influence = (fit.scores[:, None] * phi) @ fit.inverse  # (n, 2)
        predicted.append(np.square(influence).sum(axis=0) / n**2)
    measured = np.square(errors).mean(axis=0)
    np.testing.assert_allclose(np.mean(predicted, axis=0), measured, rtol=0.25)
