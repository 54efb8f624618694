import json

import numpy as np
import pytest

from examples.storm import storage
from tailproof import (
    Absolute,
    Always,
    Diagnosis,
    Log,
    PerAction,
    Polynomial,
    diagnose,
    evaluate,
    method,
)
from tailproof.critics.task import Task
from tailproof.doors.diagnose import leverage
from tailproof.errors import LogError, MethodError, PolicyError, TailproofError
from tailproof.noise import Gaussian, Noise, Pareto, StudentT
from tailproof.robust.tails import tail_index
from tailproof.worlds import CartPole


def noisy(world: CartPole, noise: Noise, *, episodes: int = 100, seed: int = 3) -> Diagnosis:
    log = world.log(episodes=episodes, noise=noise, seed=seed)
    return diagnose(log, world.target(), gamma=0.99)


@pytest.fixture(scope="module")
def light(cartpole: CartPole) -> Diagnosis:
    return noisy(cartpole, Gaussian())


@pytest.fixture(scope="module")
def heavy(cartpole: CartPole) -> Diagnosis:
    return noisy(cartpole, StudentT(df=1.2))


@pytest.fixture(scope="module")
def right(cartpole: CartPole) -> Diagnosis:
    return noisy(cartpole, Pareto(1.5))


@pytest.fixture(scope="module")
def left(cartpole: CartPole) -> Diagnosis:
    return noisy(cartpole, Pareto(1.5, sign=-1))


@pytest.fixture(scope="module")
def storm() -> Diagnosis:
    return diagnose(
        storage.log("HB_NORTH", 2021, 1),
        storage.CANDIDATES["night>evening"],
        gamma=1.0,
        method=method("lstd", features=storage.HourlyFeatures(), ridge=Absolute(0.1)),
    )


def bandit(rng: np.random.Generator, *, n: int = 4000, propensity: bool = True, **options) -> Log:
    states, actions = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    return Log.from_arrays(
        states,
        actions,
        actions * states[:, 0] + rng.normal(size=n),
        states,
        episode=range(n),
        terminated=np.ones(n, dtype=bool),
        propensity=np.full(n, 0.5) if propensity else None,
        **options,
    )


def to_the_right(states: np.ndarray) -> np.ndarray:
    return (states[:, 0] > 0).astype(int)


@pytest.mark.slow
def test_light_tails_need_no_more_than_the_plain_mean(light: Diagnosis):
    verdict = light.verdict
    assert (verdict.method, verdict.estimator, verdict.tails) == ("auto", "plain mean", "light")
    assert verdict.summary.startswith("Rewards have light tails: use the default method")
    assert light.tails["weighted rewards"].variance.exists == "yes"


def test_heavy_symmetric_tails_ask_for_a_robust_mean(heavy: Diagnosis):
    verdict = heavy.verdict
    assert (verdict.estimator, verdict.unit, verdict.tails) == ("Huber mean", "step", "heavy")
    assert not verdict.skewed
    assert heavy.tails["weighted rewards"].skew == "symmetric"
    assert any("look symmetric" in reason for reason in verdict.reasons)
    first = heavy.influence.units[0]
    assert f"Without {first.name} the difference from what was logged would be" in str(heavy)


@pytest.mark.slow
def test_skew_keeps_the_tail(right: Diagnosis, left: Diagnosis):
    for found, side in ((right, "right"), (left, "left")):
        assert found.verdict.skewed
        assert found.verdict.estimator in ("plain mean", "adaptive Huber mean")
        assert found.tails["weighted rewards"].skew == side
        assert any("are skewed" in reason for reason in found.verdict.reasons)


@pytest.mark.slow
@pytest.mark.parametrize("noise", [Gaussian(), StudentT(df=1.2), Pareto(1.5)], ids=str)
def test_the_verdict_is_the_choice_of_evaluate(noise: Noise, cartpole: CartPole):
    log = cartpole.log(episodes=40, noise=noise, seed=3)
    choice = evaluate(log, cartpole.target(), gamma=0.99).choice
    verdict = diagnose(log, cartpole.target(), gamma=0.99).verdict
    assert verdict.point() == method("auto")
    assert (verdict.estimator, verdict.unit, verdict.units, verdict.skewed) == (
        choice.estimator,
        choice.unit,
        choice.units,
        choice.skewed,
    )
    assert verdict.reasons[: len(choice.reasons)] == choice.reasons
    without = diagnose(log, gamma=0.99).verdict
    assert without.shape.to_dict() == verdict.shape.to_dict() == choice.shape.to_dict()
    assert without.estimator is None


