"""The default method for one-step logs: weights, scores by models of the reward, and the choice."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.critics.task import PolicyOnLog, Task, on_log
from tailproof.errors import LogError
from tailproof.estimators.choice import OneStepChoice, guarantee, limits_of, standard_error
from tailproof.profile.observations import Observations, rare_spread
from tailproof.profile.one_step import TREE_ROWS, OneStepRows, Outcome
from tailproof.profile.shape import RewardShape
from tailproof.robust.gains import Scored
from tailproof.robust.parts import Occurrences
from tailproof.robust.pooling import FEWEST_EVENTS, PooledPath, PoolingLevels, Scores
from tailproof.robust.sensitivity import GAMMAS, HiddenReasons, least_favourable_scores
from tailproof.robust.spreads import Spread, centred, hall_spread
from tailproof.rules import RULES

_MOST_PULL = 0.9  # largest share of the weights by which a row's residual is enlarged


def is_one_step(task: Task) -> bool:
    """Return whether the estimators for one-step logs apply: discrete actions, logged starts."""
    log = task.log
    if not (log.is_bandit and log.is_discrete):
        return False
    return task.initial_states is None or np.array_equal(task.initial_states, log.states)


class Prediction(NamedTuple):
    """A model's predictions for held-out rows, (n,) each."""

    logged: FloatArray  # q̂(s_i, a_i)
    policy: FloatArray  # Σ_a π(a | s_i) q̂(s_i, a)


class RowScores(NamedTuple):
    """A value, and the influence of each row on it."""

    value: float  # mean(q̂(s, π)) + Σ w (r − q̂) / Σ w
    influence: FloatArray  # (n,) centred at 0: the value's error is their mean
    residuals: FloatArray  # (n,) r − q̂(s, a)


def doubly_robust(outcome: Prediction, weights: FloatArray, rewards: FloatArray) -> RowScores:
    """Return the self-normalised doubly robust value; weights have the mean 1."""
    residuals = rewards - outcome.logged
    mean = float((weights * residuals).mean())
    direct = float(outcome.policy.mean())
    influence = outcome.policy - direct + weights * (residuals - mean)
    return RowScores(direct + mean, influence, residuals)


def with_leverage(
    observations: Observations, outcome: Prediction, weights: FloatArray, scores: RowScores
) -> FloatArray:
    """Return the influence of each observation on the value, as if it had not pulled it itself, (U,).

    A row with the share h of all weights pulls the mean residual towards its own: its residual from
    the mean of the others is 1/(1 − h) times as large (as in HC3 and the jackknife). Relative to equal
    weights, so that a policy that does what was logged has the log's own scores.
    """
    direct = observations.influence(outcome.policy - outcome.policy.mean())
    pulled = observations.influence(scores.influence) - direct
    share = np.minimum(observations.sums(weights) / len(weights), _MOST_PULL)
    even = observations.sums(np.ones(len(weights))) / len(weights)
    return np.asarray(direct + pulled * (1 - np.minimum(even, _MOST_PULL)) / (1 - share))


def row_weights(rows: OneStepRows, policy: FloatArray) -> FloatArray:
    """Return w_i = π(a_i | s_i) / μ(a_i | s_i), (n,)."""
    target = rows.taken(policy)
    if not target.any():
        raise LogError(
            "The log never takes an action that the policy takes in the same state, so it says "
            "nothing about the policy. Log some of its actions, or evaluate a policy closer to the "
            "log."
        )
    return target / rows.propensities.values


def action_weights(rows: OneStepRows, policy: FloatArray) -> FloatArray:
    """Return π̄(a) / P̂(a), the weights for actions independent of states, with mean 1, (n,)."""
    share = np.bincount(rows.actions, minlength=rows.n_actions) / rows.count
    ratio = policy.mean(axis=0) / np.maximum(share, 1 / rows.count)
    weights: FloatArray = ratio[rows.actions]
    mean = weights.mean()
    return weights / mean if mean > 0 else np.ones(rows.count)


