import numpy as np
import pytest

from tailproof import (
    IPS,
    BanditDR,
    Clip,
    Log,
    Median,
    Method,
    Shrink,
    Split,
    diagnose,
    evaluate,
    method,
)
from tailproof.errors import LevelError, LogError, MethodError, PolicyError, WeightWarning
from tailproof.policies.forms import Uniform
from tailproof.robust.means import AdaptiveHuber, Catoni, MedianOfMeans, TrimmedMean, Winsorised

TARGET = np.array([0.1, 0.9])
VALUE = 0.1 * 1.0 + 0.9 * 2.0  # arm rewards 1 and 2


class Fixed:
    def __init__(self, row):
        self.row = np.asarray(row)

    def probabilities(self, states):
        return np.tile(self.row, (len(states), 1))


def bandit_log(n=4000, seed=0, noise=0.0, with_propensity=True):
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, 1))
    actions = (rng.random(n) < 0.3).astype(int)
    rewards = 1.0 + actions + noise * rng.standard_t(1.5, n)
    return Log.from_arrays(
        states,
        actions,
        rewards,
        states,
        episode=np.arange(n),
        terminated=np.ones(n, bool),
        propensity=np.where(actions == 1, 0.3, 0.7) if with_propensity else None,
    )


@pytest.mark.parametrize(
    "name",
    [
        "ips",
        "snips",
        "bandit-dm",
        "bandit-dr",
        "lstd",
        "mis",
        "dr",
        "lse",
        "ix-ips",
        "clipped-ips",
        "shrunk-ips",
        "power-mean-ips",
        "smoothed-ips",
        "tis",
        "pdis",
    ],
)
def test_every_bandit_row_finds_the_value_without_a_discount(name):
    # smaller weights trade bias for variance
    biased = {"shrunk-ips": 0.25, "power-mean-ips": 0.4, "smoothed-ips": 0.5, "ix-ips": 0.1}
    tolerance = biased.get(name, 0.05)
    assert evaluate(bandit_log(), Fixed(TARGET), method=name).value == pytest.approx(
        VALUE, abs=tolerance
    )


def test_evaluating_the_logging_policy_is_the_plain_mean():
    log = bandit_log(noise=1.0)
    value = evaluate(log, Fixed([0.7, 0.3]), method="ips").value
    assert value == pytest.approx(log.rewards.mean())


def test_limits_of_clipping_and_shrinking():
    weights = np.array([0.1, 1.0, 50.0])
    assert np.array_equal(Clip(np.inf)(weights), weights)
    assert Clip(5.0)(weights).max() == 5.0
    assert np.allclose(Shrink(np.inf)(weights), weights)
    assert np.allclose(Shrink(1e12)(weights), weights)
    assert not Shrink(0.0)(weights).any()
    log = bandit_log()
    plain = evaluate(log, Fixed(TARGET), method="ips").value
    unclipped = Method(base=IPS(reweight=Clip(1e9)))
    assert evaluate(log, Fixed(TARGET), method=unclipped).value == plain


@pytest.mark.parametrize("name", ["ips", "snips", "bandit-dr", "lse"])
def test_named_rows_have_intervals_bounds_and_a_gain(name):
    log = bandit_log(noise=0.2)
    estimate = evaluate(log, Fixed(TARGET), method=name)
    interval = estimate.interval(0.95)
    assert interval.low < VALUE < interval.high
    assert interval.low < estimate.value < interval.high
    assert estimate.lower_bound(0.9).value < estimate.value
    gain = estimate.choice.gain
    assert gain.value == pytest.approx(estimate.value - log.rewards.mean())
    assert 0 < gain.lower_bound(0.9).value < gain.value
    assert estimate.choice.reasons == ()


def test_changed_weights_and_robust_means_are_cautioned_in_the_note():
    log = bandit_log(noise=0.2)
    clipped = evaluate(log, Fixed(TARGET), method="clipped-ips")
    assert "bias of the changed weights" in clipped.interval(0.9).note
    robust = evaluate(log, Fixed(TARGET), method=method("ips", mean=AdaptiveHuber()))
    assert "interval of the plain mean" in robust.interval(0.9).note
    assert robust.interval(0.5).low <= robust.value <= robust.interval(0.5).high


