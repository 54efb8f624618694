"""Who sees which episodes: partitions into folds, and marks of the episodes that trained a policy."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import ClassVar, Protocol

import numpy as np

from tailproof.arrays import AnyArray, IntArray
from tailproof.errors import PartitionError, TaughtWarning
from tailproof.log.log import Log, physical_memory
from tailproof.parameters import COUNT, Configurable


@dataclass(frozen=True)
class Folds:
    """K subsets of the episodes: `counts[k, e]` is how often member k has episode e."""

    counts: IntArray  # (K, E)

    @property
    def count(self) -> int:
        """Number of members, K."""
        return len(self.counts)

    @property
    def are_disjoint(self) -> bool:
        """Whether every episode belongs to at most one member, once."""
        return bool((self.counts.sum(axis=0) <= 1).all())

    def fold_of_episode(self) -> IntArray:
        """Return the member of each episode, (E,), −1 for none; for disjoint folds."""
        seen = self.counts.any(axis=0)
        return np.where(seen, self.counts.argmax(axis=0), -1)

    def episodes(self, member: int) -> IntArray:
        """Return the episode indices of one member, repeated as often as it has them."""
        return np.repeat(np.arange(self.counts.shape[1]), self.counts[member])

    def log(self, log: Log, member: int) -> Log:
        """Return the log of one member."""
        return log.take(self.episodes(member))

    def subset(self, members: IntArray) -> Folds:
        """Return the folds of these members only."""
        return Folds(self.counts[members])


class Partition(Protocol):
    """Assigns the episodes of a log to K members, in whole groups."""

    @property
    def count(self) -> int:
        """Number of members, K."""

    def assign(self, log: Log, rng: np.random.Generator) -> Folds:
        """Assign the log's episodes to the members."""


def shuffled_groups(log: Log, key: int | np.random.Generator) -> IntArray:
    """Return the groups of a log (without groups, its episodes) in pseudo-random order, (G,).

    They are sorted by a keyed hash of their labels; the key is given or drawn from the generator.
    The fold of a group thus depends only on the labels and the seed: not on the order of the rows,
    nor on whether the log is in memory.
    """
    labels = log.episode_ids if log.group_ids is None else np.unique(log.group_ids)
    number = int(key.integers(2**63)) if isinstance(key, np.random.Generator) else key
    return np.argsort(label_hash(labels, number), kind="stable")


def split_groups(log: Log, parts: AnyArray, key: int | np.random.Generator) -> AnyArray:
    """Return the part of each episode, (E,): `parts`, (G,), are those of `shuffled_groups`."""
    part_of_group = np.empty(log.n_groups, dtype=parts.dtype)
    part_of_group[shuffled_groups(log, key)] = parts
    return np.asarray(part_of_group[log.group_of_episode])


def label_hash(labels: AnyArray, key: int) -> IntArray:
    """Return a 64-bit keyed hash of each label, (n,).

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
    for letter in letters.T:  # the zero padding of shorter labels must not change the hash
        result = np.where(letter == 0, result, _mix(result ^ letter))
    return result


def _mix(bits: IntArray) -> IntArray:
    """Return SplitMix64's mixing function, a bijection of 64-bit numbers."""
    bits = bits + np.uint64(0x9E3779B97F4A7C15)
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@dataclass(frozen=True)
class Whole(Configurable):
    """One member with all episodes."""

    @property
    def count(self) -> int:
        """One."""
        return 1

    def assign(self, log: Log, rng: np.random.Generator) -> Folds:  # noqa: ARG002
        """Assign every episode to the one member."""
        return Folds(np.ones((1, log.n_episodes), dtype=np.int8))


@dataclass(frozen=True)
class _Several(Configurable):
    """Base class of partitions with K members."""

    constraints: ClassVar = {"folds": COUNT}
    refusal: ClassVar = PartitionError

    folds: int = 5

    @property
    def count(self) -> int:
        """Number of members, K."""
        return self.folds


