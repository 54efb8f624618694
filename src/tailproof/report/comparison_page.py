"""The report of a comparison."""

from __future__ import annotations

import math

import numpy as np

from tailproof.comparison.comparison import Comparison
from tailproof.data.log import Log
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.report.blocks import Block, Fact, Facts, Figure, Points, Prose, Section, Wide
from tailproof.report.figures import forest_figure
from tailproof.report.page import Page
from tailproof.report.pages import Context, evidence_sections, subtitle, today
from tailproof.report.sections import settings_section
from tailproof.report.tables import Table, table
from tailproof.report.text import method_text, number, percent


def comparison_page(
    log: Log, comparison: Comparison, diagnosis: Diagnosis | None, context: Context
) -> Page:
    """Return the report: who is best, how sure that is, whether the gate is passed, and the evidence.

    Parameters
    ----------
    log
        What was compared on.
    comparison
        From `compare`.
    diagnosis
        Of the log without a policy, for the sections about tails and influence.
    context
        Where it comes from.
    """
    best = comparison.best
    passing = [each.name for each in comparison.candidates if each.passes]
    verdict = (
        f"{best.name} has the highest estimate, {number(best.value)}, and is best with "
        f"probability {comparison.probability_best:.2f}. "
        + (
            f"The gate is passed by {', '.join(passing)}: with {percent(comparison.level)} confidence "
            f"for all candidates at once, better than the {comparison.baseline}."
            if passing
            else f"No candidate's lower bound beats the {comparison.baseline}: the gate is closed."
        )
    )
    facts = (
        Fact("gate", "passed" if passing else "closed", "", "good" if passing else "warn"),
        Fact("best", f"{number(best.value)}", f"above {number(best.lower_bound.value)}"),
        Fact(comparison.baseline, number(comparison.baseline_value)),
        Fact("probability of being best", f"{comparison.probability_best:.2f}"),
        Fact("method", method_text(comparison.method)),
    )
    return Page(
        title=f"Which of {len(comparison.candidates)} policies is best?",
        subtitle=subtitle(log, context, comparison.gamma),
        headline=best.name,
        headline_note="highest estimate",
        verdict=verdict,
        facts=Facts(facts),
        mood="good" if passing else "warn",
        sections=(
            _ranking(comparison),
            _gains(comparison),
            *(evidence_sections(log, diagnosis) if diagnosis is not None else ()),
            settings_section(
                context.settings,
                notes=[*context.notes, *comparison.notes],
                warnings=context.warnings,
            ),
        ),
        record=context.record,
        created=today(),
    )


def _ranking(comparison: Comparison) -> Section:
    rows = [
        (each.name, each.value, each.lower_bound.value, math.inf) for each in comparison.candidates
    ]
    level = percent(comparison.best.lower_bound.level)
    figure = forest_figure(
        rows,
        key="ranking",
        caption=f"Each policy's estimate and its lower bound, which holds with {level}; highest "
        f"estimate first.",
        x_title="value of the policy",
        line=(comparison.baseline_value, comparison.baseline),
    )
    return Section("ranking", "Ranking by estimate", (figure,), "Ranking")


def _gains(comparison: Comparison) -> Section:
    level = percent(comparison.best.gain.lower_bound.level)
    blocks: list[Block] = [Prose(_pairing(comparison)), _gain_figure(comparison, level)]
    if comparison.has_folds:
        blocks.append(Wide(_fold_table(comparison), "Every fold of every policy"))
    if comparison.notes:
        blocks.append(Points(comparison.notes))
    return Section("gains", f"Gain over the {comparison.baseline}", tuple(blocks), "Gain")


def _pairing(comparison: Comparison) -> str:
    if comparison.has_folds:
        return (
            f"Every policy was evaluated on the same folds, so that its difference to the "
            f"{comparison.baseline} is taken fold by fold: what strikes one fold strikes both."
        )
    return (
        f"Every policy has a score for every row. The bound of its gain over the {comparison.baseline} "
        f"combines the bounds of both values with the correlation of their scores."
    )


def _gain_figure(comparison: Comparison, level: str) -> Figure:
    rows = [
        (each.name, each.gain.value, each.gain.lower_bound.value, math.inf)
        for each in comparison.candidates
    ]
    return forest_figure(
        rows,
        key="gains",
        caption=f"The gain and its lower bound. Each bound holds with {level}, "
        f"so that with {percent(comparison.level)} all of them hold at once. A bound to the right "
        f"of zero passes the gate.",
        x_title=f"gain over the {comparison.baseline}",
        line=(0.0, comparison.baseline),
    )


def _fold_table(comparison: Comparison) -> Table:
    names = [each.name for each in comparison.candidates]
    folds = np.stack(
        [*(each.estimate.all_folds for each in comparison.candidates), comparison.baseline_folds]
    )
    rows = [
        (k, *(float(value) if math.isfinite(value) else None for value in folds[:, k]))
        for k in range(folds.shape[1])
    ]
    return table(("fold", *names, comparison.baseline), rows)
