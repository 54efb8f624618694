"""Weighted means of rows or episodes with their spread, for estimators chosen by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailproof.algorithms.default.spreads import Rare, hall_spread
from tailproof.algorithms.one_step.choice import (
    OneStepChoice,
    guarantee,
    one_step_choice,
    standard_error,
)
from tailproof.algorithms.one_step.observations import (
    Observations,
    common_rewards,
    common_value,
    rare_spread,
)
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.judgement.rules import RULES

#: Caution for intervals with changed weights.
BIASED = "it does not know the bias of the changed weights"
#: Caution for estimates that are robust means.
OF_THE_PLAIN_MEAN = "it is the interval of the plain mean, and holds the robust one"


def weighted_choice(
    log: Log,
    returns: FloatArray,
    weights: FloatArray,
    *,
    self_normalised: bool,
    guaranteed: bool = True,
    rare_below: int = RULES.rare_events,
    **said: Any,
) -> OneStepChoice | None:
    """Return mean(w G), over mean(w) if self-normalised, with its spread; None if all weights are 0.

    `returns` and `weights` are those of episodes, (E,); `guaranteed` says that the weights are the
    unchanged π/μ. With fewer than `rare_below` events under the policy the interval is one of rare
    events. `said` holds the name of the `estimator`, its `point` if that is not the plain mean, and
    `cautions`.
    """
    mean = float(weights.mean())
    if self_normalised and mean == 0:
        return None
    w = weights / mean if self_normalised else weights
    observations, common, scores = Observations.of(log), _common(log, returns), w * returns
    bound: FloatArray | str = "it needs the weights π/μ as they are."
    if guaranteed:
        bound = guarantee(observations, weights, returns, known=True)
    influence = w * (returns - float(scores.mean())) if self_normalised else None
    spread: Rare | None = None
    # the weighted mean of a non-zero common reward varies unless weights are normalised
    if common is not None and (self_normalised or not common.any()):
        differ = returns - common
        events = observations.events((differ != 0) & (weights > 0))
        if events < rare_below and differ.any() and w.any():
            usual = float((w * common).mean())
            error = standard_error(observations.influence(w * (common - usual)))
            spread = rare_spread(observations, usual, differ, w, common_error=error)
    return _choice(log, scores, influence, weights, returns, common, bound, spread, **said)


def scored_choice(
    log: Log,
    scores: FloatArray,
    *,
    weights: FloatArray,
    returns: FloatArray | None = None,
    influence: FloatArray | None = None,
    **said: Any,
) -> OneStepChoice:
    """Return the mean of scores, one for each episode, (E,), with its spread.

    The weights measure the overlap; `returns` are the logged returns, by default the rewards of a
    one-step log. If scores depend on each other, pass the `influence` of each episode, centred at 0.
    `said` is as in `weighted_choice`.
    """
    logged = log.rewards if returns is None else returns
    bound = "it is one of weighted rewards; ask 'ips' or 'tis' for it."
    return _choice(log, scores, influence, weights, logged, _common(log, logged), bound, **said)


def _common(log: Log, returns: FloatArray) -> FloatArray | None:
    """Return the most common return (of the action, if it differs) per episode, (E,), or None."""
    if log.is_bandit and log.is_discrete:
        table = common_rewards(returns, log.actions, log.n_actions)
        if table is not None:
            return table[log.actions]
    usual = common_value(returns)
    return None if usual is None else np.full(len(returns), usual)


def _choice(
    log: Log,
    scores: FloatArray,
    influence: FloatArray | None,
    weights: FloatArray,
    returns: FloatArray,
    common: FloatArray | None,
    bound: FloatArray | str,
    rare: Rare | None = None,
    *,
    estimator: str,
    cautions: tuple[str, ...] = (),
    point: float | None = None,
) -> OneStepChoice:
    value, observations = float(scores.mean()), Observations.of(log)
    moved = observations.influence(scores - value if influence is None else influence)
    active = (observations.sums(weights) > 0) | (moved != 0)
    return one_step_choice(
        observations,
        returns,
        weights,
        moved,
        hall_spread(value, moved, active) if rare is None else rare,
        common=common,
        rare=rare is not None,
        cautions=cautions,
        value=value if point is None else point,
        estimator=estimator,
        plain_error=standard_error(moved),
        alternatives={},
        guarantee=bound,
    )
