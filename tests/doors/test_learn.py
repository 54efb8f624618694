import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from sklearn.linear_model import Ridge
from sklearn.tree import DecisionTreeRegressor

from tailproof import (
    FQE,
    FQI,
    LSPI,
    Absolute,
    Bootstrap,
    Discrete,
    EpsilonGreedy,
    Log,
    Mean,
    MeanMinusStd,
    Median,
    Method,
    PerAction,
    Polynomial,
    Quantile,
    Replicate,
    Split,
    TrimmedMean,
    Whole,
    evaluate,
    learn,
    method,
)
from tailproof.doors.learn import split_off
from tailproof.errors import (
    CoverageWarning,
    FoldError,
    FoldWarning,
    LogError,
    MethodError,
    PartitionError,
    QuantileWarning,
    SingularWarning,
    TailproofError,
)
from tailproof.methods.catalogue import LEARNING
from tailproof.noise import StudentT
from tailproof.policies.forms import Uniform, action_probabilities
from tailproof.robust.aggregates import median
from tailproof.worlds import TabularMDP

GAMMA = 0.9
BLIND = ("bc", "percent-bc", "zero-reward", "constant-reward")
TREES = ("constant", "one-step", "forest-fqi", "policy-tree", "policy-scores")
LINEAR = [name for name in LEARNING if name not in TREES]
SEEING = [name for name in LINEAR if name not in BLIND]
AT_THE_END = ["ma", "room-vm", "p-room-vm", "p-room-vm-released", "pb", "pb-released"]


def one_hot(world):
    return PerAction(Polynomial(degree=1, bias=False), world.n_states, world.action_space.n)


def exact(name, world):
    return method(name, features=one_hot(world), ridge=1e-9)


@pytest.fixture(scope="module")
def clear_world():
    """Deterministic moves, so that folds differ in nothing but rounding; the best action is clear."""
    rng = np.random.default_rng(2)
    moves = np.eye(4)[rng.integers(4, size=(4, 3))]  # (S, A, S)
    return TabularMDP(moves, rng.standard_normal((4, 3)), np.full(4, 0.25))


@pytest.fixture(scope="module")
def clear_log(clear_world):
    return clear_world.log(episodes=100, steps=30, seed=1)


@pytest.fixture(scope="module")
def short_log(cartpole):
    return cartpole.log(episodes=20, steps=50, seed=3)


@pytest.mark.parametrize("name", SEEING)
def test_every_row_finds_the_optimal_policy_of_a_noise_free_tabular_mdp(
    name, clear_world, clear_log
):
    learned = learn(clear_log, method=exact(name, clear_world), gamma=GAMMA)
    best = clear_world.optimal(gamma=GAMMA)
    assert np.array_equal(learned.policy(np.eye(4)), best.table.argmax(axis=1))
    assert clear_world.value(learned.policy, gamma=GAMMA) == pytest.approx(
        clear_world.value(best, gamma=GAMMA), rel=1e-12
    )


@pytest.mark.parametrize("name", ["fqi", "lstd-q", "room-vm", "room-fqi"])
def test_the_critic_is_the_optimal_q(name, clear_world, clear_log):
    chosen = exact(name, clear_world)
    if name != "lstd-q":
        chosen = chosen.with_settings(iterations=400)
    learned = learn(clear_log, method=chosen, gamma=GAMMA)
    truth = clear_world.action_values(clear_world.optimal(gamma=GAMMA), gamma=GAMMA)  # (S, A)
    assert learned.critic.action_values(np.eye(4), 3) == pytest.approx(truth, rel=1e-5, abs=1e-5)


def test_stochastic_moves_are_learned_from_enough_data():
    world = TabularMDP.random(states=4, actions=2, seed=3)
    log = world.log(episodes=300, steps=60, seed=1)
    for name in ("fqi", "lstd-q", "room-vm", "room-fqi"):
        learned = learn(log, method=exact(name, world), gamma=GAMMA)
        best = world.value(world.optimal(gamma=GAMMA), gamma=GAMMA)
        assert world.value(learned.policy, gamma=GAMMA) == pytest.approx(best, abs=1e-9)


