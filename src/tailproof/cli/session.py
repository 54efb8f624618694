"""One run of a command: its options, output, warnings, progress and exit code."""

from __future__ import annotations

import functools
import inspect
import logging
import os
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass
from enum import IntEnum
from typing import Any, get_type_hints

import typer
from rich.console import Console

from tailproof.cli import interrupt
from tailproof.cli.hints import as_options
from tailproof.cli.options import OUTPUT, option
from tailproof.errors import StorageError, TailproofError, without_secrets
from tailproof.progress import ESTIMATES, LOGGER, stage
from tailproof.report.blocks import Answer
from tailproof.report.terminal import console_for, labelled, show, visible
from tailproof.report.text import as_json, details, first_screen

#: The parser's flag for `--json=full`, because its flags take no values.
FULL = "--json-full"


class ExitCode(IntEnum):
    """Exit codes of the process."""

    OK = 0  # done; of a verdict: better
    UNEXPECTED = 1
    INPUT = 2  # also the code for an invalid option
    NOT_BETTER = 3
    CANNOT_TELL = 4
    INTERRUPTED = interrupt.EXIT_CODE


#: The exit code of each verdict.
VERDICTS = {
    "better": ExitCode.OK,
    "worse": ExitCode.NOT_BETTER,
    "no difference shown": ExitCode.NOT_BETTER,
    "cannot tell": ExitCode.CANNOT_TELL,
}
EXIT_CODES = (
    "Exit codes: 0 done, and better where policies are compared; 1 an unexpected error (--debug shows "
    "the traceback); 2 a wrong option or input that cannot be used; 3 no difference shown, or worse; "
    "4 cannot tell; 130 interrupted."
)


def _flag(text: str, *flags: str, **more: Any) -> Any:
    return option(text, *flags, default=False, panel=OUTPUT, **more)


@dataclass
class Session:
    """The output of one command. Answers go to stdout, everything else to stderr.

    Its options control the output; `notes` and `warnings` are collected for the JSON and the report.
    """

    numbers: bool = _flag(
        "Print one JSON object and nothing else, the main numbers. --json=full adds all evidence.",
        "--json",
    )
    full: bool = _flag("", FULL, hidden=True)
    explain: bool = _flag(
        "Also print how the answer was computed, and what it assumes.", "--explain"
    )
    verbose: bool = _flag("Print each stage with its time.", "--verbose", "-v")
    quiet: bool = _flag("Print the answer and its warnings only.", "--quiet", "-q")
    debug: bool = _flag("Show tracebacks of errors.", "--debug")
    notes: list[str] = field(default_factory=list, init=False)
    warnings: list[str] = field(default_factory=list, init=False)
    _printed: int = field(default=0, init=False)  # number of warnings already printed

    @property
    def json(self) -> bool:
        """Whether the answer is printed as JSON."""
        return self.numbers or self.full

    @property
    def err(self) -> Console:
        """The console for everything but the answer."""
        return console_for(sys.stderr)

    @property
    def talks(self) -> bool:
        """Whether to print notes beside the answer."""
        return not (self.json or self.quiet)

    def note(self, text: str) -> None:
        """Keep and print a note on how input was read."""
        text = without_secrets(as_options(text))
        self.notes.append(text)
        if self.talks:
            self.err.print(visible(text), style="dim")

    def warned(self, message: Warning | str, *_: object, **__: object) -> None:
        """Keep each Python warning once, to print it with the answer."""
        if (text := without_secrets(as_options(str(message)))) not in self.warnings:
            self.warnings.append(text)

    def error(self, message: str) -> None:
        """Print an error."""
        self.err.print(labelled("Error: ", "warn", message))

    def answer(self, record: Mapping[str, object], answer: Answer) -> None:
        """Print the record as JSON, or the blocks: those of the first screen, warnings, the rest."""
        with writing_output():
            if self.json:
                typer.echo(as_json(record))
                return
            out = console_for(sys.stdout)
            show(out, first_screen(answer))
            self.print_warnings(out)
            if self.explain:
                show(out, details(answer))

    def print_warnings(self, console: Console) -> None:
        """Print the warnings that were not printed yet, unless they are in the JSON."""
        for text in () if self.json else self.warnings[self._printed :]:
            console.print(labelled("Warning: ", "warn", text))
        self._printed = len(self.warnings)

    @contextmanager
    def working(self, text: str, total: int | None = None) -> Iterator[Any]:
        """Show a progress bar on a terminal, unless quiet; yield its `advance` function."""
        if self.verbose or not (self.talks and sys.stderr.isatty()):
            with stage(text):
                yield lambda _steps=1: None
            return
        from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
        )
        with Progress(*columns, console=self.err, transient=True) as progress:
            task = progress.add_task(text, total=total)
            yield lambda steps=1: progress.advance(task, steps)


