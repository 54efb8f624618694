"""Columns that critics see and policies do not: the step, and summaries of the episode so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy  # its parts are imported on first use

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.log.log import Log

#: What the summaries are of.
Past = Literal["actions", "rewards", "states"]
DECAYS = (0.5, 0.8, 0.95)
_CLIPPED = 0.02  # share of the rewards clipped on either side before they are averaged


@dataclass(frozen=True)
class CriticColumns:
    """Columns added to the states of a log for its critics; a policy never reads them.

    The history of an episode makes every process Markov. Its summaries are exponential averages of
    what came before each row, m ← d·m + (1 − d)·x, of standardised actions, clipped rewards and states
    x; 0 at the start of an episode.

    Attributes
    ----------
    step
        Whether the number of the step is added.
    past
        What is averaged.
    decays
        The decays d, one average for each.

    Examples
    --------
    >>> log = Log.from_arrays([0.0] * 3, [0, 1, 1], [1.0] * 3, [0.0] * 3, episode=[0, 0, 0])
    >>> CriticColumns(past=("actions",), decays=(0.5,)).added_to(log).states[:, 1].round(2)
    array([0.  , 0.71, 0.  ])
    """

    step: bool = False
    past: tuple[Past, ...] = ()
    decays: tuple[float, ...] = ()

    def __bool__(self) -> bool:
        return self.step or bool(self.past)

    def added_to(self, log: Log) -> Log:
        """Return a copy of the log with the columns after its own."""
        before, after, names = [], [], []
        if self.past:
            now, of = _now(log, self.past)
            for decay in self.decays:
                averages = decayed(now, log.starts, decay)
                earlier = np.vstack([np.zeros((1, now.shape[1])), averages[:-1]])
                earlier[log.starts[:-1]] = 0.0
                before.append(earlier)
                after.append(averages)
                names += [f"earlier {name}, decay {decay:g}" for name in of]
        if self.step:
            before.append(log.step_of_row[:, None])
            after.append(log.step_of_row[:, None] + 1.0)
            names.append("step of the episode")
        return replace(
            log,
            states=np.column_stack([log.states, *before]),
            next_states=np.column_stack([log.next_states, *after]),
            state_names=(*log.state_names, *names),
            encoder=None,
        )


def decayed(values: FloatArray, starts: IntArray, decay: float) -> FloatArray:
    """Return m_t = d·m_{t−1} + (1 − d)·x_t within each episode, of values (n, q)."""
    bands = np.ones((2, len(values)))  # the equations m_t − d·m_{t−1} = (1 − d)·x_t
    bands[1] = -decay
    bands[1, starts[1:] - 1] = 0.0
    return np.asarray(scipy.linalg.solve_banded((1, 0), bands, (1 - decay) * values))


def _now(log: Log, past: tuple[Past, ...]) -> tuple[FloatArray, list[str]]:
    """Return the standardised columns of each row to average, (n, q), and their names."""
    parts: list[AnyArray] = []
    names: list[str] = []
    if "actions" in past:
        if log.is_discrete:
            count = log.action_counts
            shown = [k for k in range(log.n_actions) if count[k] and k != count.argmax()]
            parts.append(np.eye(log.n_actions)[log.actions][:, shown])
            names += [f"action {log.action_space.label(k)}" for k in shown]  # type: ignore[union-attr]
        else:
            taken = np.asarray(log.actions, dtype=float).reshape(log.n_transitions, -1)
            parts.append(taken)
            names += [f"action {k}" for k in range(taken.shape[1])]
    if "rewards" in past:
        limits = np.quantile(log.rewards, [_CLIPPED, 1 - _CLIPPED])
        parts.append(np.clip(log.rewards, *limits)[:, None])
        names.append(log.reward_name)
    if "states" in past:
        parts.append(log.states)
        names += log.state_names
    now = np.column_stack(parts).astype(float)
    spread = now.std(axis=0)
    varies = spread > 1e-12 * np.abs(now).max(axis=0, initial=0.0)
    kept = np.flatnonzero(varies)
    standard = (now[:, kept] - now[:, kept].mean(axis=0)) / spread[kept]
    return np.asarray(standard), [names[k] for k in kept]
