"""The demonstration: a battery, a year with a winter storm, and the choice for the next year.

A test bed on real prices. The battery does not change them, so the exact value of every policy can be
computed by replay; in practice one would replay and not estimate. Here estimates are compared with it.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from examples.storm import storage
from examples.storm.prices import HUBS, STORM
from examples.storm.seasons import STORIES, Story
from tailproof.arrays import BoolArray
from tailproof.critics.penalties import Absolute
from tailproof.doors.diagnose import Diagnosis, diagnose
from tailproof.doors.evaluate import evaluate
from tailproof.doors.learn import learn
from tailproof.log.folds import Split
from tailproof.log.log import Log
from tailproof.methods.catalogue import method
from tailproof.methods.method import Method
from tailproof.profile.profile import LogProfile
from tailproof.report.blocks import Tone
from tailproof.report.plots import dots, name_axes, name_rows, rows_axes
from tailproof.report.text import number, percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes

HUB = "HB_NORTH"
STORMY, CALM = STORIES.values()
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

TONES: dict[str, Tone] = dict(
    zip(ESTIMATORS, ("warn", "third", "main", "second", "good"), strict=True)
)
WORDS = ("the plain average", "folds of days", "folds of weeks", "clipping", "the default")
NAMES = dict(zip(ESTIMATORS, WORDS, strict=True))


@dataclass(frozen=True)
class Season:
    """The estimates from one log and the true values, in $/day."""

    hub: str
    story: Story
    truth: dict[str, float]  # of each candidate in the logged year, exactly
    next_truth: dict[str, float]  # the same in the year decided for
    estimates: dict[str, dict[str, float]]  # by estimator and candidate
    learned: dict[str, float]  # of each learner's policy in the year decided for, exactly

    def error(self, estimator: str) -> float:
        """Return the root mean squared error over the candidates."""
        found = self.estimates[estimator]
        return math.sqrt(np.mean([(found[name] - self.truth[name]) ** 2 for name in found]))

    def pick(self, estimator: str) -> str:
        """Return the candidate that looks best."""
        found = self.estimates[estimator]
        return max(found, key=found.__getitem__)

    def lost(self, estimator: str) -> float:
        """Return the choice's loss against the best candidate in the year decided for, in $/day."""
        return max(self.next_truth.values()) - self.next_truth[self.pick(estimator)]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        scores = {"errors": self.error, "picks": self.pick, "lost": self.lost}
        return {
            "hub": self.hub,
            "logged": self.story.logged.year,
            "truth": self.truth,
            "next_truth": self.next_truth,
            "estimates": self.estimates,
            **{name: {each: of(each) for each in self.estimates} for name, of in scores.items()},
            "learned": self.learned,
        }


@dataclass(frozen=True)
class Demonstration:
    """Everything the demonstration shows."""

    hub: str
    seed: int
    log: Log
    diagnosis: Diagnosis
    storm_share: float  # of all money that moved
    folds_hit: dict[str, int]  # folds that hold days of the storm
    stormy: tuple[Season, ...]  # the chosen hub first
    calm: tuple[Season, ...]

    @property
    def storm_days(self) -> tuple[str, ...]:
        """The influential episodes that are days of the storm."""
        first, last = (str(day) for day in STORM)
        named = (each.label for each in self.diagnosis.influence.units)
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

    def learned(self, name: str) -> tuple[float, float]:
        """Return the value of a learner's policy over all hubs, after the stormy and the calm year."""
        stormy, calm = (
            float(np.mean([season.learned[name] for season in seasons]))
            for seasons in (self.stormy, self.calm)
        )
        return stormy, calm

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        return {
            "hub": self.hub,
            "seed": self.seed,
            "storm_share": self.storm_share,
            "folds_hit": self.folds_hit,
            "stormy": [season.to_dict() for season in self.stormy],
            "calm": [season.to_dict() for season in self.calm],
            "diagnosis": self.diagnosis.to_dict(),
        }


