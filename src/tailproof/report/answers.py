"""Results as text and tables, the same in the terminal, the report and the notebook."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from tailproof.errors import LevelError, MethodError
from tailproof.log.spaces import Discrete
from tailproof.report.text import ResultTable, count, method_text, number, percent, signed, table
from tailproof.robust.intervals import Bound, Interval
from tailproof.robust.tails import TailIndex

if TYPE_CHECKING:
    from tailproof.doors.compare import Candidate, Comparison
    from tailproof.doors.diagnose import Diagnosis
    from tailproof.doors.estimate import Estimate
    from tailproof.doors.learned import ConstantAction, Learned

_SURELY = 1 - 1e-9  # share of the rows in which a constant takes its action


@dataclass(frozen=True)
class Answer:
    """An estimate with its intervals and bounds at one level."""

    estimate: Estimate
    level: float = 0.9

    @cached_property
    def offers(self) -> dict[str, Interval | Bound | str]:
        """Every interval and bound of the value by name, or the reason why it does not exist."""
        estimate = self.estimate
        offers = {
            "interval": self._asked(estimate.interval),
            "lower bound": self._asked(estimate.lower_bound),
        }
        if estimate.choice is None:
            offers |= {
                "fold t": self._asked(lambda level: estimate.interval(level, kind="t")),
                "fold t, lower": self._asked(lambda level: estimate.lower_bound(level, kind="t")),
            }
        return offers

    @property
    def interval(self) -> Interval | None:
        """The interval of the value; None if there is no valid one (also in the properties below)."""
        found = self.offers["interval"]
        return found if isinstance(found, Interval) else None

    @property
    def bound(self) -> Bound | None:
        """The lower bound of the value."""
        found = self.offers["lower bound"]
        return found if isinstance(found, Bound) else None

    @cached_property
    def gain_interval(self) -> Interval | None:
        """The interval of the gain over the logged policy."""
        found = self._asked(self.estimate.gain.interval)
        return found if isinstance(found, Interval) else None

    @cached_property
    def gain_bound(self) -> Bound | None:
        """The lower bound of the gain over the logged policy."""
        found = self._asked(self.estimate.gain.lower_bound)
        return found if isinstance(found, Bound) else None

    def _asked(self, ask: Callable[[float], Interval | Bound]) -> Interval | Bound | str:
        try:
            return ask(self.level)
        except LevelError as error:
            return str(error)

    def first_line(self) -> str:
        """Return the value with its unit, the logged policy's value, and the gain with its interval."""
        estimate = self.estimate
        return (
            f"{number(estimate.value)} {estimate.unit}; logged {number(estimate.logged_value)}; "
            f"gain {self.gain()}, {self.gain_ends()}"
        )

    def gain(self) -> str:
        """Return the gain, also as a share of the logged policy's value."""
        return with_share(self.estimate.gain.value, self.estimate.gain.relative)

    def gain_ends(self) -> str:
        """Return the interval of the gain, as text."""
        found = self.gain_interval
        if found is None:
            return "without an interval"
        return f"{percent(found.level)} interval {signed(found.low)} to {signed(found.high)}"

    def value_ends(self) -> str:
        """Return the interval and the lower bound of the value, as text."""
        found = [ends_text(each) for each in (self.interval, self.bound) if each is not None]
        return f"value {', '.join(found)}" if found else ""

    def caveats(self) -> tuple[str, ...]:
        """Return why there is no interval, or the assumptions of intervals and bounds."""
        value, bound = self.offers["interval"], self.offers["lower bound"]
        if isinstance(value, str):
            return (value,)
        rests = {"Interval of the value": value.note}
        note = bound if isinstance(bound, str) else bound.note
        if note != value.note:
            rests["Its lower bound"] = note.removeprefix(value.note).removeprefix("; ")
        if self.gain_interval is not None and self.gain_interval.note != value.note:
            rests["Interval of the gain"] = self.gain_interval.note
        return tuple(f"{what}: {why}" for what, why in rests.items())

    def how(self) -> str:
        """Return a short text about how the estimate was computed."""
        chosen = self.estimate.choice
        if chosen is None:
            return method_text(self.estimate.method)
        said = f"{chosen.estimator} over {count(chosen.units, chosen.unit)}"
        return f"{said}, chosen by the log" if chosen.alternatives else said


def estimate_text(estimate: Estimate) -> str:
    """Return an estimate as plain text: the first lines of the command line, and the method."""
    found = Answer(estimate)
    try:
        said = [found.first_line(), str(estimate.on_log)]
    except MethodError:  # it was stored without the log
        said = [f"{number(estimate.value)} {estimate.unit}"]
    by = f"by {found.how()}; {count(estimate.n_episodes, 'episode')}"
    return "\n".join(each for each in (*said, found.value_ends(), by) if each)