def evaluate_rows(
    rows: OneStepRows, policy: FloatArray, shape: RewardShape | None = None
) -> OneStepChoice:
    """Choose model, interval and point for a policy.

    `policy` are its probabilities in the order of the rows, (n, A); `shape` is that of the rewards.
    """
    raw, estimated = row_weights(rows, policy), rows.propensities.estimated_by
    w, rewards, observations = raw / raw.mean(), rows.rewards, rows.observations
    models, rare = _models(rows, w)
    outcomes = {name: Prediction(each.logged, each.under(policy)) for name, each in models.items()}
    name = rows.least_varying(
        {key: doubly_robust(each, w, rows.clipped).influence for key, each in outcomes.items()}
    )
    scores = doubly_robust(outcomes[name], w, rewards)
    robust = None
    if rows.common is None and rows.robust is not None:
        direct = float(rows.robust.outcome.under(policy).mean())
        robust = direct + rows.robust.residual(rows, w)
    influence = with_leverage(observations, outcomes[name], w, scores)
    spread = _spread(rows, w, scores, influence, outcomes["none"] if rare else None)
    if robust is not None:
        spread = centred(spread, robust)
    steady = outcomes[name] if name != "none" else outcomes.get("ridge", outcomes["none"])
    even = action_weights(rows, policy)
    marginal = doubly_robust(steady, even, rewards)
    logged = rows.logged_scores(policy_is_rare=rare)
    paths = None
    if robust is None:
        paths = Paths(_path(rows, outcomes[name], w), _path(rows, steady, even))
    occurrences, in_log = _occurrences(rows, policy, w, even, 1.0 if paths is None else paths.kept)
    value, how, why = _point(name, scores, logged.value, robust, paths)
    nothing = Prediction(np.zeros(rows.count), np.zeros(rows.count))
    plain = doubly_robust(nothing, w, rewards)
    plain_error = standard_error(observations.influence(plain.influence))
    gain = plain_error / spread.error if 0 < spread.error < np.inf else 1.0
    limits = [*limits_of(observations, spread, influence, raw), *_cautions(rows, policy)]
    return OneStepChoice(
        value=value,
        spread=spread,
        influence=influence,
        limits="; ".join(limits),
        possible=logged.possible,
        logged=replace(logged, occurrences=in_log),
        occurrences=occurrences,
        unit=observations.name,
        units=observations.count,
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
        on_log=_on_log(rows, policy, raw),
        weights=rows.in_log(raw),
        point_influence=np.empty(0) if paths is None else paths.influence,
        unit_of_row=rows.unit_of_row,
        sample_influence=(rows.in_log(scores.influence) if observations.name == "group" else None),
        shape=shape,
        pooling=None if paths is None else paths.own,
        hidden_reasons=(
            None
            if estimated is None
            else _hidden_reasons(
                rows, policy, outcomes[name], spread, logged, spread.centre - logged.spread.centre
            )
        ),
    )


def _hidden_reasons(
    rows: OneStepRows,
    policy: FloatArray,
    outcome: Prediction,
    spread: Spread,
    logged: Scored,
    gain: float,
) -> HiddenReasons | None:
    """Return what hidden reasons for the logged actions leave of the gain, if it is not 0.

    The logged value needs no propensities and stays as it is.
    """
    if gain == 0:
        return None
    sign, observations = (1 if gain > 0 else -1), rows.observations
    target, propensity = rows.taken(policy), rows.propensities.values
    residuals = sign * (rows.rewards - outcome.logged)
    direct = sign * (outcome.policy - outcome.policy.mean())
    found = {
        gamma: least_favourable_scores(
            residuals, target, propensity, rows.actions, policy.mean(axis=0), gamma=gamma
        )
        for gamma in (1.0, *GAMMAS)
    }
    assert logged.influence is not None
    turned: FloatArray = sign * logged.influence
    every = np.ones(observations.count, dtype=bool)
    behind = Scored(
        value=sign * logged.value,
        spread=hall_spread(sign * logged.spread.centre, turned, every),
        influence=turned,
    )
    gains = []
    for gamma in GAMMAS:
        correction, parts = found[gamma]
        centre = sign * spread.centre + correction - found[1.0][0]
        influence = observations.influence(direct + parts)
        own = hall_spread(centre, influence, observations.sums(target) > 0)
        gains.append(Scored(value=centre, spread=own, influence=influence) - behind)
    return HiddenReasons(GAMMAS, tuple(gains), sign)


