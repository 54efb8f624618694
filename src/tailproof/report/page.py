"""The page: one self-contained HTML file, which needs no network and reads without JavaScript."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from markupsafe import Markup

from tailproof.files.atomic import write_whole
from tailproof.report.blocks import Facts, Mood, Section
from tailproof.report.record import as_json
from tailproof.report.text import minus
from tailproof.report.versions import versions


@dataclass(frozen=True, kw_only=True)
class Page:
    """The answer first, then the evidence by section.

    Attributes
    ----------
    title, subtitle
        What was asked of which log.
    headline, second
        The number or name that answers, another number beside it (the gain), and a note on each.
    verdict, warnings, details, facts
        The answer in one sentence, what may change it, a few sentences more, and cards.
    mood
        Whether the answer is good news, a warning, or neither.
    sections, folded
        The evidence that every reader needs, and that for experts, folded away.
    record, created
        The same numbers for programs (what ``--json=full`` prints), and when.
    """

    title: str
    verdict: str
    subtitle: str = ""
    headline: str = ""
    headline_note: str = ""
    second: str = ""
    second_note: str = ""
    warnings: tuple[str, ...] = ()
    details: tuple[str, ...] = ()
    facts: Facts | None = None
    mood: Mood = "plain"
    sections: tuple[Section, ...] = ()
    folded: tuple[Section, ...] = ()
    record: dict[str, Any] = field(default_factory=dict)
    created: str = ""

    def html(self) -> str:
        """Return the page. Whatever comes from a log is escaped; injected scripts would not run.

        The content security policy names the hashes of the page's own style and script, so that a
        browser refuses any other.
        """
        style, script = stylesheet() + _asset("page.css"), _asset("page.js")
        page: str = _template().render(
            page=self,
            version=versions()["tailproof"],
            style=Markup(style),
            script=Markup(script),
            style_hash=Markup(_hash(style)),
            script_hash=Markup(_hash(script)),
            # Inside a script element only "<" could end it.
            record=Markup(as_json(self.record).replace("<", "\\u003c")),
        )
        return page

    def write(self, path: str | Path) -> Path:
        """Write the page to a file, which appears whole or not at all."""
        write_whole(path, self.html())
        return Path(path)


def stylesheet(*, scope: str = "") -> str:
    """Return the colours and the style of blocks, of the whole page or within a class only."""
    colours, blocks = _asset("colours.css"), _asset("blocks.css")
    if not scope:
        return colours + blocks
    return f"{colours.replace(':root', scope)}{scope} {{\n{_asset('fragment.css')}{blocks}}}\n"


@cache
def _template() -> Any:
    from jinja2 import Environment  # pages are for those who look

    environment = Environment(autoescape=True)
    environment.filters["minus"] = minus
    return environment.from_string(_asset("page.html"))


@cache
def _asset(name: str) -> str:
    return (files("tailproof.report") / "template" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
