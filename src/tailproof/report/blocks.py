"""What a page is made of: figures with their tables, facts, and sections that hold them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from markupsafe import Markup

from tailproof.plotting.marks import Tone
from tailproof.report.tables import ResultTable
from tailproof.report.text import minus

Mood = Literal["plain", "good", "warn"]


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A picture, what it shows in words, and the numbers behind it.

    Attributes
    ----------
    key
        Its anchor on the page.
    caption
        A sentence that tells how to read it.
    svg
        Markup from `as_svg`.
    numbers
        The table behind the picture, folded away.
    legend
        What the tones of the picture mean.
    """

    key: str
    caption: str
    svg: str
    numbers: ResultTable
    legend: Sequence[tuple[Tone, str]] = ()

    def html(self) -> Markup:
        """Return the figure as HTML."""
        keys = Markup("").join(
            Markup('<li><span class="key {}" aria-hidden="true"></span>{}</li>').format(*each)
            for each in self.legend
        )
        return Markup(
            '<figure id="figure-{key}">{legend}<div class="scroll">{svg}</div>'
            "<figcaption>{caption}</figcaption>"
            '<details class="numbers"><summary>Numbers</summary><div class="scroll">{table}</div>'
            "</details></figure>"
        ).format(
            key=self.key,
            legend=Markup('<ul class="legend">{}</ul>').format(keys) if keys else "",
            svg=Markup(self.svg),
            caption=self.caption,
            table=self.numbers.html(),
        )


@dataclass(frozen=True)
class Fact:
    """A small card: a number under its name."""

    name: str
    value: str
    note: str = ""
    mood: Mood = "plain"


@dataclass(frozen=True)
class Prose:
    """A paragraph of plain text."""

    text: str

    def html(self) -> Markup:
        """Return the paragraph as HTML."""
        return Markup("<p>{}</p>").format(minus(self.text))


@dataclass(frozen=True)
class Facts:
    """Some cards in a row."""

    facts: tuple[Fact, ...]

    def html(self) -> Markup:
        """Return the cards as HTML."""
        cards = Markup("").join(
            Markup('<div class="fact {}"><dt>{}</dt><dd>{}{}</dd></div>').format(
                fact.mood,
                fact.name,
                minus(fact.value),
                Markup("<small>{}</small>").format(minus(fact.note)) if fact.note else "",
            )
            for fact in self.facts
        )
        return Markup('<dl class="facts">{}</dl>').format(cards)


@dataclass(frozen=True)
class Bullets:
    """A list of sentences."""

    sentences: tuple[str, ...]
    mood: Mood = "plain"

    def html(self) -> Markup:
        """Return the list as HTML."""
        items = Markup("").join(
            Markup("<li>{}</li>").format(minus(each)) for each in self.sentences
        )
        return Markup('<ul class="points {}">{}</ul>').format(self.mood, items)


@dataclass(frozen=True)
class Wide:
    """A table of its own, which scrolls where it is too wide; folded away under a title if given."""

    table: ResultTable
    folded: str = ""

    def html(self) -> Markup:
        """Return the table as HTML."""
        shown = Markup('<div class="scroll">{}</div>').format(self.table.html())
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

    def html(self) -> Markup:
        """Return the section as HTML."""
        return Markup(
            '<section id="{0}" aria-labelledby="{0}-title"><h2 id="{0}-title">{1}</h2>{2}</section>'
        ).format(self.key, self.title, self._body())

    def folded(self) -> Markup:
        """Return the section as HTML that opens when its title is clicked."""
        return Markup('<details class="expert" id="{}"><summary>{}</summary>{}</details>').format(
            self.key, self.title, self._body()
        )

    def _body(self) -> Markup:
        return Markup("").join(block.html() for block in self.blocks)
