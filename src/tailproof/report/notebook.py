"""Results that draw themselves in notebooks: a fragment of HTML each, with its own style."""

from __future__ import annotations

from typing import TYPE_CHECKING

from markupsafe import Markup

from tailproof.report.answers import answer
from tailproof.report.blocks import Block, Fact, Facts, Points, Prose, Wide
from tailproof.report.comparison_page import gain_figure
from tailproof.report.figures import fold_figure, influence_figure, interval_figure
from tailproof.report.page import stylesheet
from tailproof.report.ranking import comparison_line, comparison_notes, ranking_table
from tailproof.report.text import count, method_text

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
    found = answer(estimate)
    said = (found.policy_line(), found.value_ends(), *found.caveats())
    blocks: list[Block] = [Prose(each) for each in said if each]
    if estimate.choice is not None:
        blocks.append(Points(estimate.choice.reasons))
    if len(estimate.fold_values) > 1:
        blocks += [fold_figure(found), interval_figure(found)]
    value, _, rest = found.first_line().partition(" ")
    return fragment(value, rest, blocks)


def diagnosis_html(diagnosis: Diagnosis) -> str:
    """Return a diagnosis: the verdict, why, and the episodes that decide."""
    verdict, influence = diagnosis.verdict, diagnosis.influence
    facts = tuple(
        Fact(
            name, f"variance {report.variance.exists}", f"mean {report.mean.exists}, {report.skew}"
        )
        for name, report in diagnosis.tails.items()
    )
    blocks: list[Block] = [Prose(verdict.summary), Points(verdict.reasons), Facts(facts)]
    if influence.episodes:
        rows = [(str(each.episode), each.effect, each.median_effect) for each in influence.episodes]
        robust = f"median of {influence.folds} folds"
        blocks.append(influence_figure(rows, plain="plain estimate", robust=robust))
    said = f"{count(diagnosis.transitions, 'row')}, {count(diagnosis.episodes, 'episode')}"
    return fragment("Diagnosis", said, blocks)


def comparison_html(comparison: Comparison) -> str:
    """Return a comparison: the ranking, the gate, and every candidate's gain."""
    notes = Points(comparison_notes(comparison))
    name = comparison.best.name
    said = comparison_line(comparison).removeprefix(name)
    return fragment(name, said, [Wide(ranking_table(comparison)), gain_figure(comparison), notes])


def learned_html(learned: Learned) -> str:
    """Return what is known of a learned policy."""
    facts = (
        Fact("method", method_text(learned.method)),
        Fact("episodes", f"{learned.n_episodes:,}", f"{learned.n_transitions:,} rows"),
        Fact("critics", str(learned.members.count)),
    )
    blocks: list[Block] = [Facts(facts)]
    if learned.improves is not None:
        blocks = [Prose(learned.advice()), *blocks, Points(learned.reasons)]
    return fragment("Learned policy", f"γ = {learned.gamma:g}", blocks)


def fragment(title: str, note: str, blocks: list[Block]) -> str:
    """Return blocks as HTML that brings its style and touches nothing around it."""
    shown = Markup("").join(block.html() for block in blocks)
    # The class is named three times to outweigh the rules that notebooks have for tables.
    style = Markup(stylesheet(scope=".tailproof.tailproof.tailproof"))
    return str(
        Markup(
            '<div class="tailproof"><style>{}</style><p><strong class="big">{}</strong> {}</p>{}'
            "</div>"
        ).format(style, title, note, shown)
    )
