"""Reports: the answer of a result, and what its log shows, as one page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tailproof.doors.compare import Comparison
from tailproof.doors.diagnose import Diagnosis, diagnose_with
from tailproof.doors.estimate import Estimate
from tailproof.doors.evaluate import evaluate
from tailproof.doors.learned import Learned, best_constant
from tailproof.errors import TailproofError
from tailproof.files import require_replaceable
from tailproof.log.budget import sample_to_budget
from tailproof.log.log import Log
from tailproof.profile.profile import LogProfile
from tailproof.report.answers import (
    comparison_answer,
    comparison_title,
    diagnosis_answer,
    estimate_answer,
    evidence,
    learned_answer,
    log_section,
    settings_section,
    with_warnings,
)
from tailproof.report.blocks import Answer
from tailproof.report.html import Page
from tailproof.report.text import count, size_text, versions


@dataclass(frozen=True, kw_only=True)
class Context:
    """The source and settings of a result, for its report.

    Attributes
    ----------
    source
        The log's file or name.
    settings
        The settings that reproduce the result.
    notes, warnings
        Messages collected during the run.
    record
        The numbers for programs.
    """

    source: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    record: dict[str, Any] = field(default_factory=dict)


def report(
    answer: Answer, log: Log, diagnosis: Diagnosis, context: Context, *, title: str, whole: str = ""
) -> Page:
    """Return the page of an answer.

    Parameters
    ----------
    answer
        The blocks of the result.
    log, diagnosis
        The log that the result is from, and its diagnosis.
    context
        Where it comes from.
    title
        The question.
    whole
        The size of the whole log, where `log` is the part that was held out.
    """
    has_log = any(getattr(each, "key", "") == "log" for each in answer)
    found = None if has_log else log_section(diagnosis, answer)
    own = () if found is None else (found,)
    size = f"{whole}; {_size(log.once)} held out" if whole else _size(log.once)
    notes = [*context.notes, *(note for note in diagnosis.notes if note not in context.notes)]
    return Page(
        title=title,
        subtitle=f"{context.source}: {size}",
        answer=(
            *with_warnings(answer, context.warnings),
            *own,
            *evidence(log, diagnosis),
            settings_section(context.settings, notes=notes),
        ),
        record=context.record,
        created=today(),
    )


def _size(log: Log) -> str:
    groups = "" if log.group_ids is None else f" in {count(log.n_groups, 'group')}"
    return f"{size_text(log.n_transitions, log.n_episodes)}{groups}"


def today() -> str:
    """Return the current time as text."""
    return datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")


def whole_size(learned: Learned) -> str:
    """Return the size of the whole log that a policy was learned and judged from, if it is known."""
    if learned.log_size is None:
        return ""
    return size_text(*learned.log_size)


#: The results that have a report.
Result = Estimate | Comparison | Diagnosis | Learned


def write_report(
    result: Result,
    path: str | Path,
    *,
    log: Log | None = None,
    level: float = 0.9,
    name: str = "the policy",
) -> Path:
    """Write the report of a result to one HTML file, which opens offline.

    Parameters
    ----------
    result
        What `evaluate`, `compare`, `diagnose` or `learn` returned.
    path
        The file; it is replaced if it exists.
    log
        The log of the result. Needed for a `Diagnosis` and for a result that was stored; others have
        it. That of a `Learned` are its held-out episodes.
    level
        Confidence of the intervals.
    name
        The name of the policy in the title.

    Examples
    --------
    >>> import tempfile
    >>> from tailproof import evaluate, write_report
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> log = world.log(episodes=10, seed=1)
    >>> estimate = evaluate(log, world.target(), method="lstd", gamma=0.9)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(estimate, f"{folder}/report.html").name
    'report.html'
    """
    require_replaceable(Path(path))
    return _page(result, log, level, name).write(path)


def _page(result: Result, log: Log | None, level: float, name: str) -> Page:
    """Return the page of a result, with a diagnosis of its log."""
    whole = ""
    if isinstance(result, Diagnosis):
        shown, diagnosis = _profile(log, 0).log, result
        answer, title = diagnosis_answer(result), "What the log shows"
    elif isinstance(result, Comparison):
        proposed = result.proposed.estimate
        shown, diagnosis = diagnose_with(_profile(log or _log_of(proposed), result.seed), proposed)
        answer = comparison_answer(result)
        title = comparison_title(result)
    elif isinstance(result, Learned):
        profile = _profile(log or result.held_out, result.seed)
        estimate = evaluate(profile, result.policy, gamma=result.gamma, seed=result.seed)
        shown, diagnosis = diagnose_with(profile, estimate)
        best = best_constant(profile, gamma=result.gamma, seed=result.seed)
        answer = learned_answer(result, estimate, level=level, constant=best)
        title, whole = "How good is the learned policy?", whole_size(result)
    elif isinstance(result, Estimate):
        shown, diagnosis = diagnose_with(_profile(log or _log_of(result), result.seed), result)
        answer = estimate_answer(result, name=f"{name[0].upper()}{name[1:]}", level=level)
        title = f"How good is {name}?"
    else:
        raise TailproofError(
            f"A report is of a result of evaluate, compare, diagnose or learn. Got "
            f"{type(result).__name__} instead."
        )
    return report(
        answer, shown, diagnosis, _context(result, shown, level), title=title, whole=whole
    )


def _log_of(estimate: Estimate) -> Any:
    return None if estimate.task is None else estimate.task.log


def _profile(log: Log | None, seed: int) -> LogProfile:
    if log is None:
        raise TailproofError(
            "A report shows the log, which this result does not have. Pass the log of the result.",
        )
    return LogProfile(sample_to_budget(log, "The report", seed=seed))


def _context(result: Result, log: Log, level: float) -> Context:
    table = log.table_rows.table
    numbers = result.to_dict(level=level) if isinstance(result, Estimate) else result.to_dict()
    settings = {
        "method": str(getattr(result, "method", "")) or None,
        "gamma": result.gamma,
        "level": level,
        "seed": getattr(result, "seed", None),
    }
    return Context(
        source="the log" if table is None else table.label,
        settings={key: each for key, each in settings.items() if each is not None},
        warnings=[str(each) for each in result.cautions] if isinstance(result, Estimate) else (),
        record={**settings, **numbers, "versions": versions()},
    )
