"""Beyond the budget, whole episodes are drawn and the reader is notes."""

from dataclasses import replace

import numpy as np
import pyarrow.parquet as pq
import pytest

import tailproof.io.mapped
import tailproof.log.budget
from tailproof import diagnose, evaluate
from tailproof.errors import LogError, TailproofWarning
from tailproof.io import read_log
from tailproof.log.budget import SampleWarning, sample_to_budget, sampled_episodes

BUDGET = 400_000  # of 1.2 MB for 1500 rows with four times their features


def test_the_default_and_the_diagnosis_say_what_they_looked_at(path, cartpole):
    lazy, target = read_log(path, lazy=True, budget=BUDGET), cartpole.target()
    said = r"a sample of \d+ of 1,500 rows, (\d+) of 30 episodes \(seed 4\): .* 0\.0004 GB"
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


def test_a_sample_is_whole_episodes_as_they_were(log, path, assert_equal):
    lazy = read_log(path, lazy=True, budget=BUDGET)
    with pytest.warns(SampleWarning):
        some = sample_to_budget(lazy, "A test")
    places = np.searchsorted(log.episode_ids, some.episode_ids)
    assert (np.diff(places) > 0).all()
    assert_equal(some, log.take(places))


def test_groups_stay_whole_and_neighbours_together(log, tmp_path, monkeypatch, table_of):
    group = log.episode_of_row // 5
    pq.write_table(table_of(log, group=group, terminated=log.truncated), tmp_path / "t.parquet")
    lazy = read_log(tmp_path / "t.parquet", lazy=True)
    chosen = sampled_episodes(lazy, 600, seed=1)
    assert lazy.lengths[chosen].sum() == 500
    assert set(np.bincount(chosen // 5)) <= {0, 5}
    monkeypatch.setattr(tailproof.log.budget, "_BLOCKS", 6)
    alone = sampled_episodes(replace(lazy, group_ids=None), 600, seed=1)
    assert set(np.bincount(alone // 5)) <= {0, 5}
    assert len(alone) == 10


def test_a_budget_below_one_episode_is_refused(path):
    lazy = read_log(path, lazy=True, budget=1000)
    with pytest.raises(LogError, match=r"every episode that was drawn is longer"):
        sample_to_budget(lazy, "A test")


@pytest.mark.parametrize("parts", [1 << 20, 97])
def test_some_episodes_of_a_log_on_disk(parts, log, tmp_path, monkeypatch, table_of, assert_equal):
    monkeypatch.setattr(tailproof.io.mapped, "PART", parts)
    pq.write_table(table_of(log), tmp_path / "t.parquet", row_group_size=97)
    with pytest.warns(TailproofWarning, match="left out"):
        there = read_log(tmp_path / "t.parquet", lazy=True)
    with pytest.warns(TailproofWarning, match="left out"):
        here = read_log(tmp_path / "t.parquet", lazy=False)
    for chosen in ([0], [29], [3, 4, 5, 20], list(range(0, 30, 2))):
        taken = there.take(np.array(chosen))
        assert_equal(taken, here.take(np.array(chosen)))
        assert np.array_equal(taken.first_states, here.first_states[chosen])
        assert taken.action_counts.sum() == taken.n_transitions
        again = taken.take(np.arange(0, len(chosen), 2))
        assert_equal(again, here.take(np.array(chosen[::2])))
