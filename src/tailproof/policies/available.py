"""Actions that are not available everywhere: who may take them where."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailproof.data.log import Log
from tailproof.errors import PolicyError
from tailproof.policies.by_row import RowLaw
from tailproof.policies.simple import action_probabilities


def uniform_over_available(log: Log) -> RowLaw:
    """Return every action that could be taken in a row with the same probability."""
    mask = log.table_rows.available
    assert mask is not None
    law = mask / np.maximum(mask.sum(axis=1, keepdims=True), 1)
    return RowLaw("The uniform policy", len(law), law)


def require_available(policy: Any, log: Log) -> None:
    """Refuse a policy that takes an action in a row where it could not be taken."""
    origin = log.table_rows
    if origin.available is None:
        return
    alive = np.flatnonzero(~log.terminated & (origin.next_rows >= 0))
    rows = np.concatenate([origin.rows, origin.next_rows[alive]])
    states = np.concatenate([log.states, log.next_states[alive]])
    law = action_probabilities(policy, states, log.n_actions, rows=rows)
    wrong = (law > 1e-9) & ~origin.available[rows]
    if wrong.any():
        at, action = (int(each[0]) for each in np.nonzero(wrong))
        label = log.action_space.label(action)  # type: ignore[union-attr]
        raise PolicyError(
            f"The policy takes {label!r} in row {int(rows[at])} (the first row is 0), where it was not "
            f"available ({len(np.unique(rows[wrong.any(axis=1)]))} such rows). Let it choose among the "
            f"actions that are."
        )
