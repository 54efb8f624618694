"""A method: a base algorithm, a partition into folds, and how and where members are combined."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace

from tailproof.critics.base import PLACES, Algorithm, At, CriticAlgorithm, ValueAlgorithm
from tailproof.errors import MethodError
from tailproof.log.folds import Partition, Whole
from tailproof.parameters import Configurable, Within, require
from tailproof.robust.aggregates import Aggregate, Mean
from tailproof.robust.means import Cap


@dataclass(frozen=True)
class Method(Configurable):
    """`base` fitted on every fold of `partition`, combined by `aggregate` at `at`.

    Parameters
    ----------
    base
        An algorithm: `FQE`, `LSTD`, `MIS`, `DR`, `FQI`, ….
    partition
        `Whole`, `Split`, `Bootstrap` or `Replicate`.
    aggregate
        `Mean`, `Median`, `Quantile`, ….
    at
        ``"value"`` combines the K numbers Ĵ_k; ``"pointwise"`` the K critics at every (s, a);
        ``"backup"`` inside every Bellman target. Each requires more of the base than the one before.
    clip
        Winsorise the rewards at this quantile on both sides first, a common baseline. Or cap one side
        at a percentile of the non-zero rewards, as experiment platforms do: ``"p99.9"`` the upper side,
        ``"p0.1"`` the lower, ``"p99.9:all"`` with zeros counted.

    Examples
    --------
    >>> from tailproof import FQE, Median, Split
    >>> print(Method(base=FQE(), partition=Split(5), aggregate=Median(), at="backup"))
    FQE, split in 5, median at backup
    >>> from tailproof import MIS
    >>> Method(base=MIS(), partition=Split(5), aggregate=Median(), at="pointwise")
    Traceback (most recent call last):
    tailproof.errors.MethodError: MIS gives one number for each fold, which can only be combined \
at='value'. Got at='pointwise'; use at='value', or a base with critics such as FQE().
    """

    base: Algorithm
    partition: Partition = field(default_factory=Whole)
    aggregate: Aggregate = field(default_factory=Mean)
    at: At = "value"
    clip: float | str = 0.0

    def __post_init__(self) -> None:
        if not isinstance(self.base, CriticAlgorithm | ValueAlgorithm):
            raise MethodError(
                f"base must be an algorithm such as FQE(), LSTD(), MIS() or DR(), or Custom(fit) for "
                f"a function fit(fold, gamma) of your own. Got {self.base!r} instead."
            )
        if not hasattr(self.partition, "assign"):
            raise MethodError(
                f"partition must be Whole(), Split(K), Bootstrap(K) or Replicate(K). "
                f"Got {self.partition!r} instead."
            )
        if not callable(self.aggregate):
            raise MethodError(
                f"aggregate must be Mean(), Median(), Quantile(q), TrimmedMean(fraction) or "
                f"MeanMinusStd(factor). Got {self.aggregate!r} instead."
            )
        if self.at not in PLACES:
            raise MethodError(f"at must be one of {', '.join(PLACES)}. Got {self.at!r} instead.")
        if isinstance(self.clip, str):
            Cap.named(self.clip)
        else:
            require(Within("[0, 0.5]"), clip=self.clip)
        name = type(self.base).__name__
        if not isinstance(self.base, CriticAlgorithm):
            if self.at != "value":
                raise MethodError(
                    f"{name} gives one number for each fold, which can only be combined at='value'. "
                    f"Got at={self.at!r}; use at='value', or a base with critics such as FQE()."
                )
        elif self.at not in self.base.capabilities.at:
            advice = (
                "FQE() and FQI() have a backup to combine in"
                if self.at == "backup"
                else f"use at={self.base.capabilities.at[0]!r}, or a row that has it"
            )
            raise MethodError(
                f"{name} can be combined at {' or '.join(map(repr, self.base.capabilities.at))}. "
                f"Got at={self.at!r}; {advice}."
            )

    @property
    def folds(self) -> int:
        """Number of members, K."""
        return self.partition.count

    def with_settings(self, **settings: object) -> Method:
        """Return this method with other settings of its base, or of the base's neural version."""
        known = {each.name for each in fields(self.base)}  # type: ignore[arg-type]
        unknown = sorted(set(settings) - known)
        if unknown and hasattr(self.base, "neural"):
            if settings.pop("model", "neural") == "linear":
                raise MethodError(
                    f"A linear model has no {unknown[0]!r}: leave out model='linear'."
                )
            return replace(self, base=self.base.neural()).with_settings(**settings)
        if unknown:
            raise MethodError(
                f"{type(self.base).__name__} has no setting {unknown[0]!r}. "
                f"It has {', '.join(sorted(known))}."
            )
        return replace(self, base=replace(self.base, **settings))  # type: ignore[type-var]

    def __str__(self) -> str:
        text = type(self.base).__name__
        if isinstance(self.clip, str):
            text += f", rewards winsorised at {self.clip}"
        elif self.clip:
            text += f", rewards clipped at {100 * self.clip:.3g} %"
        if self.folds > 1:
            kind = {"Split": "split in", "Bootstrap": "bootstrapped", "Replicate": "replicated"}
            name = type(self.partition).__name__
            text += f", {kind.get(name, name)} {self.folds}, {self.aggregate} at {self.at}"
        return text
