import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingRegressor
from sklearn.linear_model import Ridge

from tailproof import (
    DR,
    FQE,
    LSTD,
    MIS,
    Absolute,
    Joint,
    Log,
    Mean,
    Median,
    Method,
    PerAction,
    Polynomial,
    Quantile,
    Split,
    Whole,
    evaluate,
    k_path,
    method,
)
from tailproof.critics.ensembles import LinearCritics
from tailproof.critics.task import Task
from tailproof.errors import (
    CoverageWarning,
    FoldError,
    FoldWarning,
    LevelError,
    LogError,
    MethodError,
    PartitionError,
    SingularError,
    SingularWarning,
    TailproofError,
)
from tailproof.policies.forms import EpsilonGreedy, Uniform
from tailproof.robust.means import Catoni

GAMMA = 0.9
CRITICS = ["fqe", "lstd", "roam-dm", "roam-variant", "roam-fqe", "ma-dm", "b-roam-dm"]
NUMBERS = ["mis", "dr", "roam-mis", "roam-dr", "ma-mis", "b-roam-mis"]


def one_hot(world):
    return PerAction(Polynomial(degree=1, bias=False), world.n_states, world.action_space.n)


@pytest.mark.parametrize("name", CRITICS + NUMBERS)
def test_every_row_finds_the_exact_value_of_a_tabular_mdp(name, tabular):
    log = tabular.log(episodes=300, steps=60, seed=1)
    policy = tabular.optimal(gamma=GAMMA)
    truth = tabular.value(policy, gamma=GAMMA)
    chosen = method(name, features=one_hot(tabular), ridge=1e-9)
    if hasattr(chosen.base, "critic"):
        chosen = chosen.with_settings(critic=LSTD(features=one_hot(tabular), ridge=1e-9))
    starts = np.eye(tabular.n_states)
    weights = np.round(tabular.initial * 2000).astype(int)
    estimate = evaluate(
        log, policy, method=chosen, gamma=GAMMA, initial_states=np.repeat(starts, weights, axis=0)
    )
    assert estimate.value == pytest.approx(truth, rel=0.06)


@pytest.fixture(scope="module")
def linear_logs(linear):
    """The optimal policy of a linear MDP, its first states, and a small and a large log."""
    logs = [linear.log(episodes=episodes, steps=50, seed=2) for episodes in (40, 4000)]
    return linear.optimal(gamma=GAMMA), linear.start(20_000, np.random.default_rng(0)), logs


@pytest.mark.slow
@pytest.mark.parametrize("name", ["fqe", "lstd", "mis", "dr", "roam-dm", "roam-fqe", "roam-mis"])
def test_every_row_converges_on_a_linear_mdp(name, linear, linear_logs):
    policy, starts, logs = linear_logs
    truth = linear.value(policy, gamma=GAMMA)
    chosen = method(name, features=linear.features, ridge=1e-9)
    if hasattr(chosen.base, "critic"):
        chosen = chosen.with_settings(critic=LSTD(features=linear.features, ridge=1e-9))
    errors = [
        np.abs(
            evaluate(log, policy, method=chosen, gamma=GAMMA, initial_states=starts).value - truth
        )
        for log in logs
    ]
    assert errors[1] < 0.02 * abs(truth) + 0.05
    assert errors[1] < errors[0] + 0.02


def test_lstd_linear_mis_and_linear_dr_are_one_number(heavy_log, cartpole):
    bases = [LSTD(ridge=0.0), MIS(ridge=0.0), DR(ridge=0.0, critic=LSTD(ridge=0.0), parts=1)]
    for split in (Split(1), Split(4)):
        values = [
            evaluate(
                heavy_log, cartpole.target(), method=Method(base=base, partition=split), gamma=0.99
            ).fold_values
            for base in bases
        ]
        assert np.allclose(values[0], values[1], rtol=1e-6)
        assert np.allclose(values[0], values[2], rtol=1e-6)


def test_fqe_converges_to_lstd(heavy_log, cartpole):
    run = [
        evaluate(heavy_log, cartpole.target(), method=m, gamma=0.9).value
        for m in (method("fqe", iterations=2000), method("lstd"))
    ]
    assert run[0] == pytest.approx(run[1], rel=1e-8)


