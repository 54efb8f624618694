"""What episodes that taught nothing say about a policy: its value, its gain, and a bound of that."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tailproof.algorithms.auto import FEWEST, evaluate_log
from tailproof.algorithms.choice import Choice
from tailproof.algorithms.one_step.choice import OneStepChoice
from tailproof.algorithms.one_step.estimator import evaluate_rows
from tailproof.algorithms.one_step.rows import canonical_rows, is_one_step
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.careful.seen import SeenPairs
from tailproof.log import Log
from tailproof.threads import one_thread


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
        return self.why_not is None and self.bound > 0

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
    the path): where states are few, the chance of ever taking one costs the worst that was seen.
    """

    log: Log
    gamma: float
    level: float
    seed: int
    seen: SeenPairs | None
    shift: float = 0.0

    @classmethod
    def of(
        cls, log: Log, gamma: float, *, clone: Any, seen: SeenPairs | None, level: float, seed: int
    ) -> Judge:
        """Return a judge who has looked at the clone of the behaviour first."""
        bare = cls(log, gamma, level, seed, seen)
        gain = bare.choice(clone)[0].gain.value
        return cls(log, gamma, level, seed, seen, max(0.0, gain) if np.isfinite(gain) else 0.0)

    def choice(self, policy: Any) -> tuple[Choice | OneStepChoice, FloatArray]:
        """Return the default's answer, and the weights of the rows where they are known."""
        task = Task(self.log, self.gamma, policy, None, seed=self.seed)
        rng = np.random.default_rng([self.seed, 5])
        with one_thread(), np.errstate(over="ignore", invalid="ignore"):
            if is_one_step(task):
                return evaluate_rows(canonical_rows(task, rng)), np.ones(self.log.n_transitions)
            found, blend = evaluate_log(task, None, rng)
        return found, blend.weights

    def __call__(self, policy: Any) -> Judgement:
        """Judge a policy."""
        choice, weights = self.choice(policy)
        gain = choice.gain
        cost = self.shift
        if self.seen is not None:
            cost += self.seen.cost(policy, self.log, weights, choice.value, self.gamma)
        bound = gain.lower_bound(self.level).value - cost
        low = high = None
        if choice.declined is None:
            interval = choice.interval(self.level)
            low, high = interval.low, interval.high
        return Judgement(
            value=choice.value,
            low=low,
            high=high,
            logged_value=choice.logged_value,
            gain=gain.value,
            bound=float(bound) if np.isfinite(bound) else -np.inf,
            level=self.level,
            episodes=self.log.n_episodes,
            why_not=self._why_not(choice.declined),
        )

    def _why_not(self, declined: str | None) -> str | None:
        if self.log.n_groups < FEWEST:
            return (
                f"only {self.log.n_groups} independent episodes or groups are left to judge by; at "
                f"least {FEWEST} are needed"
            )
        return declined
