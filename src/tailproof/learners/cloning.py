"""Behaviour cloning of the log or of its best episodes, linear or by trees."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil
from typing import Any, ClassVar, Literal, NamedTuple, get_args

import numpy as np
import scipy

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.base import LEARNER, Capabilities, Fitted, WithoutBackup
from tailproof.critics.behaviour import fit_behaviour
from tailproof.critics.ensembles import LinearCritics
from tailproof.critics.fitted_q import logged_actions, require_actions
from tailproof.critics.penalties import RidgeChoice, as_ridge
from tailproof.critics.task import Task
from tailproof.critics.tree_values import LearningTask
from tailproof.critics.trees import LogShares
from tailproof.errors import MethodError, TailproofWarning
from tailproof.features import Features, Joint, Polynomial, as_features, at_every_action
from tailproof.learners.improvement import ScoreLearner
from tailproof.log.folds import Folds
from tailproof.log.log import Log
from tailproof.log.spaces import Continuous
from tailproof.parameters import COUNT, Constraint, OneOf, Within, require
from tailproof.policies.forms import LinearPolicy
from tailproof.robust.huber_path import huber_estimates
from tailproof.rules import RULES

#: How an episode's rewards are combined into its score; ``"auto"`` chooses by their tails.
Rank = Literal["auto", "sum", "winsorised", "median"]

_CLIPPED = 0.1  # share of the log's rewards that is winsorised on each side
_LIGHT = 1.2  # largest ratio of the plain mean's error to the best Huber mean's to use sums
_TIED = 0.1  # share of the episodes, beyond those to imitate, from which ties are warned of
_CENTRED = 3  # shortest episode whose median is used


@dataclass(frozen=True)
class Ranking:
    """The best episodes of a log, best first, with the score used and the reason for it."""

    best: IntArray
    rank: Rank
    reason: str


def best_episodes(log: Log, *, top: float, rank: Rank = "auto") -> Ranking:
    """Return the best `top` of the episodes by a score of their rewards.

    Episodes that tie with the last one kept are kept too, so that equal scores keep the whole log.

    Parameters
    ----------
    top
        Share of the episodes, in (0, 1]; at least one is kept.
    rank
        ``"sum"`` of the rewards; ``"median"``, their median times the length of the episode;
        ``"winsorised"``, their sum after the 10 % smallest and largest rewards of the log are
        winsorised, plus the mean that this removes per step: without it, skewed noise would favour
        or penalise long episodes. ``"auto"`` takes the sum where tails are
        light, the median where they are heavy and symmetric, and the winsorised sum where they are
        heavy and skewed (`choose_rank`).

    Examples
    --------
    >>> from tailproof.worlds import CartPole
    >>> log = CartPole().log(episodes=20, steps=30, seed=1)
    >>> found = best_episodes(log, top=0.25)
    >>> len(found.best), found.rank
    (5, 'sum')
    """
    require(IMITATION["top"], top=top)
    require(IMITATION["rank"], rank=rank)
    reason = ""
    if rank == "auto":
        rank, reason = choose_rank(log)
    scores = episode_scores(log, rank)
    kept = _asked(log, top)
    order = np.argsort(-scores, kind="stable")
    tied = int((scores >= scores[order[kept - 1]]).sum())
    return Ranking(order[:tied], rank, reason)


def _asked(log: Log, top: float) -> int:
    """Return the number of episodes to imitate if none are tied."""
    return max(1, ceil(top * log.n_episodes - 1e-9))


def imitated_episodes(
    parts: Sequence[Log], *, top: float, rank: Rank
) -> tuple[list[IntArray], tuple[str, ...]]:
    """Return the episodes of each part to imitate, and notes on their ranking."""
    if top == 1:
        return [np.arange(part.n_episodes) for part in parts], ()
    found = [best_episodes(part, top=top, rank=rank) for part in parts]
    kept = sum(len(each.best) for each in found)
    total = sum(part.n_episodes for part in parts)
    reasons = dict.fromkeys(each.reason for each in found if each.reason)
    said = f"Imitates {kept} of {total} episodes."
    if kept > sum(_asked(part, top) for part in parts) + _TIED * total:
        said = (
            f"Imitates {kept} of {total} episodes instead of {100 * top:.0f} %: many have the same "
            f"score, and none of them is better than another."
        )
        warnings.warn(said, TailproofWarning, stacklevel=4)
    return [each.best for each in found], (said, *reasons)


def episode_scores(log: Log, rank: Rank) -> FloatArray:
    """Return the score of each episode, (E,)."""
    starts = log.starts[:-1]
    if rank == "median":
        return np.asarray(_medians(log) * log.lengths, dtype=float)
    sums = np.asarray(np.add.reduceat(log.rewards, starts), dtype=float)
    if rank == "sum":
        return sums
    clipped = np.clip(log.rewards, *np.quantile(log.rewards, [_CLIPPED, 1 - _CLIPPED]))
    means = np.add.reduceat(clipped, starts) / log.lengths
    path = huber_estimates(log.rewards - np.repeat(means, log.lengths))
    taken = path.estimates[path.choose(RULES.caution)]
    return np.asarray(log.lengths * (means + taken), dtype=float)


def _medians(log: Log) -> FloatArray:
    return np.array([np.median(each) for each in np.split(log.rewards, log.starts[1:-1])])


def choose_rank(log: Log) -> tuple[Rank, str]:
    """Return the score chosen by the tails of the rewards, and the reason.

    The tails are those of the rewards' distances from the median of their episode. Where most
    rewards of an episode are equal (a goal that pays once, one-step episodes) the rare ones are the
    signal, not outliers, and the sum is kept.
    """
    centres = _medians(log)
    long = np.repeat(log.lengths >= _CENTRED, log.lengths)
    residuals = (log.rewards - np.repeat(centres, log.lengths))[long]
    if len(residuals) == 0:
        return "sum", "Episodes are ranked by their sum: they are too short for a median."
    if 2 * np.count_nonzero(residuals) <= len(residuals):
        return "sum", "Episodes are ranked by their sum: most of their rewards are equal."
    path = huber_estimates(np.asarray(residuals, dtype=float))
    best = path.variances[path.choose(RULES.caution)]
    gain = float(np.sqrt(path.variances[-1] / best)) if best > 0 else 1.0
    seen = f"the plain mean's error is {gain:.1f} times that of a robust one"
    if gain <= _LIGHT:
        said = f"rewards about their episode's median have light tails ({seen})."
        return "sum", f"Episodes are ranked by the sum of their rewards: {said}"
    about = "rewards about their episode's median have heavy"
    if path.asymmetry() <= RULES.skewed:
        said = f"median reward × length: {about}, symmetric tails ({seen})."
        return "median", f"Episodes are ranked by {said}"
    said = f"winsorised sums: {about}, skewed tails ({seen})."
    return "winsorised", f"Episodes are ranked by {said}"


#: Constraints of the share of episodes to imitate, and of the score that ranks them.
IMITATION: dict[str, Constraint] = {"top": Within("(0, 1]"), "rank": OneOf(*get_args(Rank))}


@dataclass(frozen=True, kw_only=True)
class Cloning(WithoutBackup):
    """Imitate the log, or its best episodes: π(a|s) ∝ exp φ(s, a)ᵀθ, by maximum likelihood.

    θ minimises −Σ log π(a|s) + λ‖θ‖²/2 over the logged actions. Its "critics" are the scores φᵀθ, so
    that the greedy policy is the likeliest action. With ``top=1`` the rewards are not used: a method
    that does not beat this has learned nothing from them. With ``top`` below 1 (percent cloning) only
    the best episodes are imitated; with a robust rank this is hard to beat where each episode comes
    from a single behaviour policy and rewards have heavy tails.

    Parameters
    ----------
    features, ridge
        As in `FQI`.
    iterations
        Maximum number of L-BFGS steps.
    top
        Share of the episodes to imitate, the best ones; 1 for all.
    rank
        The score of an episode: ``"sum"``, ``"winsorised"``, ``"median"``, or ``"auto"`` to choose by
        the tails of the rewards (`tailproof.learners.cloning`).
    model
        The model: ``"linear"``, ``"neural"`` (a network, extra 'deep'), or ``"auto"``: linear where
        actions are discrete, a network where they are continuous.
    """

    capabilities: ClassVar[Capabilities] = LEARNER
    constraints: ClassVar = {
        **IMITATION,
        "model": OneOf("auto", "linear", "neural"),
        "iterations": COUNT,
    }

    features: Features | str | None = None
    ridge: RidgeChoice = 1e-6
    iterations: int = 200
    top: float = 1.0
    rank: Rank = "auto"
    model: Literal["auto", "linear", "neural"] = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        as_ridge(self.ridge)

    def for_log(self, log: Log) -> Any:
        """Return the base that imitates this log's actions: this one, a regression or a network."""
        if self.model == "neural" or (self.model == "auto" and not log.is_discrete):
            return self.neural()
        if log.is_discrete:
            return self
        if self.features is not None:
            raise MethodError(
                "features= are of states and discrete actions. A linear model of continuous actions "
                "has its own; leave them out, or use model='neural'."
            )
        return RegressionCloning(ridge=self.ridge, top=self.top, rank=self.rank)

    def neural(self) -> Any:
        """Return behaviour cloning by a network with the same `top` and `rank`."""
        from tailproof.deep.bases import BehaviourCloning  # imported only when a network is needed

        return BehaviourCloning(top=self.top, rank=self.rank)

    def _fit(self, task: Task, folds: Folds, rng: np.random.Generator) -> Fitted:  # noqa: ARG002
        log: Log = task.log
        features = as_features(self.features, log)
        require_actions(log, folds, features)
        parts = [folds.log(log, k) for k in range(folds.count)]
        imitated, notes = imitated_episodes(parts, top=self.top, rank=self.rank)
        found = [
            self._scores(part.take(chosen), logged_actions(part), features)
            for part, chosen in zip(parts, imitated, strict=True)
        ]
        theta = np.stack([each for each, _ in found])
        history = np.array([[steps for _, steps in found]], dtype=float)
        return Fitted(LinearCritics(features, theta), history, notes)

    def _scores(self, log: Log, actions: IntArray, features: Features) -> tuple[FloatArray, int]:
        """Fit θ to the log, with probabilities over `actions`, which may include unlogged ones."""
        there = at_every_action(features, log.states, log.n_actions)
        taken = features(log.states, log.actions).mean(axis=0)  # (d,)
        penalty = float(as_ridge(self.ridge).penalty(np.array([log.n_transitions]))[0])
        penalty /= log.n_transitions
        weights = np.zeros((log.n_transitions, log.n_actions))

        def loss(theta: FloatArray) -> tuple[float, FloatArray]:
            scores = there.values(theta[None])[0][actions]  # (A, n)
            total = scipy.special.logsumexp(scores, axis=0)
            weights[:, actions] = np.exp(scores - total).T
            gradient = there.mix(weights).mean(axis=0) - taken + penalty * theta
            value = float(total.mean() - taken @ theta + penalty * (theta @ theta) / 2)
            return value, gradient

        start = np.zeros(features.size)
        found = scipy.optimize.minimize(
            loss, start, jac=True, method="L-BFGS-B", options={"maxiter": self.iterations}
        )
        return np.asarray(found.x), int(found.nit)