@dataclass(frozen=True)
class Split(_Several):
    """K disjoint random folds of whole groups; the partition of ROAM and ROOM.

    Folds follow a seeded hash of the group (or episode) labels, so that a log has the same folds in
    memory, in chunks from disk and on a cluster.

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

    def assign(self, log: Log, rng: np.random.Generator) -> Folds:
        """Assign the groups in turn, so that fold sizes differ by at most one group."""
        _require_memory(self.folds, log.n_episodes)
        fold = self.fold_of_episode(log, rng)
        return Folds((fold == np.arange(self.folds)[:, None]).view(np.int8))

    def fold_of_episode(self, log: Log, rng: np.random.Generator) -> IntArray:
        """Return the fold of each episode, (E,)."""
        if log.n_groups < self.folds:
            unit = "episodes" if log.group_ids is None else "groups"
            raise PartitionError(
                f"{self.folds} folds need at least {self.folds} {unit}. The log has "
                f"{log.n_groups}; use fewer folds or a longer log."
            )
        return split_groups(log, np.arange(log.n_groups, dtype=np.int32) % self.folds, rng)


@dataclass(frozen=True)
class Bootstrap(_Several):
    """K resamples of the groups with replacement, each as large as the log."""

    def assign(self, log: Log, rng: np.random.Generator) -> Folds:
        """Draw each member's groups with replacement."""
        even = np.full(log.n_groups, 1 / log.n_groups)
        order = shuffled_groups(log, rng)
        drawn = np.empty((self.folds, log.n_groups), dtype=np.int32)
        drawn[:, order] = rng.multinomial(log.n_groups, even, size=self.folds)
        return Folds(drawn[:, log.group_of_episode])


@dataclass(frozen=True)
class OutOfBag(_Several):
    """K members; each has the groups that a bootstrap resample does not contain, about 37 %.

    The paper's released code calls this the bootstrap of PB.
    """

    def assign(self, log: Log, rng: np.random.Generator) -> Folds:
        """Draw one resample per member and assign the groups that it does not contain."""
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
            while True:  # with few groups a resample may contain all of them; then draw again
                member[order] = rng.multinomial(log.n_groups, even) == 0
                if member.any():
                    break
        return Folds(left_out[:, log.group_of_episode])


@dataclass(frozen=True)
class Replicate(_Several):
    """K members with the whole log each: the ensemble of SAC-N."""

    def assign(self, log: Log, rng: np.random.Generator) -> Folds:  # noqa: ARG002
        """Assign every episode to every member."""
        return Folds(np.ones((self.folds, log.n_episodes), dtype=np.int8))


def _require_memory(folds: int, episodes: int) -> None:
    """Raise if the (K, E) array of counts would not fit into memory."""
    needed, allowed = folds * episodes, physical_memory() // 4
    if needed > allowed:
        raise PartitionError(
            f"{folds} folds of {episodes} episodes need {needed / 1e9:.1f} GB, and may take "
            f"{allowed / 1e9:.1f} GB. Use fewer folds."
        )


_NAMED = 3
_FIRST, _SECOND = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xBF58476D1CE4E5B9)


def episode_marks(log: Log) -> IntArray:
    """Return a 64-bit hash of the label, states and actions of each episode, (E,).

    The label is included because one-step episodes are often identical; rewards are not, because
    learners may clip them.
    """
    name = label_hash(log.episode_ids, 6).view(np.uint64)
    mark = _mixed(log.step_of_row.astype(np.uint64) ^ name[log.episode_of_row])
    columns = [*log.states.T, *np.atleast_2d(np.asarray(log.actions, dtype=float).T)]
    for column in columns:
        bits = np.ascontiguousarray(column, dtype=float) + 0.0  # −0 becomes 0
        mark = _mixed(mark ^ bits.view(np.uint64))
    return np.asarray(np.add.reduceat(mark, log.starts[:-1]))


def _mixed(values: AnyArray) -> AnyArray:
    mixed = (values + _FIRST) * _SECOND
    return np.asarray(mixed ^ (mixed >> np.uint64(29)))


def warn_of_taught_episodes(policy: object, log: Log) -> None:
    """Warn if the log contains training episodes of the policy, and name some of them."""
    taught = getattr(policy, "taught", None)
    if taught is None:
        return
    # files may store the hashes as signed integers
    known = np.flatnonzero(np.isin(episode_marks(log), np.asarray(taught).view(np.uint64)))
    if len(known) == 0:
        return
    names = ", ".join(map(str, log.episode_ids[known[:_NAMED]]))
    more = ", …" if len(known) > _NAMED else ""
    noun = "rows" if log.is_bandit else "episodes"
    warnings.warn(
        f"{len(known):,} of {log.n_episodes:,} {noun} were used to learn this policy "
        f"({names}{more}): on them it looks better than it is. Evaluate it on other {noun}.",
        TaughtWarning,
        stacklevel=3,
    )
