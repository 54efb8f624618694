"""HTML representations of results for notebooks, each with its own style."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from tailproof.report.answers import (
    Answer,
    comparison_line,
    comparison_notes,
    learned_by,
    ranking_table,
    tail_table,
)
from tailproof.report.blocks import Block, Bullets, Prose, Wide
from tailproof.report.figures import fold_figure, gain_figure, influence_figure, interval_figure
from tailproof.report.page import stylesheet
from tailproof.report.text import count

if TYPE_CHECKING:
    from tailproof.comparison.comparison import Comparison
    from tailproof.diagnosis.diagnosis import Diagnosis
    from tailproof.evaluation.estimate import Estimate
    from tailproof.learning.learned import Learned


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
