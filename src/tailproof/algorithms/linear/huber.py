"""Huber's regression: least squares with residuals clipped at a threshold."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailproof.arrays import FloatArray, require_products
from tailproof.errors import LogError


def robust_scale(residuals: FloatArray) -> float:
    """Return 1.4826 · median |u|, a robust standard deviation.

    If most residuals are zero, the median is over the non-zero ones. If all are zero, the scale is
    infinite, because there is no noise to clip.

    Examples
    --------
    >>> round(robust_scale(np.array([-1.0, 1.0, 1.0, -1.0, 1e9])), 4)
    1.4826
    >>> robust_scale(np.zeros(3))
    inf
    """
    size = np.abs(residuals)
    middle = float(np.median(size))
    if middle == 0:
        size = size[size > 0]
        middle = float(np.median(size)) if len(size) else np.inf
    return 1.4826 * middle


@dataclass(frozen=True)
class Regression:
    """A robust linear fit of y on φ, with the terms needed for its standard error."""

    beta: FloatArray  # (d,)
    residuals: FloatArray  # (n,) y − φᵀβ
    scores: FloatArray  # (n,) ψ_τ(residual)
    inverse: FloatArray  # (d, d) of mean φφᵀ1{|residual| < τ}: β̂ − β is the mean of inverse · φψ_τ


def huber_regression(
    phi: FloatArray,
    target: FloatArray,
    *,
    threshold: float = 1.345,
    ridge: float = 1e-10,
    iterations: int = 100,
    tolerance: float = 1e-4,
) -> Regression:
    """Return β with Σφψ_τ(y − φᵀβ) = nλβ, ψ_τ(u) = clip(u, ±τ), on one factorisation.

    τ is `threshold` times the `robust_scale` of y − φᵀβ, updated in each step. The start is least
    squares on targets clipped at three robust standard deviations from their median.

    Parameters
    ----------
    phi, target
        (n, d) and (n,).
    ridge
        λ relative to mean ‖φ‖²: only large enough to determine β where the data do not.
    tolerance
        The iteration ends if a step changes the fit by less than this share of τ.

    Examples
    --------
    >>> x = np.column_stack([np.ones(9), np.arange(9.0)])
    >>> y = 2 * np.arange(9.0)
    >>> y[3] += 1e6
    >>> huber_regression(x, y).beta.round(3) + 0.0
    array([0., 2.])
    """
    n = len(phi)
    with np.errstate(over="ignore", invalid="ignore"):
        gram = phi.T @ phi / n
    require_products(gram, LogError)
    inverse = np.linalg.inv(gram + ridge * np.trace(gram) * np.eye(len(gram)))
    centre = float(np.median(target))
    reach = 3 * robust_scale(target - centre)
    beta = inverse @ (np.clip(target, centre - reach, centre + reach) @ phi) / n
    for _ in range(iterations):
        fitted = phi @ beta
        residuals = target - fitted
        # rounding errors count as zero; compared with each row's own size, as others may be outliers
        residuals[np.abs(residuals) <= 1e-12 * (np.abs(target) + np.abs(fitted))] = 0.0
        limit = threshold * robust_scale(residuals)
        inside = max(float(np.mean(np.abs(residuals) < limit)), 1 / n)
        pulled = np.clip(residuals, -limit, limit)
        # Newton's step is 1/inside times Huber's; Huber's converges for factors below 2
        step = inverse @ (pulled @ phi) / n * min(1 / inside, 1.9)
        if 2 * np.count_nonzero(residuals) < n:  # the fit passes through most points
            break
        beta = beta + step
        if np.isinf(limit) or np.abs(phi @ step).max() <= tolerance * limit:
            break
    # the share of residuals within τ may depend on φ, so use the curvature of those rows
    within = phi[np.abs(residuals) < limit]
    curvature = within.T @ within / n + gram / n  # add 1/n of the full Gram matrix for stability
    slope = np.linalg.inv(curvature + ridge * np.trace(gram) * np.eye(len(gram)))
    return Regression(beta, target - phi @ beta, pulled, slope)
