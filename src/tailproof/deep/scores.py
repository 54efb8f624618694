"""D4RL's normalised scores: 0 for a random policy, 100 for an expert (Fu et al., 2020).

The pendulum is not D4RL's: 0 is what even torques score, 100 what our best policy does.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from tailproof.errors import TailproofError

if TYPE_CHECKING:
    from collections.abc import Callable

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
