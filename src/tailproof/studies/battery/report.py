"""What a run of the battery leaves behind: tables, a page, heat maps and a record for programs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tailproof.files.atomic import write_whole
from tailproof.report.blocks import Bullets, Prose, Section, Wide
from tailproof.report.page import Page
from tailproof.report.record import as_json
from tailproof.report.tables import ResultTable, table
from tailproof.report.text import count, percent
from tailproof.report.versions import versions
from tailproof.studies.battery.learners import SchoolReport, school_report
from tailproof.studies.battery.page import (
    interval_table,
    leaderboard_page,
    noise_map,
    sizes,
    standings_table,
    story_table,
)
from tailproof.studies.battery.run import Findings
from tailproof.studies.battery.score import leaderboard
from tailproof.studies.battery.stories import STORIES


@dataclass(frozen=True)
class BenchReport:
    """The results of a run in every form.

    Attributes
    ----------
    record
        What ``--json`` prints.
    tables
        What a terminal shows.
    page
        The HTML page.
    maps
        Heat maps as SVG, by file name.
    """

    record: dict[str, Any]
    tables: tuple[ResultTable, ...]
    page: Page
    maps: dict[str, str] = field(default_factory=dict)

    def write(self, folder: Path) -> list[Path]:
        """Write scores.json, index.html and the heat maps to a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        texts = {"scores.json": as_json(self.record), **self.maps}
        for name, text in texts.items():
            write_whole(folder / name, text)
        return [self.page.write(folder / "index.html"), *(folder / name for name in texts)]


def report(findings: Findings) -> BenchReport:
    """Score what was found, of estimators or of learners."""
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
    board = leaderboard(findings)
    tables = []
    if board.cells:
        tables += [
            _titled(standings_table(board), "RMSE over that of the best in each cell"),
            _titled(interval_table(board), "Intervals"),
        ]
    tables += [
        _titled(story_table(board, name), f"Storage, story {name}: {STORIES[name].about}; $/day")
        for name in battery.stories
    ]
    return BenchReport(
        record={
            "command": "bench",
            "settings": settings,
            **board.to_dict(),
            "versions": versions(),
        },
        tables=tuple(tables),
        page=leaderboard_page(board, settings=settings),
        maps={
            f"heatmap-{size}.svg": noise_map(board, size, standalone=True) for size in sizes(board)
        },
    )


def _titled(shown: ResultTable, caption: str) -> ResultTable:
    return ResultTable(shown.columns, shown.rows, caption, shown.digits)


def _of_learners(school: SchoolReport, settings: dict[str, Any]) -> BenchReport:
    lines = school.lines
    tables: list[ResultTable] = []
    if school.cells:
        who = [line.learner for line in lines]
        tables += [
            table(
                ("learner", "mean regret", "worst", "in"),
                [
                    (line.learner, percent(line.regret), percent(line.worst), line.worst_cell)
                    for line in lines
                ],
                caption="Regret, as a share of what acting well gains over acting at random",
            ),
            table(
                ("noise", *who),
                [
                    (noise, *(percent(line.by_noise[noise], 2) for line in lines))
                    for noise in lines[0].by_noise
                ],
                caption="The same under each noise",
            ),
        ]
    for name in lines[0].stories:
        earned = sorted(((line.stories[name], line.learner) for line in lines), reverse=True)
        tables.append(
            table(
                ("learner", "mean $/day", "worst log", "best candidate in hindsight"),
                [(who, mean, least, best) for (mean, least, best), who in earned],
                caption=f"Storage, story {name}: {STORIES[name].about}",
                digits=3,
            )
        )
    failed = tuple(
        f"{line.learner} failed {line.failures} times, first with: {line.failure}"
        for line in lines
        if line.failures
    )
    how = table(("setting", "value"), [(name, str(each)) for name, each in settings.items()])
    sections = [
        Section(f"table-{i}", each.caption, (Wide(ResultTable(each.columns, each.rows, "", 3)),))
        for i, each in enumerate(tables)
    ]
    if failed:
        sections.append(Section("failures", "Failures", (Bullets(failed, "warn"),)))
    sections.append(Section("how", "How this was run", (Prose("Settings."), Wide(how))))
    first = lines[0]
    page = Page(
        title="The heavy-tail benchmark of learners",
        subtitle=f"{count(len(lines), 'learner')}, {count(len(school.cells), 'cell')}",
        headline=first.learner,
        verdict=f"Its mean regret is {percent(first.regret)} of what acting well gains over acting "
        f"at random, and at worst {percent(first.worst)}: {first.worst_cell}."
        if school.cells
        else "Only the stories of the storage world were run.",
        sections=tuple(sections),
        record={"settings": settings, **school.to_dict(), "versions": versions()},
    )
    record = {"command": "bench", "settings": settings, **school.to_dict(), "versions": versions()}
    return BenchReport(record, tuple(tables), page)
