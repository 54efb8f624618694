"""The blocks of a page: figures with their tables, facts, and sections.

Blocks have `__html__`, which templates and `Markup` call; all text from a log is escaped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

from markupsafe import Markup

from tailproof.plotting.marks import Tone
from tailproof.plotting.svg import as_svg
from tailproof.report.tables import ResultTable
from tailproof.report.text import minus

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Mood = Literal["plain", "good", "warn"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture with its description and its numbers.

    Attributes
    ----------
    key
        Its anchor on the page.
    caption
        A sentence on how to read it.
    svg
        Markup from `as_svg`.
    numbers
        The table of the plotted numbers, collapsed by default.
    legend
        The meaning of the picture's tones.
    """

    key: str
    caption: str
    svg: str
    numbers: ResultTable
    legend: Sequence[tuple[Tone, str]] = ()

    @classmethod
    def drawn(cls, axes: Axes, alt: str, **rest: Any) -> Figure:
        """Return the figure of these axes; `alt` describes it in one or two sentences."""
        return cls(svg=as_svg(axes, alt), **rest)

    def __html__(self) -> str:
        keys = Markup("").join(
            Markup('<li><span class="key {}" aria-hidden="true"></span>{}</li>').format(*each)
            for each in self.legend
        )
        legend = Markup('<ul class="legend">{}</ul>').format(keys) if keys else ""
        return Markup(
            '<figure id="figure-{}">{}<div class="scroll">{}</div><figcaption>{}</figcaption>{}'
            "</figure>"
        ).format(self.key, legend, Markup(self.svg), self.caption, Wide(self.numbers, "Numbers"))


@dataclass(frozen=True)
class Fact:
    """A small card with a number and its name."""

    name: str
    value: str
    note: str = ""
    mood: Mood = "plain"

    def __html__(self) -> str:
        note = Markup("<small>{}</small>").format(minus(self.note)) if self.note else ""
        return Markup('<div class="fact {}"><dt>{}</dt><dd>{}{}</dd></div>').format(
            self.mood, self.name, minus(self.value), note
        )


@dataclass(frozen=True)
class Prose:
    """A paragraph of plain text."""

    text: str

    def __html__(self) -> str:
        return Markup("<p>{}</p>").format(minus(self.text))


@dataclass(frozen=True)
class Facts:
    """A row of cards."""

    facts: tuple[Fact, ...]

    def __html__(self) -> str:
        return Markup('<dl class="facts">{}</dl>').format(Markup("").join(self.facts))


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    sentences: tuple[str, ...]
    mood: Mood = "plain"

    def __html__(self) -> str:
        items = [Markup("<li>{}</li>").format(minus(each)) for each in self.sentences]
        return Markup('<ul class="points {}">{}</ul>').format(self.mood, Markup("").join(items))


@dataclass(frozen=True)
class Wide:
    """A table that scrolls if it is too wide; collapsed under a title if one is given."""

    table: ResultTable
    folded: str = ""

    def __html__(self) -> str:
        shown = Markup('<div class="scroll">{}</div>').format(self.table)
        if not self.folded:
            return shown
        return Markup('<details class="numbers"><summary>{}</summary>{}</details>').format(
            self.folded, shown
        )


Block = Figure | Facts | Prose | Bullets | Wide


@dataclass(frozen=True)
class Section:
    """Blocks under a title; `key` is its anchor, `short` its name in the contents."""

    key: str
    title: str
    blocks: tuple[Block, ...] = ()
    short: str = ""

    def __html__(self) -> str:
        return Markup(
            '<section id="{0}" aria-labelledby="{0}-title"><h2 id="{0}-title">{1}</h2>{2}</section>'
        ).format(self.key, self.title, Markup("").join(self.blocks))

    def folded(self) -> Markup:
        """Return the section as collapsed HTML that opens by a click on its title."""
        return Markup('<details class="expert" id="{}"><summary>{}</summary>{}</details>').format(
            self.key, self.title, Markup("").join(self.blocks)
        )
