"""The default for one-step logs: one call from rows to a value, its spread and its gain."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tailproof.algorithms.base import Numbers
from tailproof.algorithms.one_step import words
from tailproof.algorithms.one_step.choice import OneStepChoice
from tailproof.algorithms.one_step.outcomes import (
    TREE_ROWS,
    Outcome,
    common_reward,
    fit_outcomes,
    no_outcome,
)
from tailproof.algorithms.one_step.rows import Rows, canonical_rows
from tailproof.algorithms.one_step.scores import (
    Scores,
    choose_outcome,
    doubly_robust,
    huber_location,
    marginal_weights,
    shrunk,
)
from tailproof.algorithms.one_step.spreads import Events, Rare, Spread, hall_spread
from tailproof.algorithms.one_step.weights import Weights, importance_weights
from tailproof.algorithms.task import Task
from tailproof.arrays import BoolArray, FloatArray
from tailproof.partition import Folds

RARE_EVENTS = 60  # fewer of them under the policy: gamma intervals instead of Hall's
_INSIDE = 0.05  # the point stays inside the interval that misses so often on either side


def one_step_numbers(task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
    """Estimate the policy's value from a one-step log with discrete actions, on each fold."""
    key = int(rng.integers(2**63))
    choices = []
    for k in range(folds.count):
        own = task if folds.count == 1 else replace_log(task, folds, k)
        choices.append(evaluate_rows(canonical_rows(own, np.random.default_rng(key))))
    values = np.array([choice.value for choice in choices])
    return Numbers(values, choice=choices[0] if folds.count == 1 else None)


def replace_log(task: Task, folds: Folds, member: int) -> Task:
    """Return the task on the log of one fold, starting where its episodes do."""
    return replace(task, log=folds.log(task.log, member), initial_states=None)


def evaluate_rows(rows: Rows) -> OneStepChoice:
    """Choose model, interval and point for the rows of a one-step log."""
    weights = importance_weights(rows)
    w = weights.normalised
    active = rows.sums(w) > 0
    common = common_reward(rows.rewards)
    rare = common is not None and _events(rows, w, common) < RARE_EVENTS
    outcomes = {"none": no_outcome(rows)} if rare else fit_outcomes(rows)
    name = choose_outcome(outcomes, w, rows)
    scores = doubly_robust(outcomes[name], w, rows.rewards)
    influence = per_unit(rows, scores.influence)
    spread: Spread
    if rare and common is not None and (rows.rewards != common).any():
        spread = rare_spread(rows, w, common)
    else:
        pooled = None if rows.grouped else (scores.residuals, words.mean_weight(w))
        spread = hall_spread(scores.value, influence, active, pooled=pooled)
    value, how, said = _point(
        rows, weights, outcomes, name, scores, spread, atom=common is not None
    )
    plain = doubly_robust(outcomes["none"], w, rows.rewards)
    plain_error = float(np.sqrt((per_unit(rows, plain.influence) ** 2).sum())) / rows.units
    logged = logged_spread(rows, common if rare else None)
    beaten = name != "none"
    unit = "group" if rows.grouped else "row"
    ratio = plain_error / spread.error if spread.error > 0 else 1.0
    return OneStepChoice(
        value=value,
        estimator=how,
        unit=unit,
        units=rows.units,
        spread=spread,
        plain_error=plain_error,
        logged_value=float(rows.rewards.mean()),
        logged_spread=logged,
        influence=influence,
        logged_influence=per_unit(rows, rows.rewards - rows.rewards.mean()),
        alternatives={
            "importance sampling": float((weights.raw * rows.rewards).mean()),
            "self-normalised importance sampling": plain.value,
            "doubly robust": scores.value,
            "marginal weights": _marginal(rows, outcomes, name).value,
        },
        reasons=words.reasons(
            propensities=weights.estimated,
            logged=weights.estimated is None,
            model=name,
            beaten=beaten,
            rare=rare,
            point=said,
            sampled=not rare and rows.count > 1.25 * TREE_ROWS,
            grouped=rows.grouped,
            gain=ratio,
        ),
        limits=words.limits(
            spread,
            influence,
            active,
            effective=weights.effective,
            unit=unit,
            unlogged=_unlogged(rows),
            propensities=weights.estimated,
        ),
        guarantee=guarantee(rows, weights.raw, known=weights.estimated is None),
    )


