"""Whole reports: of an evaluation and of a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tailproof.data.log import Log
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.report.answers import Answer
from tailproof.report.blocks import Fact, Facts, Mood, Section
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
from tailproof.report.text import count, number, percent, signed


@dataclass(frozen=True, kw_only=True)
class Context:
    """Where a result comes from, for the reader of a report.

    Attributes
    ----------
    source
        The log's file or name.
    settings
        What to repeat.
    notes, warnings
        What was said on the way.
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
    """Return the report of an evaluation: value and gain, then what they rest on.

    Parameters
    ----------
    log
        What was evaluated on.
    found
        The answer.
    diagnosis
        Of the same log and policy.
    context
        Where it comes from.
    name
        What to call the policy.
    more
        Sentences to add to the answer.
    """
    estimate = found.estimate
    influence, *evidence = evidence_sections(log, diagnosis)
    return Page(
        title=f"How good is {name}?",
        subtitle=subtitle(log, context, diagnosis.gamma),
        headline=number(estimate.value),
        headline_note=str(estimate.unit),
        second=found.gain(),
        second_note=f"gain over the logged {number(estimate.logged_value)}; {found.gain_ends()}",
        verdict=f"What it does on the log: {estimate.on_log}." if str(estimate.on_log) else "",
        warnings=tuple(context.warnings),
        details=(f"Estimated by {found.how()}.", *found.caveats(), *more),
        facts=Facts(_facts(found)),
        mood=_mood(found),
        sections=(verdict_section(diagnosis, estimate), influence),
        folded=(
            offers_section(found),
            *evidence,
            settings_section(context.settings, notes=context.notes),
        ),
        record=context.record,
        created=today(),
    )


def _facts(found: Answer) -> tuple[Fact, ...]:
    """Return the cards below the answer: the ends of the value and of the gain."""
    cards = []
    if (ends := found.interval) is not None:
        text = f"{number(ends.low)} to {number(ends.high)}"
        cards.append(Fact("interval of the value", text, f"holds with {percent(ends.level)}"))
    if (bound := found.bound) is not None:
        note = f"holds with {percent(bound.level)}"
        cards.append(Fact("lower bound of the value", number(bound.low), note))
    if (bound := found.gain_bound) is not None:
        note = f"holds with {percent(bound.level)}"
        cards.append(Fact("lower bound of the gain", signed(bound.low), note))
    return tuple(cards)


def _mood(found: Answer) -> Mood:
    if found.gain_bound is None:
        return "warn"
    return "good" if found.gain_bound.low > 0 else "plain"


def diagnosis_page(log: Log, diagnosis: Diagnosis, context: Context) -> Page:
    """Return the report of a diagnosis."""
    verdict = diagnosis.verdict
    rewards = diagnosis.tails["rewards"]
    facts = (
        Fact("method", verdict.method, verdict.estimator or ""),
        Fact("one observation", verdict.unit, f"{verdict.units:,} of them"),
        Fact("variance of the rewards", rewards.variance.exists),
        Fact("plain average", number(diagnosis.influence.value), diagnosis.influence.estimator),
    )
    influence, tails, *others = evidence_sections(log, diagnosis)
    settings = settings_section(context.settings, notes=[*context.notes, *diagnosis.notes])
    heavy = verdict.tails != "light"
    return Page(
        title=f"Diagnosis of {context.source}",
        subtitle=subtitle(log, context, diagnosis.gamma),
        headline="Heavy tails" if heavy else "Light tails",
        verdict=verdict.summary,
        warnings=tuple(context.warnings),
        facts=Facts(facts),
        mood="warn" if heavy else "good",
        sections=(verdict_section(diagnosis), influence, tails),
        folded=(*others, settings),
        record=context.record,
        created=today(),
    )


def evidence_sections(log: Log, diagnosis: Diagnosis) -> list[Section]:
    """Return the sections that every report of a log shares."""
    sections = [
        influence_section(log, diagnosis),
        tails_section(log, diagnosis),
        clustering_section(diagnosis),
        k_path_section(diagnosis),
        weights_section(diagnosis),
        residual_section(log, diagnosis),
    ]
    return [section for section in sections if section is not None]


def subtitle(log: Log, context: Context, gamma: float) -> str:
    """Return what a page says below its title: which log, how large."""
    groups = "" if log.group_ids is None else f" in {count(log.n_groups, 'group')}"
    return (
        f"{context.source}: {count(log.n_transitions, 'row')}, "
        f"{count(log.n_episodes, 'episode')}{groups}" + (f", γ = {gamma:g}" if gamma else "")
    )


def today() -> str:
    """Return the time, for people."""
    return datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
