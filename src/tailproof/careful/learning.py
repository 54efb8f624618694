"""Teach, choose, judge: three parts of the episodes, and the logged behaviour if none convinces."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tailproof.algorithms.task import Task
from tailproof.careful.candidates import Row, behaviour_row, candidates
from tailproof.careful.judgement import Judge, Judgement
from tailproof.careful.seen import SeenPairs
from tailproof.errors import PartitionError, TailproofError, TailproofWarning
from tailproof.learned import Learned
from tailproof.log import Log
from tailproof.method import Method
from tailproof.partition import shuffled_groups

_CHOOSES = 1 / 3  # of the groups that do not judge; the others teach
_FEWEST = 6  # groups that three parts need

#: A task and a method to what was learned.
Teach = Callable[[Task, Method], Learned]


class Parts(NamedTuple):
    """Three logs of different groups of episodes."""

    teach: Log
    choose: Log
    judge: Log


@dataclass(frozen=True)
class Trial:
    """A candidate, and what the episodes that choose say about it."""

    row: Row
    learned: Learned
    judgement: Judgement


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
    last = min(max(1, round(judging * count)), count - 2)
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
    choice.

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
    both = log.take(_episodes_of(log, parts.teach, parts.choose))
    if len(np.unique(parts.teach.actions)) < 2:  # the other action is too rare to learn about
        return _kept(log, parts, gamma, seed, teach, None, (), [])
    task = Task(parts.teach, gamma, None, parts.teach.first_states, seed=seed)
    clone = behaviour(teach(task, behaviour_row().method))
    seen = SeenPairs.of(parts.teach)

    def judge(part: Log, stream: int) -> Judge:
        return Judge.of(
            part, gamma, clone=clone.policy, seen=seen, level=at_least, seed=seed + stream
        )

    trials, failed = _tried(parts.teach, task, judge(parts.choose, 1), teach, advance)
    if not trials:
        return _kept(both, parts, gamma, seed, teach, None, (), failed)
    best = max(trials, key=lambda trial: trial.judgement.bound)
    if not promising(best.judgement, log):
        return _kept(both, parts, gamma, seed, teach, best, trials, failed)
    verdict = judge(parts.judge, 2)(best.learned.policy)
    if not verdict.better:
        kept = _kept(both, parts, gamma, seed, teach, best, trials, failed)
        return replace(kept, judged=verdict)
    return replace(
        best.learned,
        held_out=parts.judge,
        judged=verdict,
        improves=True,
        reasons=(
            f"{best.row.name} was the best of {len(trials)} candidates on {parts.choose.n_episodes:,} "
            f"episodes that did not teach them.",
            *best.learned.reasons,
            *_failures(failed),
        ),
    )


def promising(found: Judgement, log: Log) -> bool:
    """Return whether the best candidate is worth judging.

    What an estimator of several steps gets wrong, it gets wrong twice: the gain must be credible on the
    choosing episodes too. One-step estimators have no critic to be wrong about, and the judge alone
    keeps the risk.
    """
    return found.better if not log.is_bandit else found.gain > 0


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


def _episodes_of(log: Log, *parts: Log) -> Any:
    wanted = np.concatenate([part.episode_ids for part in parts])
    return np.flatnonzero(np.isin(log.episode_ids, wanted))


def _kept(
    log: Log,
    parts: Parts,
    gamma: float,
    seed: int,
    teach: Teach,
    best: Trial | None,
    trials: Any,
    failed: list[str],
) -> Learned:
    """Return the logged behaviour, cloned from all episodes that do not judge."""
    task = Task(log, gamma, None, log.first_states, seed=seed)
    clone = behaviour(teach(task, behaviour_row().method))
    reasons = ["No candidate could be learned from this log."]
    if best is not None:
        found = best.judgement
        reasons = [
            f"The best of {len(trials)} candidates, {best.row.name}, was ahead of the log by "
            f"{found.gain:.4g} on {parts.choose.n_episodes:,} episodes that did not teach it, but with "
            f"{found.level:.0%} confidence only by {found.bound:.4g}."
        ]
        if promising(found, log):
            reasons[0] = (
                f"The best of {len(trials)} candidates, {best.row.name}, did not hold on episodes "
                f"that neither taught nor chose it."
            )
    return replace(
        clone,
        held_out=parts.judge,
        improves=False,
        reasons=(*reasons, *_failures(failed)),
    )


def _failures(failed: list[str]) -> tuple[str, ...]:
    return (f"Not learned: {'; '.join(failed)}.",) if failed else ()
