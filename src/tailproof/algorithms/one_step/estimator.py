"""The default method for one-step logs: from rows to a value, its spread and its gain."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from tailproof.algorithms.base import Numbers
from tailproof.algorithms.default.spreads import Spread, centred, hall_spread
from tailproof.algorithms.on_log import PolicyOnLog, on_log
from tailproof.algorithms.one_step.choice import (
    OneStepChoice,
    guarantee,
    one_step_choice,
    standard_error,
)
from tailproof.algorithms.one_step.observations import common_rewards, rare_spread
from tailproof.algorithms.one_step.outcomes import TREE_ROWS, Prediction, fit_outcomes, no_outcome
from tailproof.algorithms.one_step.rows import OneStepRows, canonical_rows
from tailproof.algorithms.one_step.scores import (
    RowScores,
    action_weights,
    best_fit,
    choose_outcome,
    doubly_robust,
    huber_threshold,
    shrunk,
    weighted_huber,
)
from tailproof.algorithms.one_step.weights import row_weights
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.data.partition import Folds
from tailproof.engines.threads import one_tree_thread
from tailproof.judgement.rules import RULES
from tailproof.judgement.shape import reward_shape

_INSIDE = 0.05  # the point is clipped to the interval with this error probability on each side


def one_step_numbers(task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
    """Estimate the policy's value from a one-step log with discrete actions, on each fold."""
    key = int(rng.integers(2**63))
    choices = []
    for k in range(folds.count):
        own = task
        if folds.count > 1:
            own = replace(task, log=folds.log(task.log, k), initial_states=None)
        with one_tree_thread():
            choices.append(evaluate_rows(canonical_rows(own, np.random.default_rng(key))))
    values = np.array([choice.value for choice in choices])
    if folds.count > 1:
        return Numbers(values)
    return Numbers(values, choice=replace(choices[0], measured=partial(reward_shape, task.log)))


def evaluate_rows(rows: OneStepRows) -> OneStepChoice:
    """Choose model, interval and point for the rows of a one-step log."""
    raw, estimated = row_weights(rows)
    w, rewards, observations = raw / raw.mean(), rows.rewards, rows.observations
    common = common_rewards(rewards, rows.actions, rows.n_actions)
    atoms = None if common is None else Prediction(common[rows.actions], rows.policy @ common)
    rare = atoms is not None and (
        observations.events((rewards != atoms.logged) & (w > 0)) < RULES.rare_events
    )
    outcomes = {"none": atoms} if rare and atoms is not None else fit_outcomes(rows)
    name = choose_outcome(outcomes, w, rows)
    scores = doubly_robust(outcomes[name], w, rewards)
    robust, logged = _huber_means(rows, w, outcomes) if atoms is None else (None, None)
    influence = observations.influence(scores.influence)
    spread = _spread(rows, w, scores, influence, atoms if rare else None)
    if robust is not None:
        spread = centred(spread, robust)
    steady = outcomes[name] if name != "none" else outcomes.get("ridge", outcomes["none"])
    marginal = doubly_robust(steady, action_weights(rows), rewards)
    value, how, why = _point(rows, name, scores, marginal, spread, robust)
    plain = doubly_robust(no_outcome(rows), w, rewards)
    plain_error = standard_error(observations.influence(plain.influence))
    gain = plain_error / spread.error if 0 < spread.error < np.inf else 1.0
    return one_step_choice(
        observations,
        rewards,
        raw,
        influence,
        spread,
        common=None if atoms is None else atoms.logged,
        rare=rare,
        robust=logged,
        cautions=_cautions(rows, estimated),
        value=value,
        estimator=how,
        plain_error=plain_error,
        alternatives={
            "importance sampling": float((raw * rewards).mean()),
            "self-normalised importance sampling": plain.value,
            "doubly robust": scores.value,
            "marginal weights": marginal.value,
        },
        sentences=_reasons(rows, estimated, name, rare=rare, point=why, gain=gain),
        guarantee=guarantee(observations, raw, rewards, known=estimated is None),
        on_log=_on_log(rows, raw),
        weights=raw[np.argsort(rows.order)],
    )


