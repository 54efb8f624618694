"""The loop around the learners: what it measures, tells, refuses and survives."""

import csv
import sys
import types
from dataclasses import replace

import numpy as np
import pytest
import torch

from tailproof import Log, Median, Quantile, Replicate, Split, Whole, evaluate, learn, method
from tailproof.critics.task import Task
from tailproof.deep import (
    IQL,
    SAC,
    SQL,
    CSVLogger,
    Evaluation,
    MLflowLogger,
    NeuralFQE,
    Run,
    TensorBoardLogger,
    WandbLogger,
)
from tailproof.deep.data import Scaling, normal_draws, row_draws
from tailproof.deep.fitting import value_limits
from tailproof.deep.history import History
from tailproof.errors import (
    FoldError,
    FoldWarning,
    LogError,
    MethodError,
    TailproofError,
    require_module,
)
from tailproof.files import from_parts, to_parts
from tailproof.progress import estimate_time

#: What these tests train has no time to converge, and need not.
pytestmark = pytest.mark.filterwarnings("ignore::tailproof.errors.ConvergenceWarning")

SMALL = {"hidden": (16, 16), "batch": 32, "steps": 40}
RUN = Run(threads=1, log_every=10)


def rng(seed=0):
    return np.random.default_rng(seed)


def fit(task, base=None, partition=None, backup=None, **run):
    base = base or IQL(policy_steps=20, **SMALL)
    base = replace(base, run=replace(RUN, **run))
    folds = (partition or Split(3)).assign(task.log, rng())
    return base, base.fit(task, folds, backup=backup, rng=rng(1))


def test_history_holds_losses_scale_and_disagreement(task):
    _, fitted = fit(task)
    assert fitted.training["q loss"].steps.tolist() == [10, 20, 30, 40]
    for name in ("q loss", "v loss", "q scale"):
        assert fitted.training[name].values.shape == (4, 3)
    assert fitted.training["disagreement"].values.shape == (4, 1)
    assert (fitted.training["disagreement"].values > 0).all()
    np.testing.assert_array_equal(fitted.history, fitted.training["q loss"].values)


def test_csv_holds_the_history(task, tmp_path):
    base, fitted = fit(task, loggers=(CSVLogger(tmp_path),))
    base.extract(task, fitted, aggregate=Median(), rng=rng(2))
    with (tmp_path / "critics.csv").open() as file:
        rows = list(csv.DictReader(file))
    values = [float(row["value"]) for row in rows if row["quantity"] == "q loss"]
    np.testing.assert_allclose(values, fitted.training["q loss"].values.ravel())
    assert (tmp_path / "policy.csv").exists()
    fitted.training.to_csv(tmp_path / "all.csv")
    assert len((tmp_path / "all.csv").read_text().splitlines()) == len(rows) + 1


def test_csv_of_a_resumed_run_repeats_nothing(task, tmp_path):
    class StopError(Exception):
        pass

    class Stopper(CSVLogger):
        def write(self, step, measured):
            super().write(step, measured)
            if step == 20:
                raise StopError

    options = {"checkpoint": tmp_path / "saved", "checkpoint_every": 15}
    with pytest.raises(StopError):
        fit(task, loggers=(Stopper(tmp_path),), **options)
    _, fitted = fit(task, loggers=(CSVLogger(tmp_path),), **options)
    with (tmp_path / "critics.csv").open() as file:
        steps = [int(row["step"]) for row in csv.DictReader(file) if row["quantity"] == "v loss"]
    assert steps == np.repeat(fitted.training["v loss"].steps, 3).tolist()


class Recorder:
    """Stands in for the module mlflow and for a run of Weights & Biases."""

    def __init__(self):
        self.rows = []
        self.defined = []

    def log_metrics(self, values, step):
        self.rows.append((step, values))

    def define_metric(self, name, **options):  # noqa: ARG002
        self.defined.append(name)

    def log(self, values):
        self.rows.append(values)


