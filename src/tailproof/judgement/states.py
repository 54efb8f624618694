"""States that mislead: codes for missing values, and rewards that depend on what came before.

Findings are sentences: `evaluate` warns of them and stores them with the estimate, `learn` warns.
"""

from __future__ import annotations

import warnings

import numpy as np
from scipy.stats import rankdata

from tailproof.data.horizon import predicted_by_others
from tailproof.data.log import Log
from tailproof.data.stored import AnyLog
from tailproof.errors import StateWarning

_CODES = (-99, -999, -9999, -99999, 999, 9999, 99999, 999999)
_FAR = 3.0  # distance of a code from the other values, in ranges of these
_FEWEST, _EPISODES = 20, 5_000  # episodes in which late rewards are compared with earlier actions
_EXPLAINS = 0.1  # least share of a late reward's variance that earlier actions explain …
_SURPRISING = 5.0  # … and least number of its standard errors


def misleading_states(log: AnyLog) -> tuple[str, ...]:
    """Return what is wrong with the states of a log in memory."""
    if not isinstance(log, Log):
        return ()
    return (*_missing_codes(log), *_hidden_history(log))


def warn_of_misleading_states(log: AnyLog) -> None:
    """Warn of what is wrong with the states."""
    for text in misleading_states(log):
        warnings.warn(text, StateWarning, stacklevel=4)


def _missing_codes(log: Log) -> list[str]:
    """Return the state columns that seem to hold a code for a missing value."""
    found: list[str] = []
    for name, column in zip(log.state_names, log.states.T, strict=True):
        for code in _CODES:
            there = column == code
            others = column[~there]
            if not there.any() or len(others) == 0:
                continue
            low, high = float(others.min()), float(others.max())
            outside = code > high + _FAR * (high - low) or code < low - _FAR * (high - low)
            if (code < low or code > high) and (outside or (code < 0 <= low)):
                found.append(
                    f"State column {name} is {code} in {int(there.sum()):,} of {len(column):,} rows, "
                    f"where others are {low:.4g} to {high:.4g}: if that is a code for a missing value, "
                    f"replace it and add a column that says where, because it is taken for a number."
                )
    return found


def _hidden_history(log: Log) -> list[str]:
    """Return a sentence if rewards come at the end only and depend on more than the last state.

    Trees predict the ranks of the last rewards from the last state and action, with and without the
    share of each earlier action.
    """
    last = np.cumsum(log.lengths) - 1
    early = np.ones(log.n_transitions, dtype=bool)
    early[last] = False
    if not early.any() or log.rewards[early].any() or not np.ptp(log.rewards[last]):
        return []
    chosen = np.flatnonzero(log.lengths > 1)
    if len(chosen) < _FEWEST:
        return []
    chosen = chosen[:: max(1, len(chosen) // _EPISODES)]
    actions = np.asarray(log.actions, dtype=float).reshape(log.n_transitions, -1)
    taken = np.eye(log.n_actions)[log.actions] if log.is_discrete else actions
    earlier = np.stack(
        [np.bincount(log.episode_of_row, early * column) for column in taken.T], axis=1
    )
    shares = earlier[chosen] / (log.lengths[chosen, None] - 1)  # (episodes, A)
    rewards = rankdata(log.rewards[last[chosen]])
    inputs = np.column_stack([log.states, actions])[last[chosen]]
    second = np.argsort(np.argsort(inputs[:, 0], kind="stable")) % 2 == 1
    without, given = (
        (rewards - predicted_by_others(known, rewards, second)) ** 2
        for known in (inputs, np.column_stack([inputs, shares]))
    )
    better = without - given  # (episodes,)
    error = float(better.std()) / np.sqrt(len(better))
    if better.mean() < max(_EXPLAINS * without.mean(), _SURPRISING * error):
        return []
    return [
        f"Rewards come at the last step of an episode only, and earlier actions explain "
        f"{better.mean() / without.mean():.0%} of what the last state and action leave open: no critic "
        f"of the state can know that, and values may be far off. Give each step its own reward, or add "
        f"to the state what was done so far, such as how often."
    ]