def test_termination_stops_the_backup_at_gamma_one():
    """Two steps: action 0 now and 1 next earn 1 + 5; the greedy first reward, 2, leads to nothing."""
    moves = np.zeros((3, 2, 3))
    moves[0, 0, 1] = moves[0, 1, 2] = moves[1, :, 2] = moves[2, :, 2] = 1
    rewards = np.array([[1.0, 2.0], [0.0, 5.0], [0.0, 0.0]])
    ends = np.array([[0.0, 0.0], [1.0, 1.0], [1.0, 1.0]])
    world = TabularMDP(moves, rewards, np.array([1.0, 0.0, 0.0]), ends)
    log = world.log(episodes=200, steps=5, seed=0)
    for name in ("fqi", "lstd-q", "room-fqi"):
        learned = learn(log, method=exact(name, world), gamma=1.0)
        values = learned.critic.action_values(np.eye(3), 2)
        assert values[:2] == pytest.approx(np.array([[6.0, 2.0], [0.0, 5.0]]), abs=1e-5)


def test_a_bandit_is_learned_without_a_discount(rng):
    states = rng.standard_normal((400, 1))
    actions = rng.integers(2, size=400)
    rewards = states[:, 0] * (2 * actions - 1)  # action 1 is right where the state is positive
    log = Log.from_arrays(states, actions, rewards, states, episode=range(400))
    learned = learn(log, method="room-vm")
    assert learned.gamma == 0
    assert (learned.policy(states) == (states[:, 0] > 0)).mean() > 0.99


@pytest.mark.parametrize("name", ["ma", "room-vm", "room-fqi", "p-room-fqi"])
def test_one_fold_is_fqi(name, short_log):
    plain = learn(short_log, method="fqi", gamma=GAMMA)
    alone = learn(short_log, method=method(name, folds=1), gamma=GAMMA)
    assert alone.members.theta == pytest.approx(plain.members.theta, rel=1e-9)
    assert np.array_equal(alone.policy(short_log.states), plain.policy(short_log.states))


@pytest.mark.parametrize("at", ["pointwise", "backup"])
@pytest.mark.parametrize(
    "aggregate", [Mean(), Median(), Quantile(0.1), TrimmedMean(0.34), MeanMinusStd(2.0)], ids=str
)
def test_replicates_of_fqi_are_fqi(at, aggregate, short_log):
    plain = learn(short_log, method="fqi", gamma=GAMMA)
    copies = Method(base=FQI(), partition=Replicate(3), aggregate=aggregate, at=at)
    learned = learn(short_log, method=copies, gamma=GAMMA)
    expected = plain.critic.action_values(short_log.states, 2)
    assert learned.critic.action_values(short_log.states, 2) == pytest.approx(expected, rel=1e-8)


@given(arrays(float, (5, 3, 7), elements=st.floats(-100, 100)))
def test_max_of_median_is_at_most_median_of_max(values):
    assert (median(values).max(axis=0) <= median(values.max(axis=1)) + 1e-12).all()


def test_the_order_of_median_and_maximum_is_an_option(short_log):
    box = learn(short_log, method="room-fqi", gamma=GAMMA)
    text = learn(short_log, method=method("room-fqi", aggregate_first=False), gamma=GAMMA)
    states = short_log.states
    # The median of the maxima is never below, so the critics it makes are not either.
    assert text.critic.action_values(states, 2).mean() > box.critic.action_values(states, 2).mean()


def test_quantiles_order_the_critics(heavy_log):
    learned = learn(heavy_log, method="room-vm", gamma=GAMMA)
    values = [
        learned.with_aggregate(aggregate).critic.action_values(heavy_log.states, 2)
        for aggregate in (Quantile(0.0), Quantile(0.1), Quantile(0.4), Median(), Quantile(0.5))
    ]
    assert all((low <= high + 1e-12).all() for low, high in pairwise(values))
    assert np.array_equal(values[3], values[4])
    members = learned.members.action_values(heavy_log.states, 2)  # (K, A, n)
    assert np.array_equal(values[0], members.min(axis=0).T)


@pytest.mark.parametrize("name", AT_THE_END)
def test_another_aggregate_needs_no_refit(name, heavy_log):
    fitted = learn(heavy_log, method=method(name, aggregate=Median()), gamma=GAMMA, seed=4)
    again = fitted.with_aggregate(LEARNING[name].method.aggregate)
    directly = learn(heavy_log, method=name, gamma=GAMMA, seed=4)
    assert again.method == directly.method
    assert np.array_equal(again.policy(heavy_log.states), directly.policy(heavy_log.states))


def test_an_aggregate_inside_the_backup_cannot_be_changed_afterwards(short_log):
    learned = learn(short_log, method="room-fqi", gamma=GAMMA)
    with pytest.raises(MethodError, match="inside every backup"):
        learned.with_aggregate(Mean())


