"""The default learner for continuous actions: a few candidates, evaluated on held-out episodes."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.stats import binom, rankdata

from tailproof.arrays import FloatArray
from tailproof.deep.settings import Run
from tailproof.doors.evaluate import evaluate
from tailproof.doors.learn import learn, split_off
from tailproof.doors.learned import Learned
from tailproof.learners.cloning import Rank, choose_rank, episode_scores
from tailproof.log.log import Log, discounted_returns
from tailproof.log.spaces import menu
from tailproof.log.stored import AnyLog, in_memory
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method
from tailproof.parallel import Engine
from tailproof.policies.forms import DeterministicPolicy

_ROOM_FOLDS = 5
_OPENING = 20  # largest number of first steps used to compare an episode with the policies
_SHUFFLES = 4_000
_RIDGE = 0.1  # per row, on standardised first states
CLONE = "bc-neural"  # the logging policy: chosen unless a candidate is credibly better
PERCENT = "percent-bc-neural"


@dataclass(frozen=True)
class Budget:
    """The default training effort: minutes on one core, not hours.

    Attributes
    ----------
    rows_a_step, fewest, most
        The number of steps is rows / `rows_a_step`, within [`fewest`, `most`].
    critics, policies, judges
        Widths of the hidden layers of critics, policies and FQE networks.
    folds
        Folds of the held-out episodes, one FQE network each.
    judging
        Gradient steps of FQE.
    level
        Required confidence that a candidate is better than the clone.
    """

    rows_a_step: int = 6
    fewest: int = 3_000
    most: int = 15_000
    critics: tuple[int, ...] = (128, 128)
    policies: tuple[int, ...] = (256, 256)
    judges: tuple[int, ...] = (64, 64)
    folds: int = 5
    judging: int = 5_000
    level: float = 0.95

    def steps(self, log: Log) -> int:
        """Return the gradient steps for a log."""
        return int(np.clip(log.n_transitions // self.rows_a_step, self.fewest, self.most))


@dataclass(frozen=True)
class Gain:
    """Value of a candidate minus value of the clone on held-out episodes, by fold.

    Decisions use order statistics of the folds, to be robust to one failed FQE. `most` is the best
    logged return minus the median one: a larger gain is extrapolation of FQE.
    """

    differences: FloatArray  # (K,)
    level: float
    most: float = float("inf")

    @property
    def value(self) -> float:
        """The median over folds."""
        return float(np.nanmedian(self.differences))

    @property
    def bound(self) -> float:
        """The largest order statistic that is a lower confidence bound on the median at this level."""
        known = self.differences[np.isfinite(self.differences)]  # of folds whose FQE did not fail
        count = len(known)
        chances = binom.cdf(np.arange(count), count, 0.5)  # P(fewer than j + 1 folds lie below)
        below = int((chances <= 1 - self.level).sum())
        return float(np.sort(known)[below - 1]) if below else -float("inf")

    @property
    def credible(self) -> bool:
        """Whether the candidate is better, by a gain of at most `most`."""
        return self.bound > 0 and self.value <= self.most

    @property
    def _at_least(self) -> str:
        if self.bound > 0:
            return f"above {self.bound:.4g} with confidence {self.level:g}"
        if self.bound == -float("inf"):
            folds = int(np.isfinite(self.differences).sum())
            return f"but {folds} folds are too few for a confidence of {self.level:g}"
        return f"but with confidence {self.level:g} perhaps worse by {-self.bound:.4g}"

    def __str__(self) -> str:
        if not self.value > 0:
            return f"not better than cloning on held-out episodes: {self.value:.4g}"
        text = f"better than cloning by {self.value:.4g} on held-out episodes, {self._at_least}"
        if self.value > self.most:
            text += f"; the best logged episode exceeds the middle one by {self.most:.4g} only"
        return text


def rows_to_try(log: Log, budget: Budget) -> tuple[dict[str, Method], str]:
    """Return the candidate methods by name, including cloning, and a text about the tails.

    Percent cloning and IQL; for heavy tails, percent cloning with robust ranks and ROOM-VM.
    """
    rank, reason = choose_rank(log)
    steps, hidden = budget.steps(log), budget.policies
    every: dict[str, Any] = {"steps": steps, "run": Run(progress=False)}
    policy: dict[str, Any] = {"policy_steps": steps, "policy_hidden": hidden}
    room = "iql" if rank == "sum" else "room-vm-iql"
    folds = None if rank == "sum" else min(_ROOM_FOLDS, log.n_groups)
    return {
        CLONE: named_method(CLONE, hidden=hidden, **every),
        PERCENT: named_method(PERCENT, rank=rank, hidden=hidden, **every),
        room: named_method(room, folds=folds, hidden=budget.critics, **policy, **every),
    }, reason


def learn_continuous(
    log: AnyLog,
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
    evaluated on held-out episodes whose first actions resemble its own (`resemblance`). Otherwise the
    second candidate and the clone are evaluated by neural FQE on the same folds of held-out episodes.
    They are compared fold by fold, so that common errors of FQE cancel, and a gain larger than the
    best logged return minus the median one is rejected. If neither candidate is credibly better, the
    clone is returned. Both tests have the budget's level, or `at_least` if that is higher.
    """
    budget = budget or Budget()
    level = max(budget.level, at_least)
    taught, held_out = split_off(in_memory(log, "Networks"), holdout, seed=seed)
    rows, seen = rows_to_try(taught, budget)

    def taught_by(name: str) -> Learned:
        return learn(taught, method=rows[name], gamma=gamma, seed=seed, engine=engine)

    percent = taught_by(PERCENT)
    if held_out is None:
        return replace(percent, reasons=(*percent.reasons, "Nothing was held out to compare with."))
    clone = taught_by(CLONE)
    rank = rows[PERCENT].base.rank  # type: ignore[union-attr]
    alike = resemblance(
        percent.policy,
        clone.policy,
        taught,
        held_out,
        rank=rank,
        level=level,
        rng=np.random.default_rng([seed, 5]),
    )
    said = [seen, f"{PERCENT}: {alike}."]
    chosen, name = percent, PERCENT
    if not alike.credible:
        (name,) = rows.keys() - {CLONE, PERCENT}
        chosen = taught_by(name)
        most = spread_of_returns(tamed(taught, rank != "sum"), clone.gamma)
        judging = tamed(held_out, rank != "sum")
        both = (_judged(each, judging, budget, seed) for each in (chosen, clone))
        gain = Gain(np.subtract(*both), level, most)
        said.append(f"{name}: {gain}.")
        if not gain.credible:
            said.append("No candidate is credibly better than the log: this policy imitates it.")
            if (values := menu(taught.actions)) is not None:
                said.append(
                    f"The log takes only {len(values)} different actions; this policy takes their mean "
                    f"in each state, which may be none of them. Name the action column with "
                    f"categorical=... to choose among them."
                )
            return replace(clone, held_out=held_out, improves=False, reasons=tuple(said))
    reasons = (*said, f"Chosen: {name}.")
    return replace(chosen, held_out=held_out, improves=True, reasons=reasons)


