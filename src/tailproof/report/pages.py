"""Complete reports of an evaluation, a diagnosis, a comparison and a learned policy."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tailproof.comparison.comparison import Comparison
from tailproof.data.log import Log
from tailproof.data.stored import action_counts
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.learning.constants import ConstantAction
from tailproof.learning.learned import Learned
from tailproof.report.answers import (
    Answer,
    comparison_how,
    comparison_notes,
    constant_text,
    gain_bound_of,
    gain_of,
    gate_line,
    learned_by,
    learned_verdict,
    logged_by,
    rank_of,
    ranking_table,
    rivals_of,
)
from tailproof.report.blocks import Block, Bullets, Fact, Facts, Prose, Section, Wide
from tailproof.report.figures import finite, gain_figure, share_figure
from tailproof.report.page import Page
from tailproof.report.sections import (
    clustering_section,
    influence_section,
    k_path_section,
    offers_section,
    residual_section,
    settings_section,
    tails_section,
    verdict_section,
    weights_section,
)
from tailproof.report.tables import table
from tailproof.report.text import count, number, percent, signed


@dataclass(frozen=True, kw_only=True)
class Context:
    """The source and settings of a result, for reports.

    Attributes
    ----------
    source
        The log's file or name.
    settings
        The settings that reproduce the result.
    notes, warnings
        Messages collected during the run.
    record
        The numbers for programs.
    """

    source: str
    settings: Mapping[str, Any] = field(default_factory=dict)
    notes: Sequence[str] = ()
    warnings: Sequence[str] = ()
    record: dict[str, Any] = field(default_factory=dict)


def evaluation_page(
    log: Log,
    found: Answer,
    diagnosis: Diagnosis,
    context: Context,
    *,
    name: str,
    more: Sequence[str] = (),
) -> Page:
    """Return the report of an evaluation: value and gain, then the evidence.

    Parameters
    ----------
    log
        The log used for the evaluation.
    found
        The estimate with its intervals.
    diagnosis
        The diagnosis of the same log and policy.
    context
        Where it comes from.
    name
        The name of the policy.
    more
        Sentences to add to the answer.
    """
    estimate, bound = found.estimate, found.gain_bound
    influence, *evidence = evidence_sections(log, diagnosis)
    return _page(
        log,
        context,
        diagnosis.gamma,
        title=f"How good is {name}?",
        headline=number(estimate.value),
        headline_note=str(estimate.unit),
        second=found.gain(),
        second_note=f"gain over the logged {number(estimate.logged_value)}; {found.gain_ends()}",
        verdict=f"What it does on the log: {estimate.on_log}." if str(estimate.on_log) else "",
        details=(f"Estimated by {found.how()}.", *found.caveats(), *more),
        facts=Facts(_facts(found)),
        mood="warn" if bound is None else "good" if bound.value > 0 else "plain",
        sections=(verdict_section(diagnosis, estimate), influence),
        folded=(offers_section(found), *evidence),
    )


def _facts(found: Answer) -> tuple[Fact, ...]:
    """Return the cards below the answer: intervals of the value and of the gain."""
    cards = []
    if (ends := found.interval) is not None:
        text = f"{number(ends.low)} to {number(ends.high)}"
        cards.append(Fact("interval of the value", text, f"holds with {percent(ends.level)}"))
    if (bound := found.bound) is not None:
        note = f"holds with {percent(bound.level)}"
        cards.append(Fact("lower bound of the value", number(bound.value), note))
    if (bound := found.gain_bound) is not None:
        note = f"holds with {percent(bound.level)}"
        cards.append(Fact("lower bound of the gain", signed(bound.value), note))
    return tuple(cards)


def diagnosis_page(log: Log, diagnosis: Diagnosis, context: Context) -> Page:
    """Return the report of a diagnosis."""
    verdict = diagnosis.verdict
    facts = (
        Fact("method", verdict.method, verdict.estimator or ""),
        Fact("one observation", verdict.unit, f"{verdict.units:,} of them"),
        Fact("variance of the rewards", diagnosis.tails["rewards"].variance.exists),
        Fact("plain average", number(diagnosis.influence.value), diagnosis.influence.estimator),
    )
    influence, tails, *others = evidence_sections(log, diagnosis)
    heavy = verdict.tails != "light"
    return _page(
        log,
        replace(context, notes=[*context.notes, *diagnosis.notes]),
        diagnosis.gamma,
        title=f"Diagnosis of {context.source}",
        headline="Heavy tails" if heavy else "Light tails",
        verdict=verdict.summary,
        facts=Facts(facts),
        mood="warn" if heavy else "good",
        sections=(verdict_section(diagnosis), influence, tails),
        folded=others,
    )


def comparison_page(
    log: Log, comparison: Comparison, diagnosis: Diagnosis, context: Context
) -> Page:
    """Return the report of a comparison: the ranking, the gains, the gate, and the evidence.

    Parameters
    ----------
    log
        The log used for the comparison.
    comparison
        From `compare`.
    diagnosis
        The diagnosis of the log without a policy, for the sections about tails and influence.
    context
        Where it comes from.
    """
    best, baseline, passes = comparison.proposed, comparison.baseline, comparison.passes
    likely = f"{comparison.best.name}, of {rivals_of(comparison)}"
    influence, *evidence = evidence_sections(log, diagnosis)
    ranking = (Wide(ranking_table(comparison)), Bullets(comparison_notes(comparison)))
    facts = (
        Fact("gate", "passed" if passes else "closed", "", "good" if passes else "warn"),
        Fact("probability of being best", f"{comparison.probability_best:.2f}", likely),
    )
    return _page(
        log,
        context,
        comparison.gamma,
        title=f"Which of {count(len(comparison.candidates), 'policy')} is best?",
        headline=best.name,
        headline_note=f"{rank_of(comparison)}: {number(best.value)} {best.estimate.unit}",
        second=gain_of(best),
        second_note=f"gain over the {baseline} ({number(comparison.baseline_value)}), "
        f"{gain_bound_of(best)}",
        verdict=f"With {percent(comparison.level)} confidence {gate_line(comparison)}.",
        facts=Facts(facts),
        details=comparison_how(comparison),
        mood="good" if passes else "warn",
        sections=(
            Section("ranking", "Ranking", ranking, "Ranking"),
            Section("gains", f"Gain over the {baseline}", (gain_figure(comparison),), "Gain"),
            influence,
        ),
        folded=(*([_folds_section(comparison)] if comparison.has_folds else []), *evidence),
    )


def _folds_section(comparison: Comparison) -> Section:
    names = [each.name for each in comparison.candidates]
    folds = np.stack(
        [*(each.estimate.all_folds for each in comparison.candidates), comparison.baseline_folds],
        axis=1,
    )
    rows = [(k, *finite(*values)) for k, values in enumerate(folds)]
    shown = table(("fold", *names, comparison.baseline), rows)
    return Section("folds", "Every fold of every policy", (Wide(shown),))


def learning_page(
    judging: Log,
    learned: Learned,
    found: Answer,
    diagnosis: Diagnosis,
    context: Context,
    *,
    constant: ConstantAction | None = None,
) -> Page:
    """Return the report of a learned policy.

    Parameters
    ----------
    judging
        The held-out episodes.
    learned
        The learned policy.
    found, diagnosis
        The estimate and the diagnosis of the policy on `judging`.
    context
        Where it comes from.
    constant
        The best single action on `judging`, from `best_constant`.
    """
    held = f"{_size(judging.once)} held out"
    if learned.log_size is not None:
        rows, episodes = learned.log_size
        held = f"{count(rows, 'row')}, {count(episodes, 'episode')}; {held}"
    page = evaluation_page(judging, found, diagnosis, context, name="the learned policy")
    page = replace(page, subtitle=page.subtitle.replace(_size(judging.once), held, 1))
    facts = page.facts.facts if page.facts else ()
    verdict, held_out = (
        learned_verdict(learned, found),
        count(judging.once.n_episodes, "held-out episode"),
    )
    said = learned_by(learned)
    if learned.improves is None:
        said += (
            f", and judged by {held_out}: on those that taught it a policy looks better than it is"
        )
    elif learned.judged is not None or not learned.improves:
        page, facts = _as_decided(page, learned, found), ()
    if constant is not None and constant_text(constant, learned, found):
        note = f"always {constant.action}, by {held_out}"
        facts = (Fact("best constant", number(constant.value), note), *facts)
    blocks: list[Block] = [Prose(f"{said}."), Bullets(learned.reasons)]
    if judging.is_discrete:
        logged = action_counts(judging) / judging.n_transitions
        shares = {
            name: (share, float(logged[action]))
            for action, (name, share) in enumerate(found.estimate.on_log.shares.items())
        }
        blocks.append(share_figure(shares))
    return replace(
        page,
        verdict=verdict,
        details=(page.verdict.replace("on the log", "on the held-out rows", 1), *page.details),
        facts=Facts(facts),
        mood="good" if verdict.startswith("Yes") else "warn",
        sections=(Section("policy", "What it learned", tuple(blocks), "Policy"), *page.sections),
    )


def _as_decided(page: Page, learned: Learned, found: Answer) -> Page:
    """Return the page with the numbers by which the policy was chosen, as in the terminal."""
    estimate, judged = found.estimate, learned.judged
    again = (
        f"The details below evaluate the policy again, by {found.how()} of "
        f"{count(estimate.n_episodes, 'held-out episode')}."
    )
    if not learned.improves or judged is None:
        (value, by), second, note = logged_by(learned, found), "", ""
    else:
        value, by, second = judged.value, "", f"{judged.gain:+.4g}"
        note = (
            f"gain over the logged {number(judged.logged_value)}; above {judged.bound:+.4g} with "
            f"{percent(judged.level)} confidence, by {count(judged.episodes, 'episode')}"
        )
    return replace(
        page,
        headline=number(value),
        headline_note=f"{estimate.unit}{'' if second else f', as logged, {by}'}",
        second=second,
        second_note=note,
        details=(again,),
    )


def _page(
    log: Log, context: Context, gamma: float, *, folded: Sequence[Section], **shown: Any
) -> Page:
    """Return a page with the parts that all reports share."""
    log = log.once
    return Page(
        subtitle=f"{context.source}: {_size(log)}" + (f", γ = {gamma:g}" if gamma else ""),
        warnings=tuple(context.warnings),
        folded=(*folded, settings_section(context.settings, notes=context.notes)),
        record=context.record,
        created=today(),
        **shown,
    )


def _size(log: Log) -> str:
    groups = "" if log.group_ids is None else f" in {count(log.n_groups, 'group')}"
    return f"{count(log.n_transitions, 'row')}, {count(log.n_episodes, 'episode')}{groups}"


def evidence_sections(log: Log, diagnosis: Diagnosis) -> list[Section]:
    """Return the sections that every report of a log shares; weights do not repeat its rows."""
    log = log.once
    sections = [
        influence_section(log, diagnosis),
        tails_section(log, diagnosis),
        clustering_section(diagnosis),
        k_path_section(diagnosis),
        weights_section(diagnosis),
        residual_section(log, diagnosis),
    ]
    return [section for section in sections if section is not None]


def today() -> str:
    """Return the current time as text."""
    return datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
