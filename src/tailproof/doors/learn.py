"""`learn`: a policy from a log; by default candidates are judged on episodes that taught none."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.base import Algorithm, CriticAlgorithm, ExtractingAlgorithm
from tailproof.critics.behaviour import calibration_error
from tailproof.critics.ensembles import Critics, Ensemble
from tailproof.critics.fitted_q import logged_actions
from tailproof.critics.greedy import CriticPolicy, critic_policy
from tailproof.critics.task import Task
from tailproof.critics.tree_values import LearningTask
from tailproof.doors.learned import Learned, extract_policy
from tailproof.doors.readable import closest_tree
from tailproof.doors.source import LogSource, as_profile
from tailproof.errors import (
    CoverageWarning,
    LogError,
    MethodError,
    PartitionError,
    TailproofError,
    TailproofWarning,
)
from tailproof.features import Features
from tailproof.features.ladder import KNOTS, basis_for
from tailproof.learners.cloning import Cloning, TreeCloning
from tailproof.learners.improvement import (
    Constant,
    ForestFQI,
    OneStep,
    WithinSupport,
    common_actions,
)
from tailproof.learners.judge import Judge, Judgement, SeenPairs, unseen_cost
from tailproof.learners.limits import Limits
from tailproof.learners.one_step import PolicyScores, PolicyTree
from tailproof.log.budget import sample_to_budget
from tailproof.log.columns import Summaries
from tailproof.log.folds import episode_marks, split_groups
from tailproof.log.log import Log
from tailproof.log.spaces import Discrete
from tailproof.log.validation import require_squares
from tailproof.methods.catalogue import as_method
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.fit import (
    check_gamma,
    fit_members,
    prepare,
    require_healthy,
    require_known_rest,
    warn_of_the_log,
)
from tailproof.methods.method import Method
from tailproof.parallel import Engine, running
from tailproof.parameters import one_setting, seed_of
from tailproof.policies.forms import action_probabilities
from tailproof.profile.profile import LogProfile
from tailproof.progress import staged
from tailproof.robust.tails import check_level
from tailproof.rules import RULES

_CLIPPED = 2.0  # times log n rewards are clipped on each side if they are skewed


def choose_learner(
    log: Log, features: Features | None = None, *, seed: int = 0
) -> tuple[Method, tuple[str, ...]]:
    """Return the learning method that suits the rewards, and the reasons.

    The shape of the rewards is that of `evaluate` and `diagnose` (`tailproof.profile.shape`). For a
    log larger than memory it is measured on a sample of episodes, drawn with the seed.

    Light tails, or few rewards that differ from the common one: plain FQI, because splitting and
    clipping lose accuracy. Heavy tails with isolated extremes: if symmetric, FQI on Huber-regressed
    rewards, which uses all rows and limits every outlier; if skewed, FQI on rewards with the 2 log n
    largest and smallest clipped, so that the bias vanishes as the log grows. Heavy tails with clustered
    extremes: ROOM-FQI, whose folds keep groups together; ten folds, because clusters spoil some.

    Examples
    --------
    >>> from tailproof.noise import StudentT
    >>> from tailproof.worlds import CartPole
    >>> chosen, reasons = choose_learner(CartPole().log(noise=StudentT(1.2), seed=3))
    >>> print(chosen)
    FQI
    >>> chosen.base.reward
    'huber'
    """
    data = sample_to_budget(log, "The choice of a learner", seed=seed)
    shape = LogProfile(data).reward_shape
    if shape.tails != "heavy":
        chosen, why = named_method("fqi"), "Plain FQI uses every row as it is."
    elif shape.unit not in ("row", "step"):
        folds = min(10, log.n_groups)
        chosen, why = named_method("room-fqi", folds=folds), f"ROOM-FQI with {folds} folds."
    elif shape.skewed:
        rows = round(_CLIPPED * np.log(log.n_transitions))
        chosen = named_method("fqi", clip=rows / log.n_transitions)
        why = f"FQI on rewards with the {rows} largest and the {rows} smallest clipped."
    else:
        chosen, why = named_method("huber-reward"), "FQI on Huber-regressed rewards."
    chosen = chosen.with_settings(features=features or basis_for(data))
    return chosen, (*shape.sentences, why)


#: Smallest allowed probability of an action, relative to that of the likeliest action.
SUPPORTS = (0.3, 0.1, 0.0)
#: Maximum number of candidates, for a progress bar.
MOST = 20
LIKELIEST = "likeliest action"
_TOP = 0.3  # share of the episodes to imitate
_LONG = 3  # mean steps of an episode above which imitating the best episodes is tried


def methods_to_try(
    log: Log, gamma: float, *, linear: Mapping[str, Method] | None = None
) -> dict[str, Method]:
    """Return candidate methods for a log by name, simple ones first.

    `linear` are those of `linear_methods`, if they are known.
    """
    bases: dict[str, Algorithm] = {"constant": Constant(), LIKELIEST: TreeCloning()}
    if log.n_transitions > _LONG * log.n_episodes:
        bases["best episodes, trees"] = TreeCloning(top=_TOP)
        cloning = Cloning(top=_TOP, features=basis_for(log), ridge=1e-4)
        bases["best episodes, linear"] = cloning
    if log.is_bandit:
        bases |= {f"policy tree of depth {depth}": PolicyTree(depth=depth) for depth in (1, 2, 3)}
        bases["linear scores"] = PolicyScores()
    # one-step logs fit each candidate six times, and errors do not accumulate over steps
    supports = SUPPORTS[:1] if log.is_bandit else SUPPORTS
    bases |= {f"one step, support {share:g}": OneStep(support=share) for share in supports}
    if not log.is_bandit:
        for share in SUPPORTS:
            bases[f"advantages, support {share:g}"] = OneStep(form="advantages", support=share)
        careful = OneStep(form="advantages", support=0.1, pessimism=1.0)
        bases["pessimistic advantages"] = careful
    if gamma > 0:
        bases |= {f"forest FQI, support {share:g}": ForestFQI(support=share) for share in SUPPORTS}
    more = linear_methods(log) if linear is None else linear
    return {name: pointwise(base) for name, base in bases.items()} | dict(more)


def linear_methods(log: Log) -> dict[str, Method]:
    """Return the methods that are linear in standardised features."""
    low, high = basis_for(log), basis_for(log, knots=KNOTS)
    pick, _ = choose_learner(log, low)
    found = {"linear": pick}
    if not log.is_bandit:
        assert isinstance(pick.base, CriticAlgorithm)  # FQI, in some form
        found["linear, support 0.3"] = replace(pick, base=WithinSupport(base=pick.base))
    found["splines"] = pick.with_settings(features=high)
    room = named_method("room-fqi", features=low)
    if room.folds <= log.n_groups and room != pick:
        found["ROOM-FQI"] = room
    return found


def pointwise(base: Algorithm) -> Method:
    """Return a method with one member, whose policy is greedy in its critic."""
    return Method(base=base, at="pointwise")


FOLDS = 4
_AHEAD = 1.64  # standard errors by which a rule must be ahead of the best constant action

T = TypeVar("T")
#: Maps a task and a method to the learned policy.
Fit = Callable[[Task, Method], Learned]


class Trial(NamedTuple):
    """A candidate, and its evaluation on episodes that it was not trained on."""

    name: str
    learned: Learned
    judgement: Judgement | None

    @property
    def better(self) -> bool:
        """Whether it is significantly better than the log."""
        return self.judgement is not None and self.judgement.better

    @property
    def bound(self) -> float:
        """A lower bound of its gain."""
        return -np.inf if self.judgement is None else self.judgement.bound


def try_each(
    methods: Mapping[str, Method], ask: Callable[[Method], T], *, advance: Callable[[], object]
) -> tuple[dict[str, T], dict[str, str]]:
    """Ask about each candidate; return the answers, and why the others cannot be learned."""
    answers: dict[str, T] = {}
    failed: dict[str, str] = {}
    for name, method in methods.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TailproofWarning)  # the judge decides
                answers[name] = ask(method)
        except (TailproofError, np.linalg.LinAlgError) as error:
            failed[name] = f"{name} ({str(error).split('.')[0]})"
        advance()
    return answers, failed


@dataclass(frozen=True, eq=False)
class RowProbabilities:
    """The action probabilities of cross-fitted policies in the rows of one log, in its order."""

    by_row: FloatArray  # (n, A)

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a | s) of each row, (n, A)."""
        if len(states) != len(self.by_row):
            raise ValueError(
                f"These probabilities are of {len(self.by_row)} rows. Got {len(states)} instead."
            )
        return self.by_row


