"""A log that stays on disk is the same log, and gives the same numbers."""

import json
import os
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.fs as fs
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import Ridge
from typer.testing import CliRunner

import tailproof.algorithms.samples
import tailproof.algorithms.sweeps
import tailproof.lazy_views
import tailproof.sources.lazily
from tailproof import Log, Method, Split, compare, diagnose, evaluate, k_path, learn, method
from tailproof.algorithms.linear import Design
from tailproof.algorithms.task import Task
from tailproof.cli import app
from tailproof.engines import Local
from tailproof.errors import CoverageWarning, LogError, MethodError, StorageError, TailproofWarning
from tailproof.features import Joint, default_features
from tailproof.lazy import LazyLog, Piece, parts_of, pieces_of
from tailproof.lazy_views import SampleWarning, held, sampled_episodes, take_episodes
from tailproof.means import AdaptiveHuber, Catoni, PermutedMedianOfMeans
from tailproof.noise import StudentT
from tailproof.policies import EpsilonGreedy
from tailproof.sources import open_data_set, read, read_log, write_log

METHODS = [
    *("fqe", "lstd", "mis", "dr", "roam-dm", "roam-variant", "roam-fqe", "roam-mis", "roam-dr"),
    *("ma-dm", "ma-mis", "tm-mis", "b-roam-dm", "b-roam-mis"),
    method("mis", mean=AdaptiveHuber()),
    method("mis", mean=Catoni(), unit="episode"),
    method("roam-mis", mean=Catoni()),
    method("b-roam-mis", mean=AdaptiveHuber()),
    method("mis", mean=PermutedMedianOfMeans(blocks=9)),
    method("mis", self_normalised=True),
    method("dr", mean=AdaptiveHuber(), parts=3),
    method("roam-dr", mean=Catoni(), unit="episode"),
    method("fqe", clip=0.01),
    method("lstd", ridge="cv"),
    method("roam-fqe", aggregate_first=True, iterations=5),
]
ARRAYS = ("states", "actions", "rewards", "next_states", "terminated", "truncated", "starts")


@pytest.fixture(autouse=True)
def small_parts(monkeypatch):
    """Several parts and passes in logs of a thousand rows."""
    monkeypatch.setattr(tailproof.sources.lazily, "PART", 700)
    monkeypatch.setattr(tailproof.algorithms.samples, "HELD", 500)


@pytest.fixture(scope="module")
def log(cartpole):
    return cartpole.log(episodes=30, steps=50, noise=StudentT(df=1.5), seed=1)


def stored(log, path, rows=113):
    """Write a log in small row groups."""
    table = pq.read_table(write_log(log, path))
    pq.write_table(table, path, row_group_size=rows, write_page_checksum=True)
    return path


@pytest.fixture(scope="module")
def path(log, tmp_path_factory):
    return stored(log, tmp_path_factory.mktemp("stored") / "log.parquet")


def assert_equal(one: Log, other: Log):
    for name in ARRAYS:
        left, right = getattr(one, name), getattr(other, name)
        assert left.dtype.kind == right.dtype.kind, name
        assert np.array_equal(left, right), name
    assert one.episode_ids.tolist() == other.episode_ids.tolist()
    assert one.action_space == other.action_space
    assert one.state_names == other.state_names
    assert (one.group_ids is None) == (other.group_ids is None)
    if one.group_ids is not None:
        assert one.group_ids.tolist() == other.group_ids.tolist()
    assert (one.propensity is None) == (other.propensity is None)
    if one.propensity is not None:
        assert np.array_equal(one.propensity, other.propensity)


def test_it_tells_what_a_log_in_memory_tells(log, path):
    lazy = read_log(path, lazy=True)
    assert isinstance(lazy, LazyLog)
    assert len(lazy.parts) == 3
    for name in ("n_transitions", "n_episodes", "n_actions", "is_discrete", "n_groups"):
        assert getattr(lazy, name) == getattr(log, name)
    for name in ("is_bandit", "always_terminates", "state_names"):
        assert getattr(lazy, name) == getattr(log, name)
    for name in ("lengths", "group_of_episode", "first_states"):
        assert np.array_equal(getattr(lazy, name), getattr(log, name))
    assert lazy.action_counts.tolist() == np.bincount(log.actions).tolist()
    assert "1500 transitions, 30 episodes" in repr(lazy)
    assert_equal(lazy.load(), log)


@pytest.mark.parametrize("chosen", METHODS, ids=str)
def test_the_same_numbers_as_in_memory_to_rounding(chosen, log, path, cartpole):
    lazy = read_log(path, lazy=True)
    there = evaluate(lazy, cartpole.target(), method=chosen, gamma=0.97, seed=3)
    here = evaluate(log, cartpole.target(), method=chosen, gamma=0.97, seed=3)
    assert np.allclose(there.fold_values, here.fold_values, rtol=1e-9)
    assert there.value == pytest.approx(here.value, rel=1e-9)
    assert there.to_dict().keys() == here.to_dict().keys()


