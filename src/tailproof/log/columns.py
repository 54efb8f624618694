"""Columns that critics see and policies do not: the step, and summaries of the episode so far."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np
import scipy  # its parts are imported on first use

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.log.log import Log
from tailproof.rules import RULES

#: What the summaries are of.
Past = Literal["actions", "rewards", "states"]
DECAYS = (0.5, 0.8, 0.95)
EARLIER = "earlier "  # how the names of the summaries begin
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
        wider = Summaries.fit(log, self).added_to(log) if self.past else log
        if not self.step:
            return wider
        step = log.step_of_row[:, None]
        return replace(
            wider,
            states=np.column_stack([wider.states, step]),
            next_states=np.column_stack([wider.next_states, step + 1.0]),
            state_names=(*wider.state_names, "step of the episode"),
            encoder=None,
        )


@dataclass(frozen=True, eq=False)
class Summaries:
    """Averages of the episode so far, as fitted to a log: what a policy with a memory keeps.

    They are 0 at the start of an episode (`first`). After a step, m ← d·m + (1 − d)·x for each of the
    `decays` d, where x are its action (1 or 0 for each action in `shown`), its reward (clipped to
    `limits`) and its state, less `centre` and divided by `scale`.

    Attributes
    ----------
    past, decays
        What is averaged, and how slowly.
    shown
        The actions that have an average, (a,); empty for continuous actions.
    limits
        To which rewards are clipped.
    kept, centre, scale
        Which of actions, reward and states vary, (q,), their means and standard deviations.
    names
        Of the averages.

    Examples
    --------
    >>> log = Log.from_arrays([0.0] * 3, [0, 1, 1], [1.0] * 3, [0.0] * 3, episode=[0, 0, 0])
    >>> memory = Summaries.fit(log, CriticColumns(past=("actions",), decays=(0.5,)))
    >>> memory.updated(memory.first, [0.0], 0, 1.0).round(2)
    array([0.71])
    """

    past: tuple[Past, ...]
    decays: tuple[float, ...]
    shown: IntArray
    limits: tuple[float, float]
    kept: IntArray
    centre: FloatArray
    scale: FloatArray
    names: tuple[str, ...]

    @classmethod
    def fit(cls, log: Log, columns: CriticColumns) -> Summaries:
        """Fit the averages of some columns to a log."""
        shown, names = np.empty(0, dtype=np.intp), list[str]()
        if "actions" in columns.past and log.is_discrete:
            count = log.action_counts
            # the others tell the most frequent action; of very many, the rarest only add noise
            order = np.argsort(-count, kind="stable")[1 : 1 + RULES.tree_columns]
            shown = np.sort(order[count[order] > 0])
            names += [f"action {log.action_space.label(k)}" for k in shown.tolist()]  # type: ignore[union-attr]
        elif "actions" in columns.past:
            names += [f"action {k}" for k in range(log.actions[:1].size)]
        if "rewards" in columns.past:
            names.append(log.reward_name)
        if "states" in columns.past:
            names += log.state_names
        low, high = np.quantile(log.rewards, [_CLIPPED, 1 - _CLIPPED]).tolist()
        width = np.arange(len(names))
        found = cls(
            columns.past, columns.decays, shown, (low, high), width,
            np.zeros(len(names)), np.ones(len(names)), (),
        )  # fmt: skip
        now = found._now(log.states, log.actions, log.rewards)
        spread = now.std(axis=0)
        kept = np.flatnonzero(spread > 1e-12 * np.abs(now).max(axis=0, initial=0.0))
        return replace(
            found,
            kept=kept,
            centre=now[:, kept].mean(axis=0),
            scale=spread[kept],
            names=tuple(
                f"{EARLIER}{names[k]}, decay {decay:g}" for decay in columns.decays for k in kept
            ),
        )

    def added_to(self, log: Log) -> Log:
        """Return a copy of the log with the averages after its own columns."""
        before, after = self.along(log.states, log.actions, log.rewards, log.starts)
        return replace(
            log,
            states=np.column_stack([log.states, before]),
            next_states=np.column_stack([log.next_states, after]),
            state_names=(*log.state_names, *self.names),
            encoder=None,
        )

    def along(
        self, states: AnyArray, actions: AnyArray, rewards: AnyArray, starts: IntArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return the averages before and after each row of episodes, (n, q) each."""
        now = self._now(states, actions, rewards)
        before, after = [], []
        for decay in self.decays:
            averages = decayed(now, starts, decay)
            earlier = np.vstack([np.zeros((1, now.shape[1])), averages[:-1]])
            earlier[starts[:-1]] = 0.0
            before.append(earlier)
            after.append(averages)
        return np.hstack(before), np.hstack(after)

    def __str__(self) -> str:
        """Return what a policy with these averages needs, in one sentence."""
        return (
            f"It depends on averages of earlier {', '.join(self.past)} of an episode, which must be "
            f"kept to run it."
        )

    @property
    def first(self) -> FloatArray:
        """The averages at the start of an episode, (q,)."""
        return np.zeros(len(self.names))

    def updated(
        self, averages: AnyArray, state: object, action: object, reward: float
    ) -> FloatArray:
        """Return the averages after a step, (q,), from those before it."""
        states, actions = np.atleast_2d(np.asarray(state, dtype=float)), np.asarray([action])
        now = self._now(states, actions, np.array([reward]))[0]
        slow = np.repeat(self.decays, len(now))
        return np.asarray(slow * averages + (1 - slow) * np.tile(now, len(self.decays)))

    def _now(self, states: AnyArray, actions: AnyArray, rewards: AnyArray) -> FloatArray:
        """Return the standardised columns of each row that are averaged."""
        parts: list[AnyArray] = []
        if "actions" in self.past and np.asarray(actions).dtype.kind in "iu":
            parts.append(np.asarray(actions)[:, None] == self.shown)
        elif "actions" in self.past:
            parts.append(np.asarray(actions, dtype=float).reshape(len(states), -1))
        if "rewards" in self.past:
            parts.append(np.clip(rewards, *self.limits)[:, None])
        if "states" in self.past:
            parts.append(states)
        now = np.column_stack(parts).astype(float)[:, self.kept]
        return np.asarray((now - self.centre) / self.scale)


def decayed(values: FloatArray, starts: IntArray, decay: float) -> FloatArray:
    """Return m_t = d·m_{t−1} + (1 − d)·x_t within each episode, of values (n, q)."""
    bands = np.ones((2, len(values)))  # the equations m_t − d·m_{t−1} = (1 − d)·x_t
    bands[1] = -decay
    bands[1, starts[1:] - 1] = 0.0
    return np.asarray(scipy.linalg.solve_banded((1, 0), bands, (1 - decay) * values))
