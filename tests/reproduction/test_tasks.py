"""The paper's tasks by name, and the study of IQL's and SQL's rows."""

import warnings
from copy import deepcopy

import gymnasium
import numpy as np
import pytest

from reproduction import tasks
from reproduction.datasets import available
from reproduction.deep_rows import (
    clipped,
    implicit_study,
    to_return_range,
    variant_folds,
    with_variants,
)
from reproduction.experiment import Job, Results
from reproduction.implicit import D4RL_SQL, at_end, prepared_log
from reproduction.tasks import PRESETS, preset
from tailproof import Continuous, Log, learn, method
from tailproof.deep import IQL, Evaluation, Run
from tailproof.errors import ConvergenceWarning, FoldWarning, TailproofError
from tailproof.io import read_rollouts
from tailproof.worlds.environments import make_environment, scorer


def test_presets_are_the_papers_twelve_tasks():
    assert len(PRESETS) == 12
    assert preset("walker2d-expert-v2").environment == "Walker2d-v4"
    assert preset("kitchen-mixed-v0").minari == "D4RL/kitchen/mixed-v2"
    with pytest.raises(TailproofError, match="There is no preset 'ant'"):
        preset("ant")


def test_presets_read_d4rls_files(tmp_path):
    h5py = pytest.importorskip("h5py")
    chosen = preset("hopper-medium-replay-v2")
    with pytest.raises(TailproofError, match=r"needs D4RL's file hopper_medium_replay-v2.hdf5"):
        chosen.load(tmp_path)
    with pytest.raises(TailproofError, match="Minari has no data set"):
        chosen.load()
    rng = np.random.default_rng(0)
    with h5py.File(tmp_path / chosen.d4rl, "w") as file:
        file["observations"] = rng.standard_normal((20, 11)).astype("f4")
        file["actions"] = rng.uniform(-1, 1, (20, 3)).astype("f4")
        file["rewards"] = rng.standard_normal(20).astype("f4")
        file["terminals"] = np.arange(20) == 9
        file["timeouts"] = np.arange(20) == 19
    log = chosen.load(tmp_path)
    assert log.n_episodes == 2
    assert log.terminated.sum() == 1


class Kitchen(gymnasium.Env):
    """What the kitchen environment shows: a dictionary that has 81 entries after flattening."""

    observation_space = gymnasium.spaces.Dict(
        {
            "observation": gymnasium.spaces.Box(-np.inf, np.inf, (59,)),
            "achieved_goal": gymnasium.spaces.Box(-np.inf, np.inf, (11,)),
            "desired_goal": gymnasium.spaces.Box(-np.inf, np.inf, (11,)),
        }
    )
    action_space = gymnasium.spaces.Box(-1.0, 1.0, (9,), np.float32)

    def _seen(self):
        goals = np.zeros(11)
        return {"observation": np.arange(59.0), "achieved_goal": goals, "desired_goal": goals}

    def reset(self, *, seed=None, options=None):  # noqa: ARG002
        self.left = 3
        return self._seen(), {}

    def step(self, action):
        assert action.shape == (9,)
        self.left -= 1
        return self._seen(), 1.0, False, self.left == 0, {}


def kitchen_file(path, rows=600):
    """Write a file in the layout of D4RL's kitchen: 60 observations, a constant goal, no timeouts."""
    h5py = pytest.importorskip("h5py")
    rng = np.random.default_rng(0)
    with h5py.File(path, "w") as file:
        states = rng.standard_normal((rows, 60)).astype("f4")
        states[:, 30:] = np.arange(30)
        file["observations"] = states
        file["actions"] = rng.uniform(-1, 1, (rows, 9)).astype("f4")
        file["rewards"] = (rng.random(rows) < 0.1).astype("f4")
        file["terminals"] = np.isin(np.arange(rows), [199, rows - 1])


