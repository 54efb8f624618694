"""The report page: one self-contained HTML file that needs neither network nor JavaScript."""

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
    """A report: the answer first, then the evidence by section.

    Attributes
    ----------
    title, subtitle
        The question and the log.
    headline, second
        The main number or name, a second number (the gain), and a note on each.
    verdict, warnings, details, facts
        The answer in one sentence, warnings about it, a few more sentences, and cards.
    mood
        Whether the answer is good news, a warning, or neither.
    sections, folded
        The evidence for all readers, and that for experts, collapsed.
    record, created
        The same numbers for programs (the output of ``--json=full``), and the time.
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
        """Return the page as HTML. All text from a log is escaped, and injected scripts do not run.

        The content security policy lists the hashes of the page's own style and script, so that
        browsers reject all others.
        """
        style, script = stylesheet() + _asset("page.css"), _asset("page.js")
        page: str = _template().render(
            page=self,
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


def stylesheet(*, scope: str = "") -> str:
    """Return the style sheet, for the whole page or only within the class `scope`."""
    colours, blocks = _asset("colours.css"), _asset("blocks.css")
    if not scope:
        return colours + blocks
    return f"{colours.replace(':root', scope)}{scope} {{\n{_asset('fragment.css')}{blocks}}}\n"


@cache
def _template() -> Any:
    from jinja2 import Environment  # imported only for pages

    environment = Environment(autoescape=True)
    environment.filters["minus"] = minus
    return environment.from_string(_asset("page.html"))


@cache
def _asset(name: str) -> str:
    return (files("tailproof.report") / "template" / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"
