"""Learners in the battery: they return a policy, and are judged by what it is worth."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.learning.learn import learn
from tailproof.learning.learned import Learned
from tailproof.methods.catalogue import method
from tailproof.methods.method import Method
from tailproof.policies.simple import Policy
from tailproof.studies.battery.cells import Cell, Problem
from tailproof.studies.battery.entrants import Estimator
from tailproof.studies.battery.stories import story

if TYPE_CHECKING:
    from tailproof.studies.battery.run import Findings

#: A problem and a seed to a policy, or to what `learn` returns.
Learner = Callable[..., Any]


@dataclass(frozen=True)
class Taught:
    """A `Method` as a learner.

    Without a discount every episode ends within 24 steps here: 25 sweeps from 0 are enough.
    """

    method: Method

    def __call__(self, problem: Problem, *, seed: int) -> Learned:
        """Learn a policy."""
        known = {each for each in vars(self.method.base) if each in ("iterations", "start")}
        sweeps = {"iterations": 25, "start": "zero"} if problem.gamma == 1 else {}
        chosen = self.method.with_settings(**{k: v for k, v in sweeps.items() if k in known})
        return learn(problem.log, method=chosen, gamma=problem.gamma, seed=seed)


def default_learners() -> dict[str, Learner]:
    """Return the learners that the leaderboard compares.

    Examples
    --------
    >>> list(default_learners())[:3]
    ['fqi', 'ma', 'room-vm']
    """
    names = ("fqi", "ma", "room-vm", "room-fqi", "p-room-fqi", "huber-reward", "bc", "zero-reward")
    learners: dict[str, Learner] = {name: Taught(method(name)) for name in names}
    return {**learners, "fqi clipped 1 %": Taught(method("fqi", clip=0.01))}


def taught(learner: Learner, worth: Callable[[Policy], float]) -> Estimator:
    """Return an entrant that answers what the learned policy is worth."""

    def value(problem: Problem, *, seed: int) -> float:
        learned = learner(problem, seed=seed)
        return worth(learned.policy if isinstance(learned, Learned) else learned)

    return value


@dataclass(frozen=True)
class Schooling:
    """One learner's line.

    Attributes
    ----------
    regret
        Mean over cells of the regret, as a share of what acting well gains over acting at random.
    worst, worst_cell
        The largest mean regret of a cell, and which.
    by_noise
        The mean regret under each noise.
    stories
        Mean and least $/day over the logs of each story, and the mean of the best candidate there.
    """

    learner: str
    regret: float
    worst: float
    worst_cell: str
    by_noise: dict[str, float]
    stories: dict[str, tuple[float, float, float]]
    failures: int = 0
    failure: str = ""


@dataclass(frozen=True)
class SchoolReport:
    """The scores of learners; `regrets` is the mean share of each cell, (C, M)."""

    learners: tuple[str, ...]
    cells: tuple[Cell, ...]
    regrets: FloatArray
    lines: tuple[Schooling, ...]

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        return {
            "learners": list(self.learners),
            "lines": [asdict(line) for line in self.lines],
            "cells": [
                {"cell": str(cell), **dict(zip(self.learners, row, strict=True))}
                for cell, row in zip(self.cells, self.regrets.tolist(), strict=True)
            ],
        }


def school_report(findings: Findings) -> SchoolReport:
    """Score what learners were worth; a learner that failed is worth as much as acting at random."""
    samples, learners, failures = findings.cells(), findings.entrants, findings.failures()
    regrets = np.empty((len(samples), len(learners)))
    for i, (cell, sample) in enumerate(samples.items()):
        floor = cell.setting.ground.aimless
        values = np.where(np.isnan(sample.values), floor, sample.values)
        regrets[i] = (sample.truth - values.mean(axis=0)) / (sample.truth - floor)
    cells, earned = tuple(samples), _earned(findings)
    lines = []
    for who, own in zip(learners, regrets.T, strict=True):
        by_noise: dict[str, list[float]] = {}
        for cell, regret in zip(cells, own.tolist(), strict=True):
            by_noise.setdefault(cell.noise, []).append(regret)
        lines.append(
            Schooling(
                learner=who,
                regret=float(own.mean()) if cells else math.nan,
                worst=float(own.max()) if cells else math.nan,
                worst_cell=str(cells[own.argmax()]) if cells else "",
                by_noise={noise: float(np.mean(each)) for noise, each in by_noise.items()},
                stories={name: found[who] for name, found in earned.items()},
                failures=failures[who][0],
                failure=failures[who][1],
            )
        )
    lines.sort(key=lambda line: (np.isnan(line.regret), line.regret))
    return SchoolReport(learners, cells, regrets, tuple(lines))


def _earned(findings: Findings) -> dict[str, dict[str, tuple[float, float, float]]]:
    found = {}
    for name in findings.battery.stories:
        hubs, values = findings.story(name)
        if hubs:
            best = float(np.mean([max(story(name).decided.values(hub).values()) for hub in hubs]))
            found[name] = {
                who: (float(each.mean()), float(each.min()), best) for who, each in values.items()
            }
    return found
