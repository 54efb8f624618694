"""For whom a policy is better: its gain in each segment of a log, from the scores of one estimate."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from tailproof.arrays import AnyArray, BoolArray, FloatArray, IntArray, is_number
from tailproof.doors.decisive import units_of_rows
from tailproof.doors.estimate import Estimate
from tailproof.doors.source import table_column
from tailproof.doors.verdict import Answered, GainVerdict, Word, verdict_on
from tailproof.errors import Caution, LogError, MethodError, listed
from tailproof.estimators.choice import Choice
from tailproof.files import as_frame, plain
from tailproof.log.log import Log
from tailproof.profile.observations import Observations, common_value, rare_spread
from tailproof.robust.gains import PairedGain, Scored
from tailproof.robust.intervals import Interval
from tailproof.robust.segments import joint_level, part_mean
from tailproof.robust.tails import check_level
from tailproof.rules import RULES

if TYPE_CHECKING:
    from tailproof.files import Frame
    from tailproof.report.blocks import Answer

_PARTS = 4  # of a numeric column
_NAMED = 12  # most values of a column that are segments of their own
_OTHER = "other"
_MISSING = "missing"


@dataclass(frozen=True, kw_only=True)
class Segment:
    """The gain in one segment, with an interval that holds together with those of all others."""

    name: str
    rows: int
    gain: PairedGain
    level: float  # of this interval alone

    @property
    def interval(self) -> Interval | None:
        """The interval of the gain; None if there is none."""
        return self.gain.interval_if_any(self.level)

    @property
    def verdict(self) -> GainVerdict:
        """Clearly better or worse if the interval excludes 0."""
        return verdict_on(self.gain, level=(1 + self.level) / 2)  # of either of its ends


@dataclass(frozen=True, kw_only=True)
class Segments(Answered):
    """The gain of a policy in each segment of a log; see `Estimate.by`.

    Attributes
    ----------
    by
        The column that makes the segments.
    policy, against
        The names of the policy and of what it is compared with.
    segments
        In the order of the column's values.
    level
        Confidence that all intervals hold together.
    reward, per
        What the gain is of.
    """

    by: str
    policy: str
    against: str
    segments: tuple[Segment, ...]
    level: float
    reward: str
    per: str
    note: str = ""

    def named(self, verdict: Word) -> tuple[str, ...]:
        """Return the names of the segments with this verdict."""
        return tuple(each.name for each in self.segments if each.verdict.word == verdict)

    @property
    def sentence(self) -> str:
        """The answer in one sentence."""
        of, better, worse = len(self.segments), self.named("better"), self.named("worse")
        said = f"Clearly better in {len(better)} of {of} segments by {self.by}"
        said = said if better else f"Clearly better in none of {of} segments by {self.by}"
        return f"{said}, " + (
            f"clearly worse in {len(worse)} ({', '.join(worse)})."
            if worse
            else "nowhere clearly worse."
        )

    def __getitem__(self, name: str) -> Segment:
        for each in self.segments:
            if each.name == name:
                return each
        raise KeyError(
            f"There is no segment {name!r}. There are {listed([s.name for s in self.segments])}."
        )

    def blocks(self) -> Answer:
        """Return the answer as blocks, which notebooks, terminals and pages show."""
        from tailproof.report.decisions import segments_blocks

        return segments_blocks(self)

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, ready for JSON."""
        return {
            "by": self.by,
            "policy": self.policy,
            "against": self.against,
            "sentence": self.sentence,
            "level": self.level,
            "segments": [
                {
                    "name": each.name,
                    "rows": each.rows,
                    "gain": plain(each.gain.value),
                    "interval": plain(each.interval),
                    "why_not": None if each.gain.declined is None else str(each.gain.declined),
                    **each.verdict.to_dict(),
                }
                for each in self.segments
            ],
        }

    def to_frame(self) -> Frame:
        """Return one row per segment: a pandas frame, or a pyarrow table where pandas is missing."""
        rows = []
        for each in self.segments:
            found = each.interval
            rows.append(
                {
                    "segment": each.name,
                    "rows": each.rows,
                    "gain": each.gain.value,
                    "gain_low": np.nan if found is None else found.low,
                    "gain_high": np.nan if found is None else found.high,
                    "verdict": each.verdict.word,
                }
            )
        return as_frame(rows)


