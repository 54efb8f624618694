"""The output of a benchmark run: tables for a terminal, a JSON record and heat maps."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.table import Table

from benchmarks.battery.cells import NOISES
from benchmarks.battery.entrants import LEVELS
from benchmarks.battery.run import Findings
from benchmarks.battery.score import (
    Leaderboard,
    SchoolReport,
    geometric_mean,
    leaderboard,
    school_report,
)
from examples.storm.seasons import STORIES
from tailproof.arrays import FloatArray
from tailproof.files import plain, write_whole
from tailproof.report.text import number, percent, versions

if TYPE_CHECKING:
    from matplotlib.figure import Figure

TIE = 1.05  # ratios up to this count as best
WORST = 10.0  # ratios from this on have the darkest colour


@dataclass(frozen=True)
class BenchReport:
    """The results of a run: a record, tables for a terminal, heat maps by file name, and failures."""

    record: dict[str, Any]
    tables: tuple[Table, ...]
    failures: tuple[str, ...]
    maps: dict[str, Figure] = field(default_factory=dict)

    def write(self, folder: Path) -> list[Path]:
        """Write scores.json and the heat maps to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        text = json.dumps(plain(self.record), indent=1, allow_nan=False, ensure_ascii=False)
        write_whole(folder / "scores.json", text + "\n")
        for name, figure in self.maps.items():
            figure.savefig(folder / name)
        return [folder / name for name in ("scores.json", *self.maps)]


def report(findings: Findings) -> BenchReport:
    """Return the report of estimators or learners."""
    battery = findings.battery
    settings = {
        "entrants": [*battery.entrants, *battery.story_entrants],
        "settings": [*map(str, battery.settings)],
        "noises": [*battery.noises],
        "replicates": battery.replicates,
        "draws of each hub": battery.draws if battery.stories else 0,
        "seed": battery.seed,
    }
    if battery.asks == "policy":
        school = school_report(findings)
        lines = [(line.learner, line.failures, line.failure) for line in school.lines]
        return BenchReport(
            _record(school.to_dict(), settings), tuple(_learner_tables(school)), _failures(lines)
        )
    board = leaderboard(findings)
    told = [name for name in STORIES if any(name in line.stories for line in board.standings)]
    tables = [standings_table(board), interval_table(board)] if board.cells else []
    lines = [(line.entrant, line.failures, line.failure) for line in board.standings]
    return BenchReport(
        _record(board.to_dict(), settings),
        (*tables, *(story_table(board, name) for name in told)),
        _failures(lines),
        {f"heatmap-{size}.svg": noise_map(board, size) for size in board.sizes},
    )


