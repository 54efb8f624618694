"""Action spaces."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailproof.arrays import AnyArray
from tailproof.errors import LogError

#: With more actions than this, the column holds identifiers, not action codes.
MOST_ACTIONS = 1_000_000
#: At most so many different real actions, each in at least so many rows, are probably a menu.
MOST_ON_A_MENU, REPEATED = 20, 10


@dataclass(frozen=True)
class Discrete:
    """Actions 0, …, `n` − 1, optionally with one label each."""

    n: int
    labels: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.n, int | np.integer) or self.n < 1:
            raise LogError(f"A discrete action space needs at least one action. Got n={self.n}.")
        if self.labels is not None and len(self.labels) != self.n:
            raise LogError(f"{self.n} actions need {self.n} labels. Got {len(self.labels)}.")

    @property
    def names(self) -> tuple[str, ...]:
        """The name of each action in tables: its label, or else its code."""
        return tuple(map(str, range(self.n))) if self.labels is None else self.labels

    def label(self, action: int) -> str:
        """Return the name of one action."""
        return str(action) if self.labels is None else self.labels[action]

    def __str__(self) -> str:
        return f"{self.n} actions"


@dataclass(frozen=True)
class Continuous:
    """Real vectors of `dimension` entries, within `low` and `high` where these are given."""

    dimension: int
    low: tuple[float, ...] | None = None
    high: tuple[float, ...] | None = None

    def __str__(self) -> str:
        return f"R^{self.dimension}"


ActionSpace = Discrete | Continuous


def menu(actions: AnyArray) -> list[float] | None:
    """Return the values of a real action, (n,) or (n, 1), if they are few and each is repeated often.

    >>> menu(np.tile([9.99, 14.99], 50)), menu(np.arange(100.0))
    ([9.99, 14.99], None)
    """
    if actions.ndim > 1 and actions.shape[1] != 1:
        return None
    values, counts = np.unique(actions, return_counts=True)
    few = 1 < len(values) <= MOST_ON_A_MENU and counts.min() >= REPEATED
    return values.tolist() if few else None


def as_space(given: object, actions: AnyArray) -> ActionSpace:
    """Return the given space, in any accepted form, or infer it from the actions."""
    if isinstance(given, Discrete | Continuous):
        return given
    if given is None:
        if actions.dtype.kind in "iub":
            if actions.ndim != 1:
                raise LogError(
                    f"Integer actions must have the shape (n,). Got {actions.shape}; pass reals "
                    f"for continuous actions, or code combinations of actions as one integer."
                )
            highest = int(actions.max())
            if highest >= MOST_ACTIONS:
                raise LogError(
                    f"Integer actions are codes 0..A-1. {highest} would make {highest + 1} of them. "
                    f"Code the actions that occur, or pass action_space."
                )
            return Discrete(max(highest + 1, 1))
        if actions.dtype.kind != "f":
            raise LogError(f"actions must be integers or reals. Got dtype {actions.dtype} instead.")
        return Continuous(1 if actions.ndim == 1 else actions.shape[1])
    if isinstance(given, int | np.integer) and not isinstance(given, bool):
        return Discrete(int(given))
    if hasattr(given, "n"):  # gymnasium.spaces.Discrete
        if int(getattr(given, "start", 0)) != 0:
            raise LogError(f"A discrete action space must start at 0. Got {given!r}.")
        return Discrete(int(given.n))
    if hasattr(given, "low") and hasattr(given, "high"):  # gymnasium.spaces.Box
        low, high = np.ravel(given.low), np.ravel(given.high)
        return Continuous(low.size, tuple(map(float, low)), tuple(map(float, high)))
    raise LogError(
        f"action_space must be a number of actions, a Discrete or Continuous, or a Gymnasium "
        f"space. Got {given!r} instead."
    )
