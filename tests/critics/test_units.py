"""Named linear methods know no units, no origin of the states, and no limit of γ below one."""

import numpy as np
import pytest

from tailproof import FQI, LSTD, Absolute, Always, Log, Method, evaluate, learn, method
from tailproof.critics.linear import regularise
from tailproof.critics.task import Task
from tailproof.features.ladder import named_features, representatives
from tailproof.log.folds import Whole
from tailproof.policies.binding import for_log

pytestmark = pytest.mark.filterwarnings("ignore::tailproof.errors.HorizonWarning")
EVALUATORS = ("fqe", "lstd", "mis", "dr", "roam-dm", "roam-fqe", "roam-mis", "ma-dm", "b-roam-mis")
LEARNERS = ("fqi", "lstd-q", "room-vm", "room-fqi", "huber-reward", "huber-fqi")


def made(scale=1.0, shift=0.0, *, reward=None, ends=False, continuous=False):
    rng = np.random.default_rng(3)
    episodes, steps = 60, 8
    n = episodes * steps
    states, following = np.empty((n, 2)), np.empty((n, 2))
    actions = rng.integers(2, size=n)
    state = rng.normal(size=(episodes, 2))
    for t in range(steps):
        rows = np.arange(t, n, steps)
        states[rows] = state
        push = 0.3 * (actions[rows, None] - 0.5)
        state = 0.8 * state + push + 0.3 * rng.normal(size=state.shape)
        following[rows] = state
    rewards = 1 + states[:, 0] - 0.5 * states[:, 1] * actions + 0.3 * rng.normal(size=n)
    if reward is not None:
        rewards = np.full(n, float(reward))
    last = np.tile(np.arange(steps) == steps - 1, episodes)
    return Log.from_arrays(
        states * np.asarray(scale) + shift,
        actions + 0.1 * rng.normal(size=n) if continuous else actions,
        rewards,
        following * np.asarray(scale) + shift,
        episode=np.repeat(np.arange(episodes), steps),
        terminated=last if ends else None,
    )


def constant_action(states):
    return np.full((len(states), 1), 0.7)


@pytest.mark.parametrize("name", EVALUATORS)
def test_values_do_not_depend_on_the_units_of_any_column_nor_on_their_origin(name):
    values = [
        evaluate(made(scale, shift), Always(1), method=name, gamma=0.9, logged=False).value
        for scale, shift in ((1, 0), (1e-4, 0), ([1e-5, 1e5], 0), (1, 100.0), (-3.0, [5.0, -2.0]))
    ]
    assert values == pytest.approx([values[0]] * len(values), rel=1e-6)


@pytest.mark.parametrize("name", LEARNERS)
def test_policies_do_not_depend_on_units(name):
    logs = [made(scale) for scale in (1.0, 1e-4, [1e-3, 1e3])]
    asked = [learn(log, method=name, gamma=0.9).policy(log.states).tolist() for log in logs]
    assert asked[1] == asked[0]
    assert asked[2] == asked[0]


@pytest.mark.parametrize("gamma", [0.9, 0.999, 1 - 1e-6])
@pytest.mark.parametrize("name", EVALUATORS)
def test_constant_rewards_are_exact_up_to_a_discount_of_one(name, gamma):
    found = evaluate(made(reward=2.0), Always(1), method=name, gamma=gamma, logged=False)
    assert found.value == pytest.approx(2.0 / (1 - gamma), rel=1e-8)


@pytest.mark.parametrize("features", ["polynomial", "interactions", "splines", "fourier", "trees"])
@pytest.mark.filterwarnings("ignore::tailproof.errors.SingularWarning")
def test_every_named_map_is_exact_for_constant_rewards(features):
    chosen = method("lstd", features=features)
    found = evaluate(made(reward=-3.0), Always(0), method=chosen, gamma=1 - 1e-6, logged=False)
    assert found.value == pytest.approx(-3e6, rel=1e-8)


@pytest.mark.parametrize("name", ["fqe", "lstd", "mis"])
def test_continuous_actions_have_no_units_either(name):
    values = [
        evaluate(log, constant_action, method=name, gamma=0.9, logged=False).value
        for log in (made(continuous=True), made([1e-4, 1e3], continuous=True))
    ]
    assert values[1] == pytest.approx(values[0], rel=1e-6)


