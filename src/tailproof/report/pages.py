"""Whole reports: of an evaluation and of a diagnosis."""

from __future__ import annotations

import warnings as python_warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.judgement.reference import reference
from tailproof.report.answers import Answer
from tailproof.report.blocks import Fact, Facts, Mood, Section
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
    log: Log, policy: Any, found: Answer, diagnosis: Diagnosis, context: Context, *, name: str
) -> Page:
    """Return the report of an evaluation: value and gain, then what they rest on.

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
    estimate = found.estimate
    chosen = choice_section(found)
    evidence = evidence_sections(log, diagnosis, _weights(log, policy, diagnosis))
    return Page(
        title=f"How good is {name}?",
        subtitle=subtitle(log, context, diagnosis.gamma),
        headline=number(estimate.value),
        headline_note=str(estimate.unit),
        second=found.gain(),
        second_note=f"gain over the logged {number(estimate.logged_value)}; {found.gain_ends()}",
        verdict=f"The policy takes {found.policy_line()}.",
        warnings=tuple(context.warnings),
        details=(f"Estimated by {found.how()}.", *found.caveats()),
        facts=Facts(_facts(found)),
        mood=_mood(found),
        sections=(
            *([chosen] if chosen is not None else []),
            verdict_section(diagnosis),
            evidence[0],
        ),
        folded=(
            folds_section(found),
            *evidence[1:],
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


def diagnosis_page(log: Log, policy: Any, diagnosis: Diagnosis, context: Context) -> Page:
    """Return the report of a diagnosis."""
    verdict = diagnosis.verdict
    rewards = diagnosis.tails["rewards"]
    promised = "none" if verdict.level is None else percent(verdict.level)
    facts = (
        Fact(
            "safe method", verdict.method, "" if verdict.mean is None else f"mean: {verdict.mean}"
        ),
        Fact("folds for bounds", str(verdict.folds), f"lower bound promised at {promised}"),
        Fact("variance of the rewards", rewards.variance.exists),
        Fact("plain average", number(diagnosis.influence.value), diagnosis.influence.estimator),
    )
    heavy = rewards.variance.exists != "yes"
    influence, tails, *others = evidence_sections(log, diagnosis, _weights(log, policy, diagnosis))
    settings = settings_section(context.settings, notes=[*context.notes, *diagnosis.notes])
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


def _weights(log: Log, policy: Any, diagnosis: Diagnosis) -> FloatArray | None:
    if policy is None or diagnosis.overlap is None:
        return None
    with python_warnings.catch_warnings():  # said once already, by the diagnosis
        python_warnings.simplefilter("ignore")
        return reference(log, policy, gamma=diagnosis.gamma).weights


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
