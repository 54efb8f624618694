"""The output of a benchmark run: tables, a page, heat maps and a JSON record."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.files import write_whole
from tailproof.report.figures import Block, Bullets, Fact, Facts, Figure, Prose, Section, Wide
from tailproof.report.page import Page
from tailproof.report.text import ResultTable, as_json, count, number, percent, table, versions
from tailproof.studies.battery.cells import NOISES
from tailproof.studies.battery.entrants import LEVELS
from tailproof.studies.battery.heatmap import heat_map, ratio_text
from tailproof.studies.battery.run import Findings
from tailproof.studies.battery.score import (
    Leaderboard,
    SchoolReport,
    geometric_mean,
    leaderboard,
    school_report,
)
from tailproof.studies.battery.stories import STORIES

ONLY_STORIES = "Only the stories of the storage world were run."


@dataclass(frozen=True)
class BenchReport:
    """The results of a run in all output forms."""

    record: dict[str, Any]  # what ``--json`` prints
    tables: tuple[ResultTable, ...]  # what a terminal shows
    page: Page
    maps: dict[str, str] = field(default_factory=dict)  # heat maps as SVG, by file name

    def write(self, folder: Path) -> list[Path]:
        """Write scores.json, index.html and the heat maps to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"scores.json": as_json(self.record), **self.maps}
        for name, text in texts.items():
            write_whole(folder / name, text)
        return [self.page.write(folder / "index.html"), *(folder / name for name in texts)]


def report(findings: Findings) -> BenchReport:
    """Return the report of estimators or learners."""
    battery = findings.battery
    settings = {
        "entrants": ", ".join((*battery.entrants, *battery.story_entrants)),
        "settings": "; ".join(map(str, battery.settings)),
        "noises": "; ".join(battery.noises),
        "replicates": battery.replicates,
        "draws of each hub": battery.draws if battery.stories else 0,
        "seed": battery.seed,
    }
    if battery.asks == "policy":
        return _of_learners(school_report(findings), settings)
    return _of_estimators(leaderboard(findings), settings)


def _record(found: dict[str, Any], settings: dict[str, Any]) -> dict[str, Any]:
    return {"command": "bench", "settings": settings, **found, "versions": versions()}


def _last_sections(
    failed: Iterable[tuple[str, int, str]], settings: dict[str, Any]
) -> list[Section]:
    """Return the sections on failed entrants, if any, and on the settings of the run."""
    said = [
        f"{who} failed {times} times, first with: {first}" for who, times, first in failed if times
    ]
    rows = [*settings.items(), *versions().items()]
    how = table(("setting", "value"), [(name, str(value)) for name, value in rows])
    failures = Section("failures", "Failures", (Bullets(tuple(said), "warn"),))
    return [*([failures] if said else []), Section("how", "How this was run", (Wide(how),))]


def _of_estimators(board: Leaderboard, settings: dict[str, Any]) -> BenchReport:
    first = board.standings[0]
    told = [name for name in STORIES if any(name in line.stories for line in board.standings)]
    standings, intervals = standings_table(board), interval_table(board)
    stories = {name: story_table(board, name) for name in told}
    some = [_accuracy(board, standings), _intervals(intervals)] if board.cells else []
    if told:
        some.append(_stories(stories))
    if board.cells:
        every = Wide(cell_table(board), folded="RMSE over the best, cell by cell")
        some.append(Section("cells", "Every cell", (every,)))
    failed = ((line.entrant, line.failures, line.failure) for line in board.standings)
    record = _record(board.to_dict(), settings)
    replicates = int(board.replicates.min()) if len(board.cells) else 0
    facts = [
        Fact("RMSE over the best", ratio_text(first.geometric_mean), "geometric mean over cells"),
        Fact("worst cell", ratio_text(first.worst), first.worst_cell),
        *(
            Fact(
                f"coverage of {percent(level)}",
                percent(share),
                f"{percent(first.declined[level])} of the logs declined",
            )
            for level, share in first.coverage.items()
        ),
    ]
    page = Page(
        title="The heavy-tail benchmark",
        subtitle=f"{count(len(board.standings), 'entrant')}, {count(len(board.cells), 'cell')}, "
        f"{count(replicates, 'log')} a cell",
        headline=first.entrant,
        headline_note="has the smallest error overall" if board.cells else "",
        verdict=f"Over all cells its RMSE is {ratio_text(first.geometric_mean)} times that of the best "
        f"entrant of the cell (geometric mean), and at worst {ratio_text(first.worst)} times: "
        f"{first.worst_cell}."
        if board.cells
        else ONLY_STORIES,
        facts=Facts(tuple(facts)) if board.cells else None,
        sections=(*some, *_last_sections(failed, settings)),
        record=record,
    )
    maps = {f"heatmap-{size}.svg": noise_map(board, size, standalone=True) for size in board.sizes}
    shown = (*((standings, intervals) if board.cells else ()), *stories.values())
    return BenchReport(record, shown, page, maps)


