"""A log that is mapped from files is the same log, and gives the same numbers."""

import numpy as np
import pytest

import tailproof.critics.linear
import tailproof.io.mapped
from tailproof import Log, Method, Split, compare, diagnose, evaluate, k_path, learn, method
from tailproof.errors import CoverageWarning, LogError
from tailproof.features import Joint
from tailproof.io import read_log
from tailproof.log.budget import SampleWarning
from tailproof.parallel import Local
from tailproof.policies.forms import EpsilonGreedy
from tailproof.robust.means import AdaptiveHuber, Catoni, PermutedMedianOfMeans

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


def continuous_log(rng, episodes):
    """Ten steps an episode, two state variables and one real action."""
    n = 10 * episodes
    states, actions = rng.normal(size=(n, 2)), rng.normal(size=(n, 1))
    return Log.from_arrays(
        states, actions, states[:, 0] - actions[:, 0] ** 2, states + 0.1,
        episode=np.repeat(range(episodes), 10),
    )  # fmt: skip


def test_it_tells_what_a_log_in_memory_tells(log, path, assert_equal):
    lazy = read_log(path, lazy=True)
    assert isinstance(lazy.states, np.memmap)
    assert len(lazy.parts) == 3
    for name in ("n_transitions", "n_episodes", "n_actions", "is_discrete", "n_groups"):
        assert getattr(lazy, name) == getattr(log, name)
    for name in ("is_bandit", "always_terminates", "state_names"):
        assert getattr(lazy, name) == getattr(log, name)
    for name in ("lengths", "group_of_episode", "first_states"):
        assert np.array_equal(getattr(lazy, name), getattr(log, name))
    assert lazy.action_counts.tolist() == np.bincount(log.actions).tolist()
    assert "1500 transitions, 30 episodes" in repr(lazy)
    assert_equal(lazy, log)


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


def test_a_log_read_from_disk_survives_the_order_of_its_rows(log, tmp_path, cartpole, stored):
    """Folds follow the labels: other episodes first, the same folds."""
    turned = log.take(np.random.default_rng(0).permutation(log.n_episodes))
    lazy = read_log(stored(turned, tmp_path / "turned.parquet"), lazy=True)
    for chosen in ("roam-dm", "roam-dr", "b-roam-dm"):
        pair = [
            evaluate(each, cartpole.target(), method=chosen, gamma=0.9).value
            for each in (lazy, log)
        ]
        assert pair[0] == pytest.approx(pair[1], rel=1e-8)


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

    def test_compare_with_continuous_actions(self, rng, tmp_path, stored):
        log = continuous_log(rng, episodes=90)
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

    @pytest.mark.slow
    def test_learning_passes_run_on_engines(self, log, path, monkeypatch):
        monkeypatch.setattr(tailproof.critics.linear, "_KEPT", 0)
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
        assert there.held_out.episode_ids.tolist() == here.held_out.episode_ids.tolist()
        assert np.allclose(there.critic.members.theta, here.critic.members.theta, rtol=1e-7)
        judged = [each.evaluate(method="roam-dm").estimate.value for each in (there, here)]
        assert judged[0] == pytest.approx(judged[1], rel=1e-7)

    @pytest.mark.slow
    def test_learn_by_default(self, log, path):
        there, here = (learn(each, gamma=0.9, seed=1) for each in (read_log(path, lazy=True), log))
        assert str(there.method) == str(here.method)
        assert [text.split("(")[0] for text in there.reasons] == [
            text.split("(")[0] for text in here.reasons
        ]
        with pytest.warns(SampleWarning, match="learn looked at"):
            learn(read_log(path, lazy=True, budget=600_000), gamma=0.9, seed=1)

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
def test_gamma_and_coverage_are_checked_alike(tmp_path, rng, stored):
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


def test_continuous_actions_and_policies_with_one_answer(rng, tmp_path, stored):
    log = continuous_log(rng, episodes=30)
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


def test_a_method_is_not_changed_by_where_the_log_is(log, path, cartpole):
    chosen = Method(base=method("lstd").base, partition=Split(4))
    lazy = read_log(path, lazy=True)
    folds = [chosen.partition.assign(each, np.random.default_rng(0)) for each in (log, lazy)]
    assert np.array_equal(folds[0].counts, folds[1].counts)
