"""Heavy-tailed reward noise, centred where a centre exists.

A noise is a frozen distribution: `sample` draws from it, `tail_index` is its tail index, and
`mean_exists` says whether noisy rewards have a value function. `add_noise` adds it to a log's rewards.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import scipy

from tailproof.arrays import AnyArray, FloatArray
from tailproof.errors import TailproofError
from tailproof.log.log import Log
from tailproof.parameters import POSITIVE, SHARE, Configurable, OneOf, Within

Size = int | tuple[int, ...]
#: c(s, a): states (n, p) and actions (n,) or (n, q) to factors (n,).
Scale = Callable[[FloatArray, AnyArray], npt.ArrayLike]


def add_noise(
    log: Log,
    noise: Noise,
    *,
    seed: int | np.random.SeedSequence | np.random.Generator,
    scale: Scale | None = None,
) -> Log:
    """Return the log with independent noise on every reward, r_i + c(s_i, a_i)·ν_i.

    Parameters
    ----------
    log
        The transitions. They are not changed.
    noise
        The distribution of ν.
    seed
        An integer, a seed sequence or a generator.
    scale
        c, called once with all states and actions; 1 by default. It makes the noise depend on the
        state or the action.

    Examples
    --------
    >>> from tailproof.worlds import CartPole
    >>> log = CartPole().log(episodes=2, steps=5)
    >>> noisy = add_noise(log, StudentT(df=1.5), seed=1)
    >>> bool((noisy.rewards != log.rewards).all())
    True
    >>> left_only = add_noise(log, Pareto(1.5), seed=1, scale=lambda states, actions: actions == 0)
    >>> bool((left_only.rewards == log.rewards)[log.actions == 1].all())
    True
    """
    draws = noise.sample(log.n_transitions, np.random.default_rng(seed))
    if scale is not None:
        factors = np.asarray(scale(log.states, log.actions), dtype=float)
        if factors.shape != draws.shape or not np.isfinite(factors).all():
            raise TailproofError(
                f"The noise scale must return {log.n_transitions} finite numbers, one per transition."
                f" Got shape {factors.shape}, {int((~np.isfinite(factors)).sum())} not finite; "
                f"compute it row by row from the states and actions."
            )
        draws = draws * factors
    return log.with_rewards(log.rewards + draws)


class Noise(ABC):
    """A distribution of reward noise."""

    @property
    def tail_index(self) -> float:
        """The heavier tail's index α: P(|ν| > x) falls like x^−α. Infinite for light tails."""
        return math.inf

    @property
    def mean_exists(self) -> bool:
        """Whether E ν is finite, which is α > 1."""
        return self.tail_index > 1

    @abstractmethod
    def sample(self, size: Size, rng: np.random.Generator) -> FloatArray:
        """Draw an array of the given size."""


class _Distribution(Noise, Configurable):
    """A frozen dataclass with constraints; a tail index of 1 or less is a noise without a mean."""

    constraints: ClassVar = {
        **dict.fromkeys(("df", "kappa", "right", "scale", "index", "sigma", "shape"), POSITIVE),
        "sign": OneOf(1, -1),  # a tail of gains, or of losses
    }
    refusal: ClassVar = TailproofError
    _index: ClassVar[str] = ""  # the setting that is the tail index; none for light tails

    @property
    def tail_index(self) -> float:
        return float(getattr(self, self._index)) if self._index else math.inf


#: A tail index above 1: noise is centred at its mean, except that of `StudentT`, which needs none.
_HAS_MEAN = Within("(1, inf)")


@lru_cache(maxsize=256)
def winsorised_std(df: float, tail: float = 0.01) -> float:
    """Return the standard deviation of t_df winsorised at its `tail` and 1 − `tail` quantiles.

    σ² = ∫_{−c}^{c} x² f(x) dx + 2·tail·c² with c the upper quantile and f the density.

    Examples
    --------
    >>> round(winsorised_std(1.0), 4)
    6.2872
    """
    cut = float(scipy.special.stdtrit(df, 1 - tail))
    peak = 1 / (math.sqrt(df) * float(scipy.special.beta(0.5, df / 2)))

    def integrand(x: float) -> float:
        return x * x * peak * math.pow(1 + x * x / df, -(df + 1) / 2)

    half, _ = scipy.integrate.quad(integrand, 0, cut, limit=200)
    return math.sqrt(2 * half + 2 * tail * cut * cut)


