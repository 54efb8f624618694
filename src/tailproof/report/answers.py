"""Results as blocks: the sentence and the verdict, one line of numbers, what limits it, the rest."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import TYPE_CHECKING, Any

import numpy as np

from tailproof.doors.decisive import AVERAGE, GAIN, Influence, decisive_units, influence_on_gain
from tailproof.doors.diagnose import CLUSTERED
from tailproof.doors.estimate import or_reason
from tailproof.doors.readable import JudgedRule
from tailproof.doors.verdict import GainVerdict, Judged
from tailproof.errors import LevelError
from tailproof.log.spaces import Discrete
from tailproof.report.blocks import (
    Answer,
    Block,
    Fact,
    Facts,
    Headline,
    Mood,
    Note,
    Points,
    Section,
    Table,
    below_first,
    table,
)
from tailproof.report.decisions import hidden_reason
from tailproof.report.figures import (
    comparison_figure,
    decisive_figure,
    finite,
    fold_figure,
    hill_figure,
    parts_figure,
    pooling_figure,
    returns_figure,
    share_figure,
    survival_figure,
    value_figure,
    weights_figure,
)
from tailproof.report.rule import curve_figure, rule_blocks, rule_figure
from tailproof.report.text import (
    Quantity,
    change_text,
    count,
    method_text,
    number,
    percent,
    signed,
    size_text,
    versions,
)
from tailproof.robust.gains import PairedGain, ValueGain
from tailproof.robust.intervals import Bound, Interval

if TYPE_CHECKING:
    from tailproof.doors.compare import Candidate, Comparison
    from tailproof.doors.curve import TargetingCurve
    from tailproof.doors.diagnose import Diagnosis
    from tailproof.doors.estimate import Estimate
    from tailproof.doors.learned import ConstantAction, Learned
    from tailproof.log.log import Log
    from tailproof.robust.gains import PooledGain
    from tailproof.robust.parts import GainParts, Part
    from tailproof.robust.pooling import PooledPath
    from tailproof.robust.tails import ExtremalIndex, TailIndex

_SETTLES = {
    "yes": ("settles as usual", ""),
    "doubtful": ("may settle slowly", "their variance is in doubt"),
    "no": ("settles slowly", "they have no finite variance"),
}
_SURELY = 1 - 1e-9  # share of the rows in which a constant takes its action
_MOODS: dict[str, Mood] = {"better": "good", "worse": "warn", "cannot tell": "warn"}


def _asked(ask: Callable[[float], Any], level: float) -> Any:
    """Return an interval or a bound, or the reason why there is none."""
    try:
        return ask(level)
    except LevelError as error:
        return str(error)


@dataclass(frozen=True)
class ReadGain:
    """A judged gain as it is read: costs are positive, and less of them is better.

    `level` is the confidence that is stated; that of the judged gain is higher where several gains hold
    together.
    """

    judged: Judged
    quantity: Quantity
    level: float

    @cached_property
    def verdict(self) -> GainVerdict:
        """Whether the policy is better."""
        return self.judged.verdict

    @property
    def change(self) -> float:
        """The gain as it is read."""
        return self.quantity.shown(self.judged.value)

    @property
    def share(self) -> str:
        """The gain relative to the other value, in percent."""
        relative = self.quantity.shown(self.judged.relative)
        return f"{signed(100 * relative, 2)} %" if math.isfinite(relative) else ""

    @cached_property
    def ends(self) -> tuple[float, float] | None:
        """A lower and an upper bound of the change, each with the confidence; None if there is none.

        The verdict follows from them: better or worse where they exclude 0.
        """
        bounds = self.judged.bounds
        return None if bounds is None else self.quantity.ends(*bounds)

    @property
    def nearest(self) -> float:
        """The size of a change that is clearly better or worse: at least this."""
        return 0.0 if self.ends is None else min(map(abs, self.ends))

    def sentence(self, name: str, *, than: str = "what was logged") -> str:
        """Return the sentence that stands alone."""
        quantity, confident = self.quantity, f"{percent(self.level)} confidence"
        if self.verdict.void:
            return unknown(quantity, name)
        if self.change == 0:
            return f"{name} would {quantity.verb} as much per {quantity.per} as {than}."
        about = f"about {quantity.more(self.change)} per {quantity.per} than {than}"
        said = f"{name} would {quantity.verb} {about}"
        if self.verdict.word in ("better", "worse"):
            least = f"at least {quantity.about(self.nearest)}, {confident}"
            return f"{said} ({self.share}; {least})." if self.share else f"{said} ({least})."
        said += f" ({self.share})" if self.share else ""
        if self.ends is None:
            return f"{said}, but how sure that is cannot be told."
        low, high = (quantity.more(end, named=False) for end in self.ends)
        return f"{said}, which may be chance: from {low} to {high}, {confident}."

    def cells(self) -> tuple[str, str, str, str]:
        """Return the change, its bounds and the verdict, for a table."""
        if self.verdict.void:
            return "unknown", "none", "none", str(self.verdict)
        change = f"{signed(self.change)} ({self.share})" if self.share else signed(self.change)
        low, high = ("none", "none") if self.ends is None else map(signed, self.ends)
        return change, low, high, str(self.verdict)

    def totals(self, times: int) -> Note:
        """Return what the gain adds up to over so many rows or episodes."""
        quantity = self.quantity
        if self.verdict.void:
            return Note(f"Over {count(times, quantity.per)}: unknown.")
        said = f"Over {count(times, quantity.per)}: about {quantity.more(times * self.change)}"
        if self.verdict.word in ("better", "worse"):
            return Note(f"{said} (at least {quantity.about(times * self.nearest)}).")
        if self.ends is None:
            return Note(f"{said}.")
        low, high = (quantity.more(times * end, named=False) for end in self.ends)
        return Note(f"{said} ({low} to {high}).")


def interval_text(
    ends: tuple[float, float] | None, level: float, text: Callable[[float], str] = number
) -> str:
    """Return an interval as text."""
    if ends is None:
        return "without an interval"
    return f"{percent(level)} interval {text(ends[0])} to {text(ends[1])}"


def value_facts(
    noun: str, value: str, ends: tuple[float, float] | None, level: float, logged: str
) -> Facts:
    """Return a value with its interval, and the logged one."""
    return Facts((Fact(noun, value, interval_text(ends, level)), Fact("logged", logged)))


def _mood(verdict: GainVerdict) -> Mood:
    return _MOODS.get(verdict.word, "plain")


@dataclass(frozen=True)
class ReadEstimate:
    """An estimate at one level, as it is read."""

    estimate: Estimate
    level: float = 0.9
    sizes_within: float | None = None  # by how much sizes may differ, in a labelled interval

    def _sized(self) -> PooledGain:
        gain = self.estimate.gain
        if not isinstance(gain, PairedGain):
            raise LevelError(
                "Sizes of extremes are pooled by rows, which a method with folds does not score."
            )
        assert self.sizes_within is not None
        return gain.sizes_within(self.sizes_within)

    def sized(self) -> Note:
        """Return the difference if sizes are alike up to a share, labelled, or why there is none."""
        try:
            gain = self._sized()
        except LevelError as error:
            return Note(str(error), "warn")
        judged = Judged(gain=gain, level=self.level, cautions=self.estimate.cautions)
        read = ReadGain(judged, self.quantity, self.level)
        low, high = map(signed, read.ends or (math.nan, math.nan))
        return Note(
            f"If sizes of extremes differ by at most {percent(gain.within)} between the policies: "
            f"{low} to {high}, {percent(self.level)} confidence on each side ({read.verdict})."
        )

    @property
    def parts(self) -> GainParts | None:
        """How often × how large; None where the gain is not split."""
        gain = self.estimate.gain
        return gain.parts if isinstance(gain, PairedGain) else None

    @cached_property
    def quantity(self) -> Quantity:
        """What the value is of."""
        return Quantity.of(self.estimate.unit)

    @cached_property
    def gain(self) -> ReadGain:
        """The gain over the logged policy."""
        estimate = self.estimate
        judged = Judged(gain=estimate.gain, level=self.level, cautions=estimate.cautions)
        return ReadGain(judged, self.quantity, self.level)

    @property
    def value(self) -> float:
        """The value as it is read."""
        return self.quantity.shown(self.estimate.value)

    @property
    def logged_value(self) -> float:
        """The logged policy's value as it is read."""
        return self.quantity.shown(self.estimate.logged_value)

    @cached_property
    def interval(self) -> Interval | str:
        """The interval of the value, or why there is none."""
        return _asked(self.estimate.interval, self.level)  # type: ignore[no-any-return]

    @property
    def ends(self) -> tuple[float, float] | None:
        """The ends of the interval of the value, in reading order."""
        found = self.interval
        return self.quantity.ends(found.low, found.high) if isinstance(found, Interval) else None

    @cached_property
    def logged_ends(self) -> tuple[float, float] | None:
        """The interval of the logged policy's value, for methods that score rows or episodes."""
        chosen = self.estimate.choice
        if chosen is None:
            return None
        found = chosen.logged.interval(self.level)
        return self.quantity.ends(found.low, found.high)

    def how(self) -> str:
        """Return how the estimate was computed, in a few words."""
        chosen = self.estimate.choice
        if chosen is None:
            return method_text(self.estimate.method)
        said = f"{chosen.estimator} over {count(chosen.units, chosen.unit)}"
        return f"{said} (chosen from the log)" if chosen.alternatives else said

    def facts(self) -> Facts:
        """Return the value, the logged value and their difference."""
        unit = f"{self.quantity.unit} per {self.quantity.per}".lstrip()
        estimate = self.estimate.unit
        if estimate.per != "row" and estimate.gamma < 1:
            unit += f", discounted by {estimate.gamma:g} a step"
        value = f"{number(self.value)} {unit}"
        level = self.interval.level if isinstance(self.interval, Interval) else self.level
        return value_facts(self.noun, value, self.ends, level, number(self.logged_value))

    @property
    def noun(self) -> str:
        """What the value is called."""
        return self.quantity.noun

    def intervals(self) -> Table:
        """Return every interval and bound with what it assumes, or why there is none."""
        estimate, level = self.estimate, self.level
        asked: dict[str, tuple[Callable[[float], Any], Callable[[float], Any]]] = {
            "value": (estimate.interval, estimate.lower_bound),
            "difference": (estimate.gain.interval, estimate.gain.lower_bound),
        }
        if self.sizes_within is not None:
            label = f"difference, sizes within {percent(self.sizes_within)}"
            sized = self._sized
            asked[label] = (lambda x: sized().interval(x), lambda x: sized().lower_bound(x))
        if estimate.choice is None and estimate.folds.declined is None:
            asked["value, by Student's t"] = (
                lambda x: estimate.interval(x, kind="t"),
                lambda x: estimate.lower_bound(x, kind="t"),
            )
        rows: list[tuple[Any, ...]] = []
        for name, (interval, bound) in asked.items():
            found, least = _asked(interval, level), _asked(bound, level)
            ends: list[Any] = [None, None]
            notes = found if isinstance(found, str) else read_note(found.note, self.quantity)
            if isinstance(found, Interval):
                ends = finite(*self.quantity.ends(found.low, found.high))
            one_sided = None
            if isinstance(least, Bound):
                (one_sided,) = finite(self.quantity.shown(least.value))
                if isinstance(found, str):
                    notes = f"{notes} The bound: {least.note}"
            rows.append((name, *ends, one_sided, notes))
        least_or_most = "at most" if self.quantity.is_cost else "at least"
        return table(
            ("of", "from", "to", least_or_most, "what it assumes, or why there is none"),
            rows,
            caption=f"{percent(level)} confidence for the interval, and for the bound on one side",
        )


