"""The released program's linear FQE and FQI, written plainly: a reference for the library's.

Facts about github.com/Mamba413/ROOM (Cartpole/_RL/FQE.py, FQI.py, FQE_mm_internal.py and
FQI_mm_internal.py), none of its code. It differs from algorithms 4 and 5 of the paper in two ways: the
folds are refitted one after another, so that a fold's targets already hold the new critics of the folds
before it, and FQE clips values of next states at ±10,000.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.log.log import Log

#: The rule in eval_cartpole.py and optimize_cartpole.py.
TOLERANCE = 0.005


def polynomial(states: FloatArray) -> FloatArray:
    """Return 1, the coordinates and their pairwise products, without squares, (n, d)."""
    products = [states[:, i] * states[:, j] for i, j in combinations(range(states.shape[1]), 2)]
    return np.column_stack([np.ones(len(states)), states, *products])


@dataclass(frozen=True)
class Program:
    """Fitted Q with one ridge regression for each fold and action.

    Parameters
    ----------
    ridge, gamma, iterations, tolerance
        Of every regression, the discount, most iterations, and the rule that stops before.
    aggregate
        Applied to the folds' values of every next state and action, (K, n, A) to (n, A); None for
        folds that are fitted apart.
    in_turn
        Whether folds are refitted one after another, as released, or all at once, as printed.
    clip
        Largest absolute value of a next state; 10,000 in the released FQE, none in FQI.
    """

    ridge: float
    gamma: float
    iterations: int = 100
    tolerance: float = TOLERANCE
    aggregate: Callable[[FloatArray], FloatArray] | None = None
    in_turn: bool = True
    clip: float = np.inf

    def fit(
        self, log: Log, folds: Sequence[IntArray], chosen: IntArray | None = None
    ) -> tuple[FloatArray, IntArray]:
        """Return the weights, (K, A, d), and the number of iterations of each fold, (K,).

        `folds` are rows of the log; `chosen` are the actions of the policy to evaluate in all next
        states, (n,), and None for the greedy ones.
        """
        if self.aggregate is not None:
            return self._fit(log, folds, chosen)
        apart = [self._fit(log, [rows], chosen) for rows in folds]
        weights, counts = zip(*apart, strict=True)
        return np.concatenate(weights), np.concatenate(counts)

    def _fit(
        self, log: Log, folds: Sequence[IntArray], chosen: IntArray | None
    ) -> tuple[FloatArray, IntArray]:
        after = polynomial(log.next_states)
        regressions = [self._regression(log, rows) for rows in folds]
        old = [log.rewards[rows] / (1 - self.gamma) for rows in folds]
        weights = np.array([fit(y) for fit, y in zip(regressions, old, strict=True)])
        count = 0
        for count in range(1, self.iterations + 1):  # noqa: B007 its last value is returned
            known, changes = weights.copy(), []
            for k, rows in enumerate(folds):
                q = np.einsum("nd,kad->kna", after[rows], weights if self.in_turn else known)
                q = np.clip(q, -self.clip, self.clip)
                joint = q[0] if self.aggregate is None else self.aggregate(q)  # (n, A)
                if chosen is None:
                    value = joint.max(axis=1)
                else:
                    value = joint[np.arange(len(rows)), chosen[rows]]
                new = log.rewards[rows] + self.gamma * value
                weights[k] = regressions[k](new)
                changes.append(np.abs(new - old[k]).mean() / (np.abs(old[k]).mean() + 1e-6))
                old[k] = new
            if max(changes) < self.tolerance:
                break
        return weights, np.full(len(folds), count)

    def _regression(self, log: Log, rows: IntArray) -> Callable[[FloatArray], FloatArray]:
        """Return the ridge regression of targets on the features in each action's rows, to (A, d)."""
        phi, actions = polynomial(log.states[rows]), log.actions[rows]
        own = [np.flatnonzero(actions == action) for action in range(log.n_actions)]
        inverses = [
            np.linalg.inv(phi[some].T @ phi[some] + self.ridge * np.eye(phi.shape[1]))
            for some in own
        ]

        def fit(targets: FloatArray) -> FloatArray:
            moments = (phi[some].T @ targets[some] for some in own)
            return np.array([a @ b for a, b in zip(inverses, moments, strict=True)])

        return fit
