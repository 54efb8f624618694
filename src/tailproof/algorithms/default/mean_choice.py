"""Choice of the mean from the rewards: its unit of observation, and how robust it may be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailproof.algorithms.linear.huber import Regression
from tailproof.arrays import FloatArray, IntArray
from tailproof.judgement.rules import RULES
from tailproof.judgement.shape import RewardFit, RewardShape, sums
from tailproof.statistics.huber_path import Nuisance, Path, huber_estimates
from tailproof.statistics.means import adaptive_huber, catoni, median_of_means


@dataclass(frozen=True, eq=False)
class MeanChoice:
    """The mean of the weighted residuals w·(r − r̃), chosen by their tails, skew and clustering.

    `doubt` is the distance of the adaptive Huber mean from this one where the log is too small to
    decide whether heavy-tailed residuals are symmetric; otherwise 0.
    """

    value: float
    how: str
    shape: RewardShape  # of the log's rewards, with the units of the mean
    asymmetry: float  # the evidence of skew
    skewed: bool  # whether the asymmetry is significant
    doubt: float
    error: float  # of this mean, the regression's noise included
    plain_error: float  # of the plain mean
    influence: FloatArray  # (U,) of each unit on the estimate, the transitions' noise included
    path: Path  # the Huber means of all thresholds
    samples: FloatArray  # (U,) the averaged samples

    def others(self, rng: np.random.Generator) -> dict[str, float]:
        """Return the values of other means."""
        samples = self.samples
        return {
            "plain LSTD": float(self.path.estimates[-1]),
            "adaptive Huber": adaptive_huber(samples),
            "Catoni": catoni(samples),
            "median of 20 means": median_of_means(samples, blocks=min(20, len(samples)), rng=rng),
            "Huber regression": 0.0,
        }

    def with_influence(self, rows: FloatArray) -> MeanChoice:
        """Return the choice with these influences of the rows, (n,), in place of its own."""
        count = self.shape.units
        total = sums(self.shape.unit_of_row, rows, count) * count / len(rows)
        total -= total.mean()
        error = float(np.sqrt((total**2).sum())) / count
        return replace(self, influence=total, error=error)


def choose_mean(rewards: RewardFit, weights: FloatArray, transition: FloatArray) -> MeanChoice:
    """Choose the mean of w·(r − r̃), with weights w, (n,).

    `transition` is w·δ with r̃ in place of the rewards, (n,): noise that every mean shares.
    """
    fit, shape = rewards.fit, rewards.shape
    unit, count = shape.unit_of_row, shape.units
    n = len(weights)
    samples = sums(unit, weights * fit.residuals, count) * count / n
    common = sums(unit, transition, count) * count / n
    nuisance = _nuisance(unit, count, rewards.phi, weights, fit)
    path = huber_estimates(samples, nuisance=nuisance, common=common)
    asymmetry = max(path.asymmetry(), shape.asymmetry)
    skewed = asymmetry > RULES.skewed
    adaptive, plain = adaptive_huber(samples), float(path.estimates[-1])
    last = len(path.estimates) - 1
    if skewed:
        nearest = int(np.abs(path.estimates - adaptive).argmin())
        gap = np.sqrt(path.differences[nearest, -1])
        keep_all = shape.sparse or abs(adaptive - plain) > RULES.caution * gap + 1e-12
        chosen, mean = last, plain if keep_all else adaptive
        how = "plain mean" if keep_all else "adaptive Huber mean"
    else:
        robust = shape.worthwhile and not shape.sparse
        chosen = path.choose(RULES.caution) if robust else last
        mean = float(path.estimates[chosen])
        how = "plain mean" if chosen == last else "Huber mean"
    matters = path.variances[-1] > 2 * path.variances[chosen]
    unsure = not skewed and count < RULES.settling and asymmetry > RULES.unsure and bool(matters)
    return MeanChoice(
        value=mean,
        how=how,
        shape=shape,
        asymmetry=asymmetry,
        skewed=skewed,
        doubt=abs(adaptive - mean) if unsure else 0.0,
        error=float(np.sqrt(path.variances[chosen])),
        plain_error=float(np.sqrt(path.variances[-1])),
        influence=_influence(samples, path, chosen) + common,
        path=path,
        samples=samples,
    )


def _influence(samples: FloatArray, path: Path, chosen: int) -> FloatArray:
    """Return the influence of each sample on a Huber mean, (U,)."""
    off = samples - path.estimates[chosen]
    limit = path.thresholds[chosen]
    if limit == 0:
        return np.zeros_like(samples)
    inside = max(float(np.mean(np.abs(off) < limit)), 1 / len(samples))
    return np.asarray(np.clip(off, -limit, limit) / inside)


def _nuisance(
    unit: IntArray, count: int, phi: FloatArray, weights: FloatArray, fit: Regression
) -> Nuisance:
    """Return the derivatives of samples in the regression's β, and of β; see `huber_estimates`."""
    n = len(phi)
    if count == n:  # units are steps: summing would only copy the features twice
        return Nuisance(phi, weights, phi, fit.scores, fit.inverse)
    scale = np.full(count, count / n)
    falls = sums(unit, weights[:, None] * phi, count)
    responses = sums(unit, fit.scores[:, None] * phi, count)
    return Nuisance(falls, scale, responses, scale, fit.inverse)
