"""Training episodes are recognised again."""

from types import SimpleNamespace

import numpy as np
import pytest

from tailproof.errors import TaughtWarning
from tailproof.log.folds import episode_marks, warn_of_taught_episodes
from tailproof.worlds import CartPole


def test_hashes_stored_as_signed_integers_are_recognised():
    log = CartPole().log(episodes=40, seed=0)
    policy = SimpleNamespace(taught=episode_marks(log)[:30].view(np.int64))
    with pytest.warns(TaughtWarning, match=r"^30 of 40 episodes were used to learn this policy"):
        warn_of_taught_episodes(policy, log)
