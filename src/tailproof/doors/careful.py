"""Candidates for a policy, and who judges them: better than the log beyond a stated risk, or kept.

Every candidate is fitted to some episodes (`try_each`) and judged by others. Episodes of several steps
are split in three, to teach, to choose and to test. One-step logs take turns (`CrossFit`): every row
tests what it did not teach.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import combinations
from typing import Any, NamedTuple, TypeVar

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.base import Algorithm, CriticAlgorithm
from tailproof.critics.behaviour import calibration_error
from tailproof.critics.greedy import CriticPolicy
from tailproof.critics.task import Task
from tailproof.critics.tree_values import LearningTask
from tailproof.critics.trees import supported
from tailproof.doors.learned import Learned
from tailproof.doors.readable import closest_tree
from tailproof.errors import MethodError, PartitionError, TailproofError, TailproofWarning
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
from tailproof.learners.one_step import PolicyScores, PolicyTree, never_logged
from tailproof.log.budget import sample_to_budget
from tailproof.log.columns import Summaries
from tailproof.log.folds import split_groups
from tailproof.log.log import Log
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method
from tailproof.policies.forms import action_probabilities
from tailproof.profile.profile import LogProfile

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
#: Number of candidates where there are few actions, for a progress bar.
MOST = 20
LIKELIEST = "likeliest action"
_TOP = 0.3  # share of the episodes to imitate
_LONG = 3  # mean steps of an episode above which imitating the best episodes is tried


def supports_to_try(task: LearningTask) -> list[float]:
    """Return the supports that allow different actions somewhere in the log, the strictest first."""
    shares = task.behaviour(np.vstack([task.log.states, task.log.next_states]))
    allowed = [supported(shares, share) for share in SUPPORTS]
    new = [
        not any(np.array_equal(each, other) for other in allowed[:k])
        for k, each in enumerate(allowed)
    ]
    return [share for share, kept in zip(SUPPORTS, new, strict=True) if kept]


def methods_to_try(
    log: Log,
    gamma: float,
    *,
    supports: Sequence[float] = SUPPORTS,
    linear: Mapping[str, Method] | None = None,
) -> dict[str, Method]:
    """Return candidate methods for a log by name, simple ones first; constant actions are others.

    `linear` are those of `linear_methods`, if they are known.
    """
    bases: dict[str, Algorithm] = {LIKELIEST: TreeCloning()}
    if log.n_transitions > _LONG * log.n_episodes:
        bases["best episodes, trees"] = TreeCloning(top=_TOP)
        cloning = Cloning(top=_TOP, features=basis_for(log), ridge=1e-4)
        bases["best episodes, linear"] = cloning
    if log.is_bandit:
        bases |= {f"policy tree of depth {depth}": PolicyTree(depth=depth) for depth in (1, 2, 3)}
        bases["linear scores"] = PolicyScores()
        # each candidate is fitted six times, and errors do not accumulate over steps
        supports = supports[:1]
    bases |= {f"one step, support {share:g}": OneStep(support=share) for share in supports}
    if not log.is_bandit:
        for share in supports:
            bases[f"advantages, support {share:g}"] = OneStep(form="advantages", support=share)
        careful = OneStep(form="advantages", support=0.1, pessimism=1.0)
        bases["pessimistic advantages"] = careful
    if gamma > 0:
        bases |= {f"forest FQI, support {share:g}": ForestFQI(support=share) for share in supports}
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


def constants(log: Log, actions: Iterable[int]) -> dict[str, Method]:
    """Return the candidates that always take one action, by name."""
    label = log.action_space.label  # type: ignore[union-attr]
    return {f"Always {label(action)}": pointwise(Constant(action=action)) for action in actions}


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

    def by(self, judge: Judge) -> Trial:
        """Return the candidate with the judgement of another judge."""
        return self._replace(judgement=judge.ask(self.learned.policy))

    @property
    def bound(self) -> float:
        """A lower bound of its gain."""
        return -np.inf if self.judgement is None else self.judgement.bound


def try_each(
    methods: Mapping[str, Method],
    ask: Callable[[str, Method], T],
    *,
    advance: Callable[[], object],
) -> tuple[dict[str, T], dict[str, str]]:
    """Ask about each candidate; return the answers, and why the others cannot be learned."""
    answers: dict[str, T] = {}
    failed: dict[str, str] = {}
    for name, method in methods.items():
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TailproofWarning)  # the judge decides
                answers[name] = ask(name, method)
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


_FOLDS = 4
_AHEAD = 1.64  # standard errors by which a rule must be ahead of the best constant action


@dataclass(frozen=True, eq=False)
class CrossFit:
    """Candidates for a one-step log by turns: each was taught without the fold of the rows it scores.

    `values` are the scores Γ(s, π(s)) of a rule by the other fold that it was taught without, and by
    row, (4, n); 0 in that fold.
    """

    whole: LearningTask
    fold: IntArray  # of each row, (n,); fold 0 is held out at the end
    fit: Fit
    always: Sequence[int]  # actions that may always be taken
    rules: Mapping[str, Method]
    values: Mapping[str, FloatArray]  # of the rules that could be learned
    failed: Mapping[str, str] = field(default_factory=dict)  # reasons, of the others

    @classmethod
    def of(
        cls,
        whole: LearningTask,
        fold: IntArray,
        always: Sequence[int],
        *,
        fit: Fit,
        advance: Callable[[], object],
    ) -> CrossFit:
        """Teach every rule without each pair of folds, and score it on both."""
        log, scores = whole.log, whole.scores
        values, rules, failed = dict[str, FloatArray](), dict[str, Method](), dict[str, str]()
        # features are of states alone, and the shape of all rewards names no policy
        linear = linear_methods(log)
        for pair in combinations(range(_FOLDS), 2):
            task, rows = _without(whole, fold, pair), np.flatnonzero(np.isin(fold, pair))

            def score(
                _: str, method: Method, task: LearningTask = task, rows: IntArray = rows
            ) -> FloatArray:
                policy = fit(task, method).policy
                taken = action_probabilities(policy, log.states[rows], log.n_actions)
                return np.asarray((taken * scores[rows]).sum(axis=1))

            tried = methods_to_try(task.log, 0.0, linear=linear)
            found, not_learned = try_each(tried, score, advance=lambda: None)
            for name, by_row in found.items():
                own = values.setdefault(name, np.zeros((_FOLDS, len(fold))))
                own[sum(pair) - fold[rows], rows] = by_row  # by the other fold that was left out
            rules |= tried
            failed |= not_learned
            advance()
        kept = {name: each for name, each in values.items() if name not in failed}
        return cls(whole, fold, fit, always, rules, kept, failed)

    @cached_property
    def constants(self) -> dict[str, Method]:
        """The candidates that always take one action."""
        return constants(self.whole.log, self.always)

    @property
    def assumed(self) -> str:
        """What candidates were fitted and chosen by, in a sentence, if sizes were pooled."""
        pools_from = self.whole.pooled[1]
        if not np.isfinite(pools_from):
            return ""
        return (
            f" Candidates were fitted and chosen as if rewards beyond about {pools_from:.3g} were "
            f"equally large under all actions; their test does not assume it."
        )

    def chosen(self, left_out: int) -> str:
        """Return the best candidate on the other folds: a constant unless a rule is clearly better."""
        own, scores = self.fold != left_out, self.whole.scores
        taken = dict(zip(self.constants, self.always, strict=True))
        best = max(taken, key=lambda name: float(scores[own, taken[name]].mean()))
        group, bounds = self.whole.log.group_of_episode[own], dict[str, float]()
        for name, values in self.values.items():
            ahead = values[left_out, own] - scores[own, taken[best]]
            # standard error of a mean over rows with independent groups
            sums = np.bincount(group, weights=ahead - ahead.mean())
            error = float(np.sqrt((sums**2).sum())) / len(ahead)
            bounds[name] = float(ahead.mean()) - _AHEAD * error
        leading = max(bounds, key=lambda name: bounds[name], default=best)
        return leading if bounds.get(leading, 0) > 0 else best

    def judged_rule(self, judge: Judge) -> Trial:
        """Return the policy taught without the first fold, and its cross-fitted judgement on all rows.

        For each fold a candidate is chosen on the other three by scores of models not taught by the
        scored rows, taught by these three, and judged in the fold, which was used neither to teach nor
        to choose. The result judges the way of learning rather than one of its four policies.
        """
        log: Log = self.whole.log
        taken, unseen = np.zeros((log.n_transitions, log.n_actions)), np.zeros(log.n_transitions)
        learned = []
        for k in range(_FOLDS):
            task = _without(self.whole, self.fold, (k,))
            learned.append(self.fit(task, {**self.constants, **self.rules}[self.chosen(k)]))
            own = np.flatnonzero(self.fold == k)
            taken[own] = action_probabilities(learned[k].policy, log.states[own], log.n_actions)
            seen = SeenPairs.of(task.log)
            if seen is not None:
                unseen[own] = seen.unseen(log.states[own], taken[own])
        judgement = judge.ask(RowProbabilities(taken))
        if judgement is not None:
            cost = unseen_cost(float(unseen.mean()), log, judgement.value, 0.0)
            judgement = replace(judgement, bound=judgement.bound - cost)
        return Trial(self.chosen(0), learned[0], judgement)

    def judged_constant(self, judge: Judge) -> Trial:
        """Return the constant action with the largest bound of its gain.

        Constants need no training, so all rows may choose and test them, with the error probability
        divided by their number. Choosing on some rows and testing on others would be wrong more often:
        with two good actions, large rewards in one fold change which action is chosen and tested in the
        others.
        """
        strict = replace(judge, chances=len(self.constants), seen=SeenPairs.of(self.whole.log))
        trials = []
        for name, method in self.constants.items():
            learned = self.fit(self.whole, method)
            assert isinstance(learned.policy, CriticPolicy)
            untaught = replace(learned.policy, taught=None)  # no row has taught it anything
            learned = replace(learned, policy=untaught, taught=None)
            trials.append(Trial(name, learned, strict.ask(learned.policy)))
        return max(trials, key=lambda trial: trial.bound)


def _without(whole: LearningTask, fold: IntArray, left_out: tuple[int, ...]) -> LearningTask:
    """Return the task of the other folds; what uses no rewards is of all folds."""
    kept = np.flatnonzero(~np.isin(fold, left_out))
    log = whole.log.take(kept)
    return LearningTask(
        log,
        0.0,
        None,
        log.first_states,
        seed=whole.seed,
        known_behaviour=whole.behaviour,
        known_unlogged=never_logged(whole)[kept] | (log.action_counts == 0),
    )


_ALIKE = 0.03  # share of the rows in which candidates may differ and be judged together
_CHOOSES = 1 / 3  # share of the groups not held out that choose; the others train
_SAME = 0.005  # mean distance of logged propensities within which a policy reproduces them
_FEWEST = 6  # smallest number of groups to split


def split_parts(
    log: Log, judging: float, others: Callable[[int], IntArray], *, seed: int
) -> IntArray:
    """Return the part of each episode, (E,): 0 for a share of the groups, at random, that judges.

    `others` returns the parts of the other groups from their number.
    """
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
    first = min(max(1, round(judging * count)), count - 3)
    parts = np.append(np.zeros(first, dtype=np.intp), others(count - first))
    return split_groups(log, parts, np.random.default_rng([seed, 2]))


class ThreeParts(NamedTuple):
    """Three logs of different groups of episodes."""

    train: Log
    choose: Log
    test: Log


def three_parts(log: Log, judging: float, *, seed: int) -> ThreeParts:
    """Split the groups of a log at random into parts for training, choosing and testing."""
    part = split_parts(
        log, judging, lambda left: 1 + (np.arange(left) >= round(_CHOOSES * left)), seed=seed
    )
    return ThreeParts(*(log.take(np.flatnonzero(part == k)) for k in (2, 1, 0)))


def four_folds(log: Log, judging: float, *, seed: int) -> IntArray:
    """Split whole groups into four folds, the first with a given share of them, (n,)."""
    return split_parts(log, judging, lambda left: 1 + np.arange(left) % (_FOLDS - 1), seed=seed)


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
    sizes_within: float | None = None  # by how much sizes may differ, if the tests may assume it

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
        constants. A rule is tested as one; if no rule beats the best constant, or it is not
        significantly better than the log, constants are tried.
        """
        log, free = self.log, self.form.free(self.log)
        starts, unlogged = log.first_states, self.profile.unlogged
        whole = LearningTask(log, 0.0, None, starts, seed=self.seed, known_unlogged=unlogged)
        found = CrossFit.of(
            whole,
            four_folds(log, self.holdout, seed=self.seed),
            [each for each in common_actions(log) if each in free],
            fit=self.candidate,
            advance=self.advance,
        )
        judge = self._judge(self.profile, 2)
        trial = None
        if found.chosen(0) in found.rules:
            trial = found.judged_rule(judge)
        if trial is None or not trial.better:
            trial = found.judged_constant(judge)
        failed = found.failed.values()
        if not trial.better:
            said = too_little(trial) + found.assumed + self._assumed
            return replace(self, gamma=0.0).kept(said, failed, trial)
        said = f"{trial.name} was the best of {len(found.rules)} rules and all constant actions, "
        if trial.name in found.constants:
            said += f"which need no fitting: all {log.once.n_episodes:,} rows judge them."
        else:
            said += "scored on rows from which it was not learned."
        return _proposed(trial, said + found.assumed + self._assumed, failed)

    def _from_steps(self, parts: ThreeParts) -> Learned:
        """Learn from episodes of several steps."""
        task = LearningTask(parts.train, self.gamma, None, parts.train.first_states, seed=self.seed)
        methods = {
            **constants(self.log, common_actions(parts.train)),
            **methods_to_try(parts.train, self.gamma, supports=supports_to_try(task)),
        }
        clone = behaviour(self.fit(task, pointwise(TreeCloning())))
        seen = SeenPairs.of(parts.train)

        def judge(part: Log, stream: int) -> Judge:
            bare = replace(self._judge(self.profile.part(part), stream), seen=seen)
            return bare.after(clone.policy)

        trials, failed = self._tried(methods, task, judge(parts.choose, 1))
        best = max(trials, key=lambda trial: trial.bound, default=None)
        said, tested = too_little(best), None
        if best is not None and best.better:
            tested = best.by(judge(parts.test, 2))
            if tested.better:
                said = (
                    f"{best.name} was the best of {len(trials)} candidates on "
                    f"{parts.choose.once.n_episodes:,} episodes from which they were not learned."
                )
                return _proposed(tested, said + self._assumed, failed)
            said = (
                f"The best candidate, {best.name}, was not better on episodes that neither fitted nor "
                f"chose it."
            )
        other = blind_choice(lambda: judge(self.log, 3), trials)
        if other is not None:
            said = (
                f"{other.name} is learned without rewards, and is better than what was logged on all "
                f"{self.log.once.n_episodes:,} episodes."
            )
            return _proposed(other, said + self._assumed, failed)
        return self.kept(said, failed, tested)

    @property
    def _assumed(self) -> str:
        """What the tests assume about sizes of extremes, in a sentence."""
        if self.sizes_within is None:
            return ""
        most = f"{100 * self.sizes_within:.0f} %"
        return (
            f" The test assumes that sizes of extremes differ by at most {most} between policies."
        )

    def _judge(self, profile: LogProfile, stream: int) -> Judge:
        gamma = 0.0 if self.log.is_bandit else self.gamma
        return Judge(
            profile, gamma, self.at_least, self.seed + stream, sizes_within=self.sizes_within
        )

    def _tried(
        self, methods: Mapping[str, Method], task: Task, judge: Judge
    ) -> tuple[list[Trial], list[str]]:
        """Learn and judge candidates; what acts like a simpler one is judged with it."""
        known: list[tuple[FloatArray, Judgement]] = []
        ahead = -np.inf

        def judged(name: str, method: Method) -> tuple[Learned, Judgement]:
            nonlocal ahead
            learned = self.candidate(task, method)
            acts = judge.acts(learned.policy)
            for others, found in known:
                if np.abs(acts - others).sum() <= 2 * _ALIKE * len(acts):
                    return learned, found
            # `blind_choice` asks whether this one is better than the log
            to_beat = min(ahead, 0.0) if name == LIKELIEST else ahead
            known.append((acts, judge(learned.policy, to_beat=to_beat)))
            ahead = max(ahead, known[-1][1].bound)
            return learned, known[-1][1]

        trials, failed = try_each(methods, judged, advance=self.advance)
        return [Trial(name, *each) for name, each in trials.items()], [*failed.values()]

    def kept(self, said: str, failed: Iterable[str] = (), trial: Trial | None = None) -> Learned:
        """Return the logged behaviour, cloned from all episodes without using rewards."""
        task = Task(self.log, self.gamma, None, self.log.first_states, seed=self.seed)
        clone = replace(self.fit(task, pointwise(TreeCloning(exact=True))), taught=None)
        kept = behaviour(clone)
        reasons = (said, self._how_close(kept.policy), *_failures(failed))
        if self.form.limits:
            reasons += ("What was logged is kept as it was: it need not obey the limits.",)
        judged = None if trial is None else trial.judgement
        return replace(kept, improves=False, reasons=reasons, judged=judged)

    def _how_close(self, policy: Any) -> str:
        """Return how far the kept policy is from the logged behaviour, and what that may cost."""
        log = self.log
        taken = action_probabilities(policy, log.states, log.n_actions)
        if log.propensity is None:
            far = (
                f"by {100 * calibration_error(taken, log.actions):.1f} % from how often the log takes "
                f"them"
            )
        else:
            off = np.abs(taken[np.arange(log.n_transitions), log.actions] - log.propensity)
            if off.mean() < _SAME:
                return "The policy returned reproduces the logged propensities."
            most = float(np.quantile(off, 0.99))
            far = (
                f"by {100 * off.mean():.1f} % from the logged propensities ({100 * most:.0f} % in one "
                f"row of 100)"
            )
        found = self._judge(self.profile, 4).ask(policy)
        cost = (
            "" if found is None else f", which changes the value by an estimated {found.gain:+.2g}"
        )
        return f"The policy returned imitates the log: its probabilities differ {far}{cost}."