@dataclass(frozen=True)
class Paths:
    """Gains by tail pooling, with the policy's weights, and with weights that no state changes."""

    own: PooledPath
    marginal: PooledPath

    @property
    def gain(self) -> float:
        """The first, shrunk towards the second: b + d³ / (d² + var d), d = gain − b.

        The share d²/(d² + var d) of the difference is kept: nearly all if the two differ clearly.
        """
        if (kept := self.kept) == 1:
            return self.own.gain
        return self.marginal.gain + (self.own.gain - self.marginal.gain) * kept

    @property
    def kept(self) -> float:
        """The share of the difference between the two that is kept."""
        return 1.0 if (ratio := self._ratio) is None else 1 / (1 + ratio * ratio)

    @cached_property
    def _ratio(self) -> float | None:
        """The standard error of the difference over its size; None if either is 0."""
        moved = self.own.influence - self.marginal.influence
        difference, size = abs(self.own.gain - self.marginal.gain), float(np.abs(moved).max())
        if size == 0 or difference == 0:
            return None
        return size / difference * float(np.sqrt(((moved / size) ** 2).sum())) / len(moved)

    @property
    def influence(self) -> FloatArray:
        """The influence of each unit on the gain, to first order, (U,)."""
        moved = self.own.influence - self.marginal.influence
        if (ratio := self._ratio) is None:
            return self.own.influence
        square = ratio * ratio
        slope = (1 + 3 * square) / ((1 + square) * (1 + square)) if square < 1e100 else 0.0
        return self.marginal.influence + slope * moved


def _path(rows: OneStepRows, outcome: Prediction, weights: FloatArray) -> PooledPath:
    """Return the gains by pooled sizes.

    Sizes are pooled relative to those that the state predicts if that changes how often × mean size by
    more than chance: otherwise it would only add the spread of the predictions.
    """

    def path(levels: PoolingLevels) -> PooledPath:
        return levels.path(
            _scores(outcome, weights),
            weights=weights,
            explained=outcome.logged,
            sums=rows.observations.sums,
        )

    alike = path(rows.pooling)
    if rows.pooling_by_state is rows.pooling:
        return alike
    by_state = rows.pooling_by_state
    return path(by_state) if path(by_state.first).differs(alike) else alike


def _scores(outcome: Prediction, weights: FloatArray) -> Scores:
    """Return the doubly robust scores of the rows as a function of rewards; their mean is the value."""
    model, other = outcome.policy - weights * outcome.logged, 1 - weights
    residual = float((weights * outcome.logged).mean())

    def scores(rewards: FloatArray) -> FloatArray:
        weighted = weights * rewards
        return np.asarray(model + weighted + (float(weighted.mean()) - residual) * other)

    return scores


def _occurrences(
    rows: OneStepRows, policy: FloatArray, w: FloatArray, even: FloatArray, kept: float
) -> tuple[Occurrences | None, Occurrences | None]:
    """Return how often rewards differ from the usual one, under the policy and in the log.

    `even` are the weights that no state changes, towards which the share 1 − `kept` is shrunk. None
    where no reward is usual, where rewards differ from it on both sides or all by the same amount, and
    where the policy has fewer than 20 events.
    """
    common = rows.usual
    if rows.common is not None:
        usual, under = rows.common.logged, float(rows.common.under(policy).mean())
    elif common is not None:
        usual, under = np.full(rows.count, common), common
    else:
        return None, None
    excess = rows.rewards - usual
    events = excess != 0
    one_sided = excess.min() >= 0 or excess.max() <= 0
    differ = one_sided and np.ptp(excess[events]) > 0 if events.any() else False
    if not differ or rows.observations.events(events & (w > 0)) < FEWEST_EVENTS:
        return None, None

    def counted(weights: FloatArray, value: float) -> Occurrences:
        rate, size = float((weights * events).mean()), float((weights * excess).mean())
        return Occurrences(
            usual=value,
            rate=rate,
            excess=size,
            rate_influence=rows.observations.influence(weights * (events - rate)),
            excess_influence=rows.observations.influence(weights * (excess - size)),
        )

    found = counted(w, under)
    point = kept * found.rate + (1 - kept) * float((even * events).mean())
    return replace(found, rate_point=point), counted(np.ones(rows.count), float(usual.mean()))


