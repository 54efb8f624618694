"""One run of a command: its output, warnings and progress bar."""

from __future__ import annotations

import re
import shlex
import sys
from ast import literal_eval
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, Progress, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.text import Text

from tailproof.cli.options import OUTPUT, option
from tailproof.cli.terminal import Visible, visible
from tailproof.report.record import as_json

#: The parser's flag for `--json=full`, because its flags take no values.
FULL = "--json-full"
#: Keyword arguments of the library that are command-line options.
KEYWORDS = (
    "state|action|reward|episode|step|next_state|terminated|truncated|propensity|group|weight|"
    "available|missing|categorical|categories|gamma|folds|clip|seed|level|base"
)


# A value in a message of the library, and a word of a command line.
_VALUE = r"'[^']*'|\"[^\"]*\"|\[[^\]]*\]|[\w.-]*\w|\.\.\."
_WORD = r"(?:'[^']*'|\S)+?"


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
        self.err.print(_labelled("Error: ", "bold red", as_options(message)))

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


def as_options(message: str) -> str:
    """Return a message of the library with keyword arguments written as options.

    >>> as_options("Pass terminated=True, or say next_state=['a', 'b'].")
    'Pass --terminated always, or say --next-state a,b.'
    >>> as_options("Name them, as in reward='Revenue ($)', state='*', or reward='-my cost'.")
    "Name them, as in --reward 'Revenue ($)' --state '*', or --reward='-my cost'."
    >>> as_options("Use method('mis', folds=6, mean='adaptive-huber'), or Method(..., at=...).")
    'Use --method mis --folds 6 --set mean=adaptive-huber.'
    """
    said = re.sub(r"[;,] or (compose a )?Method\((?:[^()]|\([^()]*\))*\)", "", message)
    said = re.sub(r"\b(?:method=)?method\('([\w+-]+)'((?:, [^()]*)?)\)", _method, said)
    said = re.sub(rf"\b({KEYWORDS})=({_VALUE})", _option, said)
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


def _option(match: re.Match[str]) -> str:
    name, value = match[1], match[2]
    plain = {"True": "always", "False": "-", "...": "COLUMN"}.get(value)
    if plain is None and value[0] in "'\"[":
        given = literal_eval(value) if "..." not in value else "COLUMN"
        plain = shlex.quote(given if isinstance(given, str) else ",".join(map(str, given)))
    plain = value if plain is None else plain
    if plain.lstrip("'").startswith("-") and len(plain) > 1:
        return f"--{name.replace('_', '-')}={plain}"  # a separate word would be read as an option
    return f"--{name.replace('_', '-')} {plain}"
