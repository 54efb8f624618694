"""What the CartPole learning experiments share: every learner on one log, and their regrets."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailproof.algorithms.linear.statistics import Absolute
from tailproof.algorithms.task import Task
from tailproof.data.log import Log
from tailproof.ensemble.aggregate import Aggregate
from tailproof.ensemble.critics import Ensemble
from tailproof.errors import FoldError
from tailproof.learning.learn import learn
from tailproof.methods.catalogue import method
from tailproof.methods.fit import fit_members
from tailproof.methods.method import Method
from tailproof.policies.greedy import GreedyPolicy
from tailproof.studies.paper.cartpole import BEST_VALUE, GAMMA, unheard, values_of
from tailproof.studies.paper.experiment import Job, Row, Settings

#: Section 5 and appendix A3.2; the ridge is the released code's, the paper does not say it.
LEARNING: Settings = {
    "episodes": 400,
    "steps": 100,
    "epsilon": 0.05,
    "gamma": GAMMA,
    "folds": 5,
    "ridge": 20.0,
    "iterations": 100,
    "evaluation_episodes": 100,
    "best_value": BEST_VALUE,
}
#: Methods whose ridge per observation is that of a fold, whatever they fit on.
EQUAL = "-equal"


class Learners:
    """Policies learned from one log, by name; `rows` plays all of them side by side.

    A ridge of 20 on the 8,000 rows of a fold is one of 1/400 an observation; on the 40,000 rows of
    the whole log it is a fifth of that. Names that end in ``-equal`` have 1/400 an observation
    everywhere. For the methods that split the log the two are the same.
    """

    def __init__(self, log: Log, job: Job) -> None:
        self.log, self.job = log, job
        self.policies: dict[str, GreedyPolicy] = {}
        self.bad_folds: dict[str, int] = {}

    def fit(self, name: str, *, as_name: str | None = None, **changes: Any) -> GreedyPolicy:
        """Learn by a named method with the paper's settings, and keep the policy."""
        settings = self.job.settings
        row = name.removesuffix(EQUAL)
        rows_a_fold = settings["episodes"] * settings["steps"] / settings["folds"]
        ridge = settings["ridge"] / rows_a_fold if name != row else Absolute(settings["ridge"])
        chosen = method(row, ridge=ridge, iterations=settings["iterations"], **changes)
        seed = self.job.integer(1)
        policy: GreedyPolicy
        with unheard():
            try:
                learned = learn(self.log, method=chosen, gamma=GAMMA, seed=seed)
                policy, bad = learned.policy, len(learned.bad_folds)
            except FoldError:
                policy, bad = self._unchecked(chosen, seed)
        self.policies[as_name or name], self.bad_folds[as_name or name] = policy, bad
        return policy

    def again(self, name: str, policy: GreedyPolicy, aggregate: Aggregate) -> None:
        """Keep the policy of another aggregate of the same critics."""
        critic = Ensemble(policy.critic.members, aggregate)
        self.policies[name] = GreedyPolicy(critic, policy.n_actions, policy.actions)
        self.bad_folds[name] = 0

    def rows(self) -> list[Row]:
        """Return the regret of every policy, over as many steps as the log's episodes have."""
        settings = self.job.settings
        values = values_of(
            list(self.policies.values()),
            episodes=settings["evaluation_episodes"],
            steps=settings["steps"],
            seed=self.job.rng(2),
        )
        return [
            {
                "method": name,
                "value": float(value),
                "regret": settings["best_value"] - float(value),
                "bad_folds": self.bad_folds[name],
            }
            for name, value in zip(self.policies, values, strict=True)
        ]

    def _unchecked(self, chosen: Method, seed: int) -> tuple[GreedyPolicy, int]:
        """Return the policy of critics that `learn` refuses to trust: the paper's code would use it."""
        task = Task(self.log, GAMMA, None, self.log.first_states, seed=seed)
        members = fit_members(task, chosen, np.random.default_rng(seed))
        assert members.fitted is not None
        critics = members.fitted.critics
        bad = int((~critics.healthy()).sum())
        return GreedyPolicy(Ensemble(critics, chosen.aggregate), self.log.n_actions), bad