@pytest.mark.slow
def test_an_estimate_that_was_made_already_is_explained(cartpole: CartPole):
    log = cartpole.log(episodes=30, noise=StudentT(df=1.5), seed=3)
    estimate = evaluate(log, cartpole.target(), gamma=0.99)
    again = diagnose(log, cartpole.target(), gamma=0.99, estimate=estimate)
    assert again.to_dict() == diagnose(log, cartpole.target(), gamma=0.99).to_dict()


def test_the_policy_is_asked_a_handful_of_times(cartpole: CartPole):
    calls = []

    def counted(states: np.ndarray) -> np.ndarray:
        calls.append(len(states))
        return cartpole.target()(states)

    diagnose(cartpole.log(episodes=60, noise=StudentT(df=1.5), seed=3), counted, gamma=0.99)
    assert len(calls) <= 10


def test_leverage_is_relative_to_the_logged_actions():
    """With one constant feature for each action it is the share of the action, inverted and mixed."""
    rng = np.random.default_rng(1)
    actions = (rng.random(4000) < 0.2).astype(int)
    log = Log.from_arrays(
        np.zeros(4000), actions, rng.normal(size=4000), np.zeros(4000), episode=range(4000)
    )
    features = PerAction(Polynomial(0), 1, 2)
    for action, share in ((1, actions.mean()), (0, 1 - actions.mean())):
        task = Task(log, 0.0, Always(action, 2))
        assert leverage(task, features) == pytest.approx(1 / (2 * share), rel=1e-3)


def test_the_storm_clusters_and_is_named(storm: Diagnosis):
    verdict = storm.verdict
    assert storm.clustering is not None
    assert storm.clustering.high < 0.9
    assert verdict.unit == "group"
    assert any("come in clusters" in reason for reason in verdict.reasons)
    assert verdict.settings == {"features": storage.HourlyFeatures()}
    assert {each.noun for each in storm.influence.units} == {"group"}
    days = diagnose(storage.log("HB_NORTH", 2021, 1), gamma=1.0).influence.units
    storm_days = {f"2021-02-{day}" for day in range(12, 21)}
    assert {each.label for each in days[:3]} <= storm_days
    assert len(storm_days & {each.label for each in days}) >= 5


def test_a_storm_without_groups_counts_as_blocks():
    log = storage.log("HB_NORTH", 2021, 1)
    ungrouped = Log.from_arrays(
        log.states,
        log.actions,
        log.rewards,
        log.next_states,
        episode=log.episode_ids[log.episode_of_row],
        terminated=log.terminated,
    )
    verdict = diagnose(ungrouped).verdict
    assert verdict.unit == "block"
    assert "blocks of neighbouring episodes" in " ".join(verdict.reasons)
    assert any("Log.with_groups" in each for each in verdict.improvements)


def test_extremes_that_share_a_group_cluster_wherever_its_episodes_lie(rng: np.random.Generator):
    users = rng.permutation(np.repeat(np.arange(400), 5))
    hit = rng.random(400) < 0.08
    rewards = rng.normal(size=2000) + (10 + rng.pareto(1.5, 2000)) * hit[users]
    log = Log.from_arrays(
        np.zeros(2000),
        np.zeros(2000, dtype=int),
        rewards,
        np.zeros(2000),
        episode=range(2000),
        group=users,
    )
    found = diagnose(log)
    assert found.clustering is None  # a one-step log has no steps within episodes
    assert found.verdict.unit == "group"


