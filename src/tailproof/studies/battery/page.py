"""The leaderboard as lines for a terminal, as an HTML page and as a heat map."""

from __future__ import annotations

from typing import Any

import numpy as np

from tailproof.arrays import FloatArray
from tailproof.report.blocks import Block, Bullets, Fact, Facts, Figure, Prose, Section, Wide
from tailproof.report.page import Page
from tailproof.report.tables import ResultTable, table
from tailproof.report.text import count, number, percent
from tailproof.report.versions import versions
from tailproof.studies.battery.cells import NOISES
from tailproof.studies.battery.entrants import LEVELS
from tailproof.studies.battery.heatmap import heat_map, ratio_text
from tailproof.studies.battery.score import Leaderboard, Standing, geometric_mean
from tailproof.studies.battery.stories import STORIES


def noise_ratios(board: Leaderboard, steps: int) -> tuple[list[str], FloatArray]:
    """Return the noises of a log size and each entrant's geometric mean ratio under them, (N, M)."""
    present = {cell.noise for cell in board.cells}
    noises = [noise for noise in NOISES if noise in present]
    ratios = board.relative
    rows = [ratios[board.select(steps=steps, noises=[noise])] for noise in noises]
    return noises, np.array([[geometric_mean(column) for column in row.T] for row in rows])


def ranked(board: Leaderboard) -> list[str]:
    """Return the entrants of the cells, best geometric mean first."""
    return [line.entrant for line in board.standings if line.entrant in board.entrants]


def noise_map(board: Leaderboard, steps: int, *, standalone: bool = False) -> str:
    """Return the heat map of one log size: noises down, entrants across."""
    noises, ratios = noise_ratios(board, steps)
    order = ranked(board)
    shapes = [NOISES[noise].shape for noise in noises]
    columns = [board.entrants.index(name) for name in order]
    return heat_map(
        noises,
        order,
        ratios[:, columns],
        alt=f"RMSE relative to the best on logs of {steps:,} steps. "
        + "; ".join(
            f"{name} {ratio_text(geometric_mean(ratios[:, column]))}"
            for name, column in zip(order, columns, strict=True)
        ),
        breaks=[i for i in range(1, len(shapes)) if shapes[i] != shapes[i - 1]],
        standalone=standalone,
    )


def sizes(board: Leaderboard) -> list[int]:
    """Return the log sizes, smallest first."""
    return sorted({cell.setting.steps for cell in board.cells})


def standings_table(board: Leaderboard) -> ResultTable:
    """Return the leaderboard, best first."""
    steps = sizes(board)
    return table(
        ("entrant", "geometric mean", "worst", "in", *(f"{size:,} steps" for size in steps)),
        [
            (
                line.entrant,
                ratio_text(line.geometric_mean),
                ratio_text(line.worst),
                line.worst_cell,
                *(ratio_text(line.by_steps[size]) for size in steps),
            )
            for line in board.standings
            if line.by_steps
        ],
    )


def interval_table(board: Leaderboard) -> ResultTable:
    """Return coverage, width and refusals of the entrants that print intervals."""
    rows = []
    for line in board.standings:
        for level in LEVELS:
            if level not in line.coverage:
                continue
            rows.append(
                (
                    line.entrant,
                    percent(level),
                    percent(line.coverage[level]),
                    percent(line.lowest[level]) if level in line.lowest else None,
                    line.lowest_cell.get(level),
                    percent(line.declined[level]),
                    number(line.width[level], 3),
                )
            )
    return table(
        ("entrant", "claim", "coverage", "lowest", "in", "declined", "width / best RMSE"), rows
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
        digits=3,
    )


def cell_table(board: Leaderboard) -> ResultTable:
    """Return the ratio of every entrant in every cell."""
    order = ranked(board)
    columns = [board.entrants.index(name) for name in order]
    ratios = board.relative
    return table(
        ("world", "overlap", "steps", "noise", "best RMSE", *order),
        [
            (
                cell.setting.world,
                cell.setting.overlap,
                cell.setting.steps,
                cell.noise,
                float(board.rmse[i].min()),
                *(ratio_text(float(ratios[i, column])) for column in columns),
            )
            for i, cell in enumerate(board.cells)
        ],
        digits=3,
    )


