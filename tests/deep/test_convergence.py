"""The clock of the critics, values against returns, early stopping, and what a history shows."""

from dataclasses import replace

import numpy as np
import pytest

from tailproof import (
    Continuous,
    Learned,
    Log,
    Mean,
    Quantile,
    Replicate,
    Split,
    Whole,
    learn,
    method,
)
from tailproof.critics.task import Task
from tailproof.deep import IQL, SAC, SQL, TD3BC, EarlyStopping, History, NeuralFQE, Run
from tailproof.deep.history import horizon_of, returns_to_go
from tailproof.errors import ConvergenceWarning, MethodError

SMALL = {"hidden": (16, 16), "batch": 64, "learning_rate": 3e-3}
RUN = Run(threads=1, log_every=50)


def rng(seed=0):
    return np.random.default_rng(seed)


def steady(reward=2.0, episodes=6, length=60, *, terminated=False):
    """Return a log whose every step earns the same, so that V is known: reward · Σγᵗ."""
    n = episodes * length
    generator = rng(3)
    states, actions = generator.standard_normal((n, 2)), generator.uniform(-1, 1, (n, 1))
    episode = np.repeat(np.arange(episodes), length)
    ends = np.append(episode[1:] != episode[:-1], True)
    return Log.from_arrays(
        states,
        actions,
        np.full(n, reward),
        generator.standard_normal((n, 2)),
        episode=episode,
        terminated=ends & terminated,
        action_space=Continuous(1, (-1.0,), (1.0,)),
    )


def fit(log, base, gamma=0.9, partition=None):
    task = Task(log, gamma, None, log.first_states)
    folds = (partition or Whole()).assign(log, rng())
    return base.fit(task, folds, backup=None, rng=rng(1))


def test_a_value_looks_as_far_ahead_as_the_discount_or_the_episode_goes():
    assert horizon_of(steady(), 0.99) == pytest.approx(100)
    assert horizon_of(steady(terminated=True), 0.99) == 60
    assert horizon_of(steady(terminated=True), 0.5) == pytest.approx(2)
    assert horizon_of(steady(terminated=True), 1.0) == 60


def test_returns_of_every_row():
    log = steady(reward=1.0, episodes=2, length=3)
    expected = [1 + 0.5 + 0.25, 1 + 0.5, 1.0] * 2
    np.testing.assert_allclose(returns_to_go(log, 0.5), expected)


def test_the_target_rate_follows_the_steps():
    assert IQL(steps=200_000).rate(100) == 0.005
    assert IQL(steps=15_000).rate(100) == pytest.approx(0.1 / 3)
    assert IQL(steps=10).rate(100) == 0.1
    assert IQL(steps=10, target_rate=0.3).rate(100) == 0.3
    for wrong in (0.0, 1.5, "fast"):
        with pytest.raises(MethodError, match="target_rate must be"):
            IQL(target_rate=wrong)


def test_converged_critics_are_worth_the_logged_returns():
    log = steady()
    base = IQL(steps=800, policy_steps=1, run=RUN, **SMALL)
    found = fit(log, base, partition=Split(2)).training.convergence
    assert found.time_constants == pytest.approx(5)
    assert found.ratio == pytest.approx(1, abs=0.1)
    assert found.value == pytest.approx(returns_to_go(log, 0.9).mean(), rel=0.15)
    assert abs(found.trend) < 0.2
    assert "mean V" in str(found)


