"""The deep bases whose policy is trained with the critics: SAC and TD3+BC. No torch until they fit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np

from tailproof.algorithms.base import LEARNER, Capabilities
from tailproof.algorithms.task import Task
from tailproof.data.partition import Folds
from tailproof.deep.convergence import horizon_of
from tailproof.deep.settings import TrainsPolicy, require_positive, require_torch
from tailproof.ensemble.aggregate import Aggregate

if TYPE_CHECKING:
    from tailproof.deep.extraction import DeepFitted


@dataclass(frozen=True, kw_only=True)
class _ActorCritic(TrainsPolicy):
    """What SAC and TD3+BC share: the policy is trained with the critics, which meet in the backup."""

    capabilities: ClassVar[Capabilities] = replace(LEARNER, at=("backup",))
    twins: ClassVar[int] = 1
    delay: ClassVar[int] = 1


@dataclass(frozen=True, kw_only=True)
class SAC(_ActorCritic):
    """Soft actor-critic whose critics meet in the backup: SAC-N (An et al., 2021) and its kin.

    Every critic regresses on r + γ(1 − terminal)(aggregate_k Q_k(s', a') − α·log π(a'|s')), a' ~ π; the
    policy, a squashed Gaussian, climbs aggregate_k Q_k(s, a) − α·log π(a|s); α holds its entropy near
    the target. SAC-N aggregates with the minimum, SAC-N (STD) with mean − 2·std.

    Parameters
    ----------
    temperature
        α at the start.
    target_entropy
        Entropy that α aims at; by default minus the number of action entries.
    """

    steps: int = 1_000_000
    hidden: tuple[int, ...] = (256, 256, 256)
    temperature: float = 0.2
    target_entropy: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("temperature", self.temperature)

    @classmethod
    def as_published(cls, **settings: Any) -> Self:
        """Return the base as its published code has it: α starts at 1, ρ = 0.005, unscaled rewards."""
        published = {"temperature": 1.0, "target_rate": 0.005, "reward_scale": 1.0}
        return cls(**{**published, **settings})

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> DeepFitted:
        """Train critics and policy."""
        require_torch()
        from tailproof.deep.actors import SoftActor
        from tailproof.deep.fitting import fit_actor_critic, member_seeds

        def actor(states: int, actions: int, seed: int, rows: int) -> SoftActor:
            target = -float(actions) if self.target_entropy is None else self.target_entropy
            return SoftActor(
                states,
                actions,
                seed,
                rows,
                hidden=self.hidden,
                learning_rate=self.learning_rate,
                target_entropy=target,
                temperature=self.temperature,
                device=self.run.device,
            )

        seeds = member_seeds(folds.count, rng)
        return fit_actor_critic(
            self, task, folds, backup=backup, seeds=seeds, make_actor=actor, kind="gaussian"
        )


@dataclass(frozen=True, kw_only=True)
class TD3BC(_ActorCritic):
    """TD3+BC (Fujimoto & Gu, 2021): the policy maximises λQ(s, π(s)) − (π(s) − a)².

    λ = α / mean |Q|, so that α weighs value against imitation whatever the reward's unit.

    Parameters
    ----------
    alpha
        α.
    noise, noise_limit
        Standard deviation and bound of the noise on the target policy's actions.

    The published policy climbs the first of two Q; this one the smaller of them.
    """

    twins: ClassVar[int] = 2
    delay: ClassVar[int] = 2

    steps: int = 1_000_000
    alpha: float = 2.5
    noise: float = 0.2
    noise_limit: float = 0.5

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("alpha", self.alpha)

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> DeepFitted:
        """Train critics and policy."""
        require_torch()
        from tailproof.deep.actors import ClonedActor
        from tailproof.deep.fitting import fit_actor_critic, member_seeds

        def actor(states: int, actions: int, seed: int, rows: int) -> ClonedActor:
            return ClonedActor(
                states,
                actions,
                seed,
                rows,
                hidden=self.hidden,
                learning_rate=self.learning_rate,
                target_rate=self.rate(horizon_of(task.log, task.gamma)),
                alpha=self.alpha,
                noise=self.noise,
                noise_limit=self.noise_limit,
                device=self.run.device,
            )

        seeds = member_seeds(folds.count, rng)
        return fit_actor_critic(
            self, task, folds, backup=backup, seeds=seeds, make_actor=actor, kind="deterministic"
        )