@pytest.mark.parametrize("quality", ["complete", "partial", "mixed"])
def test_kitchen_tasks_from_d4rls_files_to_a_score(quality, tmp_path, monkeypatch):
    chosen = preset(f"kitchen-{quality}-v0")
    kitchen_file(tmp_path / chosen.d4rl)
    log = chosen.load(tmp_path)
    assert log.states.shape[1] == 60
    assert log.lengths.max() <= 280  # the time limit, where the file has no timeouts
    assert chosen.load(tmp_path, max_steps=50).lengths.max() <= 50
    seen = tasks.kitchen_like(Kitchen(), log).reset()[0]
    assert seen.tolist() == [*range(9), *range(18, 39), *range(30)]
    assert tasks.kitchen_like(Kitchen(), None).reset()[0].shape == (81,)
    monkeypatch.setattr(
        tasks, "_make_kitchen", lambda *words: tasks.kitchen_like(Kitchen(), words[2])
    )
    small = {"most_episodes": 3, "kappas": (0.0,), "evaluations": 2}
    settings = {**D4RL_SQL.settled(quick=True, data=tmp_path), **small}
    job = Job("d4rl-sql", {"dataset": f"kitchen-{quality}", "kappa": 0.0}, 0, 0, settings, tmp_path)
    clean, _ = prepared_log(job)
    assert set(clean.rewards.tolist()) <= {0.0, 1.0}  # not rescaled
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (FoldWarning, ConvergenceWarning))
        rows = D4RL_SQL.run(job)
    results = Results(
        "d4rl-sql", settings, 1, tuple({**job.cell, "replicate": 0, **r} for r in rows)
    )
    assert {row["score"] for row in at_end(results).rows} == {75.0}  # three of four subtasks
    assert [row["step"] for row in rows if "step" in row and row["method"] == "bc"] == [10, 20]
    assert D4RL_SQL.draw(results).axes


@pytest.mark.parametrize("name", [name for name in PRESETS if not name.startswith("kitchen")])
def test_locomotion_tasks_are_found_by_d4rls_names(name, tmp_path):
    chosen = PRESETS[name]
    (tmp_path / chosen.d4rl).write_bytes(b"x")
    if chosen.minari:
        (tmp_path / chosen.minari).mkdir(parents=True)
    ((short, found),) = available(tmp_path).items()
    assert name.startswith(short)
    assert found["origin"] == "D4RL"
    (tmp_path / chosen.d4rl).unlink()
    if chosen.minari:
        ((_, found),) = available(tmp_path).items()
        assert (found["origin"], found["file"]) == ("Minari", chosen.minari)


def robotics():
    """Skip without the packages of the paper's environments."""
    pytest.importorskip("mujoco")
    pytest.importorskip("gymnasium_robotics")
    pytest.importorskip("h5py")


def episodes_of(chosen, lengths=(12, 8)):
    """Play even actions in a task's environment: observations as it gives them, actions, rewards."""
    if chosen.domain == "kitchen":
        made = tasks.kitchen_environment(chosen.environment, chosen.name)
    else:
        made = make_environment(chosen.environment)
    made.action_space.seed(0)
    for seed, length in enumerate(lengths):
        seen, actions, rewards = [deepcopy(made.reset(seed=seed)[0])], [], []
        for _ in range(length):
            actions.append(made.action_space.sample())
            state, reward, *_ = made.step(actions[-1])
            seen.append(deepcopy(state))
            rewards.append(reward)
        yield seen, actions, rewards
    made.close()


def write_d4rl(chosen, folder):
    """Write a file in D4RL's layout; kitchen files have no timeouts, 60 observations and a goal."""
    h5py = pytest.importorskip("h5py")
    kitchen, columns = chosen.domain == "kitchen", {name: [] for name in ("o", "a", "r", "next")}
    for seen, actions, rewards in episodes_of(chosen):
        shown = np.array(
            [tasks.positions(each, np.arange(30.0)) for each in seen] if kitchen else seen
        )
        for name, each in zip(columns, (shown[:-1], actions, rewards, shown[1:]), strict=True):
            columns[name].append(np.asarray(each, np.float32))
    observations, actions, rewards, following = map(np.concatenate, columns.values())
    with h5py.File(folder / chosen.d4rl, "w") as file:
        file["observations"], file["actions"], file["rewards"] = observations, actions, rewards
        last = np.isin(np.arange(20), [11, 19])
        file["terminals"] = last & (kitchen | (np.arange(20) < 12))
        if not kitchen:
            file["timeouts"] = last & (np.arange(20) >= 12)
            file["next_observations"] = following
            file["infos/action_log_probs"] = rewards