@pytest.mark.parametrize("name", TREES)
def test_trees_repeat_and_never_choose_an_unlogged_action(name):
    log = three_actions([1, 2], rewards=-np.ones(160))
    if name.startswith("policy"):
        log = Log.from_arrays(
            log.states, log.actions, log.rewards, log.states, episode=np.arange(160),
            terminated=np.ones(160, bool), action_space=log.action_space,
        )  # fmt: skip
    with pytest.warns(CoverageWarning, match=r"never takes action wait\..*never chooses"):
        first, again = (learn(log, method=name, gamma=GAMMA, seed=5) for _ in range(2))
    assert np.array_equal(first.policy(log.states), again.policy(log.states))
    assert set(first.policy(log.states).tolist()) <= {1, 2}
    assert first.members.count == 1
    assert str(first).startswith("The policy is learned and not tested")


@pytest.mark.parametrize("name", LINEAR)
def test_rows_repeat_and_say_what_they_are(name, short_log):
    first = learn(short_log, method=name, gamma=GAMMA, seed=5)
    again = learn(short_log, method=name, gamma=GAMMA, seed=5)
    assert np.array_equal(first.members.theta, again.members.theta)
    assert np.array_equal(first.policy(short_log.states), again.policy(short_log.states))
    assert first.history.shape[1] == first.members.count == LEARNING[name].method.folds
    assert first.to_dict()["method"] == str(LEARNING[name].method)
    assert "Learned by" in str(first)


def test_a_median_survives_corrupted_folds_and_names_them(cartpole, short_log):
    """Two of five folds with absurd rewards: the median policy is as good as without them."""
    folds = Split(5).assign(short_log, np.random.default_rng(0).spawn(2)[0])
    rewards = short_log.rewards.copy()
    for fold in (0, 3):
        rewards[short_log.rows(folds.episodes(fold))] = 1e308
    with pytest.warns(FoldWarning, match=r"fold 0 .*fold 3"):
        learned = learn(short_log.with_rewards(rewards), method="room-vm", gamma=0.99)
    assert learned.bad_folds == (0, 3)
    assert learned.members.count == 3
    healthy = learn(short_log, method="room-vm", gamma=0.99).members.subset(np.array([1, 2, 4]))
    assert np.array_equal(learned.members.theta, healthy.theta)
    for fold in (1, 2):
        rewards[short_log.rows(folds.episodes(fold))] = 1e308
    with pytest.raises(FoldError, match="4 of 5 folds diverged"):
        learn(short_log.with_rewards(rewards), method="room-vm", gamma=0.99)


@pytest.mark.slow
def test_any_regressor_may_be_the_q_model(clear_world, clear_log, short_log):
    best = clear_world.optimal(gamma=GAMMA).table.argmax(axis=1)
    for name in ("fqi", "room-vm", "room-fqi"):
        tree = method(name, model=DecisionTreeRegressor(), iterations=60)
        assert np.array_equal(learn(clear_log, method=tree, gamma=GAMMA).policy(np.eye(4)), best)
    # A ridge regression handed in as a model is the linear critic over states and one-hot actions.
    model = learn(short_log, method=method("fqi", model=Ridge(), iterations=5), gamma=GAMMA)
    assert model.policy(short_log.states).shape == (1000,)


def test_the_base_is_a_setting(heavy_log):
    chosen = method("room-vm", base="lstd-q", ridge=Absolute(20.0))
    assert str(chosen) == "LSPI, split in 5, median at pointwise"
    learned = learn(heavy_log, method=chosen, gamma=GAMMA)
    assert isinstance(learned.method.base, LSPI)
    with pytest.raises(MethodError, match="LSPI can be combined at 'value' or 'pointwise'"):
        method("room-fqi", base="lstd-q")


def test_clipping_is_learning_from_clipped_rewards(heavy_log):
    low, high = np.quantile(heavy_log.rewards, [0.01, 0.99])
    clipped = heavy_log.with_rewards(np.clip(heavy_log.rewards, low, high))
    through = learn(heavy_log, method=method("fqi", clip=0.01), gamma=GAMMA)
    assert np.array_equal(
        through.members.theta, learn(clipped, method="fqi", gamma=GAMMA).members.theta
    )


def test_presets_hold_what_the_text_and_the_released_code_say():
    assert method("p-room-fqi").aggregate == Quantile(0.1)
    assert method("p-room-fqi-released").aggregate == Quantile(0.4)
    assert method("pb").aggregate == MeanMinusStd(2.0)
    assert method("pb").partition == Bootstrap(5)
    assert str(method("pb-released")) == "FQI, OutOfBag 5, mean - 1 std at pointwise"
    assert method("room-vm").base.ridge == 2.5e-3


