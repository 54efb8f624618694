"""The default for one-step logs: one call from rows to a value, its spread and its gain."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from tailproof.algorithms.base import Numbers
from tailproof.algorithms.default.spreads import Spread, hall_spread
from tailproof.algorithms.on_log import PolicyOnLog, on_log
from tailproof.algorithms.one_step import words
from tailproof.algorithms.one_step.choice import OneStepChoice, guarantee, standard_error
from tailproof.algorithms.one_step.observations import (
    common_rewards,
    logged_spread,
    rare_spread,
)
from tailproof.algorithms.one_step.outcomes import TREE_ROWS, Outcome, fit_outcomes, no_outcome
from tailproof.algorithms.one_step.rows import Rows, canonical_rows
from tailproof.algorithms.one_step.scores import (
    Scores,
    choose_outcome,
    doubly_robust,
    huber_location,
    marginal_weights,
    shrunk,
)
from tailproof.algorithms.one_step.weights import importance_weights
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray
from tailproof.data.partition import Folds
from tailproof.engines.threads import one_tree_thread
from tailproof.judgement.rules import RULES
from tailproof.judgement.shape import reward_shape

_INSIDE = 0.05  # the point stays inside the interval that misses so often on either side


def one_step_numbers(task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
    """Estimate the policy's value from a one-step log with discrete actions, on each fold."""
    key = int(rng.integers(2**63))
    choices = []
    for k in range(folds.count):
        own = task if folds.count == 1 else replace_log(task, folds, k)
        rows = canonical_rows(own, np.random.default_rng(key))
        with one_tree_thread():
            choices.append(evaluate_rows(rows))
    values = np.array([choice.value for choice in choices])
    if folds.count > 1:
        return Numbers(values)
    return Numbers(values, choice=replace(choices[0], measured=partial(reward_shape, task.log)))


def replace_log(task: Task, folds: Folds, member: int) -> Task:
    """Return the task on the log of one fold, starting where its episodes do."""
    return replace(task, log=folds.log(task.log, member), initial_states=None)


def evaluate_rows(rows: Rows) -> OneStepChoice:
    """Choose model, interval and point for the rows of a one-step log."""
    weights = importance_weights(rows)
    w, observations = weights.normalised, rows.observations
    active = observations.sums(w) > 0
    common = common_rewards(rows.rewards, rows.actions, rows.n_actions)
    atoms = None if common is None else Outcome(common[rows.actions], rows.policy @ common)
    rare = atoms is not None and (
        observations.events((rows.rewards != atoms.logged) & (w > 0)) < RULES.rare_events
    )
    outcomes = {"none": atoms} if rare and atoms is not None else fit_outcomes(rows)
    name = choose_outcome(outcomes, w, rows)
    scores = doubly_robust(outcomes[name], w, rows.rewards)
    influence = observations.influence(scores.influence)
    mean_weight = float(w[w > 0].mean())
    spread: Spread
    if rare and atoms is not None and (rows.rewards != atoms.logged).any():
        differ = rows.rewards - atoms.logged
        spread = rare_spread(
            observations,
            float(atoms.policy.mean()),
            weighted=w * differ,
            sizes=differ,
            mean_weight=mean_weight,
            common_error=float(atoms.policy.std()) / np.sqrt(rows.count),
        )
    else:
        pooled = None if observations.name == "group" else (scores.residuals, mean_weight)
        spread = hall_spread(scores.value, influence, active, pooled=pooled)
    value, how, said = _point(rows, w, outcomes, name, scores, spread, atom=atoms is not None)
    plain = doubly_robust(no_outcome(rows), w, rows.rewards)
    plain_error = standard_error(observations.influence(plain.influence))
    return OneStepChoice(
        value=value,
        estimator=how,
        unit=observations.name,
        units=observations.count,
        spread=spread,
        plain_error=plain_error,
        logged_value=float(rows.rewards.mean()),
        logged_spread=logged_spread(
            observations,
            rows.rewards,
            common=None if atoms is None else atoms.logged,
            policy_is_rare=rare,
        ),
        influence=influence,
        logged_influence=observations.influence(rows.rewards - rows.rewards.mean()),
        alternatives={
            "importance sampling": float((weights.raw * rows.rewards).mean()),
            "self-normalised importance sampling": plain.value,
            "doubly robust": scores.value,
            "marginal weights": _marginal(rows, outcomes, name).value,
        },
        sentences=words.reasons(
            propensities=weights.estimated,
            model=name,
            rare=rare,
            point=said,
            sampled=not rare and rows.count > 1.25 * TREE_ROWS,
            grouped=observations.name == "group",
            gain=plain_error / spread.error if 0 < spread.error < np.inf else 1.0,
        ),
        caveats=words.limits(
            spread,
            influence,
            active,
            effective=weights.effective,
            unit=observations.name,
            unlogged=_unlogged(rows),
            propensities=weights.estimated,
        ),
        guarantee=guarantee(
            observations, weights.raw, rows.rewards, known=weights.estimated is None
        ),
        on_log=_on_log(rows, weights.raw),
        weights=weights.raw[np.argsort(rows.order)],
    )


def _on_log(rows: Rows, weights: FloatArray) -> PolicyOnLog:
    """Return what the policy does in the rows, with the log's own codes of actions."""
    shares = np.empty(rows.n_actions)
    shares[rows.codes] = rows.policy.mean(axis=0)
    agreement = float(rows.taken(rows.policy).mean())
    return on_log(rows.space, shares=shares, agreement=agreement, rows=rows.count, weights=weights)


def _unlogged(rows: Rows) -> float:
    """Return the share of the policy's actions that the log never takes."""
    never = np.bincount(rows.actions, minlength=rows.n_actions) == 0
    return float(rows.policy[:, never].sum() / rows.count)


def _marginal(rows: Rows, outcomes: dict[str, Outcome], name: str) -> Scores:
    steady = outcomes[name] if name != "none" else outcomes.get("ridge", outcomes["none"])
    return doubly_robust(steady, marginal_weights(rows), rows.rewards)


def _point(
    rows: Rows,
    w: FloatArray,
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