def leaderboard_page(board: Leaderboard, *, settings: dict[str, Any]) -> Page:
    """Return the page: who is best and by how much, where each fails, and whether intervals hold."""
    first = board.standings[0]
    replicates = int(board.replicates.min()) if len(board.cells) else 0
    sections = []
    if board.cells:
        sections = [_accuracy(board), _intervals(board), _every_cell(board)]
    told = [name for name in STORIES if any(name in line.stories for line in board.standings)]
    if told:
        sections.insert(2 if board.cells else 0, _stories(board, told))
    failed = [
        f"{line.entrant} failed {line.failures} times, first with: {line.failure}"
        for line in board.standings
        if line.failures
    ]
    if failed:
        sections.append(Section("failures", "Failures", (Bullets(tuple(failed), "warn"),)))
    sections.append(_how(settings))
    return Page(
        title="The heavy-tail benchmark",
        subtitle=f"{count(len(board.standings), 'entrant')}, {count(len(board.cells), 'cell')}, "
        f"{count(replicates, 'log')} a cell",
        headline=first.entrant,
        headline_note="has the smallest error overall" if board.cells else "",
        verdict=_verdict(board, first),
        facts=_facts(first) if board.cells else None,
        sections=tuple(sections),
        record={**board.to_dict(), "settings": settings, "versions": versions()},
    )


def _verdict(board: Leaderboard, first: Standing) -> str:
    if not board.cells:
        return "Only the stories of the storage world were run."
    return (
        f"Over all cells its RMSE is {ratio_text(first.geometric_mean)} times that of the best "
        f"entrant of the cell (geometric mean), and at worst {ratio_text(first.worst)} times: "
        f"{first.worst_cell}."
    )


def _facts(first: Standing) -> Facts:
    facts = [
        Fact("RMSE over the best", ratio_text(first.geometric_mean), "geometric mean over cells"),
        Fact("worst cell", ratio_text(first.worst), first.worst_cell),
    ]
    for level, share in first.coverage.items():
        note = f"{percent(first.declined[level])} of the logs declined"
        facts.append(Fact(f"coverage of {percent(level)}", percent(share), note))
    return Facts(tuple(facts))


def _accuracy(board: Leaderboard) -> Section:
    blocks: list[Block] = [
        Prose(
            "RMSE of each entrant over that of the best entrant of the cell: 1 is best. A cell is a "
            "world, an overlap between the logging and the evaluated policy, a log size and a noise."
        ),
        Wide(standings_table(board)),
    ]
    for size in sizes(board):
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


def _intervals(board: Leaderboard) -> Section:
    return Section(
        "intervals",
        "Whose intervals hold",
        (
            Prose(
                "Coverage among the logs for which an interval was printed, over all cells and in "
                "the worst cell with at least 20 of them; the share of logs that got none; and the "
                "median width in units of the best RMSE of the cell, where 3.3 would be ideal for "
                "90 % and 3.9 for 95 %."
            ),
            Wide(interval_table(board)),
        ),
        "Intervals",
    )


def _stories(board: Leaderboard, names: list[str]) -> Section:
    blocks: list[Block] = [
        Prose(
            "A battery at real prices, one hub and one year logged: every candidate schedule is "
            "estimated, the best-looking one is picked and meets the other year, in $/day. One storm, "
            "capped prices and five hubs that move together: read differences with care."
        )
    ]
    for name in names:
        blocks += [Prose(f"Story {name}: {STORIES[name].about}."), Wide(story_table(board, name))]
    return Section("storage", "Picking a policy at real prices", tuple(blocks), "Storage")


def _every_cell(board: Leaderboard) -> Section:
    shown = Wide(cell_table(board), folded="RMSE over the best, cell by cell")
    return Section("cells", "Every cell", (shown,))


def _how(settings: dict[str, Any]) -> Section:
    rows = [*settings.items(), *versions().items()]
    shown = table(("setting", "value"), [(name, str(value)) for name, value in rows])
    return Section("how", "How this was run", (Wide(shown),))
