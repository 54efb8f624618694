"""The default method: use critics as complex as the log requires, then choose the mean."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.critics.base import Capabilities, Numbers
from tailproof.critics.linear import (
    Regression,
    huber_regression,
    robust_scale,
)
from tailproof.critics.penalties import RidgeChoice, as_ridge
from tailproof.critics.task import Target, Task, on_log
from tailproof.critics.walks import Visits, visits
from tailproof.errors import Caution
from tailproof.estimators.choice import Choice, SequentialChoice, too_few_units
from tailproof.estimators.ladder import (
    Blend,
    LoggedReturns,
    Map,
    Rung,
    System,
    climb,
    fit_rung,
    jackknife_error,
    logged_rung,
    single,
)
from tailproof.estimators.one_step import evaluate_rows, is_one_step
from tailproof.estimators.pieces import evaluate_in_pieces, scores_in_pieces
from tailproof.features import Features, as_features
from tailproof.features.ladder import basis_for
from tailproof.log.columns import CriticColumns
from tailproof.log.folds import Folds
from tailproof.log.horizon import time_limit
from tailproof.log.log import Log, discounted_returns
from tailproof.parallel import Local
from tailproof.parameters import Configurable
from tailproof.profile.one_step import OneStepRows
from tailproof.profile.profile import LogProfile
from tailproof.profile.shape import RewardFit, sums
from tailproof.robust.gains import Scored, possible_values
from tailproof.robust.huber_path import Nuisance, Path, huber_estimates
from tailproof.robust.means import AdaptiveHuber, Catoni, MedianOfMeans
from tailproof.robust.pooling import PooledPath, pooled_path
from tailproof.robust.spreads import Hall, few_units, hall_spread
from tailproof.robust.tails import effective_rows
from tailproof.rules import RULES


@dataclass(frozen=True, eq=False)
class MeanChoice:
    """The mean of the weighted residuals w·(r − r̃), chosen by their tails, skew and clustering.

    `doubt` is the distance of the adaptive Huber mean from this one where the log is too small to
    decide whether heavy-tailed residuals are symmetric; otherwise 0.
    """

    value: float
    how: str
    rewards: RewardFit  # of the log, with the units of the mean
    asymmetry: float  # the evidence of skew
    skewed: bool  # whether the asymmetry is significant
    doubt: float
    error: float  # of this mean, the regression's noise included
    plain_error: float  # of the plain mean
    influence: FloatArray  # (U,) of each unit on the estimate, the transitions' noise included
    path: Path  # the Huber means of all thresholds
    samples: FloatArray  # (U,) the averaged samples

    def others(self, rng: np.random.Generator) -> dict[str, float]:
        """Return the values of other means."""
        samples = self.samples
        return {
            "plain LSTD": float(self.path.estimates[-1]),
            "adaptive Huber": AdaptiveHuber()(samples),
            "Catoni": Catoni()(samples),
            "median of 20 means": MedianOfMeans(min(20, len(samples)))(samples, rng=rng),
            "Huber regression": 0.0,
        }

    def with_influence(self, rows: FloatArray) -> MeanChoice:
        """Return the choice with these influences of the rows, (n,), in place of its own."""
        count = self.rewards.shape.units
        total = sums(self.rewards.unit_of_row, rows, count) * count / len(rows)
        total -= total.mean()
        error = float(np.sqrt((total**2).sum())) / count
        return replace(self, influence=total, error=error)


def choose_mean(rewards: RewardFit, weights: FloatArray, transition: FloatArray) -> MeanChoice:
    """Choose the mean of w·(r − r̃), with weights w, (n,).

    `transition` is w·δ with r̃ in place of the rewards, (n,): noise that every mean shares.
    """
    fit, shape = rewards.fit, rewards.shape
    unit, count = rewards.unit_of_row, shape.units
    n = len(weights)
    samples = sums(unit, weights * fit.residuals, count) * count / n
    common = sums(unit, transition, count) * count / n
    nuisance = _nuisance(unit, count, rewards.phi, weights, fit)
    path = huber_estimates(samples, nuisance=nuisance, common=common)
    asymmetry = max(path.asymmetry(), shape.asymmetry)
    skewed = asymmetry > RULES.skewed
    adaptive, plain = AdaptiveHuber()(samples), float(path.estimates[-1])
    last = len(path.estimates) - 1
    if skewed:
        nearest = int(np.abs(path.estimates - adaptive).argmin())
        gap = np.sqrt(path.differences[nearest, -1])
        keep_all = shape.sparse or abs(adaptive - plain) > RULES.caution * gap + 1e-12
        chosen, mean = last, plain if keep_all else adaptive
        how = "plain mean" if keep_all else "adaptive Huber mean"
    else:
        robust = shape.worthwhile and not shape.sparse
        chosen = path.choose(RULES.caution) if robust else last
        mean = float(path.estimates[chosen])
        how = "plain mean" if chosen == last else "Huber mean"
    matters = path.variances[-1] > 2 * path.variances[chosen]
    unsure = not skewed and count < RULES.settling and asymmetry > RULES.unsure and bool(matters)
    return MeanChoice(
        value=mean,
        how=how,
        rewards=rewards,
        asymmetry=asymmetry,
        skewed=skewed,
        doubt=abs(adaptive - mean) if unsure else 0.0,
        error=float(np.sqrt(path.variances[chosen])),
        plain_error=float(np.sqrt(path.variances[-1])),
        influence=_influence(samples, path, chosen) + common,
        path=path,
        samples=samples,
    )


def _influence(samples: FloatArray, path: Path, chosen: int) -> FloatArray:
    """Return the influence of each sample on a Huber mean, (U,)."""
    off = samples - path.estimates[chosen]
    limit = path.thresholds[chosen]
    if limit == 0:
        return np.zeros_like(samples)
    inside = max(float(np.mean(np.abs(off) < limit)), 1 / len(samples))
    return np.asarray(np.clip(off, -limit, limit) / inside)


def _nuisance(
    unit: IntArray, count: int, phi: FloatArray, weights: FloatArray, fit: Regression
) -> Nuisance:
    """Return the derivatives of samples in the regression's β, and of β; see `huber_estimates`."""
    n = len(phi)
    if count == n:  # units are steps: summing would only copy the features twice
        return Nuisance(phi, weights, phi, fit.scores, fit.inverse)
    scale = np.full(count, count / n)
    falls = sums(unit, weights[:, None] * phi, count)
    responses = sums(unit, fit.scores[:, None] * phi, count)
    return Nuisance(falls, scale, responses, scale, fit.inverse)