@dataclass(frozen=True, eq=False)
class CrossFit:
    """The score of each candidate in each row, trained without the row's fold and another fold.

    `values` are Γ(s, π(s)) of a candidate by the other left-out fold and by row, (FOLDS, n); 0 in that
    fold.
    """

    log: Log
    fold: IntArray  # of each row, (n,); fold 0 is held out at the end
    scores: FloatArray  # Γ(s, a) of all rows, (n, A)
    values: Mapping[str, FloatArray]
    methods: Mapping[str, Method]  # of the candidates
    failed: Mapping[str, str] = field(default_factory=dict)  # reasons, of those not learned
    constants: Sequence[int] | None = None  # actions that may always be taken; None for common ones
    pools_from: float = np.inf  # the reward from which sizes are pooled in the scores

    @property
    def assumed(self) -> str:
        """What candidates were fitted and chosen by, in a sentence, if it was assumed."""
        if not np.isfinite(self.pools_from):
            return ""
        return (
            f" Candidates were fitted and chosen with sizes beyond about {self.pools_from:.3g} pooled "
            f"over all actions; the test does not assume that sizes are alike."
        )

    @classmethod
    def of(
        cls,
        whole: LearningTask,
        fold: IntArray,
        *,
        fit: Fit,
        advance: Callable[[], object],
        constants: Sequence[int] | None = None,
    ) -> CrossFit:
        """Train every candidate without each pair of folds, and score it on both."""
        log, scores = whole.log, whole.scores
        values, methods, failed = dict[str, FloatArray](), dict[str, Method](), dict[str, str]()
        # features are of states alone, and the shape of all rewards names no policy
        linear = linear_methods(log)
        for pair in combinations(range(FOLDS), 2):
            task, rows = task_without(whole, fold, pair), np.flatnonzero(np.isin(fold, pair))
            every = methods_to_try(task.log, 0.0, linear=linear).items()
            # constants need no training
            tried = {name: each for name, each in every if not isinstance(each.base, Constant)}

            def score(
                method: Method, task: LearningTask = task, rows: IntArray = rows
            ) -> FloatArray:
                policy = fit(task, method).policy
                taken = action_probabilities(policy, log.states[rows], log.n_actions)
                return np.asarray((taken * scores[rows]).sum(axis=1))

            found, not_learned = try_each(tried, score, advance=lambda: None)
            for name, by_row in found.items():
                own = values.setdefault(name, np.zeros((FOLDS, len(fold))))
                own[sum(pair) - fold[rows], rows] = by_row  # by the other fold that was left out
            methods |= tried
            failed |= not_learned
            advance()
        kept = {name: each for name, each in values.items() if name not in failed}
        pooled = whole.pooled[1]
        return cls(log, fold, scores, kept, methods, failed, constants, pools_from=pooled)

    def chosen(self, left_out: int) -> tuple[str, Method]:
        """Return the best candidate on the other folds: a constant unless a rule is clearly better."""
        own = self.fold != left_out
        constants = common_actions(self.log) if self.constants is None else self.constants
        means = {action: self.scores[own, action].mean() for action in constants}
        best = max(means, key=lambda action: means[action])
        bounds = {}
        for name, values in self.values.items():
            ahead = values[left_out, own] - self.scores[own, best]
            # standard error of a mean over rows with independent groups
            sums = np.bincount(self.log.group_of_episode[own], weights=ahead - ahead.mean())
            error = float(np.sqrt((sums**2).sum())) / len(ahead)
            bounds[name] = float(ahead.mean()) - _AHEAD * error
        leading = max(bounds, key=lambda name: bounds[name], default=None)
        if leading is None or bounds[leading] <= 0:
            return constant(self.log, best)
        return leading, self.methods[leading]


