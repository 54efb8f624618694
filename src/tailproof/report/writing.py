"""Reports of results in Python, the same pages that ``--report`` writes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailproof.comparison.comparison import Comparison
from tailproof.data.log import Log
from tailproof.data.stored import AnyLog, sample_to_budget
from tailproof.diagnosis.diagnose import diagnose
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.errors import TailproofError
from tailproof.evaluation.estimate import Estimate
from tailproof.evaluation.evaluate import evaluate
from tailproof.files.atomic import require_replaceable
from tailproof.learning.constants import best_constant
from tailproof.learning.learned import Learned
from tailproof.report.answers import Answer
from tailproof.report.page import Page
from tailproof.report.pages import (
    Context,
    comparison_page,
    diagnosis_page,
    evaluation_page,
    learning_page,
)
from tailproof.report.versions import versions

#: The results that have a report.
Result = Estimate | Comparison | Diagnosis | Learned


def write_report(
    result: Result,
    path: str | Path,
    *,
    log: AnyLog | None = None,
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
    >>> estimate = evaluate(world.log(episodes=40, seed=1), world.target(), gamma=0.9)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     write_report(estimate, f"{folder}/report.html").name
    'report.html'
    """
    require_replaceable(Path(path))
    return _page(result, log, level, name).write(path)


def _page(result: Result, log: AnyLog | None, level: float, name: str) -> Page:
    if isinstance(result, Diagnosis):
        shown = _shown(log, 0)
        return diagnosis_page(shown, result, _context(result, shown, level))
    if isinstance(result, Comparison):
        shown = _shown(log or _log_of(result.best.estimate), result.seed)
        diagnosis = diagnose(shown, gamma=result.gamma, seed=result.seed)
        return comparison_page(shown, result, diagnosis, _context(result, shown, level))
    if isinstance(result, Learned):
        shown = _shown(log or result.held_out, result.seed)
        asked: dict[str, Any] = {"gamma": result.gamma, "seed": result.seed}
        found = Answer(evaluate(shown, result.policy, **asked), level)
        diagnosis = diagnose(shown, result.policy, estimate=found.estimate, **asked)
        context = _context(result, shown, level)
        best = best_constant(shown, **asked)
        return learning_page(shown, result, found, diagnosis, context, constant=best)
    if isinstance(result, Estimate):
        shown = _shown(log or _log_of(result), result.seed)
        policy = None if result.task is None else result.task.policy
        diagnosis = diagnose(shown, policy, gamma=result.gamma, seed=result.seed)
        context = _context(result, shown, level)
        return evaluation_page(shown, Answer(result, level), diagnosis, context, name=name)
    raise TailproofError(
        f"A report is of a result of evaluate, compare, diagnose or learn. Got "
        f"{type(result).__name__} instead."
    )


def _log_of(estimate: Estimate) -> Any:
    return None if estimate.task is None else estimate.task.log


def _shown(log: AnyLog | None, seed: int) -> Log:
    if log is None:
        raise TailproofError(
            "A report shows the log, which this result does not have. Pass log=..., the log of the "
            "result."
        )
    return sample_to_budget(log, "The report", seed=seed)


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
        warnings=result.cautions if isinstance(result, Estimate) else (),
        record={**settings, **numbers, "versions": versions()},
    )
