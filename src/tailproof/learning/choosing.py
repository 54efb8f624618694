"""Choice of a linear learner from the tails, skew and clustering of the rewards."""

from __future__ import annotations

import numpy as np

from tailproof.data.stored import AnyLog, sample_to_budget
from tailproof.features import Features
from tailproof.features.ladder import basis_for
from tailproof.judgement.shape import reward_shape
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method

_CLIPPED = 2.0  # times log n rewards are clipped on each side if they are skewed


def choose_learner(
    log: AnyLog, features: Features | None = None, *, seed: int = 0
) -> tuple[Method, tuple[str, ...]]:
    """Return the learning method that suits the rewards, and the reasons.

    The shape of the rewards is that of `evaluate` and `diagnose` (`tailproof.judgement.shape`). For a
    log larger than memory it is measured on a sample of episodes, drawn with the seed.

    Light tails, or few rewards that differ from the common one: plain FQI, because splitting and
    clipping lose accuracy. Heavy tails with isolated extremes: if symmetric, FQI on Huber-regressed
    rewards, which uses all rows and limits every outlier; if skewed, FQI on rewards with the 2 log n
    largest and smallest clipped, so that the bias vanishes as the log grows. Heavy tails with clustered
    extremes: ROOM-FQI, whose folds keep groups together; ten folds, because clusters spoil some.

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
    data = sample_to_budget(log, "The choice of a learner", seed=seed)
    shape = reward_shape(data)
    if shape.tails != "heavy":
        chosen, why = named_method("fqi"), "Plain FQI uses every row as it is."
    elif shape.unit not in ("row", "step"):
        folds = min(10, log.n_groups)
        chosen, why = named_method("room-fqi", folds=folds), f"ROOM-FQI with {folds} folds."
    elif shape.skewed:
        rows = round(_CLIPPED * np.log(log.n_transitions))
        chosen = named_method("fqi", clip=rows / log.n_transitions)
        why = f"FQI on rewards with the {rows} largest and the {rows} smallest clipped."
    else:
        chosen, why = named_method("huber-reward"), "FQI on Huber-regressed rewards."
    chosen = chosen.with_settings(features=features or basis_for(data))
    return chosen, (*shape.sentences, why)