def tamed(log: Log, heavy: bool) -> Log:
    """Return the log with rewards winsorised on both sides, at 10 % for heavy tails, else 2 %.

    Candidate and clone are evaluated with the same rewards, so that most of the bias cancels and
    single outliers do not decide.
    """
    share = 0.1 if heavy else 0.02
    low, high = np.quantile(log.rewards, [share, 1 - share])
    return log.with_rewards(np.clip(log.rewards, low, high))


def spread_of_returns(log: Log, gamma: float) -> float:
    """Return the largest discounted return of an episode minus the median one."""
    returns = discounted_returns(log, gamma)
    return float(returns.max() - np.median(returns))


def _judged(learned: Learned, held_out: Log, budget: Budget, seed: int) -> FloatArray:
    """Return the neural-FQE value of a policy in each fold, (K,); NaN if FQE failed."""
    folds = min(budget.folds, held_out.n_groups)
    judge = named_method(
        "roam-neural-fqe",
        folds=folds,
        steps=budget.judging,
        hidden=budget.judges,
        learning_rate=1e-3,
        run=Run(progress=False),
    )
    estimate = evaluate(held_out, learned.policy, method=judge, gamma=learned.gamma, seed=seed)
    found = np.full(folds, np.nan)
    found[np.setdiff1d(np.arange(folds), estimate.bad_folds)] = estimate.fold_values
    return found