def constant(log: Log, action: int) -> tuple[str, Method]:
    """Return the candidate that always takes one action."""
    label = log.action_space.label(action)  # type: ignore[union-attr]
    return f"Always {label}", pointwise(Constant(action=action))


def four_folds(log: Log, judging: float, *, seed: int) -> IntArray:
    """Split whole groups into four folds, the first with a given share of them, (n,)."""
    count = log.n_groups
    first = min(max(1, round(judging * count)), count - (FOLDS - 1))
    others = 1 + np.arange(count - first) % (FOLDS - 1)
    parts = np.append(np.zeros(first, dtype=np.intp), others)
    return split_groups(log, parts, np.random.default_rng([seed, 2]))


def task_without(whole: LearningTask, fold: IntArray, left_out: tuple[int, ...]) -> LearningTask:
    """Return the task of the other folds; the behaviour, which uses no rewards, is of all folds."""
    log = whole.log.take(np.flatnonzero(~np.isin(fold, left_out)))
    starts, known = log.first_states, whole.behaviour
    return LearningTask(log, 0.0, None, starts, seed=whole.seed, known_behaviour=known)


def judged_rule(found: CrossFit, whole: LearningTask, judge: Judge, *, fit: Fit) -> Trial:
    """Return the policy learned without the first fold, and its cross-fitted evaluation on all rows.

    For each fold a candidate is chosen on the other three by scores of models not trained on the scored
    rows, trained on these three, and evaluated in the fold, which was used neither for training nor for
    choosing. The result evaluates the learning procedure rather than one of its four policies.
    """
    log: Log = whole.log
    taken, unseen = np.zeros((log.n_transitions, log.n_actions)), np.zeros(log.n_transitions)
    learned = []
    for k in range(FOLDS):
        task = task_without(whole, found.fold, (k,))
        learned.append(fit(task, found.chosen(k)[1]))
        own = np.flatnonzero(found.fold == k)
        taken[own] = action_probabilities(learned[k].policy, log.states[own], log.n_actions)
        seen = SeenPairs.of(task.log)
        if seen is not None:
            unseen[own] = seen.unseen(log.states[own], taken[own])
    judgement = judge.ask(RowProbabilities(taken))
    if judgement is not None:
        cost = unseen_cost(float(unseen.mean()), log, judgement.value, 0.0)
        judgement = replace(judgement, bound=judgement.bound - cost)
    return Trial(found.chosen(0)[0], learned[0], judgement)


def judged_constant(
    whole: LearningTask, judge: Judge, *, fit: Fit, actions: Sequence[int]
) -> Trial:
    """Return the constant action with the largest bound of its gain.

    Constants need no training, so all rows may choose and test them, with the error probability divided
    by their number. Choosing on some rows and testing on others would be wrong more often: with two
    good actions, large rewards in one fold change which action is chosen and tested in the others.
    """
    log: Log = whole.log
    constants = [constant(log, action) for action in actions]
    level = 1 - (1 - judge.level) / len(constants)
    strict = replace(judge, level=level, seen=SeenPairs.of(log))
    trials = []
    for name, method in constants:
        learned = fit(whole, method)
        assert isinstance(learned.policy, CriticPolicy)
        untaught = replace(learned.policy, taught=None)  # no row has taught it anything
        learned = replace(learned, policy=untaught, taught=None)
        trials.append(Trial(name, learned, strict.ask(learned.policy)))
    best = max(trials, key=lambda trial: trial.bound)
    if best.judgement is None:
        return best
    return best._replace(judgement=replace(best.judgement, level=judge.level))