def demonstrate(
    *,
    hub: str = HUB,
    others: Sequence[str] = HUBS,
    seed: int = 0,
    advance: Callable[[], object] = lambda: None,
) -> Demonstration:
    """Run both stories at a hub, whose log is diagnosed, and at the other hubs.

    `seed` is that of the logged dispatcher's choices and of the folds; `advance` is called after the
    diagnosis and after each story at each hub.
    """
    log = STORMY.log(hub, seed)
    days, (first, last) = log.episode_ids.astype("datetime64[D]"), STORM
    in_storm = (days >= first) & (days <= last)  # (E,)
    moved = np.add.reduceat(np.abs(log.rewards), log.starts[:-1])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        diagnosis = diagnose(log, gamma=1.0, seed=seed)
        advance()
        stormy: list[Season] = []
        calm: list[Season] = []
        for each in dict.fromkeys((hub, *others)):
            for story, seasons in ((STORMY, stormy), (CALM, calm)):
                seasons.append(season_of(story, each, seed=seed))
                advance()
    return Demonstration(
        hub=hub,
        seed=seed,
        log=log,
        diagnosis=diagnosis,
        storm_share=float(moved[in_storm].sum() / moved.sum()),
        folds_hit={
            DAYS: _folds_hit(replace(log, group_ids=None), in_storm, seed),
            WEEKS: _folds_hit(log, in_storm, seed),
        },
        stormy=tuple(stormy),
        calm=tuple(calm),
    )


def season_of(story: Story, hub: str, *, seed: int = 0) -> Season:
    """Log one year at one hub, estimate every candidate, learn, and look up the truth."""
    log = LogProfile(story.log(hub, seed))
    by_day = LogProfile(replace(log.log, group_ids=None))

    def estimates(name: str, row: Method) -> dict[str, float]:
        given = by_day if name == DAYS else log
        return {
            candidate: evaluate(given, policy, method=row, gamma=1.0, seed=seed).value
            for candidate, policy in storage.CANDIDATES.items()
        }

    truth, next_truth = (
        {name: year.value(policy, hub) for name, policy in storage.CANDIDATES.items()}
        for year in (story.logged, story.decided)
    )
    learned = {
        name: learn(log, method=row, gamma=1.0, seed=seed).policy for name, row in LEARNERS.items()
    }
    return Season(
        hub=hub,
        story=story,
        truth=truth,
        next_truth=next_truth,
        estimates={name: estimates(name, row) for name, row in ESTIMATORS.items()},
        learned={name: story.decided.value(policy, hub) for name, policy in learned.items()},
    )


def _folds_hit(log: Log, in_storm: BoolArray, seed: int) -> int:
    dealing, _ = np.random.default_rng(seed).spawn(2)  # as `evaluate` deals them
    folds = Split(FOLDS).assign(log, dealing).fold_of_episode()
    return len(np.unique(folds[in_storm]))


def story_sentences(shown: Demonstration) -> dict[str, str]:
    """Return the text of each part of the demonstration."""
    return {
        **_log_sentences(shown),
        **_estimate_sentences(shown.stormy[0], shown.folds_hit),
        **_control_sentences(shown),
        "limits": (
            "One storm, capped prices, one draw of the dispatcher at each hub, and hubs that move "
            "together: this shows what can happen, not how often."
        ),
    }


def _log_sentences(shown: Demonstration) -> dict[str, str]:
    influence = shown.diagnosis.influence
    return {
        "setting": (
            f"A battery of 2 MWh trades at the hub {shown.hub}. The year 2021 is logged: "
            f"{shown.log.n_episodes} days of 24 hours, by a dispatcher who acts at random half of the "
            f"time. One winter storm in February, nine days, moves {percent(shown.storm_share, 2)} of "
            f"all money. Which schedule should run in 2022? This is a test bed: the battery does not "
            f"move prices, so every schedule can be replayed and the truth is known. With such data "
            f"one would replay, not estimate."
        ),
        "diagnosis": (
            f"{shown.diagnosis.verdict.summary.partition(': use ')[0]}. Of the "
            f"{len(influence.units)} days that move the average return most, "
            f"{len(shown.storm_days)} are days of the storm; without these "
            f"{len(influence.units)} days it would be {number(influence.value_without_all, 3)} "
            f"instead of {number(influence.value, 3)} $ a day."
        ),
    }