_WEIGHED = 20  # most steps with importance weights
LADDER_ROWS = 200_000  # more rows take much longer and gain little accuracy


@dataclass(frozen=True, kw_only=True)
class Auto(Configurable):
    """A critic as complex as the log requires, and a mean chosen from the rewards' distribution.

    The critic is a mixture of rungs (`climb`), each linear in the rewards, so that with its weights w
    Ĵ = J(r̃) + mean(w (r − r̃)), where r̃ is a Huber regression of the reward on φ; the second
    mean corrects its error. That mean is taken over steps, or over sums of episodes or groups where
    extremes come in clusters (`choose_mean`). If no skew of the residuals is detected, it is the Huber
    mean with the threshold of least estimated risk (`lepski`); if they are skewed, the adaptive Huber
    mean, or the plain mean where even that is biased.

    One-step logs use their own estimator, `one_step`.

    Parameters
    ----------
    features
        A feature map, or a name of `tailproof.features.NAMES`, to use instead of the ladder.
    ridge
        The penalty of given features, per observation or `Absolute`; by default a small one in units of
        each feature that does not penalise the constant.
    """

    features: Features | str | None = None
    ridge: RidgeChoice | None = None

    def __post_init__(self) -> None:
        if self.ridge is not None:
            as_ridge(self.ridge)

    @property
    def capabilities(self) -> Capabilities:
        """Large logs are sampled; columns are added to the states unless features are given."""
        return Capabilities(needs="memory", adds_columns=self.features is None)

    def score(self, task: Task, profile: LogProfile, *, rng: np.random.Generator) -> Choice:
        """Return the policy's value with its scores, and the choices made."""
        if is_one_step(task) and scores_in_pieces(task.log):
            return evaluate_in_pieces(task, profile, seed=task.seed)
        if is_one_step(task):
            rows = profile.one_step(one_step_key(int(rng.integers(2**63))))
            policy = rows.in_order(task.action_probabilities)
            return evaluate_rows(rows, policy, profile.reward_shape)
        return evaluate_log(task, profile, self.features, rng, ridge=self.ridge)[0]

    def estimate(self, task: Task, folds: Folds, *, rng: np.random.Generator) -> Numbers:
        """Estimate the policy's value on each fold."""
        values, one_step = np.empty(folds.count), is_one_step(task)
        key = one_step_key(int(rng.integers(2**63))) if one_step else 0
        for k in range(folds.count):
            own = replace(task, log=folds.log(task.log, k), engine=Local())
            if one_step:
                rows = OneStepRows.of(own.log, key)
                values[k] = evaluate_rows(rows, rows.in_order(own.action_probabilities)).value
            else:
                profile = LogProfile(own.log)
                found, _ = evaluate_log(own, profile, self.features, rng, ridge=self.ridge)
                values[k] = found.value
        return Numbers(values)