@dataclass(frozen=True)
class Form:
    """The form of the policies that are chosen and judged.

    Attributes
    ----------
    readable
        Whether they are the small trees closest to what was fitted.
    limits
        What they must obey.
    """

    readable: bool = False
    limits: Limits = field(default_factory=Limits)

    def __call__(self, learned: Learned) -> Learned:
        """Return a policy in this form."""
        found = self._limited(learned)
        # a tree that stands for a limited policy may exceed its limits
        return self._limited(closest_tree(found)) if self.readable else found

    def free(self, log: Log) -> list[int]:
        """Return the actions that may be taken in every row; all, if every one is limited."""
        return self.limits.free(log) or [*range(log.n_actions)]

    def _limited(self, learned: Learned) -> Learned:
        if not self.limits:
            return learned
        if learned.task is None or not isinstance(learned.policy, CriticPolicy):
            raise MethodError(
                f"Limits are for policies that score discrete actions. {learned.method} learns "
                f"another.",
                argument="at_most" if self.limits.at_most else "never",
            )
        policy = self.limits.applied(learned.policy, learned.task.log, learned.method.aggregate)
        return replace(learned, policy=policy, critic=policy.critic, history=np.zeros((0, 1)))


_CHOOSES = 1 / 3  # share of the groups not held out that choose; the others train
_SAME = 0.005  # mean distance of logged propensities within which a policy reproduces them
_FEWEST = 6  # smallest number of groups for three parts


class ThreeParts(NamedTuple):
    """Three logs of different groups of episodes."""

    train: Log
    choose: Log
    test: Log


def three_parts(log: Log, judging: float, *, seed: int) -> ThreeParts:
    """Split the groups of a log at random into parts for training, choosing and testing."""
    if not 0 < judging < 1:
        raise PartitionError(
            f"Without a method, learn keeps episodes to judge by: holdout must lie in (0, 1). Got "
            f"{judging!r} instead; name a method to learn from all episodes."
        )
    count = log.n_groups
    if count < _FEWEST:
        unit = "episodes" if log.group_ids is None else "groups"
        raise PartitionError(
            f"Without a method, learn fits, chooses and judges on different {unit}, and needs at "
            f"least {_FEWEST} of them. Got {count}; name a method, such as method='fqi'."
        )
    last = min(max(1, round(judging * count)), count - 3)
    middle = min(max(1, round(_CHOOSES * (count - last))), count - last - 1)
    parts = np.repeat([2, 1, 0], [last, middle, count - last - middle])
    of_episode = split_groups(log, parts, np.random.default_rng([seed, 2]))
    return ThreeParts(*(log.take(np.flatnonzero(of_episode == k)) for k in range(3)))


