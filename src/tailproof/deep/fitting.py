"""From a log and folds to trained critics and policies: the steps that every deep base shares."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.data.partition import Folds
from tailproof.deep.actor_critic import ActorCriticLearner
from tailproof.deep.actors import Actor
from tailproof.deep.checkpoint import fingerprint
from tailproof.deep.convergence import horizon_of, warn_unless_converged
from tailproof.deep.critics import NeuralCritics, NeuralPolicy, split_policies
from tailproof.deep.data import (
    Draws,
    Normals,
    Scaling,
    Table,
    member_rows,
    shares_draws,
    value_bounds,
    value_limits,
)
from tailproof.deep.extraction import DeepFitted, player
from tailproof.deep.history import History
from tailproof.deep.implicit import ImplicitLearner
from tailproof.deep.measuring import Part, measure, watched
from tailproof.deep.networks import Stack, concatenate
from tailproof.deep.neural_fqe import FQELearner
from tailproof.deep.settings import DeepSettings, Run
from tailproof.deep.train import Learner, train
from tailproof.engines import Local
from tailproof.ensemble.aggregate import Aggregate
from tailproof.errors import EngineWarning, MethodError

if TYPE_CHECKING:
    from tailproof.deep.bases import Implicit, NeuralFQE


def member_seeds(count: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Return a seed for each member; the first k do not depend on how many follow."""
    return tuple(int(seed) for seed in rng.integers(2**62, size=count))


def fit_implicit(
    settings: Implicit, task: Task, folds: Folds, *, backup: Aggregate | None, seeds: Sequence[int]
) -> DeepFitted:
    """Train IQL's or SQL's critics on each fold."""
    return _fit_parts(_train_implicit, settings, task, folds, backup, seeds, {})


def fit_fqe(
    settings: NeuralFQE, task: Task, folds: Folds, *, backup: Aggregate | None, seeds: Sequence[int]
) -> DeepFitted:
    """Train neural FQE of the task's policy on each fold."""
    if task.policy is None:
        raise MethodError(
            "NeuralFQE evaluates a policy and was given none; to learn one use IQL(), SQL() or SAC()."
        )
    settings = _with_values_of_order_one(settings, task)
    actions, weights = task.next_actions(slice(None))
    if task.log.is_discrete:
        extra = {"policy": weights}
    else:
        scaling = _scaling(settings, task.log)
        kept = actions[:, : settings.draws]
        n, count = kept.shape[:2]
        scaled = scaling.actions(kept.reshape(n * count, -1))
        extra = {"next_actions": scaled.reshape(n, -1)}
    return _fit_parts(_train_fqe, settings, task, folds, backup, seeds, extra)


def _with_values_of_order_one(settings: NeuralFQE, task: Task) -> NeuralFQE:
    """Return settings in which values, not rewards, have size one: networks learn these sooner.

    IQL and SQL cannot have this, because β and α are in units of scaled reward; nor can a Huber loss.
    """
    if settings.reward_scale != "auto" or settings.huber is not None:
        return settings
    usual = _scaling(settings, task.log).reward_scale
    return replace(settings, reward_scale=usual / horizon_of(task.log, task.gamma))


def _scaling(settings: DeepSettings, log: Log) -> Scaling:
    return Scaling.of(log, standardise=settings.standardise, reward_scale=settings.reward_scale)


def _fit_parts(
    trainer: Callable[[Part], DeepFitted],
    settings: DeepSettings,
    task: Task,
    folds: Folds,
    backup: Aggregate | None,
    seeds: Sequence[int],
    extra: Mapping[str, FloatArray],
) -> DeepFitted:
    """Deal the members to the workers, train, and put them together again in order."""
    scaling = _scaling(settings, task.log)
    limits = value_limits(task.log, folds, task.gamma, scaling.reward_scale)
    workers = min(settings.run.workers, folds.count)
    if workers > 1 and backup is not None:
        raise MethodError(
            f"Members that meet in the backup train in one process. Got workers={workers} with "
            f"at='backup'; use workers=1."
        )
    groups = np.array_split(np.arange(folds.count), workers)
    parts = [
        Part(
            task.log,
            task.gamma,
            folds.subset(group),
            tuple(seeds[k] for k in group),
            scaling,
            limits[group],
            settings if workers == 1 else _quiet(settings, place),
            backup,
            extra,
            "critics",
        )
        for place, group in enumerate(groups)
    ]
    found = _trained(trainer, parts, settings, task)
    warn_unless_converged(found.training, settings, task.log, task.gamma)
    return found


