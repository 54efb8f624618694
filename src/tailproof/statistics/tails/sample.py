"""Input checks and helpers shared by the statistics of one sample."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from tailproof.arrays import FloatArray, require_finite
from tailproof.errors import LevelError, LogError, MethodError

# differences of larger values could overflow in every centred statistic
LARGEST = 1e300


def as_sample(name: str, values: npt.ArrayLike) -> FloatArray:
    """Return values as finite doubles (n,), n ≥ 1; raise if they are invalid."""
    array = np.asarray(values)
    if array.dtype.kind not in "fiub":
        raise LogError(
            f"{name} must be real numbers. Got dtype {array.dtype}; encode categories first."
        )
    if array.ndim != 1:
        raise LogError(
            f"{name} must be one sample of shape (n,). Got shape {array.shape}; pass one column."
        )
    if not len(array):
        raise LogError(f"{name} must hold at least one value. Got none; check the log's filter.")
    array = array.astype(float, copy=False)
    require_finite(name, array, LogError)
    if (largest := float(np.abs(array).max())) > LARGEST:
        raise LogError(
            f"{name} must lie within ±{LARGEST:g}. Got a value of size {largest:g}; rescale first."
        )
    return array


def check_level(level: float) -> None:
    """Raise `LevelError` unless 0 < level < 1."""
    if not 0 < level < 1:
        raise LevelError(f"A level must lie between 0 and 1. Got {level!r}: use 0.95 for 95 %.")


def check_theta(theta: float) -> None:
    """Raise `MethodError` unless theta is an extremal index, 0 < theta ≤ 1."""
    if not 0 < theta <= 1:
        raise MethodError(
            f"theta, the extremal index, must lie in (0, 1]. Got {theta!r}: use 1 for independent "
            "values, or what extremal_index measures."
        )


def check_choice(name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise `MethodError` unless value is one of the choices."""
    if value not in choices:
        raise MethodError(f"{name} must be one of {', '.join(choices)}. Got {value!r} instead.")


def median_of(values: FloatArray) -> FloatArray:
    """Return the median along the last axis.

    One partition is several times faster than `numpy.median`, and sorted values need none.
    """
    middle = values.shape[-1] // 2
    parted = values if is_sorted(values) else np.partition(values, middle, axis=-1)
    upper: FloatArray = parted[..., middle]
    if values.shape[-1] % 2:
        return upper
    lower: FloatArray = parted[..., :middle].max(axis=-1)
    return (lower + upper) / 2


def is_sorted(values: FloatArray) -> bool:
    """Return whether values (n,) are sorted in ascending order."""
    return values.ndim == 1 and bool((values[1:] >= values[:-1]).all())


def unit_scale(values: FloatArray) -> FloatArray:
    """Return values divided by a power of two, all within ±1, so that no square of one overflows.

    >>> unit_scale(np.array([3.0, -1.0]))
    array([ 0.75, -0.25])
    """
    scaled: FloatArray = values * math.ldexp(1.0, -_exponent(values))
    return scaled


def deviation_of(values: FloatArray) -> float:
    """Return the standard deviation, without overflow for values as large as `LARGEST`."""
    return math.ldexp(float(unit_scale(values).std()), _exponent(values))


def _exponent(values: FloatArray) -> int:
    """Return the binary exponent of the largest magnitude, at least −1000."""
    return max(math.frexp(float(np.abs(values).max()))[1], -1000)
