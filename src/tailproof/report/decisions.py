"""Blocks of what follows an answer: for whom it is better, what it might harm, how much more data."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tailproof.report.blocks import (
    Answer,
    Block,
    Figure,
    Headline,
    Note,
    Section,
    Table,
    Tone,
    below_first,
    table,
)
from tailproof.report.figures import finite, interval_row, intervals_figure
from tailproof.report.plots import IntervalRow, dots, line
from tailproof.report.text import Quantity, count, number, percent, signed
from tailproof.robust.sensitivity import GAMMAS

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.doors.compare import Comparison
    from tailproof.doors.estimate import Estimate
    from tailproof.doors.plan import Plan
    from tailproof.doors.segments import Segments

#: A verdict on a guardrail as a short word.
_HARM = {"not shown to be harmless": "not shown"}
_TONES: dict[str, Tone] = {"better": "good", "worse": "warn", "cannot tell": "muted"}


def segments_blocks(found: Segments) -> Answer:
    """Return the blocks of gains by segment: the sentence, a table and a picture."""
    rows = segment_rows(found)
    listed = [
        (each.name, each.rows, *finite(row.value, row.low, row.high), str(each.verdict))
        for each, row in zip(found.segments, rows, strict=True)
    ]
    quantity = Quantity.named(found.reward, per=found.per)
    caption = (
        f"Difference in {quantity.title} by {found.by}, {found.policy} against {found.against}; the "
        f"intervals hold together with {percent(found.level)} confidence"
    )
    columns = (found.by, f"{found.per}s", "difference", "from", "to", "verdict")
    figure = intervals_figure(
        rows,
        title=f"difference in {quantity.title}",
        against=found.against,
        key="segments",
        caption=f"{caption}.",
        legend=[("good", "better"), ("main", "no difference shown"), ("warn", "worse")],
        numbers=table(columns, listed),
    )
    few = [f"{each.name}: {each.gain.declined}." for each in found.segments if each.gain.declined]
    notes = [Note(text, "soft") for text in (*few, *([found.note] if found.note else []))]
    return (Headline(found.sentence), table(columns, listed, caption=caption), *notes, figure)


def segment_rows(found: Segments) -> list[IntervalRow]:
    """Return the gain of each segment as it is read, with its interval."""
    quantity = Quantity.named(found.reward, per=found.per)
    rows = []
    for each in found.segments:
        known, value = each.interval, quantity.shown(each.gain.value)
        ends = None if known is None else quantity.ends(known.low, known.high)
        tip = f"{each.name}: {signed(value)}, {each.verdict}"
        tone = _TONES.get(each.verdict.word, "main")
        rows.append(interval_row(each.name, value, ends, tone, tip))
    return rows


def with_segments(answer: Answer, found: Segments) -> Answer:
    """Return an answer with the sentence and the table by segment, and the picture in a section."""
    headline, listed, *rest, figure = segments_blocks(found)
    assert isinstance(headline, Headline)
    section = Section("segments", f"For whom: by {found.by}", (*rest, figure), "Segments")  # type: ignore[arg-type]
    assert isinstance(listed, Table)
    return (*below_first(answer, (Note(headline.text), listed)), section)


def with_guardrails(answer: Answer, comparison: Comparison) -> Answer:
    """Return the answer of a comparison with the harm to guarded outcomes: a sentence and a table."""
    shown = comparison.proposed
    rows = []
    for candidate in comparison.candidates:
        for each in candidate.guardrails:
            found = each.to_dict()
            numbers = (found[name] for name in ("change", "low", "high", "margin"))
            verdict = _HARM.get(each.verdict, each.verdict)
            rows.append((candidate.name, each.outcome.column, *numbers, verdict))
    caption = (
        f"Guardrails: change from the {comparison.baseline}; these bounds and those above hold "
        f"together with {percent(comparison.level)} confidence on each side"
    )
    columns = ("policy", "outcome", "change", "at least", "at most", "margin", "verdict")
    headline, *rest = answer
    assert isinstance(headline, Headline)
    if shown.harmed:
        text = f"{headline.text} It harms {' and '.join(shown.harmed)}."
        headline = replace(headline, text=text)
    unsure = [each for each in shown.guardrails if each.verdict == "not shown to be harmless"]
    said: list[Block] = [table(columns, rows, caption=caption)]
    if unsure:
        names = " and ".join(each.outcome.column for each in unsure)
        text = f"{shown.name} is not shown to be harmless for {names}"
        without = next((each.outcome.column for each in unsure if not each.outcome.margin), None)
        hint = f"; name the harm that is tolerated, as in --margin {without}=2%" if without else ""
        said.append(Note(f"{text}{hint}.", "warn"))
    return (headline, rest[0], *said, *rest[1:])


def hidden_reason(estimate: Estimate, level: float) -> str:
    """Return how strong a hidden reason for the logged actions would overturn an answer, in words."""
    gamma = estimate.tipping_gamma(level)
    if gamma is None:
        return ""
    factor = f"{GAMMAS[-1]:g}" if math.isinf(gamma) else f"{gamma:.2g}"
    if factor == "1":
        return (
            "Propensities were estimated: even a weak hidden reason for the logged actions would "
            "overturn this."
        )
    overturns = "would not even" if math.isinf(gamma) else "would"
    return (
        f"Propensities were estimated: a hidden reason that makes an action {factor} times as likely "
        f"(in odds), among rows that look alike, {overturns} overturn this."
    )


def rows_note(estimate: Estimate, needed: int | None) -> list[Block]:
    """Return how many rows would decide a gain as large as the estimated one, as a note."""
    chosen = estimate.choice
    if needed is None or chosen is None:
        return []
    unit = {"step": "episode"}.get(chosen.unit, chosen.unit)
    needed = int(float(f"{needed:.2g}"))
    text = (
        f"If the difference is as estimated, about {count(needed, unit)} like these would show it."
    )
    return [Note(text, "soft")]


def plan_blocks(plan: Plan) -> Answer:
    """Return the blocks of a planned test: the sentence, the table and a picture."""
    quantity = Quantity.named(plan.reward, per=plan.per)
    sure = f"{percent(plan.curve.power)} of such tests, {percent(plan.curve.level)} confidence"
    shown = sorted({*plan.rows, *([plan.needed] if plan.needed else [])})
    gains = [plan.detectable(rows) for rows in shown]
    gain = "saving" if quantity.is_cost else "gain"
    said = f"{count(plan.rows[-1], quantity.per)} in each arm show a {gain} of"
    said = f"{said} {quantity.about(plan.detectable(plan.rows[-1]))} per {quantity.per} ({sure})."
    if plan.needed is not None and plan.gain is not None:
        said = (
            f"A {gain} of {quantity.amount(plan.gain)} per {quantity.per} takes about "
            f"{count(plan.needed, quantity.per)} in each arm ({sure})."
        )
    columns = [f"{quantity.per}s in each arm", f"{gain} that is shown", "relative to the mean"]
    cells = [
        [rows, gain, share_text(gain, plan.mean)] for rows, gain in zip(shown, gains, strict=True)
    ]
    notes: list[Block] = [Note(plan.note, "warn")] if plan.note else []
    if plan.curve_within is not None and plan.sizes_within is not None:
        sizes = f"sizes within {percent(plan.sizes_within)}"
        columns.append(sizes)
        for row, rows in zip(cells, shown, strict=True):
            row.append(plan.curve_within.detectable(rows))
        needed = plan.needed_within
        takes = "" if needed is None else f", and takes {count(needed, quantity.per)} in each arm"
        notes.append(
            Note(
                f"The last column holds if sizes of extremes differ by at most "
                f"{percent(plan.sizes_within)} between the arms{takes}: judge the test by compare "
                f"--gate-sizes-within {percent(plan.sizes_within).replace(' ', '')}."
            )
        )
    listed = table(
        columns, cells, caption=f"{quantity.title}: mean {number(quantity.shown(plan.mean))}"
    )
    figure = Figure(
        key="plan",
        draw=lambda axes: _draw_curve(axes, plan, shown),
        x=f"{quantity.per}s in each arm",
        y=f"{gain} in {quantity.title}",
        alt=f"The {gain} that a test shows falls with its size: {number(gains[0])} with "
        f"{shown[0]:,}, {number(gains[-1])} with {shown[-1]:,} in each arm.",
        caption=f"The {gain} that is shown in {sure}, by {quantity.per}s in each arm.",
        numbers=listed,
    )
    return (Headline(said), listed, *notes, figure)


def share_text(value: float, whole: float) -> str:
    """Return a value relative to another in percent; empty if that is 0."""
    return percent(value / abs(whole), 2) if whole else ""


def _draw_curve(axes: Axes, plan: Plan, rows: list[int]) -> None:
    sizes = np.geomspace(rows[0], rows[-1], 60)
    line(axes, sizes, [plan.curve.detectable(size) for size in sizes], tone="main")
    dots(axes, rows, [plan.detectable(size) for size in rows], "main")
    axes.set_xscale("log")