def read_note(note: str, quantity: Quantity) -> str:
    """Return what limits an interval as it is read: the lower tail of rewards is the upper of costs."""
    if not quantity.is_cost:
        return note
    other = {"lower": "upper", "upper": "lower"}
    return re.sub(r"\b(lower|upper)\b", lambda found: other[found[0]], note)


def estimate_answer(
    estimate: Estimate,
    *,
    name: str = "The policy",
    level: float = 0.9,
    times: int | None = None,
    sizes_within: float | None = None,
) -> Answer:
    """Return the blocks of an estimate; `sizes_within` adds the interval that assumes alike sizes."""
    read = ReadEstimate(estimate, level, sizes_within)
    gain = read.gain
    headline = Headline(gain.sentence(name), str(gain.verdict), _mood(gain.verdict))
    blocks: list[Block | Section] = [headline, read.facts()]
    if gain.verdict.void:
        sections = [method_section(read)]
        reasons = tuple(dict.fromkeys(_title(str(each)) for each in gain.verdict.cautions))
        return (headline, Points(reasons), *sections)
    if read.parts is not None:
        blocks.append(Note(parts_text(read.parts, level)))
    if limit := limits_most(read):
        blocks.append(Note(limit))
    if said := clip_text(read):
        blocks.append(Note(said))
    if sizes_within is not None:
        blocks.append(read.sized())
    if said := hidden_reason(estimate, level):
        blocks.append(Note(said))
    if times is not None:
        blocks.append(gain.totals(times))
    blocks.append(value_figure(read, name))
    decisive = decisive_section(influence_on_gain(estimate), read.quantity)
    sections = [each for each in (parts_section(read), decisive) if each]
    return (*blocks, *sections, method_section(read))