def test_a_quantile_that_is_the_minimum_is_said_to_be(short_log):
    lower = method("p-room-vm", aggregate=Quantile(0.1, rule="lower"))
    learned = learn(short_log, method=lower, gamma=GAMMA)
    with pytest.warns(QuantileWarning, match="is their minimum, because q·K = 0.5 < 1"):
        learned.policy(short_log.states)


# What is held out.


def test_held_out_episodes_are_others_and_give_a_bound(cartpole):
    log = cartpole.log(episodes=100, noise=StudentT(df=1.5), seed=7)
    learned = learn(log, method="room-fqi", gamma=0.99, holdout=0.4, seed=2)
    kept = set(learned.held_out.episode_ids)
    assert len(kept) == 40
    assert learned.n_episodes == 60
    assert not kept & set(learned.task.log.episode_ids)
    judging = method("roam-dm", ridge=1e-3)
    found = learned.evaluate(method=judging, level=0.9)
    assert found.lower_bound.level >= 0.9
    assert found.lower_bound.value <= found.estimate.value
    assert found.estimate.n_episodes == 40
    directly = evaluate(learned.held_out, learned.policy, method=judging, gamma=0.99, seed=2)
    assert directly.value == found.estimate.value
    assert "40 held-out episodes" in str(found)


def test_groups_are_held_out_whole(heavy_log):
    group = np.repeat(np.arange(8), 500)
    learning, judging = split_off(heavy_log.with_groups(group), 0.25, seed=1)
    assert set(learning.group_ids).isdisjoint(judging.group_ids)
    assert len(set(judging.group_ids)) == 2


def test_the_held_out_value_is_the_policys_own(clear_world, clear_log):
    learned = learn(clear_log, method=exact("fqi", clear_world), gamma=GAMMA, holdout=0.3)
    settings = {"features": one_hot(clear_world), "ridge": 1e-9}
    found = learned.evaluate(method=method("roam-dm", folds=7, **settings), level=0.9)
    starts = learned.held_out.first_states
    truth = clear_world.action_values(learned.policy, gamma=GAMMA).max(axis=1)
    assert found.estimate.value == pytest.approx(float((starts @ truth).mean()), rel=1e-4)


def test_evaluation_needs_held_out_episodes(short_log, cartpole):
    learned = learn(short_log, method="fqi", gamma=GAMMA)
    with pytest.raises(PartitionError, match=r"learn with holdout=0\.2"):
        learned.evaluate()
    other = cartpole.log(episodes=20, steps=50, seed=9)
    assert learned.evaluate(other, method="roam-dm").estimate.n_episodes == 20


@pytest.mark.parametrize("share", [-0.1, 1.0, np.nan])
def test_holdout_is_a_share(share, short_log):
    with pytest.raises(PartitionError, match=r"holdout must lie in \[0, 1\)"):
        learn(short_log, method="fqi", gamma=GAMMA, holdout=share)


def test_holdout_leaves_something_to_learn_from(short_log):
    with pytest.raises(PartitionError, match="leaves none to learn from"):
        learn(short_log[:1], method="fqi", gamma=GAMMA, holdout=0.5)


# Policies.


def test_exploring_policies_keep_to_what_was_learned(heavy_log):
    learned = learn(heavy_log, method="room-vm", gamma=GAMMA)
    states = heavy_log.states[:50]
    greedy = action_probabilities(learned.policy, states, 2)
    explores = learned.epsilon_greedy(0.2)
    assert isinstance(explores, EpsilonGreedy)
    assert explores.probabilities(states) == pytest.approx(0.8 * greedy + 0.1)
    assert learned.softmax(1e-9).probabilities(states) == pytest.approx(greedy)
    assert learned.softmax(1e9).probabilities(states) == pytest.approx(0.5)
    with pytest.raises(TailproofError, match="temperature must be above 0"):
        learned.softmax(0.0)


# Bad input.


def three_actions(taken, rewards=None):
    """Return a log of 40 episodes of 4 steps that takes only some of three named actions."""
    rng = np.random.default_rng(0)
    n = 160
    states = rng.standard_normal((n, 2))
    actions = rng.choice(taken, size=n)
    return Log.from_arrays(
        states,
        actions,
        rng.standard_normal(n) if rewards is None else rewards,
        np.roll(states, -1, axis=0),
        episode=np.repeat(np.arange(40), 4),
        action_space=Discrete(3, ("wait", "buy", "sell")),
    )


