"""A policy's actions in the states of a log, and its agreement with the logged actions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.spaces import ActionSpace, Discrete
from tailproof.policies.simple import action_probabilities

_MOST = 8  # actions in a sentence


@dataclass(frozen=True, kw_only=True)
class PolicyOnLog:
    """A policy's actions in the states of a log.

    Attributes
    ----------
    shares
        The mean probability of each action, by its label; empty where actions are continuous.
    agreement
        The share of rows in which the policy takes the logged action; NaN where actions are continuous.
    rows
        Number of rows.
    effective_rows
        (Σw)² / Σw² of the rows' weights: the number of equally weighted rows with the same information.
        NaN for methods without row weights.
    """

    shares: dict[str, float] = field(default_factory=dict)
    agreement: float
    rows: int
    effective_rows: float

    def __str__(self) -> str:
        """Return a summary in words, with the most frequent actions."""
        taken = sorted(self.shares.items(), key=lambda each: -each[1])
        shown = [f"{name} {_percent(share)}" for name, share in taken if share > 0]
        if len(shown) > _MOST:
            shown = [*shown[:_MOST], f"{len(shown) - _MOST} others"]
        parts = [", ".join(shown)] if shown else []
        if not np.isnan(self.agreement):
            parts.append(f"agrees with the log in {_percent(self.agreement)} of rows")
        if not np.isnan(self.effective_rows):
            parts.append(f"{self.effective_rows:,.0f} effective rows of {self.rows:,}")
        return "; ".join(parts)


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.1 else f"{100 * share:.1g} %"


def on_log(
    space: ActionSpace,
    *,
    shares: FloatArray | None,
    agreement: float,
    rows: int,
    weights: FloatArray | None = None,
) -> PolicyOnLog:
    """Build a `PolicyOnLog` from mean probabilities of actions, (A,), and weights of rows, (n,)."""
    named = {}
    if isinstance(space, Discrete) and shares is not None:
        named = {space.label(action): float(share) for action, share in enumerate(shares)}
    return PolicyOnLog(
        shares=named,
        agreement=agreement if named else float("nan"),
        rows=rows,
        effective_rows=float("nan") if weights is None else effective(weights),
    )


def effective(weights: FloatArray) -> float:
    """Return (Σw)² / Σw², 0 if all weights are 0.

    >>> effective(np.array([1.0, 1.0, 0.0]))
    2.0
    """
    return float(weights.sum()) ** 2 / (float((weights**2).sum()) or np.inf)


def asked_on_log(task: Task, weights: FloatArray | None = None) -> PolicyOnLog:
    """Evaluate the policy in the states of the log, in one pass, and summarise its actions."""
    log, n, shares, agreed = task.log, task.log.n_transitions, None, 0.0
    for part in log.parts if log.is_discrete else ():
        for piece in log.chunks(part, with_next_states=False):
            own = slice(piece.first, piece.first + len(piece))
            places = log.table_rows.rows[own] if isinstance(log, Log) else None
            chances = action_probabilities(task.policy, piece.states, log.n_actions, rows=places)
            logged: IntArray = np.asarray(piece.actions, dtype=np.intp)
            shares = chances.sum(axis=0) / n + (0.0 if shares is None else shares)
            agreed += float(chances[np.arange(len(logged)), logged].sum()) / n
    found = on_log(log.action_space, shares=shares, agreement=agreed, rows=n, weights=weights)
    return without_copies(found, log, weights) if isinstance(log, Log) else found


def without_copies(found: PolicyOnLog, log: Log, weights: FloatArray | None) -> PolicyOnLog:
    """Return the rows and effective rows of the table, where sample weights made copies of episodes."""
    if log.once is log:
        return found
    summed = None
    if weights is not None:
        _, place = np.unique(log.table_rows.rows, return_inverse=True)
        summed = np.bincount(place.ravel(), weights).astype(float)
    known = float("nan") if summed is None else effective(summed)
    return replace(found, rows=log.once.n_transitions, effective_rows=known)