@dataclass(frozen=True, kw_only=True)
class TreeCloning(ScoreLearner):
    """Imitate the log, or its best episodes, by randomised trees: b̂(a|s).

    Its "critics" are log b̂(a|s): the greedy policy is the likeliest action, and the softmax of
    temperature 1 is the behaviour itself.

    Parameters
    ----------
    top, rank
        As in `Cloning`.
    exact
        As in `fit_behaviour`: closer to the logged behaviour in repeated states, but less smooth.
    """

    constraints: ClassVar = IMITATION

    top: float = 1.0
    rank: Rank = "auto"
    exact: bool = False

    def _members(
        self,
        tasks: Sequence[LearningTask],
        rng: np.random.Generator,  # noqa: ARG002 trees are seeded by the task
    ) -> tuple[Sequence[Any], tuple[str, ...]]:
        logs = [each.log for each in tasks]
        imitated, notes = imitated_episodes(logs, top=self.top, rank=self.rank)
        return [self._shares(*each) for each in zip(tasks, imitated, strict=True)], notes

    def _shares(self, task: LearningTask, imitated: IntArray) -> LogShares:
        if self.top == 1 and not self.exact:
            return LogShares(task.behaviour)
        # episodes were selected by their outcome, so logged propensities do not apply to them
        log, whole = task.log.take(np.sort(imitated)), self.top == 1
        return LogShares(fit_behaviour(log, seed=task.seed, exact=self.exact, propensities=whole))


