"""Scores: errors relative to the best in each cell, coverage and width of intervals, regrets."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

import numpy as np

from benchmarks.battery.cells import Cell
from benchmarks.battery.entrants import LEVELS
from benchmarks.battery.run import Findings, Sample
from examples.storm.seasons import StoryScore, story, story_score
from tailproof.arrays import FloatArray, IntArray

FEW = 20  # intervals per cell that the lowest coverage requires


def root_mean_square(errors: FloatArray) -> FloatArray:
    """Return √mean(e²) of each column, (M,); an entrant that failed once has infinity.

    >>> root_mean_square(np.array([[3.0, np.nan], [4.0, 1.0]])).round(3).tolist()
    [3.536, inf]
    """
    squares = np.mean(np.square(errors), axis=0)
    return np.where(np.isnan(squares), np.inf, np.sqrt(squares))


def relative(rmse: FloatArray) -> FloatArray:
    """Return each entrant's RMSE over the least of its row, (C, M); 1 for the best."""
    best = rmse.min(axis=1, keepdims=True)
    with np.errstate(invalid="ignore", divide="ignore"):
        ratios = rmse / best
    return np.where(rmse == best, 1.0, ratios)


def geometric_mean(ratios: FloatArray) -> float:
    """Return exp(mean(log x)).

    >>> round(geometric_mean(np.array([1.0, 4.0])), 6)
    2.0
    """
    return float(np.exp(np.mean(np.log(ratios)))) if len(ratios) else float("nan")


@dataclass(frozen=True)
class Standing:
    """One entrant's line of the leaderboard; dicts by level describe its intervals."""

    entrant: str
    geometric_mean: float = math.nan  # of its RMSE relative to the best entrant of each cell
    worst: float = math.nan
    worst_cell: str = ""
    by_steps: dict[int, float] = field(default_factory=dict)  # geometric mean for each log size
    #: Share of the printed intervals that contain the true value, over all cells.
    coverage: dict[float, float] = field(default_factory=dict)
    #: The least coverage of a cell with at least 20 printed intervals.
    lowest: dict[float, float] = field(default_factory=dict)
    lowest_cell: dict[float, str] = field(default_factory=dict)
    declined: dict[float, float] = field(default_factory=dict)  # share of logs without an interval
    #: Geometric mean over cells of the median width, in units of the best RMSE.
    width: dict[float, float] = field(default_factory=dict)
    stories: dict[str, StoryScore] = field(default_factory=dict)
    failures: int = 0
    failure: str = ""


@dataclass(frozen=True)
class Leaderboard:
    """The scores of a battery, of M entrants in C cells, with intervals at L `LEVELS`."""

    entrants: tuple[str, ...]
    cells: tuple[Cell, ...]
    replicates: IntArray  # logs of each cell, (C,)
    rmse: FloatArray  # (C, M)
    printed: IntArray  # how many intervals were printed, (C, M, L)
    covered: IntArray  # how many of them hold the truth, (C, M, L)
    width: FloatArray  # their median width, (C, M, L)
    standings: tuple[Standing, ...]  # best geometric mean first

    @property
    def sizes(self) -> list[int]:
        """The log sizes, smallest first."""
        return sorted({cell.setting.steps for cell in self.cells})

    @property
    def relative(self) -> FloatArray:
        """RMSE over that of the best entrant of the cell, (C, M)."""
        return relative(self.rmse)

    def against(self, entrant: str, rivals: Iterable[str] | None = None) -> FloatArray:
        """Return an entrant's RMSE over that of the best of some rivals in each cell, (C,).

        Without `rivals`, all other entrants. Below 1 where it beats them all.
        """
        others = [name for name in self.entrants if name != entrant] if rivals is None else rivals
        columns = [self.entrants.index(name) for name in others]
        least: FloatArray = self.rmse[:, columns].min(axis=1)
        return self.rmse[:, self.entrants.index(entrant)] / least

    def select(self, *, steps: int | None = None, noises: Iterable[str] | None = None) -> IntArray:
        """Return the indices of the cells of a size, or under some noises."""
        wanted = {cell.noise for cell in self.cells} if noises is None else set(noises)
        size = np.array([steps in (None, cell.setting.steps) for cell in self.cells], dtype=bool)
        return np.flatnonzero(size & [cell.noise in wanted for cell in self.cells])

    def to_dict(self) -> dict[str, Any]:
        """Return plain numbers, lists and strings, ready for JSON."""
        tables = {
            "rmse": self.rmse,
            "relative": self.relative,
            "printed": self.printed,
            "covered": self.covered,
            "width": self.width,
        }
        return {
            "entrants": list(self.entrants),
            "levels": list(LEVELS),
            "standings": [asdict(standing) for standing in self.standings],
            "cells": [
                {
                    "world": cell.setting.world,
                    "overlap": cell.setting.overlap,
                    "steps": cell.setting.steps,
                    "noise": cell.noise,
                    "replicates": int(self.replicates[i]),
                    **{
                        name: dict(zip(self.entrants, table[i].tolist(), strict=True))
                        for name, table in tables.items()
                    },
                }
                for i, cell in enumerate(self.cells)
            ],
        }