def test_mlflow_and_wandb_are_told_every_row(task, monkeypatch):
    mlflow, wandb = Recorder(), Recorder()
    module = types.ModuleType("mlflow")
    module.log_metrics = mlflow.log_metrics
    monkeypatch.setitem(sys.modules, "mlflow", module)
    _, fitted = fit(task, loggers=(MLflowLogger(), WandbLogger(wandb)))
    assert [step for step, _ in mlflow.rows] == [10, 20, 30, 40]
    last = fitted.training["q loss"].values[-1]
    assert mlflow.rows[-1][1]["critics/q loss/1"] == last[1]
    assert wandb.rows[-1]["critics/q loss/2"] == last[2]
    assert wandb.rows[-1]["critics/step"] == 40
    assert wandb.defined == ["critics/step", "critics/*"]


def test_tensorboard_writes_events(task, tmp_path):
    pytest.importorskip("tensorboard")
    fit(task, loggers=(TensorBoardLogger(tmp_path),))
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(tmp_path / "critics")).Reload()
    assert [event.step for event in events.Scalars("q loss/0")] == [10, 20, 30, 40]


def test_a_missing_extra_says_what_to_install():
    with pytest.raises(TailproofError, match=r"pip install 'tailproof\[deep\]'"):
        require_module("no_such_module_anywhere", "'tailproof[deep]'", "Deep learning")


def test_long_training_says_first_how_long_it_takes(caplog):
    with caplog.at_level("INFO", "tailproof.estimates"):
        estimate_time("Training of critics", 40_000, 0.006)
        estimate_time("Training of critics", 100, 0.006)
    assert caplog.messages == ["Training of critics: 40,000 more steps take about 4 minutes."]


