"""Commands on a log: read it, print the answer, write the report; quantities beside the mean."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailproof.cli.options import LogOptions, option
from tailproof.cli.session import Session
from tailproof.critics.behaviour import with_estimated_propensities
from tailproof.doors.diagnose import Diagnosis, diagnose
from tailproof.doors.estimate import Estimate
from tailproof.doors.returns import Measured, Returns, confidence_sequence, returns_under
from tailproof.errors import LevelError, TailproofError
from tailproof.estimators.choice import OneStepChoice
from tailproof.files import require_replaceable
from tailproof.log.log import Log
from tailproof.log.stored import AnyLog, in_memory, sample_to_budget
from tailproof.parallel import Engine
from tailproof.policies.binding import for_log
from tailproof.policies.text import POLICY_FORMS, name_and_policy, policy_columns
from tailproof.report.text import number, page_of, percent, versions
from tailproof.robust.intervals import Interval
from tailproof.robust.means import USUAL, Cap

if TYPE_CHECKING:
    from tailproof.io import Reading
    from tailproof.report.page import Page
    from tailproof.report.pages import Context


_WORTH_SAYING = 0.005  # smallest relative change by a cap to report


@dataclass(frozen=True)
class ExperimentOptions:
    """The quantities to add to the answer."""

    quantile: list[float] = option(
        "Also this quantile of the return, as 0.5; may be repeated.", default=[], metavar="Q"
    )
    cvar: list[float] = option(
        "Also the mean of this worst share of returns; may be repeated.", default=[], metavar="Q"
    )
    upper_cvar: list[float] = option(
        "Also the mean of this best share of returns; may be repeated.", default=[], metavar="Q"
    )
    per: str | None = option(
        "Also the reward per unit of this column, as sessions.", metavar="COLUMN"
    )
    sequential: bool = option(
        "Also an interval that holds however often one looks at a growing log.",
        "--sequential",
        default=False,
    )


def experiment_findings(
    options: ExperimentOptions,
    whole: AnyLog,
    policy: Any,
    estimate: Estimate,
    *,
    level: float,
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the numbers for the record, and rows of label and text."""
    found: dict[str, Any] = {}
    rows: list[tuple[str, str]] = []
    returns: Returns | None = None
    if (lift := _lift(estimate, level)) is not None:
        found["lift"] = asdict(lift)
        ends = f"{lift.low:+.1%} to {lift.high:+.1%}  ({percent(level)})"
        rows.append(("lift", f"{lift.value:+.1%}, {ends}"))
    tails = options.cvar or options.upper_cvar
    if options.quantile or tails or options.per or _shows_cap(whole, estimate):
        log = in_memory(whole, "The distribution of returns")
        returns = returns_under(log, policy, gamma=estimate.gamma, per=options.per)
    if returns is not None:
        asked = [returns.quantile(q, level=level) for q in options.quantile]
        asked += [returns.cvar(q, level=level) for q in options.cvar]
        asked += [returns.cvar(q, level=level, upper=True) for q in options.upper_cvar]
        if options.per is not None:
            asked.append(replace(returns.ratio(level=level), name=f"per {options.per}"))
        for each in asked:
            found.setdefault("returns", []).append(asdict(each))
            rows.append((each.name, f"{number(each.value)}, {_ends(each)}"))
            rows += [("", each.note)] if each.note else []
    if options.sequential:
        sequence = confidence_sequence(estimate, level=level)
        found["sequential"] = asdict(sequence)
        rows += [("at any time", _ends(sequence)), ("", sequence.note)]
        if (least := _guaranteed(estimate, level)) is not None:
            found["sequential"]["guaranteed_low"] = least
            rows.append(("", f"above {number(least)} at any time, guaranteed"))
    if returns is not None and (capped := cap_reading(estimate, returns)) is not None:
        cap, value = capped
        found["winsorised"] = {"cap": cap, "value": value}
        reads = f"at {cap}, the value of the policy would read {number(value)}"
        uncapped = isinstance(estimate.method.clip, str)
        rows.append(
            ("uncapped", f"without the cap {reads}") if uncapped else ("", f"winsorised {reads}")
        )
    return found, rows


