"""The default: fit once, look at tail, skew and clustering of the rewards, and choose the mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tailproof.algorithms.base import Numbers
from tailproof.algorithms.choice import Choice
from tailproof.algorithms.huber import Regression, huber_regression
from tailproof.algorithms.linear import solve
from tailproof.algorithms.lstd import LSTD
from tailproof.algorithms.mis import marginal_weights
from tailproof.algorithms.one_step.estimator import one_step_numbers
from tailproof.algorithms.one_step.rows import is_one_step
from tailproof.algorithms.residuals import bellman_residuals
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, IntArray
from tailproof.critics import LinearCritics
from tailproof.features import Features
from tailproof.lepski import Nuisance, Path, huber_estimates
from tailproof.log import Log
from tailproof.means import adaptive_huber, catoni, median_of_means
from tailproof.partition import Folds

SKEWED = 16.0  # squared differences on the path beyond this are no accident of symmetric samples
UNSURE = 6.0  # beyond this, symmetry is in doubt in logs that cannot settle it
_SETTLING = 4_000  # units in which a side that is 30 % wider than the other shows beyond SKEWED
CAUTION = 3.0  # standard errors by which estimates may differ before one counts as biased
_ENOUGH = 200_000  # residuals that settle symmetry beyond doubt
_CLUSTERED = 5.0  # standard errors of the count of extremes, beyond chance
_LOPSIDED = 0.1  # Σx³/(Σx²)^{3/2}: beyond this the normal law is too far away for an interval
_WIDENING = 3.0  # below it, intervals are widened by this times Σx³/(Σx²)^{3/2}


@dataclass(frozen=True, kw_only=True)
class Auto:
    """Pooled weights, a robust regression of the reward, and a mean chosen by what the log shows.

    With the weights w of `MIS`, Ĵ = mean(w r̃) + mean(w (r − r̃)), where r̃ is a Huber regression of the
    reward on φ: whatever it misses, the second mean restores. That mean is taken over steps, or over
    sums of episodes or groups where extremes come in clusters. If the residuals are symmetric, as far
    as the log can tell, by the Huber threshold of least estimated risk (`lepski`); if they are skewed,
    by the adaptive Huber mean, or the plain one where even that is biased.

    Parameters
    ----------
    features, ridge
        As in `LSTD`.
    """

    works_on_samples: ClassVar[bool] = True

    features: Features | None = None
    ridge: Any = 1e-6

    def __post_init__(self) -> None:
        LSTD(ridge=self.ridge)

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold, with reasons."""
        if is_one_step(task):
            return one_step_numbers(task, folds, rng=rng)
        lstd = LSTD(features=self.features, ridge=self.ridge)
        design = lstd.design(task, folds, keep=True)
        matrix, stats = lstd.system(design, rng=rng)
        weights = marginal_weights(design, matrix)
        choices, samples = [], []
        for k in range(folds.count):
            own = task if folds.count == 1 else _on(task, folds.log(task.log, k))
            if not np.isfinite(weights[k]).all():
                return Numbers(np.full(folds.count, np.nan))
            phi = design.features(own.log.states, own.log.actions)
            fit = huber_regression(phi, own.log.rewards)
            theta = solve(matrix[k : k + 1], (stats.gram[k] @ fit.beta)[None, :, None])[..., 0]
            critic = LinearCritics(design.features, theta, np.zeros(1, dtype=bool))
            choices.append(_choose(own, phi, weights[k], fit, critic, rng))
            samples.append(weights[k] * own.log.rewards)
        values = np.array([choice.value for choice in choices])
        return Numbers(values, tuple(samples), tuple(weights), choice=choices[0])


def _on(task: Task, log: Log) -> Task:
    return Task(log, task.gamma, task.policy, task.initial_states, task.draws, task.seed)