def leaderboard(findings: Findings) -> Leaderboard:
    """Return the scores of a benchmark run."""
    cells = findings.cells()
    entrants = findings.entrants
    shape = (len(cells), len(entrants))
    rmse = np.empty(shape)
    counts = np.zeros((2, *shape, len(LEVELS)), dtype=int)
    width = np.full((*shape, len(LEVELS)), np.nan)
    for i, sample in enumerate(cells.values()):
        rmse[i] = root_mean_square(sample.values - sample.truth)
        counts[0, i], counts[1, i], width[i] = interval_counts(sample)
    told = {}
    for name in findings.battery.stories:
        hubs, values = findings.story(name)
        if hubs:
            told[name] = {who: story_score(name, hubs, each) for who, each in values.items()}
    replicates = np.array([len(sample.values) for sample in cells.values()], dtype=int)
    board = Leaderboard(entrants, tuple(cells), replicates, rmse, counts[0], counts[1], width, ())
    lines = [
        _standing(board, who, {name: scores[who] for name, scores in told.items()}, *failed)
        for who, failed in findings.failures().items()
    ]
    lines.sort(key=lambda line: (np.isnan(line.geometric_mean), line.geometric_mean))
    return replace(board, standings=tuple(lines))


def interval_counts(sample: Sample) -> tuple[IntArray, IntArray, FloatArray]:
    """Return the number of intervals, how many contain the true value, and their median width."""
    low, high = sample.ends[..., 0], sample.ends[..., 1]  # (R, M, L)
    there = ~np.isnan(low)
    holds = there & (low <= sample.truth) & (sample.truth <= high)
    width = np.full(there.shape[1:], np.nan)
    for place in zip(*np.nonzero(there.any(axis=0)), strict=True):
        width[place] = np.nanmedian((high - low)[(slice(None), *place)])
    return there.sum(axis=0), holds.sum(axis=0), width


def _standing(
    board: Leaderboard, entrant: str, stories: dict[str, StoryScore], failures: int, failure: str
) -> Standing:
    line = Standing(entrant, stories=stories, failures=failures, failure=failure)
    if entrant not in board.entrants or not board.cells:
        return line
    column = board.entrants.index(entrant)
    ratios = board.relative[:, column]
    worst = int(ratios.argmax())
    best = board.rmse.min(axis=1)
    for j, level in enumerate(LEVELS):
        printed, covered = board.printed[:, column, j], board.covered[:, column, j]  # (C,)
        total = int(printed.sum())
        line.declined[level] = 1 - total / int(board.replicates.sum())
        if not total:
            continue
        line.coverage[level] = float(covered.sum() / total)
        some = printed > 0
        line.width[level] = geometric_mean(board.width[some, column, j] / best[some])
        enough = np.flatnonzero(printed >= FEW)
        if len(enough):
            shares = covered[enough] / printed[enough]
            line.lowest[level] = float(shares.min())
            line.lowest_cell[level] = str(board.cells[enough[shares.argmin()]])
    return replace(
        line,
        geometric_mean=geometric_mean(ratios),
        worst=float(ratios[worst]),
        worst_cell=str(board.cells[worst]),
        by_steps={size: geometric_mean(ratios[board.select(steps=size)]) for size in board.sizes},
    )


def ratio_spread(
    sample: Sample, columns: Sequence[int], *, resamples: int = 200, seed: int = 0
) -> tuple[float, float]:
    """Return a 90 % bootstrap interval of RMSE(first column) / least RMSE(other columns).

    Replicates are drawn again with replacement, the same for every entrant.
    """
    rng = np.random.default_rng(seed)
    squares = np.square(sample.values[:, list(columns)] - sample.truth)  # (R, 1 + rivals)
    drawn = rng.integers(len(squares), size=(resamples, len(squares)))
    means = squares[drawn].mean(axis=1)  # (resamples, 1 + rivals)
    ratios = np.sqrt(means[:, 0] / means[:, 1:].min(axis=1))
    low, high = np.quantile(ratios, [0.05, 0.95])
    return float(low), float(high)


@dataclass(frozen=True)
class Schooling:
    """One learner's line; regrets are relative to the optimal value minus the random policy's."""

    learner: str
    regret: float  # mean over cells
    worst: float
    worst_cell: str
    by_noise: dict[str, float]
    #: Mean and least $/day over the logs of each story, and the mean of the best candidate there.
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
    """Return the scores of learners; a failed learner has the value of the random policy."""
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
