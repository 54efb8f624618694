"""Learning from one-step logs by cross-fitting: every row trains, chooses and tests in turn."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from itertools import combinations
from typing import Any, NamedTuple

import numpy as np

from tailproof.algorithms.learners.improvement import Constant, common_actions
from tailproof.algorithms.learners.tree_learning import LearningTask
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, IntArray
from tailproof.data.log import Log
from tailproof.data.partition import shuffled_groups
from tailproof.errors import TailproofError, TailproofWarning
from tailproof.learning.careful.candidates import methods_to_try, pointwise
from tailproof.learning.careful.judgement import Judge, Judgement
from tailproof.learning.careful.seen import SeenPairs, unseen_cost
from tailproof.learning.learned import Learned
from tailproof.methods.method import Method
from tailproof.policies.simple import action_probabilities

FOLDS = 4
_AHEAD = 1.64  # standard errors by which a rule must be ahead of the best constant action

#: Maps a task and a method to the learned policy.
Teach = Callable[[Task, Method], Learned]


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


@dataclass(frozen=True, eq=False)
class LawOfRows:
    """The action probabilities of cross-fitted policies in the rows of one log, in its order."""

    law: FloatArray  # (n, A)

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a | s) of each row, (n, A)."""
        if len(states) != len(self.law):
            raise ValueError(f"This law is of {len(self.law)} rows. Got {len(states)} instead.")
        return self.law


@dataclass(frozen=True, eq=False)
class CrossFit:
    """The score of each candidate in each row, trained without the row's fold and another fold.

    `values` are Γ(s, π(s)) of a candidate by the other left-out fold and by row, (FOLDS, n); 0 in that
    fold.
    """

    log: Log
    fold: IntArray  # of each row, (n,); fold 0 is held out at the end
    scores: FloatArray  # Γ(s, a) of all rows, (n, A)
    values: dict[str, FloatArray]
    methods: dict[str, Method]  # of the candidates
    failed: dict[str, str] = field(default_factory=dict)  # reasons, of those not learned

    @classmethod
    def of(
        cls, whole: LearningTask, fold: IntArray, *, teach: Teach, advance: Callable[[], Any]
    ) -> CrossFit:
        """Train every candidate without each pair of folds, and score it on both."""
        log: Log = whole.log
        found = cls(log, fold, whole.scores, {}, {})
        for pair in combinations(range(FOLDS), 2):
            task = task_without(whole, fold, pair)
            asked = np.flatnonzero(np.isin(fold, pair))
            for name, method in methods_to_try(task.log, 0.0).items():
                if isinstance(method.base, Constant):
                    continue  # constants need no training
                found.methods[name] = method
                try:
                    with warnings.catch_warnings():
                        warnings.simplefilter("ignore", TailproofWarning)  # the judge decides
                        policy = teach(task, method).policy
                    law = action_probabilities(policy, log.states[asked], log.n_actions)
                except (TailproofError, np.linalg.LinAlgError) as error:
                    found.failed[name] = f"{name} ({str(error).split('.')[0]})"
                    continue
                values = np.zeros(len(fold))
                values[asked] = (law * found.scores[asked]).sum(axis=1)
                sums = found.values.setdefault(name, np.zeros((FOLDS, len(fold))))
                for other, own in (pair, pair[::-1]):
                    sums[other, fold == own] = values[fold == own]
            advance()
        for name in found.failed:
            found.values.pop(name, None)
        return found

    def chosen(self, left_out: int) -> tuple[str, Method]:
        """Return the best candidate on the other folds: a constant unless a rule is clearly better."""
        own = self.fold != left_out
        means = {action: self.scores[own, action].mean() for action in common_actions(self.log)}
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


def dealt(log: Log, judging: float, *, seed: int) -> IntArray:
    """Split whole groups into four folds, the first with a given share of them, (n,)."""
    order = shuffled_groups(log, np.random.default_rng([seed, 2]))
    first = min(max(1, round(judging * log.n_groups)), log.n_groups - (FOLDS - 1))
    place = np.empty(log.n_groups, dtype=np.intp)
    place[order[:first]] = 0
    place[order[first:]] = 1 + np.arange(log.n_groups - first) % (FOLDS - 1)
    return np.asarray(place[log.group_of_episode])


