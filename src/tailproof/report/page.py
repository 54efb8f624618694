"""Pages and notebook cells: self-contained HTML that needs neither network nor JavaScript."""

from __future__ import annotations

import base64
import hashlib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import TYPE_CHECKING, Any

from markupsafe import Markup

from tailproof.files import write_whole
from tailproof.report.answers import (
    Answer,
    comparison_line,
    comparison_notes,
    learned_by,
    ranking_table,
    tail_table,
)
from tailproof.report.figures import (
    Block,
    Bullets,
    Facts,
    Mood,
    Prose,
    Section,
    Wide,
    fold_figure,
    gain_figure,
    influence_figure,
    interval_figure,
)
from tailproof.report.text import as_json, count, minus, versions

if TYPE_CHECKING:
    from tailproof.doors.compare import Comparison
    from tailproof.doors.diagnose import Diagnosis
    from tailproof.doors.estimate import Estimate
    from tailproof.doors.learned import Learned


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


def estimate_html(estimate: Estimate) -> str:
    """Return an estimate with its folds and intervals.

    >>> from tailproof import evaluate
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> estimate = evaluate(world.log(episodes=20), world.target(), method="roam-dm", gamma=0.9)
    >>> "<svg" in estimate_html(estimate)
    True
    """
    found = Answer(estimate)
    said = (str(found.estimate.on_log), found.value_ends(), *found.caveats())
    blocks: list[Block] = [Prose(each) for each in said if each]
    if estimate.choice is not None:
        blocks.append(Bullets(estimate.choice.reasons))
    if len(estimate.fold_values) > 1:
        blocks += [fold_figure(found), interval_figure(found)]
    value, _, rest = found.first_line().partition(" ")
    return fragment(value, rest, blocks)


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """Return a diagnosis: the verdict, its reasons, and the most influential episodes."""
    verdict, influence = diagnosis.verdict, diagnosis.influence
    said = f"{count(diagnosis.transitions, 'row')}, {count(diagnosis.episodes, 'episode')}"
    blocks: list[Block] = [Prose(said), Bullets(verdict.reasons), Wide(tail_table(diagnosis))]
    if influence.episodes:
        blocks.append(influence_figure(diagnosis))
    return fragment("Diagnosis:", verdict.summary, blocks)


def comparison_html(comparison: Comparison) -> str:
    """Return a comparison: the ranking, the gate, and every candidate's gain."""
    notes = Bullets(comparison_notes(comparison))
    name = comparison.proposed.name
    said = comparison_line(comparison).removeprefix(name)
    return fragment(name, said, [Wide(ranking_table(comparison)), gain_figure(comparison), notes])


def learned_html(learned: Learned) -> str:
    """Return a summary of a learned policy."""
    said = f"{learned_by(learned)}, γ = {learned.gamma:g}"
    if learned.improves is None:
        return fragment("Not judged:", f"{said}; see its evaluate()", [])
    verdict, _, rest = learned.advice().partition(" ")
    return fragment(verdict, f"{rest} {said}.", [Bullets(learned.reasons)])


def fragment(title: str, note: str, blocks: list[Block]) -> str:
    """Return blocks as HTML with their own style, which does not affect the rest of the page."""
    # The class is repeated to have priority over the notebook's own rules for tables.
    style = Markup(stylesheet(scope=".tailproof.tailproof.tailproof"))
    return str(
        Markup(
            '<div class="tailproof"><style>{}</style><p><strong class="big">{}</strong> {}</p>{}'
            "</div>"
        ).format(style, title, note, Markup("").join(blocks))
    )
