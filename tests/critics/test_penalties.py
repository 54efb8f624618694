"""The default ridge: no unit, no origin of a state and no limit of γ below one matters."""

from dataclasses import replace

import numpy as np
import pytest

from tailproof import (
    FQI,
    LSTD,
    Absolute,
    Always,
    Log,
    PerAction,
    PerObservation,
    Polynomial,
    Relative,
    evaluate,
    learn,
    method,
)
from tailproof.critics.linear import Design, regularise
from tailproof.critics.penalties import MOST
from tailproof.critics.task import Task
from tailproof.errors import MethodError
from tailproof.features import Interactions, Joint, as_features
from tailproof.log.folds import Split, Whole
from tailproof.policies.binding import for_log
from tailproof.worlds import TabularMDP

pytestmark = pytest.mark.filterwarnings("ignore::tailproof.errors.HorizonWarning")
EVALUATORS = ("fqe", "lstd", "mis", "dr", "roam-dm", "roam-fqe", "roam-mis", "ma-dm", "b-roam-mis")
LEARNERS = ("fqi", "lstd-q", "room-vm", "room-fqi", "huber-fqi")
SCALES = (1e-4, 1e4, [1e-4, 1e4], [-1e4, 1e-4])


def made(scale=1.0, shift=0.0, *, reward=None, ends=False, continuous=False, episodes=60):
    rng = np.random.default_rng(3)
    steps = 8
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
    taken = actions + 0.1 * rng.normal(size=n)
    return Log.from_arrays(
        states * np.asarray(scale) + shift,
        5.0 + 1e3 * taken if continuous else actions,
        rewards,
        following * np.asarray(scale) + shift,
        episode=np.repeat(np.arange(episodes), steps),
        terminated=last if ends else None,
    )


def value(log, chosen, gamma=0.9, policy=None):
    policy = Always(1) if policy is None else policy
    return evaluate(log, policy, method=chosen, gamma=gamma, logged=False).value


def middle(states):
    return np.full((len(states), 1), 700.0)


@pytest.mark.parametrize("name", EVALUATORS)
def test_values_do_not_depend_on_the_unit_or_the_origin_of_a_column(name):
    expected = value(made(), name)
    for scale in SCALES:
        assert value(made(scale), name) == pytest.approx(expected, rel=1e-8)
    for scale, shift in ((1, 100.0), (-3.0, [5.0, -2.0]), ([1e-4, 1e4], [1e-3, -1e5])):
        assert value(made(scale, shift), name) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("features", ["interactions", "splines", "trees"])
def test_values_of_other_features_do_not_depend_on_units(features):
    chosen = method("lstd", features=features)
    expected = value(made(), chosen)
    for scale in SCALES[:3]:
        assert value(made(scale), chosen) == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("name", ["fqe", "lstd", "mis"])
def test_continuous_actions_have_no_units_either(name):
    values = [
        value(log, name, policy=middle)
        for log in (made(continuous=True), made([1e-4, 1e4], continuous=True))
    ]
    assert values[1] == pytest.approx(values[0], rel=1e-8)


@pytest.mark.parametrize("name", LEARNERS)
def test_policies_of_a_relative_ridge_do_not_depend_on_units(name):
    plain, chosen = made(), method(name, ridge=Relative(1e-2, "zero"))
    expected = learn(plain, method=chosen, gamma=0.9).policy(plain.states)
    for scale in SCALES[:3]:
        log = made(scale)
        assert np.array_equal(learn(log, method=chosen, gamma=0.9).policy(log.states), expected)


@pytest.mark.parametrize("gamma", [0.0, 0.9, 0.999, 1 - 1e-6])
@pytest.mark.parametrize("name", EVALUATORS)
def test_constant_rewards_are_exact_up_to_a_discount_of_one(name, gamma):
    found = value(made(reward=2.0), name, gamma)
    assert found == pytest.approx(2.0 / (1 - gamma), rel=1e-7)