def _trained(
    trainer: Callable[[Part], DeepFitted], parts: Sequence[Part], settings: DeepSettings, task: Task
) -> DeepFitted:
    threads = isinstance(task.engine, Local) and task.engine.kind == "threads"
    given = settings.run.engine or (None if threads else task.engine)
    if len(parts) == 1:
        if given is not None or getattr(task.engine, "workers", 1) > 1:
            warnings.warn(
                f"{type(settings).__name__} trains all its members in one task, so the engine has "
                f"nothing to share out. Pass run=Run(workers=...) to deal the members to workers.",
                EngineWarning,
                stacklevel=2,
            )
        return trainer(parts[0])
    if given is not None:
        return _join(given.map(trainer, parts))
    with Local(workers=len(parts), kind="processes") as engine:
        return _join(engine.map(trainer, parts))


def _quiet(settings: DeepSettings, place: int) -> DeepSettings:
    """Return the settings of one worker of several: its own checkpoints, no bar, no loggers."""
    run = settings.run
    folder = None if run.checkpoint is None else f"{run.checkpoint}/worker-{place}"
    threads = run.threads or 1
    quiet = replace(
        run,
        checkpoint=folder,
        threads=threads,
        progress=False,
        loggers=(),
        workers=1,
        engine=None,
    )
    return replace(settings, run=quiet)


def _join(results: Sequence[DeepFitted]) -> DeepFitted:
    critics = [result.critics for result in results]
    assert all(isinstance(each, NeuralCritics) for each in critics)
    found: list[NeuralCritics] = critics  # type: ignore[assignment]
    twins = found[0].twins
    members = [
        [each.q.members(range(t * each.count, (t + 1) * each.count)) for t in range(twins)]
        for each in found
    ]
    q = concatenate(concatenate(part[t] for part in members) for t in range(twins))
    v = None if found[0].v is None else concatenate(each.v for each in found if each.v is not None)
    alive = np.concatenate([each.alive for each in found])
    training = History()
    for place, result in enumerate(results):
        training = training.joined(result.training, prefix=f"worker {place}: ")
    return DeepFitted(
        NeuralCritics(q, v, twins, found[0].scaling, alive),
        np.concatenate([result.history for result in results], axis=1),
        training=training,
    )


def _fingerprint(part: Part, table: Table) -> str:
    return fingerprint(
        replace(part.settings, run=Run()),
        part.gamma,
        part.seeds,
        part.backup,
        part.scaling.reward_scale,
        torch.from_numpy(np.ascontiguousarray(part.folds.counts)),
        table.values,
    )


def _draws(part: Part) -> tuple[Draws, bool]:
    """Return each member's draws, or, where members that see the same rows meet, one for all."""
    run, rows = part.settings.run, member_rows(part.log, part.folds)
    shared = part.backup is not None and shares_draws(part.folds)
    count = 1 if shared else len(rows)
    return Draws(rows[:count], part.seeds[:count], part.settings.batch, run.device), shared


def _run(learner: Learner, part: Part, table: Table, **options: Any) -> History:
    return train(
        learner,
        part.settings.steps,
        phase=part.phase,
        run=part.settings.run,
        fingerprint=_fingerprint(part, table),
        limits=part.limits,
        rows=watched(part),
        also=measure(learner, part),
        stop=part.settings.stop,
        **options,
    )


