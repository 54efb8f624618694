"""The end of every command about a log: the record, the report, the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailproof.cli.options import LogOptions
from tailproof.cli.session import Session
from tailproof.data.log import Log
from tailproof.data.stored import AnyLog, held
from tailproof.diagnosis.diagnose import diagnose
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.report.record import page_of
from tailproof.report.versions import versions

if TYPE_CHECKING:
    from tailproof.report.page import Page
    from tailproof.report.pages import Context
    from tailproof.sources import Reading


@dataclass(frozen=True)
class Outcome:
    """What a command found.

    Attributes
    ----------
    asked
        The settings to repeat, beside the log and its columns.
    found
        The numbers, plain; `tailproof.report.record` says what `--json` leaves out of them.
    answer, evidence
        What a terminal shows, before and after the warnings.
    """

    asked: Mapping[str, Any]
    found: Mapping[str, Any]
    answer: Sequence[Any]
    evidence: Sequence[Any]


def diagnosed(
    log: AnyLog, policy: Any, session: Session, *, gamma: float | None, seed: int
) -> tuple[Log, Diagnosis]:
    """Return the diagnosis of a log, and the rows that it looked at."""
    with session.working("Diagnosing the log"):
        shown = held(log, "The diagnosis", seed=seed)
        return shown, diagnose(shown, policy, gamma=gamma, seed=seed)


def conclude(
    session: Session,
    command: str,
    options: LogOptions,
    reading: Reading,
    outcome: Outcome,
    *,
    report: Path | None,
    look: Callable[[], tuple[Log, Diagnosis]] | None,
    page: Callable[[Log, Diagnosis, Context], Page],
) -> None:
    """Write the report where one is wanted, and print the answer or its record.

    Parameters
    ----------
    look
        Diagnoses the log, for the report and for `--json=full`; None where that cannot be done.
    page
        Makes the report.
    """
    found = dict(outcome.found)
    shown: tuple[Log, Diagnosis] | None = None
    if look is not None and (report is not None or session.options.full):
        shown = look()
        found["diagnosis"] = shown[1].to_dict()
    settings = {
        "command": command,
        "log": options.log,
        "columns": None if reading.columns is None else reading.columns.describe(),
        **outcome.asked,
    }
    record = {
        **settings,
        **found,
        "notes": [*session.notes, *found.get("notes", ())],
        "warnings": session.warnings,
        "versions": versions(),
    }
    if report is not None:
        from tailproof.report.pages import Context  # --help needs no pages

        assert shown is not None  # commands refuse reports that they cannot make
        context = Context(
            source=options.log,
            settings=settings,
            notes=session.notes,
            warnings=session.warnings,
            record=record,
        )
        with session.working("Writing the report"):
            page(*shown, context).write(report)
    printed = record if session.options.full else page_of(record)
    session.answer(printed, *outcome.answer, evidence=outcome.evidence)
    if report is not None:
        session.note(f"The report is in {report}.")
