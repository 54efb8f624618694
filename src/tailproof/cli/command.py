"""What every command shares: options by the group, warnings as notes, errors as exit codes."""

from __future__ import annotations

import functools
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import fields
from enum import IntEnum
from typing import Any, get_type_hints

import typer

from tailproof.cli.session import Session
from tailproof.errors import TailproofError
from tailproof.report.record import as_json


class ExitCode(IntEnum):
    """What the process returns."""

    OK = 0
    UNEXPECTED = 1
    INPUT = 2  # also what a wrong option gives
    GATE = 3
    INTERRUPTED = 130


EXIT_CODES = (
    "Exit codes: 0 done; 1 an unexpected error (--debug shows the traceback); 2 a wrong option or "
    "input that cannot be used; 3 no candidate passed the gate of compare; 130 interrupted."
)


_MEMORY = (
    "This needs more memory than there is. Write the log as Parquet and pass --lazy, use fewer folds, "
    "candidates or state columns, or a part of the log."
)


def command(function: Callable[..., int | None]) -> Callable[..., None]:
    """Turn a function of option groups into one that typer understands.

    Every parameter is a dataclass, whose fields are options; one of them is the `session`.
    """
    groups = {name: hint for name, hint in get_type_hints(function).items() if name != "return"}
    options = {name: [each for each in fields(groups[name]) if each.init] for name in groups}

    @functools.wraps(function)
    def run(**given: Any) -> None:
        asked = {
            name: groups[name](**{each.name: given[each.name] for each in options[name]})
            for name in groups
        }
        raise typer.Exit(_run(functools.partial(function, **asked), asked["session"]))

    types = {key: hint for group in groups.values() for key, hint in get_type_hints(group).items()}
    parameters = [
        inspect.Parameter(
            each.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=each.default,
            annotation=types[each.name],
        )
        for group in options.values()
        for each in group
    ]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    del run.__wrapped__
    return run


def _run(call: Callable[[], int | None], session: Session) -> int:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = session.warned
            code = int(call() or ExitCode.OK)
        session.print_warnings(session.err)  # of commands that end without an answer
        return code
    except typer.Exit as stop:
        return stop.exit_code
    except KeyboardInterrupt:
        session.error("Interrupted.")
        return ExitCode.INTERRUPTED
    except TailproofError as error:
        return _fail(session, error, str(error), ExitCode.INPUT)
    except MemoryError as error:
        return _fail(session, error, f"{str(error).rstrip('.')}. {_MEMORY}", ExitCode.INPUT)
    except Exception as error:
        said = f"{type(error).__name__}: {error}".strip().rstrip(":")
        return _fail(session, error, f"Unexpected: {said}", ExitCode.UNEXPECTED)


def _fail(session: Session, error: Exception, message: str, code: ExitCode) -> int:
    session.print_warnings(session.err)
    if session.debug:
        traceback.print_exception(error, file=sys.stderr)
    elif code is ExitCode.UNEXPECTED:
        message += "\nThis is not your log's fault alone; run again with --debug and report it."
    session.error(message)
    if session.json:
        said = {"kind": type(error).__name__, "message": message, "exit_code": int(code)}
        typer.echo(as_json({"error": said}))
    return code
