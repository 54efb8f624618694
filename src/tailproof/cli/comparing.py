"""`tailproof compare`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tailproof.cli.command import ExitCode, command
from tailproof.cli.diagnosing import points
from tailproof.cli.engines import EngineOptions
from tailproof.cli.inputs import POLICY_FORMS, chosen_method, policy_for, read_the_log
from tailproof.cli.options import Gamma, Level, LogOptions, MethodOptions, Report, Seed
from tailproof.cli.outcome import conclude
from tailproof.cli.session import Session
from tailproof.comparison.compare import compare as run_compare
from tailproof.comparison.comparison import Candidate, Comparison
from tailproof.data.stored_views import held
from tailproof.diagnosis.diagnose import diagnose
from tailproof.errors import PolicyError
from tailproof.policies.text import name_and_policy
from tailproof.report.text import method_text, number, percent


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
            help=f"A candidate, once or more, as NAME=POLICY: {POLICY_FORMS}.",
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
        policies = {
            name: policy_for(spec, reading.log) for name, spec in map(name_and_policy, policy)
        }
        if len(policies) < len(policy):
            raise PolicyError(
                f"Candidates need different names. Got "
                f"{', '.join(name for name, _ in map(name_and_policy, policy))}"
                f"; write NAME=POLICY."
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
    diagnosis, shown = None, reading.log
    if report is not None:
        with session.working("Diagnosing the log"):
            shown = held(reading.log, "The diagnosis", seed=seed)
            diagnosis = diagnose(shown, gamma=comparison.gamma, seed=seed)
    conclude(
        session,
        "compare",
        log,
        reading,
        asked={
            "policies": ", ".join(policy),
            "baseline": comparison.baseline,
            "method": method_text(comparison.method),
            "gamma": comparison.gamma,
            "level": level,
            "seed": seed,
        },
        found=comparison.to_dict(),
        lines=comparison_lines(comparison),
        page=lambda context: comparison_page(shown, comparison, diagnosis, context),
        report=report,
    )
    return ExitCode.OK if comparison.passes else ExitCode.GATE


def comparison_lines(comparison: Comparison) -> list[Any]:
    """Return what a terminal shows of a comparison."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("policy", overflow="fold")
    titles = [
        "value",
        "above",
        "gain",
        "gain above",
        *(["folds won"] if comparison.has_folds else []),
    ]
    for title in titles:
        table.add_column(title, justify="right")
    table.add_column("")
    for each in comparison.candidates:
        table.add_row(
            Text(each.name),
            number(each.value),
            number(each.lower_bound.value),
            f"{each.gain.value:+.4g}",
            f"{each.gain.lower_bound.value:+.4g}",
            *([_folds_won(each)] if comparison.has_folds else []),
            Text("passes", style="green") if each.passes else "",
        )
    table.add_row(
        Text(comparison.baseline, style="dim"),
        number(comparison.baseline_value),
        *("" for _ in titles),
    )
    levels = (
        f"{percent(comparison.best.lower_bound.level)} for a value, "
        f"{percent(comparison.best.gain.lower_bound.level)} for a gain: with "
        f"{percent(comparison.level)} all gains hold at once"
    )
    lines: list[Any] = [table, "", Text(comparison_sentence(comparison), style="bold")]
    return [*lines, points((f"Levels: {levels}.", *comparison.notes))]


def _folds_won(candidate: Candidate) -> str:
    return f"{candidate.gain.won} of {len(candidate.gain.fold_values)}"


def comparison_sentence(comparison: Comparison) -> str:
    """Return the outcome in words."""
    best = comparison.best
    first = f"{best.name} is best with probability {comparison.probability_best:.2f}"
    passing = [each.name for each in comparison.candidates if each.passes]
    if passing:
        return f"{first}. The gate is passed by {', '.join(passing)}."
    return f"{first}, but no candidate's lower bound beats the {comparison.baseline}."


def _number(text: str | None) -> str | float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
