"""Blocks for a terminal or as plain text, and text that any terminal can show."""

from __future__ import annotations

import codecs
import sys
import unicodedata
from collections.abc import Iterable
from functools import singledispatch
from io import StringIO
from typing import Any, TextIO

from rich.console import Console, ConsoleOptions, Group, RenderResult
from rich.segment import Segment
from rich.table import Table as Grid
from rich.text import Text

from tailproof.report.blocks import (
    Block,
    Facts,
    Figure,
    Headline,
    Mood,
    Note,
    Points,
    Section,
    Table,
)
from tailproof.report.text import facts_line, shown_cell

_KEPT = "\ue000"  # a space at which no line is broken
_STYLES: dict[Mood, str] = {"plain": "", "good": "green", "warn": "yellow", "soft": "dim"}


def _text(text: str, style: str = "") -> Text:
    """Return text whose lines are not broken between a number and its percent sign."""
    return Text(text.replace(" %", f"{_KEPT}%"), style=style)


@singledispatch
def rendered(block: object) -> Any:
    """Return a block as something that a rich console prints."""
    return block


@rendered.register
def _(block: Headline) -> Any:
    verdict = [Text(f"{block.verdict.capitalize()}.", style=f"bold {_STYLES[block.mood]}")]
    return Group(_text(block.text, style="bold"), *(verdict if block.verdict else ()))


@rendered.register
def _(block: Facts) -> Any:
    return _text(facts_line(block))


@rendered.register
def _(block: Note) -> Any:
    return _text(block.text, style=_STYLES[block.mood])


@rendered.register
def _(block: Points) -> Any:
    grid = Grid.grid(padding=(0, 1, 0, 0))
    for sentence in block.sentences:
        grid.add_row("-", _text(sentence, style=_STYLES[block.mood]))
    return grid


@rendered.register
def _(block: Table) -> Any:
    return (
        Group(_text(block.caption, style="italic"), _Grid(block)) if block.caption else _Grid(block)
    )


class _Grid:
    """A table whose names and numbers are not broken where its sentences can be."""

    def __init__(self, block: Table) -> None:
        self._block = block

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        block = self._block
        rows = [[_text(shown_cell(each, block.digits)) for each in row] for row in block.rows]
        every = [list(cells) for cells in zip(map(_text, block.columns), *rows, strict=True)]
        words = [
            max((len(each) for cell in cells for each in cell.plain.split()), default=0)
            for cells in every
        ]
        fits = sum(words) + 2 * len(words) <= options.max_width
        grid = Grid(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(block.columns))
        for place, cells in enumerate(every):
            is_text = any(isinstance(row[place], str) for row in block.rows)
            cells[0].justify = "left" if is_text else "right"
            whole = fits and words[place] == max(map(len, cells))
            grid.add_column(cells[0], overflow="fold", no_wrap=whole)
        for values, row in zip(block.rows, rows, strict=True):
            for value, cell in zip(values, row, strict=True):
                cell.justify = "left" if isinstance(value, str) else "right"
            grid.add_row(*row)
        yield grid


@rendered.register
def _(block: Figure) -> Any:
    return rendered(block.numbers)


@rendered.register
def _(block: Section) -> Any:
    parts = [part for each in block.blocks for part in (rendered(each), "")]
    return Group("", Text(block.title, style="bold"), *parts[:-1])


def show(console: Console, blocks: Iterable[Block | Section]) -> None:
    """Print blocks, with control characters made visible."""
    for each in blocks:
        console.print(_Visible(rendered(each)))


_UNBROKEN = 10_000  # a width at which no line of text is broken


def as_text(answer: Iterable[Block | Section]) -> str:
    """Return an answer as plain text.

    >>> print(as_text([Headline("It is better.", "better"), Table(("", "gain"), (("a", 1.5),))]))
    It is better.
    Better.
        gain
    a  1.500
    """
    written = StringIO()
    show(Console(file=written, width=_UNBROKEN, color_system=None, highlight=False), answer)
    return "\n".join(line.rstrip() for line in written.getvalue().splitlines())


def console_for(file: TextIO) -> Console:
    """Return a console that prints brackets and colons in labels literally."""
    return Console(file=file, highlight=False, markup=False, emoji=False)


def labelled(label: str, mood: Mood, text: str) -> Text:
    """Return a text after a coloured label."""
    return Text.assemble((label, _STYLES[mood]), visible(text))


_CONTROLS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"},  # ␛ for ESC
    0x7F: 0x2421,
    ord(_KEPT): ord(" "),
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),  # lone surrogates cannot be encoded
}


def visible(text: str) -> str:
    r"""Return text with control characters replaced by visible symbols.

    >>> visible("a\x1b[31mb") == "a␛[31mb"
    True
    """
    return text.translate(_CONTROLS)


class _Visible:
    """A rich renderable with its text made `visible`; its styles are kept."""

    def __init__(self, renderable: Any) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


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


def degrade_streams() -> None:
    """Replace characters that the encoding of stdout or stderr lacks by plain letters."""
    codecs.register_error(_HANDLER, _plain_letters)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_HANDLER)


def _plain_letters(error: UnicodeError) -> tuple[str, int]:
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
