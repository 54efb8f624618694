"""The default learner for continuous actions: a few candidates, evaluated on held-out episodes."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.stats import rankdata

from tailproof.arrays import FloatArray
from tailproof.deep.settings import Run
from tailproof.doors.evaluate import evaluate
from tailproof.doors.learn import learn, split_off
from tailproof.doors.learned import Learned
from tailproof.errors import FoldError, LevelError
from tailproof.learners.cloning import Rank, choose_rank, episode_scores
from tailproof.log.budget import sample_to_budget
from tailproof.log.log import Log, discounted_returns
from tailproof.log.spaces import menu
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.fit import winsorised
from tailproof.methods.method import Method
from tailproof.parallel import Engine
from tailproof.policies.forms import DeterministicPolicy
from tailproof.robust.intervals import order_statistic_lower_bound

_ROOM_FOLDS = 5
_MAX_FIRST_STEPS = 20  # of an episode that are compared with the policies' actions
_PERMUTATIONS = 4_000
_RIDGE = 0.1  # per row, on standardised first states
CLONE = "bc-neural"  # the logging policy: chosen unless a candidate is credibly better
PERCENT = "percent-bc-neural"


@dataclass(frozen=True)
class Budget:
    """The default training effort: minutes on one core, not hours.

    Attributes
    ----------
    rows_per_step, min_steps, max_steps
        The number of steps is rows / `rows_per_step`, within [`min_steps`, `max_steps`].
    critic_hidden, policy_hidden, fqe_hidden
        Widths of the hidden layers of critics, policies and FQE networks.
    folds
        Folds of the held-out episodes, one FQE network each.
    fqe_steps
        Gradient steps of FQE.
    level
        Required confidence that a candidate is better than the clone.
    """

    rows_per_step: int = 6
    min_steps: int = 3_000
    max_steps: int = 15_000
    critic_hidden: tuple[int, ...] = (128, 128)
    policy_hidden: tuple[int, ...] = (256, 256)
    fqe_hidden: tuple[int, ...] = (64, 64)
    folds: int = 5
    fqe_steps: int = 5_000
    level: float = 0.95

    def steps(self, log: Log) -> int:
        """Return the gradient steps for a log."""
        wanted = log.n_transitions // self.rows_per_step
        return int(np.clip(wanted, self.min_steps, self.max_steps))


@dataclass(frozen=True)
class Gain:
    """Value of a candidate minus value of the clone on held-out episodes, by fold.

    Decisions use order statistics of the folds, to be robust to one failed FQE. `limit` is the best
    logged return minus the median one: a larger gain is extrapolation of FQE.
    """

    differences: FloatArray  # (K,)
    level: float
    limit: float = float("inf")

    @property
    def value(self) -> float:
        """The median over folds."""
        return float(np.nanmedian(self.differences))

    @property
    def bound(self) -> float:
        """The lower bound of the median over folds; −∞ if they are too few for this level."""
        known = self.differences[np.isfinite(self.differences)]  # of folds whose FQE did not fail
        try:
            return order_statistic_lower_bound(known, level=self.level).value
        except (FoldError, LevelError):
            return -float("inf")

    @property
    def credible(self) -> bool:
        """Whether the candidate is better, by a gain of at most `limit`."""
        return self.bound > 0 and self.value <= self.limit

    def __str__(self) -> str:
        if not self.value > 0:
            return f"not better than cloning on held-out episodes: {self.value:.4g}"
        if self.bound > 0:
            confidence = f"above {self.bound:.4g} with confidence {self.level:g}"
        elif self.bound == -float("inf"):
            folds = int(np.isfinite(self.differences).sum())
            confidence = f"but {folds} folds are too few for a confidence of {self.level:g}"
        else:
            confidence = f"but with confidence {self.level:g} perhaps worse by {-self.bound:.4g}"
        text = f"better than cloning by {self.value:.4g} on held-out episodes, {confidence}"
        if self.value > self.limit:
            text += f"; the best logged episode exceeds the median one by {self.limit:.4g} only"
        return text


def candidates(log: Log, budget: Budget) -> tuple[dict[str, Method], Rank, str]:
    """Return cloning, percent cloning and IQL; for heavy tails, with robust ranks and ROOM-VM.

    They are followed by the score that ranks episodes, and a text about the tails.
    """
    rank, reason = choose_rank(log)
    steps, run, hidden = budget.steps(log), Run(progress=False), budget.policy_hidden
    third = "iql" if rank == "sum" else "room-vm-iql"
    methods = {
        CLONE: named_method(CLONE, hidden=hidden, steps=steps, run=run),
        PERCENT: named_method(PERCENT, rank=rank, hidden=hidden, steps=steps, run=run),
        third: named_method(
            third,
            folds=None if rank == "sum" else min(_ROOM_FOLDS, log.n_groups),
            hidden=budget.critic_hidden,
            policy_hidden=hidden,
            policy_steps=steps,
            steps=steps,
            run=run,
        ),
    }
    return methods, rank, reason


def learn_continuous(
    log: Log,
    *,
    gamma: float | None,
    seed: int,
    holdout: float,
    at_least: float = 0.0,
    engine: Engine | None = None,
    budget: Budget | None = None,
) -> Learned:
    """Learn with the first candidate that is credibly better than cloning the log, or clone it.

    Percent cloning is tried first, because it imitates episodes with high observed returns. It is
    evaluated on held-out episodes whose first actions are similar to its own (`similarity_test`).
    Otherwise the third candidate and the clone are evaluated by neural FQE on the same folds of
    held-out episodes. They are compared fold by fold, so that common errors of FQE cancel, and a gain
    larger than the best logged return minus the median one is rejected. If neither candidate is
    credibly better, the clone is returned. Both tests have the budget's level, or `at_least` if that is
    higher.
    """
    budget = budget or Budget()
    level = max(budget.level, at_least)
    train_log, held_out = split_off(
        sample_to_budget(log, "Networks", seed=seed), holdout, seed=seed
    )
    methods, rank, about_tails = candidates(train_log, budget)

    def fit(name: str) -> Learned:
        return learn(train_log, method=methods[name], gamma=gamma, seed=seed, engine=engine)

    percent = fit(PERCENT)
    if held_out is None:
        return replace(percent, reasons=(*percent.reasons, "Nothing was held out to compare with."))
    clone = fit(CLONE)
    test = similarity_test(
        percent.policy,
        clone.policy,
        train_log,
        held_out,
        rank=rank,
        level=level,
        rng=np.random.default_rng([seed, 5]),
    )
    reasons = [about_tails, f"{PERCENT}: {test}."]
    chosen, name = percent, PERCENT
    if not test.credible:
        (name,) = methods.keys() - {CLONE, PERCENT}
        chosen = fit(name)
        heavy = rank != "sum"
        # Candidate and clone have the same rewards, so that most of the bias of clipping cancels and
        # single outliers do not decide.
        known, judging = (
            winsorised(each, 0.1 if heavy else 0.02) for each in (train_log, held_out)
        )
        returns = discounted_returns(known, clone.gamma)
        limit = float(returns.max() - np.median(returns))
        both = (_fqe_values(each, judging, budget, seed) for each in (chosen, clone))
        gain = Gain(np.subtract(*both), level, limit)
        reasons.append(f"{name}: {gain}.")
        if not gain.credible:
            reasons.append("No candidate is credibly better than the log: this policy imitates it.")
            if (values := menu(train_log.actions)) is not None:
                reasons.append(
                    f"The log takes only {len(values)} different actions; this policy takes their mean "
                    f"in each state, which may be none of them. Name the action column with "
                    f"categorical=... to choose among them."
                )
            return replace(clone, held_out=held_out, improves=False, reasons=tuple(reasons))
    reasons.append(f"Chosen: {name}.")
    return replace(chosen, held_out=held_out, improves=True, reasons=tuple(reasons))


def _fqe_values(learned: Learned, held_out: Log, budget: Budget, seed: int) -> FloatArray:
    """Return the neural-FQE value of a policy in each fold, (K,); NaN if FQE failed."""
    folds = min(budget.folds, held_out.n_groups)
    judge = named_method(
        "roam-neural-fqe",
        folds=folds,
        steps=budget.fqe_steps,
        hidden=budget.fqe_hidden,
        learning_rate=1e-3,
        run=Run(progress=False),
    )
    estimate = evaluate(held_out, learned.policy, method=judge, gamma=learned.gamma, seed=seed)
    values = np.full(folds, np.nan)
    values[np.setdiff1d(np.arange(folds), estimate.bad_folds)] = estimate.fold_values
    return values


@dataclass(frozen=True)
class SimilarityTest:
    """Test whether held-out episodes that are similar to the percent-cloning policy score higher.

    Attributes
    ----------
    gain
        Mean score of the third of episodes most similar to the policy, minus the mean of all.
    p_value
        p-value of the correlation of similarity and score, by permutation.
    p_value_of_loss
        p-value of a correlation of the opposite sign, with plain sums of rewards, because robust
        scores ignore rare losses.
    level
        Required confidence.
    """

    gain: float
    p_value: float
    p_value_of_loss: float
    level: float

    @property
    def credible(self) -> bool:
        """Whether imitating the best episodes is better than imitating all."""
        return self.p_value <= 1 - self.level < self.p_value_of_loss and self.gain > 0

    def __str__(self) -> str:
        more = "less" if self.gain < 0 else "more"
        return (
            f"held-out episodes that begin like the imitated ones score {abs(self.gain):.4g} {more} "
            f"than all (p = {self.p_value:.2g})"
        )


def similarity_test(
    policy: DeterministicPolicy,
    clone: DeterministicPolicy,
    train_log: Log,
    held_out: Log,
    *,
    rank: Rank,
    level: float,
    rng: np.random.Generator,
) -> SimilarityTest:
    """Evaluate percent cloning by the scores of held-out episodes that are similar to it.

    An episode is similar to the policy if its first actions are nearer to the policy's than to those of
    the clone of all episodes. Only first steps are used: later steps depend on how the episode went,
    and the policy is near to lucky episodes because it was trained on such states. The statistic is a
    partial rank correlation of similarity and score given the score predicted from first states, so
    that easy starts do not count. A group is one observation.

    Parameters
    ----------
    policy, clone
        Trained on the best and on all episodes of `train_log`.
    rank
        The score of an episode.
    """
    similarity = _similarity(policy, clone, held_out)
    group = held_out.group_of_episode

    def p_value(kind: Rank, sign: float) -> float:
        expected = _ranks_from_first_states(train_log, held_out, episode_scores(train_log, kind))
        by_episode = (similarity, sign * episode_scores(held_out, kind), sign * expected)
        size = np.bincount(group)
        present = size > 0
        means = (np.bincount(group, values)[present] / size[present] for values in by_episode)
        near, score, start = means
        return _permutation_p_value(near, score, start, rng)

    scores = episode_scores(held_out, rank)
    third = np.argsort(-similarity, kind="stable")[: max(1, round(len(similarity) / 3))]
    return SimilarityTest(
        gain=float(scores[third].mean() - scores.mean()),
        p_value=p_value(rank, 1.0),
        p_value_of_loss=p_value("sum", -1.0),
        level=level,
    )


def _similarity(policy: DeterministicPolicy, clone: DeterministicPolicy, log: Log) -> FloatArray:
    """Return each episode's mean squared distance to the clone minus that to the policy, (E,)."""
    first = int(np.clip(np.median(log.lengths) // 10, 1, _MAX_FIRST_STEPS))
    rows = np.flatnonzero(log.step_of_row < first)
    states, actions = log.states[rows], log.actions[rows]
    scale = np.maximum(log.actions.std(axis=0), 1e-12)
    to_clone, to_policy = (
        np.square((actions - np.asarray(each(states))) / scale).sum(axis=1)
        for each in (clone, policy)
    )
    episode = log.episode_of_row[rows]
    return np.asarray(np.bincount(episode, to_clone - to_policy) / np.bincount(episode))


def _ranks_from_first_states(train_log: Log, held_out: Log, scores: FloatArray) -> FloatArray:
    """Return the rank of each held-out episode predicted from its first state, (E,)."""
    centre, scale = train_log.first_states.mean(axis=0), train_log.first_states.std(axis=0)
    scale = np.where(scale > 1e-9 * np.maximum(1, np.abs(centre)), scale, np.inf)
    train, test = ((log.first_states - centre) / scale for log in (train_log, held_out))
    gram = train.T @ train + _RIDGE * len(train) * np.eye(train.shape[1])
    return np.asarray(test @ np.linalg.solve(gram, train.T @ _centred_ranks(scores)))


def _permutation_p_value(
    similarity: FloatArray, score: FloatArray, expected: FloatArray, rng: np.random.Generator
) -> float:
    """Return the one-sided permutation p-value of the partial rank correlation."""
    start = _centred_ranks(expected)
    size = max(float(start @ start), 1.0)
    x, y = (
        ranks - start * float(ranks @ start) / size
        for ranks in map(_centred_ranks, (similarity, score))
    )
    permuted = rng.permuted(np.tile(y, (_PERMUTATIONS, 1)), axis=1) @ x
    return float((1 + (permuted >= x @ y - 1e-9).sum()) / (1 + _PERMUTATIONS))


def _centred_ranks(values: FloatArray) -> FloatArray:
    return np.asarray(rankdata(values) - (len(values) + 1) / 2)
