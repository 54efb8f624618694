"""The adapters, on stand-ins with the interfaces of d3rlpy 2.8.1 and SCOPE-RL 0.2.1.

The libraries themselves pin packages that ours do not share an environment with; what they gave when
they were run is in docs/alternatives.md.
"""

import sys
from types import ModuleType

import numpy as np
import pytest

from benchmarks.battery import rivals
from benchmarks.battery.cells import Problem, ground
from benchmarks.battery.entrants import reply_of
from tailproof.errors import LogError
from tailproof.log.log import Log


@pytest.fixture
def problem():
    clean = ground("linear", "good").problem(6, np.random.default_rng(1))
    return Problem(clean.log, clean.policy, clean.gamma)


def test_what_is_not_installed_takes_no_part(monkeypatch):
    monkeypatch.setattr(rivals, "find_spec", lambda name: None)
    assert rivals.installed_rivals() == {}
    monkeypatch.setattr(rivals, "find_spec", lambda name: object() if name == "d3rlpy" else None)
    assert list(rivals.installed_rivals()) == ["d3rlpy fqe"]
    monkeypatch.setattr(rivals, "find_spec", lambda name: object())
    assert len(rivals.installed_rivals()) == 1 + len(rivals.SCOPE_RL)


def test_the_critic_is_averaged_over_the_policy_at_the_starts(monkeypatch, problem):
    seen = []

    def fitted(given, settings, seed):
        seen.append((given, settings, seed))
        return lambda states: np.tile([1.0, 10.0, 100.0], (len(states), 1))

    monkeypatch.setattr(rivals, "fitted_critic", fitted)
    settings = rivals.D3rlpyFQE(updates=7)
    value = settings(problem, seed=5)
    chosen = np.array([1.0, 10.0, 100.0])[problem.policy(problem.log.first_states)]
    assert value == pytest.approx(chosen.mean())
    assert seen == [(problem, settings, 5)]


def test_a_fitted_model_is_asked_about_every_action():
    class Model:
        def predict_value(self, states, actions):
            assert states.dtype == np.float32
            return states[:, 0] + 10 * actions

    values = rivals.Critic(Model(), 2)(np.array([[1.0], [2.0]]))
    assert values.tolist() == [[1, 11], [2, 12]]


@pytest.fixture
def scope_rl(monkeypatch):
    """Install a package with one estimator, per-decision importance sampling, in its interface."""

    class PerDecisionImportanceSampling:
        def _values(self, step_per_trajectory, action, reward, pscore, gamma, **given):
            law = given["evaluation_policy_action_dist"]
            ratio = law[np.arange(len(action)), action] / pscore
            shape = (-1, step_per_trajectory)
            weight = np.cumprod(ratio.reshape(shape), axis=1)
            discount = gamma ** np.arange(step_per_trajectory)
            return (weight * reward.reshape(shape) * discount).sum(axis=1)

        def estimate_policy_value(self, **given):
            return self._values(**given).mean()

        def estimate_interval(self, *, alpha, **given):
            values = self._values(**given)
            low, high = np.quantile(values, [alpha / 2, 1 - alpha / 2])
            share = 100 * (1 - alpha)
            return {
                "mean": values.mean(),
                f"{share}% CI (lower)": low,
                f"{share}% CI (upper)": high,
            }

    package, ope, discrete = (ModuleType(name) for name in ("scope_rl", "ope", "discrete"))
    discrete.PerDecisionImportanceSampling = PerDecisionImportanceSampling
    ope.discrete = discrete
    package.ope = ope
    monkeypatch.setitem(sys.modules, "scope_rl", package)
    monkeypatch.setitem(sys.modules, "scope_rl.ope", ope)


@pytest.mark.usefixtures("scope_rl")
def test_importance_sampling_of_the_logging_policy_is_its_mean_return(problem):
    log = problem.log
    behaviour = ground("linear", "good").behaviour
    own = Problem(log, behaviour, problem.gamma)
    reply = rivals.ScopeRL("PerDecisionImportanceSampling")(own, seed=0)
    returns = log.rewards.reshape(log.n_episodes, -1) @ problem.gamma ** np.arange(100)
    assert reply.value == pytest.approx(returns.mean())
    assert set(reply.intervals) == {0.9, 0.95}
    low, high = reply.intervals[0.9]
    assert low < reply.value < high


@pytest.mark.usefixtures("scope_rl")
def test_episodes_of_unequal_length_are_refused(problem):
    log = Log.from_arrays(
        [0.0, 1.0, 2.0], [0, 1, 0], [1.0, 1.0, 1.0], [1.0, 2.0, 3.0], episode=[0, 0, 1]
    )
    uneven = Problem(log, problem.policy, 0.9)
    with pytest.raises(LogError, match=r"one length and logged propensities.*lengths from 1 to 2"):
        rivals.ScopeRL("PerDecisionImportanceSampling")(uneven, seed=0)
    assert "one length" in reply_of(rivals.ScopeRL("DirectMethod"), uneven, seed=0).failure
