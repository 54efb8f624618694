"""Episodes with a fixed time limit: the step number shows how much is left."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailproof.data.log import Log
from tailproof.data.stored import AnyLog, LazyLog

_SHARE = 0.2  # smallest share of episodes with the longest length, if lengths differ
_FEWEST = 10  # smallest number of such episodes
_HAZARD = 0.5  # largest share of episodes one step shorter, among these and the longest
_LOOKED_AT = 50  # number of first and of last episodes to check


def with_step(log: Log) -> Log:
    """Return the log with the step number within the episode as last state variable."""
    step = log.step_of_row
    return replace(
        log,
        states=np.column_stack([log.states, step]),
        next_states=np.column_stack([log.next_states, step + 1]),
        state_names=(*log.state_names, "step of the episode"),
    )


def time_limit(log: AnyLog) -> str:
    """Return in words when the episodes of a log that `ends_by_the_clock` end."""
    every = "every episode ends" if np.ptp(log.lengths) == 0 else "episodes end"
    return f"{every} for good after {log.lengths.max()} steps"


def ends_by_the_clock(log: AnyLog) -> bool:
    """Return whether episodes end at a time limit that the state does not show.

    All episodes have the longest length, or many do and few end one step earlier. The state shows
    the limit if one variable changes over time in the same way in all episodes, or if last steps
    share a few states that no earlier step has.
    """
    lengths = log.lengths
    length = int(lengths.max())
    longest = np.flatnonzero(lengths == length)
    if length == 1 or len(longest) == 1 or not log.ends[longest].all():
        return False
    if len(longest) < len(lengths):
        close = int((lengths >= length - 1).sum())
        often = len(longest) >= max(_FEWEST, _SHARE * len(lengths))
        if not often or close - len(longest) > _HAZARD * close:
            return False
    few = _LOOKED_AT
    if isinstance(log, LazyLog):
        fit = log.memory_budget * log.n_episodes / (2 * log.bytes_in_memory)
        few = int(np.clip(fit, 1, few))
    chosen = np.union1d(longest[:few], longest[-few:])
    some = log.take(chosen).load()
    steps = some.states.reshape(len(chosen), length, -1)
    clock = np.ptp(steps, axis=0).max(axis=0) == 0
    if (clock & (np.ptp(steps[0], axis=0) > 0)).any():
        return False
    last = {state.tobytes() for state in steps[:, -1]}
    before = {state.tobytes() for state in steps[:, :-1].reshape(-1, steps.shape[2])}
    return len(last) == len(chosen) or not last.isdisjoint(before)