def _choose(
    task: Task,
    phi: FloatArray,
    weights: FloatArray,
    fit: Regression,
    critic: LinearCritics,
    rng: np.random.Generator,
) -> Choice:
    log, n = task.log, task.log.n_transitions
    smooth = log.rewards - fit.residuals
    base = float(np.mean(weights * smooth))
    name, unit = clusters(log, np.abs(fit.residuals))
    count = int(unit.max()) + 1
    samples = _sums(unit, weights * fit.residuals, count) * count / n
    transition = bellman_residuals(critic, _on(task, log.with_rewards(smooth)))
    path = huber_estimates(
        samples,
        nuisance=_nuisance(unit, count, phi, weights, fit),
        common=_sums(unit, weights * transition, count) * count / n,
    )
    # the residuals without weights are the same for every policy, and so is what they decide
    residuals = _sums(unit, fit.residuals, count)
    unweighted = huber_estimates(residuals[:: max(1, count // _ENOUGH)])
    asymmetry = max(path.asymmetry(), unweighted.asymmetry())
    skewed = asymmetry > SKEWED
    adaptive = adaptive_huber(samples)
    plain = float(path.estimates[-1])
    if skewed:
        nearest = int(np.abs(path.estimates - adaptive).argmin())
        gap = np.sqrt(path.differences[nearest, -1])
        keep_all = abs(adaptive - plain) > CAUTION * gap + 1e-12
        chosen, mean = len(path.estimates) - 1, plain if keep_all else adaptive
        how = "plain mean" if keep_all else "adaptive Huber mean"
    else:
        chosen = path.choose(CAUTION)
        sturdy = unweighted.variances[unweighted.choose(CAUTION)]
        if unweighted.variances[-1] < _worth(count) * sturdy:
            chosen = len(path.estimates) - 1
        mean = float(path.estimates[chosen])
        how = "plain mean" if chosen == len(path.estimates) - 1 else "Huber mean"
    # small weights may hide how lopsided the residuals are, and other weights show it
    lopsided = max(_lopsided(samples), _lopsided(residuals)) if skewed else 0.0
    start = critic.values(*_first_points(task))[0]
    value = base + mean
    error = np.sqrt(path.variances[chosen] + start.var() / len(start))
    return Choice(
        value=value,
        estimator=how,
        unit=name,
        units=count,
        asymmetry=asymmetry,
        skewed=skewed,
        standard_error=float(error),
        plain_error=float(np.sqrt(path.variances[-1])),
        widening=1 + _WIDENING * lopsided,
        declined=_why_not(path, chosen, asymmetry, skewed, lopsided, count),
        alternatives={
            "plain LSTD": base + plain,
            "adaptive Huber": base + adaptive,
            "Catoni": base + catoni(samples),
            "median of 20 means": base + median_of_means(samples, blocks=min(20, count), rng=rng),
            "Huber regression": base,
        },
    )


def _lopsided(samples: FloatArray) -> float:
    """Return |Σx³| / (Σx²)^{3/2} of the centred samples: near 0 where no few of them decide."""
    centred = samples - samples.mean()
    spread = float((centred**2).sum())
    return abs(float((centred**3).sum())) / spread**1.5 if spread > 0 else 0.0


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
    if count == n:  # steps: made piece by piece, for the whole would be twice the features again
        return lambda rows: (
            weights[rows, None] * phi[rows],
            (fit.scores[rows, None] * phi[rows]) @ fit.inverse,
        )
    falls = _sums(unit, weights[:, None] * phi, count) * count / n
    response = _sums(unit, fit.scores[:, None] * phi, count) @ fit.inverse * count / n
    return lambda rows: (falls[rows], response[rows])


def _first_points(task: Task) -> tuple[FloatArray, Any]:
    points = task.initial_points()
    return points.states, points.actions


def _why_not(
    path: Path, chosen: int, asymmetry: float, skewed: bool, lopsided: float, count: int
) -> str | None:
    """Return why no interval is honest here, or None."""
    if count < 10:
        return f"there are only {count} independent units; at least 10 are needed"
    if lopsided > _LOPSIDED:
        return (
            "the rewards are skewed and a few of them decide their mean; about "
            f"{count * (lopsided / _LOPSIDED) ** 2:,.0f} units would be needed"
        )
    matters = path.variances[-1] > 2 * path.variances[chosen]
    if not skewed and count < _SETTLING and asymmetry > UNSURE and matters:
        return "the tails are heavy and the log is too small to tell whether they are symmetric"
    return None