def ends_text(found: Interval | Bound) -> str:
    """Return an interval or a bound with its level, as text."""
    if isinstance(found, Bound):
        return f"above {number(found.value)} ({percent(found.level)} lower bound)"
    return f"{number(found.low)} to {number(found.high)} ({percent(found.level)} interval)"


def with_share(value: float, relative: float) -> str:
    """Return a gain with its relative size in percent, as text.

    >>> with_share(6.27, 0.102), with_share(0.5, math.nan)
    ('+6.27 (+10 %)', '+0.500')
    """
    share = f" ({signed(100 * relative, 2)} %)" if math.isfinite(relative) else ""
    return f"{signed(value)}{share}"


def learned_by(learned: Learned) -> str:
    """Return how a policy was learned, and from how many episodes."""
    from_log = f"from {count(learned.n_episodes, 'episode')}"
    action, space = getattr(learned.method.base, "action", None), learned.action_space
    if isinstance(action, int) and isinstance(space, Discrete):
        return f"Always {space.label(action)}, chosen {from_log}"
    if learned.improves is False:
        return f"The logged behaviour, imitated {from_log}"
    return f"Learned by {method_text(learned.method)} {from_log}"


def learned_verdict(learned: Learned, found: Answer) -> str:
    """Return a sentence on whether a learned policy is better than the logged one."""
    shown = found.gain_bound is not None and found.gain_bound.value > 0
    if learned.improves and learned.judged is None and not shown:
        return f"{learned.advice()} The held-out episodes' own estimate does not show it."
    if learned.improves is not None:
        return learned.advice()
    if shown:
        return f"Yes, better than what was logged with {percent(found.level)} confidence."
    return "No, not shown to be better than what was logged."


def learned_line(learned: Learned, found: Answer | None) -> str:
    """Return the verdict with the value that it is based on.

    All numbers are of the episodes by which `learn` decided (`Learned.judged`), if it did, and
    otherwise of the held-out episodes (`found`).
    """
    if found is None:
        return "Not judged: no episodes were held out from learning."
    unit = found.estimate.unit
    by = f"by {count(found.estimate.n_episodes, 'held-out episode')}"
    if learned.improves and learned.judged is not None:
        judged = learned.judged
        said = f"Its value: {number(judged.value)} {unit}; logged {number(judged.logged_value)}"
    elif learned.improves is False:
        value, by = logged_by(learned, found)
        said = f"The logged value: {number(value)} {unit} {by}"
    else:
        said = f"{by.capitalize()}: {found.first_line()}"
    return f"{learned_verdict(learned, found)} {said}."


def logged_by(learned: Learned, found: Answer) -> tuple[float, str]:
    """Return the logged value, and the episodes that it is of: those that decided, if any did."""
    if learned.judged is not None:
        return learned.judged.logged_value, f"by {count(learned.judged.episodes, 'episode')}"
    held_out = count(found.estimate.n_episodes, "held-out episode")
    return found.estimate.logged_value, f"by {held_out}"


def constant_text(constant: ConstantAction, learned: Learned, found: Answer) -> str:
    """Return the best constant beside the policy, on the same episodes; empty if it says nothing.

    That is where the policy is this constant, or the logged behaviour, which was kept.
    """
    on_log = found.estimate.on_log
    if learned.improves is False or on_log.shares.get(constant.action, 0.0) > _SURELY:
        return ""
    return (
        f"{constant.action} {number(constant.value)} by {count(on_log.rows, 'held-out row')}, where "
        f"this policy has {number(found.estimate.value)}"
    )


def ranking_table(comparison: Comparison) -> ResultTable:
    """Return a table with one row per candidate, and one for the baseline."""

    def low(bound: Bound, text: Callable[[float], str]) -> str:
        return text(bound.value) if math.isfinite(bound.value) else "none"

    rows = [
        (
            each.name,
            number(each.value),
            low(each.lower_bound, number),
            gain_of(each),
            low(each.gain.lower_bound, signed),
            "passes" if each.passes else "",
        )
        for each in comparison.candidates
    ]
    rows.append((comparison.baseline, number(comparison.baseline_value), "", "", "", ""))
    return table(("policy", "value", "above", "gain", "gain above", "gate"), rows)


def comparison_line(comparison: Comparison) -> str:
    """Return the best policy that passes the gate, or else the first, and its gain."""
    shown = comparison.proposed
    return (
        f"{shown.name} {rank_of(comparison)}: {number(shown.value)} {shown.estimate.unit}; "
        f"{comparison.baseline} {number(comparison.baseline_value)}; gain {gain_of(shown)}, "
        f"{gain_bound_of(shown)}; {gate_line(comparison)}"
    )


def rank_of(comparison: Comparison) -> str:
    """Return why the policy of the first line stands there."""
    return "ranks first" if comparison.proposed is comparison.best else "passes the gate"


def comparison_text(comparison: Comparison) -> str:
    """Return the whole comparison as plain text."""
    notes = (f"- {note}" for note in comparison_notes(comparison))
    return "\n".join([comparison_line(comparison), *ranking_table(comparison).lines(), *notes])


