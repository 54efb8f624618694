import json

import numpy as np
import pytest

from tailproof import Absolute, Diagnosis, Joint, Log, diagnose, evaluate, method
from tailproof.errors import LevelError, LogError, MethodError, PolicyError, TailproofError
from tailproof.noise import Gaussian, Noise, Pareto, StudentT
from tailproof.statistics.means import AdaptiveHuber, MedianOfMeans
from tailproof.statistics.tails import tail_index
from tailproof.worlds import CartPole, storage


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


def test_light_tails_need_no_more_than_the_average(light: Diagnosis):
    verdict = light.verdict
    assert (verdict.method, verdict.mean, verdict.folds) == ("lstd", None, 6)
    assert verdict.level == 1 - 2**-6
    assert verdict.interval_level == 1 - 2**-5
    assert verdict.covers == "mean"
    assert "plain average is safe" in verdict.summary
    assert light.tails["weighted rewards"].variance.exists == "yes"
    assert "variance of the weighted rewards exists" in verdict.reasons[0]


def test_heavy_symmetric_tails_ask_for_a_robust_mean(heavy: Diagnosis):
    verdict = heavy.verdict
    assert verdict.method == "mis"
    assert isinstance(verdict.mean, MedianOfMeans)
    assert (verdict.unit, verdict.covers, verdict.bound_kind) == ("step", "mean", "order")
    assert verdict.folds >= 10
    assert heavy.tails["weighted rewards"].skew == "symmetric"
    assert "heavy" in verdict.summary
    assert "symmetric" in verdict.summary
    assert any("does not seem to exist" in reason for reason in verdict.reasons)
    assert any("Both tails are alike" in reason for reason in verdict.reasons)
    assert any("times the log" in each for each in verdict.improvements)
    first = heavy.influence.episodes[0]
    assert any(f"episode {first.episode} first" in each for each in verdict.improvements)


def test_skew_warns_against_many_folds(right: Diagnosis):
    verdict = right.verdict
    assert verdict.mean == AdaptiveHuber()
    assert right.tails["weighted rewards"].skew == "right"
    assert verdict.folds == 6
    assert any("beware of a large K" in reason for reason in verdict.reasons)
    assert "6 folds, not more," in verdict.summary
    assert verdict.interval_level is None
    assert verdict.covers == "mean"


def test_a_left_tail_lowers_what_folds_promise(left: Diagnosis):
    verdict = left.verdict
    assert left.tails["weighted rewards"].skew == "left"
    assert verdict.tail_index is not None
    assert 1 < verdict.tail_index < 2
    assert verdict.level == pytest.approx(1 - verdict.tail_index**-verdict.folds)
    assert verdict.level < 1 - 2.0**-verdict.folds
    assert verdict.bound_kind == "tail-aware"


def test_the_storm_clusters_and_is_named(storm: Diagnosis):
    verdict = storm.verdict
    assert storm.clustering.in_episodes
    assert storm.clustering.in_groups
    assert verdict.unit == "group"
    assert verdict.mean == AdaptiveHuber()
    assert any("Bad episodes come together" in reason for reason in verdict.reasons)
    named = {each.episode for each in storm.influence.episodes[:5]}
    assert named <= {f"2021-02-{day}" for day in range(12, 21)}
    assert storm.folds is not None
    assert storm.folds.episode.startswith("2021-02-1")
    worst = storm.influence.episodes[0]
    assert abs(worst.median_effect) < abs(worst.effect) / 10
    assert storm.residuals is not None
    assert all(each.episode.startswith("2021-02-1") for each in storm.residuals.worst)