def blind_choice(judge: Callable[[], Judge], trials: Sequence[Trial]) -> Trial | None:
    """Return the policy of the likeliest action, if it is significantly better on all episodes.

    It is learned without rewards, so it cannot overfit their noise, and all episodes may test it, at
    half the error probability. It must also be better on the episodes for choosing.
    """
    for trial in trials:
        if trial.name == LIKELIEST and trial.better:
            tested = trial.by(replace(judge(), chances=2))
            return tested if tested.better else None
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
        limit = f"with {100 * found.level:.0f} % confidence it may be worse by {-found.bound:.4g}"
    return (
        f"The best candidate, {trial.name}, was ahead of the log by {found.gain:.4g} {on}, but "
        f"{limit}."
    )


def _failures(failed: Iterable[str]) -> tuple[str, ...]:
    listed = "; ".join(failed)
    return (f"Not learned: {listed}.",) if listed else ()


def learn_with_memory(careful: CarefulLearning) -> Learned:
    """Learn a policy that reads averages of the episode so far, or keep the logged behaviour."""
    profile = careful.profile
    if profile.memory is None:
        said = "No memory is needed: earlier steps of an episode add nothing to the logged columns."
        learned = careful.learn()
        return replace(learned, reasons=(*learned.reasons, said))
    past = Summaries.fit(profile.log, profile.memory.columns)
    learned = replace(careful, profile=profile.widened(past)).learn()
    if learned.improves:
        reasons = (*learned.reasons, f"{past} `Learned.past` has them and their update.")
        return replace(learned, past=past, encoder=profile.log.encoder, reasons=reasons)
    return replace(
        careful.kept(learned.reasons[0]),
        judged=learned.judged,
        held_out=three_parts(profile.log, careful.holdout, seed=careful.seed).test,
    )
