"""Choices for estimators that a user names: weighted means of rows or episodes, with their spread."""

from __future__ import annotations

import numpy as np

from tailproof.algorithms.default.spreads import Spread, hall_spread
from tailproof.algorithms.one_step import words
from tailproof.algorithms.one_step.choice import OneStepChoice, guarantee, standard_error
from tailproof.algorithms.one_step.observations import (
    Observations,
    common_rewards,
    common_value,
    logged_spread,
    rare_spread,
)
from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.judgement.rules import RULES

#: What an interval of changed weights cannot know.
BIASED = "it does not know the bias of the changed weights"
#: What it is of where the estimate is a robust mean.
OF_THE_PLAIN_MEAN = "it is the interval of the plain mean, and holds the robust one"


def weighted_choice(
    log: Log,
    returns: FloatArray,
    weights: FloatArray,
    *,
    self_normalised: bool,
    estimator: str,
    guaranteed: bool = True,
    cautions: tuple[str, ...] = (),
    point: float | None = None,
    rare_below: int = RULES.rare_events,
) -> OneStepChoice | None:
    """Return mean(w G), over mean(w) if self-normalised, with its spread; None if no weight is left.

    Parameters
    ----------
    returns, weights
        Of each episode, (E,): in one-step logs its reward.
    point
        The estimate, where it is another mean than the plain one.
    rare_below
        Events under the policy below which the interval is one of rare events.
    guaranteed
        Whether the weights are π/μ as they are, so that the guaranteed bound holds.
    """
    mean = float(weights.mean())
    if self_normalised and mean == 0:
        return None
    w = weights / mean if self_normalised else weights
    observations = Observations.of(log)
    value = float((w * returns).mean())
    scores = w * (returns - value) if self_normalised else w * returns - value
    common = _common(log, returns)
    spread: Spread | None = None
    # a common reward other than 0 moves with the weights, unless these are normalised
    if common is not None and (self_normalised or not common.any()):
        differ = returns - common
        events = observations.events((differ != 0) & (weights > 0))
        if events < rare_below and differ.any() and w.any():
            usual = float((w * common).mean())
            spread = rare_spread(
                observations,
                usual,
                weighted=w * differ,
                sizes=differ,
                mean_weight=float(w[w > 0].mean()),
                common_error=standard_error(observations.influence(w * (common - usual))),
            )
    return _choice(
        observations,
        value,
        scores,
        weights,
        returns,
        common=common,
        spread=spread,
        point=point,
        estimator=estimator,
        cautions=cautions,
        bound=guarantee(observations, weights, returns, known=True)
        if guaranteed
        else "it needs the weights π/μ as they are.",
    )


def scored_choice(
    log: Log,
    scores: FloatArray,
    *,
    weights: FloatArray,
    returns: FloatArray | None = None,
    estimator: str,
    cautions: tuple[str, ...] = (),
    influence: FloatArray | None = None,
    point: float | None = None,
) -> OneStepChoice:
    """Return the mean of scores, one for each episode, with its spread.

    Parameters
    ----------
    scores
        Whose mean is the value, (E,).
    weights
        Of each episode, to tell what the overlap is, (E,).
    returns
        What was logged, (E,); the rewards of a one-step log by default.
    influence
        Of each episode, centred at 0, where the scores are not independent of each other, (E,).
    """
    value = float(scores.mean())
    logged = log.rewards if returns is None else returns
    return _choice(
        Observations.of(log),
        value,
        scores - value if influence is None else influence,
        weights,
        logged,
        common=_common(log, logged),
        spread=None,
        point=point,
        estimator=estimator,
        cautions=cautions,
        bound="it is one of weighted rewards; ask 'ips' or 'tis' for it.",
    )


def _common(log: Log, returns: FloatArray) -> FloatArray | None:
    """Return the return that most episodes share, which may differ between actions, (E,), or None."""
    if log.is_bandit and log.is_discrete:
        table = common_rewards(returns, log.actions, log.n_actions)
        if table is not None:
            return table[log.actions]
    usual = common_value(returns)
    return None if usual is None else np.full(len(returns), usual)


def _choice(
    observations: Observations,
    value: float,
    influence: FloatArray,
    weights: FloatArray,
    returns: FloatArray,
    *,
    common: FloatArray | None,
    spread: Spread | None,
    point: float | None,
    estimator: str,
    cautions: tuple[str, ...],
    bound: FloatArray | str,
) -> OneStepChoice:
    active = observations.sums(weights) > 0
    moved = observations.influence(influence)
    found = hall_spread(value, moved, active | (moved != 0)) if spread is None else spread
    squares = float((weights**2).sum())
    return OneStepChoice(
        value=value if point is None else point,
        estimator=estimator,
        unit=observations.name,
        units=observations.count,
        spread=found,
        plain_error=standard_error(moved),
        logged_value=float(returns.mean()),
        logged_spread=logged_spread(
            observations,
            returns,
            common=common,
            policy_is_rare=spread is not None,
        ),
        influence=moved,
        logged_influence=observations.influence(returns - returns.mean()),
        alternatives={},
        sentences=(),
        caveats="; ".join(
            [
                words.limits(
                    found,
                    moved,
                    active,
                    effective=float(weights.sum()) ** 2 / squares if squares > 0 else 0.0,
                    unit=observations.name,
                ),
                *cautions,
            ]
        ),
        guarantee=bound,
    )