def parts_text(parts: GainParts, level: float) -> str:
    """Return how often × how large in one sentence."""

    def change(part: Part) -> str:
        found = part.relative_interval(level)
        value, low, high = map(change_text, (part.relative, found.low, found.high))
        return f"{value} ({low} to {high})"

    return (
        f"How often: events per row {change(parts.often)}; how large: size per event "
        f"{change(parts.size)}, {percent(level)} intervals."
    )


def parts_section(read: ReadEstimate) -> Section | None:
    """Return how often × how large, and where the sign would change; None if there are no parts."""
    parts = read.parts
    if parts is None:
        return None
    found, tipping = parts.tipping_interval(read.level), parts.tipping_point
    low, high = change_text(found.low), change_text(found.high)
    which = f"{abs(100 * tipping):.0f} % {'smaller' if tipping < 0 else 'larger'} than"
    which = which if round(100 * tipping) else "as large as"
    said = (
        f"The difference would be 0 if events under the policy were {which} in the log ({low} to "
        f"{high})."
    )
    blocks = (Note(said), parts_figure(read, parts))
    return Section("parts", "How often × how large", blocks, "Parts")


def unknown(quantity: Quantity, name: str) -> str:
    """Return the sentence of an answer that a caution voids."""
    name = f"the {name[4:]}" if name.startswith("The ") else name
    what = f"{quantity.name} {name} would have" if quantity.verb == "have" else ""
    return f"This log cannot tell how much {what or f'{name} would {quantity.verb}'}."


_DECIDES = 0.1  # least share of a difference that one row makes up, to be mentioned


def limits_most(read: ReadEstimate) -> str:
    """Return what limits the answer most, in one sentence; empty if nothing stands out."""
    estimate, quantity = read.estimate, read.quantity
    if isinstance(read.interval, str):
        return read.interval
    first = next(iter(decisive_units(estimate, top=1)), None)
    if first is not None and abs(first.effect) >= _DECIDES * abs(estimate.gain.value) > 0:
        share = first.effect / estimate.gain.value
        what = (
            f"decides {percent(share, 2)} of this"
            if 0 < share <= 1
            else f"changes this by {signed(quantity.shown(first.effect))}"
        )
        size = f"{read.noun} {quantity.amount(quantity.shown(first.reward), 4)}"
        name = _title(first.name)
        name = f"{name[:-1]}, {size})" if name.endswith(")") else f"{name} ({size})"
        without = signed(quantity.shown(first.without))
        return f"{name} alone {what}; without it about {without}."
    acts = estimate.on_log
    if math.isnan(acts.effective_rows):
        return ""
    return (
        f"This rests on {number(acts.effective_rows, 3)} of {count(acts.rows, 'row')} (effective "
        f"rows): the others say little about this policy."
    )


