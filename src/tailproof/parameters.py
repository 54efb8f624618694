"""scikit-learn's interface to settings: `get_params`, `set_params` and `sklearn.clone`."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any, Self

import numpy as np

from tailproof.errors import MethodError


def one_setting(**names: Any) -> Any:
    """Return the value of a setting that has several names; None if none of them is given.

    >>> one_setting(seed=None, random_state=3)
    3
    """
    given = {name: value for name, value in names.items() if value is not None}
    if len(given) > 1:
        said = ", ".join(f"{name}={value!r}" for name, value in given.items())
        raise MethodError(f"{' and '.join(given)} are names of one setting: give one. Got {said}.")
    return next(iter(given.values()), None)


def seed_of(seed: Any, random_state: Any) -> int:
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


class Configurable:
    """Adds `get_params` and `set_params` to a frozen dataclass; its fields are the parameters."""

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """Return the settings by name; if `deep`, nested settings too, as `a__b`.

        Examples
        --------
        >>> from tailproof import DR
        >>> sorted(name for name in DR().get_params() if name.startswith("critic__"))
        ['critic__features', 'critic__ridge']
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

    def set_params(self, **params: Any) -> Self:
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
