"""Whole reports: of an evaluation and of a diagnosis."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.report.answers import Answer
from tailproof.report.blocks import Fact, Facts, Section
from tailproof.report.page import Page
from tailproof.report.sections import (
    choice_section,
    clustering_section,
    folds_section,
    influence_section,
    k_path_section,
    residual_section,
    settings_section,
    tails_section,
    verdict_section,
    weights_section,
)
from tailproof.report.text import count, number, percent


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
    log: Log, policy: Any, found: Answer, diagnosis: Diagnosis, context: Context, *, name: str
) -> Page:
    """Return the report of an evaluation: the answer, then what it rests on.

    Parameters
    ----------
    log, policy
        What was evaluated; the weights are computed from them once more.
    found
        The answer.
    diagnosis
        Of the same log and policy.
    context
        Where it comes from.
    name
        What to call the policy.
    """
    facts = []
    if found.interval is not None:
        ends = f"{number(found.interval.low)} to {number(found.interval.high)}"
        facts.append(Fact("interval", ends, f"covers with {percent(found.interval.level)}"))
    if found.bound is not None:
        note = f"exceeded with {percent(found.bound.level)}"
        facts.append(Fact("lower bound", number(found.bound.low), note))
    plain = diagnosis.influence
    facts.append(Fact("method", found.how()))
    facts.append(Fact("plain average", number(plain.value), plain.estimator))
    light = diagnosis.tails["rewards"].variance.exists == "yes"
    chosen = choice_section(found)
    advice = diagnosis.verdict.summary if chosen is None else ""
    sections = [
        *([chosen] if chosen is not None else []),
        folds_section(found),
        verdict_section(diagnosis),
        *evidence_sections(log, diagnosis, _weights(log, policy, diagnosis)),
        settings_section(context.settings, notes=context.notes, warnings=context.warnings),
    ]
    return Page(
        title=f"How good is {name}?",
        subtitle=subtitle(log, context, diagnosis.gamma),
        headline=number(found.estimate.value),
        headline_note="estimated value",
        verdict=found.sentence(),
        details=tuple(filter(None, (found.why_no_interval(), advice))),
        facts=Facts(tuple(facts)),
        mood="good" if light else "plain" if found.interval is not None else "warn",
        sections=tuple(sections),
        record=context.record,
        created=today(),
    )


def diagnosis_page(log: Log, policy: Any, diagnosis: Diagnosis, context: Context) -> Page:
    """Return the report of a diagnosis."""
    verdict = diagnosis.verdict
    rewards = diagnosis.tails["rewards"]
    facts = (
        Fact("method", verdict.method, verdict.estimator or ""),
        Fact("one observation", verdict.unit, f"{verdict.units:,} of them"),
        Fact("variance of the rewards", rewards.variance.exists),
        Fact("plain average", number(diagnosis.influence.value), diagnosis.influence.estimator),
    )
    heavy = verdict.tails != "light"
    sections = [
        verdict_section(diagnosis),
        *evidence_sections(log, diagnosis, _weights(log, policy, diagnosis)),
        settings_section(
            context.settings,
            notes=[*context.notes, *diagnosis.notes],
            warnings=context.warnings,
        ),
    ]
    return Page(
        title=f"Diagnosis of {context.source}",
        subtitle=subtitle(log, context, diagnosis.gamma),
        headline="Heavy tails" if heavy else "Light tails",
        verdict=verdict.summary,
        facts=Facts(facts),
        mood="warn" if heavy else "good",
        sections=tuple(sections),
        record=context.record,
        created=today(),
    )


def evidence_sections(
    log: Log, diagnosis: Diagnosis, weights: FloatArray | None = None
) -> list[Section]:
    """Return the sections that every report of a log shares."""
    sections = [
        influence_section(log, diagnosis),
        tails_section(log, diagnosis),
        clustering_section(diagnosis),
        k_path_section(diagnosis),
        weights_section(diagnosis, weights),
        residual_section(log, diagnosis),
    ]
    return [section for section in sections if section is not None]


def _weights(log: Log, policy: Any, diagnosis: Diagnosis) -> FloatArray | None:  # noqa: ARG001
    return None if diagnosis.overlap is None else diagnosis.weights


def subtitle(log: Log, context: Context, gamma: float) -> str:
    """Return what a page says below its title: which log, how large."""
    groups = "" if log.group_ids is None else f" in {count(log.n_groups, 'group')}"
    return (
        f"{context.source}: {count(log.n_transitions, 'row')}, "
        f"{count(log.n_episodes, 'episode')}{groups}, γ = {gamma:g}"
    )


def today() -> str:
    """Return the time, for people."""
    return datetime.now(UTC).strftime("%d %B %Y, %H:%M UTC")