def clip_level(clip: str | float) -> str:
    """Return at which quantile rewards were capped, in words."""
    return f"percentile {clip[1:]}" if isinstance(clip, str) else f"{percent(clip)} of either side"


def clip_text(read: ReadEstimate) -> str:
    """Return what capping the rewards before the estimate did; empty if it was not asked for."""
    clip, task = read.estimate.method.clip, read.estimate.task
    if not clip:
        return ""
    at = clip_level(clip)
    what = "Costs" if read.quantity.is_cost else "Rewards"
    said = f"{what} were capped at {at} before all else: this is about capped {what.lower()}"
    if task is None or not len(rewards := read.quantity.shown(1.0) * task.log.rewards):
        return f"{said}."
    low, high = float(np.min(rewards)), float(np.max(rewards))
    return f"{said}, which lie between {number(low)} and {read.quantity.amount(high, 4)}."


def decisive_section(found: Influence | None, quantity: Quantity) -> Section | None:
    """Return the rows, episodes or groups that decide a number; None if nothing is known of them."""
    if found is None or not found.units:
        return None
    units = found.units
    noun = next((each.noun for each in units if each.noun != "row"), "row")
    title = f"Which {noun}s decide"
    figure = decisive_figure(found, quantity, noun)
    return Section("influence", title, (Note(without_text(found, quantity)), figure), "Influence")


def without_text(found: Influence, quantity: Quantity) -> str:
    """Return what a number would be without the units that decide it, in a sentence."""
    text = number if found.of == AVERAGE else signed
    value, without = (text(quantity.shown(each)) for each in (found.value, found.units[0].without))
    said = (
        f"Without {found.units[0].name} the {found.of} would be about {without} instead of {value}"
    )
    if len(found.units) > 1 and math.isfinite(found.value_without_all):
        rest = text(quantity.shown(found.value_without_all))
        said += f", and without the {len(found.units)} with the largest effects {rest}"
    return f"{said}."


def _title(text: str) -> str:
    return f"{text[0].upper()}{text[1:]}"


def method_section(read: ReadEstimate) -> Section:
    """Return how an estimate was computed: actions, method, intervals and their assumptions."""
    estimate = read.estimate
    rows = size_text(estimate.n_transitions, estimate.n_episodes, " in ")
    blocks: list[Block] = []
    if str(estimate.on_log):
        blocks.append(Note(f"What the policy does: {estimate.on_log}."))
    every = estimate.choice is not None and estimate.choice.units == estimate.n_transitions
    blocks.append(Note(f"Estimated by {read.how()}{'' if every else f', from {rows}'}."))
    if estimate.choice is not None and estimate.choice.reasons:
        blocks.append(Points(estimate.choice.reasons))
    blocks.append(read.intervals())
    if estimate.bad_folds:
        named = ", ".join(map(str, estimate.bad_folds))
        blocks.append(Note(f"Folds that diverged and were left out: {named}.", "warn"))
    if len(estimate.fold_values) > 1:
        blocks.append(fold_figure(read))
    if (chosen := estimate.choice) is not None and chosen.alternatives:
        others = [(f"chosen: {chosen.estimator}", chosen.value), *chosen.alternatives.items()]
        shown = [(each, read.quantity.shown(value)) for each, value in others]
        blocks.append(table(("mean of the same weighted rewards", "estimate"), shown))
    return Section("method", "How this was computed", tuple(blocks), "Method")


@dataclass(frozen=True, kw_only=True)
class DecidedGain(ValueGain):
    """The gain by which `learn` decided: a value and a bound at one level."""

    bound: float
    level: float

    def interval(self, level: float = 0.9) -> Interval:
        """Return the bound as an interval without an upper end."""
        return Interval(
            low=self.bound, high=math.inf, level=level, requested=level, kind="decision", note=""
        )

    def lower_bound(self, level: float = 0.9) -> Bound:  # noqa: ARG002
        """Return the bound, at the level of the decision."""
        return Bound(
            value=self.bound, level=self.level, requested=self.level, kind="decision", note=""
        )


def learned_by(learned: Learned) -> str:
    """Return how a policy was learned, and from how many episodes."""
    per = "row" if learned.n_transitions == learned.n_episodes else "episode"
    from_log = f"from {count(learned.n_episodes, per)}"
    action, space = getattr(learned.method.base, "action", None), learned.action_space
    if isinstance(action, int) and isinstance(space, Discrete):
        return f"Always {space.label(action)}, chosen {from_log}."
    if learned.improves is False:
        return f"The logged behaviour, imitated {from_log}."
    name = type(learned.method.base).__name__
    words = re.findall("[A-Z][a-z]+", name)
    said = method_text(learned.method)
    if "".join(words) == name:  # PolicyScores; no abbreviation, such as FQI
        said = said.replace(name, " ".join(words).lower(), 1)
    return f"Learned by {said} {from_log}."