def write_minari(chosen, folder, monkeypatch):
    """Write a Minari folder with the observations as the environment gives them."""
    minari = pytest.importorskip("minari")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(folder))
    buffers = []
    for number, (seen, actions, rewards) in enumerate(episodes_of(chosen)):
        ends = [False] * (len(rewards) - 1)
        buffers.append(
            minari.data_collector.EpisodeBuffer(
                id=number,
                observations=stacked(seen),
                actions=np.stack(actions),
                rewards=rewards,
                terminations=[*ends, number == 0],
                truncations=[*ends, number == 1],
            )
        )
    if chosen.domain == "kitchen":
        made = tasks.kitchen_environment(chosen.environment, chosen.name)
    else:
        made = make_environment(chosen.environment)
    minari.create_dataset_from_buffers(
        chosen.minari,
        buffer=buffers,
        observation_space=made.observation_space,
        action_space=made.action_space,
        algorithm_name="even",
        author="nobody",
        author_email="nobody@example.org",
        code_permalink="https://example.org",
        description="Made here.",
    )
    made.close()


def stacked(values):
    """Stack observations the way Minari stores them."""
    if isinstance(values[0], dict):
        return {key: stacked([each[key] for each in values]) for key in values[0]}
    return np.stack(values)


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("name", PRESETS)
def test_every_task_from_its_files_to_a_score_in_its_own_environment(name, tmp_path, monkeypatch):
    robotics()
    chosen = preset(name)
    write_d4rl(chosen, tmp_path)
    logs = [chosen.load(tmp_path)]
    if chosen.minari is not None:
        write_minari(chosen, tmp_path, monkeypatch)
        logs.append(chosen.load())
    widths = {"kitchen": [60, 83 if "mixed" in name else 81], "hopper": [11, 11]}
    widths = widths.get(chosen.domain, [17, 17])
    assert [log.states.shape[1] for log in logs] == widths[: len(logs)]
    for log in logs:
        assert log.lengths.tolist() == [12, 8]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            learned = learn(log, method=method("bc-neural", steps=3, hidden=(8,)), gamma=0.99)
        score = chosen.score(learned.policy, episodes=1, like=log)
        assert -10 < score < 20
    # the first state of the environment is that of the file
    for log in logs:
        first = chosen.make(log).reset(seed=0)[0]
        same = slice(30) if log.states.shape[1] == 60 else slice(None)  # the goal is the file's
        assert np.allclose(log.first_states[0][same], first[same], atol=1e-3)
    # Time ends an episode where a file does not tell; what follows such a row is not in it.
    if chosen.domain == "kitchen":
        assert chosen.load(tmp_path, max_steps=5).lengths.tolist() == [4, 4, 2, 4, 3]


@pytest.mark.parametrize("form", ["d4rl", "minari"])
def test_the_study_runs_on_kitchen_data_in_the_kitchen(form, tmp_path, monkeypatch):
    robotics()
    chosen = preset("kitchen-mixed-v0")
    if form == "d4rl":
        write_d4rl(chosen, tmp_path)
    else:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            write_minari(chosen, tmp_path, monkeypatch)
    real = tasks._make_kitchen
    monkeypatch.setattr(
        tasks, "_make_kitchen", lambda *words: gymnasium.wrappers.TimeLimit(real(*words), 5)
    )
    settings = D4RL_SQL.settled(quick=True, data=tmp_path, changes={"max_steps": 6})
    job = Job("d4rl-sql", {"dataset": "kitchen-mixed", "kappa": 100.0}, 0, 0, settings, tmp_path)
    assert prepared_log(job)[0].states.shape[1] == {"d4rl": 60, "minari": 83}[form]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (FoldWarning, ConvergenceWarning))
        rows = D4RL_SQL.run(job)
    assert {row["score"] for row in rows} == {0.0}  # no subtask is done in five steps