def sentences(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return rows of label and text as sentences for a report.

    >>> sentences([("lift", "+3 %"), ("", "winsorised, this would read 4")])
    ['Lift: +3 %.', 'Winsorised, this would read 4.']
    """
    texts = [f"{label}: {text}" if label else text for label, text in rows]
    return [f"{text[0].upper()}{text[1:]}." for text in texts]


def cap_reading(estimate: Estimate, returns: Returns) -> tuple[str, float] | None:
    """Return the cap, and the estimate with it (without it, if a cap was requested).

    The reward model is unchanged, so that the estimate changes by the weighted mean of the amounts
    that the cap removes. None if the change is below half a percent.
    """
    asked = estimate.method.clip
    if isinstance(asked, str):
        shift = returns.shift_by_cap(asked)
        return (asked, estimate.value - shift) if shift else None
    if asked:
        return None
    usual = Cap.named(USUAL)
    shifts = {str(cap): returns.shift_by_cap(cap) for cap in (usual, usual.mirrored)}
    cap = max(shifts, key=lambda name: abs(shifts[name]))
    if abs(shifts[cap]) <= _WORTH_SAYING * abs(estimate.value):
        return None
    return cap, estimate.value + shifts[cap]


def _shows_cap(log: AnyLog, estimate: Estimate) -> bool:
    """Return whether the effect of a cap is cheap to compute: one step, logged propensities."""
    known = isinstance(log, Log) and log.is_bandit and log.propensity is not None
    return known and isinstance(estimate.choice, OneStepChoice)


def _lift(estimate: Estimate, level: float) -> Measured | None:
    """Return the relative gain over the log, if the two values have a joint standard error."""
    if not isinstance(estimate.choice, OneStepChoice) or not estimate.choice.logged_value:
        return None
    gain = estimate.choice.gain
    interval = asdict(gain.relative_interval(level))
    return Measured(name="relative gain", value=gain.relative, **interval)


def _guaranteed(estimate: Estimate, level: float) -> float | None:
    try:
        return confidence_sequence(estimate, level=level, kind="guaranteed").low
    except LevelError:
        return None


def _ends(found: Interval) -> str:
    return f"{number(found.low)} to {number(found.high)}  ({percent(found.level)})"


#: The forms of a policy, for help texts in Markdown.
POLICY_HELP = POLICY_FORMS.replace("*", r"\*")


@dataclass(frozen=True)
class Case:
    """A log that a command has read, and the output of its answer."""

    command: str
    options: LogOptions
    session: Session
    report: Path | None
    reading: Reading

    @property
    def log(self) -> AnyLog:
        """The log."""
        log: AnyLog = self.reading.log
        return log

    def policy(self, text: str) -> Any:
        """Return the policy of a command-line text, with or without NAME=, bound to the log."""
        return for_log(name_and_policy(text)[1], self.log)

    def with_propensities(self, classifier: str | None = None) -> Case:
        """Return the case with estimated propensities, and print a note on the estimate."""
        with self.session.working("Estimating propensities"):
            log, report = with_estimated_propensities(
                in_memory(self.log, "A model of the propensities"), classifier=classifier
            )
        self.session.note(report.describe())
        return replace(self, reading=replace(self.reading, log=log))

    def diagnosed(
        self, log: AnyLog, policy: Any, *, gamma: float | None, seed: int
    ) -> tuple[Log, Diagnosis]:
        """Return the rows used for a diagnosis, and the diagnosis."""
        with self.session.working("Diagnosing the log"):
            shown = sample_to_budget(log, "The diagnosis", seed=seed)
            return shown, diagnose(shown, policy, gamma=gamma, seed=seed)

    def conclude(
        self,
        *,
        asked: Mapping[str, Any],
        found: Mapping[str, Any],
        answer: Sequence[Any],
        evidence: Sequence[Any],
        look: Callable[[], tuple[Log, Diagnosis]] | None,
        page: Callable[[Log, Diagnosis, Context], Page],
    ) -> None:
        """Write the report if requested, and print the answer or its JSON record.

        Parameters
        ----------
        asked
            The settings that reproduce the answer, without the log and its columns.
        found
            The numbers; `tailproof.report.text` defines which of them `--json` omits.
        answer, evidence
            The terminal output before and after the warnings.
        look
            Diagnoses the log, for the report and for `--json=full`; None if that is impossible.
        page
            Makes the report.
        """
        session, columns = self.session, self.reading.columns
        shown = None
        if look is not None and (self.report is not None or session.full):
            shown = look()
            found = {**found, "diagnosis": shown[1].to_dict()}
        settings = {
            "command": self.command,
            "log": self.options.log,
            "columns": None if columns is None else columns.describe(),
            **asked,
        }
        record = {
            **settings,
            **found,
            "notes": [*session.notes, *found.get("notes", ())],
            "warnings": session.warnings,
            "versions": versions(),
        }
        if self.report is not None:
            from tailproof.report.pages import Context  # not imported for --help

            assert shown is not None  # commands reject reports that they cannot write
            context = Context(
                source=self.options.log,
                settings=settings,
                notes=session.notes,
                warnings=session.warnings,
                record=record,
            )
            with session.working("Writing the report"):
                page(*shown, context).write(self.report)
        session.answer(record if session.full else page_of(record), *answer, evidence=evidence)
        if self.report is not None:
            session.note(f"The report is in {self.report}.")


def opened(
    command: str,
    options: LogOptions,
    session: Session,
    report: Path | None,
    *,
    policies: Sequence[str] = (),
    engine: Engine | None = None,
    out: Path | None = None,
) -> Case:
    """Read the log, or open it lazily if it is too large, and print how it was read.

    `report` and `out` are files that the command will write: an error is raised now if they are not
    regular files, or the log itself. Columns of the `policies` are not taken for states.
    """
    from tailproof.io import read  # imports pyarrow, not needed for --help

    _require_outputs([path for path in (report, out) if path is not None], options.log)
    with session.working(f"Reading {options.log}"):
        named = [name_and_policy(each)[1] for each in policies]
        beside = policy_columns(named)
        reading = read(options.log, engine=engine, beside=beside, **options.reading())
    if reading.log.stays_on_disk:
        session.note(f"The log stays on disk and is read in pieces: {reading.log!r}.")
    if reading.columns is not None:
        session.note(f"Read as {reading.columns.describe()}.")
    else:
        session.note(f"Read as {reading.log!r}.")
    for note in reading.notes:
        session.note(note)
    for caution in reading.cautions:
        session.warned(caution)
    case = Case(command, options, session, report, reading)
    if options.estimates_propensity:
        return case.with_propensities(str(options.propensity).partition(":")[2] or None)
    return case


def _require_outputs(outputs: Sequence[Path], log: str) -> None:
    source = Path(os.path.realpath(log))
    targets = [require_replaceable(path) for path in outputs]
    for path, target in zip(outputs, targets, strict=True):
        same = target.exists() and source.exists() and target.samefile(source)
        if same or (target.exists() and target.is_relative_to(source)):
            raise TailproofError(
                f"{path} is the log, or a part of it, and would be replaced. Name another file."
            )
    if len(set(targets)) < len(targets):
        raise TailproofError(f"One file cannot hold two results. Got {outputs[0]} for both.")
