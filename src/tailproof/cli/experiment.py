"""Quantities for experiments beside the mean: quantiles, tail means, ratios, caps, repeated looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

from tailproof.algorithms.one_step.choice import OneStepChoice
from tailproof.cli.options import option
from tailproof.data.log import Log
from tailproof.data.stored import AnyLog, in_memory
from tailproof.errors import LevelError
from tailproof.evaluation.estimate import Estimate
from tailproof.evaluation.looks import confidence_sequence
from tailproof.evaluation.returns import Measured, Returns, returns_under
from tailproof.report.text import number, percent
from tailproof.statistics.caps import USUAL, Cap
from tailproof.statistics.intervals import Interval

_WORTH_SAYING = 0.005  # smallest relative change by a cap to report


@dataclass(frozen=True)
class ExperimentOptions:
    """The quantities to add to the answer."""

    quantile: list[float] = option(
        "Also this quantile of the return, as 0.5; may be repeated.", default=[], metavar="Q"
    )
    cvar: list[float] = option(
        "Also the mean of this worst share of returns; may be repeated.", default=[], metavar="Q"
    )
    upper_cvar: list[float] = option(
        "Also the mean of this best share of returns; may be repeated.", default=[], metavar="Q"
    )
    per: str | None = option(
        "Also the reward per unit of this column, as sessions.", metavar="COLUMN"
    )
    sequential: bool = option(
        "Also an interval that holds however often one looks at a growing log.",
        "--sequential",
        default=False,
    )


def experiment_findings(
    options: ExperimentOptions,
    whole: AnyLog,
    policy: Any,
    estimate: Estimate,
    *,
    level: float,
) -> tuple[dict[str, Any], list[tuple[str, str]]]:
    """Return the numbers for the record, and rows of label and text."""
    found: dict[str, Any] = {}
    rows: list[tuple[str, str]] = []
    returns: Returns | None = None
    if (lift := _lift(estimate, level)) is not None:
        found["lift"] = asdict(lift)
        ends = f"{lift.low:+.1%} to {lift.high:+.1%}  ({percent(level)})"
        rows.append(("lift", f"{lift.value:+.1%}, {ends}"))
    tails = options.cvar or options.upper_cvar
    if options.quantile or tails or options.per or _shows_cap(whole, estimate):
        log = in_memory(whole, "The distribution of returns")
        returns = returns_under(log, policy, gamma=estimate.gamma, per=options.per)
    if returns is not None:
        asked = [returns.quantile(q, level=level) for q in options.quantile]
        asked += [returns.cvar(q, level=level) for q in options.cvar]
        asked += [returns.cvar(q, level=level, upper=True) for q in options.upper_cvar]
        if options.per is not None:
            asked.append(replace(returns.ratio(level=level), name=f"per {options.per}"))
        for each in asked:
            found.setdefault("returns", []).append(asdict(each))
            rows.append((each.name, f"{number(each.value)}, {_ends(each)}"))
            rows += [("", each.note)] if each.note else []
    if options.sequential:
        sequence = confidence_sequence(estimate, level=level)
        found["sequential"] = asdict(sequence)
        rows += [("at any time", _ends(sequence)), ("", sequence.note)]
        if (least := _guaranteed(estimate, level)) is not None:
            found["sequential"]["guaranteed_low"] = least
            rows.append(("", f"above {number(least)} at any time, guaranteed"))
    if returns is not None and (capped := cap_reading(estimate, returns)) is not None:
        cap, value = capped
        found["winsorised"] = {"cap": cap, "value": value}
        reads = f"at {cap}, the value of the policy would read {number(value)}"
        uncapped = isinstance(estimate.method.clip, str)
        rows.append(
            ("uncapped", f"without the cap {reads}") if uncapped else ("", f"winsorised {reads}")
        )
    return found, rows


def sentences(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return rows of label and text as sentences for a report.

    >>> sentences([("lift", "+3 %"), ("", "winsorised, this would read 4")])
    ['Lift: +3 %.', 'Winsorised, this would read 4.']
    """
    texts = [f"{label}: {text}" if label else text for label, text in rows]
    return [f"{text[0].upper()}{text[1:]}." for text in texts]


def cap_reading(estimate: Estimate, returns: Returns) -> tuple[str, float] | None:
    """Return the cap, and the estimate with it (without it, if a cap was requested).

    The reward model is unchanged, so that the estimate changes by the weighted mean of the amounts
    that the cap removes. None if the change is below half a percent.
    """
    asked = estimate.method.clip
    if isinstance(asked, str):
        shift = returns.shift_by_cap(asked)
        return (asked, estimate.value - shift) if shift else None
    if asked:
        return None
    usual = Cap.named(USUAL)
    shifts = {str(cap): returns.shift_by_cap(cap) for cap in (usual, usual.mirrored)}
    cap = max(shifts, key=lambda name: abs(shifts[name]))
    if abs(shifts[cap]) <= _WORTH_SAYING * abs(estimate.value):
        return None
    return cap, estimate.value + shifts[cap]


def _shows_cap(log: AnyLog, estimate: Estimate) -> bool:
    """Return whether the effect of a cap is cheap to compute: one step, logged propensities."""
    known = isinstance(log, Log) and log.is_bandit and log.propensity is not None
    return known and isinstance(estimate.choice, OneStepChoice)


def _lift(estimate: Estimate, level: float) -> Measured | None:
    """Return the relative gain over the log, if the two values have a joint standard error."""
    if not isinstance(estimate.choice, OneStepChoice) or not estimate.choice.logged_value:
        return None
    gain = estimate.choice.gain
    interval = asdict(gain.relative_interval(level))
    return Measured(name="relative gain", value=gain.relative, **interval)


def _guaranteed(estimate: Estimate, level: float) -> float | None:
    try:
        return confidence_sequence(estimate, level=level, kind="guaranteed").low
    except LevelError:
        return None


def _ends(found: Interval) -> str:
    return f"{number(found.low)} to {number(found.high)}  ({percent(found.level)})"