def test_fqe_equals_refitting_ridge_each_iteration(heavy_log, cartpole):
    """The obvious implementation, on one fold, with the paper's absolute ridge."""
    log, gamma, iterations = heavy_log, 0.99, 30
    psi, next_psi = Polynomial()(log.states), Polynomial()(log.next_states)
    chosen = np.asarray(cartpole.target()(log.next_states))
    targets = log.rewards / (1 - gamma)
    models = {}
    for _ in range(iterations + 1):
        for action in (0, 1):
            rows = log.actions == action
            models[action] = Ridge(alpha=0.01, fit_intercept=False).fit(psi[rows], targets[rows])
        after = np.where(chosen == 0, models[0].predict(next_psi), models[1].predict(next_psi))
        targets = log.rewards + gamma * after
    first = Polynomial()(log.first_states)
    taken = np.asarray(cartpole.target()(log.first_states))
    by_hand = np.where(taken == 0, models[0].predict(first), models[1].predict(first)).mean()
    ours = method("fqe", ridge=Absolute(0.01), iterations=iterations)
    assert evaluate(log, cartpole.target(), method=ours, gamma=gamma).value == pytest.approx(
        by_hand
    )


def test_roam_fqe_equals_medians_inside_every_target(heavy_log, cartpole):
    log, gamma, count, iterations = heavy_log, 0.95, 3, 5
    features = PerAction(Polynomial(), 4, 2)
    ours = evaluate(
        log,
        cartpole.target(),
        method=method("roam-fqe", folds=count, iterations=iterations, ridge=Absolute(1.0)),
        gamma=gamma,
        seed=9,
    )
    partition_rng = np.random.default_rng(9).spawn(2)[0]
    folds = Split(count).assign(log, partition_rng)
    rows = [log.rows(folds.episodes(k)) for k in range(count)]
    phi = features(log.states, log.actions)
    after = features(log.next_states, cartpole.target()(log.next_states))

    def fit(k, target):
        own = phi[rows[k]]
        return np.linalg.solve(own.T @ own + np.eye(own.shape[1]), own.T @ target[rows[k]])

    theta = np.stack([fit(k, log.rewards / (1 - gamma)) for k in range(count)])
    for _ in range(iterations):
        target = log.rewards + gamma * np.median(after @ theta.T, axis=1)
        theta = np.stack([fit(k, target) for k in range(count)])
    start = features(log.first_states, cartpole.target()(log.first_states))
    assert ours.value == pytest.approx(np.median(start @ theta.T, axis=1).mean())


def test_terminated_transitions_stop_the_backup_and_truncated_ones_do_not():
    """One state, reward 1, γ = ½: 2 if life goes on, 1 if it ends after the step."""
    state = np.ones((40, 1))
    features = PerAction(Polynomial(degree=1, bias=False), 1, 1)
    for terminated, truth in ((False, 2.0), (True, 1.0)):
        log = Log.from_arrays(
            state,
            np.zeros(40, dtype=int),
            np.ones(40),
            state,
            episode=np.arange(40),
            terminated=np.full(40, terminated),
            truncated=np.full(40, not terminated),
        )
        for name in CRITICS[:3] + NUMBERS[:1]:
            chosen = method(name, features=features, ridge=0.0)
            value = evaluate(log, lambda s: np.zeros(len(s), int), method=chosen, gamma=0.5).value
            assert value == pytest.approx(truth)


def test_gamma_one_on_episodes_that_end(tabular):
    world = type(tabular).random(states=4, actions=2, seed=3, termination=0.2)
    log = world.log(episodes=800, steps=400, seed=0)
    policy = world.optimal(gamma=1.0)
    features = one_hot(world)
    for name in ("lstd", "fqe", "mis"):
        chosen = method(name, features=features, ridge=1e-9)
        value = evaluate(log, policy, method=chosen, gamma=1.0).value
        assert value == pytest.approx(world.value(policy, gamma=1.0), rel=0.25)


def test_episodes_of_unequal_length_are_fine(cartpole):
    whole = cartpole.log(episodes=30, steps=40, seed=0)
    pieces = [whole[i] for i in range(30)]
    keep = np.concatenate([np.arange(10 + i % 30) + 40 * i for i in range(len(pieces))])
    log = Log.from_arrays(
        whole.states[keep],
        whole.actions[keep],
        whole.rewards[keep],
        whole.next_states[keep],
        episode=whole.episode_of_row[keep],
    )
    assert len(set(log.lengths)) > 5
    estimate = evaluate(log, cartpole.target(), method="roam-dm", gamma=0.9)
    assert estimate.value == pytest.approx(10, abs=0.3)