@pytest.mark.parametrize("name", SEEING)
def test_an_action_never_logged_is_named_and_never_chosen(name):
    """Every reward is negative, so an action about which nothing is known would look best at zero."""
    log = three_actions([1, 2], rewards=-np.ones(160))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SingularWarning)
        with pytest.warns(CoverageWarning, match=r"never takes action wait\..*never chooses"):
            learned = learn(log, method=name, gamma=GAMMA)
    assert set(learned.policy(log.states).tolist()) <= {1, 2}
    assert learned.policy.actions == (1, 2)
    values = learned.critic.action_values(log.states, 3)[:, 1:]
    assert values.max() < -1  # and in no backup: its zero would have ended the losses
    assert learned.softmax(1.0).probabilities(log.states)[:, 0].max() == 0


def test_a_regressor_leaves_unlogged_actions_out_of_its_backup():
    log = three_actions([1, 2], rewards=-np.ones(160))
    with pytest.warns(CoverageWarning, match="never takes action wait"):
        learned = learn(
            log, method=method("fqi", model=DecisionTreeRegressor(), iterations=30), gamma=GAMMA
        )
    assert set(learned.policy(log.states).tolist()) <= {1, 2}
    assert learned.critic.action_values(log.states, 3)[:, 1:].max() < -8


@pytest.mark.parametrize("name", ["fqi", "room-vm", "bc"])
def test_one_action_only_is_refused(name):
    with pytest.raises(LogError, match=r"nothing to choose between.*takes only buy"):
        learn(three_actions([1]), method=name, gamma=GAMMA)


@pytest.mark.parametrize("name", ["room-vm", "room-fqi", "pb"])
def test_a_fold_without_an_action_is_refused(name):
    log = three_actions([1, 2])
    actions = log.actions.copy()
    actions[0] = 0  # one step of one episode waits
    rare = Log.from_arrays(
        log.states,
        actions,
        log.rewards,
        log.next_states,
        episode=np.repeat(np.arange(40), 4),
        action_space=log.action_space,
    )
    with pytest.raises(
        PartitionError, match=r"never takes action wait.*1 of 40\s+episodes take it"
    ):
        learn(rare, method=name, gamma=GAMMA)


@pytest.mark.parametrize("name", ["roam-dm", "mis", "lstd"])
def test_evaluation_rows_do_not_learn(name, short_log):
    with pytest.raises(MethodError, match="evaluates a policy and cannot look for one"):
        learn(short_log, method=name, gamma=GAMMA)


@pytest.mark.parametrize("name", ["fqi", "lstd-q", "bc"])
def test_learning_rows_do_not_evaluate(name, short_log):
    with pytest.raises(MethodError, match=r"cannot evaluate a given (one|policy)"):
        evaluate(short_log, Uniform(2), method=name, gamma=GAMMA)


def test_numbers_are_no_policy(short_log):
    numbers = Method(base=FQI(), partition=Split(5), aggregate=Median(), at="value")
    with pytest.raises(MethodError, match="cannot be taken from 5 numbers"):
        learn(short_log, method=numbers, gamma=GAMMA)
    assert learn(short_log, method=Method(base=FQI()), gamma=GAMMA).method.at == "pointwise"
    assert learn(short_log, method=Method(base=FQI(), partition=Whole()), gamma=0.5).gamma == 0.5


def test_other_nonsense_is_refused(short_log):
    with pytest.raises(MethodError, match="method must be a name or a Method"):
        learn(short_log, method=3, gamma=GAMMA)
    with pytest.raises(TailproofError, match="gamma, the discount, must be given"):
        learn(short_log, method="fqi")
    with pytest.raises(LogError, match="gamma=1 needs every episode to terminate"):
        learn(short_log, method="fqi", gamma=1.0)
    with pytest.raises(PartitionError, match="30 folds need at least 30 episodes"):
        learn(short_log, method=method("room-vm", folds=30), gamma=GAMMA)
    with pytest.raises(MethodError, match="FQI has no setting 'bidge'"):
        method("room-vm", bidge=1)
    with pytest.raises(MethodError, match="no method 'room'"):
        learn(short_log, method="room", gamma=GAMMA)
    continuous = Log.from_arrays([[0.0]], [[0.5]], [1.0], [[1.0]], episode=[0])
    with pytest.raises(LogError, match="needs discrete actions"):
        learn(continuous, method="fqi")
    with pytest.raises(MethodError, match="FQE evaluates"):
        learn(short_log, method=Method(base=FQE()), gamma=GAMMA)
