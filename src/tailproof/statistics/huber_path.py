"""How robust may a mean be? A path of Huber estimates, a test of symmetry, and Lepski's choice on it.

A Huber mean with a small threshold τ has little variance and, on skewed samples, a bias; with a large
one it is the plain mean. The path runs from one to the other. Two estimates on it differ by more than
the standard error *of their difference* only if one is biased. That difference is known far better than
either estimate, because both see the same samples: a mild skew shows even where the mean is noisy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.statistics.means import huber_path

_CHUNK = 8_192  # samples at a time: the influences of all thresholds then stay in cache

LENGTH = 16  # thresholds on a path: each is about twice the last on 10⁴ Cauchy samples


@dataclass(frozen=True, eq=False)
class Nuisance:
    """An estimated β with which samples were made: x_u(β) falls by v_uᵀdβ, β̂ − β is the mean of h_u.

    With v_u = `falls_u` f_u and h_u = `inverse` · `scores_u` g_u, so that f and g may be one matrix.
    """

    f: FloatArray  # (U, d)
    falls: FloatArray  # (U,)
    g: FloatArray  # (U, d)
    scores: FloatArray  # (U,)
    inverse: FloatArray  # (d, d), symmetric

    def sums(self, weights: FloatArray, rows: slice) -> FloatArray:
        """Return Σ weights_u v_u over some samples, (T, d), for weights of shape (T, m)."""
        return np.asarray((weights * self.falls[rows]) @ self.f[rows])

    def carried(self, shift: FloatArray, rows: slice) -> FloatArray:
        """Return shiftᵀh_u of some samples, (T, m), for shifts of shape (T, d)."""
        return np.asarray((shift @ self.inverse) @ self.g[rows].T) * self.scores[rows]


@dataclass(frozen=True)
class Path:
    """Estimates of growing threshold, and the variances of each and of every difference."""

    thresholds: FloatArray  # (T,) ascending; the last is the plain mean
    estimates: FloatArray  # (T,)
    variances: FloatArray  # (T,)
    differences: FloatArray  # (T, T) variance of estimate_i − estimate_j

    def asymmetry(self) -> float:
        """Return the largest squared difference of two estimates, in units of its variance.

        Of order 3 on symmetric samples; it grows linearly with n on skewed ones.
        """
        gap = (self.estimates[:, None] - self.estimates[None]) ** 2
        least = np.minimum(self.variances[:, None], self.variances[None])
        known = self.differences > 1e-6 * least  # equal estimates differ by rounding only
        return float((gap[known] / self.differences[known]).max(initial=0.0))

    def choose(self, caution: float) -> int:
        """Return the threshold of least estimated risk, bias² + variance (Goldenshluger–Lepski).

        The bias of a threshold is how far it lies from any larger one, beyond `caution` standard
        errors of their difference.
        """
        count = len(self.estimates)
        risks = self.variances.copy()
        for i in range(count - 1):
            gap = np.abs(self.estimates[i] - self.estimates[i + 1 :])
            excess = gap - caution * np.sqrt(np.maximum(self.differences[i, i + 1 :], 0))
            risks[i] += max(float(excess.max()), 0.0) ** 2
        return int(risks.argmin())


def huber_estimates(
    samples: FloatArray, *, nuisance: Nuisance | None = None, common: FloatArray | None = None
) -> Path:
    """Return the path of Huber means of the samples, (U,).

    Where the samples were made with a `nuisance` and thresholds cut some of them off, its noise no
    longer cancels and belongs in the variances. `common` is influence that every estimate shares, (U,):
    it adds to the variances, not to differences.
    """
    count = len(samples)
    centre = np.median(samples)
    distance = np.abs(samples - centre)
    farthest = float(distance.max())
    if farthest == 0:
        return Path(np.zeros(1), np.array([centre]), np.zeros(1), np.zeros((1, 1)))
    nearest = float(np.median(distance))
    if nearest == 0:  # more than half of the samples are equal
        nearest = float(np.quantile(distance[distance > 0], 0.1))
    thresholds = np.geomspace(nearest, farthest, LENGTH)
    thresholds[-1] = 2 * farthest  # nothing is cut off: the plain mean
    estimates = np.asarray(huber_path(samples, thresholds))
    chunks = [slice(first, first + _CHUNK) for first in range(0, count, _CHUNK)]
    ends = (estimates - thresholds, estimates + thresholds)  # (T,) where each threshold cuts
    ordered = np.sort(samples)
    inside = np.searchsorted(ordered, ends[1]) - np.searchsorted(ordered, ends[0], side="right")
    share = np.maximum(inside / count, 1 / count)[:, None]  # (T, 1)
    shift: FloatArray | None = None  # mean v − mean v of the samples that are not cut off, (T, d)
    if nuisance is not None:
        total, kept = np.zeros(1), np.zeros(1)
        for rows in chunks:
            within = 1.0 * (np.abs(samples[rows] - estimates[:, None]) < thresholds[:, None])
            total = total + nuisance.sums(np.ones((1, within.shape[1])), rows)
            kept = kept + nuisance.sums(within, rows)
        shift = np.asarray(total / count - kept / (count * share))
    covariance = np.zeros((LENGTH, LENGTH))
    for rows in chunks:
        influence = samples[rows] - estimates[:, None]  # (T, m)
        np.clip(influence, -thresholds[:, None], thresholds[:, None], out=influence)
        influence /= share
        if nuisance is not None and shift is not None:
            influence += nuisance.carried(shift, rows)
        if common is not None:
            influence += common[rows]
        covariance += influence @ influence.T
    covariance /= count**2
    variances = np.diag(covariance).copy()
    differences = variances[:, None] + variances[None] - 2 * covariance
    return Path(thresholds, estimates, variances, differences)
