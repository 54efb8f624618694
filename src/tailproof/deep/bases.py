"""The deep bases: their settings are the method. torch is loaded when they are fitted, not before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from tailproof.algorithms.base import LEARNER, PLACES, Capabilities, Fitted
from tailproof.algorithms.learners.ranking import Rank, require_imitation
from tailproof.algorithms.task import Task
from tailproof.arrays import require_fraction
from tailproof.data.partition import Folds
from tailproof.deep.settings import (
    DeepSettings,
    TrainsPolicy,
    require_count,
    require_positive,
    require_torch,
    require_widths,
)
from tailproof.ensemble.aggregate import Aggregate
from tailproof.errors import MethodError

if TYPE_CHECKING:
    from tailproof.deep.extraction import DeepFitted, Extracted
    from tailproof.deep.implicit import Rule

_PUBLISHED: dict[str, Any] = {
    "policy": "gaussian",
    "limit": 100.0,
    "share": 0.0,
    "target_rate": 0.005,
    "reward_scale": 1.0,
}


@dataclass(frozen=True, kw_only=True)
class Implicit(DeepSettings):
    """What IQL and SQL share: critics learned in the sample, then a policy by weighted imitation.

    Each member learns Q_k (the smaller of two networks) by regression on r + γ(1 − terminal)V_k(s')
    and V_k by its rule. One policy is then trained on the whole log, each action weighted by
    aggregate_k Q_k(s, a) − aggregate_k V_k(s). ROOM-VM, P-ROOM-VM and MA differ in that aggregate
    alone and take it from the same critics. At ``"backup"`` the aggregates stand in both targets.

    Parameters
    ----------
    policy_steps
        Gradient steps of the policy.
    policy_hidden
        Widths of the policy's hidden layers; by default those of the critics.
    twins
        Q-networks a member.
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

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("policy_steps", self.policy_steps)
        if self.policy_hidden is not None:
            require_widths("policy_hidden", self.policy_hidden)
        require_count("twins", self.twins)
        require_positive("limit", self.limit)
        if not isinstance(self.share, int | float) or not 0 <= self.share < 1:
            raise MethodError(f"share must be at least 0 and below 1. Got {self.share!r} instead.")
        if self.huber is not None:
            require_positive("huber", self.huber)
        if self.policy not in ("deterministic", "gaussian"):
            raise MethodError(
                f"policy must be deterministic or gaussian. Got {self.policy!r} instead."
            )

    @classmethod
    def as_published(cls, **settings: Any) -> Self:
        """Return the base without this library's departures from the published code.

        A Gaussian policy, weights of at most 100 that nothing spreads (`share` 0), rewards and target
        rate as they are (0.005), and for SQL α = 10. Settings given here come on top.
        """
        return cls(**{**_PUBLISHED, **settings})

    def rule(self) -> Rule:
        """Return the loss of V and the weight of an action."""
        raise MethodError("Use IQL() or SQL().")

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> DeepFitted:
        """Train the critics of every fold."""
        require_torch()
        from tailproof.deep.fitting import fit_implicit, member_seeds

        seeds = member_seeds(folds.count, rng)
        return fit_implicit(self, task, folds, backup=backup, seeds=seeds)

    def extract(
        self, task: Task, fitted: Fitted, *, aggregate: Aggregate, rng: np.random.Generator
    ) -> Extracted:
        """Train the policy of the aggregated critics."""
        return self.extract_each(task, fitted, aggregates=[aggregate], rng=rng)[0]

    def extract_each(
        self,
        task: Task,
        fitted: Fitted,
        *,
        aggregates: Sequence[Aggregate],
        rng: np.random.Generator,
    ) -> list[Extracted]:
        """Train the policies of several aggregates of the same critics, side by side."""
        from tailproof.deep.extraction import extract

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

    def __post_init__(self) -> None:
        super().__post_init__()
        require_fraction("expectile", self.expectile, MethodError)
        require_positive("beta", self.beta)

    def rule(self) -> Rule:
        """Return the expectile loss and the exponential weight."""
        from tailproof.deep.implicit import Expectile

        return Expectile(self.expectile, self.beta, self.limit)


@dataclass(frozen=True, kw_only=True)
class SQL(Implicit):
    """Sparse Q-learning (Xu et al., 2023), the base of the paper's figure 5.

    V minimises 1{w > 0}·w² + V/α with w = 1 + u/2α, u = Q(s, a) − V(s); the policy weighs actions with
    max(0, w).

    Parameters
    ----------
    alpha
        α: how much leaving the log's actions costs, in scaled reward. The paper's value is 10.
    """

    alpha: float = 10.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive("alpha", self.alpha)

    def rule(self) -> Rule:
        """Return the sparse loss and weight."""
        from tailproof.deep.implicit import Sparse

        return Sparse(self.alpha, self.limit)


@dataclass(frozen=True, kw_only=True)
class BehaviourCloning(TrainsPolicy):
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

    steps: int = 200_000
    learning_rate: float = 1e-3
    top: float = 1.0
    rank: Rank = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        require_imitation(self.top, self.rank)

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
        from tailproof.deep.extraction import fit_cloning

        return fit_cloning(self, task, folds, seed=int(rng.integers(2**62)))


@dataclass(frozen=True, kw_only=True)
class NeuralFQE(DeepSettings):
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

    def __post_init__(self) -> None:
        super().__post_init__()
        require_count("draws", self.draws)
        if self.huber is not None:
            require_positive("huber", self.huber)

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> DeepFitted:
        """Train the critics of every fold."""
        require_torch()
        from tailproof.deep.fitting import fit_fqe, member_seeds

        seeds = member_seeds(folds.count, rng)
        return fit_fqe(self, task, folds, backup=backup, seeds=seeds)
