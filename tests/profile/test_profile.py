"""A profile is computed once, and changes no answer."""

import warnings

import numpy as np
import pytest

from tailproof import Log, LogProfile, compare, diagnose, evaluate, write_report
from tailproof.profile import one_step, profile


def bandit(n=400, known=True, seed=0):
    rng = np.random.default_rng(seed)
    states, actions = rng.normal(size=(n, 2)), rng.integers(3, size=n)
    rewards = states[:, 0] * actions + rng.standard_t(3, size=n)
    return Log.from_arrays(
        states, actions, rewards, states, episode=np.arange(n), terminated=np.ones(n, bool),
        propensity=np.full(n, 1 / 3) if known else None,
    )  # fmt: skip


def episodes(n=40, steps=5, seed=0):
    """Episodes that end by the clock, which no state shows."""
    rng = np.random.default_rng(seed)
    states, actions = rng.normal(size=(n * steps, 2)), rng.integers(2, size=n * steps)
    return Log.from_arrays(
        states, actions, states[:, 0] * actions + rng.normal(size=n * steps),
        np.roll(states, -1, axis=0), episode=np.arange(n * steps) // steps,
        terminated=np.arange(n * steps) % steps == steps - 1,
    )  # fmt: skip


class Soft:
    """Takes actions with probabilities that depend on the state."""

    def __init__(self, seed, n_actions=3):
        self.weights = np.random.default_rng(seed).normal(size=(2, n_actions))

    def probabilities(self, states):
        odds = np.exp(states @ self.weights)
        return odds / odds.sum(axis=1, keepdims=True)


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_sharing_a_profile_changes_no_digit(known):
    log, policies = bandit(known=known), {f"p{k}": Soft(k) for k in range(3)}
    together = compare(log, policies)
    shared = LogProfile(log)
    for name, policy in policies.items():
        alone = evaluate(log, policy).to_dict()
        assert together[name].estimate.to_dict() == alone
        assert evaluate(shared, policy).to_dict() == alone
    assert compare(shared, policies).to_dict() == together.to_dict()


def test_sharing_a_profile_of_episodes_changes_no_digit():
    log, policy = episodes(), Soft(1, 2)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        shared, alone = LogProfile(log), evaluate(log, policy, gamma=0.9)
        assert evaluate(shared, policy, gamma=0.9).to_dict() == alone.to_dict()
        assert (
            diagnose(shared, policy, gamma=0.9).to_dict()
            == diagnose(log, policy, gamma=0.9).to_dict()
        )


def count_calls(monkeypatch, module, name):
    calls, function = [], getattr(module, name)

    def counted(*given, **named):
        calls.append(name)
        return function(*given, **named)

    monkeypatch.setattr(module, name, counted)
    return calls


def test_what_depends_on_the_log_alone_is_fitted_once(monkeypatch):
    fitted = count_calls(monkeypatch, one_step, "fit_outcomes")
    estimated = count_calls(monkeypatch, one_step, "estimated_propensities")
    measured = count_calls(monkeypatch, profile, "measure")
    shared = LogProfile(bandit(known=False))
    compare(shared, {f"p{k}": Soft(k) for k in range(4)})
    estimate = evaluate(shared, Soft(9))
    diagnose(shared, Soft(9), estimate=estimate)
    assert (len(fitted), len(estimated), len(measured)) == (1, 1, 1)


@pytest.mark.filterwarnings("ignore")
def test_the_clock_is_looked_at_once(monkeypatch):
    looked = count_calls(monkeypatch, profile, "ends_by_the_clock")
    shared = LogProfile(episodes())
    evaluate(shared, Soft(1, 2), gamma=0.9)
    compare(shared, {f"p{k}": Soft(k, 2) for k in range(2)}, gamma=0.9)
    diagnose(shared, Soft(1, 2), gamma=0.9)
    assert len(looked) == 1


def test_another_seed_has_other_folds_and_another_log_another_profile():
    shared = LogProfile(bandit())
    first, second = (evaluate(shared, Soft(1), seed=seed) for seed in (0, 1))
    assert first.value != second.value
    assert evaluate(shared, Soft(1), seed=0).value == first.value
    assert shared.of(shared.log) is shared
    assert shared.of(bandit(seed=1)) is not shared


def test_a_report_does_not_evaluate_again(monkeypatch, tmp_path):
    fitted = count_calls(monkeypatch, one_step, "fit_outcomes")
    log = bandit()
    estimate = evaluate(log, Soft(1))
    write_report(estimate, tmp_path / "report.html")
    assert len(fitted) == 1
    diagnose(log, Soft(1), estimate=evaluate(log, Soft(1), method="snips"))
    assert len(fitted) == 2