def one_step_key(seed: int) -> int:
    """Return the key of the order of rows for a seed."""
    return int(np.random.default_rng(seed).integers(2**63))


def evaluate_log(
    task: Task,
    profile: LogProfile,
    features: Features | str | None,
    rng: np.random.Generator,
    *,
    ridge: RidgeChoice | None = None,
) -> tuple[SequentialChoice, Blend]:
    """Return the default method's estimate for one log.

    A log with more than 200,000 rows is reduced to random groups of episodes with about that many. If
    the first rung suffices on these, it is refitted to all rows. Critics see the columns that the
    profile calls for, such as the step; the policy never does.
    """
    log = task.log
    columns = profile.critic_columns if features is None else CriticColumns()
    if features is not None or log.n_transitions <= LADDER_ROWS:
        return _evaluate(task, profile, features, rng, ridge=ridge, columns=columns)
    sample = profile.sample(LADDER_ROWS, task.seed)
    some = replace(task, log=sample.log, engine=Local())
    choice, blend = _evaluate(some, sample, None, rng, columns=columns)
    if len(blend.rungs) == 1:
        return _evaluate(task, profile, blend.features, rng, columns=columns)
    used = f"{some.log.n_transitions:,} of {log.n_transitions:,} rows"
    return replace(choice, critic=f"{choice.critic}; on {used}"), blend


def _evaluate(
    task: Task,
    profile: LogProfile,
    features: Features | str | None,
    rng: np.random.Generator,
    *,
    ridge: RidgeChoice | None = None,
    columns: CriticColumns,
) -> tuple[SequentialChoice, Blend]:
    target = Target.of(task).with_columns(columns)
    plain = Target.of(task).with_columns(replace(columns, past=())) if columns.past else target
    log = target.log
    # a constant reward c is worth c / (1 − γ) where nothing ends, so the median can be subtracted
    level = float(np.median(log.rewards)) if target.endless else 0.0
    offset = level / (1 - task.gamma) if target.endless else 0.0
    rewards = log.rewards - level
    by_log = profile.rewards_with_columns if columns else profile.rewards
    measured = by_log  # the logged value is by the log alone, the same for every policy
    # disasters that end episodes are what critics must agree on
    tamed = rewards if measured.shape.final else _clipped(rewards, measured.fit)
    if features is None:
        blend = climb(target, tamed, measured.features, seed=task.seed)
        blend = blend if plain is target else _steadied(blend, plain, tamed)
    else:
        penalty = None if ridge is None else as_ridge(ridge)
        blend = single(target, as_features(features, log), tamed, ridge=penalty, seed=task.seed)
    if blend.features is not measured.features:
        phi = blend.features(log.states, log.actions)
        measured = replace(measured, phi=phi, fit=huber_regression(phi, rewards))
    valued = partial(_valued, target, rewards, offset)
    own = valued(measured, blend, paired=target.starts_with_episodes, floor=blend.error)
    behind = logged_rung(target, tamed)
    logged = valued(by_log, behind, paired=True)
    path = _pooled(log, measured.fit.residuals, own, logged, (blend.weights, behind.weights))
    value = own.value if path is None else _within(own.spread, logged.value + path.gain)
    mean, shape = own.mean, measured.shape
    walked = visits(plain, seed=task.seed, moves=profile.moves(plain.log))
    # by what came before, too, a policy may lead where the log does not: then critics extrapolate
    unlike = visits(target, seed=task.seed).unlike if plain is not target else walked.unlike
    astray = walked._replace(unlike=max(walked.unlike, unlike))
    other = plain
    if features is None and profile.past is not None and not profile.past.certain:
        other = Target.of(task).with_columns(replace(profile.past.columns, step=columns.step))
    blend = _checked(blend, target, other, tamed)
    pull = min(2 * abs(blend.pull), own.spread.error)
    allowance = blend.allowance + pull + _unlike_cost(astray, rewards - measured.fit.residuals)
    possible = possible_values(log.rewards)
    choice = SequentialChoice(
        value=value,
        spread=replace(own.spread, allowance=allowance + mean.doubt),
        influence=own.influence,
        limits=_limits(blend, astray, own.spread.error, log.n_groups),
        possible=possible,
        declined=_why_not(target, blend, walked, own.value, logged.value),
        logged=Scored(
            value=logged.value,
            spread=logged.spread,
            influence=logged.influence,
            possible=possible,
        ),
        shape=shape,
        weights=blend.weights,
        estimator=mean.how if path is None else f"{mean.how}, tail pooled",
        pooling=path,
        point_influence=None if path is None else path.influence - path.influence.mean(),
        unit=shape.unit,
        units=shape.units,
        asymmetry=mean.asymmetry,
        skewed=mean.skewed,
        plain_error=mean.plain_error,
        critic=blend.words() + _columns_in_words(columns, log),
        allowance=allowance,
        disagreement=blend.disagreement,
        lost=blend.lost,
        unlike=walked.unlike,
        alternatives={name: own.base + value for name, value in mean.others(rng).items()},
        on_log=on_log(
            log.action_space,
            shares=target.shares,
            agreement=float(target.agreement.mean()),
            rows=log.n_transitions,
            weights=blend.weights,
        ),
    )
    return choice, blend


