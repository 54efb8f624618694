"""`tailproof diagnose`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.text import Text

from tailproof.cli.case import POLICY_HELP, opened
from tailproof.cli.command import command
from tailproof.cli.options import GAMMA, REPORT, SEED, LogOptions, option
from tailproof.cli.session import Session
from tailproof.cli.tables import as_rich, points
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.report.answers import influence_sentence, influence_table, tail_table


@dataclass(frozen=True)
class DiagnoseOptions:
    """What the diagnosis depends on, and where its report goes."""

    policy: str | None = option(
        f"Whom you want to evaluate, for weights and overlap: {POLICY_HELP}."
    )
    gamma: float | None = GAMMA
    seed: int = SEED
    report: Path | None = REPORT


@command
def diagnose(log: LogOptions, session: Session, asked: DiagnoseOptions) -> None:
    """Say how heavy the tails are, which episodes decide, and which method is safe.

    Example: tailproof diagnose log.csv --report diagnosis.html
    """
    from tailproof.report.pages import diagnosis_page  # --help needs no pages

    case = opened("diagnose", log, session, asked.report)
    policy = None if asked.policy is None else case.policy(asked.policy)
    shown, diagnosis = case.diagnosed(case.log, policy, gamma=asked.gamma, seed=asked.seed)
    case.conclude(
        asked={"policy": asked.policy, "gamma": diagnosis.gamma, "seed": asked.seed},
        found=_numbers(diagnosis),
        answer=[Text(diagnosis.verdict.summary, style="bold")],
        evidence=_evidence(diagnosis),
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


def _evidence(diagnosis: Diagnosis) -> list[Any]:
    """Return what a terminal shows of a diagnosis below its summary."""
    verdict = diagnosis.verdict
    lines: list[Any] = ["", points(verdict.reasons)]
    if verdict.improvements:
        lines += ["", Text("What would help", style="bold"), points(verdict.improvements)]
    lines += ["", as_rich(tail_table(diagnosis)), ""]
    if diagnosis.influence.episodes:
        lines += [Text(influence_sentence(diagnosis)), as_rich(influence_table(diagnosis))]
    return lines
