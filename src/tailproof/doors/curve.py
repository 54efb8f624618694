"""The gain of giving an action to more and more rows, those first that gain most by it."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from tailproof.critics.greedy import GreedyPolicy, require_discrete
from tailproof.doors.evaluate import evaluate
from tailproof.errors import MethodError, TailproofWarning, listed
from tailproof.estimators.choice import Choice
from tailproof.files import as_frame, plain
from tailproof.learners.limits import price_of, priced
from tailproof.log.log import Log
from tailproof.profile.profile import LogProfile
from tailproof.robust.gains import PairedGain
from tailproof.robust.intervals import Interval
from tailproof.robust.segments import joint_level
from tailproof.robust.tails import check_level

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from tailproof.doors.learned import Learned
    from tailproof.files import Frame

SHARES = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)


@dataclass(frozen=True, kw_only=True)
class CurvePoint:
    """The gain at one share."""

    share: float  # of the rows that get the action
    gain: PairedGain  # over giving it to nobody
    level: float  # of this interval alone

    @property
    def interval(self) -> Interval | None:
        """The interval of the gain; None if there is none."""
        return self.gain.interval_if_any(self.level)


@dataclass(frozen=True, kw_only=True)
class TargetingCurve:
    """The gain per row, over giving an action to nobody, against the share of rows that get it.

    Attributes
    ----------
    action
        Its label.
    points
        By share, the rows that gain most first.
    level
        Confidence that all intervals hold together.
    reward
        What the gain is of.
    """

    action: str
    points: tuple[CurvePoint, ...]
    level: float
    reward: str

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and strings, ready for JSON."""
        return {
            "action": self.action,
            "level": self.level,
            "points": [
                {
                    "share": each.share,
                    "gain": plain(each.gain.value),
                    "interval": plain(each.interval),
                }
                for each in self.points
            ],
        }

    def to_frame(self) -> Frame:
        """Return one row per share: a pandas frame, or a pyarrow table where pandas is missing."""
        rows = []
        for each in self.points:
            found = each.interval
            ends = (np.nan, np.nan) if found is None else (found.low, found.high)
            rows.append(
                {"share": each.share, "gain": each.gain.value, "low": ends[0], "high": ends[1]}
            )
        return as_frame(rows)

    def plot(self, *, ax: Axes | None = None) -> Axes:
        """Draw the gain against the share, with its band; return the Axes."""
        from tailproof.report.plots import draw_on_axes
        from tailproof.report.rule import curve_figure

        return draw_on_axes(curve_figure(self), ax)


def targeting_curve(
    learned: Learned,
    action: str,
    log: Log | LogProfile,
    *,
    shares: Sequence[float] = SHARES,
    level: float = 0.9,
) -> TargetingCurve:
    """Return the gain at each share of rows that get an action; see `Learned.curve`."""
    check_level(level)
    profile = log if isinstance(log, LogProfile) else LogProfile(log)
    space = require_discrete(learned.action_space)
    labels = [space.label(code) for code in range(space.n)]
    if action not in labels:
        raise MethodError(
            f"The policy has no action {action!r}. It has {listed(labels)}.", argument="action"
        )
    if not profile.log.is_bandit or not isinstance(learned.policy, GreedyPolicy):
        raise MethodError(
            "A curve is of one-step logs, and of a policy that takes the action with the best score.",
            argument="log",
        )
    if not shares or not all(0 < each <= 1 for each in shares):
        raise MethodError(f"shares lie in (0, 1]. Got {list(shares)}.", argument="shares")
    code, states, policy = labels.index(action), profile.log.states, learned.policy

    def estimate(limit: float) -> tuple[float, Choice]:
        price = price_of(policy, code, states, np.ones(len(states)), limit)
        asked = priced(policy, code, price)
        with warnings.catch_warnings():  # extreme shares may leave what was logged
            warnings.simplefilter("ignore", TailproofWarning)
            found = evaluate(profile, asked, gamma=learned.gamma, seed=learned.seed)
        assert found.choice is not None  # the default scores rows
        return float((asked(states) == code).mean()), found.choice

    nobody = estimate(0.0)[1]
    own = joint_level(level, len(shares))
    points = []
    for limit in shares:
        share, found = estimate(limit)
        points.append(CurvePoint(share=share, gain=found - nobody, level=own))
    return TargetingCurve(
        action=action, points=tuple(points), level=level, reward=profile.log.reward_name
    )
