"""The report of a comparison."""

from __future__ import annotations

import math

import numpy as np

from tailproof.comparison.comparison import Comparison
from tailproof.data.log import Log
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.report.blocks import Fact, Facts, Figure, Points, Section, Wide
from tailproof.report.figures import forest_figure
from tailproof.report.page import Page
from tailproof.report.pages import Context, evidence_sections, subtitle, today
from tailproof.report.ranking import (
    comparison_notes,
    gain_bound_of,
    gain_of,
    gate_line,
    ranking_table,
)
from tailproof.report.sections import settings_section
from tailproof.report.tables import table
from tailproof.report.text import count, method_text, number, percent


def comparison_page(
    log: Log, comparison: Comparison, diagnosis: Diagnosis, context: Context
) -> Page:
    """Return the report: who ranks first, by how much, whether the gate is passed, and the evidence.

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
    best, passes = comparison.best, comparison.passes
    influence, *evidence = evidence_sections(log, diagnosis)
    notes = Points(comparison_notes(comparison))
    gains = Section(
        "gains", f"Gain over the {comparison.baseline}", (gain_figure(comparison),), "Gain"
    )
    ranking = Section("ranking", "Ranking", (Wide(ranking_table(comparison)), notes), "Ranking")
    return Page(
        title=f"Which of {count(len(comparison.candidates), 'policy')} is best?",
        subtitle=subtitle(log, context, comparison.gamma),
        headline=best.name,
        headline_note=f"ranks first: {number(best.value)} {best.estimate.unit}",
        second=gain_of(best),
        second_note=f"gain over the {comparison.baseline} ({number(comparison.baseline_value)}), "
        f"{gain_bound_of(best)}",
        verdict=f"With {percent(comparison.level)} confidence {gate_line(comparison)}.",
        warnings=tuple(context.warnings),
        facts=Facts(
            (
                Fact("gate", "passed" if passes else "closed", "", "good" if passes else "warn"),
                Fact("probability of being best", f"{comparison.probability_best:.2f}"),
            )
        ),
        details=(f"Estimated by {method_text(comparison.method)}.",),
        mood="good" if passes else "warn",
        sections=(ranking, gains, influence),
        folded=(
            *([_folds(comparison)] if comparison.has_folds else []),
            *evidence,
            settings_section(context.settings, notes=context.notes),
        ),
        record=context.record,
        created=today(),
    )


def gain_figure(comparison: Comparison) -> Figure:
    """Return the gain of each candidate with its bound."""
    level = percent(comparison.best.gain.lower_bound.level)
    return forest_figure(
        [
            (each.name, each.gain.value, each.gain.lower_bound.value, math.inf)
            for each in comparison.candidates
        ],
        key="gains",
        caption=f"The gain and its lower bound, which holds with {level}. A bound to the right of "
        f"zero passes the gate.",
        x_title=f"gain over the {comparison.baseline}",
        line=(0.0, comparison.baseline),
    )


def _folds(comparison: Comparison) -> Section:
    names = [each.name for each in comparison.candidates]
    folds = np.stack(
        [*(each.estimate.all_folds for each in comparison.candidates), comparison.baseline_folds]
    )
    rows = [
        (k, *(float(value) if math.isfinite(value) else None for value in folds[:, k]))
        for k in range(folds.shape[1])
    ]
    shown = table(("fold", *names, comparison.baseline), rows)
    return Section("folds", "Every fold of every policy", (Wide(shown),))
