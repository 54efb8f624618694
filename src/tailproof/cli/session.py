"""One run of a command: its options, output, warnings, progress and exit code."""

from __future__ import annotations

import codecs
import functools
import inspect
import re
import shlex
import sys
import traceback
import unicodedata
import warnings
from ast import literal_eval
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, is_dataclass
from enum import IntEnum
from typing import Any, get_type_hints

import typer
from rich.console import Console, ConsoleOptions, RenderResult
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tailproof.cli import interrupt
from tailproof.cli.options import OUTPUT, option
from tailproof.errors import TailproofError
from tailproof.report.text import ResultTable, as_json, number

#: Keyword arguments of the library that are command-line options.
KEYWORDS = (
    "state|action|reward|episode|step|next_state|terminated|truncated|propensity|group|weight|"
    "available|missing|categorical|categories|gamma|method|folds|clip|seed|level|base|holdout|"
    "at_least|steps|hidden|device|workers"
)
#: Keyword arguments of methods that have no option of their own.
SETTINGS = "target_rate|ridge|mean|unit|top|rank|model|form|iterations"
#: What else is written otherwise on the command line.
PHRASES = {
    "estimate it with tailproof.critics.behaviour": "estimate it with --propensity estimate",
    "with Log.with_groups": "with --group COLUMN",
    "write it with write_log first": "write it as Parquet first",
}
# a value in a message of the library, where texts are quoted: state=CA is a variable of a column
_VALUE = r"('[^']*'|\"[^\"]*\"|\[[^\]]*\]|-?\d(?:[\w.-]*\w)?|True|False|None|\.\.\.)"
# a word of a command line
_WORD = r"(?:'[^']*'|\S)+?"


def as_options(message: str) -> str:
    """Return a message of the library with keyword arguments written as options.

    >>> as_options("Pass terminated=True, or say next_state=['a', 'b'].")
    'Pass --terminated always, or say --next-state a,b.'
    >>> as_options("Name them, as in reward='Revenue ($)', state='*', or reward='-my cost'.")
    "Name them, as in --reward 'Revenue ($)' --state '*', or --reward='-my cost'."
    >>> as_options("Use method('mis', folds=6, mean='adaptive-huber'), or Method(..., at=...).")
    'Use --method mis --folds 6 --set mean=adaptive-huber.'
    >>> as_options("Use steps=3_000; target_rate='auto' follows.")
    'Use --steps 3000; --set target_rate=auto follows.'
    """
    for phrase, instead in PHRASES.items():
        message = message.replace(phrase, instead)
    said = re.sub(r"[;,] or (compose a )?Method\((?:[^()]|\([^()]*\))*\)", "", message)
    said = re.sub(r"\b(?:method=)?method\('([\w+-]+)'((?:, [^()]*)?)\)", _method, said)
    said = re.sub(rf"(?<![\w-])({KEYWORDS})={_VALUE}", _option, said)
    said = re.sub(rf"(?<!--set )\b({SETTINGS})={_VALUE}", _setting, said)
    said = re.sub(r"\blazy=False\b", "--no-lazy", re.sub(r"\blazy=True\b", "--lazy", said))
    return re.sub(rf"(--[\w-]+[ =]{_WORD}), (?=--)", r"\1 ", said)  # can be copied


def _method(match: re.Match[str]) -> str:
    settings = [each.strip().replace("'", "") for each in match[2].split(",") if "=" in each]
    own = ("folds", "clip", "base")
    words = [
        f"--{each.replace('=', ' ', 1)}" if each.partition("=")[0] in own else f"--set {each}"
        for each in settings
        if not each.endswith("...")
    ]
    return " ".join([f"--method {match[1]}", *words])


def _setting(match: re.Match[str]) -> str:
    return f"--set {match[1]}={_plain(match[2])}"


def _plain(value: str) -> str:
    return re.sub(r"(?<=\d)_(?=\d)", "", value.replace("'", ""))


def _option(match: re.Match[str]) -> str:
    name, value = f"--{match[1].replace('_', '-')}", match[2]
    plain = {"True": "always", "False": "-", "...": "COLUMN"}.get(value)
    if plain is None and value[0] in "'\"[":
        given = literal_eval(value) if "..." not in value else "COLUMN"
        plain = shlex.quote(given if isinstance(given, str) else ",".join(map(str, given)))
    plain = _plain(value) if plain is None else plain
    if plain.lstrip("'").startswith("-") and len(plain) > 1:
        return f"{name}={plain}"  # a separate word would be read as an option
    return f"{name} {plain}"


_HANDLER = "tailproof-plain"
_WORDS = {
    **dict(zip("–—−‑×·≈•‘’“”✓✗█░", "----x*~*''\"\"+x#.", strict=True)),
    "±": "+-",
    "≤": "<=",
    "≥": ">=",
    "∞": "inf",
    "→": "->",
    "√": "sqrt",
}
_CONTROLS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"},  # ␛ for ESC
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),  # lone surrogates cannot be encoded
}