def noise_ratios(board: Leaderboard, steps: int) -> tuple[list[str], FloatArray]:
    """Return the noises of a log size and each entrant's geometric mean ratio under them, (N, M)."""
    present = {cell.noise for cell in board.cells}
    noises = [noise for noise in NOISES if noise in present]
    rows = [board.relative[board.select(steps=steps, noises=[noise])] for noise in noises]
    return noises, np.array([[geometric_mean(column) for column in row.T] for row in rows])


def ranked(board: Leaderboard) -> dict[str, int]:
    """Return the entrants of the cells, best geometric mean first, and their columns."""
    names = (line.entrant for line in board.standings if line.entrant in board.entrants)
    return {name: board.entrants.index(name) for name in names}


def noise_map(board: Leaderboard, steps: int, *, standalone: bool = False) -> str:
    """Return the heat map of one log size: noises down, entrants across."""
    noises, ratios = noise_ratios(board, steps)
    order = ranked(board)
    shapes = [NOISES[noise].shape for noise in noises]
    means = (
        f"{name} {ratio_text(geometric_mean(ratios[:, column]))}" for name, column in order.items()
    )
    return heat_map(
        noises,
        list(order),
        ratios[:, list(order.values())],
        alt=f"RMSE relative to the best on logs of {steps:,} steps. " + "; ".join(means),
        breaks=[i for i in range(1, len(shapes)) if shapes[i] != shapes[i - 1]],
        standalone=standalone,
    )


def standings_table(board: Leaderboard) -> ResultTable:
    """Return the leaderboard, best first."""
    return table(
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
        caption="RMSE over that of the best in each cell",
    )


def interval_table(board: Leaderboard) -> ResultTable:
    """Return coverage, width and share of declined intervals, of entrants with intervals."""
    return table(
        ("entrant", "claim", "coverage", "lowest", "in", "declined", "width / best RMSE"),
        [
            (
                line.entrant,
                percent(level),
                percent(line.coverage[level]),
                percent(line.lowest[level]) if level in line.lowest else None,
                line.lowest_cell.get(level),
                percent(line.declined[level]),
                number(line.width[level], 3),
            )
            for line in board.standings
            for level in LEVELS
            if level in line.coverage
        ],
        caption="Intervals",
    )


def story_table(board: Leaderboard, name: str) -> ResultTable:
    """Return the entrants' estimates and picks in one story, least regret first."""
    lines = [line for line in board.standings if name in line.stories]
    rows = sorted((line.stories[name].regret, line.entrant, line.stories[name]) for line in lines)
    return table(
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
        caption=f"Storage, story {name}: {STORIES[name].about}; $/day",
        digits=3,
    )


def cell_table(board: Leaderboard) -> ResultTable:
    """Return the ratio of every entrant in every cell."""
    order, ratios = ranked(board), board.relative
    return table(
        ("world", "overlap", "steps", "noise", "best RMSE", *order),
        [
            (
                cell.setting.world,
                cell.setting.overlap,
                cell.setting.steps,
                cell.noise,
                float(board.rmse[i].min()),
                *(ratio_text(float(ratios[i, column])) for column in order.values()),
            )
            for i, cell in enumerate(board.cells)
        ],
        digits=3,
    )


