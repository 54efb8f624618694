import numpy as np
import pytest

from tailproof import Log, OutOfBag
from tailproof.errors import PartitionError


def log(episodes, group=None):
    n = 2 * episodes
    episode = np.repeat(np.arange(episodes), 2)
    return Log.from_arrays(
        np.zeros(n), np.zeros(n, int), np.zeros(n), np.zeros(n), episode=episode, group=group
    )


def test_members_see_about_37_percent_once_each(rng):
    counts = OutOfBag(40).assign(log(400), rng).counts
    assert set(np.unique(counts)) == {0, 1}
    assert counts.mean() == pytest.approx(np.exp(-1), abs=0.01)


def test_groups_stay_together(rng):
    counts = OutOfBag(5).assign(log(12, group=np.repeat(np.arange(4), 6)), rng).counts
    assert all(len(set(member[3 * g : 3 * g + 3])) == 1 for member in counts for g in range(4))


def test_nobody_is_left_with_nothing(rng):
    for _ in range(50):
        assert OutOfBag(5).assign(log(2), rng).counts.any(axis=1).all()


def test_a_single_episode_leaves_nothing_out(rng):
    with pytest.raises(PartitionError, match="Out-of-bag folds need at least 2 episodes"):
        OutOfBag(5).assign(log(1), rng)
    with pytest.raises(PartitionError, match="folds must be a whole number of at least 1"):
        OutOfBag(0)