def test_the_verdict_runs(storm: Diagnosis, left: Diagnosis, cartpole: CartPole):
    log = storage.log("HB_NORTH", 2021, 1)
    policy = storage.CANDIDATES["night>evening"]
    verdict = storm.verdict
    assert verdict.call.startswith("method('mis', mean=AdaptiveHuber(), unit='group', features=")
    point = evaluate(log, policy, method=verdict.point(), gamma=1.0)
    assert abs(point.value - storm.k_path.values[-1]) < abs(storm.influence.value - point.value)
    bounds = evaluate(log, policy, method=verdict.bounds(), gamma=1.0)
    assert len(bounds.fold_values) == verdict.folds
    assert verdict.level is not None
    assert bounds.lower_bound(verdict.level).level >= verdict.level
    skewed = cartpole.log(episodes=100, noise=Pareto(1.5, sign=-1), seed=3)
    bounds = evaluate(skewed, cartpole.target(), method=left.verdict.bounds(), gamma=0.99)
    assert left.verdict.level is not None
    bound = bounds.lower_bound(
        left.verdict.level, kind=left.verdict.bound_kind, tail_index=left.verdict.tail_index
    )
    assert bound.value == bounds.fold_values.min()


def test_without_groups_a_storm_leaves_nothing_to_promise():
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
    assert verdict.unit == "episode"
    assert verdict.level is None
    assert "no bound can be promised" in verdict.summary
    assert any("folds are not independent" in reason for reason in verdict.reasons)
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
    assert found.clustering.groups is not None
    assert found.clustering.groups.high < 0.9
    assert found.clustering.across.high > 0.9
    assert found.verdict.unit == "group"


def test_without_a_policy_rewards_and_returns_are_diagnosed(cartpole: CartPole):
    log = cartpole.log(episodes=60, noise=StudentT(df=1.2), seed=4)
    found = diagnose(log)
    assert list(found.tails) == ["rewards", "returns"]
    assert found.gamma == 1.0
    assert found.overlap is None
    assert found.residuals is None
    assert found.influence.value == pytest.approx(log.rewards.sum() / 60)
    assert found.verdict.method == "mis"
    assert found.verdict.improvements[0].startswith("Pass the policy")
    assert found.tails["rewards"].left == tail_index(log.rewards, side="left")


def test_bandits_with_propensities_use_them(rng: np.random.Generator):
    found = diagnose(bandit(rng), to_the_right)
    assert (found.gamma, found.verdict.method) == (0.0, "ips")
    assert found.influence.estimator == "inverse propensity scoring"
    assert found.overlap is not None
    assert found.overlap.mean_known
    assert found.overlap.weights.mean_error < 0.1
    assert found.overlap.weights.effective == pytest.approx(2000, rel=0.1)
    assert found.verdict.point() == method("ips")
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
    assert found.verdict.method == "lstd"
    assert any(each.startswith("Log propensities") for each in found.verdict.improvements)


def test_continuous_actions_get_joint_features_and_a_note(rng: np.random.Generator):
    states, actions = rng.normal(size=(2000, 2)), rng.normal(size=(2000, 1))
    rewards = -((actions[:, 0] - states[:, 0]) ** 2) + rng.normal(size=2000)
    log = Log.from_arrays(states, actions, rewards, states, episode=range(2000))
    found = diagnose(log, lambda s: s[:, :1])
    assert any("Joint features are used" in note for note in found.notes)
    assert found.verdict.settings == {"features": Joint(2, 1)}
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


def test_actions_never_logged_withhold_every_level(rng: np.random.Generator):
    log = bandit(rng, propensity=False, action_space=3)
    found = diagnose(log, lambda s: np.where(s[:, 0] > 0, 2, 0))
    assert found.overlap is not None
    assert found.overlap.unlogged == pytest.approx(0.5, abs=0.05)
    assert found.verdict.level is None
    assert any("were never logged" in reason for reason in found.verdict.reasons)


def test_a_handful_of_rewards_is_not_an_outlier(rng: np.random.Generator):
    log = bandit(rng, propensity=False)
    rewards = np.zeros(4000)
    rewards[[7, 1234]] = 100.0
    verdict = diagnose(log.with_rewards(rewards), to_the_right).verdict
    assert verdict.mean is None
    assert verdict.level is None
    assert any("Only 2 of 4,000 samples" in reason for reason in verdict.reasons)


def test_the_k_path_of_constant_rewards_is_flat(rng: np.random.Generator):
    log = bandit(rng).with_rewards(np.full(4000, 2.5))
    path = diagnose(log).k_path
    assert path.folds == (1, 3, 5, 6, 10, 15, 20, 30)
    assert path.values == pytest.approx([2.5] * 8)
    assert not path.drifts


