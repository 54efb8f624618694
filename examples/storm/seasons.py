"""The storage world's two stories: choose a policy by estimates on one year, evaluate it on the other.

Each has a log of one year at one hub, an estimate for every candidate, and the regret of the candidate
with the highest estimate in the other year. The log of story A includes the storm; the control B is a
calm year.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from examples.storm import storage
from tailproof.arrays import FloatArray
from tailproof.errors import TailproofError
from tailproof.log.log import Log
from tailproof.policies.forms import Policy

#: The candidate schedules: all but the dispatcher's, which is the logging policy.
CANDIDATES = {
    name: policy for name, policy in storage.CANDIDATES.items() if policy != storage.DISPATCHER
}


@dataclass(frozen=True)
class Year:
    """The days of a year, with or without the storm."""

    year: int
    storm: bool = True

    def value(self, policy: Policy, hub: str) -> float:
        """Return a policy's exact value at a hub in $/day."""
        return storage.exact_value(policy, hubs=[hub], year=self.year, storm=self.storm)

    def values(self, hub: str) -> dict[str, float]:
        """Return every candidate's exact value at a hub in $/day."""
        return {name: self.value(policy, hub) for name, policy in CANDIDATES.items()}


@dataclass(frozen=True)
class Story:
    """The logged year, its `calm` part, and the year for which a policy is chosen."""

    logged: Year
    calm: Year
    decided: Year
    about: str

    def log(self, hub: str, seed: int) -> Log:
        """Return the dispatcher's log of the logged year at a hub."""
        return storage.log(hub, self.logged.year, seed, storm=self.logged.storm)


_STORMY, _CALM, _NEXT = Year(2021), Year(2021, storm=False), Year(2022)
STORIES = {
    "A": Story(_STORMY, _CALM, _NEXT, "2021 with its storm, to decide for 2022"),
    "B": Story(_NEXT, _NEXT, _CALM, "the calm 2022, to decide for 2021 without its storm"),
}


def story(name: str) -> Story:
    """Return a story by its letter."""
    if name not in STORIES:
        raise TailproofError(f"There is no story {name!r}. Known are {', '.join(STORIES)}.")
    return STORIES[name]


@dataclass(frozen=True)
class StoryScore:
    """One entrant's scores in a story, over hubs and draws, in $/day."""

    rmse: float  # against the exact value in the logged year
    rmse_calm: float  # against that in the logged year without the storm
    regret: float  # best candidate's value minus its choice's, in the year of the decision
    regret_error: float  # standard error of that mean over the draws of the behaviour
    best: float  # share of logs in which it picks that candidate


def story_score(name: str, hubs: list[str], values: FloatArray) -> StoryScore:
    """Return the score of one entrant's estimates of the candidates, (L, C); NaN is never chosen.

    `hubs` are the hubs of the logs, `name` is the story.
    """
    told = story(name)
    logged, calm, decided = (
        np.array([list(year.values(hub).values()) for hub in hubs])  # (L, C)
        for year in (told.logged, told.calm, told.decided)
    )
    picks = np.where(np.isfinite(values), values, -np.inf).argmax(axis=1)
    best = decided.max(axis=1)
    regret = best - decided[np.arange(len(hubs)), picks]
    return StoryScore(
        rmse=float(np.sqrt(np.mean((values - logged) ** 2))),
        rmse_calm=float(np.sqrt(np.mean((values - calm) ** 2))),
        regret=float(regret.mean()),
        regret_error=float(regret.std(ddof=1) / np.sqrt(len(regret))) if len(regret) > 1 else 0.0,
        best=float(np.mean(regret == 0)),
    )
