"""Policies run in Gymnasium environments, and D4RL's scores of their returns."""

import gymnasium
import numpy as np
import pytest

from tailproof import Continuous, Discrete
from tailproof.errors import TailproofError
from tailproof.worlds.environments import REFERENCE, normalised, play, require_matching, scorer


def test_scores_are_d4rls():
    for domain, (random, expert) in REFERENCE.items():
        assert normalised(domain, random) == 0
        assert scorer(domain)(expert) == pytest.approx(100)
    assert normalised("hopper", 1607.0) == pytest.approx(50, abs=0.1)
    with pytest.raises(TailproofError, match="domain must be 'hopper'"):
        normalised("ant", 0.0)


def test_episodes_are_played_side_by_side_as_one_by_one():
    def lean(states):
        return (states[:, 2] + 0.5 * states[:, 3] > 0).astype(int)

    together = play("CartPole-v1", lean, episodes=4, seed=5)
    alone = [play("CartPole-v1", lean, episodes=1, seed=5 + i)[0] for i in range(4)]
    assert together.tolist() == alone
    assert together.max() > 50
    assert play("CartPole-v1", lean, episodes=2, limit=7).tolist() == [7.0, 7.0]


def test_environments_of_modules_that_are_still_to_be_imported(tmp_path, monkeypatch):
    (tmp_path / "own_worlds.py").write_text(
        "import gymnasium\n"
        "gymnasium.register('Own-v0', 'gymnasium.envs.classic_control:CartPoleEnv')\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    try:
        assert len(play("own_worlds:Own-v0", lambda s: np.zeros(len(s), int), episodes=2)) == 2
    finally:
        gymnasium.registry.pop("Own-v0", None)


def test_mujoco_is_silent_about_gymnasiums_models(tmp_path, monkeypatch, capfd):
    pytest.importorskip("mujoco")
    pytest.importorskip("imageio")
    monkeypatch.chdir(tmp_path)
    play("HalfCheetah-v4", lambda states: np.zeros((len(states), 6)), episodes=1, limit=2)
    assert capfd.readouterr() == ("", "")
    assert list(tmp_path.iterdir()) == []


def test_an_environment_must_match_the_log():
    require_matching("CartPole-v1", 4, Discrete(2))
    require_matching("Pendulum-v1", 3, Continuous(1))
    for name, states, actions in (
        ("CartPole-v1", 3, Discrete(2)),
        ("CartPole-v1", 4, Discrete(3)),
        ("CartPole-v1", 4, Continuous(1)),
        ("Pendulum-v1", 3, Discrete(2)),
        ("Pendulum-v1", 3, Continuous(2)),
    ):
        with pytest.raises(TailproofError, match="name the one that the log comes from"):
            require_matching(name, states, actions)

    class WithoutSpaces:
        def close(self):
            pass

    require_matching(WithoutSpaces, 7, Discrete(2))  # it does not tell


def test_episodes_must_be_a_number():
    with pytest.raises(TailproofError, match="episodes must be a whole number of at least 1"):
        play("CartPole-v1", lambda states: np.zeros(len(states), int), episodes=0)
