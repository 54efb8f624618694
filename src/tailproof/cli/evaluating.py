"""`tailproof evaluate`, `tailproof methods`."""

from __future__ import annotations

from typing import Annotated, Any

import typer
from rich.table import Table
from rich.text import Text

from tailproof.catalogue import CATALOGUE
from tailproof.cli.command import command
from tailproof.cli.inputs import POLICY_FORMS, chosen_method, load_policy, read_the_log
from tailproof.cli.options import AUTO, Gamma, Level, LogOptions, MethodOptions, Report, Seed
from tailproof.cli.session import Session
from tailproof.diagnose import diagnose as run_diagnose
from tailproof.diagnosis import Diagnosis
from tailproof.evaluate import evaluate as run_evaluate
from tailproof.log import Log
from tailproof.method import Method
from tailproof.report.answers import Answer, answer
from tailproof.report.pages import Context, evaluation_page
from tailproof.report.text import count, method_text, number, percent
from tailproof.report.versions import versions
from tailproof.results import Estimate

Policy = Annotated[
    str,
    typer.Option(help=f"What to evaluate: {POLICY_FORMS}.", rich_help_panel="Method"),
]


@command
def evaluate(
    log: LogOptions,
    policy: Policy,
    method: MethodOptions,
    session: Session,
    gamma: Gamma = None,
    level: Level = 0.9,
    seed: Seed = 0,
    report: Report = None,
) -> None:
    """Estimate how good a policy would have been, with an interval and a lower bound.

    Example: tailproof evaluate log.csv --policy always:hold --gamma 0.99 --report report.html
    """
    reading = read_the_log(log, session)
    target = load_policy(policy, reading.log.action_space)
    diagnosis = None
    if method.method == AUTO or report is not None:
        with session.working("Diagnosing the log"):
            diagnosis = run_diagnose(reading.log, target, gamma=gamma, seed=seed)
    found = _answer(
        reading.log, target, method, diagnosis, session, gamma=gamma, level=level, seed=seed
    )
    settings = {
        "command": "evaluate",
        "log": log.log,
        "columns": None if reading.columns is None else reading.columns.describe(),
        "policy": policy,
        "level": level,
    }
    record = {**settings, **found.to_dict(), "versions": versions()}
    if diagnosis is not None:
        record["diagnosis"] = diagnosis.to_dict()
    record |= {"notes": session.notes, "warnings": session.warnings}
    if report is not None:
        assert diagnosis is not None
        asked = {
            "method": found.how(),
            "folds": method_text(found.folds.method),
        }
        context = Context(
            source=log.log,
            settings=settings | asked | {"gamma": found.estimate.gamma, "seed": seed},
            notes=session.notes,
            warnings=session.warnings,
            record=record,
        )
        with session.working("Writing the report"):
            evaluation_page(reading.log, target, found, diagnosis, context, name=policy).write(
                report
            )
    session.answer(record, *evaluation_lines(found))
    if report is not None:
        session.note(f"The report is in {report}.")


def _answer(
    log: Log,
    policy: Any,
    options: MethodOptions,
    diagnosis: Diagnosis | None,
    session: Session,
    *,
    gamma: float | None,
    level: float,
    seed: int,
) -> Answer:
    def run(method: Method) -> Estimate:
        with session.working(f"Evaluating by {method}"):
            return run_evaluate(log, policy, method=method, gamma=gamma, seed=seed)

    estimate = run(chosen_method(options))
    if diagnosis is None or estimate.choice is None:
        return answer(estimate, level=level)
    verdict = diagnosis.verdict
    folds = run(verdict.bounds()) if verdict.folds > 1 else None
    return answer(estimate, folds=folds, level=level, left_tail=verdict.tail_index)


@command
def methods(session: Session) -> None:
    """List the methods by name.

    Example: tailproof methods
    """
    rows: dict[str, dict[str, Any]] = {
        name: {
            "base": type(row.method.base).__name__,
            "folds": row.method.folds,
            "aggregate": str(row.method.aggregate) if row.method.folds > 1 else None,
            "at": row.method.at if row.method.folds > 1 else None,
            "about": row.about,
        }
        for name, row in CATALOGUE.items()
    }
    table = Table(box=None, pad_edge=False)
    for title in ("name", "base", "folds", "about"):
        table.add_column(title, overflow="fold")
    for name, row in rows.items():
        table.add_row(name, row["base"], str(row["folds"]), row["about"])
    session.answer({"command": "methods", "methods": rows}, table)


def evaluation_lines(found: Answer) -> list[Any]:
    """Return what a terminal shows of an evaluation."""
    estimate = found.estimate
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    table.add_row("estimate", Text(number(estimate.value), style="bold green"))
    if found.interval is not None:
        ends = f"{number(found.interval.low)} to {number(found.interval.high)}"
        table.add_row("interval", f"{ends}  ({percent(found.interval.level)})")
    if found.bound is not None:
        table.add_row(
            "lower bound", f"{number(found.bound.low)}  ({percent(found.bound.level)} one-sided)"
        )
    values = sorted(found.folds.fold_values)
    if len(values) > 1:
        table.add_row("folds", "  ".join(number(value) for value in values))
    if found.folds is not estimate:
        table.add_row("", f"by {method_text(found.folds.method)}")
    table.add_row("method", f"{found.how()}; γ = {estimate.gamma:g}")
    table.add_row(
        "log",
        f"{count(estimate.n_transitions, 'row')} in {count(estimate.n_episodes, 'episode')}",
    )
    if why := found.why_no_interval():
        table.add_row("no interval", why)
    return [table]
