import numpy as np
import pytest
from scipy import integrate, stats

from examples.insurance.world import Insurance
from tailproof import evaluate
from tailproof.policies.forms import Always

WORLD = Insurance()


@pytest.mark.parametrize("amount", [0.0, 200.0, 5_000.0, 8_500.0, 40_000.0])
def test_the_mean_excess_is_the_integral_of_the_survival_function(amount):
    body = stats.lognorm(WORLD.spread, scale=np.exp(WORLD.centre))

    def survival(x):
        if x >= WORLD.threshold:
            return WORLD.beyond * (WORLD.threshold / x) ** WORLD.tail_index
        within = 1 - body.cdf(x) / body.cdf(WORLD.threshold)
        return WORLD.beyond + (1 - WORLD.beyond) * within

    middle = max(amount, WORLD.threshold)
    near = integrate.quad(survival, amount, middle, limit=200)[0]
    far = survival(middle) * middle / (WORLD.tail_index - 1)
    assert WORLD.excess(amount) == pytest.approx(near + far, rel=1e-6)


def test_the_portfolio_is_as_published():
    log = WORLD.log(60_000, seed=1)
    kept = log.rewards[log.actions == 0]  # without a deductible
    claims = WORLD.premiums[0] - kept[kept < WORLD.premiums[0]]
    assert len(claims) / len(kept) == pytest.approx(0.112, rel=0.05)
    assert WORLD.excess(0) == pytest.approx(1600, rel=0.02)
    ordered = np.sort(claims)[::-1]
    k = int((ordered > WORLD.threshold).sum())
    hill = 1 / np.log(ordered[:k] / WORLD.threshold).mean()
    assert hill == pytest.approx(1.4, abs=3 * 1.4 / np.sqrt(k))


def test_the_value_is_the_mean_profit_where_losses_are_capped():
    log = WORLD.log(60_000, seed=2)
    capped = log.with_rewards(np.maximum(log.rewards, -3000.0))
    for policy in (WORLD.target, Always(0, 3), Always(2, 3)):
        found = evaluate(capped, policy, method="snips")
        truth = WORLD.value(policy, cap=-3000.0)
        assert abs(found.value - truth) < 4 * found.choice.standard_error


def test_a_log_is_drawn_with_the_probabilities_it_tells():
    log = WORLD.log(20_000, seed=3)
    logging = WORLD.logging(log.states)
    assert log.propensity == pytest.approx(logging[np.arange(20_000), log.actions])
    shares = np.bincount(log.actions, minlength=3) / 20_000
    assert shares == pytest.approx(logging.mean(axis=0), abs=0.02)
    assert log.action_space.labels[2] == "deductible 500"