@dataclass(frozen=True)
class Resemblance:
    """Test whether held-out episodes that resemble the percent-cloning policy score higher.

    Attributes
    ----------
    gain
        Mean score of the third of episodes nearest to the policy, minus the mean of all.
    chance
        p-value of the correlation of nearness and score, by permutation.
    against
        p-value of a correlation of the opposite sign, with plain sums of rewards, because robust
        scores ignore rare losses.
    level
        Required confidence.
    """

    gain: float
    chance: float
    against: float
    level: float

    @property
    def credible(self) -> bool:
        """Whether imitating the best episodes is better than imitating all."""
        return self.chance <= 1 - self.level < self.against and self.gain > 0

    def __str__(self) -> str:
        more = "less" if self.gain < 0 else "more"
        return (
            f"held-out episodes that begin like the imitated ones score {abs(self.gain):.4g} {more} "
            f"than all (p = {self.chance:.2g})"
        )


def resemblance(
    policy: DeterministicPolicy,
    clone: DeterministicPolicy,
    taught: Log,
    held_out: Log,
    *,
    rank: Rank,
    level: float,
    rng: np.random.Generator,
) -> Resemblance:
    """Evaluate percent cloning by the scores of held-out episodes that resemble it.

    An episode resembles the policy if its first actions are nearer to the policy's than to those of the
    clone of all episodes. Only first steps are used: later steps depend on how the episode went, and
    the policy is near to lucky episodes because it was trained on such states. The statistic is a
    partial rank correlation of nearness and score given the score predicted from first states, so that
    easy starts do not count. A group is one observation.

    Parameters
    ----------
    policy, clone
        Trained on the best and on all episodes of `taught`.
    rank
        The score of an episode.
    """
    nearer = _nearer(policy, clone, held_out)
    group = held_out.group_of_episode

    def chance(kind: Rank, sign: float) -> float:
        expected = _from_first_states(taught, held_out, episode_scores(taught, kind))
        each = (nearer, sign * episode_scores(held_out, kind), sign * expected)
        size = np.bincount(group)
        seen = size > 0
        near, score, start = (np.bincount(group, values)[seen] / size[seen] for values in each)
        return _chance(near, score, start, rng)

    scores = episode_scores(held_out, rank)
    third = np.argsort(-nearer, kind="stable")[: max(1, round(len(nearer) / 3))]
    return Resemblance(
        gain=float(scores[third].mean() - scores.mean()),
        chance=chance(rank, 1.0),
        against=chance("sum", -1.0),
        level=level,
    )


def _nearer(policy: DeterministicPolicy, clone: DeterministicPolicy, log: Log) -> FloatArray:
    """Return each episode's mean squared distance to the clone minus that to the policy, (E,)."""
    first = int(np.clip(np.median(log.lengths) // 10, 1, _OPENING))
    rows = np.flatnonzero(log.step_of_row < first)
    states, actions = log.states[rows], log.actions[rows]
    spread = np.maximum(log.actions.std(axis=0), 1e-12)
    far = [
        np.square((actions - np.asarray(each(states))) / spread).sum(axis=1)
        for each in (clone, policy)
    ]
    episode = log.episode_of_row[rows]
    return np.asarray(np.bincount(episode, far[0] - far[1]) / np.bincount(episode))


def _from_first_states(taught: Log, held_out: Log, scores: FloatArray) -> FloatArray:
    """Return the rank of each held-out episode predicted from its first state, (E,)."""
    centre, spread = taught.first_states.mean(axis=0), taught.first_states.std(axis=0)
    spread = np.where(spread > 1e-9 * np.maximum(1, np.abs(centre)), spread, np.inf)
    before, after = ((log.first_states - centre) / spread for log in (taught, held_out))
    ranks = _ranks(scores)
    gram = before.T @ before + _RIDGE * len(before) * np.eye(before.shape[1])
    return np.asarray(after @ np.linalg.solve(gram, before.T @ ranks))


def _chance(
    near: FloatArray, score: FloatArray, expected: FloatArray, rng: np.random.Generator
) -> float:
    """Return the one-sided permutation p-value of the partial rank correlation."""
    start = _ranks(expected)
    size = max(float(start @ start), 1.0)
    one, two = (each - start * float(each @ start) / size for each in (_ranks(near), _ranks(score)))
    shuffled = rng.permuted(np.tile(two, (_SHUFFLES, 1)), axis=1) @ one
    return float((1 + (shuffled >= one @ two - 1e-9).sum()) / (1 + _SHUFFLES))


def _ranks(values: FloatArray) -> FloatArray:
    """Return centred ranks."""
    return np.asarray(rankdata(values) - (len(values) + 1) / 2)