def test_the_guaranteed_bound_of_ips_is_below_it():
    log = bandit_log()
    estimate = evaluate(log, Fixed(TARGET), method="ips")
    assert 0 < estimate.lower_bound(0.9, kind="guaranteed").value < estimate.value
    with pytest.raises(LevelError, match="as they are"):
        evaluate(log, Fixed(TARGET), method="clipped-ips").lower_bound(0.9, kind="guaranteed")
    with pytest.raises(LevelError, match="There is no guaranteed bound"):
        evaluate(log, Fixed(TARGET), method="lstd").lower_bound(0.9, kind="guaranteed")


def test_snips_recovers_constant_rewards_exactly():
    log = bandit_log()
    constant = log.with_rewards(np.full(log.n_transitions, 7.0))
    assert evaluate(constant, Fixed(TARGET), method="snips").value == pytest.approx(7.0)


@pytest.mark.filterwarnings("ignore::tailproof.errors.WeightWarning")
def test_doubly_robust_survives_wrong_propensities_when_the_model_is_right():
    log = bandit_log()
    wrong = Log.from_arrays(
        log.states, log.actions, log.rewards, log.next_states, episode=log.episode_ids,
        terminated=log.terminated, propensity=np.full(log.n_transitions, 0.5),
    )  # fmt: skip
    assert evaluate(wrong, Fixed(TARGET), method="bandit-dr").value == pytest.approx(
        VALUE, abs=0.02
    )
    assert abs(evaluate(wrong, Fixed(TARGET), method="ips").value - VALUE) > 0.3


@pytest.mark.parametrize(
    "mean",
    [AdaptiveHuber(), Catoni(), MedianOfMeans(15), TrimmedMean(0.01), Winsorised(0.01)],
    ids=str,
)
@pytest.mark.parametrize("name", ["ips", "snips", "bandit-dr"])
def test_every_mean_serves_every_bandit_estimator(mean, name):
    log = bandit_log(noise=1.0, seed=3)
    value = evaluate(log, Fixed(TARGET), method=method(name, mean=mean)).value
    assert value == pytest.approx(VALUE, abs=0.5)


def test_bandit_rows_compose_with_folds():
    composed = Method(base=BanditDR(), partition=Split(6), aggregate=Median(), at="value")
    estimate = evaluate(bandit_log(noise=1.0), Fixed(TARGET), method=composed)
    interval = estimate.interval(0.95)
    assert interval.low < VALUE < interval.high


def test_bad_bandit_input_is_refused_by_name(cartpole):
    with pytest.raises(LogError, match="Bandit estimators need the propensity"):
        evaluate(bandit_log(with_propensity=False), Fixed(TARGET), method="ips")
    with pytest.raises(LogError, match=r"need episodes of one step\. The log has up to 20 steps"):
        evaluate(cartpole.log(episodes=5, steps=20), Uniform(2), method="ips", gamma=0.9)
    with pytest.raises(MethodError, match="largest must be a number above 0"):
        Clip(0.0)
    with pytest.raises(MethodError, match="strength must be a number of at least 0"):
        Shrink(-1.0)
    log = bandit_log(100)
    continuous = Log.from_arrays(
        log.states, np.linspace(0, 1, 100), log.rewards, log.states,
        episode=log.episode_ids, terminated=log.terminated, propensity=np.ones(100),
    )  # fmt: skip
    with pytest.raises(PolicyError, match=r"need policy\.log_prob"):
        evaluate(continuous, lambda states: states[:, 0], method="ips")


@pytest.mark.parametrize("wrong", [0.1, 0.99])  # weights of 5 and of 0.5 on average
def test_weights_that_do_not_average_one_are_said(wrong, rng):
    n = 500
    states, actions = rng.standard_normal((n, 1)), rng.integers(2, size=n)

    def log(propensity):
        return Log.from_arrays(
            states,
            actions,
            actions + rng.standard_normal(n),
            states,
            episode=range(n),
            propensity=np.full(n, propensity),
        )

    def policy(states):
        return np.ones(len(states), dtype=int)

    for chosen in ("ips", "snips", "bandit-dr", method("ips", reweight=Clip(3.0))):
        with pytest.warns(WeightWarning) as said:
            evaluate(log(wrong), policy, method=chosen)
        assert any("should average 1" in str(each.message) for each in said)
        evaluate(log(0.5), policy, method=chosen)  # no warning
    reasons = diagnose(log(wrong), policy).verdict.reasons
    assert any("should average 1" in each for each in reasons)