def test_clipping_is_winsorising_before_anything_else(heavy_log, cartpole):
    low, high = np.quantile(heavy_log.rewards, [0.01, 0.99])
    clipped = heavy_log.with_rewards(np.clip(heavy_log.rewards, low, high))
    by_hand = evaluate(clipped, cartpole.target(), method="fqe", gamma=0.9).value
    ours = evaluate(heavy_log, cartpole.target(), method=method("fqe", clip=0.01), gamma=0.9)
    assert ours.value == by_hand


def test_pooled_weights_need_one_fit_and_any_mean(heavy_log, cartpole):
    pooled = evaluate(heavy_log, cartpole.target(), method=method("mis", mean=Catoni()), gamma=0.99)
    task = Task(heavy_log, 0.99, cartpole.target())
    numbers = MIS(mean=Catoni()).estimate(task, Whole().assign(heavy_log, None), rng=None)
    samples = numbers.samples[0]
    assert pooled.value == pytest.approx(Catoni()(samples))
    lstd = evaluate(heavy_log, cartpole.target(), method="lstd", gamma=0.99)
    assert samples.mean() == pytest.approx(lstd.value)
    weights = numbers.weights[0]
    assert (0.01 * weights).mean() == pytest.approx(1, abs=0.01)  # (1 − γ) w is a density ratio