def per_unit(rows: Rows, influence: FloatArray) -> FloatArray:
    """Return the influence of each unit, scaled so that the error of the value is their mean, (U,)."""
    return rows.sums(influence) * (rows.units / rows.count)


def rare_spread(rows: Rows, weights: FloatArray, common: float) -> Rare:
    """Return gamma intervals of what differs from the common reward."""
    mean = words.mean_weight(weights)
    sides = []
    for sign in (1, -1):
        size = np.maximum(sign * (rows.rewards - common), 0)
        parts = rows.sums(weights * size) / rows.count
        largest = float(rows.sums(size).max()) * mean / rows.count
        sides.append(Events(float(parts.sum()), float((parts**2).sum()), largest))
    gains, losses = sides
    return Rare(common, gains, losses)


def logged_spread(rows: Rows, common: float | None) -> Spread:
    """Return the spread of the mean logged reward; `common` where events are rare."""
    influence = per_unit(rows, rows.rewards - rows.rewards.mean())
    every: BoolArray = np.ones(rows.units, dtype=bool)
    if common is not None and 0 < _events(rows, np.ones(rows.count), common) < RARE_EVENTS:
        return rare_spread(rows, np.ones(rows.count), common)
    return hall_spread(float(rows.rewards.mean()), influence, every, look_beyond=common is None)


def guarantee(rows: Rows, weights: FloatArray, *, known: bool) -> FloatArray | str:
    """Return w·r of each unit for the guaranteed bound, or why there is none."""
    if not known:
        return "it needs the propensities of the logging policy, and these are estimated."
    if (rows.rewards < 0).any():
        return "it needs rewards that are never negative, and some of these are."
    return per_unit(rows, weights * rows.rewards)


def _events(rows: Rows, weights: FloatArray, common: float) -> int:
    """Return how many units of the policy hold a reward that differs from the common one."""
    return int((rows.sums(((rows.rewards != common) & (weights > 0)).astype(float)) > 0).sum())


def _unlogged(rows: Rows) -> float:
    """Return the share of the policy's actions that the log never takes."""
    never = np.bincount(rows.actions, minlength=rows.n_actions) == 0
    return float(rows.policy[:, never].sum() / rows.count)


def _marginal(rows: Rows, outcomes: dict[str, Outcome], name: str) -> Scores:
    steady = outcomes[name] if name != "none" else outcomes.get("ridge", outcomes["none"])
    return doubly_robust(steady, marginal_weights(rows), rows.rewards)


def _point(
    rows: Rows,
    weights: Weights,
    outcomes: dict[str, Outcome],
    name: str,
    scores: Scores,
    spread: Spread,
    *,
    atom: bool,
) -> tuple[float, str, str]:
    """Return the point, what it is called, and why it is that one."""
    base = "weighted mean" if name == "none" else f"doubly robust mean ({name})"
    low, high = spread.ends(_INSIDE, _INSIDE)
    w = weights.normalised
    if not atom:
        unclipped = {key: each for key, each in outcomes.items() if key != "boosting"}
        steady = unclipped[choose_outcome(unclipped, w, rows)]
        location = huber_location(rows.rewards - steady.logged, w)
        if location is not None:
            point = float(np.clip(steady.policy.mean() + location, low, high))
            return (
                point,
                "Huber mean of doubly robust scores",
                "Both tails are heavy and alike: the point is a Huber mean, the interval that of all "
                "scores.",
            )
    target = _marginal(rows, outcomes, name)
    point = float(np.clip(shrunk(scores, target, rows), low, high))
    if abs(point - scores.value) <= 1e-9 * max(abs(scores.value), spread.error):
        return point, base, "The point is the plain mean of the scores."
    return (
        point,
        f"{base}, shrunk",
        "The point is moved towards the value by marginal weights, as far as chance explains their "
        "difference; the interval is not.",
    )
