"""The deep bases: their settings are the method. torch is loaded when they are fitted, not before."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from tailproof.algorithms.base import LEARNER, PLACES, Capabilities, Fitted
from tailproof.algorithms.learners.ranking import Rank
from tailproof.algorithms.task import Task
from tailproof.data.partition import Folds
from tailproof.deep.settings import DeepSettings, require_torch
from tailproof.ensemble.aggregate import Aggregate
from tailproof.errors import MethodError

if TYPE_CHECKING:
    from torch import Tensor

    from tailproof.deep.actor_critic import Actor
    from tailproof.deep.cloning import DeepFitted
    from tailproof.deep.critic_learner import CriticLearner


@dataclass(frozen=True, kw_only=True)
class TrainsCritics(DeepSettings):
    """A base that trains critics on every fold."""

    capabilities: ClassVar[Capabilities]
    always_meet: ClassVar[bool] = False  # whether its members train in one process, in any case

    @abstractmethod
    def learner(self) -> type[CriticLearner]:
        """Return the class of its learners."""

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> DeepFitted:
        """Train the critics of every fold, and the policy where it is trained with them."""
        require_torch()
        from tailproof.deep.fitting import fit_critics, member_seeds

        seeds = member_seeds(folds.count, rng)
        return fit_critics(self, task, folds, backup=backup, seeds=seeds)


@dataclass(frozen=True, kw_only=True)
class Implicit(TrainsCritics):
    """What IQL and SQL share: critics learned in the sample, then a policy by weighted imitation.

    Each member learns Q_k (the smaller of two networks) by regression on r + γ(1 − terminal)V_k(s')
    and V_k by its loss. One policy is then trained on the whole log, each action weighted by
    aggregate_k Q_k(s, a) − aggregate_k V_k(s). ROOM-VM, P-ROOM-VM and MA differ in that aggregate
    alone and take it from the same critics. At ``"backup"`` the aggregates stand in both targets.

    Parameters
    ----------
    policy_steps
        Gradient steps of the policy.
    policy_hidden
        Widths of the policy's hidden layers; by default those of the critics.
    twins
        Q-networks per member.
    huber
        Threshold beyond which Q's regression counts errors linearly, in scaled rewards; none: squared.
    limit
        Largest weight of an action in the policy.
    policy
        ``"deterministic"``: continuous actions by weighted squared error, as the paper says.
        ``"gaussian"``: by weighted likelihood with a learned standard deviation for each entry of the
        action, as its release does; it acts by its mean.
    share
        Advantages are shrunk by one factor until the weights are worth at least this share of the
        log, (Σw)²/nΣw²; 0: never. Without it, errors of a critic that was trained briefly or on noisy
        rewards leave the policy a few actions to imitate, and those the wrong ones.
    """

    capabilities: ClassVar[Capabilities] = replace(LEARNER, at=("pointwise", "backup"))

    policy_steps: int = 1_000_000
    policy_hidden: tuple[int, ...] | None = None
    twins: int = 2
    huber: float | None = None
    limit: float = 100.0
    policy: Literal["deterministic", "gaussian"] = "deterministic"
    share: float = 0.7

    @classmethod
    def as_published(cls, **settings: Any) -> Self:
        """Return the base without this library's departures from the published code.

        A Gaussian policy, weights of at most 100 that nothing spreads (`share` 0), rewards and target
        rate as they are (0.005), and for SQL α = 10. Settings given here come on top.
        """
        published = {"policy": "gaussian", "limit": 100.0, "share": 0.0}
        return cls(**{**published, "target_rate": 0.005, "reward_scale": 1.0, **settings})

    def learner(self) -> type[CriticLearner]:
        """Return the class of its learners."""
        from tailproof.deep.critic_learner import ImplicitLearner

        return ImplicitLearner

    @abstractmethod
    def value_loss(self, advantage: Tensor, value: Tensor) -> Tensor:
        """Return the loss of V, (K,), with u = Q − V and V, (K, B)."""

    @abstractmethod
    def value_gradient(self, advantage: Tensor) -> Tensor:
        """Return its gradient by V, (K, B)."""

    @abstractmethod
    def action_weight(self, advantage: Tensor) -> Tensor:
        """Return how much the policy imitates an action with this advantage."""

    def extract(
        self, task: Task, fitted: Fitted, *, aggregate: Aggregate, rng: np.random.Generator
    ) -> DeepFitted:
        """Train the policy of the aggregated critics."""
        return self.extract_each(task, fitted, aggregates=[aggregate], rng=rng)[0]

    def extract_each(
        self,
        task: Task,
        fitted: Fitted,
        *,
        aggregates: Sequence[Aggregate],
        rng: np.random.Generator,
    ) -> list[DeepFitted]:
        """Train the policies of several aggregates of the same critics, side by side."""
        from tailproof.deep.cloning import extract

        critics: Any = fitted.critics
        return extract(self, task, critics, aggregates, seed=int(rng.integers(2**62)))


@dataclass(frozen=True, kw_only=True)
class IQL(Implicit):
    """Implicit Q-learning (Kostrikov, Nair & Levine, 2022).

    V minimises |τ − 1{u < 0}|·u² with u = Q(s, a) − V(s); the policy weighs actions with
    min(exp(β·u), limit).

    Parameters
    ----------
    expectile
        τ: ½ averages the logged actions, near 1 takes the best of them.
    beta
        β: 0 clones, large values pick; in units of one over scaled reward. `share` lowers it.
    """

    expectile: float = 0.7
    beta: float = 3.0

    def value_loss(self, advantage: Tensor, value: Tensor) -> Tensor:  # noqa: ARG002
        """Return mean |τ − 1{u < 0}|·u²."""
        return (self._asymmetry(advantage) * advantage.square()).mean(-1)

    def value_gradient(self, advantage: Tensor) -> Tensor:
        """Return −2|τ − 1{u < 0}|·u / B."""
        return self._asymmetry(advantage).mul_(advantage).mul_(-2 / advantage.shape[-1])

    def _asymmetry(self, advantage: Tensor) -> Tensor:
        return (advantage < 0).to(advantage.dtype).sub_(self.expectile).abs_()

    def action_weight(self, advantage: Tensor) -> Tensor:
        """Return min(exp(β·u), limit)."""
        return (self.beta * advantage).exp_().clamp_(max=self.limit)


@dataclass(frozen=True, kw_only=True)
class SQL(Implicit):
    """Sparse Q-learning (Xu et al., 2023), the base of the paper's figure 5.

    V minimises 1{w > 0}·w² + V/α with w = 1 + u/2α, u = Q(s, a) − V(s); the policy weighs actions with
    max(0, w): those whose advantage is below −2α get no weight at all.

    Parameters
    ----------
    alpha
        α: how much leaving the log's actions costs, in scaled reward. The paper's value is 10.
    """

    alpha: float = 10.0

    def value_loss(self, advantage: Tensor, value: Tensor) -> Tensor:
        """Return mean max(0, w)² + V/α."""
        return (self._positive(advantage).square() + value / self.alpha).mean(-1)

    def value_gradient(self, advantage: Tensor) -> Tensor:
        """Return (1 − max(0, w)) / αB."""
        return (1 - self._positive(advantage)) / (self.alpha * advantage.shape[-1])

    def _positive(self, advantage: Tensor) -> Tensor:
        return (1 + advantage / (2 * self.alpha)).clamp_(min=0)

    def action_weight(self, advantage: Tensor) -> Tensor:
        """Return min(max(0, w), limit)."""
        return self._positive(advantage).clamp_(max=self.limit)


class _TrainsPolicy:
    """A base whose policy comes from its own fit."""

    def extract(
        self,
        task: Task,  # noqa: ARG002
        fitted: Fitted,
        *,
        aggregate: Aggregate,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> DeepFitted:
        """Return the policy that was trained with the critics."""
        from tailproof.deep.cloning import DeepFitted
        from tailproof.deep.history import History

        if not isinstance(fitted, DeepFitted) or fitted.policy is None:
            raise MethodError(f"{type(self).__name__} takes its policy from its own fit.")
        return replace(fitted, training=History())


@dataclass(frozen=True, kw_only=True)
class ActorCritic(_TrainsPolicy, TrainsCritics):
    """What SAC and TD3+BC share: the policy is trained with the critics, which meet in the backup."""

    capabilities: ClassVar[Capabilities] = replace(LEARNER, at=("backup",))
    always_meet: ClassVar[bool] = True
    twins: ClassVar[int] = 1
    delay: ClassVar[int] = 1

    steps: int = 1_000_000

    def learner(self) -> type[CriticLearner]:
        """Return the class of its learners."""
        from tailproof.deep.actor_critic import ActorCriticLearner

        return ActorCriticLearner

    @abstractmethod
    def actor(self) -> type[Actor]:
        """Return the class of its policies in training."""


@dataclass(frozen=True, kw_only=True)
class SAC(ActorCritic):
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

    hidden: tuple[int, ...] = (256, 256, 256)
    temperature: float = 0.2
    target_entropy: float | None = None

    @classmethod
    def as_published(cls, **settings: Any) -> Self:
        """Return the base as its published code has it: α starts at 1, ρ = 0.005, unscaled rewards."""
        published = {"temperature": 1.0, "target_rate": 0.005, "reward_scale": 1.0}
        return cls(**{**published, **settings})

    def actor(self) -> type[Actor]:
        """Return the class of its policies in training."""
        from tailproof.deep.actor_critic import SoftActor

        return SoftActor


@dataclass(frozen=True, kw_only=True)
class TD3BC(ActorCritic):
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

    alpha: float = 2.5
    noise: float = 0.2
    noise_limit: float = 0.5

    def actor(self) -> type[Actor]:
        """Return the class of its policies in training."""
        from tailproof.deep.actor_critic import ClonedActor

        return ClonedActor


@dataclass(frozen=True, kw_only=True)
class BehaviourCloning(_TrainsPolicy, DeepSettings):
    """Imitate the log, or its best episodes, with a network; every row has the same weight.

    With ``top=1`` rewards do not matter. With less (percent cloning) they choose whom to imitate.

    Parameters
    ----------
    top, rank
        Share of the episodes to imitate and the score that ranks them, as in `Cloning`.
    learning_rate
        Adam's at the start; it falls to zero with a cosine. Regression on actions takes a larger one
        than critics do.
    """

    capabilities: ClassVar[Capabilities] = replace(LEARNER, at=("pointwise",))

    learning_rate: float = 1e-3
    top: float = 1.0
    rank: Rank = "auto"

    def fit(
        self,
        task: Task,
        folds: Folds,
        *,
        backup: Aggregate | None,  # noqa: ARG002
        rng: np.random.Generator,
    ) -> DeepFitted:
        """Train the policy; the critics say zero everywhere."""
        require_torch()
        from tailproof.deep.cloning import fit_cloning

        return fit_cloning(self, task, folds, seed=int(rng.integers(2**62)))


@dataclass(frozen=True, kw_only=True)
class NeuralFQE(TrainsCritics):
    """Fitted Q-evaluation with a neural Q, for continuous actions and for states without features.

    Q_k regresses on r + γ(1 − terminal)·E_π Q_k(s', ·) of a slow copy; at ``"backup"`` the aggregate of
    the members takes its place (ROAM-FQE). With ``reward_scale="auto"`` and no `huber`, values are made
    to have size one while training.

    Parameters
    ----------
    huber
        Threshold beyond which errors count linearly, in scaled rewards; none: squared. A Huber loss is
        excellent on symmetric tails and badly biased on skewed ones.
    draws
        Actions drawn from a continuous stochastic policy in each next state, taken in turn.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(PLACES)

    steps: int = 50_000
    huber: float | None = None
    draws: int = 4

    def learner(self) -> type[CriticLearner]:
        """Return the class of its learners."""
        from tailproof.deep.critic_learner import FQELearner

        return FQELearner
