"""Have the critics been trained for long enough? Time constants, and values against returns.

Bootstrapped values approach their fixed point like 1 − exp(−t), t = steps · ρ · (1 − γ): target
networks that follow at a rate ρ carry a change of one step's value to the next in about 1/ρ steps,
and a value looks 1/(1 − γ) steps ahead. No torch here.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.deep.settings import TIME_CONSTANTS, DeepSettings
from tailproof.errors import ConvergenceWarning

if TYPE_CHECKING:
    from tailproof.deep.history import History


@dataclass(frozen=True)
class Convergence:
    """How far the critics of a run have come.

    Attributes
    ----------
    time_constants
        steps · ρ · (1 − γ). Below 3 the values still lag behind what the rewards say.
    value, logged_return
        Mean V over states of the log, and the mean discounted return that was recorded from there on,
        in the log's unit; what lies beyond a truncated end is left out of both. NaN where a base has
        no V.
    trend
        Relative change of the mean value over the last quarter of training.
    pessimism
        How much of `value` the smaller of two Q takes, added up over the steps ahead: a member's V is
        learned from the smaller Q, below the networks' mean at each step. NaN where there is no V.
    """

    time_constants: float
    value: float
    logged_return: float
    trend: float
    pessimism: float = float("nan")

    @property
    def ratio(self) -> float:
        """Value as a multiple of the logged return; an expectile above ½ may bring it above one."""
        return self.value / self.logged_return if self.logged_return else float("nan")

    def __str__(self) -> str:
        text = f"{self.time_constants:.2g} time constants"
        if np.isfinite(self.ratio):
            text += f", mean V {self.value:.4g} against logged returns of {self.logged_return:.4g}"
        if self.pessimism > 0:
            text += f" (the smaller of two Q takes about {self.pessimism:.3g})"
        return text + (
            "" if np.isnan(self.trend) else f", still moving by {100 * self.trend:+.2g} %"
        )


def horizon_of(log: Log, gamma: float) -> float:
    """Return how many steps a value looks ahead: 1/(1 − γ), or the longest episode if all terminate."""
    longest = float(log.lengths.max()) if log.always_terminates else float("inf")
    return min(longest, float("inf") if gamma == 1 else 1 / (1 - gamma))


def returns_to_go(log: Log, gamma: float) -> FloatArray:
    """Return Σ γᵗ r of the recorded steps from each row to the end of its episode, (n,).

    Examples
    --------
    >>> from tailproof import Log
    >>> log = Log.from_arrays(
    ...     np.zeros((3, 1)), [0, 1, 0], [1.0, 2.0, 4.0], np.zeros((3, 1)), episode=[0, 0, 1]
    ... )
    >>> returns_to_go(log, 0.5).tolist()
    [2.0, 2.0, 4.0]
    """
    returns = np.array(log.rewards, dtype=float)
    last = np.zeros(log.n_transitions, dtype=bool)
    last[log.starts[1:] - 1] = True
    for row in range(log.n_transitions - 2, -1, -1):
        if not last[row]:
            returns[row] += gamma * returns[row + 1]
    return returns


def convergence_of(history: History) -> Convergence:
    """Return how far the critics came, from what their training measured."""
    value = history.members("mean value").mean(axis=1)
    returns = history.members("logged return")
    clock = history.members("time constants")
    taken = history.members("pessimism")
    before = value[(3 * len(value)) // 4 - 1] if len(value) >= 4 else np.nan
    return Convergence(
        float(clock[-1, 0]) if len(clock) else 0.0,
        float(value[-1]) if len(returns) else float("nan"),
        float(returns[-1].mean()) if len(returns) else float("nan"),
        float((value[-1] - before) / abs(value[-1])) if len(value) and value[-1] else float("nan"),
        float(taken[-1].mean()) if len(taken) else float("nan"),
    )


def warn_unless_converged(history: History, settings: DeepSettings, log: Log, gamma: float) -> None:
    """Warn of critics with fewer than three time constants behind them, and say what would do."""
    found = convergence_of(history)
    if found.time_constants >= TIME_CONSTANTS * (1 - 1e-9):
        return
    horizon = horizon_of(log, gamma)
    rate = settings.rate(horizon)
    steps = int(np.ceil(TIME_CONSTANTS * horizon / rate - 1e-6))
    faster = TIME_CONSTANTS * horizon / settings.steps
    how = f"steps={steps:_}" + (f" or target_rate={faster:.2g}" if rate < faster <= 0.1 else "")
    share = (
        f"; theirs are {found.ratio:.0%} of the logged returns" if np.isfinite(found.ratio) else ""
    )
    warnings.warn(
        f"The critics were trained for {found.time_constants:.2g} time constants (a target rate of "
        f"{rate:g}, and values that look {horizon:.0f} steps ahead). Values need "
        f"{TIME_CONSTANTS:g} to settle{share}. "
        f"Use {how}; target_rate='auto' follows the steps.",
        ConvergenceWarning,
        stacklevel=2,
    )