def test_neural_fqe_takes_fewer_steps_on_small_logs_unless_they_are_given(task):
    task = replace(task, policy=lambda states: np.zeros((len(states), task.log.actions.shape[1])))

    def steps(**settings):
        return NeuralFQE(**settings).prepare(task)[0].steps

    assert steps() == 15_000
    assert (steps(steps=70), steps(steps=40_000)) == (70, 40_000)
    batch = -(-task.log.n_transitions // 150)  # between 15,000 and 50,000 steps: 200 passes
    assert steps(batch=batch) == 200 * task.log.n_transitions // batch > 15_000


def test_progress_shows_rate_and_time_left(task, capsys):
    fit(task, progress=True)
    shown = capsys.readouterr().err
    assert "critics" in shown
    assert "40/40" in shown
    assert "steps/s" in shown


def test_training_puts_threads_and_denormals_back(task):
    torch.set_flush_denormal(False)
    threads = torch.get_num_threads()
    fit(task, replace(IQL(policy_steps=1, **SMALL), steps=1), threads=2)
    assert torch.get_num_threads() == threads
    assert (torch.full((1,), 1e-40) * 1.0).item() > 0


def test_evaluations_are_played_while_the_policy_trains(task):
    class Line:
        """Ten steps in which the reward is the first action."""

        def reset(self, seed):  # noqa: ARG002
            self.left = 10
            return np.zeros(3), {}

        def step(self, action):
            self.left -= 1
            return np.zeros(3), float(action[0]), False, self.left == 0, {}

        def close(self):
            pass

    evaluation = Evaluation(
        environment=Line, every=10, episodes=2, first=15, score=lambda r: r / 10
    )
    base, fitted = fit(task, evaluation=evaluation)
    found = base.extract(task, fitted, aggregate=Median(), rng=rng(2))
    assert found.training["return"].steps.tolist() == [20]
    action = found.policy(np.zeros((1, 3)))[0, 0]
    np.testing.assert_allclose(found.training["return"].values, [[10 * action]])
    np.testing.assert_allclose(found.training["score"].values, [[action]])
    _, sac = fit(task, SAC(**SMALL), Replicate(2), Quantile(0.0), evaluation=evaluation)
    assert sac.training["return"].steps.tolist() == [20, 30, 40]
    run = replace(RUN, evaluation=replace(evaluation, first=0))
    learned = learn(task.log, method=method("iql", policy_steps=20, run=run, **SMALL), gamma=0.9)
    assert learned.policy_history["score"].steps.tolist() == [10, 20]


def poison(monkeypatch, kind, member, step, value):
    """Let one member's parameters turn to `value` at one step."""
    real = kind.update

    def update(self, at):
        real(self, at)
        if at == step:
            with torch.no_grad():
                self.q.layers[0].weight[member] = value
                self.target_q.layers[0].weight[member] = value

    monkeypatch.setattr(kind, "update", update)


@pytest.mark.parametrize("value", [float("nan"), 1e12])
def test_a_member_that_explodes_is_reported_and_left_out(log, monkeypatch, value):
    from tailproof.deep.learners import FQELearner

    def policy(states):
        return np.zeros((len(states), 2))

    chosen = method("roam-dm", folds=3, base=NeuralFQE(**SMALL, run=RUN))
    fine = evaluate(log, policy, method=chosen, gamma=0.9)
    poison(monkeypatch, FQELearner, 1, 15, value)
    with pytest.warns(FoldWarning, match="1 of 3 folds diverged"):
        estimate = evaluate(log, policy, method=chosen, gamma=0.9)
    assert estimate.bad_folds == (1,)
    np.testing.assert_array_equal(estimate.fold_values, fine.fold_values[[0, 2]])


def test_in_the_backup_a_dead_member_does_not_reach_the_living(task, monkeypatch):
    from tailproof.deep.learners import ActorCriticLearner

    poison(monkeypatch, ActorCriticLearner, 1, 9, float("nan"))
    _, fitted = fit(task, SAC(**SMALL), Replicate(3), Quantile(0.0))
    assert fitted.critics.healthy().tolist() == [True, False, True]
    assert np.isfinite(fitted.policy(task.log.states)).all()
    assert np.isfinite(fitted.training["q loss"].values[:, [0, 2]]).all()


def test_training_stops_when_half_of_the_members_are_dead(task, monkeypatch):
    from tailproof.deep.learners import ImplicitLearner

    poison(monkeypatch, ImplicitLearner, 0, 5, float("nan"))
    with pytest.raises(FoldError, match=r"1 of 2 members diverged by step 10 \(members 0\)"):
        fit(task, partition=Split(2))


def test_a_reward_of_1e30_spoils_its_own_fold_only(log, task):
    rewards = log.rewards.copy()
    rewards[7] = 1e30
    huge = replace(task, log=log.with_rewards(rewards))
    with pytest.warns(
        FoldWarning, match=r"1 of 3 folds hold rewards too large .*row 7, reward 1e\+30"
    ):
        _, fitted = fit(huge)
    assert fitted.critics.healthy().sum() == 2
    with pytest.raises(FoldError, match="one row affects one fold only"):
        fit(huge, partition=Whole())


def test_what_a_network_cannot_take_is_said(task, log):
    _, fitted = fit(task)
    states = log.states[:3].copy()
    states[1, 2] = np.nan
    with pytest.raises(TailproofError, match=r"states must be finite\. Got nan at row 1, column 2"):
        fitted.critics.values(states, log.actions[:3])
    with pytest.raises(TailproofError, match=r"shape \(n, 3\)"):
        fitted.critics.values(states[:, :2], log.actions[:3])
    with pytest.raises(LogError, match="must be finite"):
        Log.from_arrays(states, log.actions[:3], [0.0] * 3, states, episode=[0] * 3)
    with pytest.raises(LogError, match="within the action space's bounds"):
        Log.from_arrays(
            log.states[:3],
            log.actions[:3] + 3,
            [0.0] * 3,
            log.states[:3],
            episode=[0] * 3,
            action_space=log.action_space,
        )


def test_wrong_settings_are_named(task, discrete_task):
    for settings, text in (
        ({"steps": 0}, "steps must be a whole number of at least 1. Got 0"),
        ({"hidden": ()}, "hidden must be widths"),
        ({"learning_rate": -1.0}, "learning_rate must be a finite number above 0"),
        ({"target_rate": 2.0}, r"target_rate must be a number in \(0, 1\]"),
        ({"expectile": 1.5}, r"expectile must be a number in \[0, 1\]"),
        ({"reward_scale": "big"}, "reward_scale must be a finite number above 0"),
        ({"share": 1.0}, r"share must be a number in \[0, 1\)\. Got 1\.0"),
    ):
        with pytest.raises(MethodError, match=text):
            IQL(**settings)
    with pytest.raises(MethodError, match="alpha must be a finite number above 0"):
        SQL(alpha=0)
    with pytest.raises(MethodError, match="workers must be"):
        Run(workers=0)
    with pytest.raises(MethodError, match="needs continuous actions; the log has 3 actions"):
        fit(discrete_task, SAC(**SMALL), Replicate(2), Quantile(0.0))
    with pytest.raises(MethodError, match="evaluates a policy and was given none"):
        fit(task, NeuralFQE(**SMALL))


def test_draws_depend_on_their_own_seed_and_the_step_alone():
    rows = [np.arange(10), np.arange(10, 30)]
    both = row_draws(rows, [3, 4], 8)
    alone = row_draws(rows[1:], [4], 8)
    late = [alone(step).clone() for step in (200, 3, 64, 63)]
    for step, drawn in zip((200, 3, 64, 63), late, strict=True):
        assert torch.equal(both(step)[1], drawn[0])
    assert both(5)[0].max() < 10
    assert both(5)[1].min() >= 10
    normals = normal_draws(1, (2, 5))
    first = normals(100).clone()
    normals(0)
    assert torch.equal(normals(100), first)


def test_scaling_is_undone():
    states, actions = rng(1).normal(5, 3, (50, 2)), rng(2).uniform(-4, 10, (50, 2))
    states[:, 1] = 7.0  # a constant column must not be divided by zero
    log = Log.from_arrays(states, actions, np.full(50, -8.0), states, episode=[0] * 50)
    scaling = Scaling.of(log, standardise=True, reward_scale="auto")
    scaled = scaling.states(states)
    np.testing.assert_allclose(scaled[:, 0].mean(), 0, atol=1e-6)
    np.testing.assert_allclose(scaled[:, 0].std(), 1, rtol=1e-5)
    assert (scaled[:, 1] == 0).all()
    inside = scaling.actions(actions)
    assert np.abs(inside).max() <= 1 + 1e-6
    np.testing.assert_allclose(scaling.raw_actions(inside), actions, rtol=1e-5, atol=1e-5)
    assert scaling.reward_scale == 1 / 8


def test_the_automatic_reward_scale_is_robust():
    states, rewards = np.zeros((101, 1)), np.full(101, 2.0)
    rewards[:40] = 1e9
    log = Log.from_arrays(states, np.zeros(101), rewards, states, episode=[0] * 101)
    assert Scaling.of(log, standardise=True, reward_scale="auto").reward_scale == 0.5
    sparse = log.with_rewards(np.where(np.arange(101) == 5, 4.0, 0.0))
    assert Scaling.of(sparse, standardise=True, reward_scale="auto").reward_scale == 0.25
    zero = log.with_rewards(np.zeros(101))
    assert Scaling.of(zero, standardise=True, reward_scale="auto").reward_scale == 1.0


def test_limits_are_the_largest_discounted_return():
    states = np.zeros((6, 1))
    log = Log.from_arrays(
        states, np.zeros(6), [1.0, -2.0, 0.5, 0.0, 3.0, 1.0], states, episode=[0, 0, 0, 1, 1, 1]
    )
    folds = Split(2).assign(log, rng())
    order = [0, 1] if folds.counts[0, 0] else [1, 0]
    np.testing.assert_allclose(value_limits(log, folds, 0.9, 1.0)[order], [20.0, 30.0])
    np.testing.assert_allclose(value_limits(log, folds, 0.9, 0.01)[order], [10.0, 10.0])


def test_rewards_of_zero_are_no_divergence(task, log):
    zero = replace(task, log=log.with_rewards(np.zeros(log.n_transitions)))
    _, fitted = fit(zero)
    assert fitted.critics.healthy().all()


def test_histories_join_and_survive_arrays():
    history = History().with_row(1, {"a": np.ones(2)}).with_row(3, {"a": np.zeros(2), "b": 4.0})
    arrays = {}
    again = from_parts(to_parts(history, arrays), arrays)
    assert again["a"].steps.tolist() == [1, 3]
    assert again["b"].values.tolist() == [[4.0]]
    assert "x: a" in History().joined(history, prefix="x: ")


def test_importing_the_room_loads_no_torch():
    import subprocess

    code = (
        "import sys, tailproof.deep, tailproof.deep.rows\n"
        "tailproof.deep.rows.deep_rows()\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_task_without_terminals_bootstraps_to_the_end(log):
    task = Task(replace(log, terminated=np.zeros(log.n_transitions, bool)), 0.5, None, None)
    _, fitted = fit(task)
    assert np.isfinite(fitted.critics.values(log.states, log.actions)).all()
