"""A path of Huber means, a test of symmetry, and Lepski's choice of the threshold.

A Huber mean with a small threshold τ has little variance and, on skewed samples, a bias; with a large
one it is the plain mean. The path contains thresholds from small to large. Two estimates on it differ
significantly, relative to the standard error *of their difference*, only if one is biased. The
difference is far more precise than either estimate, because both use the same samples: a mild skew is
detected even if the mean is noisy.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.robust.means import huber_path
from tailproof.rules import RULES

_CHUNK = 8_192  # samples at a time, so that the influences of all thresholds fit in the cache

LENGTH = 16  # thresholds on a path: each about twice the previous one on 10⁴ Cauchy samples


@dataclass(frozen=True, eq=False)
class Nuisance:
    """An estimated β on which samples depend: dx_u = −v_uᵀdβ, and β̂ − β is the mean of h_u.

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
    """Estimates for increasing thresholds, with variances of each and of every difference."""

    thresholds: FloatArray  # (T,) ascending; the last is the plain mean
    estimates: FloatArray  # (T,)
    variances: FloatArray  # (T,)
    differences: FloatArray  # (T, T) variance of estimate_i − estimate_j

    def asymmetry(self) -> float:
        """Return the largest squared difference of two estimates, in units of its variance.

        It is about 3 on symmetric samples, and grows linearly with n on skewed ones.
        """
        gap = (self.estimates[:, None] - self.estimates[None]) ** 2
        least = np.minimum(self.variances[:, None], self.variances[None])
        known = self.differences > 1e-6 * least  # smaller ones are rounding errors
        return float((gap[known] / self.differences[known]).max(initial=0.0))

    def choose(self, caution: float) -> int:
        """Return the threshold of least estimated risk, bias² + variance (Goldenshluger–Lepski).

        The bias of a threshold is estimated by the largest distance of its estimate from that of a
        larger threshold, less `caution` standard errors of their difference.
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

    If the samples depend on an estimated `nuisance` and some are clipped, its noise does not cancel and
    is added to the variances. `common` is influence shared by all estimates, (U,): it is added to the
    variances but not to those of differences.
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
    thresholds[-1] = 2 * farthest  # nothing is clipped: the plain mean
    estimates = np.asarray(huber_path(samples, thresholds))
    chunks = [slice(first, first + _CHUNK) for first in range(0, count, _CHUNK)]
    ends = (estimates - thresholds, estimates + thresholds)  # (T,) where each threshold clips
    ordered = np.sort(samples)
    inside = np.searchsorted(ordered, ends[1]) - np.searchsorted(ordered, ends[0], side="right")
    share = np.maximum(inside / count, 1 / count)[:, None]  # (T, 1)
    shift: FloatArray | None = None  # mean v − mean v of the samples that are not clipped, (T, d)
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


def asymmetry_by_action(residuals: FloatArray, actions: IntArray | None) -> float:
    """Return the largest asymmetry of the residuals, over all rows and over those of each action.

    Opposite skews of two actions cancel in pooled residuals, but bias a comparison of the actions.
    """
    found = [huber_estimates(residuals).asymmetry()]
    if actions is not None:
        own = (residuals[actions == action] for action in np.unique(actions))
        enough = (each for each in own if len(each) >= RULES.action_rows)
        found += [huber_estimates(each).asymmetry() for each in enough]
    return float(max(found))
