"""The default for learning: what the rewards look like decides how they are learned from."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tailproof.algorithms.default.mean_choice import CAUTION, SKEWED, clusters
from tailproof.algorithms.learners.taming import asymmetry_by_action
from tailproof.algorithms.linear.huber import huber_regression
from tailproof.data.log import Log
from tailproof.data.stored import AnyLog
from tailproof.data.stored_views import held
from tailproof.features import Features
from tailproof.features.ladder import basis_for
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method
from tailproof.statistics.huber_path import huber_estimates

_LIGHT = 1.2  # a plain mean whose error is at most this much larger needs no protection
_CLIPPED = 2.0  # times log n rewards are clipped on either side where they are skewed


@dataclass(frozen=True)
class RewardShape:
    """What the residuals of a robust reward regression show.

    Attributes
    ----------
    unit
        The smallest unit whose extremes come alone: step, episode, group, …
    asymmetry
        See `tailproof.statistics.huber_path.Path.asymmetry`; the largest of all residuals and of those
        of any action, whose opposite skews would cancel.
    gain
        The plain mean's standard error as a multiple of the best Huber mean's.
    """

    unit: str
    asymmetry: float
    gain: float

    @property
    def heavy(self) -> bool:
        """Whether the plain mean loses much to a robust one."""
        return self.gain > _LIGHT

    @property
    def skewed(self) -> bool:
        """Whether the residuals are skewed beyond chance."""
        return self.asymmetry > SKEWED


def reward_shape(log: Log, features: Features) -> RewardShape:
    """Return tail, skew and clustering of the rewards, once their dependence on φ is removed."""
    residuals = huber_regression(features(log.states, log.actions), log.rewards).residuals
    name, unit = clusters(log, np.abs(residuals))
    sums = np.asarray(np.bincount(unit, weights=residuals), dtype=float)
    path = huber_estimates(sums)
    best = path.variances[path.choose(CAUTION)]
    gain = float(np.sqrt(path.variances[-1] / best)) if best > 0 else 1.0
    return RewardShape(name, max(path.asymmetry(), asymmetry_by_action(log, residuals)), gain)


def choose_learner(
    log: AnyLog, features: Features | None = None, *, seed: int = 0
) -> tuple[Method, tuple[str, ...]]:
    """Return the learning row that the rewards call for, and the reasons.

    Of a log larger than memory a sample of episodes decides, drawn with the seed.

    Light tails: plain FQI, because splitting costs accuracy. Heavy tails that come alone: FQI on
    Huber-regressed rewards where they are symmetric, which uses all rows and lets no outlier in; FQI on
    rewards with their 2 log n largest and smallest clipped where they are skewed, so that the bias goes
    away as the log grows. Heavy tails in clusters: ROOM-FQI, whose folds keep groups together; ten of
    them, because clusters spoil some.

    Examples
    --------
    >>> from tailproof.noise import StudentT
    >>> from tailproof.worlds import CartPole
    >>> chosen, reasons = choose_learner(CartPole().log(noise=StudentT(1.2), seed=3))
    >>> print(chosen)
    FQI
    >>> chosen.base.reward
    'huber'
    """
    features = features or basis_for(held(log, "The choice of features", seed=seed))
    shape = reward_shape(
        held(log, "The choice of a learner", features=features.size, seed=seed), features
    )
    seen = f"the plain mean's error is {shape.gain:.1f} times that of a robust one"
    if not shape.heavy:
        chosen = named_method("fqi")
        reasons = [f"Rewards have light tails ({seen}): plain FQI uses every row."]
    elif shape.unit == "step" and not shape.skewed:
        chosen = named_method("huber-reward")
        reasons = [
            f"Rewards have heavy tails ({seen}) that look symmetric (asymmetry "
            f"{shape.asymmetry:.1f}) and come alone: FQI on Huber-regressed rewards."
        ]
    elif shape.unit == "step":
        rows = round(_CLIPPED * np.log(log.n_transitions))
        chosen = named_method("fqi", clip=rows / log.n_transitions)
        reasons = [
            f"Rewards have heavy tails ({seen}) that are skewed (asymmetry {shape.asymmetry:.0f}) and "
            f"come alone: FQI on rewards with the {rows} largest and the {rows} smallest clipped."
        ]
    else:
        folds = min(10, log.n_groups)
        chosen = named_method("room-fqi", folds=folds)
        reasons = [
            f"Rewards have heavy tails ({seen}) that come in clusters (unit: {shape.unit}): ROOM-FQI "
            f"with {folds} folds."
        ]
    return chosen.with_settings(features=features), tuple(reasons)
