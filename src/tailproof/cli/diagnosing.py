"""`tailproof diagnose`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.text import Text

from tailproof.cli.command import command
from tailproof.cli.inputs import POLICY_HELP, policy_for, read_the_log
from tailproof.cli.options import Gamma, LogOptions, Report, Seed
from tailproof.cli.outcome import Outcome, conclude, diagnosed
from tailproof.cli.session import Session
from tailproof.cli.tables import as_rich, points
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.report.evidence import influence_sentence, influence_table, tail_table


@command
def diagnose(
    log: LogOptions,
    session: Session,
    policy: Annotated[
        str | None,
        typer.Option(
            help=f"Whom you want to evaluate, for weights and overlap: {POLICY_HELP}.",
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
    target = None if policy is None else policy_for(policy, reading.log)
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
    lines += ["", as_rich(tail_table(diagnosis)), ""]
    if diagnosis.influence.episodes:
        lines += [Text(influence_sentence(diagnosis)), as_rich(influence_table(diagnosis))]
    return lines
