"""From the words of a command line to logs, policies and methods."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailproof.algorithms.bandit import IPS, BanditDR
from tailproof.cli.options import LogOptions, MethodOptions
from tailproof.cli.session import Session
from tailproof.data.stored import AnyLog, in_memory
from tailproof.engines import Engine
from tailproof.errors import TailproofError
from tailproof.files.atomic import require_replaceable
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method
from tailproof.policies.loading import POLICY_FORMS
from tailproof.policies.naming import for_log
from tailproof.policies.text import name_and_policy
from tailproof.sources.propensities import with_estimated_propensities

if TYPE_CHECKING:
    from tailproof.sources import Reading

#: The forms of a policy, for help that is written in Markdown.
POLICY_HELP = POLICY_FORMS.replace("*", r"\*")


def read_the_log(
    options: LogOptions,
    session: Session,
    *,
    engine: Engine | None = None,
    outputs: Sequence[Path | None] = (),
) -> Reading:
    """Read the log, or open it where it is too large, and say how it was understood.

    `outputs` are files that the command will write: refused now if they are none, or the log itself.
    """
    from tailproof.sources import read  # brings pyarrow, which --help can do without

    _require_outputs([path for path in outputs if path is not None], options.log)
    with session.working(f"Reading {options.log}"):
        reading = read(
            options.log,
            lazy=options.lazy,
            budget=options.bytes_allowed,
            engine=engine,
            **options.tidying(),
            **options.parts(),
        )
    if reading.log.stays_on_disk:
        session.note(f"The log stays on disk and is read in pieces: {reading.log!r}.")
    if reading.columns is not None:
        session.note(f"Read as {reading.columns.describe()}.")
    for note in reading.notes:
        session.note(note)
    for caution in reading.cautions:
        session.warned(caution)
    if options.estimates_propensity:
        named = str(options.propensity).partition(":")[2]
        reading = with_propensities(reading, session, classifier=named or None)
    return reading


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


def with_propensities(
    reading: Reading, session: Session, *, classifier: str | None = None
) -> Reading:
    """Return the log with estimated propensities, and say that they are estimated."""
    with session.working("Estimating propensities"):
        log, report = with_estimated_propensities(
            in_memory(reading.log, "A model of the propensities"), classifier=classifier
        )
    session.note(report.describe())
    return replace(reading, log=log)


def needs_propensities(method: Method, log: AnyLog) -> bool:
    """Return whether a method weighs by propensities that the log does not have."""
    return isinstance(method.base, IPS | BanditDR) and not log.has_propensity


def chosen_method(options: MethodOptions) -> Method:
    """Return the method with its settings."""
    return named_method(options.method, **options.changes())


def policy_for(text: str, log: AnyLog) -> Any:
    """Return the policy that a command line names, with or without NAME=, as it acts on a log."""
    return for_log(name_and_policy(text)[1], log)