def gain_by_segment(
    estimate: Estimate,
    by: str | npt.ArrayLike,
    *,
    level: float = 0.9,
    rival: Estimate | float | None = None,
    policies: int = 1,
    names: tuple[str, str] = ("the policy", "logged policy"),
) -> Segments:
    """Return the gain in each segment of a log; see `Estimate.by`.

    Parameters
    ----------
    rival
        What the policy is compared with: an estimate, a number, or the logged policy (None).
    policies
        From how many candidates the policy was chosen: the intervals hold for all of them.
    names
        The names of the policy and of the rival.
    """
    check_level(level)
    log = None if estimate.task is None else estimate.task.log
    if any(isinstance(each, Estimate) and each.choice is None for each in (estimate, rival)):
        raise MethodError(
            f"Gains by segment need the scores of rows or episodes, which {estimate.method} does not "
            f"give. Use the default method.",
            argument="by",
        )
    if log is None:
        raise LogError(
            "Gains by segment need the log of the estimate, which a stored result does not have: "
            "evaluate the policy again.",
            argument="by",
        )
    title, codes, kinds = segment_labels(log, by)
    own = joint_level(level, len(kinds) * policies)
    found = segments_of(estimate, log, codes, kinds, level=own, rival=rival)
    note = ""
    if not log.is_bandit:
        note = "In logs with several steps a segment's gain relies on the models of the value."
    return Segments(
        by=title,
        policy=names[0],
        against=names[1],
        segments=found,
        level=level,
        reward=log.reward_name,
        per=estimate.unit.per,
        note=note,
    )


def segments_of(
    estimate: Estimate,
    log: Log,
    codes: IntArray,
    names: Sequence[str],
    *,
    level: float,
    rival: Estimate | float | None = None,
) -> tuple[Segment, ...]:
    """Return the gain in each segment, each with an interval at this level.

    `codes` are the segment of each sample, (E,); `rival` is as in `gain_by_segment`.
    """
    assert estimate.choice is not None
    parts = _Parts(log, estimate)
    found = []
    for code, name in enumerate(names):
        inside = codes == code
        gain = parts.gain(estimate.choice, rival, inside)
        rows = parts.size(inside)
        found.append(Segment(name=name, rows=rows, gain=gain, level=level))
    return tuple(found)


class _Parts:
    """Values in parts of a log, by the scores of its samples: rows of a one-step log, or episodes.

    Where the reward is nearly always the same and few units of a part differ from it under the policy,
    the values are weighted rewards, and their spreads those of rare events.
    """

    def __init__(self, log: Log, estimate: Estimate) -> None:
        self._log = log
        self._unit = units_of_rows(estimate, log)[log.starts[:-1]]  # (E,)
        self._usual = common_value(log.rewards) if log.is_bandit else None

    def size(self, inside: BoolArray) -> int:
        """Return how many samples of the file a part has; weights repeat them."""
        return len(np.unique(self._log.copy_of[inside]))

    def gain(self, choice: Choice, rival: Estimate | float | None, inside: BoolArray) -> PairedGain:
        """Return the gain in a part: that of the samples `inside`, (E,)."""
        other: Scored = choice.logged
        if isinstance(rival, Estimate):
            assert rival.choice is not None
            other = rival.choice
        elif rival is not None:
            other = Scored.known(float(rival))
        rare = self._is_rare(choice, inside)
        gain = self._value(choice, inside, rare=rare) - self._value(other, inside, rare=rare)
        return replace(gain, declined=choice.declined or self._too_few(choice, inside))

    def _value(self, scored: Scored, inside: BoolArray, *, rare: bool) -> Scored:
        if scored.influence is None:
            return scored
        _, unit = np.unique(self._unit[inside], return_inverse=True)
        weights = self._weights(scored)[inside]
        if rare:
            return self._rare_value(Observations(unit, self._unit_name), weights, inside)
        sums = np.bincount(unit, self._scores(scored, inside)[inside]).astype(float)
        active = np.bincount(unit, weights) > 0
        return part_mean(sums, np.bincount(unit).astype(float), active)

    @property
    def _unit_name(self) -> str:
        return "row" if self._log.group_ids is None else "group"

    def _weights(self, scored: Scored) -> FloatArray:
        """Return the weight of each sample under the policy; 1 where it is not known, (E,)."""
        if self._log.is_bandit and isinstance(scored, Choice) and scored.weights is not None:
            return scored.weights
        return np.ones(len(self._unit))

    def _scores(self, scored: Scored, inside: BoolArray) -> FloatArray:
        """Return scores of all samples, whose mean is the value, (E,)."""
        assert scored.influence is not None
        centre, influence = scored.spread.centre, scored.influence.astype(float)
        size = np.bincount(self._unit, minlength=len(influence))
        own = scored.sample_influence if isinstance(scored, Choice) else None
        if own is None and self._log.is_bandit and not isinstance(scored, Choice):
            own = self._log.rewards - self._log.rewards.mean()
        if own is not None and len(influence) < len(own):
            return centre + own
        split = np.bincount(self._unit[inside], minlength=len(influence))
        if ((split > 0) & (split < size)).any():
            raise LogError(
                "Rows of one group are in several segments, and this method scores whole groups. "
                "Choose a column that is the same in all rows of a group, or the default method.",
                argument="by",
            )
        return centre + (influence * len(self._unit) / len(size) / np.maximum(size, 1))[self._unit]

    def _is_rare(self, choice: Choice, inside: BoolArray) -> bool:
        if self._usual is None or choice.weights is None:
            return False
        differs = inside & (self._log.rewards != self._usual) & (choice.weights > 0)
        return len(np.unique(self._unit[differs])) < RULES.rare_events

    def _rare_value(
        self, observations: Observations, weights: FloatArray, inside: BoolArray
    ) -> Scored:
        assert self._usual is not None
        sizes = self._log.rewards[inside] - self._usual
        w = weights / weights.mean() if weights.any() else np.ones(len(weights))
        spread = rare_spread(observations, self._usual, sizes, w)
        scores = w * (sizes - float((w * sizes).mean()))
        return Scored(value=spread.centre, spread=spread, influence=observations.influence(scores))

    def _too_few(self, choice: Choice, inside: BoolArray) -> Caution | None:
        taken = len(np.unique(self._unit[inside & (self._weights(choice) > 0)]))
        if taken >= RULES.fewest:
            return None
        said = f"only {taken} of its {self.size(inside):,} rows tell what the policy would do"
        return Caution("too_few", said)


