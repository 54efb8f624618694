"""From a log and folds to trained critics: the steps that every deep base with critics shares."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tailproof.algorithms.task import Task
from tailproof.data.partition import Folds
from tailproof.deep.bases import TrainsCritics
from tailproof.deep.convergence import warn_unless_converged
from tailproof.deep.critics import NeuralCritics
from tailproof.deep.data import Scaling
from tailproof.deep.extraction import DeepFitted
from tailproof.deep.group import MemberGroup, value_limits
from tailproof.deep.history import History
from tailproof.deep.networks import concatenate
from tailproof.deep.train import train
from tailproof.engines import Local
from tailproof.ensemble.aggregate import Aggregate
from tailproof.errors import EngineWarning, MethodError


def member_seeds(count: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Return a seed for each member; the first k do not depend on how many follow."""
    return tuple(int(seed) for seed in rng.integers(2**62, size=count))


def fit_critics(
    settings: TrainsCritics,
    task: Task,
    folds: Folds,
    *,
    backup: Aggregate | None,
    seeds: Sequence[int],
) -> DeepFitted:
    """Train the critics of every fold, and the policy where it is trained with them.

    The members are dealt to the workers and put together again in order.
    """
    settings, extra = settings.learner().prepare(settings, task)
    scaling = Scaling.of(
        task.log, standardise=settings.standardise, reward_scale=settings.reward_scale
    )
    limits = value_limits(task.log, folds, task.gamma, scaling.reward_scale)
    workers = 1 if settings.always_meet else min(settings.run.workers, folds.count)
    if workers > 1 and backup is not None:
        raise MethodError(
            f"Members that meet in the backup train in one process. Got workers={workers} with "
            f"at='backup'; use workers=1."
        )
    groups = [
        MemberGroup(
            task.log,
            task.gamma,
            folds.subset(chosen),
            tuple(seeds[k] for k in chosen),
            scaling,
            settings if workers == 1 else _quiet(settings, place),
            backup,
            limits[chosen],
            extra,
        )
        for place, chosen in enumerate(np.array_split(np.arange(folds.count), workers))
    ]
    found = _trained(groups, settings, task)
    warn_unless_converged(found.training, settings, task.log, task.gamma)
    return found


def _trained(groups: Sequence[MemberGroup], settings: TrainsCritics, task: Task) -> DeepFitted:
    """Train the groups where the run or the task says, in processes of this machine by default."""
    threads = isinstance(task.engine, Local) and task.engine.kind == "threads"
    given = settings.run.engine or (None if threads else task.engine)
    if len(groups) == 1:
        idle = given is not None or getattr(task.engine, "workers", 1) > 1
        if idle and not settings.always_meet:
            warnings.warn(
                f"{type(settings).__name__} trains all its members in one task, so the engine has "
                f"nothing to share out. Pass run=Run(workers=...) to deal the members to workers.",
                EngineWarning,
                stacklevel=2,
            )
        return _train(groups[0])
    if given is not None:
        return _join(given.map(_train, groups))
    with Local(workers=len(groups), kind="processes") as engine:
        return _join(engine.map(_train, groups))


def _quiet(settings: TrainsCritics, place: int) -> TrainsCritics:
    """Return the settings of one worker of several: its own checkpoints, no bar, no loggers."""
    run = settings.run
    quiet = replace(
        run,
        checkpoint=None if run.checkpoint is None else f"{run.checkpoint}/worker-{place}",
        threads=run.threads or 1,
        progress=False,
        loggers=(),
        workers=1,
        engine=None,
    )
    return replace(settings, run=quiet)


def _train(group: MemberGroup) -> DeepFitted:
    settings = group.settings
    learner = settings.learner()(group)
    training = train(
        learner,
        settings.steps,
        phase="critics",
        run=settings.run,
        fingerprint=group.fingerprint,
        stop=settings.stop,
    )
    empty = np.empty((0, learner.members))
    losses = training["q loss"].values if "q loss" in training else empty
    policy = next(iter(learner.policies()), None)
    return DeepFitted(learner.critics(), losses, training=training, policy=policy)


def _join(results: Sequence[DeepFitted]) -> DeepFitted:
    found: list[Any] = [result.critics for result in results]
    twins = range(found[0].twins)
    q = concatenate(
        [
            each.q.members(range(twin * each.count, (twin + 1) * each.count))
            for twin in twins
            for each in found
        ]
    )
    v = None if found[0].v is None else concatenate([each.v for each in found])
    alive = np.concatenate([each.alive for each in found])
    training = History()
    for place, result in enumerate(results):
        training = training.joined(result.training, prefix=f"worker {place}: ")
    return DeepFitted(
        NeuralCritics(q, v, len(twins), found[0].scaling, alive),
        np.concatenate([result.history for result in results], axis=1),
        training=training,
    )
