"""The battery case by case, and what its features can and cannot represent."""

import numpy as np
import pytest

from examples.storm import storage
from examples.storm.prices import read_prices
from examples.storm.storage import (
    BEHAVIOUR,
    CANDIDATES,
    CHARGE,
    DISCHARGE,
    HOLD,
    HourlyFeatures,
    SmoothFeatures,
    energy_sold,
    level_after,
)
from tailproof.errors import MethodError
from tailproof.policies.forms import Uniform, action_probabilities


@pytest.mark.parametrize(
    ("level", "action", "after", "sold"),
    [
        (0, CHARGE, 1, -1 / 0.93),
        (1, CHARGE, 2, -1 / 0.93),
        (2, CHARGE, 2, 0),
        (0, HOLD, 0, 0),
        (1, HOLD, 1, 0),
        (2, HOLD, 2, 0),
        (0, DISCHARGE, 0, 0),
        (1, DISCHARGE, 0, 0.93),
        (2, DISCHARGE, 1, 0.93),
    ],
)
def test_an_action_moves_the_level_or_holds(level, action, after, sold):
    assert level_after(np.array([level]), np.array([action])).tolist() == [after]
    assert energy_sold(np.array([level]), np.array([action])).tolist() == pytest.approx([sold])


@pytest.mark.parametrize(("features", "size"), [(HourlyFeatures(), 96), (SmoothFeatures(), 32)])
def test_features_see_the_effect_of_an_action_and_vanish_at_the_end(features, size):
    states = storage.all_states()
    charge, hold, discharge = (features(states, np.full(72, action)) for action in range(3))
    assert features.size == size
    assert charge.shape == (72, size)
    full, empty = states[:, 1] == 2, states[:, 1] == 0
    assert (charge[full] == hold[full]).all()
    assert (discharge[empty] == hold[empty]).all()
    assert not features(np.array([[24.0, 0.0]]), np.array([1])).any()


def test_hats_sum_to_one_and_as_many_as_hours_are_the_one_hot():
    states = storage.all_states()
    hold = np.ones(72, dtype=int)
    ones = SmoothFeatures()(states, hold)[:, 1::4]  # the column of ones of each hat
    assert ones.sum(axis=1) == pytest.approx(1)
    assert (ones >= 0).all()
    assert SmoothFeatures(hats=24)(states, hold) == pytest.approx(HourlyFeatures()(states, hold))


def lstd_value(features, policy, states, actions, rewards, next_states, terminated):
    """Return φ(s0, π)ᵀθ, θ = A⁻¹b with γ = 1 and a ridge that only breaks ties."""
    phi = features(states, actions)

    def under_policy(where):
        law = action_probabilities(policy, where, 3)
        each = [features(where, np.full(len(where), action)) for action in range(3)]
        return sum(law[:, [action]] * each[action] for action in range(3))

    following = under_policy(next_states) * ~terminated[:, None]
    gram = phi.T @ (phi - following) + 1e-9 * np.eye(features.size)
    theta = np.linalg.solve(gram, phi.T @ rewards)
    return float((under_policy(np.zeros((1, 2))) @ theta).item())


def log_at_mean_prices(hub, year, seed):
    """Return a log whose rewards are those at the hour's mean price: no noise is left."""
    log = storage.log(hub, year, seed)
    mean = read_prices().select(hubs=[hub], year=year).dollars[0].mean(axis=0)
    hour, level = log.states.astype(int).T
    left = level_after(level, log.actions) * log.terminated
    return log.with_rewards(mean[hour] * (energy_sold(level, log.actions) + 0.93 * left))


def lstd_of_log(features, policy, log):
    return lstd_value(
        features, policy, log.states, log.actions, log.rewards, log.next_states, log.terminated
    )


def by_level(states):
    return (7 * states[:, 0] + 5 * states[:, 1]).astype(int) % 3


POLICIES = {**CANDIDATES, "behaviour": BEHAVIOUR, "uniform": Uniform(3), "by level": by_level}


@pytest.mark.parametrize("name", POLICIES)
def test_hourly_features_realise_the_expected_q_exactly(name):
    """Without price noise a behaviour log gives LSTD the replayed truth, whatever was drawn."""
    log = log_at_mean_prices("HB_HOUSTON", 2021, 2)
    truth = storage.exact_value(POLICIES[name], hubs=["HB_HOUSTON"], year=2021)
    assert lstd_of_log(HourlyFeatures(), POLICIES[name], log) == pytest.approx(truth, abs=1e-4)


@pytest.mark.parametrize("name", POLICIES)
def test_lstd_is_exact_on_real_prices_when_every_day_sees_every_action(name):
    """Crossing all days with all (hour, level, action) unties prices from levels: no error."""
    prices = read_prices().select(hubs=["HB_NORTH"], year=2021).dollars[0]
    states = np.repeat(storage.all_states(), 3, axis=0)  # (216, 2)
    actions = np.tile(np.arange(3), 72)
    hour, level = states.astype(int).T
    after = level_after(level, actions)
    sold = energy_sold(level, actions) + 0.93 * after * (hour == 23)
    days = len(prices)
    value = lstd_value(
        HourlyFeatures(),
        POLICIES[name],
        np.tile(states, (days, 1)),
        np.tile(actions, days),
        (prices[:, hour] * sold).ravel(),
        np.tile(np.column_stack([hour + 1.0, after * (hour < 23)]), (days, 1)),
        np.tile(hour == 23, days),
    )
    truth = storage.exact_value(POLICIES[name], hubs=["HB_NORTH"], year=2021)
    assert value == pytest.approx(truth, abs=1e-4)


def test_smooth_features_are_not_exact():
    log = log_at_mean_prices("HB_HOUSTON", 2021, 2)
    errors = [
        lstd_of_log(SmoothFeatures(), policy, log)
        - storage.exact_value(policy, hubs=["HB_HOUSTON"], year=2021)
        for policy in CANDIDATES.values()
    ]
    assert max(map(abs, errors)) > 1


def test_lstd_on_real_logs_scatters_around_the_truth():
    """At real prices levels and prices meet by chance: noise, but no bias beyond four errors."""
    policy = CANDIDATES["night>evening"]
    truth = storage.exact_value(policy, hubs=["HB_WEST"], year=2022)
    logs = [storage.log("HB_WEST", 2022, seed) for seed in range(30)]
    estimates = np.array([lstd_of_log(HourlyFeatures(), policy, log) for log in logs])
    error = estimates.std(ddof=1) / np.sqrt(len(estimates))
    assert error > 0.5
    assert abs(estimates.mean() - truth) < 4 * error


def test_one_hat_is_too_few():
    with pytest.raises(MethodError, match=r"at least 2 hats. Got 1"):
        SmoothFeatures(hats=1)