@pytest.mark.parametrize("features", ["polynomial", "interactions", "splines", "fourier", "trees"])
@pytest.mark.filterwarnings("ignore::tailproof.errors.SingularWarning")
def test_every_named_map_is_exact_for_constant_rewards(features):
    found = value(made(reward=-3.0), method("lstd", features=features), 1 - 1e-6)
    assert found == pytest.approx(-3e6, rel=1e-7)


def test_a_constant_that_features_do_not_name_is_found():
    """Indicators of states span it without a bias, in any unit."""
    for unit in (1.0, [1e-3, 7.0, 1e3]):
        states = np.eye(3)[np.random.default_rng(0).integers(3, size=300)] * np.asarray(unit)
        log = Log.from_arrays(
            states,
            np.arange(300) % 2,
            np.ones(300),
            np.roll(states, -1, axis=0),
            episode=np.arange(300) // 10,
        )
        chosen = method("lstd", features=PerAction(Polynomial(degree=1, bias=False), 3, 2))
        assert value(log, chosen, 1 - 1e-6) == pytest.approx(1e6, rel=1e-6)


@pytest.mark.parametrize("gamma", [0.9, 0.99, 0.9999])
@pytest.mark.parametrize("features", ["one-hot", "table", None])
@pytest.mark.filterwarnings("ignore::tailproof.errors.SingularWarning")  # one-hot states and a bias
def test_tabular_worlds_without_noise_are_exact_up_to_the_ridge(features, gamma):
    drawn = TabularMDP.random(states=6, actions=2, seed=2)
    certain = np.eye(6)[drawn.transitions.argmax(axis=-1)]
    world = replace(drawn, transitions=certain, initial=np.eye(6)[0])
    rng = np.random.default_rng(0)
    states = np.eye(6)[rng.integers(6, size=6000)]
    actions = rng.integers(2, size=6000)
    following, rewards, _ = world.step(states, actions, rng)
    log = Log.from_arrays(states, actions, rewards, following, episode=range(6000))
    policy, start = world.optimal(gamma=0.9), np.eye(6)[:1]
    truth = world.value(policy, gamma=gamma)
    size = np.abs(world.action_values(policy, gamma=gamma)).max()
    own = PerAction(Polynomial(degree=1, bias=False), 6, 2) if features == "one-hot" else features
    for name in ("lstd", "mis", "fqe"):
        for ridge, close in ((Relative(1e-4), 2e-3), (Relative(1e-7), 2e-6)):
            chosen = method(name, ridge=ridge, features=own)
            if name == "fqe" and gamma > 0.999:  # 10⁵ iterations
                continue
            if name == "fqe":
                chosen = chosen.with_settings(iterations=3000)
            found = evaluate(
                log, policy, method=chosen, gamma=gamma, initial_states=start, logged=False
            )
            assert found.value == pytest.approx(truth, abs=close * size)


def test_without_a_constant_in_the_features_coefficients_shrink_to_zero():
    log = made(reward=1.0)
    chosen = method("lstd", features=PerAction(Polynomial(degree=1, bias=False), 2, 2))
    assert abs(value(log, chosen, 0.9)) < 10


@pytest.mark.parametrize("name", ["lstd", "mis", "fqe"])
def test_a_constant_on_every_reward_adds_its_worth_whatever_the_ridge(name):
    chosen = method(name, ridge=Relative(0.1))
    log = made()
    more = log.with_rewards(log.rewards + 5.0)
    assert value(more, chosen) - value(log, chosen) == pytest.approx(50.0)


def test_mis_is_lstd_with_terminal_states_and_a_strong_ridge():
    log = made(ends=True)
    values = [value(log, method(name, ridge=Relative(0.1))) for name in ("lstd", "mis")]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize(
    "features",
    [Polynomial(), Polynomial(degree=1), Interactions(3, 3), Joint(2, 1)],
    ids=["products", "main", "interactions", "joint"],
)
def test_features_of_moved_states_are_linear_in_those_of_states(features):
    rng = np.random.default_rng(0)
    states, by = rng.normal(size=(20, 3)), rng.normal(size=3)
    if isinstance(features, Polynomial):
        before, after = features(states), features(states - by)
    elif isinstance(features, Interactions):
        actions = rng.integers(3, size=20)
        before, after = features(states, actions), features(states - by, actions)
    else:
        before = features(states[:, :2], states[:, 2:])
        after = features(states[:, :2] - by[:2], states[:, 2:] - by[2:])
    assert after == pytest.approx(before @ features.moved(by).T)