def test_stochastic_policies_and_paths_over_folds(log, path, cartpole):
    lazy = read_log(path, lazy=True)
    mixed = EpsilonGreedy(cartpole.target(), 0.3, n_actions=2)
    for chosen in ("roam-dm", method("roam-fqe", iterations=5, aggregate_first=True)):
        pair = [evaluate(each, mixed, method=chosen, gamma=0.9).value for each in (lazy, log)]
        assert pair[0] == pytest.approx(pair[1], rel=1e-9)
    paths = [k_path(each, mixed, gamma=0.9, folds=(1, 3)) for each in (lazy, log)]
    assert paths[0] == pytest.approx(paths[1])


def test_a_log_read_from_disk_survives_the_order_of_its_rows(log, tmp_path, cartpole):
    """Folds follow the labels: other episodes first, the same folds."""
    turned = log.take(np.random.default_rng(0).permutation(log.n_episodes))
    lazy = read_log(stored(turned, tmp_path / "turned.parquet"), lazy=True)
    for chosen in ("roam-dm", "roam-dr", "b-roam-dm"):
        pair = [
            evaluate(each, cartpole.target(), method=chosen, gamma=0.9).value
            for each in (lazy, log)
        ]
        assert pair[0] == pytest.approx(pair[1], rel=1e-8)


def table_of(log, **changes):
    columns = {f"x_{j}": log.states[:, j] for j in range(log.states.shape[1])}
    columns |= {"action": log.actions, "reward": log.rewards, "episode": log.episode_of_row}
    return pa.table(columns | changes)


TABLES = {
    "derived next states, none terminate": {},
    "some terminate": {"terminated": lambda log: log.truncated & (log.episode_of_row % 3 > 0)},
    "all terminate": {"terminated": lambda log: log.truncated},
    "done means any end": {
        "done": lambda log: log.truncated,
        "truncated": lambda log: log.truncated & (log.episode_of_row % 2 > 0),
    },
    "groups": {"group": lambda log: np.array(["a", "b", "c"])[log.episode_of_row % 3]},
    "text actions": {"action": lambda log: np.array(["left", "right"])[log.actions]},
    "sparse actions": {"action": lambda log: 1000 * log.actions - 7},
    "true and false actions": {"action": lambda log: log.actions == 1},
    "whole decimals as actions": {"action": lambda log: log.actions.astype(float)},
    "continuous actions": {"action": lambda log: log.states[:, 0] * 2},
    "text ids": {"episode": lambda log: np.array([f"e{i}" for i in log.episode_of_row])},
    "dates as ids": {
        "episode": lambda log: np.datetime64("2020-01-01") + log.episode_of_row.astype("m8[D]")
    },
    "steps": {"step": lambda log: np.tile(np.arange(50), 30)},
    "a text state": {"x_0": lambda log: np.where(log.states[:, 0] > 0, "up", "down")},
    "small numbers": {"x_1": lambda log: log.states[:, 1].astype(np.float32)},
    "whole states": {"x_1": lambda log: np.arange(1500) % 7},
    "lists as states": {
        "x_0": lambda log: pa.FixedSizeListArray.from_arrays(log.states[:, :2].ravel(), 2)
    },
    "propensities": {"propensity": lambda log: np.full(1500, 0.5)},
    "one row an episode": {"episode": lambda log: np.arange(1500)},
    "emptied episodes": {"episode": lambda log: np.minimum(np.arange(1500), 1400)},
}


@pytest.mark.filterwarnings("ignore::tailproof.errors.TailproofWarning")
@pytest.mark.parametrize("name", TABLES)
def test_any_table_is_read_as_it_is_in_memory(name, log, tmp_path):
    table = table_of(log, **{key: make(log) for key, make in TABLES[name].items()})
    pq.write_table(table, tmp_path / "t.parquet", row_group_size=97)
    there, here = read(tmp_path / "t.parquet", lazy=True), read(tmp_path / "t.parquet", lazy=False)
    assert_equal(there.log.load(), here.log)
    assert np.array_equal(there.log.first_states, here.log.first_states)
    assert there.notes == here.notes
    assert there.cautions == here.cautions
    rewards = [each for part in there.log.parts for each in there.log.rewards(part)]
    assert np.array_equal(np.concatenate(rewards), here.log.rewards)
    if here.log.is_discrete:  # not of steps that are left out
        counts = np.bincount(here.log.actions, minlength=here.log.n_actions)
        assert there.log.action_counts.tolist() == counts.tolist()


def test_no_episode_column_means_flags_or_single_rows(log, tmp_path):
    ended = table_of(log, terminated=log.truncated).drop_columns(["episode"])
    alone = table_of(log).drop_columns(["episode"])
    for table in (ended, alone):
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=97)
        there = read(tmp_path / "t.parquet", lazy=True)
        here = read(tmp_path / "t.parquet", lazy=False)
        assert_equal(there.log.load(), here.log)
        assert there.notes == here.notes


