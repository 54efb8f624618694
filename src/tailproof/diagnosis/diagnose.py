"""Diagnosis: the properties of a log that decide how far its estimates can be trusted."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.data.given import LogSource, as_log
from tailproof.data.log import Log
from tailproof.data.stored import sample_to_budget
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.diagnosis.evidence import (
    Clustering,
    TailReport,
    bellman_monitor,
    clustering,
    fold_disagreement,
    fold_path,
    overlap,
    tail_report,
)
from tailproof.diagnosis.influence import most_influential
from tailproof.diagnosis.reference import (
    LinearReference,
    MeanReference,
    Reference,
    linear_reference,
    reference,
    resolve,
)
from tailproof.diagnosis.verdict import decide
from tailproof.errors import FoldError, LogError, SingularError, TailproofWarning
from tailproof.evaluation.estimate import Estimate
from tailproof.evaluation.evaluate import evaluate
from tailproof.judgement.shape import RewardShape, reward_shape
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.fit import warn_of_a_hidden_horizon
from tailproof.methods.method import Method
from tailproof.parameters import seed_of
from tailproof.policies.naming import Policy
from tailproof.policies.text import policy_columns


def diagnose(
    log: LogSource,
    policy: Policy | None = None,
    *,
    gamma: float | None = None,
    method: str | Method | None = None,
    estimate: Estimate | None = None,
    seed: int | None = None,
    random_state: int | None = None,
    **columns: Any,
) -> Diagnosis:
    """Explain the decisions of `evaluate` on a log, with evidence and the most influential episodes.

    The verdict is that of `evaluate` with the default method, on the same evidence: tails, skew and
    unit, the chosen estimator, and the interval or why there is none. Further evidence: indices of both
    tails with intervals, whether mean and variance exist, the K-path, clustering of extremes; with a
    policy also weights, overlap and Bellman residuals; the disagreement of folds, and the ten episodes
    with the largest influence on the plain estimate. That is LSTD, inverse propensity scoring in
    one-step logs with propensities, or without a policy the mean return of the log.

    Parameters
    ----------
    log
        The logged transitions, with episodes in time order, because neighbours are compared. A log on
        disk is loaded if its budget allows; otherwise runs of neighbouring episodes (or groups) are
        sampled with the seed, and a warning and a note say how many.
    policy
        The policy to evaluate, as in `evaluate`; without one, the logged returns are diagnosed.
    gamma
        The discount. Required with a policy, except for one-step episodes; 1 by default without one.
    method
        The method whose features are used for verdict and plain estimate, and its ridge for the latter.
    estimate
        The result of `evaluate` for the same log and policy, if it exists already.
    seed
        Seeds the partitions into folds.
    random_state
        Another name for `seed`, as in scikit-learn.
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
    >>> diagnosis.verdict.tails, diagnosis.verdict.estimator, diagnosis.verdict.unit
    ('heavy', 'Huber mean', 'step')
    """
    log = as_log(log, columns, diagnose, beside=policy_columns([policy]))
    seed = seed_of(seed, random_state)
    with _noted() as told:
        log = sample_to_budget(log, "The diagnosis", seed=seed)
    discount, chosen = resolve(log, policy, gamma=gamma, method=method)
    with _noted() as unforeseen:
        warn_of_a_hidden_horizon(log, discount)
    for each in (*told, *unforeseen):
        warnings.warn(each.message, stacklevel=2)
    diagnosis = _diagnosis(log, policy, chosen, discount, seed, estimate)
    said = dict.fromkeys(str(each.message) for each in (*told, *unforeseen))
    return replace(diagnosis, notes=tuple(dict.fromkeys((*said, *diagnosis.notes))))


def _diagnosis(
    log: Log,
    policy: Policy | None,
    chosen: Method | None,
    discount: float,
    seed: int,
    estimate: Estimate | None,
) -> Diagnosis:
    features = getattr(None if chosen is None else chosen.base, "features", None)
    settings = {} if features is None else {"features": features}
    with _noted() as found:
        estimate, failed = _evaluated(log, policy, estimate, settings, discount, seed)
        plain = reference(log, policy, gamma=discount, method=chosen, seed=seed)
        critic = plain if isinstance(plain, LinearReference) else None
        if critic is None and policy is not None:
            critic = linear_reference(log, policy, gamma=discount, method=chosen, seed=seed)
    choice = None if estimate is None else estimate.choice
    once, first = log.once, np.unique(log.copy_of)  # weights repeat episodes, which makes no tails
    rows = np.flatnonzero(np.isin(log.episode_of_row, first))
    shape = (getattr(choice, "shape", None) if once is log else None) or reward_shape(once)
    weights = _weights(log, getattr(choice, "weights", None), plain)
    covered = None
    if critic is not None and estimate is not None and weights is not None:
        covered = overlap(weights, critic, estimate.on_log)
    steps = once.rewards if weights is None else weights[rows] * once.rewards
    clusters = clustering(once, steps)
    residuals = None if critic is None else critic.residuals[rows]
    sums = plain.terms[first] if isinstance(plain, MeanReference) else None
    tails = _tails(_samples(once, sums, residuals, plain.weights, steps, shape), clusters)
    folds = max(min(10, log.n_groups // 2), 1)
    influence = most_influential(plain, top=10, folds=folds, seed=seed)
    heavier = [each.heavier.alpha for each in tails.values() if each.heavier is not None]
    verdict = decide(
        once,
        shape,
        estimate,
        settings=settings,
        overlap=covered,
        influence=influence,
        heaviest=min(heavier, default=None),
        failed=failed,
    )
    return Diagnosis(
        transitions=once.n_transitions,
        episodes=once.n_episodes,
        groups=None if once.group_ids is None else once.n_groups,
        gamma=discount,
        with_policy=policy is not None,
        tails=tails,
        clustering=clusters,
        overlap=covered,
        residuals=None if residuals is None else bellman_monitor(once, residuals),
        k_path=fold_path(plain, seed),
        folds=fold_disagreement(plain, folds) if folds > 1 else None,
        influence=influence,
        verdict=verdict,
        notes=tuple(dict.fromkeys(str(each.message) for each in found)),
        weights=weights,
    )


def _tails(samples: dict[str, FloatArray], clusters: Clustering) -> dict[str, TailReport]:
    """Return the tails of each sample; those of single rows may come in clusters."""
    theta = clusters.within.theta if clusters.within and clusters.in_episodes else 1.0
    rows = len(samples["rewards"])
    return {
        name: tail_report(name, values, theta=theta if len(values) == rows else 1.0)
        for name, values in samples.items()
    }


def _weights(log: Log, own: FloatArray | None, plain: Reference) -> FloatArray | None:
    """Return the row weights of `evaluate`, or else those of the plain estimate."""
    return own if own is not None and len(own) == log.n_transitions else plain.weights


def _evaluated(
    log: Log,
    policy: Any,
    known: Estimate | None,
    settings: dict[str, Any],
    gamma: float,
    seed: int,
) -> tuple[Estimate | None, str | None]:
    """Return the estimate to explain, or the reason why there is none."""
    if policy is None or known is not None:
        return known, None
    try:
        default = named_method("auto", **settings)
        return evaluate(log, policy, method=default, gamma=gamma, seed=seed), None
    except (FoldError, LogError, SingularError) as error:
        return None, str(error)


@contextmanager
def _noted() -> Iterator[list[warnings.WarningMessage]]:
    """Collect tailproof's warnings, which become notes of the diagnosis; pass on all others."""
    notes: list[warnings.WarningMessage] = []
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield notes
    for each in caught:
        if issubclass(each.category, TailproofWarning):
            notes.append(each)
        else:
            warnings.warn_explicit(each.message, each.category, each.filename, each.lineno)


def _samples(
    log: Log,
    terms: FloatArray | None,
    residuals: FloatArray | None,
    weights: FloatArray | None,
    steps: FloatArray,
    shape: RewardShape,
) -> dict[str, FloatArray]:
    """Return samples by name: rewards, weighted rewards, sums over units, Bellman residuals.

    `terms` are the returns of the episodes of a plain mean, (E,).
    """
    samples = {"rewards": log.rewards}
    if terms is not None and weights is None:
        sums = terms
        if not log.is_bandit:
            samples["returns"] = sums
    else:
        samples["weighted rewards"], sums = steps, np.add.reduceat(steps, log.starts[:-1])
        if shape.unit == "episode":
            samples["weighted sums by episode"] = sums
    if shape.unit == "group":
        samples["sums by group"] = np.bincount(log.group_of_episode, sums).astype(float)
    if residuals is not None:
        samples["residuals" if log.is_bandit else "Bellman residuals"] = residuals
    return samples