def task_of(log, gamma=0.9):
    return Task(log, gamma, for_log(Always(1), log), log.first_states)


def test_absolute_and_per_observation_are_of_the_features_as_given_shrunk_to_zero():
    log = made()
    rng = np.random.default_rng(0)
    design = Design(task_of(log), as_features(None, log), Whole().assign(log, rng))
    for ridge, penalty in ((Absolute(0.5), 0.5), (PerObservation(1e-3), 0.48), (1e-3, 0.48)):
        system = regularise(design, ridge, rng)
        expected = design.statistics.gram + penalty * np.eye(design.features.size)
        assert np.array_equal(system.matrix, expected)
        assert system.design is design
    values = [value(made(scale), method("lstd", ridge=Absolute(1.0))) for scale in (1.0, 1e-4)]
    assert abs(values[0] - values[1]) > 0.1  # as its documentation says


def expanding(seed, episodes, growth=1.5):
    """Return a log whose next states are further out."""
    rng = np.random.default_rng(seed)
    n = episodes * 8
    states = rng.normal(size=(n, 2))
    following = growth * states + 0.1 * rng.normal(size=(n, 2))
    return Log.from_arrays(
        states, np.arange(n) % 2, rng.normal(size=n), following, episode=np.arange(n) // 8
    )


def test_the_ridge_rises_tenfold_where_fitted_q_would_diverge_and_nowhere_else():
    rng = np.random.default_rng(0)
    found = []
    for growth in (0.5, 1.0, 1.08, 1.1, 1.2):
        log = expanding(0, 12, growth)
        design = Design(task_of(log), as_features(None, log), Split(2).assign(log, rng))
        system = regularise(design, Relative(1e-6), rng)
        share = system.penalty / system.stats.count
        assert np.log10(share) == pytest.approx(np.log10(share).round())
        assert (share <= MOST * (1 + 1e-9)).all()
        assert (~system.expands() | (share > 0.99 * MOST)).all()
        less = replace(system, penalty=system.penalty / 10)
        assert (less.expands() | (share < 1.01e-6)).all()
        found += share.tolist()
    assert min(found) == pytest.approx(1e-6)
    assert any(1e-5 < each < 0.05 for each in found)


def test_fqi_raises_its_ridge_where_it_diverges():
    log = expanding(1, 10)
    folds = Whole().assign(log, np.random.default_rng(0))
    task = Task(log, 0.95, None, log.first_states)
    rng = np.random.default_rng(0)
    weak = FQI(ridge=PerObservation(1e-6)).fit(task, folds, backup=None, rng=rng)
    assert weak.critics.diverged.all()
    strong = FQI(ridge=Relative(1e-4, "zero")).fit(task, folds, backup=None, rng=rng)
    assert not strong.critics.diverged.any()


def test_a_constant_column_changes_nothing():
    log = made()
    wider = Log.from_arrays(
        np.column_stack([log.states, np.full(log.n_transitions, 3.0)]),
        log.actions,
        log.rewards,
        np.column_stack([log.next_states, np.full(log.n_transitions, 3.0)]),
        episode=np.repeat(np.arange(60), 8),
    )
    assert value(wider, "lstd") == pytest.approx(value(log, "lstd"), rel=1e-9)


def test_a_relative_ridge_belongs_to_linear_critics():
    with pytest.raises(MethodError, match="ridge must be"):
        LSTD(ridge=Relative(-1.0))
    with pytest.raises(MethodError, match="ridge must be"):
        method("bc", ridge=Relative(1e-3))
