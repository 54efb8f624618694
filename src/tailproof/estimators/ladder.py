"""How complex a critic the log requires: rungs of the ladder are compared, and averaged by risk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any

import numpy as np
from scipy import sparse

from tailproof.arrays import AnyArray, FloatArray, IntArray
from tailproof.critics.forest import CrossFitted, cross_fit_forests
from tailproof.critics.linear import require_room
from tailproof.critics.penalties import Ridge
from tailproof.critics.task import PolicyActions, Target
from tailproof.errors import SingularError
from tailproof.features import (
    Additive,
    Basis,
    Features,
    Fourier,
    PerAction,
    mixed_features,
    table_for,
)
from tailproof.features.ladder import KNOTS, LARGEST, JointBasis, basis_for
from tailproof.features.maps import MOST_FEATURES, joined
from tailproof.log.log import Log
from tailproof.robust.tails import effective_rows
from tailproof.rules import RULES

GROUPS = 20
_PLAIN_RIDGE = 1e-5
_WEIGHTED_RIDGE = 1e-4
_HALVED = 8  # fewest jackknife groups of a log that is halved
_FLOOR = 0.1  # added to every row's occupancy, as a share of the mean, so that no row has weight 0
_CHUNK = 4_096
_FEW_EPISODES = 50  # fewer that are cut off and long: their returns do not suffice
_NEGLIGIBLE = 1e-3  # γ^T below which the rest of a truncated episode is ignored
_KEPT = 1 << 24  # largest feature matrix, in numbers, that is kept between passes
_SPARSE = 0.03  # share of features other than 0 below which only those are kept


@dataclass(frozen=True)
class Map:
    """[φ(s, a), agreement(s, a)·ψ(s)]: ψ models the difference where a is an action of the policy.

    Either part may be missing: φ alone does not depend on the policy; ψ alone, with agreement 1
    everywhere, is a critic V(s) of the logged policy.
    """

    features: Features | None
    state_features: Any = None

    def at(self, states: FloatArray, actions: AnyArray, agreement: FloatArray) -> FloatArray:
        """Return the features at n pairs, (n, d)."""
        own = None if self.features is None else self.features(states, actions)
        return self._joined(own, states, agreement[:, None])

    def under(self, policy: PolicyActions) -> FloatArray:
        """Return the expected features under the policy, (n, d): zero after a terminal transition."""
        own = None
        if self.features is not None:
            own = mixed_features(self.features, policy.states, policy.actions, policy.weights)
        share = (policy.weights * policy.agreement).sum(axis=1, keepdims=True)
        return self._joined(own, policy.states, share)

    def _joined(self, own: FloatArray | None, states: FloatArray, share: FloatArray) -> FloatArray:
        if self.state_features is None:
            assert own is not None
            return own
        psi = np.asarray(self.state_features(states) * share)
        return psi if own is None else np.hstack([own, psi])

    @property
    def constant(self) -> FloatArray | None:
        """The θ with φᵀθ = 1 everywhere, (d,); None if unknown."""
        if self.features is None:
            return np.asarray(self.state_features.constant())
        known = getattr(self.features, "constant", None)
        if known is None or self.state_features is None:
            return None if known is None else known()
        return np.concatenate([known(), np.zeros(int(self.state_features.size(0)))])


@dataclass(frozen=True, eq=False)
class Groups:
    """The jackknife group of each row and start; groups consist of whole episodes."""

    count: int
    of_row: IntArray  # (n,)
    of_first: IntArray  # (m,)

    @classmethod
    def split(cls, target: Target, *, seed: int = 0) -> Groups:
        """Divide the log's groups (or episodes) at random into at most 20 jackknife groups."""
        count = min(GROUPS, target.log.n_groups)
        of_episode, of_first = target.split(seed, count)
        return cls(count, of_episode[target.log.episode_of_row], of_first)

    @cached_property
    def order(self) -> IntArray:
        """The rows, one group after the other, (n,)."""
        return np.argsort(self.of_row, kind="stable")

    def spans(self, rows: IntArray) -> Iterator[tuple[int, slice]]:
        """Yield each group among rows that are sorted by group, and its slice of them."""
        own = self.of_row[rows]
        edges = [0, *(np.flatnonzero(np.diff(own)) + 1).tolist(), len(rows)]
        for first, last in pairwise(edges):
            yield int(own[first]), slice(first, last)

    @cached_property
    def parts(self) -> FloatArray:
        """Which groups belong to each part of the log, (G + H, G): all but one, then halves."""
        group, count = np.arange(self.count), self.count
        splits = [group % 2, 2 * group // count, group // 2 % 2] if count >= _HALVED else []
        halves = [half for split in splits for half in (split == 0, split == 1)]
        return np.array([*(group != k for k in group), *halves], dtype=float)

    def means(self, starts: FloatArray) -> FloatArray:
        """Return the mean of values (m, …) over the starts of each part, (G + H, …)."""
        own = np.stack([starts[self.of_first == k].sum(axis=0) for k in range(self.count)])
        count = self.parts @ np.bincount(self.of_first, minlength=self.count)
        total = np.tensordot(self.parts, own, axes=1)
        return np.asarray(total / np.maximum(count, 1).reshape(-1, *[1] * (own.ndim - 1)))


@dataclass(frozen=True, eq=False)
class System:
    """LSTD's equations Σωφ(φ − γφ')ᵀθ = Σωφr in one feature map, by groups of episodes."""

    map: Map
    target: Target
    groups: Groups
    occupancy: FloatArray | None = None  # (n,) of mean one; None for all rows alike
    ridge: Ridge | None = None  # on all features alike; None for one in their own units

    def chunks(self, *, with_next_states: bool = True) -> Iterator[tuple[IntArray, Any, Any]]:
        """Yield row numbers sorted by group, φ and, if `with_next_states`, φ − γφ', dense or sparse."""
        yield from self._make(with_next_states) if self._kept is None else self._kept

    @cached_property
    def _kept(self) -> list[tuple[IntArray, Any, Any]] | None:
        size = self.first.shape[1] * self.target.log.n_transitions
        return list(self._make(True)) if size <= _KEPT else None

    def _make(self, with_next_states: bool) -> Iterator[tuple[IntArray, Any, Any]]:
        target, log = self.target, self.target.log
        for start in range(0, log.n_transitions, _CHUNK):
            rows = self.groups.order[start : start + _CHUNK]
            diff: Any = self.map.at(log.states[rows], log.actions[rows], target.agreement[rows])
            phi: Any = diff
            if with_next_states and target.gamma > 0:
                diff = phi - target.gamma * self.map.under(target.next.take(rows))
            if np.count_nonzero(diff) < _SPARSE * diff.size:  # indicators of very many actions
                phi, diff = sparse.csr_array(phi), sparse.csr_array(diff)
            yield rows, phi, diff

    def weighted(self, rows: Any, phi: Any) -> Any:
        """Return ωφ of some rows."""
        if self.occupancy is None:
            return phi
        weighted = phi * self.occupancy[rows, None]
        return weighted.tocsr() if sparse.issparse(phi) else weighted

    @cached_property
    def first(self) -> FloatArray:
        """E_π φ(s₀, ·), (m, d)."""
        return self.map.under(self.target.first)

    @cached_property
    def matrices(self) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Σωφ(φ − γφ')ᵀ of each group, (G, d, d), Σωφ² , (d,), and the groups' rows, (G,)."""
        d = self.first.shape[1]
        require_room(3 * self.groups.count, d)  # these, those without each group, and solving them
        total = np.zeros((self.groups.count, d, d))
        squares, count = np.zeros(d), np.zeros(self.groups.count)
        for rows, phi, diff in self.chunks():
            weighted = self.weighted(rows, phi)
            if sparse.issparse(phi):
                squares += (weighted * phi).sum(axis=0)
            else:
                squares += np.einsum("nd,nd->d", weighted, phi)
            for group, span in self.groups.spans(rows):
                total[group] += weighted[span].T @ diff[span]
                count[group] += span.stop - span.start
        return total, squares, count

    @cached_property
    def penalty(self) -> FloatArray:
        """The ridge per row in units of each feature's mean square, without the constant, (d, d)."""
        n = self.target.log.n_transitions
        if self.ridge is not None:
            own = float(self.ridge.penalty(np.array([float(n)]))[0]) / n
            return own * np.eye(self.first.shape[1])
        squares = self.matrices[1] / n
        largest = max(float(squares.max(initial=0.0)), 1e-300)
        scale = np.sqrt(np.maximum(squares, 1e-14 * largest))
        penalty = np.eye(len(scale))
        constant = self.map.constant
        if constant is not None:
            direction = constant * scale
            direction = direction / np.linalg.norm(direction)
            penalty -= np.outer(direction, direction)
        ridge = _PLAIN_RIDGE if self.occupancy is None else _WEIGHTED_RIDGE
        return np.asarray(ridge * penalty * np.outer(scale, scale))

    def moments(self, rewards: FloatArray) -> FloatArray:
        """Return Σωφr of each group, (G, d)."""
        total = np.zeros((self.groups.count, self.first.shape[1]))
        for rows, phi, _ in self.chunks(with_next_states=False):
            own = rewards[rows] if self.occupancy is None else rewards[rows] * self.occupancy[rows]
            for group, span in self.groups.spans(rows):
                total[group] += own[span] @ phi[span]
        return total

    def _solved(self, right: FloatArray, transposed: bool = False) -> FloatArray:
        total, _, count = self.matrices
        matrix = total.sum(axis=0) + count.sum() * self.penalty
        return np.asarray(np.linalg.solve(matrix.T if transposed else matrix, right))

    @cached_property
    def weights(self) -> FloatArray:
        """The weights w with Ĵ = mean(w·r), (n,)."""
        direction = self._solved(self.first.mean(axis=0), transposed=True)
        n = self.target.log.n_transitions
        weights = np.empty(n)
        for rows, phi, _ in self.chunks(with_next_states=False):
            weights[rows] = n * (phi @ direction)
        return weights if self.occupancy is None else weights * self.occupancy

    def value(self, moments: FloatArray) -> float:
        """Return Ĵ from Σωφr of the groups."""
        return float(self.first.mean(axis=0) @ self._solved(moments.sum(axis=0)))

    def refitted(self, moments: FloatArray) -> FloatArray:
        """Return Ĵ refitted to each part of the log, (G + H,)."""
        (total, _, count), parts = self.matrices, self.groups.parts
        theta = np.empty((len(parts), moments.shape[1]))
        for k, part in enumerate(parts):
            matrix = np.tensordot(part, total, axes=1) + part @ count * self.penalty
            theta[k] = np.linalg.solve(matrix, part @ moments)
        return np.asarray((self.groups.means(self.first) * theta).sum(axis=1))

    def critic(self, rewards: FloatArray) -> tuple[FloatArray, FloatArray]:
        """Return the Bellman residuals r − (φ − γφ')ᵀθ, (n,), and the values of starts, (m,)."""
        theta = self._solved(self.moments(rewards).sum(axis=0))
        residuals = np.empty(len(rewards))
        for rows, _, diff in self.chunks():
            residuals[rows] = rewards[rows] - diff @ theta
        return residuals, self.first @ theta


@dataclass(frozen=True, eq=False)
class Rung:
    """An estimator Ĵ = constant + mean(w·r), with its jackknife values without each group."""

    name: str
    value: float  # on tamed rewards
    refitted: FloatArray  # (G + H,) the same on each part of the log: `Groups.parts`
    system: System
    forest: CrossFitted | None = None  # a critic whose Bellman error the rung corrects

    @property
    def weights(self) -> FloatArray:
        """The weights w, (n,)."""
        return self.system.weights

    @property
    def left_out(self) -> FloatArray:
        """The value without each group of episodes, (G,)."""
        return self.refitted[: self.system.groups.count]

    @property
    def halves(self) -> FloatArray:
        """The values of half-logs, (H,)."""
        return self.refitted[self.system.groups.count :]

    @cached_property
    def error(self) -> float:
        """The standard error, by leaving groups out."""
        return jackknife_error(self.left_out)

    def residuals(self, rewards: FloatArray) -> FloatArray:
        """Return the Bellman residuals δ = r + γV(s') − Q(s, a), (n,)."""
        if self.forest is not None:
            rewards = self.forest.residuals(rewards, self.system.target.gamma)
        return self.system.critic(rewards)[0]

    def influences(self, rewards: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return Ĵ on these rewards, w·δ of each row, (n,), and V of each start, (m,)."""
        first: Any = 0.0
        if self.forest is not None:
            first = self.forest.first_values
            rewards = self.forest.residuals(rewards, self.system.target.gamma)
        residuals, starts = self.system.critic(rewards)
        value = float(np.mean(first)) + float(np.mean(self.weights * rewards))
        return value, self.weights * residuals, starts + first


def fit_rung(
    name: str, system: System, rewards: FloatArray, *, forest: CrossFitted | None = None
) -> Rung | None:
    """Fit a rung on (tamed) rewards; None where its equations have no finite solution."""
    first, shift = 0.0, np.asarray(0.0)
    if forest is not None:
        rewards = forest.residuals(rewards, system.target.gamma)
        first, shift = float(forest.first_values.mean()), system.groups.means(forest.first_values)
    moments = system.moments(rewards)
    try:
        value, refitted = first + system.value(moments), system.refitted(moments) + shift
    except np.linalg.LinAlgError:
        return None
    if not (np.isfinite(value) and np.isfinite(refitted).all()):
        return None
    return Rung(name, value, refitted, system, forest)


@dataclass(frozen=True, eq=False)
class LoggedReturns:
    """The logged policy's value as the mean discounted return: Ĵ = mean(w·r), w = γᵗ n/E."""

    weights: FloatArray  # (n,)
    episodes: int

    def influences(self, rewards: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return Ĵ on these rewards, w·r of each row, (n,), and zero for each start."""
        product = self.weights * rewards
        return float(product.mean()), product, np.zeros(self.episodes)


def is_settled(log: Log, gamma: float) -> bool:
    """Return whether γ^T ≤ 0.001 for all T-step episodes that were cut off: their rest is negligible.

    >>> from tailproof import Log
    >>> log = Log.from_arrays([0.0] * 2, [0] * 2, [1.0, 1.0], [0.0] * 2, episode=[0, 0])
    >>> is_settled(log, 0.99), is_settled(log, 0.01)
    (False, True)
    """
    return gamma == 0 or bool((gamma ** log.lengths[~log.ends] <= _NEGLIGIBLE).all())


def logged_rung(target: Target, rewards: FloatArray) -> Rung | LoggedReturns:
    """Return an estimator of the logged policy's value.

    Where every episode is complete, or the rest of it is negligible, this is the mean return.
    Otherwise the missing rest is estimated by V(s), fitted by LSTD to the logged policy. So is all of
    it if a few long episodes were cut off, of which a mean return would use the first steps only.
    V is made of splines, or of polynomials if the splines' error on these `rewards` explodes, as it
    does where a state drifts to values that only the last rows of episodes have.
    """
    log, n = target.log, target.log.n_transitions
    few_and_long = log.n_episodes < _FEW_EPISODES and not log.ends.any() and target.gamma > 0
    if is_settled(log, target.gamma) and not few_and_long:
        weights = np.power(target.gamma, log.step_of_row) * n / log.n_episodes
        return LoggedReturns(weights, log.n_episodes)
    done = replace(
        target,
        task=replace(target.task, initial_states=None),
        first=_done(log.first_states),
        next=_done(log.next_states, ~log.terminated),
        agreement=np.ones(n),
    )
    groups = Groups.split(done, seed=target.task.seed)
    knots = [KNOTS, 0] if n >= 50 * len(log.state_names) * KNOTS else [0]
    maps = (Map(None, Basis.fit(log.states, knots=count)) for count in knots)
    candidates = (fit_rung("what was done", System(each, done, groups), rewards) for each in maps)
    rungs = tuple(rung for rung in candidates if rung is not None)
    if not rungs:
        raise SingularError(
            "The value of what was logged cannot be estimated: its linear system has no solution on "
            "this log. Use more episodes, fewer state columns, or a smaller gamma."
        )
    return _stable(rungs)[0][0]


def _done(states: FloatArray, alive: Any = True) -> PolicyActions:
    """Return states with a dummy action, of weight 1 where the episode goes on and 0 elsewhere."""
    weights = np.ones((len(states), 1)) * np.reshape(alive, (-1, 1))
    return PolicyActions(states, np.zeros((len(states), 1), dtype=np.intp), weights, weights)


def forest_rung(system: System, rewards: FloatArray, forest: CrossFitted) -> Rung:
    """Return the doubly robust value of the forest with its own occupancy, to check other rungs."""
    groups = system.groups
    weighted = forest.occupancy * forest.residuals(rewards, system.target.gamma)
    own = np.bincount(groups.of_row, weighted, minlength=groups.count)
    rows = np.bincount(groups.of_row, minlength=groups.count)
    value = float(own.sum() / rows.sum() + forest.first_values.mean())
    refitted = groups.parts @ own / np.maximum(groups.parts @ rows, 1)
    return Rung("trees", value, refitted + groups.means(forest.first_values), system, forest)


def jackknife_covariance(first: FloatArray, second: FloatArray) -> float:
    """Return the jackknife covariance of two numbers from their values without each of G groups."""
    count = len(first)
    return float((count - 1) / count * ((first - first.mean()) * (second - second.mean())).sum())


def jackknife_error(left_out: FloatArray) -> float:
    """Return the jackknife standard error from values without each of G groups."""
    return float(np.sqrt(jackknife_covariance(left_out, left_out)))


def with_floor(occupancy: FloatArray) -> FloatArray:
    """Return ω plus a tenth of its mean, scaled to mean one, (n,)."""
    mean = float(occupancy.mean())
    if not mean > 0:
        return np.ones_like(occupancy)
    raised = occupancy / mean + _FLOOR
    return np.asarray(raised / raised.mean())


@dataclass(frozen=True, eq=False)
class Blend:
    """A weighted average of rungs, with measures of their disagreement.

    `allowance` is the largest distance of a rung from the average, less the standard error of that
    difference: the possible error from the choice of a critic. `disagreement` is the largest
    difference between a rung and the average, in standard errors of the difference. `pull` is how far
    the value moves from half-logs to the whole log, which no linear statistic does: its bias.
    """

    rungs: tuple[Rung, ...]
    shares: FloatArray  # (J,) of the rungs: they sum to one
    left_out: FloatArray  # (G,) the value without each group of episodes
    allowance: float
    disagreement: float
    lost: float  # share of the policy's visits for which the log has no row; 0 without a forest
    features: Features  # for the regression of the rewards
    pull: float = 0.0

    @property
    def log(self) -> Log:
        """The log that it was fitted to, without the step among the states."""
        log: Log = self.rungs[0].system.target.task.log
        return log

    @property
    def value(self) -> float:
        """The value on tamed rewards."""
        return float(self._mean([rung.value for rung in self.rungs]))

    @cached_property
    def weights(self) -> FloatArray:
        """The weights w with Ĵ = constant + mean(w·r), (n,)."""
        return np.asarray(self._mean([rung.weights for rung in self.rungs]))

    def _mean(self, each: Any) -> Any:
        return sum(share * own for share, own in zip(self.shares, each, strict=True))

    @cached_property
    def error(self) -> float:
        """The standard error on tamed rewards, by leaving groups of episodes out."""
        return jackknife_error(self.left_out)

    def influences(self, rewards: FloatArray) -> tuple[float, FloatArray, FloatArray]:
        """Return Ĵ on these rewards, the influence of each row, (n,), and V of each start, (m,)."""
        each = zip(*(rung.influences(rewards) for rung in self.rungs), strict=True)
        value, rows, starts = (self._mean(own) for own in each)
        return float(value), rows, starts

    def residuals(self, rewards: FloatArray) -> FloatArray:
        """Return the Bellman residuals of the average of the rungs' critics, (n,)."""
        return np.asarray(self._mean([rung.residuals(rewards) for rung in self.rungs]))

    def steadied(self, steady: Rung) -> Blend:
        """Return the blend with a share of a rung with less error, as far as its own error explodes.

        Variance up to nine times that of the other rung is what knowing more may cost. What is beyond
        is weighed against the squared distance to that rung, which is added to the allowance.
        """
        excess = max(self.error**2 - (RULES.explodes * steady.error) ** 2, 0.0)
        gap = steady.value - self.value
        alpha = excess / (excess + gap**2 + 1e-300)
        if alpha == 0:
            return self
        return replace(
            self,
            rungs=(*self.rungs, steady),
            shares=np.append((1 - alpha) * self.shares, alpha),
            left_out=(1 - alpha) * self.left_out + alpha * steady.left_out,
            allowance=self.allowance + alpha * abs(gap),
            pull=(1 - alpha) * self.pull,
        )

    def words(self) -> str:
        """Return the rungs and their shares in words."""
        named = zip(self.shares, self.rungs, strict=True)
        return ", ".join(
            f"{rung.name} {100 * share:.0f} %" for share, rung in named if share >= 0.005
        )


def climb(target: Target, rewards: FloatArray, low: Features, *, seed: int = 0) -> Blend:
    """Return the rungs that this log requires, and their shares.

    The first rung is LSTD on standardised polynomials. It is used alone if cheap checks (LSTD with
    the policy's agreement, with splines, with random Fourier features) do not differ from it
    significantly and are no more precise, and if its weights leave a tenth of the effective rows that
    discounting leaves: where few rows are like the policy's, linear critics extrapolate alike. (If next
    to none are, every critic extrapolates, and a caution says so.)
    Otherwise the middle three of five rungs weighted by the forest's occupancy are averaged, without
    those whose error is more than three times the least, and the first rung gets the share α that
    minimises the estimated squared error of the mixture,

        α = (var y − cov(x, y)) / (var(y − x) + (y − x)²),

    for its value x and their average y. `rewards`, (n,), are clipped by `tame`, so that no single
    outlier decides which critic is right. `low` are the features of the first rung.
    """
    log, groups = target.log, Groups.split(target, seed=seed)
    high = table_for(log) or basis_for(log, knots=KNOTS)
    first = fit_rung("polynomials", System(Map(low), target, groups), rewards)
    aware = Map(low, _state_map(low, log))
    if first is not None:
        others = [aware, *([] if high == low else [Map(high)]), Map(_waves(log))]
        found = _witnesses(first, (System(each, target, groups) for each in others), rewards)
        enough = RULES.poor * effective_rows(np.power(target.gamma, log.step_of_row))
        if found is not None and not RULES.uncovered <= effective_rows(first.weights) < enough:
            return _alone(first, found, low)
    forest = cross_fit_forests(target, rewards, seed=seed)
    occupancy = with_floor(forest.occupancy)
    fine = min(RULES.fine_waves, max(log.n_transitions // 40, 5))
    smooth = Fourier.fit(log.states, waves=fine, bandwidth=RULES.fine_bandwidth)
    bent = Map(low, _state_map(high, log))
    weighted, rich, waves = (
        System(each, target, groups, occupancy) for each in (Map(high), bent, Map(low, smooth))
    )
    # of many columns, there may be neither knots nor products
    plain = rich if bent == aware else System(aware, target, groups, occupancy)
    inner = getattr(high, "state_features", high)
    splines = "splines" if isinstance(inner, Basis | JointBasis) else "table"
    candidates = (
        fit_rung(f"weighted {splines}", weighted, rewards),
        fit_rung("trees and policy-aware splines", rich, rewards, forest=forest),
        fit_rung("trees and policy-aware polynomials", plain, rewards, forest=forest),
        fit_rung("weighted policy-aware splines", rich, rewards),
        fit_rung("weighted policy-aware waves", waves, rewards),
    )
    rungs = tuple(rung for rung in candidates if rung is not None)
    if not rungs:
        raise SingularError(
            "No critic could be fitted: the equations of every feature map are singular on this log. "
            "Use more episodes, fewer state columns, or a smaller gamma."
        )
    witness = forest_rung(weighted, rewards, forest)
    return replace(_mixed(first, rungs, witness, low, high), lost=forest.lost)


def single(
    target: Target,
    features: Features,
    rewards: FloatArray,
    *,
    ridge: Ridge | None = None,
    seed: int = 0,
) -> Blend:
    """Return a blend of one rung, LSTD on the given features."""
    system = System(Map(features), target, Groups.split(target, seed=seed), ridge=ridge)
    rung = fit_rung("the given features", system, rewards)
    if rung is None:
        raise SingularError(
            "The policy's linear system has no solution on this log. Use fewer features or a smaller "
            "gamma."
        )
    return _alone(rung, [], features)


def _state_map(features: Any, log: Log) -> Any:
    """Return the functions of the state behind a feature map."""
    if isinstance(features, JointBasis):
        bent = isinstance(features.basis, Basis) and bool(features.basis.knots)
        return Basis.fit(log.states, knots=KNOTS if bent else 0)
    return features.state_features


def _waves(log: Log) -> Features:
    waves = min(RULES.waves, max(log.n_transitions // 100, 5))
    if not log.is_discrete:
        return JointBasis(Fourier.fit(joined(log.states, log.actions), waves=waves))
    inner = Fourier.fit(log.states, waves=min(waves, max(LARGEST // log.n_actions, 5)))
    features = PerAction(inner, len(log.state_names), log.n_actions)
    few = features.size <= MOST_FEATURES
    return features if few else Additive(inner, len(log.state_names), log.n_actions)


def _witnesses(first: Rung, systems: Iterable[System], rewards: FloatArray) -> list[Rung] | None:
    """Return the rungs of the check systems if none contradicts the first rung, else None."""
    found = []
    for system in systems:
        rung = fit_rung("", system, rewards)
        if rung is None:
            return None
        chance = RULES.witness_agrees * jackknife_error(rung.left_out - first.left_out)
        if abs(rung.value - first.value) > max(chance, RULES.negligible * first.error):
            return None
        if first.error > RULES.precise * rung.error:
            return None
        found.append(rung)
    return found


def _alone(first: Rung, witnesses: Sequence[Rung], features: Features) -> Blend:
    """Return the first rung alone, without an allowance for other critics."""
    _, disagreement = _apart(first.value, first.left_out, witnesses)
    pull = _pull(first.value, first.halves)
    return Blend((first,), np.ones(1), first.left_out, 0.0, disagreement, 0.0, features, pull)


def _mixed(
    first: Rung | None, rungs: tuple[Rung, ...], witness: Rung, low: Features, high: Features
) -> Blend:
    stable, dropped = _stable(rungs)
    kept = _middle(stable)
    value = float(np.mean([rung.value for rung in kept]))
    parts = np.mean([rung.refitted for rung in kept], axis=0)
    count = kept[0].system.groups.count
    shares = np.full(len(kept), 1 / len(kept))
    alpha = 0.0
    if first is not None:
        gap, others = value - first.value, parts - first.refitted
        covariance = jackknife_covariance(parts[:count], others[:count])
        spread = jackknife_error(others[:count]) ** 2
        rows = np.where(np.arange(len(parts)) < count, 1.0, 2.0)  # halves have twice the variance

        def share(difference: Any, noise: Any = 1.0) -> Any:
            return np.clip(noise * covariance / (noise * spread + difference**2 + 1e-300), 0.0, 1.0)

        alpha = float(share(gap))
        value, parts = value - alpha * gap, parts - share(others, rows) * others
        kept, shares = (first, *kept), np.concatenate([[alpha], (1 - alpha) * shares])
    left_out = parts[:count]
    allowance, disagreement = _apart(value, left_out, (*stable, witness))
    if dropped:  # the choice of the others is not certain: up to one more standard error
        distance = max(abs(rung.value - value) for rung in dropped)
        allowance += min(distance, jackknife_error(left_out))
    features = low if alpha > 0.5 else high
    pull = _pull(value, parts[count:])
    return Blend(kept, shares, left_out, allowance, disagreement, 0.0, features, pull)


def _pull(value: float, halves: FloatArray) -> float:
    """Return the distance of a value from the mean of those on half-logs; 0 without any."""
    return value - float(halves.mean()) if len(halves) else 0.0


def _stable(rungs: tuple[Rung, ...]) -> tuple[tuple[Rung, ...], tuple[Rung, ...]]:
    """Return the rungs whose error is at most three times the least one, and the others."""
    limit = RULES.explodes * min(rung.error for rung in rungs)
    apart = [rung.error > limit for rung in rungs]
    pairs = list(zip(rungs, apart, strict=True))
    return tuple(r for r, far in pairs if not far), tuple(r for r, far in pairs if far)


def _middle(rungs: tuple[Rung, ...]) -> tuple[Rung, ...]:
    """Return the rungs without the highest and the lowest, if there are more than three."""
    if len(rungs) <= 3:
        return rungs
    order = np.argsort([rung.value for rung in rungs])
    return tuple(rungs[i] for i in sorted(order[1:-1]))


def _apart(value: float, left_out: FloatArray, rungs: Sequence[Rung]) -> tuple[float, float]:
    """Return the largest distance of a rung from a value, less its error and divided by its error."""
    allowance = disagreement = 0.0
    for rung in rungs:
        gap = abs(rung.value - value)
        error = jackknife_error(rung.left_out - left_out)
        allowance = max(allowance, gap - error)
        disagreement = max(disagreement, gap / max(error, 1e-12 * max(abs(value), 1e-300)))
    return allowance, disagreement
