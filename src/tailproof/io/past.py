"""The states of a table for a policy with a memory: with averages of each episode so far."""

from __future__ import annotations

import numpy as np

from tailproof.arrays import BoolArray, FloatArray, IntArray, refuse_rows
from tailproof.errors import LogError, MethodError
from tailproof.io.encoder import Encoder, require_read
from tailproof.io.tables import open_table
from tailproof.io.values import identifiers, missing_rows, numbers
from tailproof.log.columns import Summaries
from tailproof.log.sources import TableSource


def states_with_past(
    encoder: Encoder,
    past: Summaries,
    table: TableSource,
    *,
    episode: str | None,
    reward: str | None = None,
) -> FloatArray:
    """Return the states of a table with averages of what came before each row, (n, p + q).

    Rows of an episode stand in order of time. The last row of each, for which is to be decided, needs
    neither action nor reward.

    Parameters
    ----------
    encoder, past
        Of the policy.
    table
        Any table with the columns of the state, and of what is averaged.
    episode
        The column that rows of an episode share.
    reward
        The reward's column, as the log had it: ``"-cost"`` for costs, and net of what was subtracted
        when the log was read.
    """
    if episode is None:
        raise MethodError(
            "This policy depends on what came earlier in an episode. Say which rows belong together, "
            "in order of time, with episode='customer' for instance.",
            argument="episode",
        )
    if "rewards" in past.past and not reward:
        raise MethodError(
            "This policy depends on earlier rewards. Name their column with reward='revenue' for "
            "instance, or reward='-cost'.",
            argument="reward",
        )
    opened = open_table(table)
    encoder.require(opened.names, opened.label)
    paid = (reward or "").removeprefix("-") if "rewards" in past.past else ""
    taken = encoder.actions.names if "actions" in past.past else ()
    named = (*encoder.columns, *taken, episode, *([paid] if paid else []))
    if absent := [name for name in named if name not in opened.names]:
        raise LogError(f"{opened.label} has no column {absent[0]!r}.")
    labels = dict.fromkeys([*encoder.texts, *taken, episode], False)
    read = opened.read(tuple(dict.fromkeys(named)), labels)
    states, refused = encoder.encode(read)
    require_read(refused)
    codes = identifiers(episode, read.column(episode)).codes
    order = np.argsort(codes, kind="stable")
    starts = np.append(np.flatnonzero(np.diff(codes[order], prepend=-1)), len(codes))
    ends = np.zeros(len(codes), dtype=bool)
    ends[order[starts[1:] - 1]] = True
    actions, rewards = np.zeros(len(codes), dtype=np.intp), np.zeros(len(codes))
    if taken:
        there = _done(taken[0], missing_rows(read.column(taken[0])), ends)
        actions[there] = encoder.actions(read.take(there))
    if paid:
        there = _done(paid, missing_rows(read.column(paid)), ends)
        rewards[there] = numbers(paid, read.column(paid).take(there))
        rewards = -rewards if (reward or "").startswith("-") else rewards
    before = np.empty((len(codes), len(past.names)))
    before[order] = past.along(states[order], actions[order], rewards[order], starts)[0]
    return np.column_stack([states, before])


def _done(name: str, missing: BoolArray, ends: BoolArray) -> IntArray:
    """Return the rows that have a value; raise if one that is not the last of its episode has none."""
    rule = f"Column {name!r} may be missing only in the last row of an episode"
    refuse_rows(missing & ~ends, rule, "what came later depends on it", LogError)
    return np.flatnonzero(~missing)
