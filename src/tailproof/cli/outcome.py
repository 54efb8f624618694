"""The end of every command about a log: the record, the report, the answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailproof.cli.options import LogOptions
from tailproof.cli.session import Session
from tailproof.report.versions import versions

if TYPE_CHECKING:
    from tailproof.report.page import Page
    from tailproof.report.pages import Context
    from tailproof.sources import Reading


def conclude(
    session: Session,
    command: str,
    options: LogOptions,
    reading: Reading,
    *,
    asked: Mapping[str, Any],
    found: Mapping[str, Any],
    lines: list[Any],
    page: Callable[[Context], Page],
    report: Path | None,
) -> None:
    """Write the report where one is wanted, and print the answer or its record.

    Parameters
    ----------
    asked
        The settings to repeat, beside the log and its columns.
    found
        The numbers, plain.
    lines
        What a terminal shows.
    page
        Makes the report.
    """
    settings = {
        "command": command,
        "log": options.log,
        "columns": None if reading.columns is None else reading.columns.describe(),
        **asked,
    }
    record = {
        **settings,
        **found,
        "notes": session.notes,
        "warnings": session.warnings,
        "versions": versions(),
    }
    if report is not None:
        from tailproof.report.pages import Context  # --help needs no pages

        context = Context(
            source=options.log,
            settings=settings,
            notes=session.notes,
            warnings=session.warnings,
            record=record,
        )
        with session.working("Writing the report"):
            page(context).write(report)
    session.answer(record, *lines)
    if report is not None:
        session.note(f"The report is in {report}.")