def test_units_sum_over_episodes_and_groups(cartpole):
    log = cartpole.log(episodes=24, steps=20, seed=0)
    grouped = log.with_groups(log.episode_of_row // 4)
    plain = evaluate(log, cartpole.target(), method="mis", gamma=0.9).value
    for unit in ("step", "episode", "group"):
        value = evaluate(
            grouped, cartpole.target(), method=method("mis", unit=unit), gamma=0.9
        ).value
        assert value == pytest.approx(plain)


@pytest.mark.filterwarnings("ignore::tailproof.errors.HorizonWarning")
def test_self_normalised_weights_recover_constant_rewards(cartpole):
    log = cartpole.log(episodes=20, steps=30, seed=0)
    constant = log.with_rewards(np.full(log.n_transitions, 3.0))
    chosen = method("mis", self_normalised=True)
    value = evaluate(constant, cartpole.target(), method=chosen, gamma=0.9).value
    assert value == pytest.approx(30)
    ended = Log.from_arrays(
        log.states, log.actions, log.rewards, log.next_states,
        episode=log.episode_of_row, terminated=log.truncated,
    )  # fmt: skip
    with pytest.raises(MethodError, match="self_normalised=True needs γ < 1 and a log without"):
        evaluate(ended, cartpole.target(), method=chosen, gamma=0.9)


@pytest.mark.parametrize("name", ["fqe", "roam-dm", "roam-fqe"])
def test_any_scikit_learn_regressor_is_a_q_model(name, cartpole):
    log = cartpole.log(episodes=20, steps=30, seed=0)
    chosen = method(name, model=HistGradientBoostingRegressor(max_iter=20), iterations=4)
    first = evaluate(log, cartpole.target(), method=chosen, gamma=0.5)
    assert first.value == pytest.approx(2, abs=0.2)
    assert evaluate(log, cartpole.target(), method=chosen, gamma=0.5).value == first.value


def test_a_linear_regressor_is_the_linear_algorithm(cartpole):
    log = cartpole.log(episodes=20, steps=30, seed=0)

    class JointPlain:
        size = 6

        def __call__(self, states, actions):
            return np.column_stack([states, np.eye(2)[actions]])

    by_model = method("fqe", model=Ridge(alpha=1.0, fit_intercept=False), iterations=7)
    by_algebra = method("fqe", features=JointPlain(), ridge=Absolute(1.0), iterations=7)
    values = [
        evaluate(log, cartpole.target(), method=m, gamma=0.9).value for m in (by_model, by_algebra)
    ]
    assert values[0] == pytest.approx(values[1])


def test_the_two_orders_of_roam_fqe_agree_for_deterministic_policies_only(heavy_log, cartpole):
    def run(policy, first):
        chosen = method("roam-fqe", aggregate_first=first, iterations=20)
        return evaluate(heavy_log, policy, method=chosen, gamma=0.9).value

    assert run(cartpole.target(), True) == pytest.approx(run(cartpole.target(), False))
    mixed = EpsilonGreedy(cartpole.target(), 0.5, n_actions=2)
    assert run(mixed, True) != pytest.approx(run(mixed, False), rel=1e-12)


class Shifted:
    """A Gaussian policy around −s, with density."""

    def sample(self, states, rng):
        return -states[:, :1] + 0.1 * rng.normal(size=(len(states), 1))

    def log_prob(self, states, actions):
        return -0.5 * ((actions - -states[:, :1]) / 0.1)[:, 0] ** 2 - np.log(
            0.1 * np.sqrt(2 * np.pi)
        )


def continuous_log(n=3000, seed=0):
    """s' = 0.5 s + a + noise, r = −s² − a²: quadratic, so `Joint` features are exact."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, 1))
    actions = rng.normal(size=(n, 1))
    after = 0.5 * states + actions + 0.1 * rng.normal(size=(n, 1))
    rewards = (-(states**2) - actions**2)[:, 0]
    return Log.from_arrays(states, actions, rewards, after, episode=np.arange(n) // 10)


@pytest.mark.parametrize("name", ["fqe", "lstd", "mis", "dr", "roam-dm", "roam-fqe", "roam-mis"])
def test_continuous_actions_through_joint_features(name):
    log, gamma = continuous_log(), 0.8
    features = Joint(state_dimension=1, action_dimension=1)
    chosen = method(name, features=features)
    if name == "dr":
        chosen = chosen.with_settings(critic=LSTD(features=features))
    # V(s) = −a s² − b for π(s) = −s + 0.1 z: s' = −s/2 + 0.1 z + 0.1 e
    a = 2 / (1 - gamma / 4)
    b = (0.01 + gamma * a * 0.02) / (1 - gamma)
    truth = -(a * np.mean(log.first_states**2) + b)
    estimate = evaluate(log, Shifted(), method=chosen, gamma=gamma)
    assert estimate.value == pytest.approx(truth, rel=0.05)


def test_ridge_by_cross_validation_is_repeatable_and_shrinks_noise(cartpole):
    log = cartpole.log(episodes=20, steps=30, seed=0)
    noisy = log.with_rewards(np.random.default_rng(0).standard_t(1.1, log.n_transitions))
    chosen = method("lstd", ridge="cv")
    first = evaluate(noisy, cartpole.target(), method=chosen, gamma=0.9).value
    assert first == evaluate(noisy, cartpole.target(), method=chosen, gamma=0.9).value
    plain = evaluate(noisy, cartpole.target(), method="lstd", gamma=0.9).value
    assert abs(first) < abs(plain)


def test_the_k_path_starts_at_the_base_and_stops_at_the_log(cartpole):
    log = cartpole.log(episodes=10, steps=20, seed=0)
    path = k_path(log, cartpole.target(), gamma=0.9, folds=(1, 3, 5, 11))
    assert list(path) == [1, 3, 5]
    assert path[1] == pytest.approx(evaluate(log, cartpole.target(), method="fqe", gamma=0.9).value)


def test_seeds_decide_everything(heavy_log, cartpole):
    def run(seed):
        return evaluate(heavy_log, cartpole.target(), method="roam-dr", gamma=0.9, seed=seed)

    assert np.array_equal(run(1).fold_values, run(1).fold_values)
    assert not np.array_equal(run(1).fold_values, run(2).fold_values)


class Broken(LSTD):
    """LSTD with some members spoilt after the fit."""

    bad = (1,)

    def fit(self, task, folds, *, backup=None, rng):
        fitted = super().fit(task, folds, backup=backup, rng=rng)
        theta = fitted.critics.theta.copy()
        theta[list(self.bad)] = np.nan
        return type(fitted)(LinearCritics(fitted.critics.features, theta, fitted.critics.diverged))


class HalfBroken(Broken):
    bad = (0, 1, 2)


def test_a_bad_fold_is_named_and_left_out(heavy_log, cartpole):
    for at in ("value", "pointwise"):
        chosen = Method(base=Broken(), partition=Split(5), aggregate=Median(), at=at)
        with pytest.warns(
            FoldWarning, match=r"1 of 5 folds .* left out: fold 1 \(episodes .*; value nan\)"
        ):
            estimate = evaluate(heavy_log, cartpole.target(), method=chosen, gamma=0.9)
        assert estimate.bad_folds == (1,)
        assert np.isfinite(estimate.value)
        assert estimate.fold_values.shape == (4,)
    chosen = Method(base=HalfBroken(), partition=Split(5), aggregate=Median(), at="value")
    with pytest.raises(FoldError, match=r"3 of 5 folds diverged or are not finite.* larger ridge"):
        evaluate(heavy_log, cartpole.target(), method=chosen, gamma=0.9)


def test_a_diverging_fqe_is_noticed():
    """Tsitsiklis and Van Roy's two states: values 1 and 2 of one feature, and the second absorbs."""
    n = 200
    states = np.tile([1.0, 2.0], n // 2)
    log = Log.from_arrays(
        states, np.zeros(n, int), np.ones(n), np.full(n, 2.0), episode=np.arange(n) // 2
    )
    features = PerAction(Polynomial(degree=1, bias=False), 1, 1)
    chosen = method("roam-dm", features=features, ridge=0.0)
    with pytest.raises(FoldError, match="5 of 5 folds diverged"):
        evaluate(log, lambda s: np.zeros(len(s), int), method=chosen, gamma=0.99)
    for iterations in (2, 5, 9):
        few = method("fqe", features=features, ridge=0.0, iterations=iterations)
        with pytest.raises(FoldError, match="1 of 1 folds diverged"):
            evaluate(log, lambda s: np.zeros(len(s), int), method=few, gamma=0.99)
        fine = evaluate(log, lambda s: np.zeros(len(s), int), method=few, gamma=0.5)
        assert np.isfinite(fine.value)


def test_backups_leave_out_members_that_overflow(heavy_log, cartpole):
    rewards = heavy_log.rewards.copy()
    rewards[: heavy_log.starts[1]] = 1e307
    with pytest.warns(FoldWarning, match="1 of 5 folds"):
        estimate = evaluate(
            heavy_log.with_rewards(rewards), cartpole.target(), method="roam-fqe", gamma=0.99
        )
    assert abs(estimate.value) < 1e4


@pytest.mark.parametrize("features", ["splines", "polynomial"])
def test_features_by_name_serve_the_logged_value_too(heavy_log, cartpole, features):
    chosen = method("roam-dm", features=features)
    assert np.isfinite(
        evaluate(heavy_log, cartpole.target(), method=chosen, gamma=0.9).logged_value
    )


def test_intervals_come_from_folds_and_refuse_what_folds_cannot_give(heavy_log, cartpole):
    estimate = evaluate(heavy_log, cartpole.target(), method="roam-variant", gamma=0.9)
    interval = estimate.interval(0.9)
    assert interval.low <= estimate.value <= interval.high
    assert interval.level == pytest.approx(0.9375)
    assert estimate.interval(0.95, kind="t").low < estimate.interval(0.8, kind="t").low
    assert estimate.lower_bound(0.9).value == estimate.fold_values.min()
    assert estimate.lower_bound(0.9, kind="t").value <= estimate.value
    assert estimate.quantile_bound(0.4).value <= estimate.value
    with pytest.raises(LevelError, match="6"):
        estimate.interval(0.95)
    with pytest.raises(LevelError, match="An interval needs the values of several folds"):
        evaluate(heavy_log, cartpole.target(), method="fqe", gamma=0.9).interval(0.9)
    with pytest.raises(LevelError, match="kind must be one of 'order', 't', or None"):
        estimate.interval(0.9, kind="normal")
    with pytest.raises(MethodError, match="This method aggregates inside every backup"):
        evaluate(heavy_log, cartpole.target(), method="roam-fqe", gamma=0.9).with_aggregate(Mean())


def test_catalogue_settings_reach_the_base_and_typos_do_not():
    assert method("roam-dm", folds=7).folds == 7
    assert method("roam-dm", base="lstd").base == LSTD()
    assert method("roam-dm", base=FQE(iterations=3)).base.iterations == 3
    assert method("roam-dm", aggregate=Quantile(0.2)).aggregate == Quantile(0.2)
    assert method("roam-dm", confidence=0.95).folds == 30
    for name, settings, text in (
        ("roam", {}, "There is no method 'roam'. Did you mean 'roam-.*`tailproof methods` lists"),
        ("fqe", {"folds": 5}, "'fqe' fits one member on the whole log and has no folds"),
        ("fqe", {"rigde": 1.0}, "FQE has no setting 'rigde'. It has aggregate_first"),
        ("fqe", {"ridge": -1.0}, "ridge must be a number of at least 0"),
        ("fqe", {"iterations": 0}, "iterations must be a whole number of at least 1"),
        ("fqe", {"clip": 0.7}, "clip must be a number in"),
        ("fqe", {"model": "forest"}, "model must be a scikit-learn regressor"),
        ("fqe", {"start": "one"}, "start must be 'reward' or 'zero'"),
        ("mis", {"mean": 3}, "mean must be one of tailproof.means"),
        ("mis", {"unit": "week"}, "unit must be one of step, episode, group"),
        ("dr", {"critic": MIS()}, "critic must be a base that fits critics"),
        ("roam-dm", {"base": "sarsa"}, "There is no base 'sarsa'"),
        ("roam-dm", {"folds": 5, "confidence": 0.9}, "Give folds or confidence, not both"),
    ):
        with pytest.raises(MethodError, match=text.replace("(", r"\(")):
            method(name, **settings)


def test_what_makes_no_sense_is_refused_before_fitting():
    for arguments, text in (
        ({"base": LSTD(), "at": "backup"}, "LSTD can be combined at 'value' or 'pointwise'"),
        ({"base": MIS(), "at": "pointwise"}, "MIS gives one number for each fold"),
        ({"base": "fqe"}, "base must be an algorithm"),
        ({"base": FQE(), "partition": 5}, "partition must be Whole"),
        ({"base": FQE(), "aggregate": "median"}, "aggregate must be Mean"),
        ({"base": FQE(), "at": "end"}, "at must be one of value, pointwise, backup"),
    ):
        with pytest.raises(MethodError, match=text):
            Method(**arguments)


def test_bad_input_is_refused_by_name(heavy_log, cartpole):
    target = cartpole.target()
    for gamma in (-0.1, 1.1, float("nan")):
        with pytest.raises(TailproofError) as caught:
            evaluate(heavy_log, target, gamma=gamma)
        assert caught.value.argument == "gamma"
    with pytest.raises(LogError, match=r"gamma=1 needs every episode to terminate\. 40 of 40"):
        evaluate(heavy_log, target, gamma=1.0)
    with pytest.raises(TailproofError, match="gamma, the discount, must be given"):
        evaluate(heavy_log, target)
    with pytest.raises(PartitionError, match=r"5 folds need at least 5 episodes\. The log has 1"):
        evaluate(heavy_log[0], target, method="roam-dm", gamma=0.9)
    with pytest.raises(LogError, match=r"A log is read from a file"):
        evaluate(heavy_log.states, target, gamma=0.9)
    with pytest.raises(MethodError, match="method must be a name or a Method"):
        evaluate(heavy_log, target, method=3, gamma=0.9)
    for starts, text in (
        (np.zeros((2, 3)), r"initial_states must have the shape \(m, 4\)"),
        (np.full((2, 4), np.nan), "initial_states must be finite"),
    ):
        with pytest.raises(TailproofError, match=text):
            evaluate(heavy_log, target, gamma=0.9, initial_states=starts)
    with pytest.raises(
        PartitionError, match=r"Cross-fitting in 2 parts needs 2 groups .* Fold 0 has 1"
    ):
        evaluate(heavy_log[:5], target, method="roam-dr", gamma=0.9)


def test_a_singular_feature_matrix_is_named(cartpole):
    log = cartpole.log(episodes=10, steps=20, seed=0)
    doubled = Log.from_arrays(
        log.states[:, [0, 0]], log.actions, log.rewards, log.next_states[:, [0, 0]],
        episode=log.episode_of_row,
    )  # fmt: skip

    def policy(states):
        return np.zeros(len(states), dtype=int)

    with pytest.raises(SingularError, match=r"fold 0 has rank 6 of 8.* Use a positive ridge"):
        evaluate(doubled, policy, method=method("lstd", ridge=0.0), gamma=0.9)
    one = Log.from_arrays(
        log.states[:, :1], log.actions, log.rewards, log.next_states[:, :1],
        episode=log.episode_of_row,
    )  # fmt: skip
    plain = method("lstd", ridge=1e-9)
    values = [evaluate(each, policy, method=plain, gamma=0.9).value for each in (doubled, one)]
    # the policy goes nowhere that the log has not been, so the ridge only divides equal features;
    # products of the doubled state add squares, hence the tolerance
    assert values[0] == pytest.approx(values[1], rel=0.05)


def test_actions_that_were_never_logged_are_named(cartpole):
    log = cartpole.log(episodes=10, steps=20, seed=0)
    wider = Log.from_arrays(
        log.states, log.actions, log.rewards, log.next_states,
        episode=log.episode_of_row, action_space=3,
    )  # fmt: skip
    with (
        pytest.warns(SingularWarning, match="belong to an action that the fold never takes"),
        pytest.warns(
            CoverageWarning, match=r"takes action 2 with probability 0\.33 but the log never"
        ),
    ):
        evaluate(wider, Uniform(3), method="lstd", gamma=0.9)
