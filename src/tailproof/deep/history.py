"""The training history, and whether critics were trained long enough. No torch here.

Bootstrapped values approach their fixed point like 1 − exp(−t), t = steps · ρ · (1 − γ): with target
networks of rate ρ, a change propagates to the previous state in about 1/ρ gradient steps, and values
have a horizon of 1/(1 − γ) steps.
"""

from __future__ import annotations

import csv
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.deep.settings import TIME_CONSTANTS, DeepSettings
from tailproof.errors import ConvergenceWarning, MethodError
from tailproof.files import as_frame
from tailproof.log.log import Log
from tailproof.parameters import COUNT, require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.files import Frame


@dataclass(frozen=True)
class Convergence:
    """How far the critics of a run have converged.

    Attributes
    ----------
    time_constants
        steps · ρ · (1 − γ). Below 3 the values are still far from their fixed point.
    value, logged_return
        Mean V over states of the log, and the mean discounted logged return from these states, in
        the log's unit; both exclude values after a truncated end. NaN if a base has no V.
    trend
        Relative change of the mean value over the last quarter of training.
    pessimism
        How much lower `value` is because V is learned from the smaller of two Q instead of their
        mean, summed over future steps. NaN if there is no V.
    """

    time_constants: float
    value: float
    logged_return: float
    trend: float
    pessimism: float = float("nan")

    @property
    def ratio(self) -> float:
        """Value divided by logged return; with an expectile above ½ it may exceed one."""
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
    """Return the horizon in steps: 1/(1 − γ), or the longest episode if all terminate."""
    longest = float(log.lengths.max()) if log.always_terminates else float("inf")
    return min(longest, float("inf") if gamma == 1 else 1 / (1 - gamma))