def test_the_k_path_of_skewed_rewards_drifts(rng: np.random.Generator):
    log = bandit(rng).with_rewards(rng.pareto(1.1, 4000))
    path = diagnose(log).k_path
    assert path.values[0] == pytest.approx(log.rewards.mean())
    assert path.drift < 0


def test_small_logs_are_diagnosed_without_promises(rng: np.random.Generator):
    for n in (1, 2, 3, 50):
        log = Log.from_arrays(
            np.zeros(n), np.zeros(n, dtype=int), rng.normal(size=n), np.zeros(n), episode=[0] * n
        )
        found = diagnose(log)
        assert found.verdict.level is None
        assert found.verdict.folds == 1
        assert any("1 episodes are too few" in reason for reason in found.verdict.reasons)
        with pytest.raises(LevelError, match="Bounds need two folds or more"):
            found.verdict.bounds()


def test_constant_and_huge_rewards_do_no_harm(rng: np.random.Generator):
    log = bandit(rng)
    for rewards in (np.zeros(4000), np.full(4000, -3.0), 1e200 * rng.normal(size=4000)):
        found = diagnose(log.with_rewards(rewards), to_the_right)
        assert found.verdict.method == "ips"
        json.dumps(found.to_dict(), allow_nan=False)


def test_the_same_seed_gives_the_same_diagnosis(cartpole: CartPole):
    assert (
        noisy(cartpole, StudentT(df=1.5), episodes=30).to_dict()
        == noisy(cartpole, StudentT(df=1.5), episodes=30).to_dict()
    )


def test_results_become_text_json_and_frames(storm: Diagnosis):
    text = str(storm)
    assert text.splitlines()[0] == storm.verdict.summary
    assert "2021-02-16  moves the estimate by" in text
    record = json.loads(json.dumps(storm.to_dict(), allow_nan=False))
    assert record["verdict"]["call"] == storm.verdict.call
    assert record["tails"]["rewards"]["skew"] == storm.tails["rewards"].skew
    assert record["influence"]["episodes"][0]["episode"] == storm.influence.episodes[0].episode
    frame = storm.to_frame()
    assert list(frame.columns) == ["about", "quantity", "value", "low", "high"]
    row = frame[(frame.about == "rewards") & (frame.quantity == "left tail index (hill)")].iloc[0]
    assert row.value == storm.tails["rewards"].left.alpha
    assert set(frame.about) >= {"clustering", "overlap", "Bellman residuals", "K-path", "folds"}


def test_our_own_warnings_become_notes():
    log = Log.from_arrays(
        np.zeros((40, 2)), [0, 1] * 20, np.arange(40.0), np.zeros((40, 2)), episode=range(40)
    )
    singular = diagnose(log, lambda s: np.zeros(len(s), dtype=int), method="lstd")
    assert all(isinstance(note, str) for note in singular.notes)
    assert singular.influence.value == pytest.approx(19.0, rel=1e-3)


def test_bad_input_is_named(cartpole: CartPole):
    log = cartpole.log(episodes=5, seed=1)
    with pytest.raises(TailproofError, match="gamma, the discount, must be given"):
        diagnose(log, cartpole.target())
    with pytest.raises(LogError, match="gamma=1 needs every episode to terminate"):
        diagnose(log, cartpole.target(), gamma=1.0)
    with pytest.raises(TailproofError, match=r"gamma must lie in \[0, 1\]. Got -1"):
        diagnose(log, gamma=-1)
    with pytest.raises(LogError, match=r"A log is read from a file.*Got list"):
        diagnose([1, 2, 3])
    with pytest.raises(MethodError, match="There is no method 'median'"):
        diagnose(log, method="median")
    with pytest.raises(PolicyError, match="A policy is a callable"):
        diagnose(log, 3, gamma=0.9)
    rng = np.random.default_rng(0)
    never = bandit(rng)
    with pytest.raises(LogError, match="the log says nothing about it"):
        diagnose(
            Log.from_arrays(
                never.states, np.zeros(4000, dtype=int), never.rewards, never.states,
                episode=range(4000), propensity=np.full(4000, 0.5), action_space=2,
            ),
            lambda s: np.ones(len(s), dtype=int),
        )  # fmt: skip
