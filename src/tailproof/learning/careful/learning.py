"""Teach, choose, judge: three parts of the episodes, and the logged behaviour if none convinces."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tailproof.algorithms.learners.tree_learning import LearningTask
from tailproof.algorithms.task import Task
from tailproof.data.log import Log
from tailproof.data.partition import shuffled_groups
from tailproof.errors import PartitionError, TailproofError, TailproofWarning
from tailproof.learning.careful.candidates import LIKELIEST, Row, behaviour_row, candidates
from tailproof.learning.careful.judgement import Judge, Judgement
from tailproof.learning.careful.rows import Teach, learn_from_rows
from tailproof.learning.careful.seen import SeenPairs
from tailproof.learning.learned import Learned

_CHOOSES = 1 / 3  # of the groups that do not judge; the others teach
_FEWEST = 6  # groups that three parts need


class Parts(NamedTuple):
    """Three logs of different groups of episodes."""

    teach: Log
    choose: Log
    judge: Log


@dataclass(frozen=True)
class Trial:
    """A candidate, and what episodes that did not teach it say about it: a `Judgement`."""

    row: Row
    learned: Learned
    judgement: Any = None


def three_parts(log: Log, judging: float, *, seed: int) -> Parts:
    """Deal the groups of a log to teaching, choosing and judging."""
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
    return Parts(*(log.take(np.flatnonzero(of_episode == k)) for k in range(3)))


def learn_carefully(
    log: Log,
    gamma: float,
    *,
    seed: int,
    holdout: float,
    at_least: float,
    teach: Teach,
    advance: Callable[[], Any],
) -> Learned:
    """Return the candidate that is credibly better than the log, or the logged behaviour.

    Candidates are taught by half of the episodes. The one with the largest lower bound of its gain on
    a quarter is chosen, and judged on the last quarter: what is reported never took part in the
    choice. One-step episodes take turns in this (`learn_from_rows`).

    Parameters
    ----------
    holdout
        Share of the groups that judge.
    at_least
        Confidence with which the policy must be better than what was logged.
    teach
        Fits a method.
    advance
        Called after each candidate.
    """
    parts = three_parts(log, holdout, seed=seed)
    if len(np.unique(parts.teach.actions)) < 2:  # the other action is too rare to learn about
        said = "The log takes nearly always the same action, and no candidate could be learned."
        learned = _kept(log, gamma, seed, teach, said, [])
    elif log.is_bandit:
        learned = _from_rows(log, seed, holdout, at_least, teach, advance)
    else:
        learned = _from_steps(log, parts, gamma, seed, at_least, teach, advance)
    return replace(learned, held_out=parts.judge)


def _from_rows(
    log: Log,
    seed: int,
    holdout: float,
    at_least: float,
    teach: Teach,
    advance: Callable[[], Any],
) -> Learned:
    """Return what one-step episodes give."""
    found = learn_from_rows(
        log, seed=seed, holdout=holdout, at_least=at_least, teach=teach, advance=advance
    )
    verdict = found.judgement
    if not found.better:
        said = _too_little(found.name, verdict)
        return replace(_kept(log, 0.0, seed, teach, said, found.failed), judged=verdict)
    said = (
        f"{found.name} was the best of {found.candidates} rules and all constant actions, scored by "
        f"episodes that did not teach it."
    )
    reasons = (said, *found.learned.reasons, *_failures(found.failed))
    return replace(found.learned, judged=verdict, improves=True, reasons=reasons)


def _from_steps(
    log: Log,
    parts: Parts,
    gamma: float,
    seed: int,
    at_least: float,
    teach: Teach,
    advance: Callable[[], Any],
) -> Learned:
    """Return what episodes of several steps give."""
    task = LearningTask(parts.teach, gamma, None, parts.teach.first_states, seed=seed)
    clone = behaviour(teach(task, behaviour_row().method))
    seen = SeenPairs.of(parts.teach)

    def judge(part: Log, stream: int) -> Judge:
        return Judge.of(
            part, gamma, clone=clone.policy, seen=seen, level=at_least, seed=seed + stream
        )

    trials, failed = _tried(parts.teach, task, judge(parts.choose, 1), teach, advance)
    best = max(trials, key=lambda trial: trial.judgement.bound) if trials else None
    verdict = None
    if best is not None and best.judgement.better:
        verdict = judge(parts.judge, 2).ask(best.learned.policy)
    if best is not None and verdict is not None and verdict.better:
        said = (
            f"{best.row.name} was the best of {len(trials)} candidates on {parts.choose.n_episodes:,} "
            f"episodes that did not teach them."
        )
        reasons = (said, *best.learned.reasons, *_failures(failed))
        return replace(best.learned, judged=verdict, improves=True, reasons=reasons)
    if (other := blind_choice(judge(log, 3), trials)) is not None:
        said = (
            f"{other.row.name} needs no rewards to be learned, and is better than the log by all "
            f"{log.n_episodes:,} episodes."
        )
        found = replace(other.judgement, level=at_least)
        return replace(other.learned, judged=found, improves=True, reasons=(said,))
    said = _too_little(best.row.name, best.judgement) if best else _too_little("", None)
    if best is not None and best.judgement.better:
        said = (
            f"The best candidate, {best.row.name}, did not hold on episodes that neither taught nor "
            f"chose it."
        )
    return replace(_kept(log, gamma, seed, teach, said, failed), judged=verdict)


def blind_choice(judge: Judge, trials: Sequence[Trial]) -> Trial | None:
    """Return the likeliest action in each state, if all episodes say that it is better.

    It has seen no reward, so that it cannot have taken advantage of their noise, and all episodes may
    judge it, at half of the risk. It must be better by the choosing episodes too.
    """
    strict = replace(judge, level=1 - (1 - judge.level) / 2)
    for trial in trials:
        if trial.row.name == LIKELIEST and trial.judgement.better:
            said = strict.ask(trial.learned.policy)
            return replace(trial, judgement=said) if said and said.better else None
    return None


def behaviour(clone: Learned) -> Learned:
    """Return a cloned behaviour that acts as often in each way as the log, not always the likeliest."""
    return replace(clone, policy=clone.softmax(1.0))


def _tried(
    log: Log, task: Task, judge: Judge, teach: Teach, advance: Callable[[], Any]
) -> tuple[list[Trial], list[str]]:
    trials, failed = [], []
    known: dict[bytes, Judgement] = {}  # several candidates often come to the same policy
    for row in candidates(log, task.gamma):
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", TailproofWarning)  # the judge decides
                learned = teach(task, row.method)
            acts = judge.acts(learned.policy)
            if acts not in known:
                known[acts] = judge(learned.policy)
            trials.append(Trial(row, learned, known[acts]))
        except (TailproofError, np.linalg.LinAlgError) as error:
            failed.append(f"{row.name} ({str(error).split('.')[0]})")
        advance()
    return trials, failed


def _kept(log: Log, gamma: float, seed: int, teach: Teach, said: str, failed: list[str]) -> Learned:
    """Return the logged behaviour, cloned from all episodes: no reward teaches it."""
    task = Task(log, gamma, None, log.first_states, seed=seed)
    clone = behaviour(replace(teach(task, behaviour_row(exact=True).method), taught=None))
    return replace(clone, improves=False, reasons=(said, *_failures(failed)))


def _too_little(name: str, found: Judgement | None) -> str:
    if found is None:
        return "No candidate could be learned from this log, or judged."
    return (
        f"The best candidate, {name}, was ahead of the log by {found.gain:.4g} on "
        f"{found.episodes:,} episodes that did not teach it, but with {found.level:.0%} confidence "
        f"only by {found.bound:.4g}."
    )


def _failures(failed: list[str]) -> tuple[str, ...]:
    return (f"Not learned: {'; '.join(failed)}.",) if failed else ()
