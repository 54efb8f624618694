"""How policies of continuous actions are judged where nobody names a method. No torch here.

Neural FQE judges any policy. Percent cloning has a stronger judge: other episodes that begin like the
imitated ones, and what they earned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.stats import rankdata

from tailproof.algorithms.learners.ranking import Rank, episode_scores
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.data.partition import Split
from tailproof.deep.bases import NeuralFQE
from tailproof.deep.settings import Run
from tailproof.ensemble.aggregate import Median
from tailproof.methods.method import Method
from tailproof.policies.simple import DeterministicPolicy

STEPS, HIDDEN, FOLDS = 5_000, (64, 64), 5
_OPENING = 20  # most steps of an episode that tell whom it resembles
_SHUFFLES = 4_000
_RIDGE = 0.1  # a row, on standardised first states


def neural_judge(
    groups: int, *, folds: int = FOLDS, steps: int = STEPS, hidden: tuple[int, ...] = HIDDEN
) -> Method:
    """Return the median of K neural FQE, each of the episodes of a fold: seconds, not hours.

    Parameters
    ----------
    groups
        How many groups of episodes there are to split.

    Examples
    --------
    >>> print(neural_judge(3))
    NeuralFQE, split in 3, median at value
    """
    base = NeuralFQE(steps=steps, hidden=hidden, learning_rate=1e-3, run=Run(progress=False))
    return Method(base=base, partition=Split(min(folds, groups)), aggregate=Median(), at="value")


@dataclass(frozen=True)
class Resemblance:
    """Do held-out episodes that begin as percent cloning would go better than the others?

    Attributes
    ----------
    gain
        Mean score of the third of them that is nearest to the policy, less that of all.
    chance
        Of so close a relation of nearness and score if there were none, by shuffling the scores.
    against
        The chance of so close a relation of the opposite sign, with plain sums of the rewards: robust
        scores do not see rare losses.
    level
        Confidence to reach.
    """

    gain: float
    chance: float
    against: float
    level: float

    @property
    def credible(self) -> bool:
        """Whether imitating these episodes is better than imitating all."""
        return self.chance <= 1 - self.level < self.against and self.gain > 0

    def __str__(self) -> str:
        return (
            f"held-out episodes that begin like the imitated ones score {self.gain:.4g} more than all "
            f"(p = {self.chance:.2g})"
        )


def resemblance(
    policy: DeterministicPolicy,
    clone: DeterministicPolicy,
    taught: Log,
    held_out: Log,
    *,
    rank: Rank,
    level: float,
    rng: np.random.Generator,
) -> Resemblance:
    """Judge the policy that imitates the best of the taught episodes by what others like them earned.

    Who acted in an episode shows in its first steps: how much nearer its actions are to the policy than
    to the clone of all episodes. Later steps also tell how it went, and a policy is near to lucky
    episodes because it was taught such states. The relation is a rank correlation, less what the first
    states explain of it, so that an easy start is no merit; where the log names groups, a group is one
    observation.

    Parameters
    ----------
    policy, clone
        Learned from the best and from all episodes of `taught`.
    rank
        The score of an episode.
    """
    nearer = _nearer(policy, clone, held_out)
    group = held_out.group_of_episode

    def chance(kind: Rank, sign: float) -> float:
        expected = _from_first_states(taught, held_out, episode_scores(taught, kind))
        each = (nearer, sign * episode_scores(held_out, kind), sign * expected)
        size = np.bincount(group)
        seen = size > 0
        near, score, start = (np.bincount(group, values)[seen] / size[seen] for values in each)
        return _chance(near, score, start, rng)

    scores = episode_scores(held_out, rank)
    third = np.argsort(-nearer, kind="stable")[: max(1, round(len(nearer) / 3))]
    return Resemblance(
        gain=float(scores[third].mean() - scores.mean()),
        chance=chance(rank, 1.0),
        against=chance("sum", -1.0),
        level=level,
    )


def _nearer(policy: DeterministicPolicy, clone: DeterministicPolicy, log: Log) -> FloatArray:
    """Return how much nearer each episode's first actions are to the policy than to the clone, (E,)."""
    first = int(np.clip(np.median(log.lengths) // 10, 1, _OPENING))
    rows = np.concatenate(
        [
            np.arange(start, min(start + first, end))
            for start, end in zip(log.starts, log.starts[1:], strict=False)
        ]
    )
    states, actions = log.states[rows], log.actions[rows]
    spread = np.maximum(log.actions.std(axis=0), 1e-12)
    far = [
        np.square((actions - np.asarray(each(states))) / spread).sum(axis=1)
        for each in (clone, policy)
    ]
    episode = log.episode_of_row[rows]
    return np.asarray(np.bincount(episode, far[0] - far[1]) / np.bincount(episode))


def _from_first_states(taught: Log, held_out: Log, scores: FloatArray) -> FloatArray:
    """Return the score that first states alone predict for each held-out episode, as a rank, (E,)."""
    centre, spread = taught.first_states.mean(axis=0), taught.first_states.std(axis=0)
    spread = np.where(spread > 1e-9 * np.maximum(1, np.abs(centre)), spread, np.inf)
    before, after = ((log.first_states - centre) / spread for log in (taught, held_out))
    ranks = _ranks(scores)
    gram = before.T @ before + _RIDGE * len(before) * np.eye(before.shape[1])
    return np.asarray(after @ np.linalg.solve(gram, before.T @ ranks))


def _chance(
    near: FloatArray, score: FloatArray, expected: FloatArray, rng: np.random.Generator
) -> float:
    """Return the share of shuffles with a partial rank correlation as large as the one seen."""
    start = _ranks(expected)
    size = max(float(start @ start), 1.0)
    one, two = (each - start * float(each @ start) / size for each in (_ranks(near), _ranks(score)))
    shuffled = rng.permuted(np.tile(two, (_SHUFFLES, 1)), axis=1) @ one
    return float((1 + (shuffled >= one @ two - 1e-9).sum()) / (1 + _SHUFFLES))


def _ranks(values: FloatArray) -> FloatArray:
    """Return ranks around zero."""
    return np.asarray(rankdata(values) - (len(values) + 1) / 2)
