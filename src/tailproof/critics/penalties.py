"""Ridge penalties of linear critics: in the features' own units, or of the coefficients as they are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.errors import MethodError
from tailproof.parameters import Configurable, OneOf

#: The penalty per observation up to which a `Relative` one is raised.
MOST = 0.1


@dataclass(frozen=True)
class Absolute(Configurable):
    """A ridge penalty λ‖θ‖² that does not depend on the number of rows, as in the paper.

    It depends on the units of the states: coefficients of a column in another unit are larger or
    smaller, and are shrunk more or less. The constant is shrunk too, so that values for γ near 1 are
    too small.
    """

    value: float

    def penalty(self, count: FloatArray) -> FloatArray:
        """Return λ for folds of these numbers of rows, (K,)."""
        return np.full(len(count), float(self.value))


@dataclass(frozen=True)
class PerObservation(Configurable):
    """A ridge penalty λ‖θ‖² with λ = value · n: equally strong for a fold and the whole log.

    It depends on the units of the states, and shrinks the constant, as `Absolute` does.
    """

    value: float

    def penalty(self, count: FloatArray) -> FloatArray:
        """Return λ for folds of these numbers of rows, (K,)."""
        return self.value * np.asarray(count, dtype=float)


@dataclass(frozen=True)
class Relative(Configurable):
    """A ridge penalty λ = value · n in the features' own units: no unit of a state matters.

    Each feature is divided by half of its range over the whole log; default features are centred
    there, so that the origin of a state does not matter either. Where fitted Q would diverge on a
    fold, its penalty is raised tenfold until it does not, up to 0.1.

    Parameters
    ----------
    value
        λ of one observation.
    towards
        ``"constant"`` leaves the constant function free: Q is r / (1 − γ) where every reward is r, for
        every γ. ``"zero"`` shrinks it too, for learning: where rewards are positive, what was hardly
        ever logged is then worth less.
    """

    constraints: ClassVar = {"towards": OneOf("constant", "zero")}

    value: float
    towards: Literal["constant", "zero"] = "constant"

    def penalty(self, count: FloatArray) -> FloatArray:
        """Return λ for folds of these numbers of rows, (K,)."""
        return self.value * np.asarray(count, dtype=float)


#: The default of methods that evaluate a policy.
EVALUATING = Relative(1e-4)
Ridge = Absolute | PerObservation | Relative
#: A penalty, a number of at least 0 per observation, or ``"cv"`` for cross-validation.
RidgeChoice = Ridge | float | str


def as_ridge(ridge: RidgeChoice, *, relative: bool = False) -> Ridge:
    """Return a number as a penalty per observation; refuse anything that is not a penalty."""
    known = (Absolute, PerObservation, Relative) if relative else (Absolute, PerObservation)
    penalty = ridge if isinstance(ridge, known) else None
    if isinstance(ridge, int | float | np.number) and not isinstance(ridge, bool):
        penalty = PerObservation(float(ridge))
    if penalty is None or not (np.isfinite(penalty.value) and penalty.value >= 0):
        own = "Relative(number), " if relative else ""
        raise MethodError(
            f"ridge must be a number of at least 0 (per observation), {own}Absolute(number) or 'cv'. "
            f"Got {ridge!r} instead."
        )
    return penalty


def require_ridge(ridge: RidgeChoice) -> None:
    """Raise unless `ridge` is a penalty, or ``"cv"`` to choose it by cross-validation."""
    if ridge != "cv":
        as_ridge(ridge, relative=True)