def _estimate_sentences(here: Season, folds_hit: Mapping[str, int]) -> dict[str, str]:
    return {
        "evaluation": (
            f"The plain average errs by {here.error(PLAIN):.0f} $ a day. Dealt out day by day the "
            f"storm reaches {folds_hit[DAYS]} of {FOLDS} folds and a median errs by "
            f"{here.error(DAYS):.0f}; in whole weeks it reaches {folds_hit[WEEKS]}, and the "
            f"error is {here.error(WEEKS):.0f}. Clipping 1 % of the rewards gives "
            f"{here.error(CLIPPED):.0f}, the default, which looks at the log first, "
            f"{here.error(AUTO):.0f}."
        ),
        "choice": (
            f"The best schedule of 2022 was {_largest(here.next_truth)}. The plain average picks "
            f"{here.pick(PLAIN)} and loses {here.lost(PLAIN):.0f} $ a day; folds of weeks pick "
            f"{here.pick(WEEKS)} and lose {here.lost(WEEKS):.0f}."
        ),
    }


def _control_sentences(shown: Demonstration) -> dict[str, str]:
    stormy, calm = (
        {name: loss for name, (_, loss) in shown.over_hubs(seasons).items()}
        for seasons in (shown.stormy, shown.calm)
    )
    extremes = [
        f"the pick by {NAMES[least]} loses least, {lost[least]:.0f}{unit}, and that by {NAMES[most]} "
        f"most, {lost[most]:.0f}"
        for lost, unit in ((stormy, " $ a day"), (calm, ""))
        for least, most in [(min(lost, key=lost.__getitem__), _largest(lost))]
    ]
    plain, room, clipped = (shown.learned(name) for name in LEARNERS)
    price = "has its price" if calm[WEEKS] > calm[PLAIN] else "cost nothing"
    return {
        "control": (
            f"After the stormy year {extremes[0]}. After the calm year {extremes[1]}. There folds of "
            f"weeks lose {calm[WEEKS]:.0f} where the plain average loses {calm[PLAIN]:.0f}: "
            f"robustness {price}."
        ),
        "learning": (
            f"From the stormy year, FQI learns a schedule worth {plain[0]:.0f} $ a day in 2022, "
            f"ROOM-FQI over whole weeks one worth {room[0]:.0f}, FQI on clipped rewards one worth "
            f"{clipped[0]:.0f}. From the calm year the three are worth {plain[1]:.0f}, "
            f"{room[1]:.0f} and {clipped[1]:.0f}."
        ),
    }


def estimates_axes(season: Season, names: Sequence[str]) -> Axes:
    """Return the picture of `estimates_figure`."""
    axes = rows_axes(list(season.truth))
    axes.grid(axis="y")
    name_rows(axes, list(season.truth))
    places = range(len(season.truth))
    for each in names:
        values = [season.estimates[each][name] for name in season.truth]
        tips = [f"{name}, {each}: {x:.1f}" for name, x in zip(season.truth, values, strict=True)]
        dots(axes, values, places, TONES[each], tips=tips, radius=5)
    truth = list(season.truth.values())
    tips = [f"{name}, truth: {value:.1f}" for name, value in season.truth.items()]
    dots(axes, truth, places, "truth", tips=tips, radius=4, marker="D")
    name_axes(axes, x=f"value in {season.story.logged.year}, $ a day")
    return axes


def _largest(values: Mapping[str, float]) -> str:
    return max(values, key=values.__getitem__)