def visible(text: str) -> str:
    r"""Return text with control characters replaced by visible symbols.

    >>> visible("a\x1b[31mb") == "a␛[31mb"
    True
    """
    return text.translate(_CONTROLS)


class Visible:
    """Any rich renderable with its text made `visible`; its styles are kept."""

    def __init__(self, renderable: Any) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


def degrade_streams() -> None:
    """Replace characters that the encoding of stdout or stderr lacks by plain letters."""
    codecs.register_error(_HANDLER, _plain_terminal)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_HANDLER)


def _plain_terminal(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeEncodeError):
        raise error
    wanted = error.object[error.start : error.end]
    return "".join(map(_plain_letter, wanted)), error.end


def _plain_letter(letter: str) -> str:
    if letter in _WORDS:
        return _WORDS[letter]
    kind, *_, last = unicodedata.name(letter, "?").split()
    if kind == "GREEK":
        return last.lower()
    if kind == "BOX":
        return {"─": "-", "━": "-", "│": "|", "┃": "|"}.get(letter, "+")
    if "\u2400" <= letter <= "\u2421":  # the symbol of a control character
        return "^"
    stripped = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return stripped or "?"


def as_rich(table: ResultTable) -> Table:
    """Return a result table for the terminal."""
    shown = plain_table(*table.columns, title=table.caption or None)
    for row in table.rows:
        shown.add_row(*(_text(cell, table.digits) for cell in row))
    return shown


def plain_table(*columns: str, **options: Any) -> Table:
    """Return an empty table without lines whose columns break long words."""
    shown = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left", **options)
    for column in columns:
        shown.add_column(column, overflow="fold")
    return shown


def points(sentences: Sequence[str]) -> Table:
    """Return a list of sentences, each after a dash with a hanging indent."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for sentence in sentences:
        grid.add_row("-", Text(as_options(sentence)))
    return grid


def _text(cell: Any, digits: int) -> Text:
    if cell is None:
        return Text("–")
    if isinstance(cell, str):
        return Text(cell)
    return Text(number(float(cell), digits), justify="right")


#: The parser's flag for `--json=full`, because its flags take no values.
FULL = "--json-full"


def _flag(text: str, *flags: str, **more: Any) -> Any:
    return option(text, *flags, default=False, panel=OUTPUT, **more)


@dataclass
class Session:
    """The output of one command. Answers go to stdout, everything else to stderr.

    Its options control the output; `notes` and `warnings` are collected for the JSON and the report.
    """

    numbers: bool = _flag(
        "Print one JSON object and nothing else: a page of numbers. --json=full adds all evidence.",
        "--json",
    )
    full: bool = _flag("", FULL, hidden=True)
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
    def out(self) -> Console:
        """The console for the answer."""
        return _console(sys.stdout)

    @property
    def err(self) -> Console:
        """The console for everything else."""
        return _console(sys.stderr)

    @property
    def talks(self) -> bool:
        """Whether to print notes beside the answer."""
        return not (self.json or self.quiet)

    def note(self, text: str) -> None:
        """Keep and print a note on how input was read."""
        text = as_options(text)
        self.notes.append(text)
        if self.talks:
            self.err.print(visible(text), style="dim")

    def warned(self, message: Warning | str, *_: Any, **__: Any) -> None:
        """Keep each Python warning once, to print it with the answer."""
        text = as_options(str(message))
        if text not in self.warnings:
            self.warnings.append(text)

    def error(self, message: str) -> None:
        """Print an error."""
        self.err.print(_labelled("Error: ", "bold red", message))

    def answer(self, record: dict[str, Any], *answer: Any, evidence: Sequence[Any] = ()) -> None:
        """Print the record as JSON, or as text: answer, warnings, evidence."""
        if self.json:
            typer.echo(as_json(record))
            return
        for each in answer:
            self.out.print(Visible(each))
        self.print_warnings(self.out)
        if not self.quiet:
            for each in evidence:
                self.out.print(Visible(each))

    def print_warnings(self, console: Console) -> None:
        """Print the warnings that were not printed yet, unless they are in the JSON."""
        for text in () if self.json else self.warnings[self._printed :]:
            console.print(_labelled("Warning: ", "yellow", text))
        self._printed = len(self.warnings)

    @contextmanager
    def working(self, text: str, total: int | None = None) -> Iterator[Any]:
        """Show a progress bar on a terminal, unless quiet; yield its `advance` function."""
        console = self.err
        progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TimeElapsedColumn(),
            console=console,
            transient=True,
            disable=not (self.talks and console.is_terminal),
        )
        with progress:
            task = progress.add_task(text, total=total)
            yield lambda steps=1: progress.advance(task, steps)


def _labelled(label: str, style: str, text: str) -> Text:
    return Text.assemble((label, style), visible(text))


def _console(file: Any) -> Console:
    """Return a console that prints brackets and colons in labels literally."""
    return Console(file=file, highlight=False, markup=False, emoji=False)


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