@dataclass(frozen=True)
class StudentT(_Distribution):
    """The paper's noise (section 5), ν = κ·t_df/σ, σ the std of t_df winsorised at 1 % and 99 %.

    The paper prints σ² and 2 %, which is an error. With df ≤ 1 the noise has no mean: the value of
    such rewards is undefined, and estimators target the centre of symmetry.

    Examples
    --------
    >>> print(StudentT(df=1.5, kappa=2))
    t, df 1.5 × 2
    >>> StudentT(df=1).mean_exists
    False
    """

    df: float
    kappa: float = 1.0
    _index: ClassVar = "df"

    def sample(self, size: Size, rng: np.random.Generator) -> FloatArray:
        """Draw an array of the given size."""
        return rng.standard_t(self.df, size) * (self.kappa / winsorised_std(self.df))

    def __str__(self) -> str:
        return f"t, df {self.df:g}{_times(self.kappa)}"


@dataclass(frozen=True)
class SkewedT(_Distribution):
    """Student t with its positive side stretched by `right`, then centred, ν = κ(t·s(t) − m)/σ.

    s(t) = right for t > 0 and 1 otherwise, m = (right − 1)·E max(t, 0), and σ is that of
    `StudentT`. A mild skew that a small log cannot reveal.

    Examples
    --------
    >>> print(SkewedT(1.8))
    t, df 1.8, right side × 1.3
    """

    df: float
    right: float = 1.3
    kappa: float = 1.0
    _index: ClassVar = "df"
    constraints: ClassVar = {"df": _HAS_MEAN}

    def sample(self, size: Size, rng: np.random.Generator) -> FloatArray:
        """Draw an array of the given size."""
        draws = rng.standard_t(self.df, size)
        # E max(t, 0), half of the mean absolute value of Student t.
        half = math.sqrt(self.df) / ((self.df - 1) * float(scipy.special.beta(self.df / 2, 0.5)))
        centred = np.where(draws > 0, self.right * draws, draws) - (self.right - 1) * half
        return centred * (self.kappa / winsorised_std(self.df))

    def __str__(self) -> str:
        return f"t, df {self.df:g}, right side × {self.right:g}{_times(self.kappa)}"


@dataclass(frozen=True)
class Gaussian(_Distribution):
    """The light-tailed reference, ν ~ N(0, scale²).

    Examples
    --------
    >>> print(Gaussian(2))
    Gaussian × 2
    """

    scale: float = 1.0

    def sample(self, size: Size, rng: np.random.Generator) -> FloatArray:
        """Draw an array of the given size."""
        return rng.standard_normal(size) * self.scale

    def __str__(self) -> str:
        return f"Gaussian{_times(self.scale)}"


@dataclass(frozen=True)
class Pareto(_Distribution):
    """Centred classical Pareto, ν = sign·scale·(X − a/(a−1)), P(X > x) = x^−a for x ≥ 1.

    Examples
    --------
    >>> print(Pareto(1.5), "|", Pareto(1.5, sign=-1))
    Pareto 1.5 | −Pareto 1.5
    """

    index: float
    sign: int = 1
    scale: float = 1.0
    _index: ClassVar = "index"
    constraints: ClassVar = {"index": _HAS_MEAN}

    def sample(self, size: Size, rng: np.random.Generator) -> FloatArray:
        """Draw an array of the given size."""
        # numpy's Pareto starts at 0, one below the classical one, whose mean is a/(a−1).
        excess = rng.pareto(self.index, size) - 1 / (self.index - 1)
        return excess * (self.sign * self.scale)

    def __str__(self) -> str:
        return f"{_minus(self.sign)}Pareto {self.index:g}{_times(self.scale)}"