def learned_answer(
    learned: Learned,
    held_out: Estimate | None = None,
    *,
    level: float = 0.9,
    times: int | None = None,
    constant: ConstantAction | None = None,
    played: str = "",
    rule: JudgedRule | None = None,
    curve: TargetingCurve | None = None,
) -> Answer:
    """Return the blocks of a learned policy.

    Parameters
    ----------
    learned
        The policy.
    held_out
        Its estimate from the episodes that were held out; None if there is none at hand.
    level
        Confidence of intervals.
    times
        Rows or episodes over which the gain is added up.
    constant
        The best single action on the same episodes.
    played
        What it earned in an environment, as a sentence.
    rule
        Its rule, or the tree closest to it, judged; by default its rule, with nothing known of it.
    curve
        The gain against the share of rows that get an action.
    """
    read = None if held_out is None else ReadEstimate(held_out, level)
    if rule is None and learned.has_rule:
        rule = JudgedRule.unjudged(learned.rule)
    blocks: list[Block] = list(_learned_blocks(learned, read, times))
    if learned.past is not None:
        blocks.append(Note(str(learned.past)))
    if played:
        blocks.append(Note(played))
    if learned.method.clip:
        reward = "reward" if learned.held_out is None else learned.held_out.reward_name
        what = "Costs" if Quantity.named(reward, per="row").is_cost else "Rewards"
        at = clip_level(learned.method.clip)
        blocks.append(Note(f"{what} were capped at {at} to learn it; it is judged without a cap."))
    how: list[Block] = [Note(learned_by(learned))]
    if rule is not None:
        reward = "reward" if learned.held_out is None else learned.held_out.reward_name
        picture = rule_figure(rule, Quantity.named(reward, per="row"))
        blocks += rule_blocks(rule, picture)
        how.append(picture)
    if curve is not None:
        how.append(curve_figure(curve))
    if read is not None and constant is not None:
        said = constant_text(constant, learned, read)
        how += [Note(said)] if said else []
    if learned.reasons:
        how.append(Points(learned.reasons))
    if read is None:
        shown = how[1:] if learned.improves is None else how  # the first line is above already
        return (
            *blocks,
            *([Section("policy", "What it learned", tuple(shown), "Policy")] if shown else []),
        )
    logged = _logged_shares(learned)
    if logged:
        shares = read.estimate.on_log.shares
        how.append(share_figure({name: (shares[name], logged[name]) for name in shares}))
    method = method_section(read)
    if learned.improves is not None:
        held = count(read.estimate.n_episodes, f"held-out {read.quantity.per}")
        again = Note(f"This evaluates the policy again, on {held} alone.", "soft")
        method = replace(method, blocks=(again, *method.blocks))
    return (
        *blocks,
        *([value_figure(read, "learned policy")] if learned.improves is None else []),
        Section("policy", "What it learned", tuple(how), "Policy"),
        method,
    )


def _learned_blocks(
    learned: Learned, read: ReadEstimate | None, times: int | None
) -> Iterable[Block]:
    """Yield the headline and the numbers: those of the decision, if `learn` made one."""
    judged, log = learned.judged, learned.held_out
    per = "row" if learned.n_transitions == learned.n_episodes else "episode"
    quantity = Quantity.named("reward" if log is None else log.reward_name, per=per)
    if read is not None:
        quantity = read.quantity
    name = "The learned policy"
    if learned.improves is False:
        yield Headline(
            "Nothing learned is shown to be better than what was logged, which is kept.",
            "no difference shown",
        )
        if judged is not None:
            logged = quantity.amount(quantity.shown(judged.logged_value), 4)
            judges = f"per {quantity.per}, by {count(judged.episodes, quantity.per)}"
            yield Facts((Fact(f"logged {quantity.noun}", logged, judges),))
    elif learned.improves and judged is not None:
        gain = DecidedGain(
            value=judged.gain,
            reference=judged.logged_value,
            bound=judged.bound,
            level=judged.level,
        )
        found = ReadGain(Judged(gain=gain, level=judged.level), quantity, judged.level)
        yield Headline(found.sentence(name), str(found.verdict), _mood(found.verdict))
        ends = None
        if judged.low is not None and judged.high is not None:
            ends = quantity.ends(judged.low, judged.high)
        value, logged = (
            number(quantity.shown(each)) for each in (judged.value, judged.logged_value)
        )
        unit = f"{quantity.unit} per {quantity.per}".lstrip()
        yield value_facts(quantity.noun, f"{value} {unit}", ends, judged.level, logged)
        judges = count(judged.episodes, quantity.per)
        yield Note(f"Judged by {judges} from which it was not learned.", "soft")
        if times is not None:
            yield found.totals(times)
    elif learned.improves:
        yield Headline(
            "The learned policy is better than imitating what was logged.", "better", "good"
        )
        if read is not None:
            yield read.facts()
            if read.gain.verdict.word != "better":
                yield Note(
                    f"The held-out episodes alone do not show it: {read.gain.sentence('it')}"
                )
    elif read is None:
        yield Headline("The policy is learned and not tested: no episodes were held out.")
        yield Note(learned_by(learned))
    else:
        found = read.gain
        yield Headline(found.sentence(name), str(found.verdict), _mood(found.verdict))
        yield read.facts()
        held_out = count(read.estimate.n_episodes, f"held-out {quantity.per}")
        yield Note(f"Judged by {held_out}, from which it was not learned.", "soft")
        if times is not None:
            yield found.totals(times)


