"""Which learner is linear in the features and suits the rewards: what these look like decides."""

from __future__ import annotations

import numpy as np

from tailproof.data.stored import AnyLog, held
from tailproof.features import Features
from tailproof.features.ladder import basis_for
from tailproof.judgement.shape import reward_shape
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method

_CLIPPED = 2.0  # times log n rewards are clipped on either side where they are skewed


def choose_learner(
    log: AnyLog, features: Features | None = None, *, seed: int = 0
) -> tuple[Method, tuple[str, ...]]:
    """Return the learning row that the rewards call for, and the reasons.

    The rewards are those that `evaluate` and `diagnose` see (`tailproof.judgement.shape`). Of a log
    larger than memory a sample of episodes decides, drawn with the seed.

    Light tails, and rewards of which few differ from the common one: plain FQI, because splitting and
    clipping cost accuracy. Heavy tails that come alone: FQI on Huber-regressed rewards where they are
    symmetric, which uses all rows and lets no outlier in; FQI on rewards with their 2 log n largest and
    smallest clipped where they are skewed, so that the bias goes away as the log grows. Heavy tails in
    clusters: ROOM-FQI, whose folds keep groups together; ten of them, because clusters spoil some.

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
    data = held(log, "The choice of a learner", seed=seed)
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
