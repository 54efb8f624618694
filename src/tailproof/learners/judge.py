"""The judge of candidates: estimates on episodes that taught none, and actions that the log holds."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace

import numpy as np

from tailproof.arrays import BoolArray, FloatArray
from tailproof.critics.forest import cross_fit_forests
from tailproof.critics.task import Task
from tailproof.errors import Caution, TailproofError, void
from tailproof.estimators.choice import Choice
from tailproof.estimators.ladder import Blend, forest_rung, jackknife_error
from tailproof.estimators.one_step import evaluate_rows, is_one_step
from tailproof.estimators.sequential import evaluate_log, tame
from tailproof.features.ladder import basis_for
from tailproof.log.log import Log
from tailproof.policies.forms import Policy, action_probabilities
from tailproof.profile.profile import LogProfile
from tailproof.robust.gains import PairedGain, PooledGain
from tailproof.rules import RULES

_VALUES = 60  # most distinct values per column for states to count as discrete
_REPEATED = 0.5  # most distinct states, as a share of the rows
_WORST = 0.01  # quantile of the rewards that represents a catastrophe


@dataclass(frozen=True, eq=False)
class SeenPairs:
    """The state-action pairs of some rows."""

    known: dict[bytes, BoolArray]
    n_actions: int

    @classmethod
    def of(cls, log: Log) -> SeenPairs | None:
        """Return the pairs of a log; None if states hardly repeat."""
        few = all(len(np.unique(column)) <= _VALUES for column in log.states.T)
        if not few or log.n_transitions == 0:
            return None
        states, place = np.unique(log.states + 0.0, axis=0, return_inverse=True)
        if len(states) > _REPEATED * log.n_transitions:
            return None
        taken = np.zeros((len(states), log.n_actions), dtype=bool)
        taken[place.ravel(), log.actions] = True
        known = {state.tobytes(): row for state, row in zip(states, taken, strict=True)}
        return cls(known, log.n_actions)

    def unseen(self, states: FloatArray, probabilities: FloatArray) -> FloatArray:
        """Return the probability, in each state, of actions that were never logged there, (n,)."""
        distinct, place = np.unique(states + 0.0, axis=0, return_inverse=True)
        nothing = np.zeros(self.n_actions, dtype=bool)
        taken = np.array([self.known.get(state.tobytes(), nothing) for state in distinct])
        return np.asarray((probabilities * ~taken[place.ravel()]).sum(axis=1))

    def cost(
        self, policy: Policy, log: Log, weights: FloatArray | None, value: float, gamma: float
    ) -> float:
        """Return the possible loss by unseen actions: P(ever taking one) times the worst loss.

        `weights` are proportional to the policy's visits of each row, (n,); None for equal visits.
        """
        visits = np.ones(log.n_transitions) if weights is None else np.maximum(weights, 0.0)
        if not visits.sum() > 0:
            visits = np.ones(log.n_transitions)
        unseen = self.unseen(log.states, action_probabilities(policy, log.states, log.n_actions))
        share = float(np.average(unseen, weights=visits))
        return unseen_cost(share, log, value, gamma)


def unseen_cost(share: float, log: Log, value: float, gamma: float) -> float:
    """Return P(ever taking an unseen action), from their share of the steps, times the worst loss."""
    horizon = 1 / (1 - gamma) if gamma < 1 else float(log.lengths.mean())
    worst = float(np.quantile(log.rewards, _WORST)) * horizon
    return min(1.0, share * horizon) * max(0.0, value - worst)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """The evaluation of a policy on held-out episodes.

    Attributes
    ----------
    value, low, high
        The estimated value and its interval at `level`; None if no valid interval exists.
    logged_value
        The value of the logged behaviour, on the same episodes.
    gain, bound
        value − logged_value, and a lower bound of the gain at confidence `level`.
    level
        Confidence of interval and bound; of the latter together with other policies that had a chance.
    episodes
        Number of held-out episodes.
    why_not
        Why there is no valid bound, or None.
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
        """Whether the gain is above zero with confidence `level`."""
        return bool(self.why_not is None and self.bound > 0)

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, ready for JSON."""
        bound = self.bound if np.isfinite(self.bound) else None
        return {**asdict(self), "bound": bound, "better": self.better}


@dataclass(frozen=True, eq=False)
class Judge:
    """The default estimator on one part of the episodes, with deductions for its possible errors.

    Three amounts are subtracted from the bound of every gain. First, `shift`: the estimated gain of a
    clone of the logged behaviour, if positive, because its true gain is 0. Second, if states are few,
    the probability of ever taking an action that the training rows never took in the same state, times
    the loss to the worst logged outcome: such an action may be a catastrophe. Third, if only the first
    smooth critic was used, its excess over trees: far from the log smooth critics extrapolate, and
    trees do not.
    """

    profile: LogProfile  # of these episodes, the same for all candidates
    gamma: float
    level: float
    seed: int
    seen: SeenPairs | None = None
    shift: float = 0.0
    chances: int = 1  # how many policies are judged, of which one may be proposed
    sizes_within: float | None = None  # by how much sizes may differ, if bounds may assume it

    @property
    def log(self) -> Log:
        """The episodes."""
        return self.profile.log

    def after(self, clone: Policy) -> Judge:
        """Return a judge with `shift` set from the estimated gain of the cloned behaviour."""
        try:
            gain = self.choice(clone)[0].gain.value
        except (TailproofError, np.linalg.LinAlgError):
            gain = 0.0
        return replace(self, shift=max(0.0, gain) if np.isfinite(gain) else 0.0)

    def ask(self, policy: Policy) -> Judgement | None:
        """Evaluate a policy; None if no critic of it can be fitted to this log."""
        try:
            return self(policy)
        except (TailproofError, np.linalg.LinAlgError):
            return None

    def acts(self, policy: Policy) -> FloatArray:
        """Return the policy's action probabilities in the states and next states of the log."""
        states = np.concatenate([self.log.states, self.log.next_states])
        return action_probabilities(policy, states, self.log.n_actions)

    def choice(self, policy: Policy) -> tuple[Choice, Blend | None]:
        """Return the default estimate, and its critics if episodes have several steps."""
        task = Task(self.log, self.gamma, policy, None, seed=self.seed)
        rng = np.random.default_rng([self.seed, 5])
        with np.errstate(over="ignore", invalid="ignore"):
            if is_one_step(task):
                rows = self.profile.one_step(int(rng.integers(2**63)))
                return evaluate_rows(rows, rows.in_order(task.action_probabilities)), None
            return evaluate_log(task, self.profile, None, rng)

    def __call__(self, policy: Policy, *, to_beat: float = -np.inf) -> Judgement:
        """Evaluate a policy; it has no bound if the log lacks too much of what it does.

        Trees, which can only lower the bound, are asked if it is above `to_beat` without them.
        """
        choice, blend = self.choice(policy)
        covered = self.profile.coverage(Task(self.log, self.gamma, policy, None))
        declined = choice.declined
        unknown = void(covered if declined is None else (*covered, declined))
        cost = self.shift
        if self.seen is not None:
            # a very long log is sampled, and weights exist for the sampled groups only
            log = self.log if blend is None else blend.log
            visits = None if blend is None else blend.weights
            cost += self.seen.cost(policy, log, visits, choice.value, self.gamma)
        gain: PairedGain | PooledGain = choice.gain
        if self.sizes_within is not None and choice.gain.pooling is not None:
            gain = choice.gain.sizes_within(self.sizes_within)
        # a gain whose interval is declined has a bound too, to rank candidates
        strict = 1 - (1 - self.level) / self.chances
        bound = replace(gain, declined=None).lower_bound(strict).value - cost
        if blend is not None and unknown is None and bound > to_beat:
            bound -= extrapolated(blend, seed=self.seed)
        low = high = None
        if choice.declined is None and unknown is None:
            interval = choice.interval(self.level)
            low, high = interval.low, interval.high
        return Judgement(
            value=choice.value,
            low=low,
            high=high,
            logged_value=choice.logged_value,
            gain=gain.value,
            bound=float(bound) if np.isfinite(bound) and unknown is None else -np.inf,
            level=self.level,
            episodes=self.log.once.n_episodes,
            why_not=self._why_not(choice, unknown),
        )

    def _why_not(self, choice: Choice, unknown: Caution | None) -> str | None:
        """Return why there is no valid bound, or None."""
        if self.log.n_groups < RULES.fewest:
            return (
                f"only {self.log.n_groups} independent episodes or groups are left to judge by; at "
                f"least {RULES.fewest} are needed: hold out more of them, or log more"
            )
        declined = unknown or choice.declined
        return None if declined is None else str(declined).rstrip(".")


def extrapolated(blend: Blend, *, seed: int) -> float:
    """Return the excess of the value over that of trees, less the error of the difference.

    A mixture of critics already contains trees; the excess is then 0.
    """
    if len(blend.rungs) > 1:
        return 0.0
    rung = blend.rungs[0]
    target = rung.system.target
    level = float(np.median(target.log.rewards)) if target.endless else 0.0
    rewards = tame(target.log, target.log.rewards - level, basis_for(target.log))
    trees = forest_rung(rung.system, rewards, cross_fit_forests(target, rewards, seed=seed))
    error = jackknife_error(trees.left_out - rung.left_out)
    return max(0.0, rung.value - trees.value - error)
