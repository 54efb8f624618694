"""D4RL's normalised scores: 0 for a random policy, 100 for an expert (Fu et al., 2020).

The pendulum is not D4RL's: 0 is what even torques score, 100 what our best policy does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.deep.environments import play
from tailproof.errors import TailproofError

#: Return of a random policy and of an expert, for locomotion and kitchen as D4RL publishes them.
REFERENCE: dict[str, tuple[float, float]] = {
    "hopper": (-20.272305, 3234.3),
    "halfcheetah": (-280.178953, 12135.0),
    "walker2d": (1.629008, 4592.3),
    "kitchen": (0.0, 4.0),
    "pendulum": (-1200.0, -130.0),
}


def normalised(domain: str, mean_return: float) -> float:
    """Return 100·(J − random) / (expert − random).

    Examples
    --------
    >>> round(normalised("hopper", 3234.3), 1), round(normalised("halfcheetah", -280.178953), 1)
    (100.0, 0.0)
    """
    if domain not in REFERENCE:
        raise TailproofError(
            f"domain must be one of {', '.join(REFERENCE)}. Got {domain!r} instead."
        )
    random, expert = REFERENCE[domain]
    return 100 * (mean_return - random) / (expert - random)


def scorer(domain: str) -> Callable[[float], float]:
    """Return what turns a mean return in this domain into a score, for `Evaluation`."""
    normalised(domain, 0.0)
    return partial(normalised, domain)


@dataclass(frozen=True)
class Score:
    """What a policy earned in an environment.

    Attributes
    ----------
    returns
        The undiscounted return of each episode, (episodes,).
    domain
        Whose reference returns `normalised` uses; none where there are none.
    """

    returns: FloatArray
    domain: str | None = None

    @property
    def mean(self) -> float:
        """Mean return."""
        return float(self.returns.mean())

    @property
    def standard_error(self) -> float:
        """Standard error of the mean over these episodes; of the training's seed it knows nothing."""
        count = len(self.returns)
        return float(self.returns.std(ddof=1) / np.sqrt(count)) if count > 1 else float("nan")

    @property
    def normalised(self) -> float:
        """D4RL's score, 0 for random and 100 for an expert; NaN where there is no reference."""
        return float("nan") if self.domain is None else normalised(self.domain, self.mean)

    @property
    def normalised_error(self) -> float:
        """The standard error on that scale."""
        if self.domain is None:
            return float("nan")
        random, expert = REFERENCE[self.domain]
        return 100 * self.standard_error / (expert - random)

    def __str__(self) -> str:
        text = f"{self.mean:.4g} ± {self.standard_error:.2g} over {len(self.returns)} episodes"
        if self.domain is not None:
            text += f" (normalised {self.normalised:.1f} ± {self.normalised_error:.1f})"
        return text


def score_of(
    environment: str | Callable[[], Any],
    policy: Callable[[FloatArray], Any],
    *,
    episodes: int = 20,
    seed: int = 0,
) -> Score:
    """Play a policy and return what it earned, with its standard error.

    Examples
    --------
    >>> print(score_of("CartPole-v1", lambda states: (states[:, 2] > 0).astype(int), episodes=5))
    37.6 ± 4.2 over 5 episodes
    """
    domain = None
    if isinstance(environment, str):
        name = environment.rpartition(":")[2].rpartition("-v")[0].lower()
        domain = name if name in REFERENCE else None
    return Score(play(environment, policy, episodes=episodes, seed=seed), domain)
