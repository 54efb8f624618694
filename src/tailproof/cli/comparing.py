"""`tailproof compare`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.text import Text

from tailproof.cli.command import ExitCode, command
from tailproof.cli.engines import EngineOptions
from tailproof.cli.inputs import POLICY_HELP, chosen_method, policy_for, read_the_log
from tailproof.cli.options import (
    Gamma,
    Level,
    LogOptions,
    MethodOptions,
    Report,
    Seed,
)
from tailproof.cli.outcome import Outcome, conclude, diagnosed
from tailproof.cli.session import Session
from tailproof.cli.tables import as_rich, points
from tailproof.comparison.compare import compare as run_compare
from tailproof.comparison.comparison import Comparison
from tailproof.errors import PolicyError
from tailproof.policies.text import name_and_policy
from tailproof.report.ranking import comparison_line, comparison_notes, ranking_table


@dataclass(frozen=True)
class PairedMethodOptions(MethodOptions):
    """A method whose estimates can be paired: by the scores of rows, or by folds."""

    method: Annotated[
        str,
        typer.Option(
            help="auto: the default of `evaluate` for one-step logs, roam-dm for others. Or a name "
            "with folds that `tailproof methods` lists; it gets as many folds as the gate needs unless "
            "--folds says otherwise.",
            rich_help_panel="Method",
        ),
    ] = "auto"


@command
def compare(
    log: LogOptions,
    policy: Annotated[
        list[str],
        typer.Option(
            help=f"A candidate, once or more, as NAME=POLICY: {POLICY_HELP}.",
            rich_help_panel="Method",
        ),
    ],
    method: PairedMethodOptions,
    engine: EngineOptions,
    session: Session,
    baseline: Annotated[
        str | None,
        typer.Option(
            help="Whom to beat: a candidate's name or a number; the logged policy by default.",
            rich_help_panel="Method",
            show_default=False,
        ),
    ] = None,
    gamma: Gamma = None,
    level: Level = 0.9,
    seed: Seed = 0,
    report: Report = None,
) -> int:
    """Rank policies by their estimates; exit code 3 when none beats the logged one.

    Example: tailproof compare log.csv --policy new=mine:policy --policy always:hold --gamma 0.99
    """
    from tailproof.report.comparison_page import comparison_page  # --help needs no pages

    with engine.running() as where:
        reading = read_the_log(log, session, engine=where, outputs=[report])
        named = [name_and_policy(each) for each in policy]
        policies = {name: policy_for(spec, reading.log) for name, spec in named}
        if len(policies) < len(policy):
            raise PolicyError(
                f"Candidates need different names. Got {', '.join(name for name, _ in named)}; write "
                f"NAME=POLICY."
            )
        chosen: Any = chosen_method(method) if method.changes() else method.method
        with session.working(f"Comparing {len(policies)} policies"):
            comparison = run_compare(
                reading.log,
                policies,
                gamma=gamma,
                method=chosen,
                level=level,
                baseline=_number(baseline),
                seed=seed,
                engine=where,
            )
    conclude(
        session,
        "compare",
        log,
        reading,
        Outcome(
            asked={"policies": ", ".join(policy), "level": level},
            found=_numbers(comparison, everything=report is not None or session.options.full),
            answer=[
                Text(comparison_line(comparison), style="bold"),
                as_rich(ranking_table(comparison)),
            ],
            evidence=[points(comparison_notes(comparison))],
        ),
        report=report,
        look=lambda: diagnosed(reading.log, None, session, gamma=comparison.gamma, seed=seed),
        page=lambda shown, diagnosis, context: comparison_page(
            shown, comparison, diagnosis, context
        ),
    )
    return ExitCode.OK if comparison.passes else ExitCode.GATE


def _numbers(comparison: Comparison, *, everything: bool) -> dict[str, Any]:
    """Return what JSON holds of a comparison: with the estimates behind it if everything is wanted."""
    found = comparison.to_dict()
    if everything:
        for row, each in zip(found["candidates"], comparison.candidates, strict=True):
            row["estimate"] = each.estimate.to_dict(level=comparison.level)
    return found


def _number(text: str | None) -> str | float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
