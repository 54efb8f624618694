"""Partitions: which episodes each of the K members sees."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tailproof.arrays import AnyArray, IntArray
from tailproof.data.log import Log
from tailproof.data.view import LogView, physical_memory
from tailproof.errors import PartitionError
from tailproof.parameters import Configurable


@dataclass(frozen=True)
class Folds:
    """K subsets of the episodes, as how often member k sees episode e."""

    counts: IntArray  # (K, E)

    @property
    def count(self) -> int:
        """Number of members, K."""
        return len(self.counts)

    @property
    def are_disjoint(self) -> bool:
        """Whether every episode is seen by at most one member, once."""
        return bool((self.counts.sum(axis=0) <= 1).all())

    def fold_of_episode(self) -> IntArray:
        """Return the member that sees each episode, (E,), −1 for none; for disjoint folds."""
        seen = self.counts.any(axis=0)
        return np.where(seen, self.counts.argmax(axis=0), -1)

    def episodes(self, member: int) -> IntArray:
        """Return the indices of the episodes of one member, repeated as often as it sees them."""
        return np.repeat(np.arange(self.counts.shape[1]), self.counts[member])

    def log(self, log: Log, member: int) -> Log:
        """Return the log that one member sees."""
        return log.take(self.episodes(member))

    def subset(self, members: IntArray) -> Folds:
        """Return only these members."""
        return Folds(self.counts[members])


class Partition(Protocol):
    """How a log is dealt to K members: whole groups at a time."""

    @property
    def count(self) -> int:
        """Number of members, K."""

    def assign(self, log: LogView, rng: np.random.Generator) -> Folds:
        """Deal the log's episodes."""


def shuffled_groups(log: LogView, key: int | np.random.Generator) -> IntArray:
    """Return the groups of a log (without groups, its episodes) in an order that the key decides, (G,).

    They are sorted by a hash of their labels, with this key or one drawn from the generator. Which
    fold a group falls into thus depends on the labels and the seed alone: not on the order of the
    rows, nor on whether the log is in memory.
    """
    labels = log.episode_ids if log.group_ids is None else np.unique(log.group_ids)
    number = int(key.integers(2**63)) if isinstance(key, np.random.Generator) else key
    return np.argsort(label_hash(labels, number), kind="stable")


def label_hash(labels: AnyArray, key: int) -> IntArray:
    """Return 64 bits that look random for each label, (n,): equal ones for equal labels and keys.

    >>> label_hash(np.array(["a", "b"]), 7)[0] == label_hash(np.array(["a", "long"]), 7)[0]
    np.True_
    """
    kind = labels.dtype.kind
    start = np.full(len(labels), key, dtype=np.uint64)
    if kind in "iub":
        return _mix(start ^ labels.astype(np.int64).view(np.uint64))
    if kind in "mM":
        return _mix(start ^ labels.view(np.uint64))
    if kind == "f":
        return _mix(start ^ (labels.astype(np.float64) + 0.0).view(np.uint64))
    text = np.ascontiguousarray(labels.astype(np.str_))
    letters = text.view(np.uint32).reshape(len(text), -1)
    result = _mix(start)
    for letter in letters.T:  # shorter labels are padded with zeros, which must not matter
        result = np.where(letter == 0, result, _mix(result ^ letter))
    return result


