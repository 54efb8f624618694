"""Guardrails: outcomes that a better policy must not harm, judged on the same rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Literal

from tailproof.doors.source import numbers_by_row
from tailproof.doors.verdict import Judged, verdict_on
from tailproof.errors import Caution, LogError, PolicyError
from tailproof.files import plain
from tailproof.log.log import Log
from tailproof.robust.gains import FoldGain, PairedGain
from tailproof.robust.intervals import Bound, Interval

Harm = Literal["harmless", "harmed", "not shown to be harmless"]
_HARM: dict[str, Harm] = {"better": "harmless", "worse": "harmed"}


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """An outcome to guard: its column, whether less of it is better, and the tolerated harm."""

    column: str
    less_is_better: bool
    margin: float  # 0 or more
    relative: bool  # whether the margin is a share of the baseline's value

    def tolerated(self, reference: float) -> float:
        """Return the tolerated harm, in units of the outcome."""
        return self.margin * abs(reference) if self.relative else self.margin

    @property
    def rule(self) -> str:
        """What must not happen, in words."""
        said = f"{self.column} must not {'rise' if self.less_is_better else 'fall'}"
        if not self.margin:
            return said
        size = f"{100 * self.margin:.4g} %" if self.relative else f"{self.margin:.4g}"
        return f"{said} by more than {size}"

    def log(self, log: Log, notes: list[str] | None = None) -> Log:
        """Return the same log with this outcome as its reward, larger being better.

        `notes` receives how amounts were read that are written as text.
        """
        if log.encoder is not None and self.column in log.encoder.columns:
            raise LogError(
                f"{self.column!r} is a state column, and an outcome cannot be known before the action. "
                f"Name the state columns without it.",
                argument="guardrail",
            )
        values = numbers_by_row(log, self.column, argument="guardrail", notes=notes)
        name = f"minus {self.column}" if self.less_is_better else self.column
        guarded = log.with_rewards(-values if self.less_is_better else values)
        return replace(guarded, reward_name=name)


@dataclass(frozen=True)
class RelativeGain:
    """A gain as a share of the baseline: its bounds include the error of the baseline."""

    gain: PairedGain

    @property
    def value(self) -> float:
        """The gain as a share."""
        return self.gain.relative

    relative = value

    @property
    def declined(self) -> Caution | None:
        """Why it has no bounds, or None."""
        return self.gain.declined

    def interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval."""
        return self.gain.relative_interval(level)

    def lower_bound(self, level: float = 0.9) -> Bound:
        """Return a lower bound."""
        found = self.gain.relative_interval(max(2 * level - 1, 0.0))
        return Bound(
            value=found.low, level=level, requested=level, kind=found.kind, note=found.note
        )


@dataclass(frozen=True, kw_only=True)
class Guardrail:
    """The difference of a candidate from the baseline in a guarded outcome.

    Its bounds hold together with those of all other outcomes and candidates.
    """

    outcome: Outcome
    gain: PairedGain | FoldGain = field(repr=False)  # of the outcome, larger being better
    level: float

    @property
    def bounds(self) -> tuple[float, float] | None:
        """A lower and an upper bound of the gain, each with this level; None if there is none."""
        return Judged(gain=self.gain, level=self.level).bounds

    @property
    def verdict(self) -> Harm:
        """Harmed if the harm clearly exceeds the margin, harmless if it clearly does not."""
        outcome, gain = self.outcome, self.gain
        shares = outcome.relative and isinstance(gain, PairedGain) and gain.reference != 0
        found = verdict_on(
            RelativeGain(gain) if shares else gain,  # type: ignore[arg-type]
            level=self.level,
            above=-(outcome.margin if shares else outcome.tolerated(gain.reference)),
        )
        return _HARM.get(found.word, "not shown to be harmless")

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, ready for JSON; changes are those of the column."""
        sign = -1.0 if self.outcome.less_is_better else 1.0
        ends = None if self.bounds is None else sorted(sign * end for end in self.bounds)
        return {
            "outcome": self.outcome.column,
            "rule": self.outcome.rule,
            "margin": plain(self.outcome.tolerated(self.gain.reference)),
            "baseline": plain(sign * self.gain.reference),
            "change": plain(sign * self.gain.value),
            "low": None if ends is None or not isfinite(ends[0]) else ends[0],
            "high": None if ends is None or not isfinite(ends[1]) else ends[1],
            "level": self.level,
            "verdict": self.verdict,
        }


def as_outcomes(
    guardrails: Sequence[str], margins: Mapping[str, float | str] | None
) -> tuple[Outcome, ...]:
    """Return the outcomes of ``["returns", "-latency"]`` and ``{"returns": "2%"}``.

    >>> [each.rule for each in as_outcomes(["visits", "-latency"], {"latency": "2%"})]
    ['visits must not fall', 'latency must not rise by more than 2 %']
    """
    if isinstance(guardrails, str):
        guardrails = [guardrails]
    given = {name.removeprefix("-"): margin for name, margin in (margins or {}).items()}
    found = []
    for name in guardrails:
        column = name.removeprefix("-")
        amount, relative = _margin(column, given.pop(column, 0.0))
        less = name.startswith("-")
        found.append(Outcome(column=column, less_is_better=less, margin=amount, relative=relative))
    if given or len({each.column for each in found}) < len(found):
        raise PolicyError(
            f"Margins are of guardrails, and each guardrail is named once. Got the guardrails "
            f"{', '.join(guardrails) or 'none'}, and margins also of {', '.join(given) or 'none'}.",
            argument="margin" if given else "guardrail",
        )
    return tuple(found)


def _margin(column: str, given: float | str) -> tuple[float, bool]:
    text = str(given).strip()
    try:
        amount = float(text.removesuffix("%"))
    except ValueError:
        amount = -1.0
    if not 0 <= amount < float("inf"):
        raise PolicyError(
            f"The margin of {column} must be an amount such as 0.5, or a share such as 2%. Got "
            f"{given!r} instead.",
            argument="margin",
        )
    return (amount / 100, True) if text.endswith("%") else (amount, False)
