"""Changes of importance weights that reduce their variance, and the log-sum-exp mean."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from tailproof.arrays import FloatArray
from tailproof.errors import MethodError
from tailproof.parameters import Configurable
from tailproof.statistics.means import Labels, Rng


class Reweight(Protocol):
    """A change of the weights w = π/μ that trades variance for bias."""

    def __call__(self, weights: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return the changed weights, (n,), given w and μ."""


@dataclass(frozen=True)
class Clip(Configurable):
    """w ↦ min(w, largest): less variance, and a bias where the policy differs much from the log."""

    largest: float

    def __post_init__(self) -> None:
        if not self.largest > 0:
            raise MethodError(f"largest must be positive. Got {self.largest!r} instead.")

    def __call__(self, weights: FloatArray, propensity: Any = None) -> FloatArray:  # noqa: ARG002
        """Return the weights, none above `largest`."""
        return np.minimum(weights, self.largest)


@dataclass(frozen=True)
class Shrink(Configurable):
    """w ↦ λw / (w² + λ): optimistic shrinkage (Su et al. 2020). λ = ∞ leaves w, λ = 0 gives 0."""

    strength: float

    def __post_init__(self) -> None:
        _check_positive("strength", self.strength)

    def __call__(self, weights: FloatArray, propensity: Any = None) -> FloatArray:  # noqa: ARG002
        """Return the shrunk weights."""
        if np.isinf(self.strength):
            return weights
        if self.strength == 0:
            return np.zeros_like(weights)
        return np.asarray(self.strength * weights / (weights**2 + self.strength))


@dataclass(frozen=True)
class ImplicitExploration(Configurable):
    """π / (μ + γ), IX (Neu 2015; Gabbianelli et al. 2024): never above 1/γ, and γ = 0 leaves w."""

    offset: float

    def __post_init__(self) -> None:
        _check_positive("offset", self.offset)

    def __call__(self, weights: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return w μ / (μ + γ)."""
        return np.asarray(weights * (propensity / (propensity + self.offset)))


@dataclass(frozen=True)
class PowerMean(Configurable):
    """w / (1 − λ + λw), the harmonic mean of w and 1 (Metelli et al. 2021): never above 1/λ.

    λ = 0 leaves w, λ = 1 gives 1.
    """

    strength: float

    def __post_init__(self) -> None:
        _check_share("strength", self.strength)

    def __call__(self, weights: FloatArray, propensity: Any = None) -> FloatArray:  # noqa: ARG002
        """Return the smoothed weights."""
        if self.strength == 1:
            return np.where(weights > 0, 1.0, 0.0)
        return np.asarray(weights / (1 - self.strength + self.strength * weights))


@dataclass(frozen=True)
class ExponentialSmoothing(Configurable):
    """π / μ^β (Aouali et al. 2023): β = 1 leaves w, β = 0 gives π."""

    power: float

    def __post_init__(self) -> None:
        _check_share("power", self.power)

    def __call__(self, weights: FloatArray, propensity: FloatArray) -> FloatArray:
        """Return w μ^(1 − β)."""
        return np.asarray(weights * propensity ** (1 - self.power))


@dataclass(frozen=True)
class LogSumExp(Configurable):
    """The LSE mean −(1/λ) log mean exp(−λx) (Behnamnia et al. 2025): large samples are damped.

    λ = strength / (√n · root mean square), so that it adapts to the unit of x and vanishes as n
    grows; strength 0 is the plain mean. Gains and losses are averaged separately. Unlike the means of
    `tailproof.statistics.means` it is not shift-equivariant.
    """

    strength: float = 1.0

    def __post_init__(self) -> None:
        _check_positive("strength", self.strength)

    def __call__(self, samples: ArrayLike, *, groups: Labels = None, rng: Rng = None) -> float:  # noqa: ARG002
        """Return the mean of samples, (n,)."""
        x = np.asarray(samples, dtype=float)
        scale = float(np.sqrt(np.mean(x**2)))
        if self.strength == 0 or scale == 0:
            return float(x.mean())
        rate = self.strength / (np.sqrt(len(x)) * scale)
        gains, losses = (
            -float(np.log1p(np.expm1(-rate * np.maximum(side, 0)).mean())) / rate
            for side in (x, -x)
        )
        return float(gains - losses)


def _check_positive(name: str, value: float) -> None:
    if not value >= 0:
        raise MethodError(f"{name} must be at least 0. Got {value!r} instead.")


def _check_share(name: str, share: float) -> None:
    if not 0 <= share <= 1:
        raise MethodError(f"{name} must lie between 0 and 1. Got {share!r} instead.")
