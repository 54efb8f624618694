"""`tailproof diagnose`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tailproof.cli.command import command
from tailproof.cli.inputs import POLICY_FORMS, policy_for, read_the_log
from tailproof.cli.options import Gamma, LogOptions, Report, Seed, named_policy
from tailproof.cli.outcome import Outcome, conclude, diagnosed
from tailproof.cli.session import Session
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.report.text import count, number, percent
from tailproof.statistics.tails.index import TailIndex


@command
def diagnose(
    log: LogOptions,
    session: Session,
    policy: Annotated[
        str | None,
        typer.Option(
            help=f"Whom you want to evaluate, for weights and overlap: {POLICY_FORMS}.",
            rich_help_panel="Method",
            show_default=False,
        ),
    ] = None,
    gamma: Gamma = None,
    seed: Seed = 0,
    report: Report = None,
) -> None:
    """Say how heavy the tails are, which episodes decide, and which method is safe.

    Example: tailproof diagnose log.csv --report diagnosis.html
    """
    from tailproof.report.pages import diagnosis_page  # --help needs no pages

    reading = read_the_log(log, session, outputs=[report])
    target = None if policy is None else policy_for(named_policy(policy)[1], reading.log)
    shown, diagnosis = diagnosed(reading.log, target, session, gamma=gamma, seed=seed)
    conclude(
        session,
        "diagnose",
        log,
        reading,
        Outcome(
            asked={"policy": policy, "gamma": diagnosis.gamma, "seed": seed},
            found=_numbers(diagnosis),
            answer=[Text(diagnosis.verdict.summary, style="bold")],
            evidence=diagnosis_lines(diagnosis),
        ),
        report=report,
        look=lambda: (shown, diagnosis),
        page=diagnosis_page,
    )


def _numbers(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return what JSON holds of a diagnosis; the whole of it is evidence."""
    verdict, influence = diagnosis.verdict, diagnosis.influence
    return {
        "summary": verdict.summary,
        "call": verdict.call,
        "reasons": verdict.reasons,
        "improvements": verdict.improvements,
        "tails": {
            name: {
                "left_index": each.left.alpha,
                "right_index": each.right.alpha,
                "mean_exists": each.mean.exists,
                "variance_exists": each.variance.exists,
                "longer": each.skew,
            }
            for name, each in diagnosis.tails.items()
        },
        "influence": {
            "estimator": influence.estimator,
            "value": influence.value,
            "share": influence.share,
            "effects": {str(each.episode): each.effect for each in influence.episodes},
        },
        "transitions": diagnosis.transitions,
        "episodes": diagnosis.episodes,
        "groups": diagnosis.groups,
        "diagnosis": diagnosis.to_dict(),
    }


def diagnosis_lines(diagnosis: Diagnosis) -> list[Any]:
    """Return what a terminal shows of a diagnosis below its summary."""
    verdict = diagnosis.verdict
    lines: list[Any] = ["", points(verdict.reasons)]
    if verdict.improvements:
        lines += ["", Text("What would help", style="bold"), points(verdict.improvements)]
    lines += ["", _tails(diagnosis), ""]
    if diagnosis.influence.episodes:
        lines.append(_influence(diagnosis))
    return lines


def points(sentences: Sequence[str]) -> Table:
    """Return a list of sentences, each hanging from its dash."""
    grid = Table.grid(padding=(0, 1, 0, 0))
    for sentence in sentences:
        grid.add_row("-", Text(sentence))
    return grid


def _tails(diagnosis: Diagnosis) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("tails of", "left α", "right α", "mean", "variance", "longer"):
        table.add_column(title)
    for name, report in diagnosis.tails.items():
        table.add_row(
            name,
            _index(report.left),
            _index(report.right),
            report.mean.exists,
            report.variance.exists,
            {"symmetric": "neither"}.get(report.skew, report.skew),
        )
    return table


def _index(index: TailIndex) -> str:
    if not index.estimable:
        return "unknown"
    return f"{number(index.alpha, 3)} [{number(index.low, 3)}, {number(index.high, 3)}]"


def _influence(diagnosis: Diagnosis) -> Table:
    influence = diagnosis.influence
    share = percent(influence.share)
    named = count(len(influence.episodes), "episode")
    table = Table(
        box=None,
        pad_edge=False,
        padding=(0, 2, 0, 0),
        title=f"{named} carry {share} of all influence on the plain estimate "
        f"({influence.estimator}: {number(influence.value)})",
        title_justify="left",
        title_style="",
    )
    table.add_column("episode", overflow="fold")
    table.add_column("moves the average by", justify="right")
    table.add_column(f"the median of {influence.folds} folds by", justify="right")
    for each in influence.episodes:
        table.add_row(Text(str(each.episode)), f"{each.effect:+.4g}", f"{each.median_effect:+.4g}")
    return table