def _checked(blend: Blend, target: Target, other: Target, rewards: FloatArray) -> Blend:
    """Return the blend with allowances for hidden state, and for weights that contradict it.

    `other` is the target without summaries of the past, if critics see them, or with them, if it is
    in doubt whether they should.
    """
    allowance = blend.allowance + _unresolved(target, other, blend, rewards)
    apart, error = _weighed(target, blend, rewards)
    if abs(apart) <= RULES.contradicts * error:
        return replace(blend, allowance=allowance)
    return replace(
        blend,
        allowance=max(allowance, abs(apart) - error),
        disagreement=max(blend.disagreement, abs(apart) / max(error, 1e-300)),
    )


def _first_rung(target: Target, blend: Blend, rewards: FloatArray) -> Rung | None:
    """Return the first rung of the ladder with the columns of this target."""
    system = System(Map(basis_for(target.log)), target, blend.rungs[0].system.groups)
    return fit_rung("polynomials without the past", system, rewards)


def _steadied(blend: Blend, plain: Target, rewards: FloatArray) -> Blend:
    """Return the blend with a share of the first rung that does not see the past, if it explodes."""
    steady = _first_rung(plain, blend, rewards)
    return blend if steady is None else blend.steadied(steady)


def _unresolved(target: Target, other: Target, blend: Blend, rewards: FloatArray) -> float:
    """Return what hidden state may change: how far summaries of the past move the first rung.

    Half of it, if critics see them. The error of the difference is subtracted.
    """
    seen, told = (len(each.log.state_names) for each in (target, other))
    if seen == told:
        return 0.0
    own, apart = (_first_rung(each, blend, rewards) for each in (target, other))
    if own is None or apart is None:
        return 0.0
    error = jackknife_error(own.left_out - apart.left_out)
    share = RULES.unresolved if seen > told else 1.0
    return share * max(abs(own.value - apart.value) - error, 0.0)


def _weighed(target: Target, blend: Blend, rewards: FloatArray) -> tuple[float, float]:
    """Return by how much importance weights of the first steps correct the critics, and its error.

    The sum of γᵗ ρ₀…ρₜ δₜ over the first steps of an episode has mean 0 if the critics are right, for
    the Bellman residuals δ and ρ = π(a|s) / logged propensity. Steps are added while the weights leave
    30 effective episodes, at most twenty.
    """
    log = target.log
    if log.propensity is None or not log.is_discrete or not target.starts_with_episodes:
        return 0.0, 0.0
    residuals, lengths = blend.residuals(rewards), log.lengths
    ratio = target.agreement / log.propensity
    weight, total, factor = np.ones(log.n_episodes), np.zeros(log.n_episodes), 1.0
    for step in range(min(int(lengths.max()), _WEIGHED)):
        going = np.flatnonzero(lengths > step)
        rows = log.starts[going] + step
        later = np.zeros_like(weight)
        later[going] = weight[going] * ratio[rows]
        if effective_rows(later) < RULES.few:
            break
        weight = later
        total[going] += factor * weight[going] * residuals[rows]
        factor *= target.gamma
    by_group = np.bincount(log.group_of_episode, total, minlength=log.n_groups)
    mean = float(total.mean())
    centred = by_group - np.bincount(log.group_of_episode, minlength=log.n_groups) * mean
    return mean, float(np.sqrt((centred**2).sum())) / log.n_episodes


