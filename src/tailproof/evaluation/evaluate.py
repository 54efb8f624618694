"""Off-policy evaluation: how good would this policy have been?"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy.typing as npt

from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, as_array, require_finite
from tailproof.data.given import LogSource, as_log
from tailproof.data.log import Log
from tailproof.data.marks import warn_of_taught_episodes
from tailproof.data.partition import Split
from tailproof.data.stored import AnyLog
from tailproof.engines import Engine, Local, running
from tailproof.errors import CoverageWarning, StateWarning, TailproofError
from tailproof.evaluation.estimate import Estimate
from tailproof.evaluation.estimation import estimate_of
from tailproof.evaluation.logged import logged_value
from tailproof.judgement.coverage import coverage, too_few_rows
from tailproof.judgement.states import misleading_states
from tailproof.methods.catalogue import as_method
from tailproof.methods.fit import (
    check_gamma,
    prepare,
    require_known_rest,
    warn_of_a_hidden_horizon,
)
from tailproof.methods.method import Method
from tailproof.parameters import one_setting, seed_of
from tailproof.policies.naming import Policy, for_log
from tailproof.policies.text import policy_columns


def evaluate(
    log: LogSource,
    policy: Policy,
    *,
    method: str | Method = "auto",
    gamma: float | None = None,
    initial_states: npt.ArrayLike | None = None,
    seed: int | None = None,
    random_state: int | None = None,
    engine: str | Engine | None = None,
    n_jobs: int | None = None,
    **columns: Any,
) -> Estimate:
    """Estimate J(π) = E[Σ γᵗ rₜ] of a policy from logged data.

    Parameters
    ----------
    log
        The logged transitions, in memory or on disk (`read_log(..., lazy=True)`). The default method
        and others that need all transitions at once load a log that is on disk if its budget allows;
        beyond it, the default works on a sample of episodes and warns, and others refuse.
    policy
        A callable states → actions, an object with ``probabilities(states)``, or, for continuous
        actions, one with ``sample(states, rng)``. Actions are codes 0..A−1, or the log's labels as
        text. Also a column of the log's table (`Column`), an array with one action per row, a rule
        over named columns (`on_frame`), a fitted scikit-learn model, or text as on the command line
        (``"always:email"``, ``"0.1*always:email + 0.9*logged"``). A policy that names its states and
        actions is matched with the log by these names, see `tailproof.policies.naming`; it gets copies
        of the states, which it may change.
    method
        A name of the catalogue (`tailproof methods` lists them), `method(name, ...)` or a `Method`.
    gamma
        The discount. 1 needs every episode to terminate; a log of one-step episodes needs none.
    initial_states
        Where the policy starts, (m, p); by default the first states of the episodes.
    seed
        Seeds the partition and everything else that is drawn.
    random_state
        Another name for `seed`, as in scikit-learn.
    engine
        Where passes over the log run: ``"local"`` for one thread per core, ``"ray"`` for a cluster, or
        an `Engine`; by default the calling thread. It changes the running time, never the
        result.
    n_jobs
        Instead of `engine`: the number of threads, −1 for one per core, as in scikit-learn.
    columns
        Where `log` is a frame, a file or another source of a log: how to read it, as in `read_log`
        (``action="offer", reward="spend", state=["age", "shop"]``).

    Examples
    --------
    >>> from tailproof import evaluate
    >>> from tailproof.noise import StudentT
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> log = world.log(episodes=60, noise=StudentT(df=1.2), seed=1)
    >>> estimate = evaluate(log, world.target(), method="roam-dm", gamma=0.99)
    >>> estimate.fold_values.shape
    (5,)
    """
    log = as_log(log, columns, evaluate, beside=policy_columns([policy]))
    seed = seed_of(seed, random_state)
    chosen = as_method(method)
    with running(one_setting(engine=engine, n_jobs=n_jobs)) as where:
        data = prepare(log, chosen, where, seed=seed)
        discount = check_gamma(gamma, data)
        if chosen.base.capabilities.bootstraps:
            require_known_rest(data, discount)
        if not chosen.base.capabilities.counts_steps:
            warn_of_a_hidden_horizon(data, discount)
        starts = _starts(data, initial_states)
        rows = data.first_rows if initial_states is None and isinstance(data, Log) else None
        acts = for_log(policy, data)
        task = Task(data, discount, acts, starts, seed=seed, engine=where, initial_rows=rows)
        cautions: list[tuple[str, type[Warning]]] = [
            (text, CoverageWarning) for text in coverage(task)
        ]
        cautions += [(text, StateWarning) for text in misleading_states(data)]
        for text, category in cautions:
            warnings.warn(text, category, stacklevel=2)
        warn_of_taught_episodes(acts, data)
        estimate = estimate_of(task, chosen)
    choice = estimate.choice
    extrapolated: tuple[str, ...] = ()
    if choice is not None and choice.declined is None:
        extrapolated = too_few_rows(choice.on_log)
    for text in extrapolated:
        warnings.warn(text, CoverageWarning, stacklevel=2)
    return replace(
        estimate,
        cautions=(*(text for text, _ in cautions), *extrapolated),
        # `on_log` does not need the initial states, so they are not stored with every estimate
        task=replace(task, engine=Local(), initial_states=None, initial_rows=None),
        logged=partial(logged_value, data, gamma=discount, seed=seed),
    )


def k_path(
    log: AnyLog,
    policy: Policy,
    *,
    method: str | Method = "roam-dm",
    folds: Sequence[int] = (1, 3, 5, 9, 15, 21, 31),
    **options: Any,
) -> dict[int, float]:
    """Return the estimate for each number of folds that the log allows.

    A flat path indicates that the folds' distribution is symmetric, so that robustness adds no bias; a
    path that drifts with K indicates that the rewards are skewed and that a large K is biased.

    Parameters
    ----------
    log, policy, method, options
        As in `evaluate`.
    folds
        The numbers of folds to try.
    """
    chosen = as_method(method)
    return {
        count: evaluate(
            log, policy, method=replace(chosen, partition=Split(count)), **options
        ).value
        for count in folds
        if count <= log.n_groups
    }


def _starts(log: AnyLog, initial_states: npt.ArrayLike | None) -> FloatArray | None:
    """Return the initial states; None for a log on disk, where they are found during a pass."""
    if initial_states is None:
        return log.first_states if isinstance(log, Log) else None
    starts = as_array("initial_states", initial_states, TailproofError)
    if starts.dtype.kind not in "fiub":
        raise TailproofError(f"initial_states must be numbers. Got dtype {starts.dtype} instead.")
    starts = starts.astype(float)
    dimension = len(log.state_names)
    if starts.ndim != 2 or starts.shape[1] != dimension or len(starts) == 0:
        raise TailproofError(
            f"initial_states must have the shape (m, {dimension}) with m ≥ 1. "
            f"Got {starts.shape} instead."
        )
    require_finite("initial_states", starts, TailproofError)
    return starts