def _mix(bits: IntArray) -> IntArray:
    """Return a bijection of 64-bit numbers that spreads every bit over all (SplitMix64's)."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@dataclass(frozen=True)
class Whole(Configurable):
    """One member that sees everything."""

    @property
    def count(self) -> int:
        """One."""
        return 1

    def assign(self, log: LogView, rng: np.random.Generator) -> Folds:  # noqa: ARG002
        """Give every episode to the one member."""
        return Folds(np.ones((1, log.n_episodes), dtype=np.int8))


@dataclass(frozen=True)
class _Several(Configurable):
    """What partitions with K members share."""

    folds: int = 5

    def __post_init__(self) -> None:
        if (
            not isinstance(self.folds, int | np.integer)
            or isinstance(self.folds, bool)
            or self.folds < 1
        ):
            raise PartitionError(
                f"folds must be a whole number of at least 1. Got {self.folds!r} instead."
            )

    @property
    def count(self) -> int:
        """Number of members, K."""
        return self.folds


@dataclass(frozen=True)
class Split(_Several):
    """K disjoint folds of whole groups, dealt at random; the partition of ROAM and ROOM.

    The deal follows a seeded hash of the groups' (or episodes') labels, so that a log has the same
    folds in memory, in chunks from disk and on a cluster.

    Examples
    --------
    >>> import numpy as np
    >>> from tailproof import Log
    >>> log = Log.from_arrays(np.zeros(6), np.zeros(6, int), np.zeros(6), np.zeros(6),
    ...                       episode=range(6), group=[0, 0, 1, 1, 2, 2])
    >>> folds = Split(3).assign(log, np.random.default_rng(0))
    >>> sorted(folds.episodes(k).tolist() for k in range(3))
    [[0, 1], [2, 3], [4, 5]]
    """

    def assign(self, log: LogView, rng: np.random.Generator) -> Folds:
        """Deal the groups like cards, so that folds differ by at most one group."""
        _require_memory(self.folds, log.n_episodes)
        fold = self.dealt(log, rng)
        return Folds((fold == np.arange(self.folds)[:, None]).view(np.int8))

    def dealt(self, log: LogView, rng: np.random.Generator) -> IntArray:
        """Return the fold of each episode, (E,)."""
        if log.n_groups < self.folds:
            unit = "episodes" if log.group_ids is None else "groups"
            raise PartitionError(
                f"{self.folds} folds need at least {self.folds} {unit}. The log has "
                f"{log.n_groups}; use fewer folds or a longer log."
            )
        fold_of_group = np.empty(log.n_groups, dtype=np.int32)
        fold_of_group[shuffled_groups(log, rng)] = np.arange(log.n_groups) % self.folds
        return fold_of_group[log.group_of_episode]


@dataclass(frozen=True)
class Bootstrap(_Several):
    """K resamples of the groups with replacement, each as large as the log."""

    def assign(self, log: LogView, rng: np.random.Generator) -> Folds:
        """Draw the groups of each member."""
        even = np.full(log.n_groups, 1 / log.n_groups)
        order = shuffled_groups(log, rng)
        drawn = np.empty((self.folds, log.n_groups), dtype=np.int32)
        drawn[:, order] = rng.multinomial(log.n_groups, even, size=self.folds)
        return Folds(drawn[:, log.group_of_episode])


@dataclass(frozen=True)
class OutOfBag(_Several):
    """K members that each see only the groups which a bootstrap resample left out, about 37 %.

    This is what the paper's released code calls the bootstrap of PB.
    """

    def assign(self, log: LogView, rng: np.random.Generator) -> Folds:
        """Draw resamples and give each member what its resample lacks."""
        if log.n_groups < 2:
            unit = "episodes" if log.group_ids is None else "groups"
            raise PartitionError(
                f"Out-of-bag folds need at least 2 {unit}, because a resample of 1 leaves nothing "
                f"out. The log has {log.n_groups}; use Whole() or a longer log."
            )
        even = np.full(log.n_groups, 1 / log.n_groups)
        order = shuffled_groups(log, rng)
        left_out = np.empty((self.folds, log.n_groups), dtype=np.int8)
        for member in left_out:
            while True:  # on few groups a resample may leave nothing out; it is then drawn again
                member[order] = rng.multinomial(log.n_groups, even) == 0
                if member.any():
                    break
        return Folds(left_out[:, log.group_of_episode])


@dataclass(frozen=True)
class Replicate(_Several):
    """K members that each see the whole log: the ensemble of SAC-N."""

    def assign(self, log: LogView, rng: np.random.Generator) -> Folds:  # noqa: ARG002
        """Give every episode to every member."""
        return Folds(np.ones((self.folds, log.n_episodes), dtype=np.int8))


def _require_memory(folds: int, episodes: int) -> None:
    """Refuse counts of episodes by fold that would fill the memory, by name and before they do."""
    needed, allowed = folds * episodes, physical_memory() // 4
    if needed > allowed:
        raise PartitionError(
            f"{folds} folds of {episodes} episodes need {needed / 1e9:.1f} GB, and may take "
            f"{allowed / 1e9:.1f} GB. Use fewer folds."
        )