def segment_labels(log: Log, by: str | npt.ArrayLike) -> tuple[str, IntArray, list[str]]:
    """Return the title of a column, the segment of each sample, (E,), and the segments' names.

    A numeric column with more than 12 values is cut into quarters; of other columns the 11 most
    frequent values are segments, and the rest one more. Missing values are a segment.
    """
    title = by if isinstance(by, str) else str(getattr(by, "name", None) or "segment")
    values = np.asarray(table_column(log, by, argument="by"), dtype=object)[log.first_rows]
    known = np.array([each is not None and each == each for each in values])  # NaN ≠ NaN
    try:
        numbers = np.array(values[known], dtype=float)
    except (TypeError, ValueError):
        numbers = None
    if numbers is not None and len(np.unique(numbers)) > _NAMED:
        codes, names = _quarters(numbers)
    else:
        codes, names = _most_frequent(values[known])
    every = np.full(len(values), len(names))
    every[known] = codes
    names += [_MISSING] * bool((~known).any())
    if len(names) < 2:
        raise LogError(f"All rows have the same {title}: there are no segments.", argument="by")
    return title, every, names


def _quarters(numbers: FloatArray) -> tuple[IntArray, list[str]]:
    """Return the quarter of each number, and the names of the quarters."""
    cuts = np.unique(np.quantile(numbers, np.arange(1, _PARTS) / _PARTS))
    cuts = cuts[cuts < numbers.max()]
    texts = [f"{cut:.4g}" for cut in cuts]
    names = [f"up to {texts[0]}"] if texts else []
    names += [f"{low} to {high}" for low, high in pairwise(texts)]
    return np.searchsorted(cuts, numbers), [*names, *([f"above {texts[-1]}"] if texts else [])]


def _most_frequent(values: AnyArray) -> tuple[IntArray, list[str]]:
    """Return the segment of each value, and the names: frequent values in order, then the others."""
    kinds, codes, counts = np.unique(values.astype(str), return_inverse=True, return_counts=True)
    if all(map(is_number, kinds)):  # 2 comes before 10
        order = np.argsort(kinds.astype(float), kind="stable")
        kinds, counts, codes = kinds[order], counts[order], np.argsort(order)[codes]
    if len(kinds) <= _NAMED:
        return codes, kinds.tolist()
    kept = np.sort(np.argsort(-counts, kind="stable")[: _NAMED - 1])
    place = np.full(len(kinds), len(kept))
    place[kept] = np.arange(len(kept))
    return place[codes], [*kinds[kept].tolist(), _OTHER]
