"""The deep bases: what each learns, by its settings. torch is imported only when they are fitted."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.critics.base import LEARNER, PLACES, Capabilities, Fitted
from tailproof.critics.task import Task
from tailproof.deep.settings import DeepSettings, Imitation, require_torch
from tailproof.errors import MethodError
from tailproof.learners.cloning import IMITATION, Rank
from tailproof.log.folds import Folds
from tailproof.parameters import COUNT, POSITIVE, SHARE, OneOf, Within
from tailproof.robust.aggregates import Aggregate

if TYPE_CHECKING:
    from torch import Tensor

    from tailproof.deep.fitting import DeepFitted

# Steps of a fitted Q-evaluation if none are given: so many passes over the rows, within these limits.
_PASSES, _FEWEST_STEPS, _MOST_STEPS = 200, 15_000, 50_000
# What all published code has: raw states and rewards, and a slow target.
_AS_PUBLISHED: Mapping[str, Any] = {
    "standardise": False,
    "reward_scale": 1.0,
    "target_rate": 0.005,
}


@dataclass(frozen=True, kw_only=True)
class TrainsCritics(DeepSettings):
    """A base that trains critics on every fold."""

    capabilities: ClassVar[Capabilities]
    one_process: ClassVar[bool] = False  # whether its members always train in one process

    def prepare(self, task: Task) -> tuple[Self, Mapping[str, FloatArray]]:  # noqa: ARG002
        """Check the task; return the settings for it and additional columns of the transitions."""
        return self, {}

    def fit(
        self, task: Task, folds: Folds, *, backup: Aggregate | None, rng: np.random.Generator
    ) -> DeepFitted:
        """Train the critics of every fold, and the policy if it is trained jointly."""
        require_torch(self.run.device)
        from tailproof.deep.fitting import fit_critics, member_seeds

        seeds = member_seeds(folds.count, rng)
        return fit_critics(self, task, folds, backup=backup, seeds=seeds)


@dataclass(frozen=True, kw_only=True)
class Implicit(TrainsCritics):
    """Base class of IQL and SQL: in-sample critics, then a policy by weighted imitation.

    Each member learns Q_k (the smaller of two networks) by regression on r + γ(1 − terminal)V_k(s')
    and V_k by its loss. One policy is then trained on the whole log, each action weighted by its
    advantage aggregate_k Q_k(s, a) − aggregate_k V_k(s). ROOM-VM, P-ROOM-VM and MA use the same
    critics and differ only in the aggregate. At ``"backup"`` both targets use the aggregates.

    Parameters
    ----------
    policy_steps
        Gradient steps of the policy.
    policy_hidden
        Widths of the policy's hidden layers; by default those of the critics.
    twins
        Q-networks per member.
    huber
        Threshold of Q's Huber loss, in scaled rewards; None for squared errors.
    layer_norm
        Whether V has a layer norm before each relu, as in the original code of SQL.
    limit
        Largest weight of an action in the policy.
    policy
        ``"deterministic"``: continuous actions by weighted squared error, as in the paper.
        ``"gaussian"``: by weighted likelihood with a learned standard deviation per entry of the
        action, as in its released code; the policy's action is the mean.
    squash
        Whether continuous actions are tanh of the network; otherwise its outputs, clipped to the
        bounds when the policy acts.
    cosine_over
        Steps in which the policy's learning rate falls to zero along a cosine: its own, or the
        critics' ``"steps"``, after which it rises and falls again, as in the paper's released code.
    share
        Smallest effective share of the log, (Σw)²/nΣw². Advantages are multiplied by one factor ≤ 1
        until the weights reach it; 0 for no shrinkage. Without it, errors of critics that were trained
        briefly or on noisy rewards let a few wrong actions dominate the policy.
    """

    capabilities: ClassVar[Capabilities] = replace(LEARNER, at=("pointwise", "backup"))
    constraints: ClassVar = {
        **dict.fromkeys(("policy_steps", "twins"), COUNT),
        "policy_hidden": DeepSettings.constraints["hidden"],
        "limit": POSITIVE,
        "policy": OneOf("deterministic", "gaussian"),
        "cosine_over": OneOf("policy_steps", "steps"),
        "share": Within("[0, 1)"),
    }
    _original: ClassVar[Mapping[str, Any]] = {}  # settings of the code of the base's authors

    policy_steps: int = 1_000_000
    policy_hidden: tuple[int, ...] | None = None
    twins: int = 2
    huber: float | None = None
    layer_norm: bool = False
    limit: float = 100.0
    policy: Literal["deterministic", "gaussian"] = "deterministic"
    squash: bool = True
    cosine_over: Literal["policy_steps", "steps"] = "policy_steps"
    share: float = 0.7

    @classmethod
    def as_published(cls, code: Literal["room", "original"] = "room", **settings: object) -> Self:
        """Return the base with the settings of published code; `settings` override these.

        All published code has raw states and rewards, target rate 0.005, no `share`, and a Gaussian
        policy that acts by its mean.

        Parameters
        ----------
        code
            ``"room"``, the code of the paper (Zhu et al., 2024): the mean is not squashed, weights are
            at most 1e8, and the policy's cosine has the critics' `steps`. It trains the critics of
            ROOM for 200,000 steps and the base alone for 1,000,000. ``"original"``, the code of
            IQL's and SQL's authors: the mean is squashed, weights are at most 100; SQL has a layer
            norm in V, α = 1, and weights actions by max(0, Q − V).
        """
        published: dict[str, Any] = {**_AS_PUBLISHED, "policy": "gaussian", "share": 0.0}
        if code == "room":
            published |= {"squash": False, "limit": 1e8, "cosine_over": "steps"}
        elif code == "original":
            published |= {"limit": 100.0, **cls._original}
        else:
            raise MethodError(f"code must be 'room' or 'original'. Got {code!r} instead.")
        return cls(**{**published, **settings})

    @property
    def imitation(self) -> Imitation:
        """How the policy imitates weighted rows."""
        return Imitation(
            steps=self.policy_steps,
            hidden=self.policy_hidden or self.hidden,
            cosine=self.steps if self.cosine_over == "steps" else self.policy_steps,
            likelihood=self.policy == "gaussian",
            squash=self.squash,
        )

    @abstractmethod
    def value_loss(self, advantage: Tensor, value: Tensor) -> Tensor:
        """Return the loss of V, (K,), with u = Q − V and V, (K, B)."""

    @abstractmethod
    def action_weight(self, advantage: Tensor) -> Tensor:
        """Return the imitation weight of actions with this advantage."""

    def extract(
        self, task: Task, fitted: Fitted, *, aggregate: Aggregate, rng: np.random.Generator
    ) -> DeepFitted:
        """Train the policy of the aggregated critics."""
        from tailproof.deep.fitting import extract

        seed = int(rng.integers(2**62))
        return extract(self, task, fitted.critics, [aggregate], seed=seed)[0]


@dataclass(frozen=True, kw_only=True)
class IQL(Implicit):
    """Implicit Q-learning (Kostrikov, Nair & Levine, 2022).

    V minimises |τ − 1{u < 0}|·u² with u = Q(s, a) − V(s); the policy's action weights are
    min(exp(β·u), limit).

    Parameters
    ----------
    expectile
        τ: ½ averages over the logged actions, values near 1 approach their best.
    beta
        β: 0 clones the log, large values imitate only the best actions; in units of 1 / scaled
        reward. `share` may reduce it.
    """

    constraints: ClassVar = {"expectile": SHARE, "beta": POSITIVE}

    expectile: float = 0.7
    beta: float = 3.0

    def value_loss(self, advantage: Tensor, value: Tensor) -> Tensor:  # noqa: ARG002
        """Return mean |τ − 1{u < 0}|·u²."""
        asymmetry = (self.expectile - (advantage < 0).to(advantage.dtype)).abs()
        return (asymmetry * advantage.square()).mean(-1)

    def action_weight(self, advantage: Tensor) -> Tensor:
        """Return min(exp(β·u), limit)."""
        return (self.beta * advantage).exp().clamp(max=self.limit)


@dataclass(frozen=True, kw_only=True)
class SQL(Implicit):
    """Sparse Q-learning (Xu et al., 2023), the base of the paper's figure 5.

    V minimises 1{w > 0}·w² + V/α with w = 1 + u/2α, u = Q(s, a) − V(s); the policy's action weights
    are max(0, w): zero if the advantage is below −2α.

    Parameters
    ----------
    alpha
        α: the penalty on leaving the log's actions, in scaled reward. The paper's value is 10.
    weight
        The action weights: ``"sparse"`` is max(0, 1 + u/2α), the solution of SQL's objective, which
        ROOM's code uses; ``"advantage"`` is max(0, u), which the original code of SQL uses.
    """

    _original: ClassVar[Mapping[str, Any]] = {
        "weight": "advantage",
        "layer_norm": True,
        "alpha": 1.0,
    }

    constraints: ClassVar = {"weight": OneOf("sparse", "advantage")}

    alpha: float = 10.0
    weight: Literal["sparse", "advantage"] = "sparse"

    def value_loss(self, advantage: Tensor, value: Tensor) -> Tensor:
        """Return mean max(0, w)² + V/α."""
        return (self._positive(advantage).square() + value / self.alpha).mean(-1)

    def _positive(self, advantage: Tensor) -> Tensor:
        return (1 + advantage / (2 * self.alpha)).clamp(min=0)

    def action_weight(self, advantage: Tensor) -> Tensor:
        """Return max(0, w) or max(0, u), at most `limit`."""
        if self.weight == "advantage":
            return advantage.clamp(min=0, max=self.limit)
        return self._positive(advantage).clamp(max=self.limit)


class _TrainsPolicy:
    """A base whose fit trains the policy."""

    def extract(
        self,
        task: Task,  # noqa: ARG002
        fitted: Fitted,
        *,
        aggregate: Aggregate,  # noqa: ARG002
        rng: np.random.Generator,  # noqa: ARG002
    ) -> DeepFitted:
        """Return the policy that was trained with the critics."""
        from tailproof.deep.fitting import DeepFitted
        from tailproof.deep.history import History

        if not isinstance(fitted, DeepFitted) or fitted.policy is None:
            raise MethodError(f"{type(self).__name__} takes its policy from its own fit.")
        return replace(fitted, training=History())


@dataclass(frozen=True, kw_only=True)
class ActorCritic(_TrainsPolicy, TrainsCritics):
    """Base class of SAC and TD3+BC: policy and critics train jointly, with an aggregated backup."""

    capabilities: ClassVar[Capabilities] = replace(LEARNER, at=("backup",))
    one_process: ClassVar[bool] = True
    twins: ClassVar[int] = 1

    steps: int = 1_000_000

    def prepare(self, task: Task) -> tuple[Self, Mapping[str, FloatArray]]:
        """Check that actions are continuous."""
        if task.log.is_discrete:
            raise MethodError(
                f"{type(self).__name__} needs continuous actions; the log has "
                f"{task.log.action_space}. Use IQL() or SQL() for discrete ones."
            )
        return self, {}


@dataclass(frozen=True, kw_only=True)
class SAC(ActorCritic):
    """Soft actor-critic with an aggregated backup: SAC-N (An et al., 2021) and variants.

    Every critic regresses on r + γ(1 − terminal)(aggregate_k Q_k(s', a') − α·log π(a'|s')), a' ~ π; the
    policy, a squashed Gaussian, maximises aggregate_k Q_k(s, a) − α·log π(a|s); α is adapted to the
    target entropy. SAC-N aggregates with the minimum, SAC-N (STD) with mean − 2·std.

    Parameters
    ----------
    temperature
        Initial α.
    target_entropy
        Target of the policy's entropy; by default minus the number of action entries.
    """

    constraints: ClassVar = {"temperature": POSITIVE}

    hidden: tuple[int, ...] = (256, 256, 256)
    temperature: float = 0.2
    target_entropy: float | None = None

    @classmethod
    def as_published(cls, **settings: object) -> Self:
        """Return the base with the settings of the paper's code; `settings` override these.

        Raw states and rewards, initial α = 1, target rate 0.005, 3,000,000 steps.
        """
        return cls(**{**_AS_PUBLISHED, "temperature": 1.0, "steps": 3_000_000, **settings})


@dataclass(frozen=True, kw_only=True)
class TD3BC(ActorCritic):
    """TD3+BC (Fujimoto & Gu, 2021): the policy maximises λQ(s, π(s)) − (π(s) − a)².

    λ = α / mean |Q|, so that the trade-off α does not depend on the unit of reward.

    Parameters
    ----------
    alpha
        α: weight of value against imitation.
    noise, noise_limit
        Standard deviation and bound of the noise on the target policy's actions.

    The published policy maximises the first of two Q; this one the smaller of the two.
    """

    twins: ClassVar[int] = 2
    delay: ClassVar[int] = 2

    alpha: float = 2.5
    noise: float = 0.2
    noise_limit: float = 0.5


@dataclass(frozen=True, kw_only=True)
class BehaviourCloning(_TrainsPolicy, DeepSettings):
    """Imitate the log or its best episodes with a network; all rows have the same weight.

    With ``top=1`` rewards are not used. With less (percent cloning) they select the episodes.

    Parameters
    ----------
    top, rank
        Share of the episodes to imitate and the score that ranks them, as in `Cloning`.
    learning_rate
        Adam's initial rate, with cosine decay to zero. Regression on actions allows a larger rate
        than critics.
    """

    capabilities: ClassVar[Capabilities] = replace(LEARNER, at=("pointwise",))
    constraints: ClassVar = IMITATION

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
        """Train the policy; the critics are zero everywhere."""
        require_torch(self.run.device)
        from tailproof.deep.fitting import fit_cloning

        return fit_cloning(self, task, folds, seed=int(rng.integers(2**62)))

    @property
    def imitation(self) -> Imitation:
        """How the policy imitates the rows."""
        return Imitation(steps=self.steps, hidden=self.hidden, cosine=self.steps)


@dataclass(frozen=True, kw_only=True)
class NeuralFQE(TrainsCritics):
    """Fitted Q-evaluation with a neural Q, for continuous actions or states without features.

    Q_k regresses on r + γ(1 − terminal)·E_π Q_k(s', ·) of its target network, or at ``"backup"`` of the
    members' aggregate (ROAM-FQE). With ``reward_scale="auto"`` and no `huber`, rewards are scaled so
    that values are of order one.

    Parameters
    ----------
    steps
        Gradient steps. The default is 200 passes over the rows, but at least 15,000 and at most 50,000
        steps: a small log has nothing more to tell. Any other number is taken as it is.
    huber
        Threshold of the Huber loss, in scaled rewards; None for squared errors. A Huber loss is
        excellent for symmetric tails and badly biased for skewed ones.
    draws
        Number of actions drawn from a continuous stochastic policy per next state; each gradient
        step uses one of them, in turn.
    """

    capabilities: ClassVar[Capabilities] = Capabilities(PLACES)
    constraints: ClassVar = {"draws": COUNT}

    steps: int = _MOST_STEPS
    huber: float | None = None
    draws: int = 4

    def prepare(self, task: Task) -> tuple[Self, Mapping[str, FloatArray]]:
        """Return settings, and the policy's actions in the next states.

        With automatic scaling, values instead of rewards are of order one, which networks learn
        faster. Not for IQL, SQL and Huber losses, whose settings are in units of scaled reward.
        """
        from tailproof.deep.data import Scaling
        from tailproof.deep.history import horizon_of

        if task.policy is None:
            raise MethodError(
                "NeuralFQE evaluates a policy and was given none; to learn one use IQL(), SQL() or "
                "SAC()."
            )
        scaling = Scaling.of(task.log, standardise=self.standardise, reward_scale=self.reward_scale)
        settings = self
        if self.steps == _MOST_STEPS:
            enough = max(_FEWEST_STEPS, _PASSES * task.log.n_transitions // self.batch)
            settings = replace(self, steps=min(_MOST_STEPS, enough))
        if self.reward_scale == "auto" and self.huber is None:
            scale = scaling.reward_scale / horizon_of(task.log, task.gamma)
            settings = replace(settings, reward_scale=scale)
        actions, weights = task.next_actions(slice(None))
        if task.log.is_discrete:
            return settings, {"policy": weights}
        kept = actions[:, : self.draws]
        n, count = kept.shape[:2]
        scaled = scaling.actions(kept.reshape(n * count, -1))
        return settings, {"next_actions": scaled.reshape(n, -1)}