def test_without_a_policy_rewards_and_returns_are_diagnosed(cartpole: CartPole):
    log = cartpole.log(episodes=60, noise=StudentT(df=1.2), seed=4)
    found = diagnose(log)
    assert list(found.tails) == ["rewards", "returns"]
    assert found.gamma == 1.0
    assert found.overlap is None
    assert found.average == found.influence.value
    assert found.influence.value == pytest.approx(log.rewards.sum() / 60)
    assert found.verdict.tails == "heavy"
    assert found.verdict.improvements[0].startswith("Pass the policy")
    assert found.tails["rewards"].left == tail_index(log.rewards, side="left")


def test_bandits_with_propensities_use_them(rng: np.random.Generator):
    found = diagnose(bandit(rng), to_the_right)
    assert (found.gamma, found.verdict.unit) == (0.0, "row")
    assert found.influence.of == "difference from what was logged"
    assert found.overlap is not None
    assert found.overlap.mean_known
    assert found.overlap.weights.mean_error < 0.1
    assert found.overlap.weights.effective == pytest.approx(2000, rel=0.1)
    wrong = bandit(rng)
    doubled = diagnose(
        Log.from_arrays(
            wrong.states, wrong.actions, wrong.rewards, wrong.next_states, episode=range(4000),
            propensity=np.full(4000, 0.25),
        ),
        to_the_right,
    )  # fmt: skip
    assert any("should average 1" in reason for reason in doubled.verdict.reasons)
    assert "Check the propensities." in doubled.verdict.improvements


def test_bandits_without_propensities_ask_for_them(rng: np.random.Generator):
    found = diagnose(bandit(rng, propensity=False), to_the_right)
    assert any(each.startswith("Log the propensities") for each in found.verdict.improvements)


def test_continuous_actions_are_diagnosed(rng: np.random.Generator):
    states, actions = rng.normal(size=(2000, 2)), rng.normal(size=(2000, 1))
    rewards = -((actions[:, 0] - states[:, 0]) ** 2) + rng.normal(size=2000)
    log = Log.from_arrays(states, actions, rewards, states, episode=range(2000))
    found = diagnose(log, lambda s: s[:, :1])
    estimate = evaluate(log, lambda s: s[:, :1], method=found.verdict.point())
    assert estimate.value == pytest.approx(0, abs=0.1)


def test_poor_overlap_is_seen(rng: np.random.Generator):
    states = rng.normal(size=(3000, 1))
    often = 1 / (1 + np.exp(4 * states[:, 0]))
    actions = (rng.random(3000) < often).astype(int)
    propensity = np.where(actions == 1, often, 1 - often)
    log = Log.from_arrays(
        states, actions, rng.normal(size=3000), states, episode=range(3000), propensity=propensity
    )
    found = diagnose(log, to_the_right)
    assert found.overlap is not None
    assert found.overlap.weights.effective < 300
    assert not found.overlap.weights.reliable
    assert any("effective samples" in reason for reason in found.verdict.reasons)
    assert any("Log more of what the policy does" in each for each in found.verdict.improvements)


def test_leverage_of_the_logged_policy_is_that_of_the_log(cartpole: CartPole):
    log = cartpole.log(episodes=50, noise=Gaussian(), seed=1)
    overlap = diagnose(log, cartpole.behaviour(), gamma=0.99).overlap
    assert overlap is not None
    assert overlap.leverage < 1.5
    far = diagnose(log, lambda s: 1 - cartpole.target()(s), gamma=0.5).overlap
    assert far is not None
    assert far.leverage > 3 * overlap.leverage


def test_actions_never_logged_are_said(rng: np.random.Generator):
    log = bandit(rng, propensity=False, action_space=3)
    found = diagnose(log, lambda s: np.where(s[:, 0] > 0, 2, 0))
    assert found.overlap is not None
    assert found.overlap.unlogged == pytest.approx(0.5, abs=0.05)
    assert any("were never logged" in reason for reason in found.verdict.reasons)


def test_a_handful_of_rewards_is_not_an_outlier(rng: np.random.Generator):
    log = bandit(rng, propensity=False)
    rewards = np.zeros(4000)
    rewards[[7, 1234]] = 100.0
    verdict = diagnose(log.with_rewards(rewards), to_the_right).verdict
    assert verdict.tails == "sparse"
    assert any("these are the signal" in reason for reason in verdict.reasons)
    assert verdict.estimator == "weighted mean, shrunk"


