"""Benchmark runs: deterministic by (cell, replicate), parallel and resumable."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from benchmarks.battery.cells import (
    NOISES,
    Cell,
    Problem,
    Setting,
    default_settings,
    seed_for,
)
from benchmarks.battery.entrants import (
    LEVELS,
    Estimator,
    Reply,
    default_entrants,
    reply_of,
    taught,
)
from examples.storm.prices import HUBS
from examples.storm.seasons import CANDIDATES, STORIES, story
from examples.storm.storage import BEHAVIOUR
from reproduction.journal import Journal
from tailproof.arrays import FloatArray
from tailproof.checkpoint import fingerprint
from tailproof.errors import TailproofError
from tailproof.parallel import Engine, one_thread, running
from tailproof.policies.forms import Policy

SEED = 20261115
Asks = Literal["value", "policy"]
#: The replies for one item, by question (a noise or a candidate) and entrant.
Replies = dict[str, dict[str, Reply]]


@dataclass(frozen=True)
class Battery:
    """The runs: entrants × (settings × noises, and stories of the storage world).

    Entrants are callables of a `Problem` and a ``seed``. Estimators return a number, an `Estimate` or
    a `Reply`. Learners return a policy, whose exact value is then computed; the policy of their
    `Problem` is the logging policy.
    """

    entrants: Mapping[str, Estimator] = field(default_factory=default_entrants)
    settings: tuple[Setting, ...] = field(default_factory=default_settings)
    noises: tuple[str, ...] = tuple(NOISES)  # every setting meets every noise
    stories: tuple[str, ...] = tuple(STORIES)
    replicates: int = 100  # logs of each setting
    draws: int = 12  # logs of each hub and story
    story_entrants: Mapping[str, Estimator] = field(default_factory=dict)  # in the stories only
    asks: Asks = "value"
    seed: int = SEED

    def __post_init__(self) -> None:
        if not self.entrants:
            raise TailproofError("The battery needs at least one entrant. Got none.")
        unknown = [noise for noise in self.noises if noise not in NOISES]
        if unknown:
            raise TailproofError(
                f"There is no noise {unknown[0]!r} in the battery. Known are {'; '.join(NOISES)}."
            )
        for name in self.stories:
            story(name)
        both = set(self.entrants) & set(self.story_entrants)
        if both:
            raise TailproofError(f"Entrants need names of their own. Got {min(both)!r} twice.")

    def items(self) -> list[Item]:
        """Return the work items ordered by replicate, so that partial runs are balanced."""
        cells: list[Item] = [
            CellLog(setting, replicate)
            for replicate in range(self.replicates)
            for setting in self.settings
            if self.noises
        ]
        return cells + [
            StoryLog(name, hub, draw)
            for draw in range(self.draws)
            for name in self.stories
            for hub in HUBS
        ]

    def signature(self) -> dict[str, Any]:
        """Return the settings that a record file must share to be resumed."""
        return {
            "seed": self.seed,
            "asks": self.asks,
            "entrants": _fingerprints(self.entrants),
            "story_entrants": _fingerprints(self.story_entrants),
            "noises": [*self.noises],
        }


def _fingerprints(entrants: Mapping[str, Estimator]) -> dict[str, str]:
    """Return a fingerprint of each entrant's code, by name, to detect edits."""
    return {name: fingerprint(entrant)[:16] for name, entrant in entrants.items()}


@dataclass(frozen=True)
class CellLog:
    """One log of a setting, under every noise."""

    setting: Setting
    replicate: int

    def __str__(self) -> str:
        return f"{self.setting}, replicate {self.replicate}"

    def clean(self, battery: Battery) -> Problem:
        """Return the problem without noise."""
        return self.setting.problem(
            np.random.default_rng(seed_for(battery.seed, self.setting, self.replicate))
        )

    def problems(self, battery: Battery) -> Iterator[tuple[str, Problem, int]]:
        """Yield the problem under each noise, and a seed; all share states and actions."""
        names = (self.setting, self.replicate)
        clean = self.clean(battery)
        for noise in battery.noises:
            seed = seed_for(battery.seed, *names, noise)
            log = NOISES[noise].put_on(clean.log, seed)
            policy = clean.policy if battery.asks == "value" else self.setting.ground.behaviour
            problem = Problem(log, policy, clean.gamma)
            yield noise, problem, int(seed.spawn(1)[0].generate_state(1)[0])

    def worth(self, policy: Policy) -> float:
        """Return the value of a learned policy."""
        return self.setting.ground.value(policy)


@dataclass(frozen=True)
class StoryLog:
    """One log of a story, to evaluate every candidate."""

    story: str
    hub: str
    draw: int

    def __str__(self) -> str:
        return f"story {self.story}, {self.hub}, draw {self.draw}"

    def problems(self, battery: Battery) -> Iterator[tuple[str, Problem, int]]:
        """Yield the problem of each candidate, and a seed."""
        seed = int(seed_for(battery.seed, "storage", self.story, self.draw).generate_state(1)[0])
        log = story(self.story).log(self.hub, seed)
        asked = CANDIDATES if battery.asks == "value" else {"policy": BEHAVIOUR}
        for name, policy in asked.items():
            yield name, Problem(log, policy, 1.0), seed

    def worth(self, policy: Policy) -> float:
        """Return the value of a learned policy in the year of the decision."""
        return story(self.story).decided.value(policy, self.hub)


Item = CellLog | StoryLog