@settings(max_examples=25)
@given(
    lengths=st.lists(st.integers(1, 9), min_size=1, max_size=12),
    group=st.integers(1, 11),
    size=st.integers(1, 8),
    part=st.integers(1, 40),
    given_next=st.booleans(),
    flagged=st.booleans(),
)
def test_wherever_the_borders_lie(
    lengths, group, size, part, given_next, flagged, tmp_path_factory
):
    """Row groups, parts and pieces may cut episodes anywhere."""
    rng = np.random.default_rng(sum(lengths))
    n = sum(lengths)
    episode = np.repeat(np.arange(len(lengths)), lengths)
    ends = np.append(episode[1:] != episode[:-1], True)
    columns = {"x": rng.normal(size=n), "action": rng.integers(2, size=n)}
    columns |= {"reward": rng.normal(size=n), "episode": episode}
    columns["terminated"] = ends & (rng.random(n) < 0.5) & flagged
    if given_next:
        columns["next_x"] = rng.normal(size=n)
    file = tmp_path_factory.mktemp("borders") / "t.parquet"
    pq.write_table(pa.table(columns), file, row_group_size=group)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(tailproof.sources.lazily, "PART", part)
        try:
            here = read(file, lazy=False).log
        except LogError:  # not a single transition is complete
            with pytest.raises(LogError, match="at least one transition"):
                read(file, lazy=True)
            return
        there = read(file, lazy=True).log
    assert_equal(there.load(), here)
    pieces = [piece for part in there.parts for piece in there.pieces(part, size)]
    assert max(map(len, pieces)) <= size
    assert [piece.first for piece in pieces] == np.cumsum([0, *map(len, pieces)])[:-1].tolist()
    assert np.array_equal(np.concatenate([p.episode for p in pieces]), here.episode_of_row)
    met = np.concatenate([there.first_states_in(piece) for piece in pieces])
    assert np.array_equal(met, here.first_states)


def test_a_folder_of_files_whose_episodes_cross_their_borders(log, tmp_path, cartpole):
    table = table_of(log)
    for i, (first, last) in enumerate([(0, 333), (333, 340), (340, 1500)]):
        pq.write_table(table[first:last], tmp_path / f"part-{i}.parquet")
    with pytest.warns(TailproofWarning, match="30 last steps of 30 episodes left out"):
        there = read_log(tmp_path, lazy=True)
    with pytest.warns(TailproofWarning, match="30 last steps of 30 episodes left out"):
        here = read_log(tmp_path, lazy=False)
    assert_equal(there.load(), here)
    pair = [
        evaluate(each, cartpole.target(), method="roam-dm", gamma=0.9).value
        for each in (there, here)
    ]
    assert pair[0] == pytest.approx(pair[1], rel=1e-9)


def test_folder_names_are_columns_and_uris_are_paths(log, tmp_path):
    table = table_of(log, terminated=log.truncated)
    half = log.starts[15]
    for name, rows in (("site=1", table[:half]), ("site=2", table[half:])):
        (tmp_path / name).mkdir()
        pq.write_table(rows, tmp_path / name / "log.parquet")
    for source in (tmp_path, tmp_path.as_uri()):
        lazy = read_log(source, group="site", lazy=True)
        assert lazy.group_ids.tolist() == [1] * 15 + [2] * 15
    assert_equal(
        read_log(tmp_path.as_uri(), group="site", lazy=False),
        read_log(tmp_path, group="site", lazy=False),
    )


def test_any_file_system_of_pyarrow(log, path):
    store = fs.SubTreeFileSystem(str(path.parent), fs.LocalFileSystem())
    data = open_data_set(path.name, store)
    assert_equal(read_log(data).load(), log)
    assert_equal(read_log(data, lazy=False), log)


def test_large_data_stay_on_disk_by_themselves(path):
    assert isinstance(read_log(path), Log)
    assert isinstance(read_log(path, budget=10_000), LazyLog)
    assert isinstance(read_log(path, budget=10_000, lazy=False), Log)
    with pytest.raises(LogError, match=r"lazy=True needs a Parquet file.*write_log first"):
        read_log({"x": [1.0], "action": [0], "reward": [1.0]}, lazy=True)


