"""What may reach a terminal: text that is text, in characters that the terminal has."""

from __future__ import annotations

import codecs
import sys
import unicodedata
from typing import Any

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment

_HANDLER = "tailproof-plain"
_WORDS = {
    "γ": "gamma",
    "α": "alpha",
    "θ": "theta",
    "π": "pi",
    "σ": "sigma",
    "τ": "tau",
    "μ": "mu",
    "–": "-",
    "—": "-",
    "−": "-",
    "‑": "-",
    "…": "...",
    "×": "x",
    "·": "*",
    "±": "+-",
    "≤": "<=",
    "≥": ">=",
    "≈": "~",
    "∞": "inf",
    "→": "->",
    "•": "*",
    "√": "sqrt",
    "²": "2",
    "‘": "'",
    "’": "'",
    "“": '"',
    "”": '"',
    "✓": "+",
    "✗": "x",
    "█": "#",
    "░": ".",
}
_CONTROLS = {
    **{code: 0x2400 + code for code in range(0x20) if chr(code) not in "\n\t"},  # ␛ for ESC
    0x7F: 0x2421,
    **dict.fromkeys([*range(0x80, 0xA0), *range(0x202A, 0x202F), *range(0x2066, 0x206A)], 0xFFFD),
    **dict.fromkeys(range(0xD800, 0xE000), 0xFFFD),  # halves of characters cannot be written
}


def visible(text: str) -> str:
    r"""Return text with what would command a terminal made visible instead.

    >>> visible("a\x1b[31mb") == "a␛[31mb"
    True
    """
    return text.translate(_CONTROLS)


class Visible:
    """Anything that rich prints, with the text in it made `visible`; its own styles stay."""

    def __init__(self, renderable: Any) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            if segment.control:
                yield segment
            else:
                yield Segment(visible(segment.text), segment.style)


def degrade_streams() -> None:
    """Make standard output and error write what their encoding lacks in plain letters."""
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
    if "\u2500" <= letter <= "\u257f":  # lines of boxes
        return {"─": "-", "━": "-", "│": "|", "┃": "|"}.get(letter, "+")
    if "\u2400" <= letter <= "\u2421":  # a control character that was made visible
        return "^"
    stripped = unicodedata.normalize("NFKD", letter).encode("ascii", "ignore").decode()
    return stripped or "?"
