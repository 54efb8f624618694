"""What results have in common: an answer in blocks, and a verdict on a gain."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Literal, Protocol

from tailproof.errors import Caution, LevelError
from tailproof.robust.intervals import Bound, Interval

if TYPE_CHECKING:
    from tailproof.report.blocks import Answer


class Answered:
    """A result whose answer is a list of blocks (`tailproof.report.blocks`)."""

    def blocks(self) -> Answer:
        """Return the answer as blocks, which notebooks, terminals and pages show."""
        raise NotImplementedError

    def __str__(self) -> str:
        from tailproof.report.terminal import as_text
        from tailproof.report.text import first_screen

        return as_text(first_screen(self.blocks()))

    def _repr_html_(self) -> str:
        from tailproof.report.html import fragment  # imported only when needed

        return fragment(self.blocks())


Word = Literal["better", "worse", "no difference shown", "cannot tell"]


class Gain(Protocol):
    """The difference of two values, with bounds at any level."""

    @property
    def value(self) -> float:
        """The difference of the two estimates."""
        ...

    @property
    def relative(self) -> float:
        """The gain over the size of the second; NaN where that is 0."""
        ...

    @property
    def declined(self) -> Caution | None:
        """Why it has no bounds, or None."""
        ...

    def interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval; raise a `LevelError` if there is none."""
        ...

    def lower_bound(self, level: float = 0.9) -> Bound:
        """Return a lower bound; raise a `LevelError` if there is none."""
        ...


@dataclass(frozen=True)
class GainVerdict:
    """Whether one policy is better than another, at a confidence level.

    Attributes
    ----------
    word
        "better" or "worse" where a bound of the gain at `level` excludes 0, "no difference shown"
        where neither does, "cannot tell" where there is no valid bound.
    cautions
        Why it cannot be told.
    """

    word: Word
    level: float
    cautions: tuple[Caution, ...] = ()

    @property
    def reasons(self) -> tuple[str, ...]:
        """Codes of why it cannot be told."""
        return tuple(dict.fromkeys(each.code for each in self.cautions))

    @property
    def void(self) -> bool:
        """Whether the value means nothing, not only its bounds."""
        return any(each.voids for each in self.cautions)

    def __str__(self) -> str:
        return self.word

    def to_dict(self) -> dict[str, object]:
        """Return the verdict and its reasons for JSON."""
        return {"verdict": self.word, "reason": list(self.reasons)}


def verdict_on(
    gain: Gain, *, level: float, cautions: Iterable[Caution] = (), above: float = 0.0
) -> GainVerdict:
    """Return the verdict on a gain: better if it clearly exceeds `above`, worse if it clearly does not.

    One of the `cautions` may void it.
    """
    void = tuple(each for each in cautions if each.voids)
    if void:
        return GainVerdict("cannot tell", level, void)
    try:
        if gain.lower_bound(level).value > above:
            return GainVerdict("better", level)
        if upper_bound(gain, level) < above:
            return GainVerdict("worse", level)
    except LevelError as error:
        why = gain.declined or Caution("no_interval", str(error))
        return GainVerdict("cannot tell", level, (why,))
    return GainVerdict("no difference shown", level)


def upper_bound(gain: Gain, level: float) -> float:
    """Return an upper bound at a level: the upper end of the interval that misses as often above."""
    return float(gain.interval(2 * level - 1 if level > 0.5 else level).high)


@dataclass(frozen=True, kw_only=True)
class Judged:
    """A gain, and the level of each of its two bounds, by which it is judged."""

    gain: Gain = field(repr=False)  # with its own interval at any level
    level: float
    cautions: tuple[Caution, ...] = field(default=(), repr=False)  # of which one may void it

    @property
    def verdict(self) -> GainVerdict:
        """Whether the first policy is better than the second."""
        return verdict_on(self.gain, level=self.level, cautions=self.cautions)

    @property
    def value(self) -> float:
        """The difference of the two estimates."""
        return self.gain.value

    @property
    def relative(self) -> float:
        """The difference divided by the second's |value|; NaN if that is 0."""
        return self.gain.relative

    @property
    def lower_bound(self) -> Bound:
        """A lower bound of the difference; −∞, with the reason, if there is none."""
        return bound_or_reason(self.gain.lower_bound, self.level)

    @property
    def bounds(self) -> tuple[float, float] | None:
        """A lower and an upper bound, each with this level; None if there is none."""
        try:
            return float(self.gain.lower_bound(self.level).value), upper_bound(
                self.gain, self.level
            )
        except LevelError:
            return None

    def interval(self, level: float = 0.9) -> Interval:
        """Return a two-sided interval of the difference."""
        return self.gain.interval(level)


def bound_or_reason(ask: Callable[[float], Bound], level: float) -> Bound:
    """Return a lower bound; −∞, with the reason, if there is none."""
    try:
        return ask(level)
    except LevelError as error:
        return Bound(value=-inf, level=level, requested=level, kind="none", note=str(error))