def _record(found: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    return {"settings": settings, **found, "versions": versions()}


def _failures(lines: Iterable[tuple[str, int, str]]) -> tuple[str, ...]:
    return tuple(f"{who} failed {n} times, first with: {first}" for who, n, first in lines if n)


def _table(title: str, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> Table:
    made = Table(title=title, title_justify="left", box=None, pad_edge=False)
    for place, column in enumerate(columns):
        made.add_column(column, justify="right" if place else "left", overflow="fold")
    for row in rows:
        made.add_row(*(each if isinstance(each, str) else number(each, 3) for each in row))
    return made


def noise_ratios(board: Leaderboard, steps: int) -> tuple[list[str], FloatArray]:
    """Return the noises of a log size and each entrant's geometric mean ratio under them, (N, M)."""
    present = {cell.noise for cell in board.cells}
    noises = [noise for noise in NOISES if noise in present]
    rows = [board.relative[board.select(steps=steps, noises=[noise])] for noise in noises]
    return noises, np.array([[geometric_mean(column) for column in row.T] for row in rows])


def noise_map(board: Leaderboard, steps: int) -> Figure:
    """Draw the heat map of one log size: noises down, entrants across, the best entrant first."""
    noises, ratios = noise_ratios(board, steps)
    names = [line.entrant for line in board.standings if line.entrant in board.entrants]
    shapes = [NOISES[noise].shape for noise in noises]
    figure = heat_map(noises, names, ratios[:, [board.entrants.index(name) for name in names]])
    figure.axes[0].set_title(f"RMSE over that of the best, logs of {steps:,} steps")
    for place in range(1, len(shapes)):
        if shapes[place] != shapes[place - 1]:
            figure.axes[0].axhline(place - 0.5, color="black", linewidth=1)
    return figure


def heat_map(rows: Sequence[str], columns: Sequence[str], ratios: FloatArray) -> Figure:
    """Draw ratios (R, M) ≥ 1, each with its number: the darker, the worse."""
    from matplotlib.figure import Figure

    figure = Figure(
        figsize=(2.5 + 0.65 * len(columns), 1.8 + 0.28 * len(rows)), layout="constrained"
    )
    axes = figure.subplots()
    heat = np.log(np.clip(np.nan_to_num(ratios, nan=WORST), TIE, WORST))
    axes.imshow(heat, cmap="Oranges", aspect="auto", vmin=math.log(TIE), vmax=2 * math.log(WORST))
    axes.set_yticks(range(len(rows)), rows, parse_math=False)
    axes.set_xticks(range(len(columns)), columns, parse_math=False, rotation=40, ha="right")
    for (i, j), ratio in np.ndenumerate(ratios):
        weight = "bold" if ratio <= TIE else "normal"
        axes.text(j, i, ratio_text(float(ratio)), ha="center", va="center", weight=weight)
    return figure


def ratio_text(ratio: float) -> str:
    """Return a ratio as short text.

    >>> ratio_text(1.034), ratio_text(12.3), ratio_text(4321.0), ratio_text(float("inf"))
    ('1.03', '12', '4.3k', '∞')
    """
    if not math.isfinite(ratio):
        return "∞" if ratio == math.inf else "–"
    if ratio >= 1000:
        return f"{ratio / 1000:.2g}k"
    return f"{ratio:.2f}" if ratio < 9.995 else f"{ratio:.0f}"


def standings_table(board: Leaderboard) -> Table:
    """Return the leaderboard, best first."""
    return _table(
        "RMSE over that of the best entrant of the cell",
        ("entrant", "geometric mean", "worst", "in", *(f"{size:,} steps" for size in board.sizes)),
        [
            (
                line.entrant,
                ratio_text(line.geometric_mean),
                ratio_text(line.worst),
                line.worst_cell,
                *(ratio_text(line.by_steps[size]) for size in board.sizes),
            )
            for line in board.standings
            if line.by_steps
        ],
    )


def interval_table(board: Leaderboard) -> Table:
    """Return coverage, width and share of declined intervals, of entrants with intervals."""
    return _table(
        "Intervals",
        ("entrant", "claim", "coverage", "lowest", "in", "declined", "width / best RMSE"),
        [
            (
                line.entrant,
                percent(level),
                percent(line.coverage[level]),
                percent(line.lowest.get(level, math.nan)),
                line.lowest_cell.get(level, "–"),
                percent(line.declined[level]),
                line.width[level],
            )
            for line in board.standings
            for level in LEVELS
            if level in line.coverage
        ],
    )


def story_table(board: Leaderboard, name: str) -> Table:
    """Return the entrants' estimates and picks in one story, least regret first."""
    lines = [line for line in board.standings if name in line.stories]
    rows = sorted((line.stories[name].regret, line.entrant, line.stories[name]) for line in lines)
    return _table(
        f"Storage, story {name}: {STORIES[name].about}; $/day",
        (
            "entrant",
            "regret of its pick",
            "± s.e.",
            "picks the best",
            "RMSE to the year",
            "without the storm",
        ),
        [
            (who, regret, score.regret_error, percent(score.best), score.rmse, score.rmse_calm)
            for regret, who, score in rows
        ],
    )


def _learner_tables(school: SchoolReport) -> list[Table]:
    lines = school.lines
    regrets = [
        _table(
            "Regret, as a share of what acting well gains over acting at random",
            ("learner", "mean regret", "worst", "in"),
            [
                (line.learner, percent(line.regret), percent(line.worst), line.worst_cell)
                for line in lines
            ],
        ),
        _table(
            "The same under each noise",
            ("noise", *(line.learner for line in lines)),
            [
                (noise, *(percent(line.by_noise[noise], 2) for line in lines))
                for noise in lines[0].by_noise
            ],
        ),
    ]
    stories = [
        _table(
            f"Storage, story {name}: {STORIES[name].about}",
            ("learner", "mean $/day", "worst log", "best candidate in hindsight"),
            sorted(
                ((line.learner, *line.stories[name]) for line in lines),
                key=lambda row: tuple(row[1:]),
                reverse=True,
            ),
        )
        for name in lines[0].stories
    ]
    return [*(regrets if school.cells else []), *stories]
