"""What episodes that taught nothing say about a policy: its value, its gain, and a bound of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

import numpy as np
from scipy.special import ndtri

from tailproof.algorithms.default.auto import FEWEST, evaluate_log, tame
from tailproof.algorithms.default.choice import Choice
from tailproof.algorithms.default.climb import Blend
from tailproof.algorithms.default.forest import cross_fit_forests
from tailproof.algorithms.default.rungs import forest_rung, jackknife_error
from tailproof.algorithms.one_step.choice import OneStepChoice, standard_error
from tailproof.algorithms.one_step.estimator import evaluate_rows
from tailproof.algorithms.one_step.rows import canonical_rows, is_one_step
from tailproof.algorithms.task import Task
from tailproof.data.log import Log
from tailproof.engines.threads import one_thread
from tailproof.errors import TailproofError
from tailproof.features.ladder import basis_for
from tailproof.learning.careful.seen import SeenPairs
from tailproof.policies.simple import action_probabilities


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """How a policy did on episodes that were kept from it.

    Attributes
    ----------
    value, low, high
        Its estimated value and the interval of it at `level`; None where there is no honest one.
    logged_value
        Of the logged behaviour, on the same episodes.
    gain, bound
        How far it is ahead of that, and a number that the gain exceeds with confidence `level`.
    level
        Confidence of interval and bound.
    episodes
        How many judged.
    why_not
        Why no bound is honest, or None.
    """

    value: float
    low: float | None
    high: float | None
    logged_value: float
    gain: float
    bound: float
    level: float
    episodes: int
    why_not: str | None = None

    @property
    def better(self) -> bool:
        """Whether the gain is above zero with the confidence that was asked."""
        return bool(self.why_not is None and self.bound > 0)

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers and strings, ready for JSON."""
        bound = self.bound if np.isfinite(self.bound) else None
        return {**asdict(self), "bound": bound, "better": self.better}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> Judgement:
        """Return what `to_dict` was taken from."""
        known = {key: value for key, value in plain.items() if key != "better"}
        return cls(**{**known, "bound": -np.inf if plain["bound"] is None else plain["bound"]})


@dataclass(frozen=True, eq=False)
class Judge:
    """The default estimator on one part of the episodes, with what its learners may have got wrong.

    The behaviour is valued twice: by what it earned, and as its clone by the estimator. Where the
    second is higher, the difference is an error of the estimator, and is taken off every gain. An
    action that the teaching rows never took in this very state may be a catastrophe (a cliff beside
    the path): where states are few, the chance of ever taking one costs the worst that was seen. And
    where smooth critics agree with each other, trees are asked too: far from the log all smooth
    critics extrapolate, and trees cannot.
    """

    log: Log
    gamma: float
    level: float
    seed: int
    seen: SeenPairs | None
    shift: float = 0.0

    def after(self, clone: Any) -> Judge:
        """Return the same judge who has looked at the clone of the behaviour first."""
        found = self.ask(clone)
        gain = 0.0 if found is None else found.gain
        return replace(self, shift=max(0.0, gain) if np.isfinite(gain) else 0.0)

    def ask(self, policy: Any) -> Judgement | None:
        """Judge a policy; None where no critic of it can be fitted to this log."""
        try:
            return self(policy)
        except (TailproofError, np.linalg.LinAlgError):
            return None

    def acts(self, policy: Any) -> bytes:
        """Return what a policy does in the states of the log: all that its judgement depends on."""
        states = np.concatenate([self.log.states, self.log.next_states])
        law = action_probabilities(policy, states, self.log.n_actions)
        return sha256(law.tobytes()).digest()

    def choice(self, policy: Any) -> tuple[Choice | OneStepChoice, Blend | None]:
        """Return the default's answer, and its critics where the log has more than one step."""
        task = Task(self.log, self.gamma, policy, None, seed=self.seed)
        rng = np.random.default_rng([self.seed, 5])
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):
            if is_one_step(task):
                return evaluate_rows(canonical_rows(task, rng)), None
            return evaluate_log(task, None, rng)

    def __call__(self, policy: Any) -> Judgement:
        """Judge a policy."""
        choice, blend = self.choice(policy)
        cost = self.shift
        if blend is not None:
            cost += extrapolated(blend, seed=self.seed)
        if self.seen is not None:
            # of a very long log some groups of episodes climbed the ladder, and these have weights
            log = self.log if blend is None else blend.log
            visits = None if blend is None else blend.weights
            cost += self.seen.cost(policy, log, visits, choice.value, self.gamma)
        bound = gain_bound(choice, self.level) - cost
        low = high = None
        if choice.declined is None:
            interval = choice.interval(self.level)
            low, high = interval.low, interval.high
        return Judgement(
            value=choice.value,
            low=low,
            high=high,
            logged_value=choice.logged_value,
            gain=choice.gain.value,
            bound=float(bound) if np.isfinite(bound) else -np.inf,
            level=self.level,
            episodes=self.log.n_episodes,
            why_not=choice.declined
            if self.log.n_groups >= FEWEST
            else f"only {self.log.n_groups} independent episodes or groups are left to judge by; at "
            f"least {FEWEST} are needed",
        )


def gain_bound(choice: Choice | OneStepChoice, level: float) -> float:
    """Return a number that the gain exceeds: the lower of two bounds.

    The one combines the bounds of both values with their correlation, which is short where both lean on
    the same few rows; the other is that of the paired differences, which is short where these are
    skewed.
    """
    differences = choice.influence - choice.logged_influence
    paired = choice.gain.value - float(ndtri(level)) * standard_error(differences)
    return min(choice.gain.lower_bound(level).value, paired)


def extrapolated(blend: Blend, *, seed: int) -> float:
    """Return how far the value lies above that of trees, beyond the error of the difference.

    Trees are part of a mixture of critics already; then there is nothing to add.
    """
    if len(blend.rungs) > 1:
        return 0.0
    rung = blend.rungs[0]
    target = rung.system.target
    level = float(np.median(target.log.rewards)) if target.endless else 0.0
    rewards = tame(target.log, target.log.rewards - level, basis_for(target.log))
    with one_thread():
        trees = forest_rung(rung.system, rewards, cross_fit_forests(target, rewards, seed=seed))
    error = jackknife_error(trees.left_out - rung.left_out)
    return max(0.0, rung.value - trees.value - error)
