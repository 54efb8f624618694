"""Blocks as HTML: self-contained pages and notebook cells, without network; cells without scripts."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, singledispatch
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tailproof.files import write_whole
from tailproof.report.blocks import (
    Answer,
    Block,
    Cell,
    Fact,
    Facts,
    Figure,
    Headline,
    Note,
    Points,
    Section,
    Table,
    headline_of,
)
from tailproof.report.text import as_json, minus, number, versions


@singledispatch
def html(block: object) -> Markup:
    """Return a block as HTML; text of a log is escaped."""
    raise TypeError(f"There is no HTML of {type(block).__name__}.")


def _joined(blocks: Iterable[object]) -> Markup:
    return Markup("").join(map(html, blocks))


@html.register
def _(block: Headline) -> Markup:
    verdict = Markup('<p class="verdict {}">{}</p>').format(block.mood, block.verdict.capitalize())
    return Markup('<p class="headline">{}</p>{}').format(
        minus(block.text), verdict if block.verdict else ""
    )


@html.register
def _(block: Fact) -> Markup:
    note = Markup("<small>{}</small>").format(minus(block.note)) if block.note else ""
    return Markup('<div class="fact {}"><dt>{}</dt><dd>{}{}</dd></div>').format(
        block.mood, block.name, minus(block.value), note
    )


@html.register
def _(block: Facts) -> Markup:
    return Markup('<dl class="facts">{}</dl>').format(_joined(block.facts))


@html.register
def _(block: Note) -> Markup:
    return Markup('<p class="note {}">{}</p>').format(block.mood, minus(block.text))


@html.register
def _(block: Points) -> Markup:
    items = [Markup("<li>{}</li>").format(minus(each)) for each in block.sentences]
    return Markup('<ul class="points {}">{}</ul>').format(block.mood, Markup("").join(items))


@html.register
def _(block: Table) -> Markup:
    columns = [[row[i] for row in block.rows] for i in range(len(block.columns))]
    numeric = [_is_numeric(column) for column in columns]
    # a smaller number is a rounding error in its column
    noise = [1e-12 * max(map(abs, _finite(column)), default=0.0) for column in columns]
    head = Markup("").join(
        Markup('<th scope="col"{}>{}</th>').format(_NUMBER if is_number else "", title)
        for title, is_number in zip(block.columns, numeric, strict=True)
    )
    body = Markup("").join(
        Markup("<tr>{}</tr>").format(
            Markup("").join(
                _cell(cell, title, small, block.digits)
                for cell, title, small in zip(row, block.columns, noise, strict=True)
            )
        )
        for row in block.rows
    )
    caption = Markup("<caption>{}</caption>").format(block.caption) if block.caption else ""
    stack = Markup(' class="stack"') if len(block.columns) >= _MANY else ""
    shown = Markup(
        '<div class="scroll"><table{}>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table></div>'
    ).format(stack, caption, head, body)
    if not block.folded:
        return shown
    return Markup('<details class="numbers"><summary>{}</summary>{}</details>').format(
        block.folded, shown
    )


_NUMBER = Markup(' class="number"')
_MANY = 4  # columns from which a narrow screen shows the cells of a row below each other


def _cell(cell: Cell, title: str, noise: float, digits: int) -> Markup:
    """Return a cell; its title is shown beside it where a narrow screen stacks the cells of a row."""
    if cell is None:
        return Markup('<td class="number" data-title="{}">–</td>').format(title)
    if isinstance(cell, str):
        return Markup('<td data-title="{}">{}</td>').format(title, minus(cell))
    value = float(cell)
    shown = minus(number(0.0 if abs(value) < noise else value, digits))
    return Markup('<td class="number" data-title="{}" data-value="{}">{}</td>').format(
        title, repr(value), shown
    )


def _finite(cells: Iterable[Cell]) -> list[float]:
    return [each for each in cells if isinstance(each, int | float) and abs(each) < float("inf")]


def _is_numeric(cells: Sequence[Cell]) -> bool:
    return any(each is not None for each in cells) and not any(
        isinstance(each, str | bool) for each in cells
    )


_WIDE, _NARROW = 560.0, 320.0  # widths of a picture in pixels; a screen shows the one that fits


@html.register
def _(block: Figure) -> Markup:
    from tailproof.report.plots import on_page  # imports matplotlib
    from tailproof.report.svg import as_svg

    keys = Markup("").join(
        Markup('<li><span class="key {}" aria-hidden="true"></span>{}</li>').format(*each)
        for each in block.legend
    )
    legend = Markup('<ul class="legend">{}</ul>').format(keys) if keys else ""
    wide = as_svg(on_page(block, _WIDE), block.alt, name="plot wide")
    narrow = as_svg(on_page(block, _NARROW), block.alt, name="plot narrow")
    numbers = Markup('<details class="numbers"><summary>Numbers</summary>{}</details>').format(
        html(block.numbers)
    )
    return Markup('<figure id="figure-{}">{}{}{}<figcaption>{}</figcaption>{}</figure>').format(
        block.key, legend, Markup(wide), Markup(narrow), minus(block.caption), numbers
    )


@html.register
def _(block: Section) -> Markup:
    if block.folded:
        return Markup('<details class="expert" id="{}"><summary>{}</summary>{}</details>').format(
            block.key, block.title, _joined(block.blocks)
        )
    return Markup(
        '<section id="{0}" aria-labelledby="{0}-title"><h2 id="{0}-title">{1}</h2>{2}</section>'
    ).format(block.key, block.title, _joined(block.blocks))


@dataclass(frozen=True, kw_only=True)
class Page:
    """A report: the answer first, then its sections, those for experts collapsed.

    Attributes
    ----------
    title, subtitle
        The question and the log.
    answer
        The blocks and sections.
    record, created
        The same numbers for programs (the output of ``--json=full``), and the time.
    """

    title: str
    answer: Answer
    subtitle: str = ""
    record: dict[str, Any] = field(default_factory=dict)
    created: str = ""

    def html(self) -> str:
        """Return the page as HTML. All text from a log is escaped, and injected scripts do not run.

        The content security policy lists the hashes of the page's own style and script, so that
        browsers reject all others.
        """
        style, script = stylesheet() + _asset("page.css"), _asset("page.js")
        sections = [each for each in self.answer if isinstance(each, Section)]
        page: str = _template().render(
            page=self,
            mood=headline_of(self.answer).mood,
            blocks=_joined(each for each in self.answer if not isinstance(each, Section)),
            sections=[(each, html(each)) for each in sections if not each.folded],
            folded=[html(each) for each in sections if each.folded],
            version=versions()["tailproof"],
            style=Markup(style),
            script=Markup(script),
            style_hash=Markup(_hash(style)),
            script_hash=Markup(_hash(script)),
            # Only "<" could end a script element.
            record=Markup(as_json(self.record).replace("<", "\\u003c")),
        )
        return page

    def write(self, path: str | Path) -> Path:
        """Write the page to a file, atomically."""
        write_whole(path, self.html())
        return Path(path)


def fragment(answer: Iterable[Block | Section]) -> str:
    """Return an answer for a notebook, with its own style, which does not affect other cells."""
    # The class is repeated to have priority over the notebook's own rules for tables.
    style = Markup(stylesheet(scope=".tailproof.tailproof.tailproof"))
    shown = [replace(each, folded=True) if isinstance(each, Section) else each for each in answer]
    cell = Markup('<div class="tailproof"><style>{}</style>{}</div>').format(style, _joined(shown))
    return str(cell)


def stylesheet(*, scope: str = "") -> str:
    """Return the style sheet, for the whole page or only within the class `scope`."""
    colours, blocks = _asset("colours.css"), _asset("blocks.css")
    if not scope:
        return colours + blocks
    return f"{colours.replace(':root', scope)}{scope} {{\n{_asset('fragment.css')}{blocks}}}\n"


@cache
def _template() -> Any:
    from jinja2 import Environment  # imported only for pages

    return Environment(autoescape=True).from_string(_asset("page.html"))


@cache
def _asset(name: str) -> str:
    return (files("tailproof.report") / "template" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