def constant_text(constant: ConstantAction, learned: Learned, read: ReadEstimate) -> str:
    """Return the best constant beside the policy, on the same episodes; empty if it says nothing.

    That is where the policy is this constant, or the logged behaviour, which was kept.
    """
    on_log, shown = read.estimate.on_log, read.quantity.shown
    if learned.improves is False or on_log.shares.get(constant.action, 0.0) > _SURELY:
        return ""
    return (
        f"On {count(on_log.rows, 'held-out row')} alone, the best single action, {constant.action}, "
        f"has {number(shown(constant.value))}, and this policy {number(read.value)}."
    )


def _logged_shares(learned: Learned) -> dict[str, float]:

    log, space = learned.held_out, learned.action_space
    if log is None or not isinstance(space, Discrete):
        return {}
    shares = log.action_counts / log.n_transitions
    return {space.label(action): float(share) for action, share in enumerate(shares)}


def read_candidate(candidate: Candidate, comparison: Comparison) -> ReadGain:
    """Return a candidate's gain over the baseline, as it is read; all gains hold together."""
    return ReadGain(candidate.gain, Quantity.of(candidate.estimate.unit), comparison.level)


def comparison_title(comparison: Comparison) -> str:
    """Return the question that a comparison answers."""
    if len(comparison.candidates) == 1:
        return f"Is {comparison.best.name} better than {_baseline(comparison)}?"
    return f"Which of {len(comparison.candidates)} policies is best?"


def _baseline(comparison: Comparison) -> str:
    return (
        f"the {comparison.baseline}" if comparison.baseline_rival is None else comparison.baseline
    )


def comparison_answer(
    comparison: Comparison, *, times: int | None = None, pairs: bool = False
) -> Answer:
    """Return the blocks of a comparison; with `pairs` also the difference of any two policies."""
    shown, best = comparison.proposed, comparison.best
    gain = read_candidate(shown, comparison)
    than, verdict = _baseline(comparison), comparison.verdict
    blocks: list[Block] = [
        Headline(gain.sentence(shown.name, than=than), str(verdict), _mood(verdict)),
        ranking_table(comparison),
    ]
    if shown is not best and not best.verdict.void:
        but = f"it is not shown to be better than {than}"
        but = f"it harms {' and '.join(best.harmed)}" if best.harmed else but
        blocks.append(Note(f"The value of {best.name} is higher, but {but}."))
    if said := clip_text(ReadEstimate(shown.estimate, comparison.level)):
        blocks.append(Note(said))
    if times is not None:
        blocks.append(gain.totals(times))
    said = hidden_reason(shown.estimate, comparison.gate_level)
    if said and comparison.baseline_rival is None:
        blocks.append(Note(said))
    if comparison.notes:
        blocks.append(Points(comparison.notes))
    if pairs:
        blocks.append(pairs_table(comparison))
    blocks.append(comparison_figure(comparison))
    return (*blocks, *_comparison_sections(comparison))


def ranking_table(comparison: Comparison) -> Table:
    """Return one row per candidate and one for the baseline, by value, with the verdicts."""
    quantity = Quantity.of(comparison.best.estimate.unit)
    base = comparison.baseline_value
    rows = [
        (each.value, each.name, *read_candidate(each, comparison).cells()[:3], str(each.verdict))
        for each in comparison.candidates
    ]
    void = {each.name for each in comparison.candidates if each.gain.verdict.void}
    rows.append((base, comparison.baseline, "", "", "", ""))
    return table(
        ("policy", "value", "difference", "at least", "at most", "verdict"),
        [
            (name, "unknown" if name in void else number(quantity.shown(value)), *rest)
            for value, name, *rest in sorted(rows, key=lambda row: -row[0])
        ],
        caption=f"{quantity.title}; bounds of all differences hold together with "
        f"{percent(comparison.level)} confidence on each side",
    )


def pairs_table(comparison: Comparison) -> Table:
    """Return the difference of any two candidates, with bounds that hold together."""
    return table(
        ("pair", "difference", "at least", "at most", "verdict"),
        [
            (f"{first} − {second}", *found.cells())
            for (first, second), found in pair_gains(comparison).items()
        ],
        caption=f"Any two of {count(len(comparison.candidates), 'policy')}; the bounds hold together "
        f"with {percent(comparison.level)} confidence on each side",
    )


def pair_gains(comparison: Comparison) -> dict[tuple[str, str], ReadGain]:
    """Return the gain of any two candidates, the higher first, as it is read."""
    pairs = list(combinations([each.name for each in comparison.candidates], 2))
    own = 1 - (1 - comparison.level) / max(len(pairs), 1)
    quantity = Quantity.of(comparison.best.estimate.unit)
    found = {}
    for first, second in pairs:
        pair = replace(comparison.difference(first, second), level=own)
        found[first, second] = ReadGain(pair, quantity, comparison.level)
    return found


def pair_records(comparison: Comparison) -> list[dict[str, object]]:
    """Return the difference of any two candidates for JSON, in units of the reward."""
    return [
        {
            "first": first,
            "second": second,
            "difference": found.judged.value,
            "interval": or_reason(found.judged.interval, found.judged.level),
            **found.verdict.to_dict(),
        }
        for (first, second), found in pair_gains(comparison).items()
    ]


