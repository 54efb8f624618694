"""Diagnosis: what to know about a log before any number from it is trusted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from tailproof.algorithms.mis import Unit
from tailproof.arrays import FloatArray
from tailproof.data.given import as_log
from tailproof.data.log import Log
from tailproof.data.stored import LazyLog
from tailproof.data.stored_views import SampleWarning, held
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.diagnosis.measurements import (
    bellman_monitor,
    clustering,
    differing,
    fold_disagreement,
    fold_path,
    outlying_groups,
    overlap,
    tail_report,
)
from tailproof.diagnosis.verdict import decide, unit_for
from tailproof.errors import HorizonWarning, TailproofWarning
from tailproof.judgement.influence import most_influential
from tailproof.judgement.linear_reference import LinearReference, features_for
from tailproof.judgement.reference import (
    MeanReference,
    Reference,
    linear_reference,
    reference,
    resolve,
)
from tailproof.methods.fit import warn_of_a_hidden_horizon
from tailproof.methods.method import Method


def diagnose(
    log: Any,
    policy: Any = None,
    *,
    gamma: float | None = None,
    method: str | Method | None = None,
    seed: int = 0,
    **columns: Any,
) -> Diagnosis:
    """Say how heavy a log's tails are, who decides the estimate, and which method is safe.

    Tail indices of both tails with intervals, whether mean and variance exist, skew, the K-path,
    clustering of extremes; with a policy also weights, overlap and Bellman residuals; the
    disagreement of folds, the ten episodes that move the estimate most, and a verdict
    (`tailproof.diagnosis.verdict` has its rules).

    The estimate that is taken apart is the plain average: LSTD, inverse propensity scoring in
    one-step logs with propensities, and without a policy the mean return of the log.

    Parameters
    ----------
    log
        The logged transitions, episodes in time order: neighbours are compared. A log on disk is
        loaded if its budget allows; beyond it, runs of neighbouring episodes (or groups) are drawn
        with the seed, and a warning and a note say how many.
    policy
        Whom to evaluate, as in `evaluate`; without one, what was logged is diagnosed.
    gamma
        The discount. Needed with a policy, but for one-step episodes; 1 without one.
    method
        Whose features and ridge to use; by default those of `LSTD`, and for continuous actions
        `Joint` features.
    seed
        Seeds the partitions into folds.
    columns
        Where `log` is a frame, a file or another source of a log: how to read it, as in `read_log`
        (``action="offer", reward="spend", state=["age", "shop"]``).

    Examples
    --------
    >>> from tailproof.diagnosis.diagnose import diagnose
    >>> from tailproof.noise import StudentT
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> log = world.log(episodes=60, noise=StudentT(df=1.5), seed=1)
    >>> diagnosis = diagnose(log, world.target(), gamma=0.99)
    >>> diagnosis.tails["rewards"].variance.exists
    'no'
    >>> diagnosis.verdict.method, diagnosis.verdict.unit
    ('mis', 'step')
    """
    log = as_log(log, columns, diagnose)
    with _noted() as drawn:
        log = held(log, "The diagnosis", seed=seed) if isinstance(log, LazyLog) else log
    for note in drawn:
        warnings.warn(note, SampleWarning, stacklevel=2)
    discount, chosen = resolve(log, policy, gamma=gamma, method=method)
    with _noted() as unforeseen:
        warn_of_a_hidden_horizon(log, discount)
    for note in unforeseen:
        warnings.warn(note, HorizonWarning, stacklevel=2)
    critic: LinearReference | None = None
    with _noted() as notes:
        estimate = reference(log, policy, gamma=discount, method=chosen, seed=seed)
        if isinstance(estimate, LinearReference):
            critic = estimate
        elif policy is not None:
            critic = linear_reference(log, policy, gamma=discount, method=chosen, seed=seed)
    notes[:0] = drawn + unforeseen
    covered = None if critic is None else overlap(estimate, critic)
    if not log.is_discrete and getattr(getattr(chosen, "base", None), "features", None) is None:
        notes.append("No features were given for continuous actions: Joint features are used.")
    steps = log.rewards if estimate.weights is None else estimate.weights * log.rewards
    clusters = clustering(log, steps)
    unit, unit_reason = unit_for(log, clusters)
    theta = clusters.within.theta if clusters.within and clusters.in_episodes else 1.0
    samples = _samples(log, estimate, steps, unit)
    decisive = {
        name: tail_report(name, values, theta=theta if len(values) == len(steps) else 1.0)
        for name, values in samples.items()
    }
    tails = {name: decisive[name] for name in sorted(decisive, key=lambda each: each != "rewards")}
    if critic is not None:
        tails = {"rewards": tail_report("rewards", log.rewards, theta=theta), **tails}
        tails["Bellman residuals"] = tail_report("Bellman residuals", critic.residuals, theta=theta)
    path = fold_path(estimate, seed)
    folds = max(min(10, log.n_groups // 2), 1)
    influence = most_influential(estimate, top=10, folds=folds, seed=seed)
    verdict = decide(
        log,
        unit=unit,
        unit_reason=unit_reason,
        tails=tuple(decisive.values()),
        clustering=clusters,
        overlap=covered,
        k_path=path,
        influence=influence,
        outlying=outlying_groups(estimate),
        differing=differing(list(samples.values())[-1]),
        settings=_settings(log, chosen),
    )
    return Diagnosis(
        transitions=log.n_transitions,
        episodes=log.n_episodes,
        groups=None if log.group_ids is None else log.n_groups,
        gamma=discount,
        with_policy=policy is not None,
        tails=tails,
        clustering=clusters,
        overlap=covered,
        residuals=None if critic is None else bellman_monitor(log, critic.residuals),
        k_path=path,
        folds=fold_disagreement(estimate, verdict.folds) if verdict.folds > 1 else None,
        influence=influence,
        verdict=verdict,
        notes=tuple(notes),
    )


@contextmanager
def _noted() -> Iterator[list[str]]:
    """Collect our own warnings as notes: in a diagnosis they are findings. Pass on all others."""
    notes: list[str] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    for warning in caught:
        if issubclass(warning.category, TailproofWarning):
            notes.append(str(warning.message))
        else:
            warnings.warn_explicit(
                warning.message, warning.category, warning.filename, warning.lineno
            )


def _samples(log: Log, estimate: Reference, steps: FloatArray, unit: Unit) -> dict[str, FloatArray]:
    """Return the samples that the estimate averages, by step and by sums; those of the unit last."""
    if estimate.weights is not None:
        samples = {"weighted rewards": steps}
        sums = np.add.reduceat(steps, log.starts[:-1])
        if unit == "episode":
            samples["weighted sums by episode"] = sums
    else:
        assert isinstance(estimate, MeanReference)
        samples, sums = {"rewards": steps}, estimate.terms
        if not log.is_bandit:
            returns = {"returns": sums}
            samples = {**returns, **samples} if unit == "step" else {**samples, **returns}
    if unit == "group":
        samples["sums by group"] = np.bincount(log.group_of_episode, sums).astype(float)
    return samples


def _settings(log: Log, method: Method | None) -> dict[str, Any]:
    """Return the features and the ridge that the recommended method should use as well."""
    base = None if method is None else method.base
    settings = {
        name: getattr(base, name)
        for name in ("features", "ridge")
        if getattr(base, name, None) is not None
    }
    if not log.is_discrete and "features" not in settings:
        settings["features"] = features_for(log)
    return settings
