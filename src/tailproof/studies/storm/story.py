"""The demonstration: a battery, a year with a winter storm, and the choice for the next year.

A test bed on real prices. The battery does not move them, so that every policy can be replayed for its
exact value; with such data one would replay and not estimate. Here estimates meet that truth.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tailproof.algorithms.linear.statistics import Absolute
from tailproof.data.log import Log
from tailproof.data.partition import Split
from tailproof.diagnosis.diagnose import diagnose
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.evaluation.evaluate import evaluate
from tailproof.learning.learn import learn
from tailproof.methods.catalogue import method
from tailproof.methods.method import Method
from tailproof.worlds import storage
from tailproof.worlds.prices import STORM

HUB = "HB_NORTH"
FOLDS = 5
_EVALUATION: dict[str, Any] = {"features": storage.HourlyFeatures(), "ridge": Absolute(0.1)}
_LEARNING: dict[str, Any] = {
    "features": storage.SmoothFeatures(),
    "ridge": Absolute(0.1),
    "iterations": 25,
    "start": "zero",
}

PLAIN, DAYS, WEEKS, CLIPPED, AUTO = (
    "plain average",
    f"{FOLDS} folds of days",
    f"{FOLDS} folds of weeks",
    "clipped at 1 %",
    "default",
)
ESTIMATORS: dict[str, Method] = {
    PLAIN: method("lstd", **_EVALUATION),
    DAYS: method("roam-dm", base="lstd", folds=FOLDS, **_EVALUATION),
    WEEKS: method("roam-dm", base="lstd", folds=FOLDS, **_EVALUATION),
    CLIPPED: method("lstd", clip=0.01, **_EVALUATION),
    AUTO: method("auto", **_EVALUATION),
}
LEARNERS: dict[str, Method] = {
    "FQI: plain average": method("fqi", **_LEARNING),
    "ROOM-FQI: 10 folds of weeks": method("room-fqi", folds=10, **_LEARNING),
    "FQI clipped: at 1 %": method("fqi", clip=0.01, **_LEARNING),
}


@dataclass(frozen=True)
class Story:
    """Which year is logged, and for which days a policy is chosen."""

    logged: int
    decided: int
    storm: bool  # whether the days decided for count the storm
    about: str


STORMY = Story(2021, 2022, True, "a stormy 2021, to choose for 2022")
CALM = Story(2022, 2021, False, "a calm 2022, to choose for 2021 without the storm")


@dataclass(frozen=True)
class Season:
    """What one log said, beside the truth.

    Attributes
    ----------
    truth, next_truth
        The exact value of each candidate in $ a day, in the logged year and in the one decided for.
    estimates
        By estimator and candidate.
    learned
        The exact value of each learner's policy in the year decided for.
    """

    hub: str
    story: Story
    truth: Mapping[str, float]
    next_truth: Mapping[str, float]
    estimates: Mapping[str, Mapping[str, float]]
    learned: Mapping[str, float]

    def error(self, estimator: str) -> float:
        """Return the root mean squared error over the candidates."""
        found = self.estimates[estimator]
        return math.sqrt(np.mean([(found[name] - self.truth[name]) ** 2 for name in found]))

    def pick(self, estimator: str) -> str:
        """Return the candidate that looks best."""
        found = self.estimates[estimator]
        return max(found, key=found.__getitem__)

    def lost(self, estimator: str) -> float:
        """Return the $ a day that the pick loses against the best candidate, in the year after."""
        return max(self.next_truth.values()) - self.next_truth[self.pick(estimator)]


@dataclass(frozen=True)
class Demonstration:
    """Everything the demonstration shows."""

    hub: str
    seed: int
    log: Log
    diagnosis: Diagnosis
    storm_share: float  # of all money that moved
    folds_hit: Mapping[str, int]  # folds that hold days of the storm
    stormy: tuple[Season, ...]  # the chosen hub first
    calm: tuple[Season, ...]

    @property
    def storm_days(self) -> tuple[str, ...]:
        """The influential episodes that are days of the storm."""
        first, last = (str(day) for day in STORM)
        named = (str(each.episode) for each in self.diagnosis.influence.episodes)
        return tuple(day for day in named if first <= day <= last)

    def over_hubs(self, seasons: tuple[Season, ...]) -> dict[str, tuple[float, float]]:
        """Return each estimator's error and loss over all hubs."""
        return {
            name: (
                math.sqrt(np.mean([season.error(name) ** 2 for season in seasons])),
                float(np.mean([season.lost(name) for season in seasons])),
            )
            for name in ESTIMATORS
        }

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        return {
            "hub": self.hub,
            "seed": self.seed,
            "storm_share": self.storm_share,
            "folds_hit": dict(self.folds_hit),
            "stormy": [_plain(season) for season in self.stormy],
            "calm": [_plain(season) for season in self.calm],
            "diagnosis": self.diagnosis.to_dict(),
        }