def probability_text(comparison: Comparison) -> str:
    """Return the probability that the candidate with the highest value is best, in a sentence."""
    policies, base = len(comparison.candidates), comparison.baseline
    what = f"the best of {count(policies, 'policy')} and the {base}"
    what = f"better than the {base}" if policies == 1 else what
    probability = comparison.probability_best
    said = "above 0.99" if probability > 0.99 else f"{probability:.2f}"
    scores = "" if comparison.has_folds else ", if errors were normal (the bounds do not assume it)"
    return f"The probability that {comparison.best.name} is {what} is {said}{scores}."


def _comparison_sections(comparison: Comparison) -> Iterable[Section]:
    gate = percent(comparison.gate_level)
    blocks: list[Block] = [
        Note(
            f"Each difference has {gate} confidence, so that all hold together with "
            f"{percent(comparison.level)}. A policy is better where a lower bound of its difference "
            f"is above 0 ({gate}, one side)."
        )
    ]
    if math.isfinite(comparison.probability_best):
        blocks.append(Note(probability_text(comparison)))
    read = {
        each.name: ReadEstimate(each.estimate, comparison.level) for each in comparison.candidates
    }
    for how, names in _shared({name: each.how() for name, each in read.items()}).items():
        who = "" if len(read) == len(names) else f"{', '.join(names)} "
        blocks.append(Note(f"{who}Estimated by {how}." if not who else f"{who}estimated by {how}."))
    rows = []
    for name, each in read.items():
        ends = each.ends or (math.nan, math.nan)
        known = each.interval
        why = known if isinstance(known, str) else read_note(known.note, each.quantity)
        rows.append((name, each.value, *finite(*ends), why))
    blocks.append(table(("policy", "value", "from", "to", "what the interval assumes"), rows))
    yield Section("method", "How this was computed", tuple(blocks), "Method")
    if comparison.has_folds:
        yield _folds_section(comparison)


def _shared(texts: Mapping[str, str]) -> dict[str, list[str]]:
    """Return the names that share each text."""
    named: dict[str, list[str]] = {}
    for name, text in texts.items():
        named.setdefault(text, []).append(name)
    return named


def _folds_section(comparison: Comparison) -> Section:
    names = [each.name for each in comparison.candidates]
    folds = np.stack(
        [
            *(each.estimate.folds.all_folds for each in comparison.candidates),
            comparison.baseline_folds,
        ],
        axis=1,
    )
    rows = [(k, *finite(*values)) for k, values in enumerate(folds)]
    shown = table(("fold", *names, comparison.baseline), rows)
    return Section("folds", "Every fold of every policy", (shown,), folded=True)


def diagnosis_answer(diagnosis: Diagnosis) -> Answer:
    """Return the blocks of a diagnosis."""
    verdict = diagnosis.verdict
    quantity = Quantity.named(diagnosis.reward, per=diagnosis.noun)
    average = quantity.amount(quantity.shown(diagnosis.average), 4)
    facts = [
        Fact("rows", f"{diagnosis.transitions:,}", _units(diagnosis)),
        Fact(f"average {quantity.noun}", average, f"per {diagnosis.noun}"),
        Fact("an average of these rewards", *_SETTLES[diagnosis.tails["rewards"].variance.exists]),
    ]
    heavy = verdict.tails != "light"
    cautions = tuple(Note(each, "warn") for each in verdict.cautions)
    blocks: list[Block | Section] = [
        Headline(verdict.summary, mood="warn" if heavy else "good"),
        Facts(tuple(facts)),
    ]
    if decisive := decisive_section(diagnosis.influence, quantity):
        blocks.append(decisive.blocks[0])
        decisive = replace(decisive, blocks=decisive.blocks[1:])
    log = log_section(diagnosis, cautions)
    tails = Section("tails", "How heavy the tails are", (tail_table(diagnosis),), "Tails")
    blocks += [*cautions, *(each for each in (log, tails, decisive) if each is not None)]
    if diagnosis.pooling is not None and len(diagnosis.pooling.gains) > 1:
        known = diagnosis.influence.value if diagnosis.influence.of == GAIN else None
        blocks.append(pooling_section(diagnosis.pooling, known))
    return tuple(blocks)


def pooling_section(path: PooledPath, gain: float | None) -> Section:
    """Return the gain against the size at which pooling begins."""
    begins = f"at about {number(path.begins)}" if math.isfinite(path.begins) else "nowhere"
    said = (
        f"The gain over what was logged is {signed(path.plain)} if every size counts as it is, and "
        f"{signed(float(path.gains[0]))} if only how often extremes come counts. Their average by "
        f"risk is {signed(path.gain)}, {percent(path.shares[-1])} of it with every size as it is; "
        f"pooling begins {begins}."
    )
    if gain is not None and signed(gain) != signed(path.gain):
        said += f" The answer, {signed(gain)}, is averaged with that by marginal weights too."
    blocks = (Note(said), pooling_figure(path))
    return Section("pooling", "Where sizes of extremes are pooled", blocks, "Pooling")


def _units(diagnosis: Diagnosis) -> str:
    """Return what is counted as independent, where that is not the row; empty otherwise."""
    verdict = diagnosis.verdict
    return "" if verdict.units == diagnosis.transitions else count(verdict.units, verdict.unit)


def log_section(diagnosis: Diagnosis, answer: Answer = ()) -> Section | None:
    """Return what the log shows beyond what an answer says already, and how to improve it."""
    verdict, said = diagnosis.verdict, set(sentences_of(answer))
    reasons = tuple(each for each in verdict.reasons if each not in said)
    blocks: list[Block] = [Points(reasons)] if reasons else []
    if verdict.improvements:
        blocks += [Note("What would make the answer better:"), Points(verdict.improvements)]
    return Section("log", "What the log shows", tuple(blocks), "The log") if blocks else None


