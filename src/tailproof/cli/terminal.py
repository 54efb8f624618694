"""Safe terminal output: tables, lists, and text without control characters."""

from __future__ import annotations

import codecs
import sys
import unicodedata
from collections.abc import Sequence
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from tailproof.cli.hints import as_options
from tailproof.report.tables import ResultTable
from tailproof.report.text import number

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
    codecs.register_error(_HANDLER, _plain)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors=_HANDLER)


def _plain(error: UnicodeError) -> tuple[str, int]:
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
