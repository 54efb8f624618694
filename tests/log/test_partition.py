import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import Bootstrap, Log, Replicate, Split, Whole
from tailproof.errors import PartitionError

PARTITIONS = [Whole(), Split(3), Bootstrap(4), Replicate(2)]


def make(groups):
    n = len(groups)
    return Log.from_arrays(
        np.zeros(n),
        np.zeros(n, dtype=int),
        np.zeros(n),
        np.zeros(n),
        episode=range(n),
        group=groups,
    )


@given(st.lists(st.integers(0, 6), min_size=5, max_size=40), st.integers(0, 99))
def test_a_split_is_disjoint_complete_balanced_and_never_tears_a_group(groups, seed):
    log = make(groups)
    folds = min(3, log.n_groups)
    counts = Split(folds).assign(log, np.random.default_rng(seed)).counts
    assert (counts.sum(axis=0) == 1).all()
    fold = counts.argmax(axis=0)
    per_group = [np.unique(fold[log.group_of_episode == g]) for g in range(log.n_groups)]
    assert all(len(each) == 1 for each in per_group)
    sizes = np.bincount([each[0] for each in per_group], minlength=folds)
    assert sizes.max() - sizes.min() <= 1


@given(st.lists(st.integers(0, 6), min_size=2, max_size=40), st.integers(0, 99))
def test_a_bootstrap_draws_as_many_groups_as_there_are(groups, seed):
    log = make(groups)
    counts = Bootstrap(4).assign(log, np.random.default_rng(seed)).counts
    first = np.unique(log.group_of_episode, return_index=True)[1]
    assert (counts[:, first].sum(axis=1) == log.n_groups).all()
    for group in range(log.n_groups):
        assert (np.ptp(counts[:, log.group_of_episode == group], axis=1) == 0).all()


@pytest.mark.parametrize("partition", PARTITIONS, ids=str)
def test_every_partition_keeps_its_count_and_its_seed(partition):
    log = make(list(range(12)))
    first = partition.assign(log, np.random.default_rng(1))
    again = partition.assign(log, np.random.default_rng(1))
    assert first.count == partition.count == len(first.counts)
    assert np.array_equal(first.counts, again.counts)
    for k in range(first.count):
        assert len(first.episodes(k)) == first.counts[k].sum()


def test_folds_that_a_log_cannot_fill_are_refused():
    with pytest.raises(PartitionError, match=r"5 folds need at least 5 groups\. The log has 2"):
        Split(5).assign(make([0, 0, 1, 1, 1, 1]), np.random.default_rng(0))
    for partition in (Split, Bootstrap, Replicate):
        with pytest.raises(PartitionError, match="folds must be a whole number of at least 1"):
            partition(0)


def test_folds_by_the_ten_thousands_lose_no_episode():
    n = 47_232
    log = Log.from_arrays(
        np.zeros(n), np.zeros(n, int), np.zeros(n), np.zeros(n), episode=np.arange(n)
    )
    counts = np.bincount(
        Split(40_000).fold_of_episode(log, np.random.default_rng(0)), minlength=40_000
    )
    assert set(counts.tolist()) == {1, 2}
    assert counts.sum() == n


def test_folds_that_would_fill_the_memory_are_refused(monkeypatch):
    monkeypatch.setattr("tailproof.log.folds.physical_memory", lambda: 1000)
    log = Log.from_arrays(
        np.zeros(60), np.zeros(60, int), np.zeros(60), np.zeros(60), episode=np.arange(60)
    )
    with pytest.raises(PartitionError, match=r"30 folds of 60 episodes need .* Use fewer folds"):
        Split(30).assign(log, np.random.default_rng(0))
