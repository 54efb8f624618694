"""One-step logs beyond their memory budget: models of the reward on a sample, scores of all rows."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.ridge import gcv_ridge
from tailproof.critics.task import Task, on_log
from tailproof.errors import LogError
from tailproof.estimators.choice import OneStepChoice, guarantee
from tailproof.estimators.importance import scored_choice
from tailproof.features import Basis
from tailproof.log.budget import fits_budget, sampled_episodes
from tailproof.log.log import Log
from tailproof.policies.forms import BoundPolicy
from tailproof.profile.observations import Observations
from tailproof.profile.one_step import winsorised
from tailproof.profile.profile import LogProfile
from tailproof.rules import RULES

_FEWEST = 30  # rows of an action with a model of its own


def scores_in_pieces(log: Log) -> bool:
    """Return whether all rows of a log that is too large for the other models can be scored."""
    known = log.is_bandit and log.is_discrete and log.propensity is not None
    return bool(known and not fits_budget(log))


@dataclass(frozen=True, eq=False)
class _Models:
    """q̂(s, a) = ψ(s)ᵀθ_a of two halves of a sample; rows of the first half use the second model."""

    acts: BoundPolicy
    log: Log
    basis: Basis
    theta: FloatArray  # (2, A, e)
    first_half: IntArray  # rows of the first half, increasing


class _Part(NamedTuple):
    """The scores of some rows."""

    weights: FloatArray  # (m,) π(a|s) / μ(a|s)
    direct: FloatArray  # (m,) Σ_a π(a|s) q̂(s, a)
    predicted: FloatArray  # (m,) q̂(s, a)
    shares: FloatArray  # (A,) summed probabilities of the policy's actions
    agreement: float  # summed probability of the logged actions


def _score_part(models: _Models, part: range) -> _Part:
    """Return the scores of one part of the log, read in chunks."""
    log, found = models.log, []
    for piece in log.chunks(part):
        own = slice(piece.first, piece.first + len(piece))
        at = np.arange(len(piece)), np.asarray(piece.actions, dtype=np.intp)
        chances = models.acts.probabilities(piece.states, log.table_rows.rows[own])
        psi = models.basis(piece.states)
        q = psi @ models.theta[0].T  # (m, A)
        low, high = np.searchsorted(models.first_half, [own.start, own.stop])
        inside = models.first_half[low:high] - own.start
        q[inside] = psi[inside] @ models.theta[1].T
        taken = chances[at]
        assert piece.propensity is not None
        found.append(
            _Part(
                taken / piece.propensity,
                (chances * q).sum(axis=1),
                q[at],
                chances.sum(axis=0),
                float(taken.sum()),
            )
        )
    return _Part(
        np.concatenate([each.weights for each in found]),
        np.concatenate([each.direct for each in found]),
        np.concatenate([each.predicted for each in found]),
        np.sum([each.shares for each in found], axis=0),
        sum(each.agreement for each in found),
    )


def _fitted(some: Log, half: IntArray) -> tuple[Basis, FloatArray]:
    """Return features of the state, and coefficients of each action by halves, (2, A, e)."""
    products = len(some.state_names) ** 2 * 20 <= some.n_transitions
    basis = Basis.fit(some.states, products=products)
    psi, clipped = basis(some.states), winsorised(some.rewards)
    shift = float(some.rewards.mean() - clipped.mean())
    theta = np.zeros((2, some.n_actions, psi.shape[1]))
    for k in (0, 1):
        train = half == k
        overall = float(clipped[train].mean())
        for action in range(some.n_actions):
            own = np.flatnonzero(train & (some.actions == action))
            level = overall
            if len(own) >= _FEWEST:
                theta[k, action], level = gcv_ridge(psi[own], clipped[own])
            theta[k, action] += (level + shift) * basis.constant()
    return basis, theta


def evaluate_in_pieces(task: Task, profile: LogProfile, *, seed: int) -> OneStepChoice:
    """Return the self-normalised doubly robust value of a policy, with the scores of all rows.

    Models of the reward are fitted to a sample of `RULES.settled` rows, in two halves of whole groups,
    so that no row is predicted by a model that saw it. Propensities are the logged ones.
    """
    log = task.log
    chosen = sampled_episodes(log, min(RULES.settled, log.n_transitions), seed=seed)
    some, rows = log.take(chosen), log.rows(chosen)
    half = some.group_of_episode % 2
    models = _Models(task.acts, log, *_fitted(some, half), np.sort(rows[half == 0]))
    parts = task.engine.map(_score_part, log.parts, shared=models)
    raw, direct, predicted = (
        np.concatenate([getattr(part, name) for part in parts])
        for name in ("weights", "direct", "predicted")
    )
    mean = float(raw.mean())
    if mean == 0:
        raise LogError(
            "The log never takes an action that the policy takes in the same state, so it says "
            "nothing about the policy. Log some of its actions, or evaluate a policy closer to the "
            "log."
        )
    weights, rewards = raw / mean, np.asarray(log.rewards, dtype=float)
    helps = _helps(weights[rows], direct[rows], predicted[rows], winsorised(some.rewards))
    used = "A model of the reward makes the scores vary less: they are doubly robust"
    if not helps:
        direct, predicted = np.zeros(len(raw)), np.zeros(len(raw))
        used = "No model of the reward makes the scores vary clearly less: none is used"
    residual = weights * (rewards - predicted)
    scores = direct + residual
    influence = scores - scores.mean() - (weights - 1) * float(residual.mean())
    found = scored_choice(
        log,
        scores,
        weights=raw,
        influence=influence,
        estimator="doubly robust mean (per action)" if helps else "weighted mean",
    )
    return replace(
        found,
        weights=raw,
        shape=profile.reward_shape,
        guarantee=guarantee(Observations.of(log), raw, rewards, known=True),
        on_log=on_log(
            log.action_space,
            shares=np.sum([part.shares for part in parts], axis=0) / len(raw),
            agreement=sum(part.agreement for part in parts) / len(raw),
            rows=len(raw),
            weights=raw,
        ),
        sentences=(
            "Rows are weighted by the logged propensities.",
            f"{used}; fitted to {len(rows):,} rows, because more exceed the memory budget. All "
            f"{len(raw):,} rows are scored, and sizes of extremes are not pooled.",
        ),
    )


def _helps(
    weights: FloatArray, direct: FloatArray, predicted: FloatArray, rewards: FloatArray
) -> bool:
    """Return whether the model makes the scores of a sample vary less, by one standard error."""
    squares = []
    for model, logged in ((0.0, 0.0), (direct - direct.mean(), predicted)):
        residual = rewards - logged
        centre = float(np.average(residual, weights=weights)) if weights.any() else 0.0
        squares.append((model + weights * (residual - centre)) ** 2)
    lead = squares[0] - squares[1]
    return bool(lead.mean() > lead.std() / np.sqrt(len(lead)))