def test_mujoco_presets_play_and_score():
    pytest.importorskip("mujoco")
    pytest.importorskip("imageio")
    chosen = preset("hopper-medium-v2")
    assert chosen.score(lambda states: np.zeros((len(states), 3)), episodes=2) < 20
    evaluation = chosen.evaluation(every=10)
    assert (evaluation.every, evaluation.episodes) == (10, 10)


def test_rollouts_become_logs():
    arrays = {
        "observations": np.arange(10.0).reshape(5, 2),
        "actions": np.zeros((5, 1)),
        "rewards": np.array([1.0, 2.0, 3.0, 4.0, 5.0]),
        "terminals": np.array([False, True, False, False, False]),
        "timeouts": np.array([False, False, False, False, True]),
        "final_observations": np.array([[-1.0, -1.0], [-2.0, -2.0]]),
    }
    log = read_rollouts(arrays)
    assert log.n_episodes == 2
    assert log.next_states.tolist() == [[2, 3], [-1, -1], [6, 7], [8, 9], [-2, -2]]
    assert log.terminated.tolist() == arrays["terminals"].tolist()
    returns = np.add.reduceat(to_return_range(log).rewards, log.starts[:-1])
    assert returns.max() - returns.min() == pytest.approx(1000)
    every = with_variants(log, [log.rewards, clipped(log.rewards, 0.2), np.zeros(5)])
    assert every.n_episodes == 6
    assert every.rewards[:5].tolist() == log.rewards.tolist()
    assert 0 < every.rewards[5:10].max() < 5
    assert every.rewards[10:].tolist() == [0.0] * 5
    assert (every.next_states[5:10] == log.next_states).all()
    counts = variant_folds(log, 3, 2, np.random.default_rng(0)).counts
    assert counts[:3].tolist() == np.kron(np.eye(3), [1, 1]).tolist()
    assert counts[3:].sum(axis=0).tolist() == [1, 1, 0, 0, 0, 0]


@pytest.mark.parametrize(
    ("spoilt", "left"),
    [(1, {"ma", "room-vm", "p-room-vm"}), (3, set())],  # folds that hold an outlier, of three
)
def test_rows_whose_critics_diverge_have_no_score_and_the_others_have(spoilt, left, rng):
    episodes, steps = 60, 4
    rows = episodes * steps
    rewards = rng.standard_normal(rows)
    log = Log.from_arrays(
        rng.standard_normal((rows, 3)),
        rng.uniform(-1, 1, (rows, 1)),
        rewards,
        rng.standard_normal((rows, 3)),
        episode=np.repeat(np.arange(episodes), steps),
        action_space=Continuous(1, (-1.0,), (1.0,)),
    )
    parts = variant_folds(log, 3, 3, np.random.default_rng(5)).counts[3:, :episodes]
    for fold in range(spoilt):
        rewards[steps * np.flatnonzero(parts[fold])[0]] = 1e30
    played = Evaluation(environment="Pendulum-v1", episodes=1, score=scorer("pendulum"))
    base = IQL(steps=2, policy_steps=2, hidden=(4,), reward_scale=1.0, run=Run(evaluation=played))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", (FoldWarning, ConvergenceWarning))
        found = implicit_study(
            log.with_rewards(rewards), base, seed=5, folds=3, quantile=0.0, clip=0.05
        )
    always = {"bc", "clipped", "zero-reward", "percent-sum", "percent-median"}
    assert set(found["scores"]) == always | left
    assert found["critics"] == {}  # the whole log's, which diverged
