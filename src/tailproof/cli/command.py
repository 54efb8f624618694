"""The wrapper of all commands: groups of options, warnings as notes, errors as exit codes."""

from __future__ import annotations

import functools
import inspect
import sys
import traceback
import warnings
from collections.abc import Callable
from dataclasses import is_dataclass
from enum import IntEnum
from typing import Any, get_type_hints

import typer

from tailproof.cli import interrupt
from tailproof.cli.hints import as_options
from tailproof.cli.session import Session
from tailproof.errors import TailproofError
from tailproof.report.record import as_json


class ExitCode(IntEnum):
    """Exit codes of the process."""

    OK = 0
    UNEXPECTED = 1
    INPUT = 2  # also the code for an invalid option
    GATE = 3
    INTERRUPTED = interrupt.EXIT_CODE


EXIT_CODES = (
    "Exit codes: 0 done; 1 an unexpected error (--debug shows the traceback); 2 a wrong option or "
    "input that cannot be used; 3 no candidate passed the gate of compare; 130 interrupted."
)


_MEMORY = (
    "This needs more memory than there is. Write the log as Parquet and pass --lazy, use fewer folds, "
    "candidates or state columns, or a part of the log."
)


def command(function: Callable[..., int | None]) -> Callable[..., None]:
    """Convert a function of options and groups of options to one for typer.

    A parameter whose type is a dataclass is replaced by its fields; the `session` is such a group.
    """
    hints = get_type_hints(function)
    options: dict[str, list[inspect.Parameter]] = {}
    for name, each in inspect.signature(function).parameters.items():
        fields = inspect.signature(hints[name]) if is_dataclass(hints[name]) else None
        types = hints if fields is None else get_type_hints(hints[name])
        options[name] = [
            inspect.Parameter(
                one.name,
                inspect.Parameter.KEYWORD_ONLY,
                default=one.default,
                annotation=types[one.name],
            )
            for one in ([each] if fields is None else fields.parameters.values())
        ]

    @functools.wraps(function)
    def run(**given: Any) -> None:
        asked = {
            name: hints[name](**{one.name: given[one.name] for one in options[name]})
            if is_dataclass(hints[name])
            else given[name]
            for name in options
        }
        raise typer.Exit(_run(functools.partial(function, **asked), asked["session"]))

    parameters = [one for group in options.values() for one in group]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    del run.__wrapped__
    return run


def _run(call: Callable[[], int | None], session: Session) -> int:
    try:
        with interrupt.raise_on_interrupt(), warnings.catch_warnings():
            warnings.simplefilter("default")
            warnings.showwarning = session.warned
            code = int(call() or ExitCode.OK)
        session.print_warnings(session.err)  # if a command ends without an answer
        return code
    except typer.Exit as stop:
        return stop.exit_code
    except KeyboardInterrupt:
        session.error(interrupt.MESSAGE)
        return ExitCode.INTERRUPTED
    except TailproofError as error:
        return _fail(session, error, str(error), ExitCode.INPUT)
    except MemoryError as error:
        return _fail(session, error, f"{str(error).rstrip('.')}. {_MEMORY}", ExitCode.INPUT)
    except Exception as error:
        said = f"{type(error).__name__}: {error}".strip().rstrip(":")
        return _fail(session, error, f"Unexpected: {said}", ExitCode.UNEXPECTED)


def _fail(session: Session, error: Exception, message: str, code: ExitCode) -> int:
    message = as_options(message)
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