@dataclass(frozen=True, kw_only=True)
class CarefulLearning:
    """Learns a policy that is significantly better than the log, or keeps the logged behaviour.

    Candidates are trained on half of the episodes. The one with the largest lower bound of its gain on
    a quarter is chosen, and tested on the last quarter, so that the reported gain is independent of
    the choice. One-step logs use cross-fitting instead.
    """

    profile: LogProfile
    gamma: float
    seed: int
    holdout: float  # share of the groups to hold out for the test
    at_least: float  # confidence with which the policy must be better than the logged one
    fit: Fit  # fits a method
    advance: Callable[[], object]  # called after each candidate
    form: Form = field(default_factory=Form)  # in which candidates are chosen and judged

    def candidate(self, task: Task, method: Method) -> Learned:
        """Fit a method, and return its policy in the form in which it is chosen and judged."""
        return self.form(self.fit(task, method))

    @property
    def log(self) -> Log:
        """The log."""
        return self.profile.log

    def learn(self) -> Learned:
        """Return the learned policy, with the held-out episodes."""
        parts = three_parts(self.log, self.holdout, seed=self.seed)
        if len(np.unique(parts.train.actions)) < 2:  # other actions are too rare to learn from
            said = "The log takes nearly always the same action, and no candidate could be learned."
            learned = self.kept(said)
        elif self.log.is_bandit:
            learned = self._from_rows()
        else:
            learned = self._from_steps(parts)
        return replace(learned, held_out=parts.test)

    def _from_rows(self) -> Learned:
        """Learn from one-step episodes.

        There are four folds of whole groups. The three that are not held out choose between rules and
        constants. A rule is tested by `judged_rule`; if no rule beats the best constant, or it is not
        significantly better than the log, constants are tried.
        """
        log, free = self.log, self.form.free(self.log)
        constants = [each for each in common_actions(log) if each in free]
        fold = four_folds(log, self.holdout, seed=self.seed)
        whole = LearningTask(log, 0.0, None, log.first_states, seed=self.seed)
        found = CrossFit.of(
            whole, fold, fit=self.candidate, advance=self.advance, constants=constants
        )
        judge = Judge(self.profile, 0.0, self.at_least, self.seed + 2, None)
        trial = None
        if found.chosen(0)[0] in found.methods:
            trial = judged_rule(found, whole, judge, fit=self.candidate)
        if trial is None or not trial.better:
            trial = judged_constant(whole, judge, fit=self.candidate, actions=constants)
        failed = found.failed.values()
        if not trial.better:
            why = too_little(trial) + found.assumed
            return replace(self, gamma=0.0).kept(why, failed, trial.judgement)
        said = f"{trial.name} was the best of {len(found.methods)} rules and all constant actions, "
        if isinstance(trial.learned.method.base, Constant):
            said += f"which need no fitting: all {self.log.once.n_episodes:,} episodes judge them."
        else:
            said += "scored by episodes from which it was not learned."
        return _proposed(trial, said + found.assumed, failed)

    def _from_steps(self, parts: ThreeParts) -> Learned:
        """Learn from episodes of several steps."""
        task = LearningTask(parts.train, self.gamma, None, parts.train.first_states, seed=self.seed)
        clone = behaviour(self.fit(task, pointwise(TreeCloning())))
        seen = SeenPairs.of(parts.train)

        def judge(part: Log, stream: int) -> Judge:
            bare = Judge(
                self.profile.part(part), self.gamma, self.at_least, self.seed + stream, seen
            )
            return bare.after(clone.policy)

        trials, failed = self._tried(task, judge(parts.choose, 1))
        best = max(trials, key=lambda trial: trial.bound) if trials else None
        verdict = None
        if best is not None and best.better:
            verdict = judge(parts.test, 2).ask(best.learned.policy)
        if best is not None and verdict is not None and verdict.better:
            said = (
                f"{best.name} was the best of {len(trials)} candidates on "
                f"{parts.choose.once.n_episodes:,} episodes from which they were not learned."
            )
            return _proposed(best._replace(judgement=verdict), said, failed)
        other = blind_choice(judge(self.log, 3), trials)
        if other is not None and other.judgement is not None:
            said = (
                f"{other.name} needs no rewards to be learned, and is better than the log by all "
                f"{self.log.once.n_episodes:,} episodes."
            )
            found = replace(other.judgement, level=self.at_least)
            return replace(other.learned, judged=found, improves=True, reasons=(said,))
        said = too_little(best)
        if best is not None and best.better:
            said = (
                f"The best candidate, {best.name}, was not better on episodes that neither fitted nor "
                f"chose it."
            )
        return self.kept(said, failed, verdict)

    def _tried(self, task: Task, judge: Judge) -> tuple[list[Trial], list[str]]:
        # several candidates often learn the same policy; with the bound that each had to beat
        known: dict[bytes, tuple[Judgement, float]] = {}
        tried, ahead = methods_to_try(task.log, task.gamma), -np.inf

        def judged(method: Method) -> tuple[Learned, Judgement]:
            nonlocal ahead
            learned = self.candidate(task, method)
            acts = judge.acts(learned.policy)
            # `blind_choice` asks whether this one is better than the log
            to_beat = min(ahead, 0.0) if method is tried.get(LIKELIEST) else ahead
            if acts not in known or known[acts][1] > to_beat:
                known[acts] = judge(learned.policy, to_beat=to_beat), to_beat
            ahead = max(ahead, known[acts][0].bound)
            return learned, known[acts][0]

        found, failed = try_each(tried, judged, advance=self.advance)
        return [Trial(name, *each) for name, each in found.items()], [*failed.values()]

    def kept(
        self, said: str, failed: Iterable[str] = (), judged: Judgement | None = None
    ) -> Learned:
        """Return the logged behaviour, cloned from all episodes without using rewards."""
        task = Task(self.log, self.gamma, None, self.log.first_states, seed=self.seed)
        clone = replace(self.fit(task, pointwise(TreeCloning(exact=True))), taught=None)
        kept = behaviour(clone)
        reasons = (said, self._how_close(kept.policy), *_failures(failed))
        if self.form.limits:
            reasons += ("What was logged is kept as it was: it need not obey the limits.",)
        return replace(kept, improves=False, reasons=reasons, judged=judged)

    def _how_close(self, policy: Any) -> str:
        """Return how far the kept policy is from the logged behaviour, and what that may cost."""
        log = self.log
        taken = action_probabilities(policy, log.states, log.n_actions)
        if log.propensity is None:
            far = (
                f"by {calibration_error(taken, log.actions):.1%} from how often the log takes them"
            )
        else:
            off = np.abs(taken[np.arange(log.n_transitions), log.actions] - log.propensity)
            if off.mean() < _SAME:
                return "The policy returned reproduces the logged propensities."
            most = float(np.quantile(off, 0.99))
            far = f"by {off.mean():.1%} from the logged propensities ({most:.0%} in one row of 100)"
        found = Judge(LogProfile(log), self.gamma, self.at_least, self.seed + 4, None).ask(policy)
        cost = (
            "" if found is None else f", which changes the value by an estimated {found.gain:+.2g}"
        )
        return f"The policy returned imitates the log: its probabilities differ {far}{cost}."