def replies(battery: Battery, item: Item) -> Replies:
    """Return the replies of all entrants to all questions of one item."""
    entrants = dict(battery.entrants)
    if isinstance(item, StoryLog):
        entrants |= battery.story_entrants
    if battery.asks == "policy":
        entrants = {who: taught(learner, item.worth) for who, learner in entrants.items()}
    with one_thread():
        return {
            name: {who: reply_of(entrant, problem, seed=seed) for who, entrant in entrants.items()}
            for name, problem, seed in item.problems(battery)
        }


@dataclass(frozen=True)
class Sample:
    """The replies of one cell: R logs, M entrants, L levels."""

    truth: float  # the value of the policy to evaluate, or of the best one there is
    values: FloatArray  # (R, M), NaN where an entrant failed
    ends: FloatArray  # (R, M, L, 2): the intervals at `LEVELS`, NaN where one was declined


@dataclass(frozen=True)
class Findings:
    """All replies, by item."""

    battery: Battery
    replies: dict[str, Replies]

    @property
    def entrants(self) -> tuple[str, ...]:
        """Names of the entrants, in order."""
        return tuple(self.battery.entrants)

    def cells(self) -> dict[Cell, Sample]:
        """Return the replies of each cell that has any."""
        found = {}
        nothing = (math.nan, math.nan)
        for setting in self.battery.settings:
            items = [str(CellLog(setting, r)) for r in range(self.battery.replicates)]
            done = [self.replies[item] for item in items if item in self.replies]
            truth = setting.ground.truth if self.battery.asks == "value" else setting.ground.best
            for noise in self.battery.noises if done else ():
                rows = [[each[noise][who] for who in self.entrants] for each in done]
                found[Cell(setting, noise)] = Sample(
                    truth,
                    np.array([[reply.value for reply in row] for row in rows]),
                    np.array(
                        [
                            [
                                [reply.intervals.get(level, nothing) for level in LEVELS]
                                for reply in row
                            ]
                            for row in rows
                        ]
                    ),
                )
        return found

    def story(self, name: str) -> tuple[list[str], dict[str, FloatArray]]:
        """Return the hub of each log of a story, and each entrant's estimates, (logs, candidates)."""
        items = [item for item in self.battery.items() if isinstance(item, StoryLog)]
        done = [item for item in items if item.story == name and str(item) in self.replies]
        said = [self.replies[str(item)].values() for item in done]
        values = {
            who: np.array([[row[who].value for row in rows] for rows in said])
            for who in (*self.battery.entrants, *self.battery.story_entrants)
        }
        return [item.hub for item in done], values

    def failures(self) -> dict[str, tuple[int, str]]:
        """Return each entrant's number of failures and first error message; (0, "") for none."""
        found = dict.fromkeys((*self.battery.entrants, *self.battery.story_entrants), (0, ""))
        rows = (row for said in self.replies.values() for row in said.values())
        for who, reply in (pair for row in rows for pair in row.items()):
            if reply.failure or not math.isfinite(reply.value):
                count, first = found[who]
                found[who] = (count + 1, first or reply.failure or "a value of NaN")
        return found


def run(
    battery: Battery,
    *,
    engine: str | Engine | None = None,
    record: str | Path | None = None,
    advance: Callable[[], object] = lambda: None,
) -> Findings:
    """Run the benchmark; results depend on its seed, not on the engine or on interruptions.

    Parameters
    ----------
    battery
        What to run.
    engine
        Where: ``Local(workers=2, kind="processes")``, ``"ray"``; by default here, one item at a time.
    record
        A file to which each item's replies are appended. Items in it are not run again.
    advance
        Called after each item.

    Examples
    --------
    >>> from benchmarks.battery import Setting
    >>> def guess(problem, *, seed):
    ...     return 100.0
    >>> small = Battery(
    ...     entrants={"guess": guess},
    ...     settings=(Setting("cartpole", "good", 500),),
    ...     noises=("Gaussian",),
    ...     stories=(),
    ...     replicates=2,
    ... )
    >>> [sample.values.tolist() for sample in run(small).cells().values()]
    [[[100.0], [100.0]]]
    """
    items = {str(item): item for item in battery.items()}
    with running(engine) as place, _record(record, battery.signature()) as kept:
        left = {name: item for name, item in items.items() if name not in kept}
        for _ in range(len(items) - len(left)):
            advance()
        said = place.results(replies, list(left.values()), shared=battery)
        for name, found in zip(left, said, strict=True):
            kept.append(name, _packed(found))
            advance()
        return Findings(battery, {name: _unpacked(kept[name]) for name in items})


def _record(path: str | Path | None, signature: dict[str, Any]) -> Journal:
    """Return the journal of a file, or one in memory; the file must have the same `signature`."""
    differs = (
        "it holds a run with another seed, other entrants or other noises. An entrant whose code was "
        "edited is another one"
    )
    return Journal(None if path is None else Path(path), signature, differs=differs)


def _packed(said: Replies) -> dict[str, Any]:
    return {
        name: {
            who: [reply.value, [[*pair] for pair in reply.intervals.items()], reply.failure]
            for who, reply in row.items()
        }
        for name, row in said.items()
    }


def _unpacked(packed: dict[str, Any]) -> Replies:
    return {
        name: {
            who: Reply(value, {level: (low, high) for level, (low, high) in pairs}, failure)
            for who, (value, pairs, failure) in row.items()
        }
        for name, row in packed.items()
    }