def task_without(whole: LearningTask, fold: IntArray, left_out: tuple[int, ...]) -> LearningTask:
    """Return the task of the other folds; the behaviour, which uses no rewards, is of all folds."""
    log = whole.log.take(np.flatnonzero(~np.isin(fold, left_out)))
    starts, known = log.first_states, whole.behaviour
    return LearningTask(log, 0.0, None, starts, seed=whole.seed, known_behaviour=known)


def learn_from_rows(
    log: Log,
    *,
    seed: int,
    holdout: float,
    at_least: float,
    teach: Teach,
    advance: Callable[[], Any],
) -> tuple[Trial, CrossFit]:
    """Choose a candidate for a one-step log, and test it on all rows.

    There are four folds of whole groups. The three that are not held out choose between rules and
    constants. A rule is tested by `judged_rule`; if no rule beats the best constant, or it is not
    significantly better than the log, constants are tried.
    """
    fold = dealt(log, holdout, seed=seed)
    whole = LearningTask(log, 0.0, None, log.first_states, seed=seed)
    found = CrossFit.of(whole, fold, teach=teach, advance=advance)
    judge = Judge(log, 0.0, at_least, seed + 2, None)
    if found.chosen(0)[0] in found.methods:
        rule = judged_rule(found, whole, judge, teach=teach)
        if rule.better:
            return rule, found
    return judged_constant(whole, judge, teach=teach), found


def judged_rule(found: CrossFit, whole: LearningTask, judge: Judge, *, teach: Teach) -> Trial:
    """Return the policy learned without the first fold, and its cross-fitted evaluation on all rows.

    For each fold a candidate is chosen on the other three by scores of models not trained on the scored
    rows, trained on these three, and evaluated in the fold, which was used neither for training nor for
    choosing. The result evaluates the learning procedure rather than one of its four policies.
    """
    log: Log = whole.log
    law, unseen = np.zeros((log.n_transitions, log.n_actions)), np.zeros(log.n_transitions)
    learned = []
    for k in range(FOLDS):
        task = task_without(whole, found.fold, (k,))
        learned.append(teach(task, found.chosen(k)[1]))
        own = np.flatnonzero(found.fold == k)
        law[own] = action_probabilities(learned[k].policy, log.states[own], log.n_actions)
        seen = SeenPairs.of(task.log)
        if seen is not None:
            unseen[own] = seen.unseen(log.states[own], law[own])
    judgement = judge.ask(LawOfRows(law))
    if judgement is not None:
        cost = unseen_cost(float(unseen.mean()), log, judgement.value, 0.0)
        judgement = replace(judgement, bound=judgement.bound - cost)
    return Trial(found.chosen(0)[0], learned[0], judgement)


def judged_constant(whole: LearningTask, judge: Judge, *, teach: Teach) -> Trial:
    """Return the constant action with the largest bound of its gain.

    Constants need no training, so all rows may choose and test them, with the error probability divided
    by their number. Choosing on some rows and testing on others would be wrong more often: with two
    good actions, large rewards in one fold change which action is chosen and tested in the others.
    """
    log: Log = whole.log
    constants = [constant(log, action) for action in common_actions(log)]
    level = 1 - (1 - judge.level) / len(constants)
    strict = replace(judge, level=level, seen=SeenPairs.of(log))
    trials = []
    for name, method in constants:
        learned = teach(whole, method)
        untaught = replace(learned.policy, taught=None)  # no row has taught it anything
        learned = replace(learned, policy=untaught, taught=None)
        trials.append(Trial(name, learned, strict.ask(learned.policy)))
    best = max(trials, key=lambda trial: trial.bound)
    if best.judgement is None:
        return best
    return best._replace(judgement=replace(best.judgement, level=judge.level))