def test_small_logs_are_diagnosed_without_an_interval(rng: np.random.Generator):
    for n in (1, 2, 3, 50):
        log = Log.from_arrays(
            np.zeros(n), np.zeros(n, dtype=int), rng.normal(size=n), np.zeros(n), episode=[0] * n
        )
        found = diagnose(log)
        assert any("the log has 1." in each for each in found.verdict.improvements)
        if n == 1:
            continue  # a row of a one-step log
        one = diagnose(log, lambda s: np.zeros(len(s), dtype=int), gamma=0.5)
        assert one.verdict.declined is not None
        assert one.verdict.summary.endswith(("gives no interval here.", "cannot answer here."))


def test_constant_and_huge_rewards_do_no_harm(rng: np.random.Generator):
    log = bandit(rng)
    for rewards in (np.zeros(4000), np.full(4000, -3.0), 1e100 * rng.normal(size=4000)):
        found = diagnose(log.with_rewards(rewards), to_the_right)
        assert found.verdict.unit == "row"
        json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.slow
def test_the_same_seed_gives_the_same_diagnosis(cartpole: CartPole):
    assert (
        noisy(cartpole, StudentT(df=1.5), episodes=30).to_dict()
        == noisy(cartpole, StudentT(df=1.5), episodes=30).to_dict()
    )


def test_results_become_text_json_and_frames(storm: Diagnosis):
    text = str(storm)
    assert text.splitlines()[0] == storm.verdict.summary
    assert f"Without {storm.influence.units[0].name} the difference" in text
    record = json.loads(json.dumps(storm.to_dict(), allow_nan=False))
    assert record["verdict"]["call"] == storm.verdict.call
    assert record["tails"]["rewards"]["skew"] == storm.tails["rewards"].skew
    assert record["influence"]["units"][0]["label"] == storm.influence.units[0].label
    frame = storm.to_frame()
    assert list(frame.columns) == ["about", "quantity", "value", "low", "high"]
    row = frame[(frame.about == "rewards") & (frame.quantity == "left tail index")].iloc[0]
    assert row.value == storm.tails["rewards"].left.alpha
    assert set(frame.about) >= {"clustering", "overlap", "influence"}


def test_our_own_warnings_become_notes():
    log = Log.from_arrays(
        np.zeros((40, 2)), [0, 1] * 20, np.arange(40.0), np.zeros((40, 2)), episode=range(40)
    )
    singular = diagnose(log, lambda s: np.zeros(len(s), dtype=int), method="lstd")
    assert all(isinstance(note, str) for note in singular.notes)
    assert singular.average == pytest.approx(19.5)


def test_bad_input_is_named(cartpole: CartPole):
    log = cartpole.log(episodes=5, seed=1)
    with pytest.raises(TailproofError, match="gamma, the discount, must be given"):
        diagnose(log, cartpole.target())
    with pytest.raises(LogError, match="gamma=1 needs every episode to terminate"):
        diagnose(log, cartpole.target(), gamma=1.0)
    with pytest.raises(TailproofError) as refused:
        diagnose(log, gamma=-1)
    assert refused.value.argument == "gamma"
    with pytest.raises(LogError, match=r"A log is read from a file.*Got list"):
        diagnose([1, 2, 3])
    with pytest.raises(MethodError, match="There is no method 'median'"):
        diagnose(log, method="median")
    with pytest.raises(PolicyError, match="A policy is a callable"):
        diagnose(log, 3, gamma=0.9)
    rng = np.random.default_rng(0)
    never = bandit(rng)
    nothing = diagnose(
        Log.from_arrays(
            never.states, np.zeros(4000, dtype=int), never.rewards, never.states,
            episode=range(4000), propensity=np.full(4000, 0.5), action_space=2,
        ),
        lambda s: np.ones(len(s), dtype=int),
    )  # fmt: skip
    assert "it says nothing about the policy" in nothing.verdict.declined
    assert nothing.verdict.summary.endswith("which cannot answer here.")