def _columns_in_words(columns: CriticColumns, log: Log) -> str:
    step = f"; it knows the step, as {time_limit(log)}" if columns.step else ""
    return step + (f"; it knows earlier {', '.join(columns.past)}" if columns.past else "")


class Valued(NamedTuple):
    """A value = base + mean of residuals, with its influences and its spread."""

    value: float
    base: float
    mean: MeanChoice
    influence: FloatArray  # (groups,)
    spread: Hall
    rows: FloatArray  # (n,) the part of the rows' influences that explained rewards have


def _valued(
    target: Target,
    rewards: FloatArray,
    offset: float,
    measured: RewardFit,
    estimator: Blend | Rung | LoggedReturns,
    *,
    paired: bool,
    floor: float = 0.0,
) -> Valued:
    """Estimate a value with the weights of `estimator`, for the target or the logged policy.

    `paired`: whether the starts are those of the log's episodes, so that their errors are correlated.
    """
    base, rows, starts = estimator.influences(rewards - measured.fit.residuals)
    mean = choose_mean(measured, estimator.weights, rows)
    explained = rows - rows.mean()
    if mean.skewed:  # r̃ is then not a mean: use the influence of transitions on the full rewards
        _, rows, starts = estimator.influences(rewards)
        mean = mean.with_influence(rows)
    influence = _influence_auto(target.log, mean, starts if paired else None)
    base += offset
    spread = _spread(base, influence, mean, floor=floor)
    return Valued(base + mean.value, base, mean, influence, spread, explained)


def _pooled(
    log: Log,
    residuals: FloatArray,
    own: Valued,
    logged: Valued,
    weights: tuple[FloatArray, FloatArray],
) -> PooledPath | None:
    """Return the gains by pooled sizes of residuals, if these have one heavy tail and plain means.

    Disasters that end episodes are not pooled: which of them a policy avoids is the question.
    `weights` are those of the rows in the two values, (n,) each.
    """
    shape, means = own.mean.rewards.shape, {own.mean.how, logged.mean.how}
    heavy = own.mean.skewed and shape.index < RULES.heavy and not shape.final
    if not heavy or means != {"plain mean"}:
        return None
    group = log.group_of_episode[log.episode_of_row]
    ahead, behind = weights
    unpooled = float(((ahead - behind) * residuals).mean())
    constant = own.rows + (own.value - logged.value - unpooled)
    return pooled_path(
        residuals,
        lambda some: constant + ahead * some,
        base=behind,
        weights=ahead,
        sums=lambda rows: np.bincount(group, rows, minlength=log.n_groups).astype(float),
    )


def _within(spread: Hall, value: float) -> float:
    """Return the value, clipped to its 90 % interval."""
    low, high = spread.ends(0.05, 0.05)
    return float(np.clip(value, low, high))


def tame(log: Log, rewards: FloatArray, features: Features) -> FloatArray:
    """Return rewards with clipped residuals of a robust regression, for comparing critics."""
    return _clipped(rewards, huber_regression(features(log.states, log.actions), rewards))


def _clipped(rewards: FloatArray, fit: Regression) -> FloatArray:
    size = np.abs(fit.residuals)
    scale = robust_scale(fit.residuals)
    limit = max(6 * scale if np.isfinite(scale) else 0.0, float(np.quantile(size, 0.995)))
    clipped: FloatArray = rewards - fit.residuals + np.clip(fit.residuals, -limit, limit)
    return clipped


