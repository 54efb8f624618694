"""A comparison in words and rows: the same in the terminal, the report and the notebook."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite

from tailproof.comparison.comparison import Candidate, Comparison
from tailproof.report.answers import with_share
from tailproof.report.tables import Table, table
from tailproof.report.text import number, percent, signed
from tailproof.statistics.intervals import Bound


def ranking_table(comparison: Comparison) -> Table:
    """Return a row for each candidate, and one for the baseline."""
    rows = [
        (
            each.name,
            number(each.value),
            _low(each.lower_bound, number),
            gain_of(each),
            _low(each.gain.lower_bound, signed),
            "passes" if each.passes else "",
        )
        for each in comparison.candidates
    ]
    rows.append((comparison.baseline, number(comparison.baseline_value), "", "", "", ""))
    return table(("policy", "value", "above", "gain", "gain above", "gate"), rows)


def comparison_line(comparison: Comparison) -> str:
    """Return who ranks first, by how much, and whether anyone passes the gate."""
    best = comparison.best
    return (
        f"{best.name} ranks first: {number(best.value)} {best.estimate.unit}; {comparison.baseline} "
        f"{number(comparison.baseline_value)}; gain {gain_of(best)}, {gain_bound_of(best)}; "
        f"{gate_line(comparison)}"
    )


def comparison_text(comparison: Comparison) -> str:
    """Return all of it as plain text."""
    notes = (f"- {note}" for note in comparison_notes(comparison))
    return "\n".join([comparison_line(comparison), *ranking_table(comparison).lines(), *notes])


def gate_line(comparison: Comparison) -> str:
    """Return who passes the gate."""
    passing = [each.name for each in comparison.candidates if each.passes]
    return f"the gate is passed by {', '.join(passing)}" if passing else "no policy passes the gate"


def gain_of(candidate: Candidate) -> str:
    """Return the gain with its share of the baseline's value."""
    return with_share(candidate.gain.value, candidate.gain.relative)


def gain_bound_of(candidate: Candidate) -> str:
    """Return the lower bound of the gain, in words."""
    bound = candidate.gain.lower_bound
    if not isfinite(bound.value):
        return "without a bound"
    return f"above {signed(bound.value)} with {percent(bound.level)}"


def comparison_notes(comparison: Comparison) -> tuple[str, ...]:
    """Return at which levels the bounds hold, and what else to know before reading them."""
    best = comparison.best
    levels = (
        f"Bounds of values hold with {percent(best.lower_bound.level)}; those of gains with "
        f"{percent(best.gain.lower_bound.level)}, so that all of them hold at once with "
        f"{percent(comparison.level)}. A bound of the gain above 0 passes the gate."
    )
    likely = f"{best.name} is the best with probability {comparison.probability_best:.2f}."
    bounds = [each.gain.lower_bound for each in comparison.candidates]
    missing = dict.fromkeys(bound.note for bound in bounds if not isfinite(bound.value))
    return (*missing, levels, likely, *comparison.notes)


def _low(bound: Bound, text: Callable[[float], str]) -> str:
    return text(bound.value) if isfinite(bound.value) else "none"
