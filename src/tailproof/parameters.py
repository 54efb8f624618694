"""Settings: what they must be, and scikit-learn's `get_params`, `set_params` and `sklearn.clone`."""

from __future__ import annotations

from collections.abc import Container, Mapping
from dataclasses import dataclass, fields, replace
from numbers import Real
from typing import Any, ClassVar, Self

import numpy as np

from tailproof.errors import MethodError, TailproofError


def one_setting(**names: object) -> Any:
    """Return the value of a setting that has several names; None if none of them is given.

    >>> one_setting(seed=None, random_state=3)
    3
    """
    given = {name: value for name, value in names.items() if value is not None}
    if len(given) > 1:
        said = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise MethodError(f"{' and '.join(given)} are names of one setting: give one. Got {said}.")
    return next(iter(given.values()), None)


def seed_of(seed: object, random_state: object) -> int:
    """Return the seed that was given by one of its two names; 0 if neither was.

    A NumPy generator or `RandomState` draws one.

    >>> seed_of(None, 7), seed_of(None, None)
    (7, 0)
    """
    given = one_setting(seed=seed, random_state=random_state)
    if given is None:
        return 0
    if isinstance(given, np.random.Generator):
        return int(given.integers(2**31))
    if isinstance(given, np.random.RandomState):
        return int(given.randint(2**31 - 1))
    if isinstance(given, int | np.integer) and not isinstance(given, bool) and given >= 0:
        return int(given)
    raise MethodError(f"seed must be a whole number of at least 0. Got {given!r} instead.")


@dataclass(frozen=True)
class Within:
    """A constraint: a number between two ends, each of which a square bracket includes.

    >>> print(Within("(0, 1]"), "|", Within("[1, inf)", whole=True), "|", Within("(0, inf)"))
    a number in (0, 1] | a whole number of at least 1 | a finite number above 0
    """

    interval: str
    whole: bool = False

    def __contains__(self, value: object) -> bool:
        if not isinstance(value, int | np.integer if self.whole else Real) or value is True:
            return False
        (low, high), number = self._ends, float(value)
        above = number >= low if self.interval[0] == "[" else number > low
        below = number <= high if self.interval[-1] == "]" else number < high
        return above and below  # NaN is neither

    @property
    def _ends(self) -> tuple[float, float]:
        low, high = map(float, self.interval[1:-1].split(","))
        return low, high

    def __str__(self) -> str:
        low, high = self._ends
        kind = "whole number" if self.whole else "number"
        if high < np.inf:
            return f"a {kind} in {self.interval}"
        finite = "finite " if self.interval[-1] == ")" and not self.whole else ""
        return f"a {finite}{kind} {'of at least' if self.interval[0] == '[' else 'above'} {low:g}"


class OneOf(tuple[object, ...]):
    """A constraint: one of a few values.

    >>> print(OneOf("linear", "lower"))
    'linear' or 'lower'
    """

    def __new__(cls, *choices: object) -> Self:
        """Return the constraint to these choices."""
        return super().__new__(cls, choices)

    def __str__(self) -> str:
        *first, last = map(repr, self)
        return f"{', '.join(first)} or {last}" if first else last


#: What a value must be: it says whether it contains one, and which ones in words.
Constraint = Container[object]
#: The constraints that many settings share.
COUNT, POSITIVE = Within("[1, inf)", whole=True), Within("(0, inf)")
LEVEL, SHARE = Within("(0, 1)"), Within("[0, 1]")


def require(
    constraint: Constraint, error: type[TailproofError] = MethodError, /, **given: object
) -> None:
    """Raise `error` unless the given values, by the name of their argument, meet a constraint."""
    for name, value in given.items():
        if value not in constraint:
            raise error(f"{name} must be {constraint}. Got {value!r} instead.", argument=name)


class Configurable:
    """Adds checks, `get_params` and `set_params` to a frozen dataclass; its fields are the parameters.

    `constraints` says what the fields must be, by name, beside those of the base classes; a default of
    None or a text may be kept.
    """

    constraints: ClassVar[Mapping[str, Constraint]] = {}
    refusal: ClassVar[type[TailproofError]] = MethodError

    def __post_init__(self) -> None:
        known: dict[str, Constraint] = {}
        for kind in reversed(type(self).__mro__):
            known |= vars(kind).get("constraints", {})
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            kept = isinstance(each.default, str | None) and value == each.default
            if each.name in known and not kept:
                require(known[each.name], self.refusal, **{each.name: value})

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; if `deep`, nested settings too, as `a__b`.

        Examples
        --------
        >>> from tailproof import DR
        >>> sorted(name for name in DR().get_params() if name.startswith("critic__"))
        ['critic__features', 'critic__ridge', 'critic__ridge__towards', 'critic__ridge__value']
        """
        own = {each.name: getattr(self, each.name) for each in fields(self) if each.init}  # type: ignore[arg-type]
        if not deep:
            return own
        inner = {
            f"{name}__{key}": setting
            for name, value in own.items()
            if isinstance(value, Configurable)
            for key, setting in value.get_params().items()
        }
        return own | inner

    def set_params(self, **params: object) -> Self:
        """Return a copy with other settings; nothing is changed in place.

        Examples
        --------
        >>> from tailproof import DR
        >>> DR().set_params(parts=3, critic__ridge=0.1).critic.ridge
        0.1
        """
        own = self.get_params(deep=False)
        inner: dict[str, dict[str, Any]] = {}
        for name, value in params.items():
            first, _, rest = name.partition("__")
            if first not in own or (rest and not isinstance(own[first], Configurable)):
                raise MethodError(
                    f"{type(self).__name__} has no setting {name!r}. It has {', '.join(own)}."
                )
            if rest:
                inner.setdefault(first, {})[rest] = value
            else:
                own[name] = value
        for name, settings in inner.items():
            own[name] = own[name].set_params(**settings)
        return replace(self, **own)  # type: ignore[type-var]
