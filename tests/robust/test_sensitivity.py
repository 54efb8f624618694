"""Hidden reasons: weights of the marginal sensitivity model, and the strength that overturns."""

from itertools import product

import numpy as np
import pytest

from tailproof import Always, evaluate, read_log
from tailproof.robust.sensitivity import least_favourable, least_favourable_scores


@pytest.mark.parametrize("gamma", [1.0, 1.5, 4.0])
def test_no_choice_of_weights_gives_a_smaller_mean(gamma):
    rng = np.random.default_rng(0)
    residuals, target, propensity = rng.normal(size=8), rng.random(8), rng.uniform(0.1, 0.9, 8)
    found = least_favourable(residuals, target, propensity, gamma=gamma)
    odds = target * (1 / propensity - 1)
    means = [
        np.average(residuals, weights=target + np.array(factors) * odds)
        for factors in product((gamma, 1 / gamma), repeat=8)
    ]
    assert np.isclose(np.average(residuals, weights=found), min(means))


def test_without_hidden_reasons_the_weights_are_inverse_propensities():
    rng = np.random.default_rng(1)
    residuals, target, propensity = rng.normal(size=50), rng.random(50), rng.uniform(0.1, 0.9, 50)
    found = least_favourable(residuals, target, propensity, gamma=1.0)
    assert np.allclose(found, target / propensity)


def test_stronger_reasons_lower_the_correction_and_errors_are_centred():
    rng = np.random.default_rng(2)
    residuals, actions = rng.normal(size=200), rng.integers(2, size=200)
    half, shares = np.full(200, 0.5), np.array([0.3, 0.7])
    target = shares[actions]
    found = [
        least_favourable_scores(residuals, target, half, actions, shares, gamma=gamma)
        for gamma in (1.0, 1.5, 3.0)
    ]
    assert found[0][0] > found[1][0] > found[2][0]
    assert all(np.isclose(parts.sum(), 0) for _, parts in found)


def made(effect, *, n=2_000, **more):
    rng = np.random.default_rng(3)
    mailed = rng.integers(2, size=n)
    spend = 10 + rng.pareto(3.0, n) + effect * mailed
    table = {"x": rng.normal(size=n), "action": mailed, "spend": spend, **more}
    return read_log(table, state="x", reward="spend")


def test_a_larger_gain_takes_stronger_reasons():
    small, large, enormous = (
        evaluate(made(effect), Always(1)).tipping_gamma() for effect in (0.3, 0.5, 50.0)
    )
    assert 1 <= small < large < enormous == np.inf


def test_losses_have_a_tipping_point_too():
    found = evaluate(made(-0.8), Always(1))
    assert found.verdict.word == "worse"
    assert 1 < found.tipping_gamma() < np.inf


def test_known_propensities_and_unclear_answers_have_none():
    assert evaluate(made(1.0, propensity=np.full(2_000, 0.5)), Always(1)).tipping_gamma() is None
    assert evaluate(made(0.0), Always(1)).tipping_gamma() is None