def demonstrate(
    *,
    hub: str = HUB,
    others: Sequence[str] = storage.HUBS,
    seed: int = 0,
    advance: Callable[[], object] | None = None,
) -> Demonstration:
    """Play both stories at a hub, and at the others.

    Parameters
    ----------
    hub
        One of `worlds.storage.HUBS`, whose log is diagnosed.
    others
        Where the stories are played as well.
    seed
        Of the logged dispatcher's choices and of the folds.
    advance
        Called after the diagnosis and after each story at each hub.
    """
    done = advance or (lambda: None)
    log = storage.log(hub, STORMY.logged, seed)
    in_storm = _in_storm(log)
    hit = {
        name: _folds_hit(each, in_storm, seed)
        for name, each in ((DAYS, replace(log, group_ids=None)), (WEEKS, log))
    }
    moved = np.add.reduceat(np.abs(log.rewards), log.starts[:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        diagnosis = diagnose(log, gamma=1.0, seed=seed)
        done()
        hubs = [hub, *(other for other in others if other != hub)]
        seasons: dict[Story, list[Season]] = {STORMY: [], CALM: []}
        for story, each in ((story, each) for each in hubs for story in seasons):
            seasons[story].append(play_season(story, each, seed=seed))
            done()
    return Demonstration(
        hub=hub,
        seed=seed,
        log=log,
        diagnosis=diagnosis,
        storm_share=float(moved[in_storm].sum() / moved.sum()),
        folds_hit=hit,
        stormy=tuple(seasons[STORMY]),
        calm=tuple(seasons[CALM]),
    )


def play_season(story: Story, hub: str, *, seed: int = 0) -> Season:
    """Log one year at one hub, estimate every candidate, learn, and look up the truth."""
    log = storage.log(hub, story.logged, seed)
    by_day = replace(log, group_ids=None)

    def truth(policy: Any, year: int, storm: bool = True) -> float:
        return storage.exact_value(policy, hubs=[hub], year=year, storm=storm)

    def decided(policy: Any) -> float:
        return truth(policy, story.decided, story.storm)

    candidates = storage.CANDIDATES
    return Season(
        hub=hub,
        story=story,
        truth={name: truth(policy, story.logged) for name, policy in candidates.items()},
        next_truth={name: decided(policy) for name, policy in candidates.items()},
        estimates={
            estimator: {
                name: evaluate(
                    by_day if estimator == DAYS else log, policy, method=row, gamma=1.0, seed=seed
                ).value
                for name, policy in candidates.items()
            }
            for estimator, row in ESTIMATORS.items()
        },
        learned={
            name: decided(learn(log, method=row, gamma=1.0, seed=seed).policy)
            for name, row in LEARNERS.items()
        },
    )


def _in_storm(log: Log) -> Any:
    first, last = STORM
    days = log.episode_ids.astype("datetime64[D]")
    return (days >= first) & (days <= last)  # (E,)


def _folds_hit(log: Log, in_storm: Any, seed: int) -> int:
    dealing, _ = np.random.default_rng(seed).spawn(2)  # as `evaluate` deals them
    folds = Split(FOLDS).assign(log, dealing).fold_of_episode()
    return len(np.unique(folds[in_storm]))


def _plain(season: Season) -> dict[str, Any]:
    return {
        "hub": season.hub,
        "logged": season.story.logged,
        "truth": dict(season.truth),
        "next_truth": dict(season.next_truth),
        "estimates": {name: dict(each) for name, each in season.estimates.items()},
        "errors": {name: season.error(name) for name in season.estimates},
        "picks": {name: season.pick(name) for name in season.estimates},
        "lost": {name: season.lost(name) for name in season.estimates},
        "learned": dict(season.learned),
    }