class Extraction(NamedTuple):
    """A policy and its training record, which is None for a linear policy."""

    policy: LinearPolicy
    training: None = None


@dataclass(frozen=True, kw_only=True)
class RegressionCloning(WithoutBackup):
    """Imitate continuous actions by ridge regression on the state.

    Its critics are zero; its policy is fitted to the imitated episodes of the whole log.

    Parameters
    ----------
    ridge
        As in `FQI`.
    top, rank
        As in `Cloning`.
    """

    capabilities: ClassVar[Capabilities] = replace(LEARNER, at=("pointwise",))
    constraints: ClassVar = IMITATION

    ridge: RidgeChoice = 1e-6
    top: float = 1.0
    rank: Rank = "auto"

    def __post_init__(self) -> None:
        super().__post_init__()
        as_ridge(self.ridge)

    def _fit(self, task: Task, folds: Folds, rng: np.random.Generator) -> Fitted:  # noqa: ARG002
        log: Log = task.log
        if not isinstance(log.action_space, Continuous):
            raise MethodError("RegressionCloning is for continuous actions. Use Cloning().")
        _, notes = imitated_episodes([log], top=self.top, rank=self.rank)
        features = Joint(log.states.shape[1], log.action_space.dimension)
        zero = LinearCritics(features, np.zeros((folds.count, features.size)))
        return Fitted(zero, notes=notes)

    def extract(self, task: Task, fitted: Fitted, **_: object) -> Extraction:  # noqa: ARG002
        """Return the policy."""
        log, space = task.log, task.log.action_space
        if self.top < 1:
            (chosen,), _notes = imitated_episodes([log], top=self.top, rank=self.rank)
            log = log.take(chosen)
        mean, scale = log.states.mean(axis=0, dtype=float), log.states.std(axis=0, dtype=float)
        scale = np.where(scale > 1e-6 * np.maximum(1, np.abs(mean)), scale, 1.0)
        psi = Polynomial()((log.states - mean) / scale)
        actions = np.asarray(log.actions, dtype=float).reshape(len(psi), -1)
        penalty = float(as_ridge(self.ridge).penalty(np.array([len(psi)]))[0])
        weights = np.linalg.solve(
            psi.T @ psi + max(penalty, 1e-12 * len(psi)) * np.eye(psi.shape[1]), psi.T @ actions
        )
        assert isinstance(space, Continuous)
        low = actions.min(axis=0) if space.low is None else np.asarray(space.low)
        high = actions.max(axis=0) if space.high is None else np.asarray(space.high)
        return Extraction(LinearPolicy(weights, mean, scale, low, high))