def _spread(
    rows: OneStepRows,
    w: FloatArray,
    scores: RowScores,
    influence: FloatArray,
    rare: Prediction | None,
) -> Spread:
    """Return the spread of the mean score: `Rare` for rare events, otherwise `Hall`."""
    observations = rows.observations
    if rare is not None and (rows.rewards != rare.logged).any():
        error = float(rare.policy.std()) / np.sqrt(rows.count)
        usual, differ = float(rare.policy.mean()), rows.rewards - rare.logged
        return rare_spread(observations, usual, differ, w, common_error=error)
    pooled = None
    if observations.name != "group":
        pooled = scores.residuals, float(w[w > 0].mean())
    return hall_spread(scores.value, influence, observations.sums(w) > 0, pooled=pooled)


def _on_log(rows: OneStepRows, weights: FloatArray) -> PolicyOnLog:
    """Return the policy's actions in the rows, with the log's own action codes."""
    shares = np.empty(rows.n_actions)
    shares[rows.codes] = rows.policy.mean(axis=0)
    agreement = float(rows.taken(rows.policy).mean())
    return on_log(rows.space, shares=shares, agreement=agreement, rows=rows.count, weights=weights)


def _huber_means(
    rows: OneStepRows, w: FloatArray, outcomes: dict[str, Prediction]
) -> tuple[float, float] | tuple[None, None]:
    """Return Huber means of the policy's and the log's scores, or None if tails are not alike.

    The log alone decides about that, the model and the threshold: a policy that does what was logged
    must have the logged value.
    """
    even = np.ones(rows.count)
    unclipped = {key: each for key, each in outcomes.items() if key != "boosting"}
    steady = unclipped[best_fit(unclipped, rows)]
    residuals = rows.rewards - steady.logged
    if (threshold := huber_threshold(residuals, rows.actions)) is None:
        return None, None
    own, logged = (weighted_huber(residuals, each, threshold) for each in (w, even))
    return float(steady.policy.mean()) + own, float(steady.logged.mean()) + logged


def _point(
    rows: OneStepRows,
    name: str,
    scores: RowScores,
    marginal: RowScores,
    spread: Spread,
    robust: float | None,
) -> tuple[float, str, str]:
    """Return the point estimate, its name, and the reason for it."""
    if robust is not None:
        return (
            robust,
            "Huber mean of doubly robust scores",
            "Both tails are heavy and alike: the point is a Huber mean, and the middle of an interval "
            "that is as wide as all scores make it.",
        )
    low, high = spread.ends(_INSIDE, _INSIDE)
    base = "weighted mean" if name == "none" else f"doubly robust mean ({name})"
    point = float(np.clip(shrunk(scores, marginal, rows), low, high))
    if abs(point - scores.value) <= 1e-9 * max(abs(scores.value), spread.error):
        return point, base, "The point is the plain mean of the scores."
    return (
        point,
        f"{base}, shrunk",
        "The point is moved towards the value by marginal weights, as far as chance explains their "
        "difference; the interval is not.",
    )


def _cautions(rows: OneStepRows, estimated: str | None) -> tuple[str, ...]:
    """Return the errors that the interval does not include, in words."""
    never = np.bincount(rows.actions, minlength=rows.n_actions) == 0
    unlogged = float(rows.policy[:, never].sum() / rows.count)
    said = []
    if unlogged > 0:
        said.append(
            f"{unlogged:.0%} of the policy's actions were never logged: of these the interval knows "
            f"nothing"
        )
    if estimated is not None:
        said.append("it takes the estimated propensities for the true ones")
    return tuple(said)


def _reasons(
    rows: OneStepRows, estimated: str | None, model: str, *, rare: bool, point: str, gain: float
) -> tuple[str, ...]:
    """Return how the log was evaluated, in sentences."""
    said = "The logged propensities weigh the rows."
    if estimated is not None:
        said = (
            f"No propensities were logged: they are estimated by {estimated}, cross-fitted over 5 "
            f"folds, and none is below 1 %."
        )
    used = f"A model of the reward ({model}) makes the scores vary less, so they are doubly robust."
    if rare:
        used = (
            f"Fewer than {RULES.rare_events} of the policy's rewards differ from the common one: every "
            f"one counts fully, and no model of the reward is fitted."
        )
    elif model == "none":
        used = "No model of the reward makes the scores vary clearly less: plain weighted rewards."
    sampled = not rare and rows.count > 1.25 * TREE_ROWS
    more = {
        "The trees learnt from a sample of 100,000 rows.": sampled,
        "Rows of one group count as one observation.": rows.observations.name == "group",
        point: True,
        f"Plain importance sampling has {gain:.1f} times the standard error.": gain > 1.05,
    }
    return (said, used, *(sentence for sentence, holds in more.items() if holds))
