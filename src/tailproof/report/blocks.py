"""An answer as a list of blocks: what is said, in the order in which it is read.

`tailproof.report.answers` makes the blocks of a result. `tailproof.report.terminal` prints them or
returns plain text, `tailproof.report.html` writes pages and notebook cells.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

if TYPE_CHECKING:
    from matplotlib.axes import Axes

#: Good news, a warning, something that needs no attention, or none of these.
Mood = Literal["plain", "good", "warn", "soft"]
#: The meaning of a mark in a picture, which determines its colour.
Tone = Literal["main", "second", "third", "warn", "good", "muted", "truth"]
Cell = str | float | int | None


@dataclass(frozen=True)
class Headline:
    """A sentence that stands alone, and the verdict."""

    text: str
    verdict: str = ""
    mood: Mood = "plain"


@dataclass(frozen=True)
class Fact:
    """A number with its name, and a note on it."""

    name: str
    value: str
    note: str = ""
    mood: Mood = "plain"


@dataclass(frozen=True)
class Facts:
    """A few numbers: one line in a terminal, a row of cards on a page."""

    facts: tuple[Fact, ...]


@dataclass(frozen=True)
class Note:
    """A paragraph."""

    text: str
    mood: Mood = "plain"


@dataclass(frozen=True)
class Points:
    """A list of sentences."""

    sentences: tuple[str, ...]
    mood: Mood = "plain"


@dataclass(frozen=True)
class Table:
    """Rows with named columns; pages hold the full value of each number beside the rounded one.

    Attributes
    ----------
    columns, rows
        The titles, and cells: text as it is, numbers rounded to `digits`.
    caption
        What the table shows.
    folded
        The title under which a page collapses the table, if any.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    digits: int = 4
    folded: str = ""


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture with its description and its numbers; terminals print the numbers.

    Attributes
    ----------
    key
        Its anchor on a page.
    draw
        Draws it on Axes: pictures are drawn only where they are shown, on a page or in a notebook.
    alt
        What it shows, in one or two sentences.
    caption
        How to read it.
    numbers
        The plotted numbers.
    legend
        The meaning of the tones.
    x, y
        The titles of the axes.
    names
        Those of its rows, if it has any, each `row` pixels high.
    height, left
        Size and margin in pixels on a page, of a picture without rows; the height of one without a
        frame depends on its width.
    """

    key: str
    draw: Callable[[Axes], None]
    alt: str
    caption: str
    numbers: Table
    legend: Sequence[tuple[Tone, str]] = ()
    x: str = ""
    y: str = ""
    names: Sequence[str] = ()
    row: float = 26
    height: float | Callable[[float], float] = 280
    left: float = 58


@dataclass(frozen=True)
class Section:
    """Blocks under a title.

    Attributes
    ----------
    key, short
        Its anchor, and its name in the contents of a page.
    folded
        Whether a page collapses it, among the details; a terminal prints those that are not folded,
        with ``--explain``.
    """

    key: str
    title: str
    blocks: tuple[Block, ...]
    short: str = ""
    folded: bool = False


Block = Headline | Facts | Note | Points | Table | Figure
#: An answer: what is read first, then sections with the rest.
Answer = tuple[Block | Section, ...]


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], **options: Any) -> Table:
    """Return a table from any sequences, with numpy scalars as Python numbers."""
    return Table(
        tuple(columns),
        tuple(
            tuple(cell.item() if isinstance(cell, np.generic) else cell for cell in row)
            for row in rows
        ),
        **options,
    )


def below_first(answer: Answer, blocks: Iterable[Block]) -> Answer:
    """Return an answer with blocks below what is read first: before its pictures and sections."""
    rest = (i for i, each in enumerate(answer) if isinstance(each, Figure | Section))
    place = next(rest, len(answer))
    return (*answer[:place], *blocks, *answer[place:])


def headline_of(answer: Iterable[Block | Section]) -> Headline:
    """Return the headline of an answer."""
    return next(each for each in answer if isinstance(each, Headline))
