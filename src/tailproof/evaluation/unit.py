"""What a value is a value of."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailproof.data.stored import AnyLog


@dataclass(frozen=True, kw_only=True)
class ValueUnit:
    """The quantity that an estimate estimates.

    Attributes
    ----------
    reward
        The name of the reward column.
    gamma
        The discount.
    per
        "row" in one-step logs, otherwise "episode".
    endless
        Whether no logged episode terminates, so that rewards are counted without end.
    """

    reward: str
    gamma: float
    per: str
    endless: bool

    @classmethod
    def of(cls, log: AnyLog, gamma: float) -> ValueUnit:
        """Return the unit of values of a log."""
        one_step = log.is_bandit and gamma == 0
        return cls(
            reward=log.reward_name,
            gamma=gamma,
            per="row" if one_step else "episode",
            endless=gamma > 0 and not bool(np.any(log.ends)),
        )

    def __str__(self) -> str:
        """Return the unit in words.

        >>> print(ValueUnit(reward="revenue", gamma=0.9, per="episode", endless=True))
        discounted revenue per episode (γ 0.9, endless)
        >>> print(ValueUnit(reward="spend", gamma=0.0, per="row", endless=False))
        spend per row
        """
        if self.per == "row":
            return f"{self.reward} per row"
        kind = "total" if self.gamma == 1 else "discounted"
        end = ", endless" if self.endless else ""
        return f"{kind} {self.reward} per {self.per} (γ {self.gamma:g}{end})"