def _accuracy(board: Leaderboard, standings: ResultTable) -> Section:
    blocks: list[Block] = [
        Prose(
            "RMSE of each entrant over that of the best entrant of the cell: 1 is best. A cell is a "
            "world, an overlap between the logging and the evaluated policy, a log size and a noise."
        ),
        Wide(standings),
    ]
    for size in board.sizes:
        noises, ratios = noise_ratios(board, size)
        blocks.append(
            Figure(
                key=f"map-{size}",
                caption=f"Logs of {size:,} steps: geometric mean of the ratios over worlds and "
                f"overlaps. Above the lines symmetric noises, then mild skew, then strong skew.",
                svg=noise_map(board, size),
                legend=[("good", "within 5 % of the best"), ("warn", "worse")],
                numbers=table(
                    ("noise", *board.entrants),
                    [(noise, *row) for noise, row in zip(noises, ratios.tolist(), strict=True)],
                ),
            )
        )
    return Section("accuracy", "Who is closest to the truth", tuple(blocks), "Accuracy")


def _intervals(shown: ResultTable) -> Section:
    about = Prose(
        "Coverage among the logs for which an interval was printed, over all cells and in the worst "
        "cell with at least 20 of them; the share of logs that got none; and the median width in "
        "units of the best RMSE of the cell, where 3.3 would be ideal for 90 % and 3.9 for 95 %."
    )
    return Section("intervals", "Whose intervals hold", (about, Wide(shown)), "Intervals")


def _stories(tables: dict[str, ResultTable]) -> Section:
    about = Prose(
        "A battery at real prices, one hub and one year logged: every candidate schedule is "
        "estimated, the best-looking one is picked and meets the other year, in $/day. One storm, "
        "capped prices and five hubs that move together: read differences with care."
    )
    shown = (Wide(each) for each in tables.values())
    return Section("storage", "Picking a policy at real prices", (about, *shown), "Storage")


def _of_learners(school: SchoolReport, settings: dict[str, Any]) -> BenchReport:
    lines, first = school.lines, school.lines[0]
    tables = _learner_tables(school)
    sections = [
        Section(f"table-{i}", each.caption, (Wide(replace(each, caption="", digits=3)),))
        for i, each in enumerate(tables)
    ]
    failed = ((line.learner, line.failures, line.failure) for line in lines)
    record = _record(school.to_dict(), settings)
    page = Page(
        title="The heavy-tail benchmark of learners",
        subtitle=f"{count(len(lines), 'learner')}, {count(len(school.cells), 'cell')}",
        headline=first.learner,
        verdict=f"Its mean regret is {percent(first.regret)} of what acting well gains over acting "
        f"at random, and at worst {percent(first.worst)}: {first.worst_cell}."
        if school.cells
        else ONLY_STORIES,
        sections=(*sections, *_last_sections(failed, settings)),
        record=record,
    )
    return BenchReport(record, tuple(tables), page)


def _learner_tables(school: SchoolReport) -> Sequence[ResultTable]:
    lines = school.lines
    regrets = [
        table(
            ("learner", "mean regret", "worst", "in"),
            [
                (line.learner, percent(line.regret), percent(line.worst), line.worst_cell)
                for line in lines
            ],
            caption="Regret, as a share of what acting well gains over acting at random",
        ),
        table(
            ("noise", *(line.learner for line in lines)),
            [
                (noise, *(percent(line.by_noise[noise], 2) for line in lines))
                for noise in lines[0].by_noise
            ],
            caption="The same under each noise",
        ),
    ]
    stories = [
        table(
            ("learner", "mean $/day", "worst log", "best candidate in hindsight"),
            sorted(((line.learner, *line.stories[name]) for line in lines), key=_earned)[::-1],
            caption=f"Storage, story {name}: {STORIES[name].about}",
            digits=3,
        )
        for name in lines[0].stories
    ]
    return [*(regrets if school.cells else []), *stories]


def _earned(row: tuple[str, float, float, float]) -> tuple[Any, ...]:
    return (*row[1:], row[0])