def gate_line(comparison: Comparison) -> str:
    """Return a sentence about the policies that pass the gate, and one above them that does not."""
    passing, best = [each.name for each in comparison.candidates if each.passes], comparison.best
    if not passing:
        return "no policy passes the gate"
    said = f"the gate is passed by {', '.join(passing)}"
    higher = f", and not by {best.name}, whose value is the highest ({number(best.value)})"
    return said if best.passes else f"{said}{higher}"


def gain_of(candidate: Candidate) -> str:
    """Return the gain, also relative to the baseline's value, as text."""
    return with_share(candidate.gain.value, candidate.gain.relative)


def gain_bound_of(candidate: Candidate) -> str:
    """Return the lower bound of the gain, as text."""
    bound = candidate.gain.lower_bound
    if not math.isfinite(bound.value):
        return "without a bound"
    return f"above {signed(bound.value)} with {percent(bound.level)}"


def comparison_notes(comparison: Comparison) -> tuple[str, ...]:
    """Return the levels of the bounds, and other notes on how to read them."""
    best = comparison.best
    levels = (
        f"Bounds of values hold with {percent(best.lower_bound.level)}; those of gains with "
        f"{percent(best.gain.lower_bound.level)}, so that all of them hold at once with "
        f"{percent(comparison.level)}. A bound of the gain above 0 passes the gate."
    )
    likely = (
        f"{best.name} has the highest value; the probability that it is the best of "
        f"{rivals_of(comparison)} is {comparison.probability_best:.2f}."
    )
    bounds = [each.gain.lower_bound for each in comparison.candidates]
    missing = dict.fromkeys(bound.note for bound in bounds if not math.isfinite(bound.value))
    return (*missing, levels, *_limits(comparison), likely, *comparison.notes)


def rivals_of(comparison: Comparison) -> str:
    """Return among whom the best is sought."""
    return f"{count(len(comparison.candidates), 'policy')} and the {comparison.baseline}"


def _limits(comparison: Comparison) -> list[str]:
    """Return what the bound of each candidate's value rests on, once for those that share it."""
    bounds = {each.name: each.lower_bound for each in comparison.candidates}
    found = {name: each.note for name, each in bounds.items() if math.isfinite(each.value)}
    if len(shared := _shared(found)) == 1:
        return [f"Bounds of values: {note}." for note in shared]
    return [f"Bound of {', '.join(names)}: {note}." for note, names in shared.items()]


def comparison_how(comparison: Comparison) -> tuple[str, ...]:
    """Return how the candidates were estimated, once for those that share it."""
    shared = _shared({each.name: Answer(each.estimate).how() for each in comparison.candidates})
    if len(shared) == 1:
        return tuple(f"Estimated by {how}." for how in shared)
    return tuple(f"{', '.join(names)} estimated by {how}." for how, names in shared.items())


def _shared(texts: dict[str, str]) -> dict[str, list[str]]:
    named: dict[str, list[str]] = {}
    for name, text in texts.items():
        named.setdefault(text, []).append(name)
    return named


def tail_table(diagnosis: Diagnosis) -> ResultTable:
    """Return the indices of both tails of each diagnosed quantity, and which moments exist."""

    def index(found: TailIndex) -> str:
        if not found.estimable:
            return "unknown"
        return f"{number(found.alpha, 3)} [{number(found.low, 3)}, {number(found.high, 3)}]"

    return table(
        ("tails of", "left α", "right α", "mean", "variance", "longer"),
        [
            (
                name,
                index(each.left),
                index(each.right),
                each.mean.exists,
                each.variance.exists,
                {"symmetric": "neither"}.get(each.skew, each.skew),
            )
            for name, each in diagnosis.tails.items()
        ],
    )


def influence_sentence(diagnosis: Diagnosis) -> str:
    """Return a sentence on how much the most influential episodes change the estimate."""
    found = diagnosis.influence
    first, noun = found.episodes[0], diagnosis.noun
    other = ", not that of evaluate" if diagnosis.with_policy else ""
    every = ""
    if math.isfinite(found.value_without_all):
        listed = count(len(found.episodes), noun)
        every = f", and without the {listed} below {number(found.value_without_all)}"
    return (
        f"The plain estimate (by {found.estimator}{other}) is {number(found.value)}. Without {noun} "
        f"{first.episode} it would be {number(first.value_without)}{every}."
    )


def influence_table(diagnosis: Diagnosis) -> ResultTable:
    """Return how much each of the most influential episodes changes the estimate."""
    found = diagnosis.influence
    median = f"on the median of {found.folds} folds"
    if all(each.group is None for each in found.episodes):
        rows = [(str(each.episode), each.effect, each.median_effect) for each in found.episodes]
        return table((diagnosis.noun, "effect", median), rows)
    return table(
        (diagnosis.noun, "group", "effect", median),
        [
            (str(each.episode), str(each.group), each.effect, each.median_effect)
            for each in found.episodes
        ],
    )
