"""Which mean the rewards call for: what is one observation, are they skewed, how robust may it be."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tailproof.algorithms.linear.huber import Regression
from tailproof.arrays import FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.statistics.huber_path import Nuisance, Path, huber_estimates
from tailproof.statistics.means import adaptive_huber, catoni, median_of_means

SKEWED = 16.0  # squared differences on the path beyond this are no accident of symmetric samples
UNSURE = 6.0  # beyond this, symmetry is in doubt in logs that cannot settle it
_SETTLING = 4_000  # units in which a side that is 30 % wider than the other shows beyond SKEWED
CAUTION = 3.0  # standard errors by which estimates may differ before one counts as biased
_ENOUGH = 200_000  # residuals that settle symmetry beyond doubt
_CLUSTERED = 5.0  # standard errors of the count of extremes, beyond chance


@dataclass(frozen=True, eq=False)
class MeanChoice:
    """The mean of the weighted residuals w·(r − r̃) that their tails, skew and clustering call for.

    Attributes
    ----------
    value
        The mean.
    how, unit, units
        Which mean, over what, and of how many.
    asymmetry, skewed
        The evidence of skew, and whether it is too much for chance.
    doubt
        How far the adaptive Huber mean lies from this one, where tails are heavy, symmetry matters and
        the log is too small to settle it; otherwise 0.
    error, plain_error
        The standard error of this mean and of the plain one, the regression's noise included.
    influence
        Of each unit on the estimate, (U,), the transitions' noise included.
    unit_of_row
        (n,)
    path
        The Huber means of all thresholds, and of which samples, (U,).
    """

    value: float
    how: str
    unit: str
    units: int
    asymmetry: float
    skewed: bool
    doubt: float
    error: float
    plain_error: float
    influence: FloatArray
    unit_of_row: IntArray
    path: Path
    samples: FloatArray

    def others(self, rng: np.random.Generator) -> dict[str, float]:
        """Return what other means would have said."""
        return {
            "plain LSTD": float(self.path.estimates[-1]),
            "adaptive Huber": adaptive_huber(self.samples),
            "Catoni": catoni(self.samples),
            "median of 20 means": median_of_means(
                self.samples, blocks=min(20, self.units), rng=rng
            ),
            "Huber regression": 0.0,
        }

    def with_influence(self, rows: FloatArray) -> MeanChoice:
        """Return the choice with the influence of each row, (n,), in place of its own."""
        total = _sums(self.unit_of_row, rows, self.units) * self.units / len(rows)
        total -= total.mean()
        error = float(np.sqrt((total**2).sum())) / self.units
        return replace(self, influence=total, error=error)


@dataclass(frozen=True, eq=False)
class Residuals:
    """Residuals r − r̃ of a log, and what they show whatever the weights."""

    fit: Regression
    phi: FloatArray  # (n, d) the regression's features
    unit: str
    unit_of_row: IntArray  # (n,)
    units: int
    asymmetry: float
    worthwhile: bool  # whether a robust mean of them would have much less variance

    @classmethod
    def of(cls, log: Log, fit: Regression, phi: FloatArray) -> Residuals:
        """Look at the residuals of a robust regression of the rewards."""
        name, unit = clusters(log, np.abs(fit.residuals))
        count = int(unit.max()) + 1
        sums = _sums(unit, fit.residuals, count)
        path = huber_estimates(sums[:: max(1, count // _ENOUGH)])
        sturdy = path.variances[path.choose(CAUTION)]
        worthwhile = bool(path.variances[-1] >= _worth(count) * sturdy)
        return cls(fit, phi, name, unit, count, path.asymmetry(), worthwhile)


def choose_mean(residuals: Residuals, weights: FloatArray, transition: FloatArray) -> MeanChoice:
    """Choose the mean of w·(r − r̃).

    Parameters
    ----------
    weights
        w, (n,)
    transition
        w·δ with r̃ in place of the rewards, (n,): noise that every mean shares.
    """
    fit, unit, count = residuals.fit, residuals.unit_of_row, residuals.units
    n = len(weights)
    samples = _sums(unit, weights * fit.residuals, count) * count / n
    common = _sums(unit, transition, count) * count / n
    nuisance = _nuisance(unit, count, residuals.phi, weights, fit)
    path = huber_estimates(samples, nuisance=nuisance, common=common)
    asymmetry = max(path.asymmetry(), residuals.asymmetry)
    skewed = asymmetry > SKEWED
    adaptive, plain = adaptive_huber(samples), float(path.estimates[-1])
    last = len(path.estimates) - 1
    if skewed:
        nearest = int(np.abs(path.estimates - adaptive).argmin())
        gap = np.sqrt(path.differences[nearest, -1])
        keep_all = abs(adaptive - plain) > CAUTION * gap + 1e-12
        chosen, mean = last, plain if keep_all else adaptive
        how = "plain mean" if keep_all else "adaptive Huber mean"
    else:
        chosen = path.choose(CAUTION) if residuals.worthwhile else last
        mean = float(path.estimates[chosen])
        how = "plain mean" if chosen == last else "Huber mean"
    matters = path.variances[-1] > 2 * path.variances[chosen]
    unsure = not skewed and count < _SETTLING and asymmetry > UNSURE and matters
    return MeanChoice(
        value=mean,
        how=how,
        unit=residuals.unit,
        units=count,
        asymmetry=asymmetry,
        skewed=skewed,
        doubt=abs(adaptive - mean) if unsure else 0.0,
        error=float(np.sqrt(path.variances[chosen])),
        plain_error=float(np.sqrt(path.variances[-1])),
        influence=_influence(samples, path, chosen) + common,
        unit_of_row=unit,
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


def _worth(count: int) -> float:
    """Return by what factor a robust mean must cut the variance before it is preferred.

    A bias that few units cannot reveal is only worth risking for a large gain: thirtyfold for weeks of
    a year, threefold for a thousand units, next to nothing for ten thousand.
    """
    return min(30.0, 1 + (1_500 / count) ** 2)


def clusters(log: Log, magnitude: FloatArray) -> tuple[str, IntArray]:
    """Return the smallest unit whose extremes come alone, and the unit of each row, (n,).

    Extremes cluster if the largest 1 % of the steps' magnitudes crowd into few episodes, or the
    largest 5 % of the episodes' into few groups (neighbouring episodes, where no groups are named).
    """
    steps = np.arange(log.n_transitions)
    if log.is_bandit:
        return _grouped(log, magnitude, steps, "step")
    if not _crowded(magnitude, log.episode_of_row, 0.01):
        return "step", steps
    sums = _sums(log.episode_of_row, magnitude, log.n_episodes)
    return _grouped(log, sums, log.episode_of_row, "episode")


def _grouped(
    log: Log, magnitude: FloatArray, fallback: IntArray, name: str
) -> tuple[str, IntArray]:
    size = max(2, log.n_episodes // 50)
    group = log.group_of_episode if log.group_ids is not None else np.arange(log.n_episodes) // size
    if log.n_episodes >= 20 and _crowded(magnitude, group, 0.05):
        label = "group" if log.group_ids is not None else f"block of {size} episodes"
        return label, group[log.episode_of_row]
    return name, fallback


def _crowded(magnitude: FloatArray, unit: IntArray, share: float) -> bool:
    """Return whether the largest magnitudes crowd into few units more than chance allows.

    By Pearson's statistic of their counts, with its variance for Poisson counts of mean m, 2 + 1/m.
    """
    size = np.bincount(unit)
    if len(size) < 5 or share * len(magnitude) < 5:
        return False
    extreme = magnitude > np.quantile(magnitude, 1 - share)
    found = np.bincount(unit, weights=extreme, minlength=len(size))
    expected = np.maximum(size * extreme.mean(), 1e-12)
    excess = ((found - expected) ** 2 / expected).sum() - len(size)
    return bool(excess > _CLUSTERED * np.sqrt((2 + 1 / expected).sum()))


def _sums(unit: IntArray, values: FloatArray, count: int) -> FloatArray:
    """Return the sums of values (n,) or (n, d) over units, (U,) or (U, d)."""
    if count == len(values):
        return values
    if values.ndim == 1:
        return np.asarray(np.bincount(unit, weights=values, minlength=count), dtype=float)
    return np.stack(
        [np.bincount(unit, weights=column, minlength=count) for column in values.T], axis=1
    )


def _nuisance(
    unit: IntArray, count: int, phi: FloatArray, weights: FloatArray, fit: Regression
) -> Nuisance:
    """Return how samples react to the regression's β, and β to samples; see `huber_estimates`."""
    n = len(phi)
    if count == n:  # steps: sums of one would only copy the features, twice
        return Nuisance(phi, weights, phi, fit.scores, fit.inverse)
    scale = np.full(count, count / n)
    falls = _sums(unit, weights[:, None] * phi, count)
    responses = _sums(unit, fit.scores[:, None] * phi, count)
    return Nuisance(falls, scale, responses, scale, fit.inverse)