def _influence_auto(log: Log, mean: MeanChoice, starts: FloatArray | None) -> FloatArray:
    """Return the influence of each independent group of episodes on the estimate, (groups,)."""
    group, units = log.group_of_episode, mean.rewards.shape.units
    of_unit = np.zeros(units, dtype=np.intp)
    of_unit[mean.rewards.unit_of_row] = group[log.episode_of_row]
    sums = np.bincount(of_unit, mean.influence, minlength=log.n_groups) / units
    sums -= sums.mean()
    if starts is not None:
        sums += np.bincount(group, (starts - starts.mean()) / len(starts), minlength=log.n_groups)
    return np.asarray(sums * log.n_groups)


def _spread(base: float, influence: FloatArray, mean: MeanChoice, *, floor: float) -> Hall:
    """Return the spread of a value, with an unseen-tail term where the mean is not robust.

    For skewed samples the centre is the plain mean, because clipping would bias it.
    """
    value = base + (float(mean.path.estimates[-1]) if mean.skewed else mean.value)
    robust, count = mean.how == "Huber mean", len(influence)
    spread = hall_spread(value, influence, np.ones(count, dtype=bool), look_beyond=not robust)
    # `floor` is a jackknife error of the plain mean, so it does not apply to a robust one
    least = max(mean.error, 0.0 if robust else floor)
    error = max(spread.error if np.isfinite(spread.error) else 0.0, least)
    known = spread if isinstance(spread, Hall) else Hall(value)
    return replace(known, error=error * few_units(count))


def _unlike_cost(walked: Visits, explained: FloatArray) -> float:
    """Return what visits unlike the logged ones may change: their number × the spread of rewards.

    Fewer than a third of the share that voids an answer may be due to walks that only look astray.
    """
    share = max(walked.unlike - RULES.leaves / 3, 0.0)
    return share * walked.steps * float(explained.std())


def _limits(blend: Blend, walked: Visits, error: float, groups: int) -> str:
    """Return what determines the width of the interval, in words."""
    words = ["the influence of each episode (or group) on the estimate"]
    if blend.allowance > error:
        words.append("mostly an allowance for models of the value that disagree")
    elif blend.allowance > 0.2 * error:
        words.append("an allowance for models of the value that disagree")
    if blend.lost > RULES.poor:
        words.append(
            f"{100 * blend.lost:.0f} % of what the policy would do has no similar row: overlap is "
            f"the limit"
        )
    if walked.unlike > RULES.leaves / 3:
        words.append(
            f"{100 * walked.unlike:.0f} % of its visits would be in states unlike the logged ones"
        )
    if groups < RULES.few:
        words.append(f"only {groups} independent episodes or groups")
    return "; ".join(words)


def reachable(target: Target) -> tuple[float, float]:
    """Return the smallest and largest value possible with rewards in the logged range."""
    low, high = float(target.log.rewards.min()), float(target.log.rewards.max())
    if not target.endless:  # episodes may end after any step, with no further reward
        low, high = min(low, 0.0), max(high, 0.0)
    steps = 1 / (1 - target.gamma) if target.gamma < 1 else np.inf
    return (low * steps if low else 0.0), (high * steps if high else 0.0)


def _why_not(
    target: Target, blend: Blend, walked: Visits, value: float, logged: float
) -> Caution | None:
    """Return the reason why no valid interval can be given, or None."""
    log = target.log
    least, most = reachable(target)
    slack = 1e-9 * max(abs(value), 1.0)
    if not least - slack <= value <= most + slack:
        return Caution(
            "extrapolation",
            f"the estimate, {value:.4g}, lies outside what rewards like the logged ones allow, "
            f"{least:.4g} to {most:.4g}: the critic extrapolates; log more episodes like the policy's",
            voids=True,
        )
    if walked.unlike > RULES.leaves:
        return Caution(
            "leaves_log",
            f"the policy leads where the log does not: {100 * walked.unlike:.0f} % of its visits "
            f"would be in states unlike the logged ones, and no row says what happens there; log "
            f"episodes that go there, or change the policy",
            voids=True,
        )
    if (few := too_few_units(log)) is not None:
        return few
    at_stake = max(abs(value - logged), float(discounted_returns(log, target.gamma).std()))
    if (
        blend.disagreement > RULES.max_disagreement_se
        and blend.allowance > RULES.min_disagreement * at_stake
    ):
        return Caution(
            "models_disagree",
            f"the critics disagree by {blend.disagreement:.0f} standard errors, so that the critic and "
            f"not the rewards limits the answer; log more episodes like the policy's, or give the "
            f"method features that can express its value",
            voids=True,
        )
    return None
