import gc
import json
import pickle
from dataclasses import FrozenInstanceError, replace
from functools import partial
from types import FunctionType, ModuleType

import numpy as np
import pytest

from tailproof import Log, LogProfile, PerAction, Polynomial, evaluate
from tailproof.critics.task import Task
from tailproof.errors import LevelError
from tailproof.estimators.sequential import Auto
from tailproof.log.folds import Split
from tailproof.methods.catalogue import method
from tailproof.methods.method import Method
from tailproof.robust.aggregates import Median


def one(states):
    return np.ones(len(states), dtype=int)


class Leaning:
    """Two actions, the second in three of four cases."""

    def __init__(self):
        self.calls = 0

    def probabilities(self, states):
        self.calls += 1
        return np.tile([0.25, 0.75], (len(states), 1))


@pytest.fixture(scope="module")
def one_step():
    rng = np.random.default_rng(3)
    states, actions = rng.normal(size=300), rng.integers(2, size=300)
    rewards = 1 + states + actions + rng.standard_t(3, size=300)
    return Log.from_arrays(
        states,
        actions,
        rewards,
        states,
        episode=range(300),
        terminated=np.ones(300, dtype=bool),
        propensity=np.full(300, 0.5),
        reward_name="revenue",
    )


@pytest.fixture(scope="module")
def sequential():
    rng = np.random.default_rng(4)
    states, actions = rng.normal(size=240), rng.integers(2, size=240)
    following = np.append(states[1:], 0.0)
    rewards = states + actions + rng.standard_t(3, size=240)
    return Log.from_arrays(states, actions, rewards, following, episode=np.arange(240) // 8)


FOLDS = Method(Auto(), partition=Split(5), aggregate=Median())
METHODS = ["auto", "lstd", "fqe", "mis", "dr", "roam-dm", "roam-variant", "roam-mis", "roam-fqe"]


@pytest.mark.parametrize("name", [*METHODS, "ips", "snips"])
def test_every_method_answers_the_same_questions(name, one_step):
    estimate = evaluate(one_step, one, method=name)
    assert str(estimate.unit) == "revenue per row"
    assert estimate.logged_value == pytest.approx(one_step.rewards.mean(), abs=0.3)
    gain = estimate.gain
    assert gain.value == estimate.value - estimate.logged_value
    assert gain.relative == pytest.approx(gain.value / estimate.logged_value)
    assert estimate.on_log.shares == {"0": 0.0, "1": 1.0}
    assert estimate.on_log.agreement == pytest.approx((one_step.actions == 1).mean())
    written = estimate.to_dict()
    assert json.loads(json.dumps(written)) == written
    for about in (estimate, gain):
        if np.isnan(about.standard_error):
            with pytest.raises(LevelError, match=r"several folds|depend on each other"):
                about.interval(0.9)
            continue
        interval, bound = about.interval(0.9), about.lower_bound(0.9)
        assert interval.low <= about.value <= interval.high
        assert bound.value <= about.value
        assert about.standard_error > 0


@pytest.mark.parametrize("name", METHODS)
def test_sequential_logs_too(name, sequential):
    estimate = evaluate(sequential, one, method=name, gamma=0.9)
    assert str(estimate.unit) == "discounted reward per episode (γ 0.9, endless)"
    assert estimate.gain.value == estimate.value - estimate.logged_value
    assert estimate.to_dict()["on_log"]["text"].startswith("1 100 %; agrees with the log in 5")


def test_the_default_asks_the_policy_no_more_for_what_it_does(one_step, sequential):
    for log, gamma in ((one_step, None), (sequential, 0.9)):
        policy = Leaning()
        estimate = evaluate(log, policy, gamma=gamma)
        before = policy.calls
        found = estimate.on_log
        assert policy.calls == before
        assert found.shares == pytest.approx({"0": 0.25, "1": 0.75})
        taken = np.where(log.actions == 1, 0.75, 0.25)
        assert found.agreement == pytest.approx(taken.mean())
        assert 1 < found.effective_rows <= found.rows == log.n_transitions


def test_unknown_kinds_are_refused_for_every_method(one_step):
    for name in ("auto", "roam-dm", "lstd"):
        estimate = evaluate(one_step, one, method=name)
        with pytest.raises(LevelError, match="kind must be one of 'order', 't', or None"):
            estimate.interval(0.9, kind="nonsense")
        with pytest.raises(LevelError, match="kind must be one of"):
            estimate.lower_bound(0.9, kind="nonsense")
    with pytest.raises(LevelError, match="needs the values of several folds"):
        evaluate(one_step, one).interval(0.9, kind="order")


def test_members_that_depend_on_each_other_have_no_interval(one_step):
    for name, why in (("roam-fqe", "combined in every backup"), ("b-roam-dm", "share data")):
        estimate = evaluate(one_step, one, method=name)
        for about in (estimate, estimate.gain):
            with pytest.raises(LevelError, match=why):
                about.interval(0.9)
            with pytest.raises(LevelError, match=why):
                about.lower_bound(0.9)
            assert np.isnan(about.standard_error)


def test_what_declines_names_the_level_that_was_asked():
    rng = np.random.default_rng(1)
    states = rng.normal(size=24)
    log = Log.from_arrays(
        states, rng.integers(2, size=24), states, states, episode=np.arange(24) // 8
    )
    estimate = evaluate(log, one, gamma=0.5)
    for about in (estimate, estimate.gain):
        with pytest.raises(LevelError, match="No valid 90 % lower bound"):
            about.lower_bound(0.9)
        with pytest.raises(LevelError, match="No valid 80 % interval"):
            about.interval(0.8)


def test_the_default_over_folds_takes_value_and_interval_from_all_of_them(one_step, sequential):
    for log, gamma in ((one_step, None), (sequential, 0.9)):
        estimate = evaluate(log, one, method=FOLDS, gamma=gamma)
        interval = estimate.interval(0.9)
        assert estimate.value == np.median(estimate.fold_values)
        assert (interval.low, interval.high) == (
            estimate.fold_values.min(),
            estimate.fold_values.max(),
        )


def test_bounds_never_exceed_the_value(sequential):
    """Pointwise medians may lie below every fold; a bound is then no higher than they are."""
    estimate = evaluate(sequential, one, method=method("roam-dm", folds=4), gamma=0.95)
    for level in (0.5, 0.7, 0.9):
        assert estimate.lower_bound(level).value <= estimate.value
        assert estimate.gain.lower_bound(level).value <= estimate.gain.value


def reachable(root):
    """Yield every object that a result refers to, but for modules, classes and functions."""
    seen, todo = set(), [root]
    while todo:
        each = todo.pop()
        if id(each) in seen or isinstance(each, type | ModuleType | FunctionType):
            continue
        seen.add(id(each))
        yield each
        todo += gc.get_referents(each)


@pytest.mark.parametrize("chosen", ["auto", "snips", "roam-mis", "roam-fqe"])
def test_a_stored_estimate_answers_everything_without_the_log(one_step, chosen):
    wide = np.column_stack([one_step.states, *np.random.default_rng(0).normal(size=(9, 300))])
    log = replace(
        one_step, states=wide, next_states=wide, state_names=tuple(f"x{j}" for j in range(10))
    )
    settings = {"features": PerAction(Polynomial(degree=1), 10, 2)} if "roam" in chosen else {}
    estimate = evaluate(log, Leaning(), method=method(chosen, **settings))
    stored = pickle.dumps(estimate)
    assert len(stored) < log.states.nbytes
    again = pickle.loads(stored)
    assert not any(isinstance(each, Log | Task | LogProfile) for each in reachable(again))
    assert again.to_dict() == estimate.to_dict()
    assert str(again) == str(estimate)
    assert again.gain_over(1.0).value == estimate.gain_over(1.0).value


def test_a_result_holds_neither_functions_nor_the_profile(one_step):
    for chosen in ("auto", "roam-dm"):
        kept = replace(evaluate(one_step, Leaning(), method=chosen), task=None)
        held = [each for each in reachable(kept) if isinstance(each, partial | LogProfile)]
        assert held == []
        with pytest.raises(FrozenInstanceError):
            kept.method = None
