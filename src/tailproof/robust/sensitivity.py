"""How strong hidden reasons for the logged actions would have to be to overturn an answer."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.robust.gains import PairedGain

#: The strengths Γ at which bounds are computed.
GAMMAS = (1.1, 1.2, 1.35, 1.5, 1.75, 2.0, 2.5, 3.0, 4.0, 6.0, 10.0)


def least_favourable(
    residuals: FloatArray, target: FloatArray, propensity: FloatArray, *, gamma: float
) -> FloatArray:
    """Return the weights that make the weighted mean of one action's residuals smallest, (m,).

    In the marginal sensitivity model (Tan 2006) hidden reasons change the odds of the logged action by
    a factor of at most Γ either way: 1/e becomes 1 + λ (1/e − 1) with λ in [1/Γ, Γ]. The smallest
    Σ w ε / Σ w has λ = Γ below a threshold of ε and 1/Γ above it (Zhao, Small and Bhattacharya 2019).

    Parameters
    ----------
    residuals
        ε = r − q̂(s, a), (m,).
    target, propensity
        π(a | s) and e(a | s) of the action that was logged, (m,).

    Examples
    --------
    >>> residuals, half = np.array([1.0, -1.0]), np.full(2, 0.5)
    >>> least_favourable(residuals, np.ones(2), half, gamma=2.0).tolist()
    [1.5, 3.0]
    """
    odds = target * (1 / propensity - 1)
    many, few = target + gamma * odds, target + odds / gamma
    order = np.argsort(residuals, kind="stable")
    ordered, high, low = residuals[order], many[order], few[order]
    above = np.append(0.0, np.cumsum((high - low) * ordered)) + float((low * ordered).sum())
    below = np.append(0.0, np.cumsum(high - low)) + float(low.sum())
    count = int(np.argmin(above / below))
    weights = few.copy()
    weights[order[:count]] = many[order[:count]]
    return weights


def least_favourable_scores(
    residuals: FloatArray,
    target: FloatArray,
    propensity: FloatArray,
    actions: IntArray,
    shares: FloatArray,
    *,
    gamma: float,
) -> tuple[float, FloatArray]:
    """Return the smallest correction Σ_a π̄(a) Σ w ε / Σ w, and each row's part of its error, (n,).

    `shares` are π̄(a), the mean probability of each action under the policy, (A,): the weights of the
    rows of an action add up to n π̄(a).
    """
    correction, parts = 0.0, np.zeros(len(residuals))
    for action, share in enumerate(shares):
        here = np.flatnonzero((actions == action) & (target > 0))
        if share == 0 or not len(here):
            continue
        weights = least_favourable(residuals[here], target[here], propensity[here], gamma=gamma)
        mean = float(np.average(residuals[here], weights=weights))
        correction += share * mean
        parts[here] = weights * (share * len(residuals) / weights.sum()) * (residuals[here] - mean)
    return float(correction), parts


@dataclass(frozen=True)
class HiddenReasons:
    """The gain nearest to 0 that hidden reasons of each strength leave possible.

    `against` is 1 where they lower a gain, −1 where they raise a loss.
    """

    gammas: tuple[float, ...]
    gains: tuple[PairedGain, ...]  # least favourable, of `against` times the gain
    against: int

    def tipping_gamma(self, first: float, level: float) -> float:
        """Return the smallest Γ at which the bound of the gain reaches 0; infinite beyond the last.

        `first` is the bound without hidden reasons; between the strengths the bound is interpolated.
        """
        before, at = max(first, 0.0), 0.0
        for gamma, gain in zip(self.gammas, self.gains, strict=True):
            bound = min(gain.lower_bound(level).value, before)
            if bound <= 0:
                share = before / (before - bound) if before > bound else 0.0
                return exp(at + share * (log(gamma) - at))
            before, at = bound, log(gamma)
        return inf