def _models(rows: OneStepRows, weights: FloatArray) -> tuple[dict[str, Outcome], bool]:
    """Return the models of the reward, and whether the policy's events are too rare to fit any."""
    if rows.common is not None:
        differs = (rows.rewards != rows.common.logged) & (weights > 0)
        if rows.observations.events(differs) < RULES.rare_events:
            return {"none": rows.common}, True
    return rows.outcomes, False


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
    residuals, group = scores.residuals, None
    if observations.name == "group":
        # what an action changes is no difference between groups that had one action each
        means = np.bincount(rows.actions, residuals) / np.maximum(np.bincount(rows.actions), 1)
        residuals, group = residuals - means[rows.actions], observations.of_sample
    active = observations.sums(w) > 0
    return hall_spread(scores.value, influence, active, pooled=(residuals, w), group=group)


def _on_log(rows: OneStepRows, policy: FloatArray, weights: FloatArray) -> PolicyOnLog:
    """Return the policy's actions in the rows, with the log's own action codes."""
    shares = np.empty(rows.n_actions)
    shares[rows.codes] = policy.mean(axis=0)
    agreement = float(rows.taken(policy).mean())
    return on_log(rows.space, shares=shares, agreement=agreement, rows=rows.count, weights=weights)


def _point(
    name: str,
    scores: RowScores,
    logged: float,
    robust: float | None,
    paths: Paths | None,
) -> tuple[float, str, str]:
    """Return the point estimate, its name, and the reason for it."""
    if robust is not None or paths is None:
        return (
            scores.value if robust is None else robust,
            "Huber mean of doubly robust scores",
            "Both tails are heavy and alike: the estimate is a Huber mean, and its interval is as wide "
            "as that of all scores.",
        )
    base = "weighted mean" if name == "none" else f"doubly robust mean ({name})"
    # the largest rewards may all be of other actions: the point can lie beyond the scores' own interval
    point = logged + paths.gain
    if abs(point - scores.value) <= 1e-9 * max(abs(scores.value), abs(logged)):
        return point, base, "The estimate is the plain mean of the scores."
    if not np.isfinite(paths.own.begins):
        return (
            point,
            f"{base}, shrunk",
            "The estimate is averaged with that by marginal weights, as far as their difference may be "
            "chance; the interval is not.",
        )
    return (
        point,
        f"{base}, tail pooled",
        f"Rewards beyond about {abs(paths.own.begins):,.4g} are taken to be equally large under all "
        f"actions, as far as the log does not show otherwise: how often they come decides the "
        f"estimate. The interval does not assume it.",
    )


def _cautions(rows: OneStepRows, policy: FloatArray) -> tuple[str, ...]:
    """Return the errors that the interval does not include, in words."""
    never = np.bincount(rows.actions, minlength=rows.n_actions) == 0
    unlogged = float(policy[:, never].sum() / rows.count)
    said = []
    if unlogged > 0:
        said.append(
            f"{100 * unlogged:.0f} % of the policy's actions were never logged: of these the "
            f"interval knows nothing"
        )
    if rows.propensities.estimated_by is not None:
        said.append("estimated propensities are taken as true")
    return tuple(said)


def _reasons(
    rows: OneStepRows, estimated: str | None, model: str, *, rare: bool, point: str, gain: float
) -> tuple[str, ...]:
    """Return how the log was evaluated, in sentences."""
    said = "Rows are weighted by the logged propensities."
    if estimated is not None:
        said = (
            f"No propensities were logged: they are estimated by {estimated}, cross-fitted over 5 "
            f"folds, and none is below 1 %."
        )
    used = f"A model of the reward ({model}) makes the scores vary less: they are doubly robust."
    if rare:
        used = (
            f"Fewer than {RULES.rare_events} of the policy's rewards differ from the common one: every "
            f"one counts fully, and no model of the reward is fitted."
        )
    elif model == "none":
        used = "No model of the reward makes the scores vary clearly less: none is used."
    trees = "boosting" in model or estimated == "boosting"
    told_apart = rows.count if rows.copies is None else np.count_nonzero(rows.copies)
    sampled = trees and not rare and told_apart > 1.25 * TREE_ROWS
    more = {
        f"The trees (boosting) are fitted to a sample of {TREE_ROWS:,} rows.": sampled,
        "Rows of one group count as one observation.": rows.observations.name == "group",
        point: True,
        f"Plain importance sampling would have {gain:.1f} times this standard error.": gain > 1.05,
    }
    return (said, used, *(sentence for sentence, holds in more.items() if holds))
