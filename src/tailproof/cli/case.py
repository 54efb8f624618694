"""Commands on a log: read it, print the answer, write the report."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailproof.cli.options import LogOptions
from tailproof.cli.session import VERDICTS, ExitCode, Session
from tailproof.errors import without_secrets
from tailproof.files import require_outputs
from tailproof.report.blocks import Answer, Headline, headline_of
from tailproof.report.text import page_of, versions

if TYPE_CHECKING:
    from tailproof.doors.diagnose import Diagnosis
    from tailproof.doors.estimate import Estimate
    from tailproof.io import Reading
    from tailproof.log.log import Log
    from tailproof.parallel import Engine
    from tailproof.policies.binding import Policy
    from tailproof.profile.profile import LogProfile


@dataclass(frozen=True)
class Case:
    """A log that a command has read, and the output of its answer."""

    command: str
    options: LogOptions
    session: Session
    report: Path | None
    reading: Reading
    inputs: tuple[str, ...] = ()  # what the command reads, as it was written

    @property
    def log(self) -> Log:
        """The log."""
        return self.reading.log

    @cached_property
    def profile(self) -> LogProfile:
        """What the log shows, computed once for the answer and the report."""
        from tailproof.profile.profile import LogProfile

        return LogProfile(self.log)

    def policy(self, text: str) -> Policy:
        """Return the policy of a command-line text, with or without NAME=, bound to the log."""
        from tailproof.policies.binding import for_log
        from tailproof.policies.text import name_and_policy

        bound: Policy = for_log(name_and_policy(text)[1], self.log)
        return bound

    def with_propensities(self, classifier: str | None = None) -> Case:
        """Return the case with estimated propensities, and print a note on the estimate."""
        from tailproof.critics.behaviour import with_estimated_propensities
        from tailproof.log.budget import sample_to_budget

        with self.session.working("Estimating propensities"):
            log, report = with_estimated_propensities(
                sample_to_budget(self.log, "A model of the propensities"), classifier=classifier
            )
        self.session.note(report.describe())
        return replace(self, reading=replace(self.reading, log=log))

    def diagnosed(
        self, profile: LogProfile, estimate: Estimate | None = None, **asked: Any
    ) -> tuple[Log, Diagnosis]:
        """Return the rows used for a diagnosis, and the diagnosis, of an estimate if there is one."""
        from tailproof.doors.diagnose import diagnose_with

        with self.session.working("Diagnosing the log"):
            return diagnose_with(profile, estimate, **asked)

    def conclude(
        self,
        answer: Answer,
        *,
        title: str,
        asked: Mapping[str, Any],
        found: Mapping[str, Any],
        look: Callable[[], tuple[Log, Diagnosis]] | None,
        whole: str = "",
    ) -> int:
        """Write the report if requested, print the answer or its JSON record, return the exit code.

        Parameters
        ----------
        answer
            What is printed, and the first part of the report.
        title
            The question that the report answers.
        asked
            The settings that reproduce the answer, without the log and its columns.
        found
            The numbers; `tailproof.report.text` defines which of them `--json` omits.
        look
            Diagnoses the log, for the report and for `--json=full`; None if that is impossible.
        whole
            The size of the whole log, where the report shows the part that was held out.
        """
        session, columns, headline = self.session, self.reading.columns, headline_of(answer)
        shown = None
        if look is not None and (self.report is not None or session.full):
            shown = look()
            found = {**found, "diagnosis": shown[1].to_dict()}
        settings = {
            "command": self.command,
            "log": without_secrets(self.options.log),
            "columns": None if columns is None else columns.describe(),
            **asked,
        }
        record = {
            **settings,
            "sentence": headline.text,
            **_verdict(headline, found),
            **found,
            "notes": [*session.notes, *found.get("notes", ())],
            "warnings": session.warnings,
            "versions": versions(),
        }
        if self.report is not None:
            from tailproof.report.pages import Context, report  # imports matplotlib

            assert shown is not None  # commands reject reports that they cannot write
            require_outputs(
                {"report": self.report}, self.inputs
            )  # also of code that policies have imported
            context = Context(
                source=without_secrets(self.options.log),
                settings=settings,
                notes=session.notes,
                warnings=session.warnings,
                record=record,
            )
            with session.working("Writing the report"):
                report(answer, *shown, context, title=without_secrets(title), whole=whole).write(
                    self.report
                )
        session.answer(record if session.full else page_of(record), answer)
        if self.report is not None:
            session.note(f"The report is in {self.report}.")
        return VERDICTS.get(headline.verdict, ExitCode.OK)


def _verdict(headline: Headline, found: Mapping[str, Any]) -> dict[str, Any]:
    """Return the verdict and its reason codes for JSON, where an answer has one."""
    if not headline.verdict:
        return {}
    judged = found.get("held_out") or {}
    same = judged.get("verdict") == headline.verdict
    return {"verdict": headline.verdict, "reason": judged["reason"] if same else []}


def opened(
    command: str,
    options: LogOptions,
    session: Session,
    report: Path | None,
    *,
    policies: Sequence[str] = (),
    beside: Sequence[str] = (),
    engine: Engine | None = None,
    out: Mapping[str, Path] | None = None,
) -> Case:
    """Read the log, or open it lazily if it is too large, and print how it was read.

    `report` and `out` are files that the command will write: an error is raised now if they are not
    regular files, or the log itself. Columns of the `policies`, and those `beside`, are not
    taken for states.
    """
    from tailproof.io import read
    from tailproof.policies.text import name_and_policy, policy_columns

    inputs = (options.log, *policies)
    require_outputs({**(out or {}), **({} if report is None else {"report": report})}, inputs)
    with session.working(f"Reading {without_secrets(options.log)}"):
        named = [name_and_policy(each)[1] for each in policies]
        others = [*policy_columns(named), *beside]
        reading = read(options.log, engine=engine, beside=others, **options.reading())
    if reading.log.is_mapped:
        session.note("The log is mapped from files and read in pieces: it stays on disk.")
    if reading.columns is not None:
        session.note(f"Read as {reading.columns.describe()}.")
    else:
        session.note(f"Read as {reading.log!r}.")
    for note in reading.notes:
        session.note(note)
    for caution in reading.cautions:
        session.warned(caution)
    case = Case(command, options, session, report, reading, inputs)
    if options.estimates_propensity:
        return case.with_propensities(str(options.propensity).partition(":")[2] or None)
    return case
