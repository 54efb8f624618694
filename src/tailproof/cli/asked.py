"""Quantities that `evaluate` adds to the answer on request: quantiles, means of tails, ratios."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

from tailproof.cli.options import option
from tailproof.errors import void
from tailproof.methods.fit import cap_for
from tailproof.report.blocks import Block, Note, table
from tailproof.report.text import Quantity, number, percent
from tailproof.robust.means import USUAL, Cap

if TYPE_CHECKING:
    from tailproof.doors.estimate import Estimate
    from tailproof.doors.returns import Returns
    from tailproof.log.log import Log
    from tailproof.robust.intervals import Interval

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

    @property
    def of_returns(self) -> bool:
        """Whether anything about the distribution of returns is asked for."""
        return bool(self.quantile or self.cvar or self.upper_cvar or self.per)


def asked_for(
    options: ExperimentOptions, log: Log, policy: object, estimate: Estimate, *, level: float
) -> tuple[dict[str, Any], list[Block]]:
    """Return the requested numbers for the record, and as blocks; nothing if the answer is void."""
    if void(estimate.cautions):
        return {}, []
    found: dict[str, Any] = {}
    rows: list[tuple[str, str, str]] = []
    notes: list[str] = []
    if (lift := _lift(estimate, level)) is not None:
        found["lift"] = asdict(lift)
    returns: Returns | None = None
    if options.of_returns or _shows_cap(log, estimate):
        returns = _returns(options, log, policy, estimate)
    if returns is not None and options.of_returns:
        asked = [returns.quantile(q, level=level) for q in options.quantile]
        asked += [returns.cvar(q, level=level) for q in options.cvar]
        asked += [returns.cvar(q, level=level, upper=True) for q in options.upper_cvar]
        if options.per is not None:
            asked.append(replace(returns.ratio(level=level), name=f"per {options.per}"))
        found["returns"] = [asdict(each) for each in asked]
        rows += [(each.name, number(each.value), _ends(each)) for each in asked]
        notes += [f"{each.name}: {each.note}." for each in asked if each.note]
    if options.sequential:
        found["sequential"], ends, said = _sequence(estimate, level)
        rows.append(("at any time", number(estimate.value), ends))
        notes += said
    if returns is not None and (capped := cap_reading(estimate, returns)) is not None:
        cap, value = capped
        found["winsorised"] = {"cap": cap, "value": value}
        quantity = Quantity.of(estimate.unit)
        would = f"the {quantity.noun} would be {quantity.amount(quantity.shown(value), 4)}"
        if isinstance(estimate.method.clip, str):
            notes.append(f"Without the cap at {cap} {would}.")
        else:
            usual = Cap.named(cap).mirrored if quantity.is_cost else Cap.named(cap)
            what = "costs" if quantity.is_cost else "rewards"
            notes.append(f"With {what} capped at percentile {usual.percentile:g}, {would}.")
    shown = [table(("", "estimate", f"{percent(level)} interval"), rows)] if rows else []
    return found, [*shown, *(Note(text, "soft") for text in notes)]


def _returns(options: ExperimentOptions, log: Log, policy: Any, estimate: Estimate) -> Returns:
    from tailproof.doors.returns import returns_under
    from tailproof.log.budget import sample_to_budget

    known = sample_to_budget(log, "The distribution of returns")
    return returns_under(known, policy, gamma=estimate.gamma, per=options.per)


def _sequence(estimate: Estimate, level: float) -> tuple[dict[str, Any], str, list[str]]:
    """Return an interval that holds at any time: for the record, its ends, and notes on it."""
    from tailproof.doors.returns import confidence_sequence
    from tailproof.errors import LevelError

    try:
        sequence = confidence_sequence(estimate, level=level)
    except LevelError as why:
        if not _of_rows(estimate):  # asked of what has none
            raise
        return {"why_not": str(why)}, "none", [str(why)]
    found, notes = asdict(sequence), [f"At any time: {sequence.note}."]
    try:
        least = confidence_sequence(estimate, level=level, kind="guaranteed").low
    except LevelError:
        return found, _ends(sequence), notes
    found["guaranteed_low"] = least
    return found, _ends(sequence), [*notes, f"Above {number(least)} at any time, guaranteed."]


def _of_rows(estimate: Estimate) -> bool:
    """Return whether the estimate is a mean of scores of independent rows or groups."""
    from tailproof.estimators.choice import OneStepChoice

    choice = estimate.choice
    return isinstance(choice, OneStepChoice) and choice.unit != "episode"


def cap_reading(estimate: Estimate, returns: Returns) -> tuple[str, float] | None:
    """Return the cap, and the estimate with it (without it, if a cap was requested).

    The reward model is unchanged, so that the estimate changes by the weighted mean of the amounts
    that the cap removes. None if the change is below half a percent.
    """
    asked = estimate.method.clip
    if isinstance(asked, str):
        shift = returns.shift_by_cap(cap_for(asked, returns.log))
        return (asked, estimate.value - shift) if shift else None
    if asked:
        return None
    usual = Cap.named(USUAL)
    shifts = {str(cap): returns.shift_by_cap(cap) for cap in (usual, usual.mirrored)}
    cap = max(shifts, key=lambda name: abs(shifts[name]))
    if abs(shifts[cap]) <= _WORTH_SAYING * abs(estimate.value):
        return None
    return cap, estimate.value + shifts[cap]


def _shows_cap(log: Log, estimate: Estimate) -> bool:
    """Return whether the effect of a cap is cheap to compute: one step, logged propensities."""
    from tailproof.estimators.choice import OneStepChoice

    known = log.is_bandit and log.propensity is not None
    return known and isinstance(estimate.choice, OneStepChoice)


def _lift(estimate: Estimate, level: float) -> Any:
    """Return the relative gain over the log, if the two values have a joint standard error."""
    from tailproof.doors.returns import Measured
    from tailproof.estimators.choice import OneStepChoice

    if not isinstance(estimate.choice, OneStepChoice) or not estimate.choice.logged_value:
        return None
    gain = estimate.choice.gain
    if gain.declined is not None:
        return None
    interval = asdict(gain.relative_interval(level))
    return Measured(name="relative gain", value=gain.relative, **interval)


def _ends(found: Interval) -> str:
    return f"{number(found.low)} to {number(found.high)}"
