"""What results have in common: an answer in blocks, and a verdict on a gain."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

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

    def to_dict(self) -> dict[str, Any]:
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
    return gain.interval(2 * level - 1 if level > 0.5 else level).high
