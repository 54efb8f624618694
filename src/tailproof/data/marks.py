"""Hashes of episodes, to detect that a policy is evaluated on its training episodes."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, IntArray
from tailproof.data.log import Log
from tailproof.data.partition import label_hash
from tailproof.errors import TaughtWarning

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


def warn_of_taught_episodes(policy: Any, log: Any) -> None:
    """Warn if the log contains training episodes of the policy, and name some of them."""
    taught = getattr(policy, "taught", None)
    if taught is None or not isinstance(log, Log):
        return
    # files may store the hashes as signed integers
    known = np.flatnonzero(np.isin(episode_marks(log), np.asarray(taught).view(np.uint64)))
    if len(known) == 0:
        return
    names = ", ".join(map(str, log.episode_ids[known[:_NAMED]]))
    more = ", …" if len(known) > _NAMED else ""
    warnings.warn(
        f"{len(known):,} of {log.n_episodes:,} episodes taught this policy ({names}{more}): on them it "
        f"looks better than it is. Evaluate it on other episodes.",
        TaughtWarning,
        stacklevel=3,
    )