def blind_choice(judge: Judge, trials: Sequence[Trial]) -> Trial | None:
    """Return the policy of the likeliest action, if it is significantly better on all episodes.

    It is learned without rewards, so it cannot overfit their noise, and all episodes may test it, at
    half the error probability. It must also be better on the episodes for choosing.
    """
    strict = replace(judge, level=1 - (1 - judge.level) / 2)
    for trial in trials:
        if trial.name == LIKELIEST and trial.better:
            said = strict.ask(trial.learned.policy)
            return trial._replace(judgement=said) if said and said.better else None
    return None


def behaviour(clone: Learned) -> Learned:
    """Return a cloned behaviour that samples actions with the log's probabilities."""
    return replace(clone, policy=clone.softmax(1.0))


def _proposed(trial: Trial, said: str, failed: Iterable[str]) -> Learned:
    reasons = (said, *trial.learned.reasons, *_failures(failed))
    return replace(trial.learned, judged=trial.judgement, improves=True, reasons=reasons)


def too_little(trial: Trial | None) -> str:
    """Return why the best candidate is not proposed."""
    if trial is None or trial.judgement is None:
        return "No candidate could be learned from this log, or judged."
    found = trial.judgement
    on = f"on {found.episodes:,} episodes from which it was not learned"
    if not found.gain > 0:
        return f"The best candidate, {trial.name}, was not ahead of the log {on}: {found.gain:.4g}."
    limit = "there is no bound of its gain"
    if found.why_not is not None:
        limit = found.why_not
    elif np.isfinite(found.bound):
        limit = f"with {found.level:.0%} confidence it may be worse by {-found.bound:.4g}"
    return (
        f"The best candidate, {trial.name}, was ahead of the log by {found.gain:.4g} {on}, but "
        f"{limit}."
    )


def _failures(failed: Iterable[str]) -> tuple[str, ...]:
    listed = "; ".join(failed)
    return (f"Not learned: {listed}.",) if listed else ()


_CAREFUL = 0.25  # share of the groups that the default holds out to test the learned policy
_JUDGED = 0.2  # the same for continuous actions


@staged("Learning")
def learn(
    log: LogSource,
    *,
    method: str | Method = "auto",
    gamma: float | None = None,
    seed: int | None = None,
    random_state: int | None = None,
    holdout: float | None = None,
    at_least: float = 0.9,
    readable: bool = False,
    at_most: Mapping[str, float | tuple[float, str]] | Sequence[str] = (),
    never: Sequence[str] = (),
    memory: bool = False,
    engine: str | Engine | None = None,
    n_jobs: int | None = None,
    advance: Callable[[], object] = lambda: None,
    **columns: Any,
) -> Learned:
    """Learn a policy from logged data.

    The policy chooses only among logged actions: there is no data on the others, and a
    `CoverageWarning` names them.

    Parameters
    ----------
    log
        The logged transitions, in memory or on disk. On disk, the linear methods (FQI, LSPI and their
        folds) make one pass over the log per iteration.
    method
        A name of the catalogue's learning rows (`tailproof methods` lists them), `method(name, ...)` or
        a `Method` whose base learns: `FQI`, `LSPI`, …. With ``"auto"``, candidates from simple
        to flexible are trained on half of the episodes; the one with the highest lower bound of its
        gain over the log is chosen on a quarter and tested on the last quarter (one-step logs are
        cross-fitted, so that all episodes test). If it is not significantly better than the logged
        policy, `Learned.improves` is False and the policy is the cloned logged behaviour
        (`docs/learning.md`).
    gamma
        The discount. 1 needs every episode to terminate; a log of one-step episodes needs none.
    seed
        Seeds the partition and everything else that is drawn.
    random_state
        Another name for `seed`, as in scikit-learn.
    holdout
        Share of the episodes (or groups, if the log has them) to hold out from learning, for
        `Learned.evaluate`. By default 0, and a quarter for ``method="auto"`` (a fifth where actions
        are continuous).
    at_least
        For ``method="auto"``: the confidence with which a policy must be better than the logged one to
        be proposed. 1 − `at_least` is the risk of proposing a worse one. For continuous actions at
        least 0.95.
    readable
        Learn a rule that can be read: a small tree or a single action. What is learned otherwise is
        replaced by the small tree closest to it before it is chosen and judged; see
        `Learned.readable`.
    at_most
        The largest share of rows that may get an action, ``{"voucher": 0.2}``, or the largest mean cost
        of a row with the state column of its cost, ``{"voucher": (1.5, "price")}``: the rows that gain
        most for a unit of it get the action. Of one-step logs; on new rows the share holds as far as
        they are like those of the log.
    never
        Rows in which an action must not be taken: ``["discount where region=north"]``, by a state
        column of text, truth values or numbers (= != < <= > >=). The actions that a log says are not
        available (``available=``) are never taken there, if these columns are state columns too.
    memory
        Where the logged columns do not tell all that matters: let the policy depend on averages of what
        came earlier in the episode too, which whoever runs it must keep (`Learned.past` has them and
        their update; `Learned.predict` and `tailproof apply` compute them from a table). By default it
        depends on the logged columns only, and the averages merely judge it.
    engine
        Where passes over the log run; see `evaluate`.
    n_jobs
        Instead of `engine`: the number of threads, −1 for one per core, as in scikit-learn.
    advance
        For ``method="auto"``: called after each candidate, for a progress bar.
    columns
        Where `log` is a frame, a file or another source of a log: how to read it, as in `read_log`
        (``action="offer", reward="spend", state=["age", "shop"]``).

    Examples
    --------
    >>> from tailproof import learn
    >>> from tailproof.noise import StudentT
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> log = world.log(episodes=100, noise=StudentT(df=1.5), seed=1)
    >>> learned = learn(log, method="room-fqi", gamma=0.99, holdout=0.2)
    >>> print(learned)
    The policy is learned and not tested: no episodes were held out.
    Learned by FQI, split in 5, median at backup from 80 episodes.
    >>> learned.policy(log.states[:3]).shape
    (3,)
    """
    profile = as_profile(log, columns, learn)
    seed, log = seed_of(seed, random_state), profile.log
    form = Form(readable, Limits.of(at_most, never, log))
    if memory and (form.limits or method != "auto" or not log.is_discrete):
        raise MethodError(
            "A memory is for the default method, discrete actions and policies without limits: leave "
            "out memory=True, or the method and the limits.",
            argument="memory",
        )
    with running(one_setting(engine=engine, n_jobs=n_jobs)) as where:
        if method == "auto":
            check_level(at_least)
            learned = _learn_by_default(
                profile, gamma, seed, holdout, at_least, form, where, advance, memory=memory
            )
        else:
            learned = _learned(
                profile, _learning_method(method), gamma, seed, holdout or 0.0, where
            )
            learned = form(learned)
    counted = log.once
    return replace(learned, log_size=(counted.n_transitions, counted.n_episodes))


