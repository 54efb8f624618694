"""The Bellman residual monitor: scale of the residuals, overall and over time, and the worst."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tailproof.arrays import FloatArray, IntArray
from tailproof.errors import MethodError
from tailproof.statistics.tails.sample import as_sample, deviation_of, median_of

#: 1/Φ⁻¹(¾): scales the MAD to the standard deviation of Gaussian values.
GAUSSIAN = 1.4826022185056018


@dataclass(frozen=True, kw_only=True, eq=False)
class ResidualMonitor:
    """A summary of the residuals δ.

    `ratio` is std/mad: about 1 for Gaussian residuals, growing without bound with n for infinite
    variance, infinite if more than half of the residuals are equal, NaN if all are.
    """

    std: float
    mad: float  # the median of |δ − median|, scaled to equal the std of Gaussian values
    ratio: float
    window: int  # rows
    starts: IntArray  # (windows,) the first row of each
    scale: FloatArray  # (windows,) the MAD in each
    worst: IntArray  # (k,) the rows farthest from the median, farthest first
    worst_values: FloatArray  # (k,)

    @property
    def swing(self) -> float:
        """The largest scale of a window divided by the median scale; NaN if that is zero."""
        middle = float(median_of(self.scale))
        return float(self.scale.max()) / middle if middle > 0 else math.nan


def mad(x: npt.ArrayLike) -> float:
    """Return 1.4826 × median|x − median(x)|.

    >>> round(mad([1.0, 2.0, 3.0, 4.0, 100.0]), 4)
    1.4826
    """
    values = as_sample("x", x)
    return GAUSSIAN * float(median_of(np.abs(values - median_of(values))))


def residual_monitor(
    residuals: npt.ArrayLike, *, window: int | None = None, worst: int = 10
) -> ResidualMonitor:
    """Summarise residuals in the log's order: std/MAD, the MAD of each window, the worst rows.

    The paper proposes to monitor the temporal-difference error; a ratio far above 1, a window far
    above the others or a few extreme rows show where outliers affect the fit.

    Parameters
    ----------
    residuals
        δ, in the order of the log.
    window
        Number of rows in a window, 2 or more; by default for about 100 windows of at least 50 rows. A
        shorter last window is merged with the one before.
    worst
        Number of worst rows to return.

    Examples
    --------
    >>> delta = np.random.default_rng(1).standard_normal(1000)
    >>> delta[7] = 100.0
    >>> monitor = residual_monitor(delta, worst=1)
    >>> monitor.worst, round(monitor.ratio, 1)
    (array([7]), 3.3)
    """
    delta = as_sample("residuals", residuals)
    n = len(delta)
    if window is None:
        window = min(max(n // 100, 50), n)
    elif window < 2:
        raise MethodError(f"window must be 2 rows or more. Got {window!r}; leave it out for n/100.")
    if worst < 0:
        raise MethodError(f"worst must be a number of rows, 0 or more. Got {worst!r} instead.")
    window, worst = min(window, n), min(worst, n)
    distance = np.abs(delta - median_of(delta))
    farthest = np.argpartition(distance, n - worst)[n - worst :] if worst else np.empty(0, np.intp)
    farthest = farthest[np.lexsort((farthest, -distance[farthest]))]
    std = deviation_of(delta)
    scale = GAUSSIAN * float(median_of(distance))
    ratio = std / scale if scale > 0 else (math.inf if std > 0 else math.nan)
    return ResidualMonitor(
        std=std,
        mad=scale,
        ratio=ratio,
        window=window,
        starts=np.arange(n // window) * window,
        scale=_window_scales(delta, window),
        worst=farthest,
        worst_values=delta[farthest],
    )


def _window_scales(delta: FloatArray, window: int) -> FloatArray:
    """Return the MAD of each window; the last one includes the remaining rows."""
    windows = len(delta) // window
    even = delta[: (windows - 1) * window].reshape(windows - 1, window)
    centred = np.abs(even - median_of(even)[:, None])
    return np.append(GAUSSIAN * median_of(centred), mad(delta[(windows - 1) * window :]))
