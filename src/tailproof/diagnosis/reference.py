"""The plain estimate taken apart: its weights, residuals, folds, and what each episode does to it.

Nothing here is robust. This is the average that a robust method stands in for, in a form that shows
who decides it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from tailproof.algorithms.bandit import IPS, BanditDR, importance_weights
from tailproof.algorithms.task import Task
from tailproof.arrays import FloatArray, IntArray, require_fraction
from tailproof.data.log import Log, discounted_returns
from tailproof.diagnosis.linear_reference import LinearReference, features_for, fit_linear
from tailproof.errors import MethodError, TailproofError
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.fit import check_gamma, prepare
from tailproof.methods.method import Method
from tailproof.policies.naming import for_log

#: Blocks of whole groups that folds are made of; the numbers of folds on a K-path divide it.
BLOCKS = 60
_DEALINGS = 10
_OPERATIONS = 2e9  # about a second of solving


@dataclass(frozen=True, eq=False, kw_only=True)
class MeanReference:
    """Ĵ = Σ_e x_e / E: the mean return of the logged policy, or inverse propensity scoring."""

    log: Log
    name: str
    terms: FloatArray  # (E,)
    block_of_episode: IntArray  # (E,)
    weights: FloatArray | None = None  # (n,), of inverse propensity scoring

    @cached_property
    def value(self) -> float:
        """The mean."""
        return float(self.terms.mean())

    @cached_property
    def effects(self) -> FloatArray:
        """Ĵ − Ĵ₍₋ₑ₎ = (x_e − Ĵ)/(E − 1), exactly, (E,)."""
        return (self.terms - self.value) / max(len(self.terms) - 1, 1)

    @cached_property
    def _sums(self) -> FloatArray:  # of each block
        return np.asarray(np.bincount(self.block_of_episode, self.terms), dtype=float)

    @cached_property
    def _counts(self) -> IntArray:
        return np.bincount(self.block_of_episode)

    def fold_values(self, folds: int, *, order: IntArray | None = None) -> FloatArray:
        """Return the mean of each of K folds, (K,); `order` deals the blocks anew."""
        dealt = slice(None) if order is None else order
        sums, counts = self._sums[dealt], self._counts[dealt]
        return np.array([sums[k::folds].sum() / counts[k::folds].sum() for k in range(folds)])

    def without(self, episodes: IntArray) -> FloatArray:
        """Return the mean without each of these episodes, (m,)."""
        return self.value - self.effects[episodes]

    def folds_without(self, episodes: IntArray, *, folds: int, order: IntArray) -> FloatArray:
        """Return the values of the folds without each of these episodes, (m, K)."""
        each = np.tile(self.fold_values(folds, order=order), (len(episodes), 1))
        place = np.argsort(order)
        for values, episode in zip(each, episodes, strict=True):
            fold = int(place[self.block_of_episode[episode]]) % folds
            count = int(self._counts[order[fold::folds]].sum())
            rest = values[fold] * count - self.terms[episode]
            values[fold] = rest / (count - 1) if count > 1 else np.nan
        return each

    def without_all(self, episodes: IntArray) -> float:
        """Return the mean of all other episodes."""
        return float(np.delete(self.terms, episodes).mean())


Reference = MeanReference | LinearReference


def dealings(estimate: Reference, folds: int, seed: int) -> list[IntArray]:
    """Return some orders in which to deal the blocks: ten, or fewer where folds are dear to solve."""
    count = _DEALINGS
    if isinstance(estimate, LinearReference):
        count = int(np.clip(_OPERATIONS / (folds * estimate.features.size**3), 1, _DEALINGS))
    rng = np.random.default_rng(seed)
    return [rng.permutation(min(BLOCKS, estimate.log.n_groups)) for _ in range(count)]


def resolve(
    log: Log, policy: Any, *, gamma: float | None, method: str | Method | None
) -> tuple[float, Method | None]:
    """Return the discount and the method that were meant, or say what is wrong with them.

    Without a policy only logged returns are asked for, which are sums of finitely many rewards: any
    discount will do, and 1 is the default.
    """
    chosen = named_method(method) if isinstance(method, str) else method
    if not isinstance(chosen, Method | None):
        raise MethodError(f"method must be a name or a Method. Got {method!r} instead.")
    prepare(log, chosen or named_method("lstd"))
    if policy is not None:
        return check_gamma(gamma, log), chosen
    if gamma is not None:
        require_fraction("gamma", gamma, TailproofError)
    return 1.0 if gamma is None else float(gamma), chosen


def reference(
    log: Log, policy: Any, *, gamma: float, method: Method | None = None, seed: int = 0
) -> Reference:
    """Return the plain estimate that belongs to a log, a policy and the settings of a method.

    Without a policy it is the mean return of the logged episodes. Inverse propensity scoring serves
    one-step logs with propensities, unless `method` is another; LSTD serves anything else.
    """
    policy = for_log(policy, log)
    blocks = _deal(log, seed)
    if policy is None:
        terms = discounted_returns(log, gamma)
        return MeanReference(log=log, name="mean return", terms=terms, block_of_episode=blocks)
    weighable = log.is_discrete or hasattr(policy, "log_prob")
    if (
        log.is_bandit
        and log.propensity is not None
        and weighable
        and (method is None or isinstance(method.base, IPS | BanditDR))
    ):
        weights = importance_weights(Task(log, gamma, policy, log.first_states, seed=seed))
        return MeanReference(
            log=log,
            name="inverse propensity scoring",
            terms=weights * log.rewards,
            block_of_episode=blocks,
            weights=weights,
        )
    return linear_reference(log, policy, gamma=gamma, method=method, seed=seed)


def linear_reference(
    log: Log, policy: Any, *, gamma: float, method: Method | None = None, seed: int = 0
) -> LinearReference:
    """Return LSTD with the features and the ridge of a method, or the default ones."""
    policy = for_log(policy, log)
    base = None if method is None else method.base
    return fit_linear(
        log,
        policy,
        gamma=gamma,
        features=getattr(base, "features", None) or features_for(log),
        ridge=getattr(base, "ridge", 1e-6),
        blocks=_deal(log, seed),
        seed=seed,
    )


def _deal(log: Log, seed: int) -> IntArray:
    """Return the block of each episode, (E,): whole groups, dealt like cards."""
    groups = log.n_groups
    block_of_group = np.empty(groups, dtype=np.intp)
    block_of_group[np.random.default_rng(seed).permutation(groups)] = np.arange(groups) % BLOCKS
    return block_of_group[log.group_of_episode]