def _learned(
    profile: LogProfile,
    chosen: Method,
    gamma: float | None,
    seed: int,
    holdout: float,
    engine: Engine,
) -> Learned:
    log = profile.log
    if hasattr(chosen.base, "for_log"):
        chosen = replace(chosen, base=chosen.base.for_log(log))
    taught, held_out = split_off(log, holdout, seed=seed)
    data = prepare(taught, chosen, seed=seed)
    discount = check_gamma(gamma, data)
    warn_of_the_log(profile.of(data), discount)
    task = Task(data, discount, None, data.first_states, seed=seed, engine=engine)
    return replace(_taught(task, chosen), held_out=held_out)


def _taught(task: Task, chosen: Method) -> Learned:
    """Fit a method to the log of a task, and extract its policy."""
    data, seed = task.log, task.seed
    extracting = isinstance(chosen.base, ExtractingAlgorithm)
    actions = () if extracting else tuple(_actions_to_choose_from(data).tolist())
    members = fit_members(task, chosen, np.random.default_rng(seed))
    assert members.fitted is not None  # `_learning_method` lets only critic algorithms through
    critics = members.fitted.critics
    values = _member_values(critics, task, actions)
    healthy = critics.healthy() & np.isfinite(values)
    require_healthy(healthy, values, data, members.folds)
    if not healthy.all():
        critics = critics.subset(np.flatnonzero(healthy))
    critic = Ensemble(critics, chosen.aggregate)
    fitted = replace(members.fitted, critics=critics)
    taught = episode_marks(task.log)
    counted = data.once
    like = None
    if not extracting:
        like = critic_policy(
            critic,
            data.action_space,
            actions,
            state_names=data.state_names,
            encoder=data.encoder,
            taught=taught,
        )
    policy, training = extract_policy(chosen, critic, fitted, task, seed=seed, like=like)
    return Learned(
        policy=policy,
        critic=critic,
        history=getattr(fitted, "training", fitted.history),
        bad_folds=tuple(int(k) for k in np.flatnonzero(~healthy)),
        method=chosen,
        gamma=task.gamma,
        seed=seed,
        n_transitions=counted.n_transitions,
        n_episodes=counted.n_episodes,
        action_space=data.action_space,
        state_names=data.state_names,
        encoder=data.encoder,
        task=task,
        policy_history=training,
        reasons=fitted.notes,
        taught=taught,
    )


