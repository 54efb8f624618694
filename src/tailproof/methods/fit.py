"""The loop over folds: check, seed, partition, fit, and detect failed folds."""

from __future__ import annotations

import operator
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial, reduce
from typing import Any

import numpy as np

from tailproof.arrays import BoolArray, FloatArray
from tailproof.critics.base import CriticAlgorithm, Fitted, Numbers
from tailproof.critics.task import Task
from tailproof.errors import (
    FoldError,
    FoldWarning,
    HorizonWarning,
    LogError,
    MethodError,
    TailproofError,
)
from tailproof.log.folds import Folds
from tailproof.log.horizon import time_limit, unknown_rest
from tailproof.log.log import LogView
from tailproof.log.stored import AnyLog, LazyLog, in_memory, sample_to_budget
from tailproof.methods.method import Method
from tailproof.parallel import Engine, Local, one_thread
from tailproof.profile.profile import LogProfile
from tailproof.robust.means import Cap
from tailproof.robust.streaming import Reduction, converse, quantiles


@dataclass(frozen=True)
class Members:
    """The folds, and the critics or values that the K members fitted to them."""

    folds: Folds
    fitted: Fitted | None
    numbers: Numbers | None


def check_gamma(gamma: float | None, log: AnyLog) -> float:
    """Return the discount; raise if it is not valid for this log."""
    if gamma is None:
        if log.is_bandit:
            return 0.0
        raise TailproofError(
            "gamma, the discount, must be given for logs of more than one step an episode: "
            "for instance gamma=0.99, or gamma=1.0 when every episode terminates."
        )
    if not 0 <= gamma <= 1:  # NaN fails too
        raise TailproofError(f"gamma must lie in [0, 1]. Got {gamma!r} instead.")
    if gamma == 1 and not log.always_terminates:
        ends = log.ends
        raise LogError(
            f"gamma=1 needs every episode to terminate. {int((~ends).sum())} of {log.n_episodes} "
            f"episodes do not; mark the last row of ended episodes as terminated, or use gamma < 1."
        )
    # nothing follows a single step that ends for good: one value, whatever was passed
    return 0.0 if log.is_bandit and log.always_terminates else float(gamma)


def require_known_rest(log: AnyLog, gamma: float) -> None:
    """Raise if the log does not tell what follows where most episodes were cut off."""
    unknown = unknown_rest(log, gamma)
    if unknown is not None:
        raise LogError(
            f"{unknown}. If episodes end there for good, say so with terminated=True; if each goes on "
            f"in the next, name longer episodes; or leave that column out of the state."
        )


def prepare(log: AnyLog, method: Method, engine: Engine | None = None, *, seed: int = 0) -> Any:
    """Return the log for the method: loaded into memory if needed, with rewards clipped by `clip`.

    If the log is larger than memory, bases that can work on a sample get one, drawn with the seed.
    """
    if not isinstance(log, LogView):
        raise LogError(
            f"log must be a tailproof.Log; build one with Log.from_arrays or read_log. "
            f"Got {type(log).__name__} instead."
        )
    needs, who = method.base.capabilities.needs, type(method.base).__name__
    if needs == "sample":
        size = getattr(getattr(method.base, "features", None), "size", None)
        log = sample_to_budget(log, who, features=size, seed=seed)
    elif needs == "memory":
        log = in_memory(log, who)
    if not method.clip:
        return log
    if isinstance(method.clip, str):
        log = in_memory(log, f"clip={method.clip!r}")
        return log.with_rewards(Cap.named(method.clip).capped(log.rewards))
    levels = [method.clip, 1 - method.clip]
    if log.stays_on_disk:
        return log.with_reward_limits(*reward_quantiles(log, levels, engine))
    low, high = np.quantile(log.rewards, levels)
    return log.with_rewards(np.clip(log.rewards, low, high))


def reward_quantiles(log: LazyLog, levels: Sequence[float], engine: Engine | None) -> FloatArray:
    """Return quantiles of the rewards, in four passes over their column."""
    within = log.without_parts()

    def ask(questions: list[Reduction | None]) -> list[Any]:
        question = partial(_about_rewards, questions[0])
        return [(engine or Local()).map_reduce(question, log.parts, operator.add, shared=within)]

    return converse([quantiles(levels, log.n_transitions)], ask)[0]


def _about_rewards(question: Any, log: LazyLog, part: Any) -> Any:
    return reduce(operator.add, map(question, log.rewards(part)))


def fit_members(task: Task, method: Method, rng: np.random.Generator) -> Members:
    """Partition the log and fit the base on every fold."""
    if task.policy is not None and not method.base.capabilities.evaluates:
        raise MethodError(
            f"{type(method.base).__name__} looks for a policy and cannot evaluate a given one. "
            f"Evaluate with FQE(), for instance method='roam-dm', or call learn."
        )
    partition_rng, fit_rng = rng.spawn(2)
    folds = method.partition.assign(task.log, partition_rng)
    # overflow is reported by `require_healthy`
    with one_thread(), np.errstate(over="ignore", invalid="ignore"):
        if isinstance(method.base, CriticAlgorithm):
            backup = method.aggregate if method.at == "backup" else None
            fitted = method.base.fit(task, folds, backup=backup, rng=fit_rng)
            return Members(folds, fitted, None)
        return Members(folds, None, method.base.estimate(task, folds, rng=fit_rng))


def require_healthy(healthy: BoolArray, values: FloatArray, log: AnyLog, folds: Folds) -> None:
    """Warn of failed folds, by name; raise if at least half of them failed."""
    bad = np.flatnonzero(~healthy)
    if len(bad) == 0:
        return
    named = ", ".join(
        f"fold {k} ({_some_episodes(log, folds, int(k))}; value {values[k]:g})" for k in bad
    )
    if 2 * len(bad) >= folds.count:
        raise FoldError(
            f"{len(bad)} of {folds.count} folds diverged or are not finite: {named}. Too few are "
            f"left to trust; use a larger ridge, fewer features, a smaller gamma, or fewer folds."
        )
    warnings.warn(
        f"{len(bad)} of {folds.count} folds diverged or are not finite and were left out: {named}.",
        FoldWarning,
        stacklevel=3,
    )


def warn_of_a_hidden_horizon(profile: LogProfile, gamma: float) -> None:
    """Warn if the step tells more about the end of an episode than the state does."""
    if gamma > 0 and profile.ends_by_the_clock:
        said = time_limit(profile.log)
        warnings.warn(
            f"{said[0].upper()}{said[1:]}, and no state column tells the time: how much is still to "
            f"come depends on something that the state does not hold. The default evaluation adds the "
            f"step itself; for other methods, and to learn, add it to the state. Mark the ends as "
            f"truncated, not terminated, if episodes only stop being recorded.",
            HorizonWarning,
            stacklevel=3,
        )


def warn_of_the_log(profile: LogProfile, gamma: float) -> None:
    """Warn of ends by the clock, and of what is wrong with the states, before a policy is learned."""
    warn_of_a_hidden_horizon(profile, gamma)
    for each in profile.misleading_states:
        warnings.warn(str(each), each.category, stacklevel=4)


def _some_episodes(log: AnyLog, folds: Folds, member: int) -> str:
    ids = log.episode_ids[np.flatnonzero(folds.counts[member])]
    return f"episodes {', '.join(map(str, ids[:3]))}{', …' if len(ids) > 3 else ''}"
