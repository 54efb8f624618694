"""Other logs made of a log on disk, without reading it: some of its episodes, or a single action."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.partition import shuffled_groups
from tailproof.data.spaces import Discrete
from tailproof.data.stored import AnyLog, LazyLog
from tailproof.data.view import Chunk
from tailproof.errors import LogError, TailproofWarning

_BLOCKS = 1_000  # runs of neighbouring episodes that a sample is drawn from
_COPIES = 4  # of the features of a row, for who works on all rows at once


class SampleWarning(TailproofWarning):
    """A log larger than memory, of which only some episodes were looked at."""


@dataclass(frozen=True)
class ChosenEpisodes:
    """Reads some episodes of a log."""

    log: LazyLog  # all of it, without its parts
    place: IntArray  # (E,) index of each episode among the chosen, −1 for the others

    def chunks(
        self, log: LazyLog, part: Any, size: int, *, ahead: bool, propensity: bool
    ) -> Iterator[Chunk]:
        """Yield the transitions of one part in order, at most `size` at a time."""
        every = self.log.reader.chunks(self.log, part, size, ahead=ahead, propensity=propensity)
        for piece in every:
            chosen = self.place[piece.episode] >= 0
            rows = np.arange(len(piece)) if piece.kept is None else piece.kept
            kept = rows[chosen[rows]]
            if len(kept) == 0:
                continue
            head = int(kept[0])
            # Among the transitions of the piece, how many come before the first that is kept?
            before = head if piece.kept is None else int(np.searchsorted(piece.kept, head))
            step = piece.first + before - self.log.starts[piece.episode[head]]
            place = self.place[piece.episode]
            yield replace(
                piece, first=int(log.starts[place[head]] + step), episode=place, kept=kept
            )

    def rewards(self, log: LazyLog, part: Any) -> Iterator[FloatArray]:
        """Yield the rewards of one part in order."""
        for piece in self.chunks(log, part, 1 << 16, ahead=False, propensity=False):
            yield piece.compact().rewards

    def first_states(self, log: LazyLog, part: Any) -> FloatArray:  # noqa: ARG002
        """Return the first states of the episodes that start in one part, (e, p)."""
        states = self.log.reader.first_states(self.log, part)
        last = self.log.reader.episodes(self.log, part).stop
        return states[self.place[last - len(states) : last] >= 0]

    def episodes(self, log: LazyLog, part: Any) -> range:  # noqa: ARG002
        """Return the episodes that have transitions in one part; there may be others among them."""
        every = self.log.reader.episodes(self.log, part)
        places = self.place[every.start : every.stop]
        found = places[places >= 0]
        return range(int(found[0]), int(found[-1]) + 1) if len(found) else range(0)


def take_episodes(log: LazyLog, episodes: IntArray) -> LazyLog:
    """Return the log of some episodes, in the order of the log; only its actions are read now."""
    taken = _taken(log, episodes)
    if log.action_counts is None:
        return taken
    return replace(taken, action_counts=_counted(taken, np.zeros_like(log.action_counts)))


def _taken(log: LazyLog, episodes: IntArray) -> LazyLog:
    chosen = np.unique(episodes)
    place = np.full(log.n_episodes, -1)
    place[chosen] = np.arange(len(chosen))
    reader = ChosenEpisodes(replace(log, parts=()), place)
    return replace(
        log,
        reader=reader,
        parts=tuple(part for part in log.parts if len(reader.episodes(log, part))),
        starts=np.append(0, np.cumsum(log.lengths[chosen])),
        episode_ids=log.episode_ids[chosen],
        group_ids=None if log.group_ids is None else log.group_ids[chosen],
        ends=log.ends[chosen],
        _memory={},
    )


def _counted(log: LazyLog, counts: IntArray) -> IntArray:
    """Return how often each action occurs: exactly, as one that never does must be known."""
    for part in log.parts:
        for piece in log.chunks(part, ahead=False):
            counts = counts + np.bincount(piece.actions, minlength=len(counts))
    return counts


@dataclass(frozen=True)
class OneAction:
    """Reads a log as if there were a single action."""

    log: LazyLog  # without its parts

    def chunks(
        self,
        log: LazyLog,  # noqa: ARG002
        part: Any,
        size: int,
        *,
        ahead: bool,
        propensity: bool,
    ) -> Iterator[Chunk]:
        """Yield the transitions of one part in order, at most `size` at a time."""
        every = self.log.reader.chunks(self.log, part, size, ahead=ahead, propensity=False)
        for piece in every:
            sure = np.ones(len(piece)) if propensity else None
            yield replace(piece, actions=np.zeros(len(piece), dtype=np.intp), propensity=sure)

    def rewards(self, log: LazyLog, part: Any) -> Iterator[FloatArray]:  # noqa: ARG002
        """Yield the rewards of one part in order."""
        return self.log.reader.rewards(self.log, part)

    def first_states(self, log: LazyLog, part: Any) -> FloatArray:  # noqa: ARG002
        """Return the first states of the episodes that start in one part, (e, p)."""
        return self.log.reader.first_states(self.log, part)

    def episodes(self, log: LazyLog, part: Any) -> range:  # noqa: ARG002
        """Return the episodes that have transitions in one part; there may be others among them."""
        return self.log.reader.episodes(self.log, part)


def with_one_action(log: AnyLog, label: str) -> AnyLog:
    """Return the log with all actions read as one and the same."""
    space = Discrete(1, (label,))
    if isinstance(log, LazyLog):
        reader, counts = OneAction(replace(log, parts=())), np.array([log.n_transitions])
        return replace(log, reader=reader, action_space=space, action_counts=counts)
    return replace(
        log,
        actions=np.zeros(log.n_transitions, dtype=np.intp),
        action_space=space,
        propensity=None if log.propensity is None else np.ones(log.n_transitions),
    )


def held(log: AnyLog, who: str, *, features: int | None = None, seed: int = 0) -> Log:
    """Return all of a log in memory, or as many whole episodes as the budget allows, with a warning.

    The episodes are drawn by the seed: groups, where the log names them, and otherwise runs of
    neighbours, so that extremes which come together stay together. They are in the log's order.

    Parameters
    ----------
    who
        Needs them, as the warning says.
    features
        How many numbers a row becomes on the way; by default those of the paper's features.
    """
    if isinstance(log, Log):
        return log
    if features is None:
        p = len(log.state_names)
        blocks = log.n_actions if log.is_discrete else 1
        features = blocks * (1 + p + p * (p - 1) // 2)
    each = log.bytes_in_memory / log.n_transitions + 8 * _COPIES * features
    rows = int(log.memory_budget / each)
    if log.n_transitions <= rows:
        return log.load()
    chosen = sampled_episodes(log, rows, seed=seed)
    if len(chosen) == 0:
        raise LogError(
            f"{who} may take {log.memory_budget / 1e9:.3g} GB, about {rows} of {log.n_transitions} "
            f"transitions, and not even one {'group' if log.group_ids is not None else 'episode'} "
            f"that was drawn is so short. Raise the budget, or use a method that reads a log in pieces."
        )
    taken = _taken(log, chosen).load()
    warnings.warn(
        f"{who} looked at {taken.n_episodes} of {log.n_episodes} episodes, {taken.n_transitions} of "
        f"{log.n_transitions} transitions, drawn with seed {seed}: it needs them in memory, and may "
        f"take {log.memory_budget / 1e9:.3g} GB. Raise the budget for more; fqe, lstd, mis, dr, fqi "
        f"and their folds read all of a log in pieces.",
        SampleWarning,
        stacklevel=3,
    )
    return taken


def sampled_episodes(log: LazyLog, rows: int, *, seed: int) -> IntArray:
    """Return random episodes that have at most so many transitions together, in order."""
    rng = np.random.default_rng([seed, 3])
    if log.group_ids is not None:
        unit, order = log.group_of_episode, shuffled_groups(log, rng)
    else:
        count = min(_BLOCKS, log.n_episodes)
        unit, order = np.arange(log.n_episodes) * count // log.n_episodes, rng.permutation(count)
    sizes = np.bincount(unit, weights=log.lengths)
    enough = int(np.searchsorted(np.cumsum(sizes[order]), rows, side="right"))
    return np.flatnonzero(np.isin(unit, order[:enough]))
