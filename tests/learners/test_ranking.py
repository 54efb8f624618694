import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import Log
from tailproof.errors import MethodError, TailproofWarning
from tailproof.learners.cloning import (
    best_episodes,
    choose_rank,
    episode_scores,
    imitated_episodes,
)

RANKS = ("sum", "winsorised", "median")


def log_of(episodes):
    """Return a log whose episodes have these rewards; states and actions say nothing."""
    lengths = [len(each) for each in episodes]
    n = sum(lengths)
    return Log.from_arrays(
        np.zeros((n, 1)),
        np.arange(n) % 2,
        np.concatenate(episodes),
        np.zeros((n, 1)),
        episode=np.repeat(np.arange(len(episodes)), lengths),
    )


def ladder(rng, noise, *, episodes=60, steps=(50, 200), scale=10.0):
    """Return episodes of unequal length, each of one author whose mean reward grows with its number."""
    found = []
    for place in range(episodes):
        length = int(rng.integers(*steps))
        found.append(
            1 + place / episodes + 0.1 * rng.standard_normal(length) + scale * noise(length)
        )
    return log_of(found)


@pytest.mark.parametrize("rank", RANKS)
def test_without_noise_every_score_finds_the_best(rank):
    log = log_of([np.full(20, float(reward)) for reward in (3, 1, 4, 1.5, 5)])
    assert best_episodes(log, top=0.4, rank=rank).best.tolist() == [4, 2]


@pytest.mark.parametrize("rank", RANKS)
def test_all_episodes_are_a_limit_and_one_is_the_other(rank):
    log = ladder(np.random.default_rng(0), np.zeros)
    assert sorted(best_episodes(log, top=1.0, rank=rank).best) == list(range(60))
    assert len(best_episodes(log, top=1e-9, rank=rank).best) == 1


def test_ties_are_kept():
    log = log_of([np.ones(5)] * 8 + [np.zeros(5)] * 2)
    assert best_episodes(log, top=0.3).best.tolist() == list(range(8))


def test_one_gigantic_reward_moves_the_sum_and_not_the_median():
    episodes = [np.full(30, float(place)) + np.linspace(-0.1, 0.1, 30) for place in range(10)]
    spoilt = [each.copy() for each in episodes]
    spoilt[0][3] = 1e9
    assert best_episodes(log_of(spoilt), top=0.3, rank="sum").best[0] == 0
    for rank in ("median", "winsorised"):
        assert best_episodes(log_of(spoilt), top=0.3, rank=rank).best.tolist() == [9, 8, 7]


@given(st.integers(0, 2**32), st.floats(-5, 5), st.floats(0.1, 10))
def test_scores_of_equal_length_move_with_the_rewards(seed, shift, factor):
    rng = np.random.default_rng(seed)
    log = log_of(list(rng.standard_normal((6, 9))))
    moved = log.with_rewards(shift + factor * log.rewards)
    for rank in RANKS:
        expected = 9 * shift + factor * episode_scores(log, rank)
        assert episode_scores(moved, rank) == pytest.approx(expected, abs=1e-6)


def test_the_tails_choose_the_score():
    rng = np.random.default_rng(1)
    noises = {
        "sum": rng.standard_normal,
        "median": rng.standard_cauchy,
        "winsorised": lambda size: rng.pareto(1.5, size) - 2,
    }
    for expected, noise in noises.items():
        rank, reason = choose_rank(ladder(rng, noise))
        assert rank == expected, reason


def test_rare_rewards_are_the_signal():
    rng = np.random.default_rng(2)
    goals = [np.append(np.zeros(40), rng.random() < 0.5) for _ in range(50)]
    found = best_episodes(log_of(goals), top=0.2)
    assert found.rank == "sum"
    assert all(goals[place][-1] == 1 for place in found.best)


@pytest.mark.parametrize("sign", [1, -1])
def test_skewed_noise_counts_neither_for_nor_against_long_episodes(sign):
    """Of centred noise with a tail to one side most draws lie on the other: medians are biased."""
    rng = np.random.default_rng(3)
    log = ladder(rng, lambda size: sign * (rng.pareto(1.5, size) - 2), episodes=200, scale=0.3)
    found = best_episodes(log, top=0.3)
    assert found.rank == "winsorised"
    truth = log.lengths * (1 + np.arange(200) / 200)
    best = np.sort(truth)[-60:].mean()
    chosen = truth[found.best].mean()
    assert chosen - truth.mean() > 0.9 * (best - truth.mean())


@pytest.mark.parametrize("top", [0, -0.1, 1.5, np.nan, "half"])
def test_a_share_is_a_share(top):
    with pytest.raises(MethodError, match="top must be"):
        best_episodes(log_of([np.ones(3)] * 2), top=top)


def test_a_score_has_a_name():
    with pytest.raises(MethodError, match="rank must be 'auto', 'sum', 'winsorised' or 'median'"):
        best_episodes(log_of([np.ones(3)] * 2), top=0.5, rank="mean")


def test_ties_that_keep_most_of_the_log_are_warned_of():
    rewards = np.zeros(200)
    rewards[:20] = 1.0
    log = Log.from_arrays(
        np.arange(200.0), np.arange(200) % 2, rewards, np.arange(200.0), episode=np.arange(200)
    )
    with pytest.warns(TailproofWarning, match=r"Imitates 200 of 200 episodes instead of 30 %"):
        _, notes = imitated_episodes([log], top=0.3, rank="sum")
    assert "instead of 30 %" in notes[0]
    distinct = log.with_rewards(np.arange(200.0))
    _, notes = imitated_episodes([distinct], top=0.3, rank="sum")
    assert notes == ("Imitates 60 of 200 episodes.",)