def sentences_of(answer: Iterable[Block | Section]) -> Iterable[str]:
    """Yield the sentences of headlines, notes and points, also those in sections."""
    for each in answer:
        if isinstance(each, Section):
            yield from sentences_of(each.blocks)
        elif isinstance(each, Points):
            yield from each.sentences
        elif isinstance(each, Headline | Note):
            yield each.text


def tail_table(diagnosis: Diagnosis) -> Table:
    """Return the indices of both tails of each diagnosed quantity, and which moments exist."""

    def index(found: TailIndex) -> str:
        if not found.estimable:
            return "unknown"
        return f"{number(found.alpha, 3)} ({number(found.low, 3)} to {number(found.high, 3)})"

    return table(
        ("tails of", "left index", "right index", "mean", "variance", "longer"),
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


def evidence(log: Log, diagnosis: Diagnosis) -> tuple[Section, ...]:
    """Return the folded sections that every report of a log has; weights do not repeat its rows."""
    log = log.once
    found = (
        _tails(log, diagnosis),
        _weights(diagnosis),
        _returns(log, diagnosis),
    )
    return tuple(replace(each, folded=True) for each in found if each is not None)


def _tails(log: Log, diagnosis: Diagnosis) -> Section:
    report = diagnosis.tails["rewards"]
    indices = {"right": report.right, "left": report.left}
    paths = [path for path in (report.right_path, report.left_path) if path is not None]
    every = [
        (
            each.name,
            tail.side,
            *((tail.alpha, tail.low, tail.high, tail.k) if tail.estimable else (None,) * 4),
        )
        for each in diagnosis.tails.values()
        for tail in (each.left, each.right)
    ]
    blocks: list[Block] = [tail_table(diagnosis)]
    if said := clusters_text(diagnosis.clustering):
        blocks.append(Note(said))
    if paths:
        blocks.append(hill_figure(paths, indices))
    blocks.append(survival_figure(log.rewards, (report.right, report.left), what=log.reward_name))
    blocks.append(
        table(
            ("of", "tail", "index", "from", "to", "extremes"),
            every,
            caption="Moments of an order below the index exist.",
            digits=3,
            folded="Every tail",
        )
    )
    return Section("tail-evidence", "How heavy the tails are", tuple(blocks))


def clusters_text(found: ExtremalIndex | None) -> str:
    """Return whether extremes within an episode come together; empty for one-step logs."""
    if found is None or not found.estimable:
        return ""
    ends = f"extremal index {number(found.theta, 3)}, {number(found.low, 3)} to {number(found.high, 3)}"
    if found.high < CLUSTERED:
        return (
            f"Extremes of an episode come in clusters of about {number(1 / found.theta, 2)} rows "
            f"({ends}): each cluster counts as one event."
        )
    return f"There is no sign that extremes of an episode come together ({ends})."


def _weights(diagnosis: Diagnosis) -> Section | None:
    overlap = diagnosis.overlap
    if overlap is None:
        return None
    found = overlap.weights
    facts = (
        Fact(
            "effective rows",
            f"{number(found.effective, 3)} of {found.n:,}",
            "of equal weight",
            "warn" if found.effective < 0.1 * found.n else "plain",
        ),
        Fact("largest weight", percent(found.largest_share), "of all weight"),
        Fact(
            "Pareto k",
            number(found.pareto.k, 2),
            f"harmless below {found.reliable_k:.2f}",
            "good" if found.reliable else "warn",
        ),
        Fact(
            "never logged",
            percent(overlap.unlogged),
            "of the policy's actions",
            "warn" if overlap.unlogged > 0.01 else "good",
        ),
        Fact("leverage", number(overlap.leverage, 3), "1 is the log itself"),
    )
    blocks: list[Block] = [Facts(facts)]
    if diagnosis.weights is not None:
        blocks.append(weights_figure(diagnosis.weights, effective=found.effective))
    return Section("weights", "Weights and overlap", tuple(blocks))


def _returns(log: Log, diagnosis: Diagnosis) -> Section | None:
    if log.n_episodes < 2:
        return None
    from tailproof.log.log import discounted_returns

    shown = returns_figure(
        discounted_returns(log, diagnosis.gamma),
        log.episode_ids,
        unit=log.reward_name,
        noun=diagnosis.noun,
    )
    return Section("returns", f"What each {diagnosis.noun} earned", (shown,))


def settings_section(settings: Mapping[str, object], *, notes: Sequence[str] = ()) -> Section:
    """Return the settings that reproduce the numbers, and how the log was read."""
    rows = [(name, str(value)) for name, value in settings.items() if value is not None]
    shown = table(("setting", "value"), [*rows, *versions().items()])
    blocks = ([Points(tuple(notes))] if notes else []) + [shown]
    return Section("settings", "Settings and versions", tuple(blocks), folded=True)


def with_warnings(answer: Answer, warnings: Sequence[str]) -> Answer:
    """Return an answer with warnings below what is read first."""
    said = set(sentences_of(answer))
    new = tuple(dict.fromkeys(text for text in warnings if text not in said))
    if not new:
        return answer
    return below_first(answer, [Points(new, "warn")])
