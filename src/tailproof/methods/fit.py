"""The loop over folds: check, seed, partition, fit, and detect failed folds."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from numbers import Real

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
from tailproof.estimators.pieces import scores_in_pieces
from tailproof.estimators.sequential import Auto
from tailproof.log.budget import sample_to_budget
from tailproof.log.folds import Folds
from tailproof.log.horizon import time_limit, unknown_rest
from tailproof.log.log import Log
from tailproof.methods.method import Method
from tailproof.profile.profile import LogProfile
from tailproof.robust.means import Cap


@dataclass(frozen=True)
class Members:
    """The folds, and the critics or values that the K members fitted to them."""

    folds: Folds
    fitted: Fitted | None
    numbers: Numbers | None


def check_gamma(gamma: float | None, log: Log) -> float:
    """Return the discount; raise if it is not valid for this log."""
    if gamma is None:
        if log.is_bandit:
            return 0.0
        raise TailproofError(
            "gamma, the discount, must be given for logs of more than one step an episode: "
            "for instance gamma=0.99, or gamma=1.0 when every episode terminates."
        )
    if not isinstance(gamma, Real) or isinstance(gamma, bool) or not 0 <= gamma <= 1:  # nor NaN
        raise TailproofError(
            f"gamma must be a number in [0, 1]. Got {gamma!r} instead.", argument="gamma"
        )
    if gamma == 1 and not log.always_terminates:
        ends = log.ends
        raise LogError(
            f"gamma=1 needs every episode to terminate. {int((~ends).sum())} of {log.n_episodes} "
            f"episodes do not; mark the last row of ended episodes as terminated, or use gamma < 1."
        )
    # nothing follows a single step that ends for good: one value, whatever was passed
    return 0.0 if log.is_bandit and log.always_terminates else float(gamma)


def require_known_rest(log: Log, gamma: float) -> None:
    """Raise if the log does not tell what follows where most episodes were cut off."""
    unknown = unknown_rest(log, gamma)
    if unknown is not None:
        raise LogError(
            f"{unknown}. If episodes end there for good, say so with terminated=True; if each goes on "
            f"in the next, name longer episodes; or leave that column out of the state."
        )


def prepare(log: Log, method: Method, *, seed: int = 0) -> Log:
    """Return the log for the method, with rewards clipped by `clip`.

    Bases that need more memory than the budget of the log get a sample, drawn with the seed.
    """
    if not isinstance(log, Log):
        raise LogError(
            f"log must be a tailproof.Log; build one with Log.from_arrays or read_log. "
            f"Got {type(log).__name__} instead."
        )
    in_pieces = isinstance(method.base, Auto) and scores_in_pieces(log)
    if method.base.capabilities.needs == "memory" and not in_pieces:
        size = getattr(getattr(method.base, "features", None), "size", None)
        log = sample_to_budget(log, type(method.base).__name__, features=size, seed=seed)
    if not method.clip:
        return log
    if isinstance(method.clip, str):
        return log.with_rewards(cap_for(method.clip, log).capped(log.rewards))
    return winsorised(log, method.clip)


def winsorised(log: Log, share: float) -> Log:
    """Return the log with this share of the rewards on each side clipped to the nearest other one."""
    low, high = np.quantile(log.rewards, [share, 1 - share])
    return log.with_rewards(np.clip(log.rewards, low, high))


def cap_for(clip: str, log: Log) -> Cap:
    """Return the cap of a text, which is about costs where the rewards are their negatives."""
    cap = Cap.named(clip)
    return cap.mirrored if log.reward_name.startswith("minus ") else cap


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
    with np.errstate(over="ignore", invalid="ignore"):
        if isinstance(method.base, CriticAlgorithm):
            backup = method.aggregate if method.at == "backup" else None
            fitted = method.base.fit(task, folds, backup=backup, rng=fit_rng)
            return Members(folds, fitted, None)
        return Members(folds, None, method.base.estimate(task, folds, rng=fit_rng))


def require_healthy(healthy: BoolArray, values: FloatArray, log: Log, folds: Folds) -> None:
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


def warn_of_the_log(profile: LogProfile, gamma: float, *, adds_columns: bool = False) -> None:
    """Warn of ends by the clock, and of what is wrong with the log, before a policy is learned.

    `adds_columns`: whether it is judged by critics that see the columns the log calls for.
    """
    warn_of_a_hidden_horizon(profile, gamma)
    hidden = profile.hidden_state(seen=adds_columns) if gamma > 0 else ()
    for each in (*profile.cautions, *hidden):
        warnings.warn(str(each), each.category, stacklevel=4)


def _some_episodes(log: Log, folds: Folds, member: int) -> str:
    ids = log.episode_ids[np.flatnonzero(folds.counts[member])]
    return f"episodes {', '.join(map(str, ids[:3]))}{', …' if len(ids) > 3 else ''}"
