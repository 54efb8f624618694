"""Teach, choose, judge: three parts of the episodes, and the logged behaviour if none convinces."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from tailproof.algorithms.learners.constant import Constant, common_actions
from tailproof.algorithms.task import Task
from tailproof.data.log import Log
from tailproof.data.partition import shuffled_groups
from tailproof.errors import PartitionError, TailproofError, TailproofWarning
from tailproof.learning.careful.candidates import LIKELIEST, Row, behaviour_row, candidates
from tailproof.learning.careful.judgement import Judge, Judgement
from tailproof.learning.careful.seen import SeenPairs
from tailproof.learning.learned import Learned
from tailproof.methods.method import Method

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
        return replace(_kept(log, gamma, seed, teach, None, []), held_out=parts.judge)
    task = Task(parts.teach, gamma, None, parts.teach.first_states, seed=seed)
    clone = behaviour(teach(task, behaviour_row().method))
    seen = SeenPairs.of(parts.teach)

    def judge(part: Log, stream: int) -> Judge:
        return Judge.of(
            part, gamma, clone=clone.policy, seen=seen, level=at_least, seed=seed + stream
        )

    trials, failed = _tried(parts.teach, task, judge(parts.choose, 1), teach, advance)
    best = max(trials, key=lambda trial: trial.judgement.bound) if trials else None
    verdict = None
    if best is not None and promising(best.judgement, log):
        verdict = judge(parts.judge, 2).ask(best.learned.policy)
    if best is not None and verdict is not None and verdict.better:
        said = (
            f"{best.row.name} was the best of {len(trials)} candidates on {parts.choose.n_episodes:,} "
            f"episodes that did not teach them."
        )
        reasons = (said, *best.learned.reasons, *_failures(failed))
        learned = replace(best.learned, judged=verdict, improves=True, reasons=reasons)
    elif (other := blind_choice(log, gamma, judge(log, 3), trials, teach)) is not None:
        said = (
            f"{other.row.name} needs no rewards to be learned, and is better than the log by all "
            f"{log.n_episodes:,} episodes."
        )
        found = replace(other.judgement, level=at_least)
        learned = replace(other.learned, judged=found, improves=True, reasons=(said,))
    else:
        learned = replace(_kept(both, gamma, seed, teach, best, failed), judged=verdict)
    return replace(learned, held_out=parts.judge)


def blind_choice(
    log: Log, gamma: float, judge: Judge, trials: Sequence[Trial], teach: Teach
) -> Trial | None:
    """Return the best policy that is learned without rewards, if all episodes say that it is better.

    The likeliest action has seen no reward and a constant needs no teaching, so that they cannot have
    taken advantage of their noise, and all episodes may judge them: at half of the risk, divided by
    their number. Constants are tried in one-step logs only: of a world in which one action is always
    taken, a log of several steps knows little. The likeliest action must be promising by the choosing
    episodes too.
    """
    rows = [
        trial for trial in trials if trial.row.name == LIKELIEST and promising(trial.judgement, log)
    ]
    if log.is_bandit:
        task = Task(log, gamma, None, log.first_states, seed=judge.seed)
        for action in common_actions(log):
            label = log.action_space.label(action)  # type: ignore[union-attr]
            row = Row(f"Always {label}", Method(base=Constant(action=action), at="pointwise"))
            learned = replace(teach(task, row.method), taught=None)
            rows.append(Trial(row, learned))
    if not rows:
        return None
    strict = replace(judge, level=1 - (1 - judge.level) / 2 / len(rows))
    asked = [(trial, strict.ask(trial.learned.policy)) for trial in rows]
    found = [replace(trial, judgement=said) for trial, said in asked if said and said.better]
    return max(found, key=lambda trial: trial.judgement.bound, default=None)


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
    log: Log, gamma: float, seed: int, teach: Teach, best: Trial | None, failed: list[str]
) -> Learned:
    """Return the logged behaviour, cloned from all episodes that do not judge."""
    task = Task(log, gamma, None, log.first_states, seed=seed)
    clone = behaviour(teach(task, behaviour_row(counted=True).method))
    said = "No candidate could be learned from this log."
    if best is not None:
        found = best.judgement
        said = (
            f"The best candidate, {best.row.name}, was ahead of the log by {found.gain:.4g} on "
            f"{found.episodes:,} episodes that did not teach it, but with {found.level:.0%} confidence "
            f"only by {found.bound:.4g}."
        )
        if promising(found, log):
            said = (
                f"The best candidate, {best.row.name}, did not hold on episodes that neither taught "
                f"nor chose it."
            )
    return replace(clone, improves=False, reasons=(said, *_failures(failed)))


def _failures(failed: list[str]) -> tuple[str, ...]:
    return (f"Not learned: {'; '.join(failed)}.",) if failed else ()
