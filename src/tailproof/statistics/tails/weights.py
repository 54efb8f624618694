"""Reliability of importance weights: effective number, largest share, Pareto shape."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tailproof.arrays import FloatArray
from tailproof.errors import LogError
from tailproof.statistics.tails.sample import as_sample, deviation_of, unit_scale

#: Fewest exceedances for an estimate of the shape.
FEWEST = 5


@dataclass(frozen=True, kw_only=True)
class ParetoShape:
    """The shape k of the generalised Pareto distribution of the largest weights.

    Moments of order below 1/k exist: k < ½ means a finite variance, k ≥ 1 no mean.
    """

    k: float  # −∞ if the largest weights are all equal, NaN if not estimable
    exceedances: int  # weights beyond the threshold
    threshold: float
    reason: str = ""  # why there is no finite shape; empty if there is one


@dataclass(frozen=True, kw_only=True)
class WeightEvidence:
    """Diagnostics of a set of importance weights.

    Ratios of probabilities have mean 1: a mean several standard errors from 1 shows a wrong ratio.
    """

    n: int
    effective: float  # the effective sample size (Σw)²/Σw²
    largest_share: float  # max|w|/Σ|w|
    mean: float
    mean_error: float  # |mean − 1|
    standard_error: float  # of the mean, from the sample
    negative_share: (
        float  # Σ|w| over the negative weights, over Σ|w|; fitted ratios may be negative
    )
    pareto: ParetoShape  # the shape of the largest |w|

    @property
    def reliable_k(self) -> float:
        """The largest reliable Pareto shape for this n, min(1 − 1/log₁₀ n, 0.7).

        This is the rule of Vehtari, Simpson, Gelman, Yao and Gabry (2024).
        """
        return min(1 - 1 / math.log10(max(self.n, 2)), 0.7)

    @property
    def reliable(self) -> bool:
        """Whether the shape of the largest weights is known and below `reliable_k`."""
        return self.pareto.k < self.reliable_k  # false for NaN


def effective_sample_size(weights: npt.ArrayLike) -> float:
    """Return (Σw)²/Σw² (Kish 1965), between 0 and n; n for equal weights.

    >>> effective_sample_size([1.0, 1.0, 2.0])
    2.6666666666666665
    """
    w = unit_scale(_checked(weights))
    return float(w.sum() ** 2 / (w @ w))


def pareto_shape(values: npt.ArrayLike) -> ParetoShape:
    """Fit a generalised Pareto distribution to the largest values, as in Pareto smoothing.

    The M = min(n/5, 3√n) largest exceed the threshold u, the next largest value, by y. The estimate
    of Zhang and Stephens (2009) averages b = −k/σ over a grid of m = 30 + ⌊√M⌋ candidates
    b_j = 1/y_max + (1 − √(m/(j − ½)))/(3·y_quartile), each weighted by its profile likelihood
    exp(M·(log(−b/k(b)) − k(b) − 1)), k(b) = mean(log(1 − b·y)). Then k ← (M·k + 5)/(M + 10) shrinks
    it slightly towards ½ (Vehtari et al. 2024).

    Parameters
    ----------
    values
        Weights or any sample; its right tail is fitted.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> round(pareto_shape(rng.pareto(1 / 0.8, 100_000)).k, 1)
    0.8
    >>> pareto_shape(rng.uniform(size=10_000)).k < 0
    True
    """
    x = as_sample("values", values)
    n = len(x)
    kept = math.ceil(min(n / 5, 3 * math.sqrt(n)))
    if n <= kept:
        reason = f"{n} values are too few"
        return ParetoShape(k=math.nan, exceedances=0, threshold=math.nan, reason=reason)
    top = np.sort(np.partition(x, n - kept - 1)[n - kept - 1 :])
    threshold = float(top[0])
    beyond = top[top > threshold] - threshold  # (M,), ascending
    k, reason = math.nan, ""
    if not len(beyond):
        k, reason = -math.inf, f"the {kept + 1} largest values are all equal"
    elif len(beyond) < FEWEST:
        reason = f"{len(beyond)} values exceed the threshold and {FEWEST} are needed"
    else:
        k = _zhang_stephens(beyond)
        k = (len(beyond) * k + 5) / (len(beyond) + 10)
    return ParetoShape(k=k, exceedances=len(beyond), threshold=threshold, reason=reason)


def weight_evidence(weights: npt.ArrayLike) -> WeightEvidence:
    """Summarise importance weights: effective number, largest share, mean, negatives, Pareto shape.

    Parameters
    ----------
    weights
        Ratios of probabilities or densities, not self-normalised, so that they should average 1.

    Examples
    --------
    >>> evidence = weight_evidence(np.random.default_rng(1).exponential(size=10_000))
    >>> round(evidence.effective / evidence.n, 1), evidence.reliable
    (0.5, True)
    """
    w = _checked(weights)
    magnitude = np.abs(w)
    unit = unit_scale(magnitude)
    total = float(unit.sum())
    mean = float(w.mean())
    return WeightEvidence(
        n=len(w),
        effective=effective_sample_size(w),
        largest_share=float(unit.max()) / total,
        mean=mean,
        mean_error=abs(mean - 1),
        standard_error=deviation_of(w) / math.sqrt(len(w)),
        negative_share=float(unit[w < 0].sum()) / total,
        pareto=pareto_shape(magnitude),
    )


def _checked(weights: npt.ArrayLike) -> FloatArray:
    w = as_sample("weights", weights)
    if not w.any():
        raise LogError(
            f"Weights must not all be zero. Got {len(w)} zeros: the policy never does what was "
            "logged, so the log says nothing about it."
        )
    return w


def _zhang_stephens(y: FloatArray) -> float:
    """Return the shape of exceedances y > 0, ascending."""
    M = len(y)
    y = y / y[-1]
    m = 30 + math.isqrt(M)
    quartile = max(y[int(M / 4 + 0.5) - 1], 1e-100)  # large enough that b does not overflow
    b = 1 + (1 - np.sqrt(m / (np.arange(1, m + 1) - 0.5))) / (3 * quartile)  # (m,)
    b = b[b != 0]  # 0 is the exponential distribution, and would give 0/0 below
    k = np.log1p(-b[:, None] * y).mean(axis=1)  # (m,)
    likelihood = M * (np.log(-b / k) - k - 1)
    weight = np.exp(likelihood - likelihood.max())
    return float(np.log1p(-(weight @ b / weight.sum()) * y).mean())