@pytest.mark.parametrize("name", ["lstd", "mis", "fqe"])
@pytest.mark.parametrize("ends", [False, True])
def test_a_constant_on_every_reward_adds_what_it_is_worth(name, ends):
    """Where nothing ends, c is worth c/(1 − γ), whatever the ridge."""
    chosen = method(name, ridge=0.1)
    log = made(ends=ends)
    more = log.with_rewards(log.rewards + 5.0)
    first, second = (
        evaluate(each, Always(1), method=chosen, gamma=0.9, logged=False).value
        for each in (log, more)
    )
    constants = log.with_rewards(np.full(log.n_transitions, 5.0))
    alone = evaluate(constants, Always(1), method=chosen, gamma=0.9, logged=False).value
    assert second - first == pytest.approx(alone, rel=1e-9)  # all of them are linear in the rewards
    if not ends:
        assert alone == pytest.approx(50.0)


def test_mis_is_lstd_with_terminal_states_and_a_strong_ridge():
    log = made(ends=True)
    values = [
        evaluate(log, Always(1), method=method(name, ridge=0.5), gamma=0.9, logged=False).value
        for name in ("lstd", "mis")
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


def test_an_infinite_ridge_leaves_the_mean_value():
    """With γ = 1 that is the mean return; below, the mean reward a step over 1 − γ·[goes on]."""
    log = made(ends=True)
    for gamma in (1.0, 0.9):
        found = evaluate(
            log, Always(1), method=method("lstd", ridge=1e12), gamma=gamma, logged=False
        )
        horizon = (1 - gamma) * log.n_transitions + gamma * log.n_episodes
        assert found.value == pytest.approx(log.rewards.sum() / horizon, rel=1e-6)


def test_the_papers_ridge_is_of_raw_features_shrunk_to_zero():
    log = made()
    policy = for_log(Always(1), log)
    task = Task(log, 0.9, policy, log.first_states)
    folds = Whole().assign(log, np.random.default_rng(0))
    base = LSTD(ridge=Absolute(0.5))
    design = base.design(task, folds)
    assert design.features == named_features("raw", log)
    system = regularise(design, base.ridge, np.random.default_rng(0))
    assert np.array_equal(system.moment, system.stats.moment)
    expected = system.stats.gram + 0.5 * np.eye(design.features.size)
    assert np.array_equal(system.matrix, expected)
    small = Absolute(1.0)
    values = [
        evaluate(made(scale), Always(1), method=method("lstd", ridge=small), gamma=0.9).value
        for scale in (1.0, 1e-4)
    ]
    assert abs(values[0] - values[1]) > 0.1  # as its documentation says


def test_fqi_raises_its_ridge_where_it_diverges_and_says_so():
    rng = np.random.default_rng(1)
    states = rng.normal(size=(80, 2))
    following = 1.3 * states + 0.1 * rng.normal(size=(80, 2))  # every state is left outwards
    log = Log.from_arrays(
        states, rng.integers(2, size=80), rng.normal(size=80), following, episode=np.arange(80) // 4
    )
    task = Task(log, 0.95, None, log.first_states)
    folds = Whole().assign(log, rng)
    fitted = FQI().fit(task, folds, backup=None, rng=rng)
    assert not fitted.critics.diverged.any()
    assert len(fitted.notes) == 1
    raw = FQI(features="raw").fit(task, folds, backup=None, rng=rng)
    assert raw.critics.diverged.all()
    assert not raw.notes
    assert learn(log, method=Method(base=FQI()), gamma=0.95).reasons == fitted.notes


def test_a_rare_state_of_a_long_log_is_not_taken_for_a_constant(monkeypatch):
    monkeypatch.setattr("tailproof.features.ladder._REPRESENTATIVES", 50)
    log = made()
    states = np.column_stack([log.states[:, 0], np.arange(log.n_transitions) == 301])
    rare = Log.from_arrays(
        states, log.actions, log.rewards, states, episode=np.repeat(np.arange(60), 8)
    )
    assert len(representatives(rare)) < 100
    basis = named_features("polynomial", rare).state_features
    assert sorted(basis.standardise.columns) == [0, 1]
