"""Train critics on the folds of a log, and policies by weighted imitation: of critics, or cloning."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from tailproof.arrays import FloatArray, IntArray
from tailproof.checkpoint import fingerprint
from tailproof.critics.base import Fitted
from tailproof.critics.ensembles import Critics
from tailproof.critics.task import Task
from tailproof.deep.bases import BehaviourCloning, Implicit, TrainsCritics
from tailproof.deep.critics import NeuralCritics, NeuralPolicy
from tailproof.deep.data import Draws, Scaling, Transitions, row_draws
from tailproof.deep.history import History, horizon_of, warn_unless_converged
from tailproof.deep.learners import ImitationLearner, learner_of
from tailproof.deep.losses import reduce
from tailproof.deep.settings import Run
from tailproof.deep.stack import Shape, Stack
from tailproof.deep.training import train
from tailproof.errors import EngineWarning, FoldError, FoldWarning, MethodError
from tailproof.learners.cloning import imitated_episodes
from tailproof.log.folds import Folds
from tailproof.log.log import Log
from tailproof.parallel import Local
from tailproof.robust.aggregates import Aggregate
from tailproof.robust.tails import effective_rows

_LARGEST = 1e16  # beyond this, squared gradients overflow float32
_PROBES = 512  # number of rows to compare the members' Q, and V with returns, during training


@dataclass(frozen=True)
class DeepFitted(Fitted):
    """Critics, the policy trained with or from them, and the training history."""

    critics: NeuralCritics
    training: History = field(default_factory=History)
    policy: NeuralPolicy | None = None


@dataclass(frozen=True)
class MemberGroup:
    """The members that train in one process: their settings, folds, seeds and data.

    Attributes
    ----------
    limits
        Largest possible |Q| of each member, (K,); see `value_limits`.
    extra
        Additional columns of the transitions, by name, (n, w) each.
    """

    log: Log
    gamma: float
    folds: Folds
    seeds: tuple[int, ...]
    scaling: Scaling
    settings: TrainsCritics
    backup: Aggregate | None = None
    limits: FloatArray | None = None
    extra: Mapping[str, FloatArray] = field(default_factory=dict)

    @cached_property
    def transitions(self) -> Transitions:
        """The log in the networks' units."""
        return Transitions.of(self.log, self.scaling, self.gamma, self.settings, self.extra)

    @cached_property
    def rows(self) -> list[IntArray]:
        """The rows of each member, repeated as often as it has them."""
        return member_rows(self.log, self.folds)

    @property
    def n_draws(self) -> int:
        """M, batches per step: one per member, or one for all that share rows and a backup."""
        alike = bool((self.folds.counts == self.folds.counts[0]).all())
        return 1 if self.backup is not None and alike else len(self.seeds)

    @property
    def draws(self) -> Draws:
        """The rows (M, B) of each step."""
        count, settings = self.n_draws, self.settings
        return row_draws(self.rows[:count], self.seeds[:count], settings.batch, settings.run.device)

    @property
    def horizon(self) -> float:
        """The horizon of values, in steps; see `horizon_of`."""
        return horizon_of(self.log, self.gamma)

    @property
    def target_rate(self) -> float:
        """The update rate of the target networks, ρ."""
        return self.settings.rate(self.horizon)

    @cached_property
    def probe_rows(self) -> Tensor:
        """The rows to compare all members' Q, (m,)."""
        rows = self.log.rows(np.flatnonzero(self.folds.counts.any(axis=0)))
        chosen = rows[:: max(1, len(rows) // _PROBES)][:_PROBES]
        return torch.from_numpy(chosen).to(self.settings.run.device)

    @property
    def return_rows(self) -> IntArray:
        """Rows of each member, to compare its V with returns, (K, m)."""
        count = min(_PROBES, *map(len, self.rows))
        return np.stack(
            [each[np.linspace(0, len(each) - 1, count).astype(int)] for each in self.rows]
        )

    @property
    def fingerprint(self) -> str:
        """A digest of everything that the trained networks depend on."""
        settings, unit = replace(self.settings, run=Run()), self.scaling.reward_scale
        data = self.folds.counts, self.transitions.values.cpu().numpy()
        return fingerprint((settings, self.gamma, self.seeds, self.backup, unit, *data))


def member_rows(log: Log, folds: Folds) -> list[IntArray]:
    """Return the rows of each member, repeated as often as it has them."""
    return [log.rows(folds.episodes(member)) for member in range(folds.count)]


def value_limits(log: Log, folds: Folds, gamma: float, reward_scale: float) -> FloatArray:
    """Return the largest possible |Q| of each member, max(1, max |r|)·Σγᵗ over its fold, (K,).

    Rewards are scaled; the 1 is there because untrained networks have values of order one. A member
    whose rewards are too large for training in float32 is reported before training, and its limit is
    0: it counts as diverged from the start.
    """
    horizon = float(log.lengths.max()) if gamma == 1 else 1 / (1 - gamma)
    limits = np.empty(folds.count)
    failed = []
    for member, rows in enumerate(member_rows(log, folds)):
        size = np.abs(log.rewards[rows])
        worst = int(rows[size.argmax()])
        limits[member] = max(1.0, size.max() * reward_scale) * horizon
        if size.max() * reward_scale > _LARGEST:
            limits[member] = 0.0
            failed.append(f"fold {member} (row {worst}, reward {log.rewards[worst]:g})")
    if not failed:
        return limits
    text = (
        f"{len(failed)} of {folds.count} folds hold rewards too large to train on in single "
        f"precision, which ends near {_LARGEST / reward_scale:.0e} here: {', '.join(failed)}."
    )
    if 2 * len(failed) >= folds.count:
        raise FoldError(
            f"{text} Check these rows, clip the rewards (clip=0.01), or split the log into folds "
            f"(such as method 'room-vm-iql') so that one row affects one fold only."
        )
    warnings.warn(f"{text} These members are left out.", FoldWarning, stacklevel=2)
    return limits


def member_seeds(count: int, rng: np.random.Generator) -> tuple[int, ...]:
    """Return one seed per member; the first k do not depend on `count`."""
    return tuple(int(seed) for seed in rng.integers(2**62, size=count))


def fit_critics(
    settings: TrainsCritics,
    task: Task,
    folds: Folds,
    *,
    backup: Aggregate | None,
    seeds: Sequence[int],
) -> DeepFitted:
    """Train the critics of every fold, and the policy if it is trained jointly.

    The members are distributed over the workers and merged in order.
    """
    settings, extra = settings.prepare(task)
    scaling = Scaling.of(
        task.log, standardise=settings.standardise, reward_scale=settings.reward_scale
    )
    limits = value_limits(task.log, folds, task.gamma, scaling.reward_scale)
    workers = 1 if settings.one_process else min(settings.run.workers, folds.count)
    if workers > 1 and backup is not None:
        raise MethodError(
            f"Members that share a backup train in one process. Got workers={workers} with "
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
    fitted = _trained(groups, settings, task)
    warn_unless_converged(fitted.training, settings, task.log, task.gamma)
    return fitted


def _trained(groups: Sequence[MemberGroup], settings: TrainsCritics, task: Task) -> DeepFitted:
    """Train the groups on the engine of the run or task, by default in local processes."""
    local = task.engine if isinstance(task.engine, Local) else None
    threads = local is not None and local.kind == "threads"
    engine = settings.run.engine or (None if threads else task.engine)
    if len(groups) == 1:
        idle = engine is not None or (local is not None and local.workers > 1)
        if idle and not settings.one_process:
            warnings.warn(
                f"{type(settings).__name__} trains all its members in one task, so the engine has "
                f"nothing to distribute. Pass run=Run(workers=...) to distribute the members.",
                EngineWarning,
                stacklevel=2,
            )
        return _train(groups[0])
    if engine is not None:
        return _join(engine.map(_train, groups))
    with Local(workers=len(groups), kind="processes") as processes:
        return _join(processes.map(_train, groups))


def _quiet(settings: TrainsCritics, place: int) -> TrainsCritics:
    """Return the settings of one of several workers: own checkpoints, no bar, no loggers."""
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
    learner = learner_of(group)
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
    critics = [result.critics for result in results]
    twins, count = critics[0].twins, [each.count for each in critics]
    q = Stack.join(
        [
            each.q.members(range(twin * size, (twin + 1) * size))
            for twin in range(twins)
            for each, size in zip(critics, count, strict=True)
        ]
    )
    values = [each.v for each in critics if each.v is not None]
    alive = np.concatenate([each.alive for each in critics])
    training = History()
    for place, result in enumerate(results):
        training = training.joined(result.training, prefix=f"worker {place}: ")
    return DeepFitted(
        NeuralCritics(q, Stack.join(values) if values else None, twins, critics[0].scaling, alive),
        np.concatenate([result.history for result in results], axis=1),
        training=training,
    )


def policy_weights(
    base: Implicit, log: Log, critics: NeuralCritics, aggregates: Sequence[Aggregate]
) -> FloatArray:
    """Return the weight of each transition, from aggregate_k Q_k(s, a) − aggregate_k V_k(s), (P, n)."""
    scale = critics.scaling.reward_scale
    q = torch.from_numpy(critics.values(log.states, log.actions) * scale)  # (K, n)
    v = torch.from_numpy(critics.state_values(log.states) * scale)
    advantages = [reduce(each, q) - reduce(each, v) for each in aggregates]
    return np.stack([spread_weights(base, each).numpy() for each in advantages])


def spread_weights(base: Implicit, advantage: Tensor) -> Tensor:
    """Return weights (n,) of advantages, multiplied by one factor to reach the base's `share`.

    The factor is 1 if the effective share is large enough; with factor 0 all weights are equal.
    """
    weights = base.action_weight(advantage)
    if effective_share(weights) >= base.share:
        return weights
    low, high = 0.0, 1.0
    for _ in range(30):
        middle = (low + high) / 2
        enough = effective_share(base.action_weight(advantage * middle)) >= base.share
        low, high = (middle, high) if enough else (low, middle)
    return base.action_weight(advantage * low)


def effective_share(weights: Tensor) -> float:
    """Return (Σw)² / nΣw²: 1 for equal weights, 1/n for a single weight, 0 for none."""
    return effective_rows(weights.numpy()) / len(weights)


def clone(
    base: Implicit | BehaviourCloning,
    log: Log,
    scaling: Scaling,
    weights: FloatArray,
    *,
    seed: int,
) -> tuple[Sequence[NeuralPolicy], History]:
    """Train one policy per row of weights (P, n) by weighted imitation of the log.

    The checkpoint folder depends on the weights, so that saved critics can serve several aggregates.
    """
    imitation, run = base.imitation, base.run
    learner = ImitationLearner(base, imitation, log, scaling, weights, seed=seed)
    table = learner.table.values.cpu().numpy()
    mark = fingerprint((replace(base, run=Run()), seed, imitation, table))
    if run.checkpoint is not None:
        run = replace(run, checkpoint=Path(run.checkpoint) / mark[:12])
    training = train(
        learner, imitation.steps, phase="policy", run=run, fingerprint=mark, stop=base.stop
    )
    return learner.policies(), training


def extract(
    base: Implicit,
    task: Task,
    critics: Critics,
    aggregates: Sequence[Aggregate],
    *,
    seed: int,
) -> list[DeepFitted]:
    """Train one policy per aggregate of the same critics, in one stack."""
    if not isinstance(critics, NeuralCritics) or critics.v is None:
        raise MethodError(
            f"{type(base).__name__} extracts policies from its own critics. Got {critics!r}."
        )
    weights = policy_weights(base, task.log, critics, aggregates)
    policies, training = clone(base, task.log, critics.scaling, weights, seed=seed)
    return [DeepFitted(critics, training=training, policy=policy) for policy in policies]


def fit_cloning(base: BehaviourCloning, task: Task, folds: Folds, *, seed: int) -> DeepFitted:
    """Train one policy on the selected episodes with equal weights; its critics are zero."""
    (chosen,), notes = imitated_episodes([task.log], top=base.top, rank=base.rank)
    log = task.log if base.top == 1 else task.log.take(chosen)
    scaling = Scaling.of(log, standardise=base.standardise, reward_scale=1.0)
    even = np.ones((1, log.n_transitions))
    (policy,), training = clone(base, log, scaling, even, seed=seed)
    inputs = len(scaling.state_mean) + scaling.action_width
    shape = Shape(folds.count, (inputs, scaling.n_actions or 1))
    zero = Stack(shape, torch.zeros(shape.parameters))
    critics = NeuralCritics(zero, None, 1, scaling, np.ones(folds.count, dtype=bool))
    return DeepFitted(critics, np.empty((0, folds.count)), notes, training, policy)