def _result(
    learner: Any, part: Part, training: History, *, twins: int = 1, v: Stack | None = None
) -> DeepFitted:
    """Return the slow copies of a learner's Q as critics, with how they were trained."""
    alive = learner.alive.numpy().copy()
    critics = NeuralCritics(learner.q.slow.copy(), v, twins, part.scaling, alive)
    losses = training["q loss"].values if "q loss" in training else np.empty((0, critics.count))
    return DeepFitted(critics, losses, training=training)


def _train_implicit(part: Part) -> DeepFitted:
    settings: Implicit = part.settings
    table = Table.of(part.log, part.scaling, part.gamma, settings)
    draws, shared = _draws(part)
    learner = ImplicitLearner(
        table,
        draws,
        part.seeds,
        settings.rule(),
        shared=shared,
        backup=part.backup,
        hidden=settings.hidden,
        batch=settings.batch,
        twins=settings.twins,
        huber=settings.huber,
        n_actions=part.scaling.n_actions,
        learning_rate=settings.learning_rate,
        target_rate=settings.rate(horizon_of(part.log, part.gamma)),
    )
    training = _run(learner, part, table)
    return _result(learner, part, training, twins=settings.twins, v=learner.v.copy())


def _train_fqe(part: Part) -> DeepFitted:
    settings: NeuralFQE = part.settings
    table = Table.of(part.log, part.scaling, part.gamma, settings, dict(part.extra))
    draws, shared = _draws(part)
    horizon = horizon_of(part.log, part.gamma)
    bounds = [
        torch.from_numpy(each).float().to(settings.run.device)
        for each in value_bounds(part.log, part.folds, horizon, part.scaling.reward_scale)
    ]
    if shared:  # members that meet have one target
        bounds = [bounds[0].amin(0, keepdim=True), bounds[1].amax(0, keepdim=True)]
    learner = FQELearner(
        table,
        draws,
        part.seeds,
        shared=shared,
        backup=part.backup,
        hidden=settings.hidden,
        batch=settings.batch,
        huber=settings.huber,
        n_actions=part.scaling.n_actions,
        learning_rate=settings.learning_rate,
        target_rate=settings.rate(horizon),
        bounds=(bounds[0], bounds[1]),
    )
    return _result(learner, part, _run(learner, part, table))


def fit_actor_critic(
    settings: Any,
    task: Task,
    folds: Folds,
    *,
    backup: Aggregate | None,
    seeds: Sequence[int],
    make_actor: Callable[[int, int, int, int], Actor],
    kind: str,
) -> DeepFitted:
    """Train critics that meet in the backup, and the policy that climbs them."""
    log, run = task.log, settings.run
    if log.is_discrete:
        raise MethodError(
            f"{type(settings).__name__} needs continuous actions; the log has {log.action_space}. "
            f"Use IQL() or SQL() for discrete ones."
        )
    scaling = _scaling(settings, log)
    limits = value_limits(log, folds, task.gamma, scaling.reward_scale)
    part = Part(
        log, task.gamma, folds, tuple(seeds), scaling, limits, settings, backup, {}, "critics"
    )
    table = Table.of(log, scaling, task.gamma, settings)
    draws, shared = _draws(part)
    rows = settings.batch * (1 if shared or len(seeds) == 1 else len(seeds))
    actor = make_actor(log.states.shape[1], scaling.action_width, seeds[0], rows)
    learner = ActorCriticLearner(
        table,
        draws,
        Normals(seeds[0], (2, rows, scaling.action_width), run.device),
        seeds,
        actor,
        shared=shared,
        backup=backup,
        hidden=settings.hidden,
        batch=settings.batch,
        twins=settings.twins,
        delay=settings.delay,
        learning_rate=settings.learning_rate,
        target_rate=settings.rate(horizon_of(log, task.gamma)),
    )
    stack = actor.parameters.stacks["policy"]

    def policies() -> Sequence[NeuralPolicy]:
        return split_policies(stack, scaling, kind)

    training = _run(learner, part, table, evaluate=player(run, policies))
    warn_unless_converged(training, settings, log, task.gamma)
    found = _result(learner, part, training, twins=settings.twins)
    return replace(found, policy=policies()[0])
