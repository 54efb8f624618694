"""The default: climb as far up the ladder of critics as the log calls for, then choose the mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from tailproof.algorithms.base import Numbers
from tailproof.algorithms.choice import Choice
from tailproof.algorithms.climb import Blend, climb, single
from tailproof.algorithms.huber import huber_regression, robust_scale
from tailproof.algorithms.mean_choice import MeanChoice, choose_mean
from tailproof.algorithms.target import Target
from tailproof.algorithms.one_step.estimator import one_step_numbers
from tailproof.algorithms.one_step.rows import is_one_step
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.features import Features, as_features
from tailproof.features.ladder import basis_for
from tailproof.log import Log
from tailproof.partition import Folds


@dataclass(frozen=True, kw_only=True)
class Auto:
    """A critic as rich as the log calls for, and a mean chosen by what the rewards show.

    The critic is a mixture of rungs (`climb`), each linear in the rewards, so that with its weights w
    Ĵ = J(r̃) + mean(w (r − r̃)), where r̃ is a Huber regression of the reward on φ: whatever it misses, the
    second mean restores. That mean is taken over steps, or over sums of episodes or groups where
    extremes come in clusters (`choose_mean`). If the residuals are symmetric, as far as the log can
    tell, by the Huber threshold of least estimated risk (`lepski`); if they are skewed, by the adaptive
    Huber mean, or the plain one where even that is biased.

    Parameters
    ----------
    features
        A feature map, or a name of `tailproof.features.NAMES`, to use instead of the ladder.
    """

    works_on_samples: ClassVar[bool] = True

    features: Features | str | None = None

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold, with reasons."""
        if is_one_step(task):
            return one_step_numbers(task, folds, rng=rng)
        choices, samples, weights = [], [], []
        for k in range(folds.count):
            own = task if folds.count == 1 else _on(task, folds.log(task.log, k))
            choice, blend = evaluate_log(own, self.features, rng)
            choices.append(choice)
            samples.append(blend.weights * own.log.rewards)
            weights.append(blend.weights)
        values = np.array([choice.value for choice in choices])
        return Numbers(values, tuple(samples), tuple(weights), choice=choices[0])


def evaluate_log(
    task: Task, features: Features | str | None, rng: np.random.Generator
) -> tuple[Choice, Blend]:
    """Return the default's answer for one log."""
    target = Target.of(task)
    log = task.log
    # constants are known exactly where nothing ends: rewards are then measured from their middle
    level = float(np.median(log.rewards)) if target.endless else 0.0
    rewards = log.rewards - level
    tamed = tame(log, rewards)
    if features is None:
        blend = climb(target, tamed, seed=task.seed)
    else:
        blend = single(target, as_features(features, log), tamed, seed=task.seed)
    phi = blend.features(log.states, log.actions)
    fit = huber_regression(phi, rewards)
    base, transition, starts = blend.influences(rewards - fit.residuals)
    mean = choose_mean(log, blend.weights, fit, phi, transition, rng=rng)
    offset = level / (1 - task.gamma) if target.endless else 0.0
    return _answer(target, blend, mean, base + offset, starts), blend


def tame(log: Log, rewards: FloatArray) -> FloatArray:
    """Return rewards whose residuals from a robust regression are clipped: to compare critics on."""
    features = basis_for(log)
    fit = huber_regression(features(log.states, log.actions), rewards)
    size = np.abs(fit.residuals)
    scale = robust_scale(fit.residuals)
    limit = max(6 * scale if np.isfinite(scale) else 0.0, float(np.quantile(size, 0.995)))
    clipped: FloatArray = rewards - fit.residuals + np.clip(fit.residuals, -limit, limit)
    return clipped


def _answer(
    target: Target, blend: Blend, mean: MeanChoice, base: float, starts: FloatArray
) -> Choice:
    return Choice(
        value=base + mean.value,
        estimator=mean.how,
        unit=mean.unit,
        units=mean.units,
        asymmetry=mean.asymmetry,
        skewed=mean.skewed,
        standard_error=max(_error(target, mean, starts), blend.error),
        plain_error=mean.plain_error,
        widening=1.0,
        declined=None,
        alternatives={name: base + value for name, value in mean.others.items()},
        allowance=blend.allowance,
        disagreement=blend.disagreement,
        critic=blend.words(),
    )


def _error(target: Target, mean: MeanChoice, starts: FloatArray) -> float:
    """Return the standard error from the influences of units, or of whole groups of them if larger."""
    log = target.log
    singly = float((mean.influence**2).sum()) / mean.units**2 + float(starts.var()) / len(starts)
    group = log.group_of_episode
    of_unit = np.zeros(mean.units, dtype=np.intp)
    of_unit[mean.unit_of_row] = group[log.episode_of_row]
    sums = np.bincount(of_unit, mean.influence, minlength=log.n_groups) / mean.units
    spread = 0.0
    if target.starts_with_episodes:
        centred = (starts - starts.mean()) / len(starts)
        sums += np.bincount(group, centred, minlength=log.n_groups)
    else:
        spread = float(starts.var()) / len(starts)
    together = float((sums**2).sum()) * log.n_groups / max(log.n_groups - 1, 1) + spread
    return float(np.sqrt(max(singly, together)))


def _on(task: Task, log: Log) -> Task:
    return Task(log, task.gamma, task.policy, task.initial_states, task.draws, task.seed)