@contextmanager
def writing_output() -> Iterator[None]:
    """Raise a `StorageError` if standard output takes no more: a full disk, a closed pipe."""
    try:
        yield
        sys.stdout.flush()
    except OSError as error:
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 what is buffered cannot be written either
        raise StorageError(
            f"The answer could not be written to standard output: {error.strerror or error}. Make "
            f"room, or send it elsewhere."
        ) from error


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
        raise typer.Exit(_run(functools.partial(function, **asked), asked["session"], list(given)))

    parameters = [one for group in options.values() for one in group]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    del run.__wrapped__
    return run


def _run(call: Callable[[], int | None], session: Session, options: Sequence[str]) -> int:
    if session.verbose:
        logging.basicConfig(format="%(asctime)s %(message)s", stream=sys.stderr, force=True)
        LOGGER.setLevel(logging.INFO)
    try:
        with (
            interrupt.raise_on_interrupt(),
            warnings.catch_warnings(),
            _estimates_shown(session),
        ):
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
        return _fail(session, error, _with_option(error, options), ExitCode.INPUT)
    except MemoryError as error:
        return _fail(session, error, f"{str(error).rstrip('.')}. {_MEMORY}", ExitCode.INPUT)
    except Exception as error:
        said = f"{type(error).__name__}: {error}".strip().rstrip(":")
        return _fail(session, error, f"Unexpected: {said}", ExitCode.UNEXPECTED)


@contextmanager
def _estimates_shown(session: Session) -> Iterator[None]:
    """Print how long a training will take, on a terminal or not, unless quiet."""
    if session.verbose or not session.talks:  # verbose shows it among the stages
        yield
        return

    class Shown(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            session.err.print(record.getMessage(), style="dim")

    handler, level = Shown(), ESTIMATES.level
    ESTIMATES.addHandler(handler)
    ESTIMATES.setLevel(logging.INFO)
    try:
        yield
    finally:
        ESTIMATES.removeHandler(handler)
        ESTIMATES.setLevel(level)


def _with_option(error: TailproofError, options: Sequence[str]) -> str:
    """Return the message of an error, with the option of the argument that is wrong."""
    if error.argument is None:
        return str(error)
    if error.argument in options:
        named = f"--{error.argument.replace('_', '-')}"
    elif "setting" in options:
        named = f"--set {error.argument}=…"
    else:
        return str(error)
    return str(error) if named in str(error) else f"{error} ({named})"


def _fail(session: Session, error: Exception, message: str, code: ExitCode) -> int:
    message = without_secrets(as_options(message))
    session.print_warnings(session.err)
    if session.debug:
        print(without_secrets("".join(traceback.format_exception(error))), file=sys.stderr)
    elif code is ExitCode.UNEXPECTED:
        message += "\nThis is a bug in tailproof: run again with --debug and report it."
    session.error(message)
    if session.json:
        print_error(error, message, code)
    return code


def print_error(error: Exception, message: str, code: ExitCode) -> None:
    """Print an error as JSON; those of the parser have the option as `param`."""
    option = getattr(getattr(error, "param", None), "name", None)
    said = {
        "kind": type(error).__name__,
        "argument": getattr(error, "argument", option),
        "message": message,
        "exit_code": int(code),
    }
    typer.echo(as_json({"error": said}))
