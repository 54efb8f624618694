"""Train, choose and test candidates on three parts of the episodes; else keep the behaviour."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tailproof.algorithms.learners.cloning import TreeCloning
from tailproof.algorithms.learners.improvement import Constant
from tailproof.algorithms.learners.tree_learning import LearningTask
from tailproof.algorithms.task import Task
from tailproof.data.log import Log
from tailproof.data.partition import shuffled_groups
from tailproof.errors import PartitionError, TailproofError, TailproofWarning
from tailproof.learning.careful.candidates import LIKELIEST, methods_to_try, pointwise
from tailproof.learning.careful.judgement import Judge, Judgement
from tailproof.learning.careful.rows import Teach, Trial, learn_from_rows
from tailproof.learning.careful.seen import SeenPairs
from tailproof.learning.learned import Learned

_CHOOSES = 1 / 3  # share of the groups not held out that choose; the others train
_FEWEST = 6  # smallest number of groups for three parts


class ThreeParts(NamedTuple):
    """Three logs of different groups of episodes."""

    teach: Log
    choose: Log
    judge: Log


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
            f"Without a method, learn teaches, chooses and judges on different {unit}, and needs at "
            f"least {_FEWEST} of them. Got {count}; name a method, such as method='fqi'."
        )
    order = shuffled_groups(log, np.random.default_rng([seed, 2]))
    last = min(max(1, round(judging * count)), count - 3)
    middle = min(max(1, round(_CHOOSES * (count - last))), count - last - 1)
    place = np.empty(count, dtype=np.intp)
    place[order] = np.repeat([2, 1, 0], [last, middle, count - last - middle])
    of_episode = place[log.group_of_episode]
    return ThreeParts(*(log.take(np.flatnonzero(of_episode == k)) for k in range(3)))


@dataclass(frozen=True, kw_only=True)
class CarefulLearning:
    """Learns a policy that is significantly better than the log, or keeps the logged behaviour.

    Candidates are trained on half of the episodes. The one with the largest lower bound of its gain on
    a quarter is chosen, and tested on the last quarter, so that the reported gain is independent of
    the choice. One-step logs use cross-fitting instead (`learn_from_rows`).
    """

    log: Log
    gamma: float
    seed: int
    holdout: float  # share of the groups to hold out for the test
    at_least: float  # confidence with which the policy must be better than the logged one
    teach: Teach  # fits a method
    advance: Callable[[], Any]  # called after each candidate

    def learn(self) -> Learned:
        """Return the learned policy, with the held-out episodes."""
        parts = three_parts(self.log, self.holdout, seed=self.seed)
        if len(np.unique(parts.teach.actions)) < 2:  # other actions are too rare to learn from
            said = "The log takes nearly always the same action, and no candidate could be learned."
            learned = self._kept(said)
        elif self.log.is_bandit:
            learned = self._from_rows()
        else:
            learned = self._from_steps(parts)
        return replace(learned, held_out=parts.judge)

    def _from_rows(self) -> Learned:
        """Learn from one-step episodes."""
        settings = {name: value for name, value in vars(self).items() if name != "gamma"}
        trial, found = learn_from_rows(settings.pop("log"), **settings)
        failed = found.failed.values()
        if not trial.better:
            return replace(self, gamma=0.0)._kept(too_little(trial), failed, trial.judgement)
        said = f"{trial.name} was the best of {len(found.methods)} rules and all constant actions, "
        if isinstance(trial.learned.method.base, Constant):
            said += f"which need no teaching: all {self.log.once.n_episodes:,} episodes judge them."
        else:
            said += "scored by episodes that did not teach it."
        return _proposed(trial, said, failed)

    def _from_steps(self, parts: ThreeParts) -> Learned:
        """Learn from episodes of several steps."""
        task = LearningTask(parts.teach, self.gamma, None, parts.teach.first_states, seed=self.seed)
        clone = behaviour(self.teach(task, pointwise(TreeCloning())))
        seen = SeenPairs.of(parts.teach)

        def judge(part: Log, stream: int) -> Judge:
            bare = Judge(part, self.gamma, self.at_least, self.seed + stream, seen)
            return bare.after(clone.policy)

        trials, failed = self._tried(task, judge(parts.choose, 1))
        best = max(trials, key=lambda trial: trial.bound) if trials else None
        verdict = None
        if best is not None and best.better:
            verdict = judge(parts.judge, 2).ask(best.learned.policy)
        if best is not None and verdict is not None and verdict.better:
            said = (
                f"{best.name} was the best of {len(trials)} candidates on "
                f"{parts.choose.once.n_episodes:,} episodes that did not teach them."
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
                f"The best candidate, {best.name}, did not hold on episodes that neither taught nor "
                f"chose it."
            )
        return self._kept(said, failed, verdict)

    def _tried(self, task: Task, judge: Judge) -> tuple[list[Trial], list[str]]:
        trials, failed = [], []
        known: dict[bytes, Judgement] = {}  # several candidates often learn the same policy
        for name, method in methods_to_try(task.log, task.gamma).items():
            try:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", TailproofWarning)  # the judge decides
                    learned = self.teach(task, method)
                acts = judge.acts(learned.policy)
                if acts not in known:
                    known[acts] = judge(learned.policy)
                trials.append(Trial(name, learned, known[acts]))
            except (TailproofError, np.linalg.LinAlgError) as error:
                failed.append(f"{name} ({str(error).split('.')[0]})")
            self.advance()
        return trials, failed

    def _kept(
        self, said: str, failed: Iterable[str] = (), judged: Judgement | None = None
    ) -> Learned:
        """Return the logged behaviour, cloned from all episodes without using rewards."""
        task = Task(self.log, self.gamma, None, self.log.first_states, seed=self.seed)
        clone = replace(self.teach(task, pointwise(TreeCloning(exact=True))), taught=None)
        reasons = (said, *_failures(failed))
        return replace(behaviour(clone), improves=False, reasons=reasons, judged=judged)


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
    on = f"on {found.episodes:,} episodes that did not teach it"
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
