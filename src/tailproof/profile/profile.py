"""LogProfile: what a log shows, whatever the policy, computed once and on demand."""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from tailproof.arrays import BoolArray
from tailproof.critics.task import Task, some_groups
from tailproof.critics.walks import Moves
from tailproof.errors import Caution
from tailproof.log.columns import CriticColumns, Summaries
from tailproof.log.horizon import ends_by_the_clock
from tailproof.log.log import Log
from tailproof.log.misfit import doubtful_propensities
from tailproof.log.validation import require_squares
from tailproof.profile.checks import (
    Hole,
    coverage,
    holes_of,
    missing_codes,
    some_episodes,
    unlogged,
)
from tailproof.profile.clusters import Cluster, clusters_of, with_clusters
from tailproof.profile.memory import Memory, comes_last, find_memory
from tailproof.profile.one_step import OneStepRows
from tailproof.profile.shape import RewardFit, RewardShape, measure
from tailproof.rules import RULES


class LogProfile:
    """The facts about a log that no policy changes.

    Every fact is computed when it is first asked for, and kept. The doors pass one profile to all
    policies of a `compare`, all candidates of a `learn`, and from an evaluation to its report; pass it
    in place of the log to share it between calls. Results never hold a profile.

    Examples
    --------
    >>> from tailproof import LogProfile, evaluate
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> profile = LogProfile(world.log(episodes=20, seed=1))
    >>> profile.ends_by_the_clock
    False
    >>> estimate = evaluate(profile, world.target(), gamma=0.99)
    """

    def __init__(self, log: Log) -> None:
        self.log = log
        self._grouped_by: tuple[Cluster, ...] = ()
        self._one_step: dict[int, OneStepRows] = {}
        self._samples: dict[tuple[int, int], LogProfile] = {}
        self._moves: Moves | None = None

    def of(self, log: Log) -> LogProfile:
        """Return the profile of a log that was made from this one: this profile if it is the same."""
        if log is self.log:
            return self
        made = LogProfile(log)
        made._grouped_by = self._grouped_by
        return made

    @cached_property
    def clusters(self) -> tuple[Cluster, ...]:
        """Columns whose rows with the same value are not independent, if no group was named."""
        return self._grouped_by or clusters_of(self.log)

    def grouped(self) -> LogProfile:
        """Return the profile of the log with clusters that are beyond doubt as groups."""
        log = with_clusters(self.log, self.clusters)
        if log is self.log:
            return self
        made = LogProfile(log)
        made._grouped_by = self.clusters
        return made

    def part(self, log: Log) -> LogProfile:
        """Return the profile of some of the episodes, whose critics see the same columns."""
        found = self.of(log)
        if found is not self:
            found.ends_by_the_clock, found.past = self.ends_by_the_clock, self.past
        return found

    def widened(self, past: Summaries) -> LogProfile:
        """Return the profile of the log whose states hold averages of the past, and need no others."""
        found = LogProfile(past.added_to(self.log))
        found.ends_by_the_clock, found.past = self.ends_by_the_clock, None
        return found

    @cached_property
    def ends_by_the_clock(self) -> bool:
        """Whether the step of an episode tells more about its end than the state does."""
        return ends_by_the_clock(self.log)

    @cached_property
    def _with_squares(self) -> Log:
        """The log, if the squares of its rewards are numbers."""
        require_squares(self.log.rewards)
        return self.log

    @cached_property
    def rewards(self) -> RewardFit:
        """A robust regression of the rewards on state and action, and the shape of its residuals."""
        return measure(self._with_squares)

    @property
    def memory(self) -> Memory | None:
        """What came earlier in an episode and tells more than the logged columns, beyond doubt."""
        return self.past if self.past and self.past.certain else None

    @cached_property
    def past(self) -> Memory | None:
        """What came earlier in an episode and may tell more than the logged columns; None if nothing.

        Extremes that neighbouring episodes share, such as a storm, are dependence, not memory.
        """
        log = some_groups(self._some, RULES.settled, seed=0)
        found = find_memory(log, step=self.ends_by_the_clock)
        return None if found and self.rewards.shape.unit in ("block", "group") else found

    @cached_property
    def critic_columns(self) -> CriticColumns:
        """The columns that critics see and policies do not."""
        past = CriticColumns() if self.memory is None else self.memory.columns
        return replace(past, step=self.ends_by_the_clock)

    @cached_property
    def rewards_with_columns(self) -> RewardFit:
        """`rewards` with the columns of critics among the states."""
        if not self.critic_columns:
            return self.rewards
        return measure(self.critic_columns.added_to(self._with_squares))

    @cached_property
    def reward_shape(self) -> RewardShape:
        """Tails, skew and clustering of the rewards beyond what critics see of state and action.

        That of a one-step log with more than 200,000 rows is measured on a sample of them.
        """
        log = self._with_squares
        if log.is_bandit:  # the regression itself is not needed again
            return measure(some_groups(log, RULES.settled, seed=0)).shape
        return self.rewards_with_columns.shape

    def hidden_state(self, *, seen: bool = True) -> tuple[Caution, ...]:
        """Return a caution if the logged columns do not tell all that matters.

        `seen`: whether critics see the summaries of `critic_columns`. For others, which take less time
        than the test, it is made only where rewards come at the end of episodes, and voids the answer.
        """
        if not (seen or comes_last(self._some)) or self.memory is None:
            return ()
        return (self.memory.caution(seen=seen),)

    @cached_property
    def cautions(self) -> tuple[Caution, ...]:
        """What is wrong with the states, the propensities and the groups, whatever the policy."""
        doubts = doubtful_propensities(self._some) if self.log.has_propensity else ()
        return (
            *missing_codes(self._some),
            *(Caution("propensities", each) for each in doubts),
            *(each.caution for each in self.clusters),
        )

    @cached_property
    def _some(self) -> Log:
        """The log, or some episodes of one on disk."""
        return some_episodes(self.log)

    @cached_property
    def _holes(self) -> tuple[Hole, ...]:
        """Where actions were never logged though they are common elsewhere."""
        return tuple(holes_of(self._some))

    @property
    def unlogged(self) -> BoolArray:
        """Which actions were never logged in states like that of each row, (n, A)."""
        whole = self._some is self.log
        return unlogged(self.log, self._holes if whole else tuple(holes_of(self.log)))

    def coverage(self, task: Task) -> tuple[Caution, ...]:
        """Return cautions about the actions of the task's policy that the log does not cover."""
        log = self.log
        if not log.is_discrete:
            return ()
        return coverage(task, self._some, self._holes)

    def moves(self, log: Log) -> Moves:
        """Return the transitions of this log, perhaps with more columns, to walk through."""
        if self._moves is None or self._moves.log is not log:
            self._moves = Moves.of(log)
        return self._moves

    def one_step(self, key: int) -> OneStepRows:
        """Return the rows of a one-step log in an order set by the key, with models of the reward."""
        if key not in self._one_step:
            self._one_step = {key: OneStepRows.of(self._with_squares, key)}
        return self._one_step[key]

    def sample(self, rows: int, seed: int) -> LogProfile:
        """Return the profile of random groups of episodes with about this many rows."""
        if (rows, seed) not in self._samples:
            some = some_groups(self.log, rows, seed=seed)
            self._samples = {(rows, seed): self.part(some)}
        return self._samples[rows, seed]