def test_what_needs_everything_at_once_loads_it_or_says_so(log, path, cartpole, monkeypatch):
    lazy, target = read_log(path, lazy=True), cartpole.target()
    here, there = (evaluate(each, target, method="auto", gamma=0.9).value for each in (log, lazy))
    assert here == there
    boosted = method("fqe", model=Ridge())
    here, there = (evaluate(each, target, method=boosted, gamma=0.5).value for each in (log, lazy))
    assert here == pytest.approx(there)
    small = read_log(path, lazy=True, budget=100_000)
    with pytest.raises(
        MethodError, match=r"FQE needs the whole log in memory, about 0\.0 GB, and may take 0\.0 GB"
    ):
        evaluate(small, target, method=boosted, gamma=0.5)
    monkeypatch.setattr(tailproof.lazy, "physical_memory", lambda: 1000)
    with pytest.raises(MethodError, match="FQE needs the whole log in memory"):
        evaluate(lazy, target, method=boosted, gamma=0.5)
    monkeypatch.setattr(tailproof.algorithms.samples, "MOST_HELD", 1000)
    with pytest.raises(MethodError, match=r"must have all 1500 samples in memory at once"):
        evaluate(lazy, target, method=METHODS[18], gamma=0.9)


class TestSamples:
    """Beyond the budget, whole episodes are drawn and the reader is told."""

    BUDGET = 400_000  # of 1.2 MB for 1500 rows with four times their features

    def test_the_default_and_the_diagnosis_say_what_they_looked_at(self, path, cartpole):
        lazy, target = read_log(path, lazy=True, budget=self.BUDGET), cartpole.target()
        said = r"(\d+) of 30 episodes, \d+ of 1500 transitions, drawn with seed 4: .* 0\.0004 GB"
        with pytest.warns(SampleWarning, match=f"Auto looked at {said}"):
            estimate = evaluate(lazy, target, method="auto", gamma=0.9, seed=4)
        assert 0 < estimate.n_episodes < 30
        with pytest.warns(SampleWarning, match=f"The diagnosis looked at {said}") as caught:
            diagnosis = diagnose(lazy, target, gamma=0.9, seed=4)
        assert diagnosis.notes[0] == str(caught[0].message)
        assert diagnosis.episodes == estimate.n_episodes
        with pytest.warns(SampleWarning):
            again = evaluate(lazy, target, method="auto", gamma=0.9, seed=4)
        assert again.value == estimate.value

    def test_a_sample_is_whole_episodes_as_they_were(self, log, path):
        lazy = read_log(path, lazy=True, budget=self.BUDGET)
        with pytest.warns(SampleWarning):
            some = held(lazy, "A test")
        places = np.searchsorted(log.episode_ids, some.episode_ids)
        assert (np.diff(places) > 0).all()
        assert_equal(some, log.take(places))

    def test_groups_stay_whole_and_neighbours_together(self, log, tmp_path, monkeypatch):
        group = log.episode_of_row // 5
        pq.write_table(table_of(log, group=group, terminated=log.truncated), tmp_path / "t.parquet")
        lazy = read_log(tmp_path / "t.parquet", lazy=True)
        chosen = sampled_episodes(lazy, 600, seed=1)
        assert lazy.lengths[chosen].sum() == 500
        assert set(np.bincount(chosen // 5)) <= {0, 5}
        monkeypatch.setattr(tailproof.lazy_views, "_BLOCKS", 6)
        alone = sampled_episodes(replace(lazy, group_ids=None), 600, seed=1)
        assert set(np.bincount(alone // 5)) <= {0, 5}
        assert len(alone) == 10

    def test_a_budget_below_one_episode_is_refused(self, path):
        lazy = read_log(path, lazy=True, budget=1000)
        with pytest.raises(LogError, match=r"not even one episode that was drawn is so short"):
            held(lazy, "A test")


@pytest.mark.parametrize("parts", [1 << 20, 97])
def test_some_episodes_of_a_log_on_disk(parts, log, tmp_path, monkeypatch):
    monkeypatch.setattr(tailproof.sources.lazily, "PART", parts)
    pq.write_table(table_of(log), tmp_path / "t.parquet", row_group_size=97)
    with pytest.warns(TailproofWarning, match="left out"):
        there = read_log(tmp_path / "t.parquet", lazy=True)
    with pytest.warns(TailproofWarning, match="left out"):
        here = read_log(tmp_path / "t.parquet", lazy=False)
    for chosen in ([0], [29], [3, 4, 5, 20], list(range(0, 30, 2))):
        taken = take_episodes(there, np.array(chosen))
        assert_equal(taken.load(), here.take(np.array(chosen)))
        assert np.array_equal(taken.first_states, here.first_states[chosen])
        rewards = [each for part in taken.parts for each in taken.rewards(part)]
        assert np.array_equal(np.concatenate(rewards), here.take(np.array(chosen)).rewards)
        assert taken.action_counts.sum() == taken.n_transitions
        again = take_episodes(taken, np.arange(0, len(chosen), 2))
        assert_equal(again.load(), here.take(np.array(chosen[::2])))


class TestEveryQuestion:
    """Compare, learn and diagnose give the numbers of memory, too."""

    @pytest.mark.parametrize("gamma", [0.5, 0.97])  # settled, and continued by a value function
    @pytest.mark.parametrize(
        "chosen", ["roam-dm", method("roam-mis", folds=9, clip=0.05), method("roam-fqe", folds=9)]
    )
    def test_compare(self, gamma, chosen, log, path, cartpole):
        lazy = read_log(path, lazy=True)
        rivals = {"target": cartpole.target(), "left": lambda s: np.zeros(len(s), dtype=int)}
        there, here = (
            compare(each, rivals, method=chosen, gamma=gamma, level=0.8) for each in (lazy, log)
        )
        assert np.allclose(there.baseline_folds, here.baseline_folds, rtol=1e-8)
        assert there.best.name == here.best.name
        assert there.best.gain.value == pytest.approx(here.best.gain.value, rel=1e-7)
        assert there.notes == here.notes

    def test_compare_with_continuous_actions(self, rng, tmp_path):
        states, actions = rng.normal(size=(900, 2)), rng.normal(size=(900, 1))
        log = Log.from_arrays(
            states, actions, states[:, 0] - actions[:, 0] ** 2, states + 0.1,
            episode=np.repeat(range(90), 10),
        )  # fmt: skip
        lazy = read_log(stored(log, tmp_path / "t.parquet"), lazy=True)
        shared = method("roam-dm", folds=9, features=StateAndProduct(2))
        there, here = (
            compare(each, {"mild": lambda s: -s[:, :1] / 2}, method=shared, gamma=0.9)
            for each in (lazy, log)
        )
        assert np.allclose(there.baseline_folds, here.baseline_folds, rtol=1e-8)

    def test_learn(self, log, path):
        lazy = read_log(path, lazy=True)
        for chosen in ("fqi", method("room-fqi", iterations=20), "lstd-q", "room-vm"):
            there, here = (learn(each, method=chosen, gamma=0.9) for each in (lazy, log))
            assert np.allclose(there.critic.members.theta, here.critic.members.theta, rtol=1e-7)

    def test_learning_passes_run_on_engines(self, log, path, monkeypatch):
        monkeypatch.setattr(tailproof.algorithms.sweeps, "_KEPT", 0)
        lazy = read_log(path, lazy=True)
        with Local(workers=2, kind="processes") as processes:
            for chosen in (method("room-fqi", iterations=5), "lstd-q", method("pb", iterations=5)):
                runs = [
                    learn(lazy, method=chosen, gamma=0.9, engine=engine).critic.members.theta
                    for engine in (None, Local(workers=3), processes)
                ]
                assert np.array_equal(runs[0], runs[1])
                assert np.array_equal(runs[0], runs[2])
                here = learn(log, method=chosen, gamma=0.9).critic.members.theta
                assert np.allclose(runs[0], here, rtol=1e-7)

    def test_learn_from_some_and_judge_by_others(self, log, path):
        lazy = read_log(path, lazy=True)
        there, here = (
            learn(each, method="room-fqi", gamma=0.9, holdout=0.3, seed=2) for each in (lazy, log)
        )
        assert isinstance(there.held_out, LazyLog)
        assert there.held_out.episode_ids.tolist() == here.held_out.episode_ids.tolist()
        assert np.allclose(there.critic.members.theta, here.critic.members.theta, rtol=1e-7)
        judged = [each.evaluate(method="roam-dm").estimate.value for each in (there, here)]
        assert judged[0] == pytest.approx(judged[1], rel=1e-7)

    def test_learn_by_default(self, log, path):
        there, here = (learn(each, gamma=0.9, seed=1) for each in (read_log(path, lazy=True), log))
        assert str(there.method) == str(here.method)
        assert [text.split("(")[0] for text in there.reasons] == [
            text.split("(")[0] for text in here.reasons
        ]
        with pytest.warns(SampleWarning, match="The choice of a learner looked at"):
            learn(read_log(path, lazy=True, budget=400_000), gamma=0.9, seed=1)

    def test_diagnose(self, log, path, cartpole):
        lazy = read_log(path, lazy=True)
        for policy in (None, cartpole.target()):
            there, here = (diagnose(each, policy, gamma=0.9).to_dict() for each in (lazy, log))
            assert there == here


class StateAndProduct:
    """φ(s, a) = (1, s, a·s): neither blocks nor Joint."""

    def __init__(self, dimension):
        self.size = 1 + 2 * dimension

    def __call__(self, states, actions):
        return np.hstack([np.ones((len(states), 1)), states, states * actions])


@pytest.mark.filterwarnings("ignore::tailproof.errors.SingularWarning")
def test_gamma_and_coverage_are_checked_alike(tmp_path, rng):
    states = rng.normal(size=(40, 1))
    log = Log.from_arrays(
        states, np.zeros(40, dtype=int), np.ones(40), states,
        episode=np.repeat(range(4), 10), action_space=2,
    )  # fmt: skip
    lazy = read_log(stored(log, tmp_path / "t.parquet"), lazy=True)
    with pytest.raises(LogError, match=r"gamma=1 needs every episode to terminate\. 4 of 4"):
        evaluate(lazy, lambda s: np.zeros(len(s)), method="lstd", gamma=1.0)
    with pytest.warns(CoverageWarning, match="takes action 1 with probability 1"):
        evaluate(lazy, lambda s: np.ones(len(s)), method=method("lstd", ridge=1.0), gamma=0.9)


def test_continuous_actions_and_policies_with_one_answer(rng, tmp_path):
    states, actions = rng.normal(size=(300, 2)), rng.normal(size=(300, 1))
    log = Log.from_arrays(
        states, actions, states[:, 0] - actions[:, 0] ** 2, states + 0.1,
        episode=np.repeat(range(30), 10),
    )  # fmt: skip
    lazy = read_log(stored(log, tmp_path / "t.parquet"), lazy=True)
    for chosen in ("roam-dm", "dr", "mis"):
        fitted = method(chosen, features=Joint(2, 1))
        if chosen == "dr":
            fitted = fitted.with_settings(critic=method("lstd", features=Joint(2, 1)).base)
        pair = [
            evaluate(each, lambda s: -s[:, :1], method=fitted, gamma=0.8).value
            for each in (lazy, log)
        ]
        assert pair[0] == pytest.approx(pair[1], rel=1e-8)


def test_pieces_of_a_log_in_memory_are_views(log):
    assert [len(part) for part in parts_of(log)] == [1500]
    pieces = list(pieces_of(log, parts_of(log)[0], 400))
    assert [len(piece) for piece in pieces] == [400, 400, 400, 300]
    assert all(isinstance(piece, Piece) and piece.states.base is not None for piece in pieces)


def test_memory_does_not_grow_with_the_log(log, tmp_path, cartpole):
    """Only numbers for each episode and the piece at hand are kept."""
    lazy = read_log(stored(log, tmp_path / "t.parquet"), lazy=True)
    folds = Split(3).assign(lazy, np.random.default_rng(0))
    design = Design(Task(lazy, 0.9, cartpole.target()), default_features(lazy), folds)
    sizes = [rows.inner.shape[1] for rows in design]
    assert max(sizes) <= 700
    assert sum(sizes) == 1500
    assert design._portable.task.log.parts == ()


class TestDamage:
    """What is wrong is named, with file and row group, and never becomes a number."""

    def run(self, lazy, cartpole):
        return evaluate(lazy, cartpole.target(), method="fqe", gamma=0.9).value

    def test_a_corrupt_row_group(self, path, tmp_path, cartpole):
        file = Path(shutil.copy(path, tmp_path / "log.parquet"))
        lazy = read_log(file, lazy=True)
        column = pq.ParquetFile(file).metadata.row_group(5).column(2)
        damaged = bytearray(file.read_bytes())
        damaged[column.data_page_offset + column.total_compressed_size // 2] ^= 0xFF
        stamp = os.stat(file)
        file.write_bytes(damaged)
        os.utime(file, ns=(stamp.st_atime_ns, stamp.st_mtime_ns))
        with pytest.raises(StorageError, match=r"log\.parquet, row group 5, could not be read"):
            self.run(lazy, cartpole)

    def test_a_file_that_vanishes_or_changes(self, log, path, tmp_path, cartpole):
        file = shutil.copy(path, tmp_path / "log.parquet")
        lazy = read_log(file, lazy=True)
        stored(log.with_rewards(log.rewards + 1), file)
        with pytest.raises(
            StorageError, match=r"log\.parquet has changed since the log was opened"
        ):
            self.run(lazy, cartpole)
        os.unlink(file)
        with pytest.raises(
            StorageError, match=r"log\.parquet has vanished since the log was opened"
        ):
            self.run(lazy, cartpole)

    def test_a_file_that_vanishes_in_the_middle_and_comes_back(self, log, tmp_path, cartpole):
        folder, away = tmp_path / "data", tmp_path / "away.parquet"
        folder.mkdir()
        for number, first in enumerate((0, 10, 20)):
            stored(log.take(np.arange(first, first + 10)), folder / f"{number}.parquet")
        target = cartpole.target()
        wanted = evaluate(read_log(folder, lazy=True), target, method="roam-dm", gamma=0.9)
        lazy, calls = read_log(folder, lazy=True), tmp_path / "calls"

        def thief(states):
            """Do as the target does; at the second call somebody moves the last file."""
            with calls.open("a") as file:
                file.write(".")
            if calls.stat().st_size == 2:
                (folder / "2.parquet").rename(away)
            return target(states)

        engine = Local(checkpoint=tmp_path / "progress", retries=0)
        with pytest.raises(
            StorageError,
            match=r"2\.parquet has vanished since the log was opened: row group \d+ was to be read",
        ):
            evaluate(lazy, thief, method="roam-dm", gamma=0.9, engine=engine)
        before = calls.stat().st_size
        away.rename(folder / "2.parquet")
        again = evaluate(lazy, thief, method="roam-dm", gamma=0.9, engine=engine)
        assert again.value == wanted.value
        assert np.array_equal(again.fold_values, wanted.fold_values)
        assert calls.stat().st_size - before < 12  # of 15 row groups, and the first states

    def test_a_disk_that_is_full(self, path, tmp_path):
        """A process that may write no more than 100 bytes to a file: as on a full disk."""
        script = f"""
import resource, signal, sys, warnings
from tailproof import evaluate
from tailproof.engines import Local
from tailproof.sources import read_log
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100, 100))
warnings.simplefilter("always")
engine = Local(checkpoint={str(tmp_path / "progress")!r})
lazy = read_log({str(path)!r}, lazy=True)
print(evaluate(lazy, lambda s: s[:, 2] > 0, method="lstd", gamma=0.5, engine=engine).value)
"""
        done = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
        )
        wanted = evaluate(
            read_log(path, lazy=True), lambda s: s[:, 2] > 0, method="lstd", gamma=0.5
        )
        assert float(done.stdout) == pytest.approx(wanted.value, rel=1e-12), done.stderr
        assert "Progress could not be written to" in done.stderr
        assert "File too large" in done.stderr
        assert list((tmp_path / "progress").iterdir()) == []

    def test_a_type_that_changes_between_files(self, log, tmp_path):
        table = table_of(log)
        pq.write_table(table[:700], tmp_path / "a.parquet")
        texts = pa.array([str(each) for each in log.rewards[700:]])
        changed = table[700:].set_column(table.column_names.index("reward"), "reward", texts)
        pq.write_table(changed, tmp_path / "b.parquet")
        with pytest.raises(
            LogError,
            match=r"Column 'reward' is string in .*b\.parquet, from row group 0 on, but double",
        ):
            read_log(tmp_path, lazy=True)
        pq.write_table(table[700:].drop_columns(["x_2"]), tmp_path / "b.parquet")
        with pytest.raises(LogError, match=r"b\.parquet has no column 'x_2'"):
            read_log(tmp_path, lazy=True)

    def test_a_damaged_footer(self, log, tmp_path):
        pq.write_table(table_of(log), tmp_path / "a.parquet")
        (tmp_path / "b.parquet").write_bytes(b"PAR1 no more of it")
        with pytest.raises(LogError, match=r"b\.parquet could not be read"):
            read_log(tmp_path, lazy=True)

    @pytest.mark.parametrize(
        ("change", "text"),
        [
            ({"reward": lambda r: np.where(np.arange(1500) == 800, np.nan, r)}, "'reward' "),
            (
                {"x_1": lambda x: np.where(np.arange(1500) == 800, np.inf, x)},
                "'x_1' must hold finite",
            ),
        ],
    )
    def test_numbers_that_are_none(self, change, text, log, tmp_path, cartpole):
        table = table_of(log, terminated=log.truncated)
        for name, make in change.items():
            values = pa.array(make(table[name].to_numpy()))
            table = table.set_column(table.column_names.index(name), name, values)
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=300)
        lazy = read_log(tmp_path / "t.parquet", lazy=True)
        with pytest.raises(LogError, match=rf"In .*t\.parquet, row group 2, .*{text}"):
            self.run(lazy, cartpole)

    @pytest.mark.parametrize(
        ("columns", "text"),
        [
            (
                {"episode": lambda log: np.arange(1500) % 2},
                "rows of an episode must stand together",
            ),
            ({"step": lambda log: np.arange(1500)[::-1]}, "steps of episode 0 do not grow"),
            (
                {"terminated": lambda log: np.arange(1500) == 112},
                "terminated may be true only at the last row of an episode.*episode 2",
            ),
            (
                {"group": lambda log: np.arange(1500) // 130},
                "A group holds whole episodes.*episode 2",
            ),
            ({"action": lambda log: pa.array([None, *log.actions[1:]])}, "missing value"),
            ({"x_0": lambda log: [f"{i}" for i in range(1500)]}, "more than 256"),
        ],
    )
    def test_rows_that_make_no_log(self, columns, text, log, tmp_path):
        table = table_of(log, **{key: make(log) for key, make in columns.items()})
        pq.write_table(table, tmp_path / "t.parquet", row_group_size=113)
        with pytest.raises(LogError, match=text):
            read_log(tmp_path / "t.parquet", lazy=True)

    def test_next_states_that_are_missing(self, log, tmp_path, cartpole):
        after = {f"next_x_{j}": log.next_states[:, j].copy() for j in range(4)}
        after["next_x_0"][49] = np.nan
        table = table_of(log, **after, terminated=np.arange(1500) == 49)
        pq.write_table(table, tmp_path / "t.parquet")
        assert np.isfinite(self.run(read_log(tmp_path / "t.parquet", lazy=True), cartpole))
        after["next_x_0"][60] = np.nan
        pq.write_table(table_of(log, **after), tmp_path / "t.parquet")
        lazy = read_log(tmp_path / "t.parquet", lazy=True)
        with pytest.raises(LogError, match=r"next state is missing or not finite in 2 rows"):
            self.run(lazy, cartpole)


def test_a_method_is_not_changed_by_where_the_log_is(log, path, cartpole):
    chosen = Method(base=method("lstd").base, partition=Split(4))
    lazy = read_log(path, lazy=True)
    folds = [chosen.partition.assign(each, np.random.default_rng(0)) for each in (log, lazy)]
    assert np.array_equal(folds[0].counts, folds[1].counts)


class TestCommandLine:
    """The same commands, whether the log is in memory or not."""

    def run(self, *words):
        return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "80"})

    def found(self, *words):
        result = self.run(*words, "--json")
        assert result.exit_code in (0, 3), result.stderr
        return json.loads(result.stdout)

    def test_evaluate(self, path, tmp_path):
        words = ["evaluate", path, "--policy", "uniform", "--gamma", 0.9]
        here = self.found(*words, "--method", "roam-dm")
        there = self.found(*words, "--method", "roam-dm", "--lazy", "--workers", 2)
        assert there["value"] == pytest.approx(here["value"], rel=1e-9)
        assert "stays on disk" in there["notes"][0]
        here, there = self.found(*words), self.found(*words, "--lazy")
        assert there["value"] == here["value"]
        small = self.found(*words, "--lazy", "--budget", 0.0004, "--report", tmp_path / "page.html")
        said = " ".join(small["warnings"])
        assert "The diagnosis looked at" in said
        assert "Auto looked at" in said
        assert "of 30 episodes" in said
        assert (tmp_path / "page.html").stat().st_size > 10_000

    def test_compare_learn_and_diagnose(self, path, tmp_path):
        comparing = ["compare", path, "--policy", "one=uniform", "--gamma", 0.9]
        learning = ["learn", path, "--gamma", 0.9, "--method", "fqi", "--report"]
        diagnosing = ["diagnose", path, "--policy", "uniform", "--gamma", 0.9]
        here, there = (self.found(*comparing, *more) for more in ([], ["--lazy"]))
        assert there["best"] == here["best"]
        here, there = (
            self.found(*learning, tmp_path / "page.html", *more) for more in ([], ["--lazy"])
        )
        assert there["actions"] == here["actions"]
        assert there["learned"]["episodes"] == here["learned"]["episodes"]
        here, there = (self.found(*diagnosing, *more) for more in ([], ["--lazy"]))
        assert there["diagnosis"] == here["diagnosis"]
        said = self.found(
            *diagnosing, "--lazy", "--budget", 0.0004, "--report", tmp_path / "p.html"
        )
        assert "The diagnosis looked at" in said["warnings"][0]

    def test_propensities_are_estimated_in_memory(self, log, tmp_path):
        table = table_of(log, episode=np.arange(1500))
        pq.write_table(table, tmp_path / "t.parquet")
        words = ["evaluate", tmp_path / "t.parquet", "--policy", "always:1", "--method", "ips"]
        here, there = (self.found(*words, *more) for more in ([], ["--lazy"]))
        assert there["value"] == here["value"]
        refused = self.run(*words, "--lazy", "--budget", 0.00001)
        assert refused.exit_code == 2
        assert "A model of the propensities needs the whole log in memory" in " ".join(
            refused.stderr.split()
        )

    def test_an_end_by_the_clock_is_seen_on_disk_too(self, log, tmp_path):
        pq.write_table(table_of(log, terminated=log.truncated), tmp_path / "t.parquet")
        words = ["diagnose", tmp_path / "t.parquet"]
        here, there = (self.found(*words, *more) for more in ([], ["--lazy"]))
        assert there["warnings"] == here["warnings"]
        assert "ends for good after 50 steps" in there["warnings"][0]

    def test_a_run_goes_on_from_its_checkpoint(self, path, tmp_path):
        words = ["evaluate", path, "--policy", "uniform", "--gamma", 0.9, "--method", "fqe"]
        words += ["--lazy", "--checkpoint", tmp_path / "progress"]
        first, second = self.found(*words), self.found(*words)
        assert first["value"] == second["value"]
        assert list((tmp_path / "progress").iterdir())

    @pytest.mark.parametrize(
        ("words", "text"),
        [
            (["--engine", "spark"], "--engine must be local or ray. Got 'spark'"),
            (["--address", "auto"], "--address is that of a Ray cluster: say --engine ray"),
            (["--engine", "ray", "--workers", "2"], "a Ray cluster knows its cores"),
        ],
    )
    def test_engines_that_are_none(self, words, text, path):
        result = self.run("evaluate", path, "--policy", "uniform", "--gamma", 0.9, *words)
        assert result.exit_code == 2
        assert text in " ".join(result.stderr.split())