@dataclass(frozen=True)
class LogNormal(_Distribution):
    """Centred log-normal, ν = sign·scale·(exp(σZ) − exp(σ²/2)), Z ~ N(0, 1).

    All its moments exist, yet at σ = 2 samples of any usual size behave as if they did not.

    Examples
    --------
    >>> print(LogNormal(2))
    log-normal σ=2
    """

    sigma: float
    sign: int = 1
    scale: float = 1.0

    def sample(self, size: Size, rng: np.random.Generator) -> FloatArray:
        """Draw an array of the given size."""
        centred = rng.lognormal(0.0, self.sigma, size) - math.exp(self.sigma**2 / 2)
        return centred * (self.sign * self.scale)

    def __str__(self) -> str:
        return f"{_minus(self.sign)}log-normal σ={self.sigma:g}{_times(self.scale)}"


@dataclass(frozen=True)
class Gamma(_Distribution):
    """Gamma of mean 0 and standard deviation `scale`, ν = sign·scale·(G − k)/√k, G ~ Gamma(k).

    Skewness 2/√k without a heavy tail.

    Examples
    --------
    >>> print(Gamma(4))
    Gamma(4)
    """

    shape: float
    sign: int = 1
    scale: float = 1.0

    def sample(self, size: Size, rng: np.random.Generator) -> FloatArray:
        """Draw an array of the given size."""
        centred = rng.standard_gamma(self.shape, size) - self.shape
        return centred * (self.sign * self.scale / math.sqrt(self.shape))

    def __str__(self) -> str:
        return f"{_minus(self.sign)}Gamma({self.shape:g}){_times(self.scale)}"


@dataclass(frozen=True)
class Contaminated(_Distribution):
    """N(0, 1), of which a small `fraction` is N(0, scale²) instead.

    Examples
    --------
    >>> print(Contaminated())
    Gaussian + 0.1 % × 300
    """

    constraints: ClassVar = {"fraction": SHARE}

    fraction: float = 0.001
    scale: float = 300.0

    def sample(self, size: Size, rng: np.random.Generator) -> FloatArray:
        """Draw an array of the given size."""
        outlying = rng.random(size) < self.fraction
        return rng.standard_normal(size) * np.where(outlying, self.scale, 1.0)

    def __str__(self) -> str:
        return f"Gaussian + {100 * self.fraction:g} % × {self.scale:g}"


@dataclass(frozen=True)
class AlphaStable(_Distribution):
    """α-stable, E exp(iuν/scale) = exp(−|u|^α (1 − iβ·tan(πα/2)·sign(u))).

    Drawn by the method of Chambers, Mallows and Stuck (1976). The location is 0, which is the mean
    for α > 1. α = 2 is N(0, 2·scale²). At α = 1, −(2/π)·log|u| stands for tan(πα/2), and β = 0 is
    Cauchy.

    Examples
    --------
    >>> print(AlphaStable(1.5, beta=1))
    α-stable 1.5, β=1
    """

    constraints: ClassVar = {"alpha": Within("(0, 2]"), "beta": Within("[-1, 1]")}

    alpha: float
    beta: float = 0.0
    scale: float = 1.0

    @property
    def tail_index(self) -> float:
        """α; infinite at α = 2, which is Gaussian."""
        return self.alpha if self.alpha < 2 else math.inf

    def sample(self, size: Size, rng: np.random.Generator) -> FloatArray:
        """Draw an array of the given size."""
        alpha, beta = self.alpha, self.beta
        angle = rng.uniform(-math.pi / 2, math.pi / 2, size)
        wait = rng.standard_exponential(size)
        if alpha == 1:
            tilted = math.pi / 2 + beta * angle
            ratio = (math.pi / 2) * wait * np.cos(angle) / tilted
            return self.scale * (2 / math.pi) * (tilted * np.tan(angle) - beta * np.log(ratio))
        skew = beta * math.tan(math.pi * alpha / 2)
        turned = alpha * angle + math.atan(skew)
        stretch = self.scale * (1 + skew * skew) ** (1 / (2 * alpha))
        spread = (np.cos(angle - turned) / wait) ** ((1 - alpha) / alpha)
        draws: FloatArray = stretch * np.sin(turned) / np.cos(angle) ** (1 / alpha) * spread
        return draws

    def __str__(self) -> str:
        beta = f", β={self.beta:g}" if self.beta else ""
        return f"α-stable {self.alpha:g}{beta}{_times(self.scale)}"


def _minus(sign: int) -> str:
    return "−" if sign < 0 else ""


def _times(scale: float) -> str:
    return "" if scale == 1 else f" × {scale:g}"