def returns_to_go(log: Log, gamma: float) -> FloatArray:
    """Return Σ γᵗ r over the logged steps from each row to the end of its episode, (n,).

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


def warn_unless_converged(history: History, settings: DeepSettings, log: Log, gamma: float) -> None:
    """Warn about critics trained for fewer than three time constants, with a remedy."""
    reached = history.convergence
    if reached.time_constants >= TIME_CONSTANTS * (1 - 1e-9):
        return
    horizon = horizon_of(log, gamma)
    rate = settings.rate(horizon)
    needed = TIME_CONSTANTS * horizon * settings.delay
    how = f"steps={int(np.ceil(needed / rate - 1e-6)):_}"
    faster = needed / settings.steps
    if settings.target_rate != "auto":
        how += f" or target_rate={faster:.2g}" if rate < faster <= 0.1 else ""
        how += "; target_rate='auto' follows the steps"
    share = ""
    if np.isfinite(reached.ratio):
        share = f"; their values are {round(100 * reached.ratio)} % of the logged returns"
    warnings.warn(
        f"The critics may not have settled: they were trained for {reached.time_constants:.2g} time "
        f"constants and need {TIME_CONSTANTS:g} (target rate {rate:g}, {horizon:.0f} steps "
        f"ahead){share}. Use {how}.",
        ConvergenceWarning,
        stacklevel=2,
    )


Measurements = Mapping[str, FloatArray]


class Series(NamedTuple):
    """One quantity over training: one row per measurement, one column per member."""

    steps: IntArray  # (R,)
    values: FloatArray  # (R, K)


class Measurement(NamedTuple):
    """One measured number."""

    step: int
    quantity: str
    member: int
    value: float


@dataclass(frozen=True)
class History:
    """Named series: losses, Q scale, fold disagreement, values and time constants, evaluation returns.

    Iteration yields every `Measurement`.

    Examples
    --------
    >>> import numpy as np
    >>> history = History().with_row(100, {"q loss": np.array([2.0, 3.0])})
    >>> history.with_row(200, {"q loss": np.array([1.0, 2.0])})["q loss"].values.tolist()
    [[2.0, 3.0], [1.0, 2.0]]
    """

    series: Mapping[str, Series] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<History of {', '.join(self.series) or 'nothing'}>"

    def __getitem__(self, name: str) -> Series:
        return self.series[name]

    def __contains__(self, name: object) -> bool:
        return name in self.series

    def __iter__(self) -> Iterator[Measurement]:
        for name, series in self.series.items():
            for step, row in zip(*series, strict=True):
                for member, value in enumerate(row):
                    yield Measurement(int(step), name, member, float(value))

    def __len__(self) -> int:
        """Return the number of measurements."""
        return sum(series.values.size for series in self.series.values())

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names of the measured quantities."""
        return tuple(self.series)

    @property
    def convergence(self) -> Convergence:
        """Convergence of the critics: time constants, values against returns, trend."""
        value = self.members("mean value").mean(axis=1)
        returns, clock, taken = map(self.members, ("logged return", "time constants", "pessimism"))
        nan = float("nan")
        before = value[(3 * len(value)) // 4 - 1] if len(value) >= 4 else nan
        return Convergence(
            float(clock[-1, 0]) if len(clock) else 0.0,
            float(value[-1]) if len(returns) else nan,
            float(returns[-1].mean()) if len(returns) else nan,
            float((value[-1] - before) / abs(value[-1])) if len(value) and value[-1] else nan,
            float(taken[-1].mean()) if len(taken) else nan,
        )

    def members(self, name: str) -> FloatArray:
        """Return a quantity of all members, (R, K), merged over workers."""
        parts = [each.values for key, each in self.series.items() if key.split(": ")[-1] == name]
        return np.concatenate(parts, axis=1) if parts else np.empty((0, 1))

    def mean_of_last(self, name: str, rows: int = 10) -> FloatArray:
        """Return the mean of a quantity over its last rows, by member, (K,).

        With ``"score"`` this is the paper's score of a policy: the mean of the last ten evaluations.

        Examples
        --------
        >>> history = History()
        >>> for step, score in enumerate((0.0, 40.0, 50.0)):
        ...     history = history.with_row(step, {"score": np.array([score])})
        >>> history.mean_of_last("score", 2).tolist()
        [45.0]
        """
        require(COUNT, rows=rows)
        if name not in self:
            raise MethodError(
                f"This history has no {name!r}; it has {', '.join(self.series) or 'nothing'}. Returns "
                f"and scores are measured with run=Run(evaluation=Evaluation(...))."
            )
        return np.asarray(self[name].values[-rows:].mean(axis=0))

    def to_frame(self) -> Frame:
        """Return a frame of step, quantity, member and value: pandas, or pyarrow without it."""
        return as_frame([each._asdict() for each in self])

    def plot(self, *quantities: str, ax: Axes | None = None) -> Axes | AnyArray:
        """Plot quantities over steps, by default all: one panel each, one line per member.

        Returns the Axes of one quantity, or an array of Axes. `ax` is the Axes for a single one.
        """
        from tailproof.report.plots import plot_history  # imports matplotlib

        drawn: Axes | AnyArray = plot_history(self.series, quantities or self.quantities, ax=ax)
        return drawn

    def with_row(self, step: int, measured: Measurements) -> History:
        """Return the history with one more row of each of these quantities."""
        grown = dict(self.series)
        for name, values in measured.items():
            row = np.atleast_1d(np.asarray(values, dtype=float))[None]
            before = grown.get(name, Series(np.empty(0, int), row[:0]))
            grown[name] = Series(
                np.append(before.steps, step), np.concatenate([before.values, row])
            )
        return History(grown)

    def joined(self, other: History, *, prefix: str = "") -> History:
        """Return both histories in one; `prefix` is put before the other's names."""
        renamed = {prefix + name: series for name, series in other.series.items()}
        return History({**self.series, **renamed})

    def to_csv(self, path: str | Path) -> None:
        """Write one row per measurement: step, quantity, member, value."""
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(Measurement._fields)
            writer.writerows(self)