def test_values_of_a_converged_critic_do_not_depend_on_where_recording_stopped():
    """What lies beyond a truncated end is left out of values and of returns."""
    base = IQL(steps=800, policy_steps=1, run=RUN, **SMALL)
    for length in (8, 60):
        log = steady(episodes=240 // length, length=length)
        assert fit(log, base).training.convergence.ratio == pytest.approx(1, abs=0.12)


def test_brief_training_warns_and_says_what_would_do():
    base = IQL(steps=60, policy_steps=1, target_rate=0.005, run=RUN, **SMALL)
    with pytest.warns(
        ConvergenceWarning,
        match=r"0.03 time constants .*% of the logged returns\. Use steps=6_000;",
    ):
        fit(steady(), base)
    slow = IQL(steps=600, policy_steps=1, target_rate=0.005, run=RUN, **SMALL)
    with pytest.warns(ConvergenceWarning, match=r"Use steps=6_000 or target_rate=0.05;"):
        found = fit(steady(), slow).training.convergence
    assert found.ratio < 0.7


@pytest.mark.parametrize("base", [NeuralFQE, SAC], ids=lambda base: base.__name__)
def test_every_critic_has_a_clock(base):
    log = steady(episodes=3)
    policy = None if base is SAC else lambda states: np.zeros((len(states), 1))
    task = Task(log, 0.9, policy, log.first_states)
    made = base(steps=60, batch=16, hidden=(8,), target_rate=0.01, run=Run(threads=1, log_every=20))
    backup = Quantile(0.0) if base is SAC else None
    with pytest.warns(ConvergenceWarning, match="0.06 time constants"):
        fitted = made.fit(task, Replicate(2).assign(log, rng()), backup=backup, rng=rng(1))
    found = fitted.training.convergence
    assert found.time_constants == pytest.approx(0.06)
    assert np.isnan(found.ratio)
    assert fitted.training["mean value"].values.shape == (3, 2)


def test_targets_that_follow_every_other_step_have_half_the_clock():
    log = steady(episodes=3)
    task = Task(log, 0.9, None, log.first_states)
    made = TD3BC(steps=60, batch=16, hidden=(8,), target_rate=0.01, run=Run(threads=1))
    with pytest.warns(ConvergenceWarning, match=r"0.03 time constants .* Use steps=6_000;"):
        fitted = made.fit(task, Whole().assign(log, rng()), backup=Mean(), rng=rng(1))
    assert fitted.training.convergence.time_constants == pytest.approx(0.03)
    assert TD3BC(steps=20_000).rate(100.0) == 2 * SAC(steps=20_000).rate(100.0)


def test_rewards_of_zero_are_not_compared_with_logged_returns():
    base = IQL(steps=20, policy_steps=1, zero_rewards=True, run=RUN, **SMALL)
    with pytest.warns(ConvergenceWarning, match=r"steps ahead\)\. Use steps=\d+\.$"):
        assert np.isnan(fit(steady(), base).training.convergence.ratio)


def test_workers_are_told_of_too():
    base = IQL(
        steps=40, policy_steps=1, run=Run(threads=1, log_every=20, workers=2), batch=16, hidden=(8,)
    )
    with pytest.warns(ConvergenceWarning):
        fitted = fit(steady(), base, gamma=0.99, partition=Split(2))
    assert fitted.training.members("mean value").shape == (2, 2)
    assert fitted.training.convergence.time_constants == pytest.approx(40 * 0.1 / 100)


def test_training_stops_when_its_values_have_settled_and_a_restart_stops_there_too(tmp_path):
    stop = EarlyStopping(quantity="mean value", patience=3, tolerance=0.1)
    base = IQL(steps=4_000, policy_steps=1, target_rate=0.05, stop=stop, **SMALL)
    settings = {"threads": 1, "log_every": 50, "checkpoint": tmp_path, "checkpoint_every": 10_000}
    base = replace(base, run=Run(**settings))
    first = fit(steady(), base)
    last = int(first.training["mean value"].steps[-1])
    assert last < 4_000
    assert first.training.convergence.time_constants >= 3
    assert first.training.convergence.ratio == pytest.approx(1, abs=0.15)
    again = fit(steady(), base)
    assert sorted(again.training) == sorted(first.training)
    states, actions = steady().states, steady().actions
    assert (again.critics.values(states, actions) == first.critics.values(states, actions)).all()


def test_what_is_not_measured_stops_nothing():
    stop = EarlyStopping(quantity="score", patience=1, tolerance=1e9)
    base = IQL(steps=100, policy_steps=5, target_rate=0.5, stop=stop, run=RUN, **SMALL)
    assert fit(steady(), base).training["mean value"].steps[-1] == 100
    for wrong in ({"patience": 0}, {"tolerance": 0.0}):
        with pytest.raises(MethodError):
            EarlyStopping(**wrong)


def test_the_papers_score_is_the_mean_of_the_last_ten_evaluations():
    history = History()
    for step in range(14):
        history = history.with_row(step, {"score": np.array([step, 2.0 * step])})
    assert history.mean_of_last("score").tolist() == [8.5, 17.0]  # of 4, ..., 13
    with pytest.raises(MethodError, match="no 'return'; it has score"):
        history.mean_of_last("return")


def test_a_history_iterates_and_becomes_a_frame():
    history = History()
    for step in (10, 20):
        history = history.with_row(step, {"q loss": np.array([1.0, 2.0]), "return": 5.0 + step})
    rows = list(history)
    assert len(rows) == len(history) == 6
    assert rows[0] == (10, "q loss", 0, 1.0)
    assert rows[-1]._asdict() == {"step": 20, "quantity": "return", "member": 0, "value": 25.0}
    frame = history.to_frame()
    assert list(frame["value"]) == [row.value for row in rows]


def test_as_published_is_the_published_code():
    for base in (IQL.as_published(steps=7), SQL.as_published(), SAC.as_published()):
        assert (base.standardise, base.reward_scale, base.target_rate) == (False, 1.0, 0.005)
    room, original = IQL.as_published(steps=7, policy_steps=30), IQL.as_published("original")
    assert (room.policy, room.share, room.limit, room.squash) == ("gaussian", 0.0, 1e8, False)
    assert (room.imitation.steps, room.imitation.cosine) == (30, 7)  # it rises again
    assert (original.limit, original.squash) == (100.0, True)
    assert original.imitation.cosine == original.policy_steps
    sparse, advantage = SQL.as_published(), SQL.as_published("original")
    assert (sparse.weight, sparse.layer_norm, sparse.alpha) == ("sparse", False, 10.0)
    assert (advantage.weight, advantage.layer_norm, advantage.alpha) == ("advantage", True, 1.0)
    assert (SAC.as_published().temperature, SAC.as_published().steps) == (1.0, 3_000_000)
    with pytest.raises(MethodError, match="code must be 'room' or 'original'"):
        IQL.as_published("mine")
    with pytest.raises(MethodError, match="policy must be 'deterministic' or 'gaussian'"):
        IQL(policy="cauchy")
    with pytest.raises(MethodError, match="weight must be 'sparse' or 'advantage'"):
        SQL(weight="exp")


@pytest.mark.parametrize("code", ["room", "original"])
@pytest.mark.parametrize("base", [IQL, SQL])
def test_published_bases_learn_from_raw_states_and_are_saved(base, code, tmp_path):
    log = steady(episodes=2, length=20)
    small = {"steps": 20, "policy_steps": 20, "batch": 16, "hidden": (8,), "run": Run(threads=1)}
    row = method("iql", base=base.as_published(code, **small))
    with pytest.warns(ConvergenceWarning):
        learned = learn(log, method=row, gamma=0.9)
    assert (learned.policy.scaling.state_mean == 0).all()
    assert np.abs(learned.policy(log.states)).max() <= 1
    learned.save(tmp_path / "policy")
    again = Learned.load(tmp_path / "policy")
    assert (again.policy(log.states) == learned.policy(log.states)).all()
    assert (
        again.members.state_values(log.states) == learned.members.state_values(log.states)
    ).all()
    assert again.method.base == replace(row.base, run=Run())


@pytest.mark.parametrize("discrete", [False, True])
def test_what_the_smaller_of_two_q_takes_is_told(discrete):
    log = steady()
    if discrete:
        chosen = (log.actions[:, 0] > 0).astype(int)
        log = Log.from_arrays(
            log.states, chosen, log.rewards, log.next_states, episode=log.episode_of_row
        )
    for twins in (1, 2):
        base = SQL(steps=50, policy_steps=1, twins=twins, run=RUN, target_rate=0.1, **SMALL)
        with pytest.warns(ConvergenceWarning):
            found = fit(log, base, partition=Split(2)).training
        taken = found["pessimism"].values
        assert taken.shape == found["mean value"].values.shape
        assert (taken == 0).all() if twins == 1 else (taken > 0).all()
        assert found.convergence.pessimism == pytest.approx(taken[-1].mean())
        assert ("the smaller of two Q takes" in str(found.convergence)) == (twins == 2)