def _learn_by_default(
    profile: LogProfile,
    gamma: float | None,
    seed: int,
    holdout: float | None,
    at_least: float,
    form: Form,
    engine: Engine,
    advance: Callable[[], object],
    *,
    memory: bool,
) -> Learned:
    """Learn with `CarefulLearning` from discrete actions, with networks from continuous ones."""
    log = profile.log
    if not log.is_discrete:
        from tailproof.deep.choosing import learn_continuous  # torch is needed only here

        if form.readable:
            raise MethodError(
                "A readable rule decides between discrete actions. The actions of this log are "
                "continuous.",
                argument="readable",
            )
        share = _JUDGED if holdout is None else holdout
        return learn_continuous(
            log, gamma=gamma, seed=seed, holdout=share, at_least=at_least, engine=engine
        )
    data = sample_to_budget(log, "learn", most=RULES.learn_rows, seed=seed)
    discount = check_gamma(gamma, data)
    require_squares(data.rewards)
    require_known_rest(data, discount)
    profile = profile.of(data)
    warn_of_the_log(profile, discount, adds_columns=True)
    _actions_to_choose_from(data)

    def fit(task: Task, chosen: Method) -> Learned:
        if not chosen.clip:
            return _taught(task, chosen)
        return _taught(replace(task, log=prepare(task.log, chosen, seed=seed)), chosen)

    careful = CarefulLearning(
        profile=profile,
        gamma=discount,
        seed=seed,
        holdout=_CAREFUL if holdout is None else holdout,
        at_least=at_least,
        form=form,
        fit=fit,
        advance=advance,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", CoverageWarning)  # given above, once for all parts
        return _with_memory(careful) if memory else careful.learn()


def _with_memory(careful: CarefulLearning) -> Learned:
    """Learn a policy that reads averages of the episode so far, or keep the logged behaviour."""
    profile = careful.profile
    if profile.memory is None:
        said = "No memory is needed: the logged columns tell what came earlier in an episode does."
        learned = careful.learn()
        return replace(learned, reasons=(*learned.reasons, said))
    past = Summaries.fit(profile.log, profile.memory.columns)
    learned = replace(careful, profile=profile.widened(past)).learn()
    if learned.improves:
        reasons = (*learned.reasons, f"{past} `Learned.past` has them and their update.")
        return replace(learned, past=past, encoder=profile.log.encoder, reasons=reasons)
    return replace(
        careful.kept(learned.reasons[0], judged=learned.judged),
        held_out=three_parts(profile.log, careful.holdout, seed=careful.seed).test,
    )


def split_off(log: Log, share: float, *, seed: int) -> tuple[Log, Log | None]:
    """Return the log without a random share of its groups, and the log of that share.

    Examples
    --------
    >>> from tailproof.worlds import CartPole
    >>> learning, judging = split_off(CartPole().log(episodes=10, steps=5), 0.2, seed=0)
    >>> learning.n_episodes, judging.n_episodes
    (8, 2)
    """
    if not 0 <= share < 1:  # NaN fails too
        raise PartitionError(f"holdout must lie in [0, 1). Got {share!r} instead.")
    if share == 0:
        return log, None
    kept_away = max(1, round(share * log.n_groups))
    if kept_away >= log.n_groups:
        unit = "episodes" if log.group_ids is None else "groups"
        raise PartitionError(
            f"holdout={share:g} of {log.n_groups} {unit} leaves none to learn from; use a smaller "
            f"share or a longer log."
        )
    rng = np.random.default_rng([seed, 2])
    kept = split_groups(log, np.arange(log.n_groups) >= kept_away, rng)
    return log.take(np.flatnonzero(kept)), log.take(np.flatnonzero(~kept))


def _learning_method(method: str | Method) -> Method:
    chosen = as_method(method)
    name = type(chosen.base).__name__
    if not chosen.base.capabilities.learns:
        raise MethodError(
            f"{name} evaluates a policy and cannot look for one. Learn with FQI() or LSPI(), for "
            f"instance method='room-fqi', or call evaluate."
        )
    if chosen.at == "value":
        if chosen.folds > 1:
            raise MethodError(
                f"A policy cannot be taken from {chosen.folds} numbers: learning combines members at "
                f"'pointwise' or 'backup'. Got at='value'."
            )
        chosen = replace(chosen, at="pointwise")
    return chosen


def _actions_to_choose_from(log: Log) -> IntArray:
    """Return the logged actions; warn of unlogged ones, and raise if there is only one."""
    logged = logged_actions(log)
    space = log.action_space
    assert isinstance(space, Discrete)  # `logged_actions` has refused continuous ones
    if len(logged) == 1:
        raise LogError(
            f"There is nothing to choose between: of {space.n} actions the log takes only "
            f"{space.label(int(logged[0]))}. Learning needs episodes in which other actions were "
            f"tried."
        )
    missing = sorted(set(range(space.n)) - set(logged.tolist()))
    if missing:
        names = ", ".join(space.label(action) for action in missing)
        warnings.warn(
            f"The log never takes action{'s' if len(missing) > 1 else ''} {names}. Nothing is known of "
            f"their value: the critics leave them out of every backup, and the policy never chooses "
            f"them.",
            CoverageWarning,
            stacklevel=3,
        )
    return logged


def _member_values(critics: Critics, task: Task, actions: tuple[int, ...]) -> FloatArray:
    """Return each member's own estimate of its value, the mean of max_a Q_k(s₀, a), (K,)."""
    log, starts = task.log, task.starts()[0]
    with np.errstate(invalid="ignore", over="ignore"):  # diverged members are removed later
        if log.is_discrete:
            values = critics.action_values(starts, log.n_actions)
            values = values[:, list(actions)] if actions else values
            return np.asarray(values.max(axis=1).mean(axis=1))
        return np.asarray(critics.values(log.states, log.actions).mean(axis=1))
