"""`tailproof evaluate`, `tailproof methods`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import numpy as np
import typer
from rich.table import Table
from rich.text import Text

from tailproof.cli.command import command
from tailproof.cli.engines import EngineOptions
from tailproof.cli.experiment import ExperimentOptions, experiment_findings
from tailproof.cli.inputs import (
    POLICY_FORMS,
    chosen_method,
    needs_propensities,
    policy_for,
    read_the_log,
    with_propensities,
)
from tailproof.cli.options import AUTO, Gamma, Level, LogOptions, MethodOptions, Report, Seed
from tailproof.cli.outcome import conclude
from tailproof.cli.session import Session
from tailproof.data.stored import AnyLog
from tailproof.data.stored_views import held
from tailproof.diagnosis.diagnose import diagnose
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.engines import Engine
from tailproof.evaluation.estimate import Estimate
from tailproof.evaluation.evaluate import evaluate as run_evaluate
from tailproof.methods.catalogue import EVALUATION, LEARNING, deep
from tailproof.methods.method import Method
from tailproof.report.answers import Answer, answer
from tailproof.report.text import count, method_text, number, percent

Policy = Annotated[
    str,
    typer.Option(help=f"What to evaluate: {POLICY_FORMS}.", rich_help_panel="Method"),
]


@command
def evaluate(
    log: LogOptions,
    policy: Policy,
    method: MethodOptions,
    experiment: ExperimentOptions,
    engine: EngineOptions,
    session: Session,
    gamma: Gamma = None,
    level: Level = 0.9,
    seed: Seed = 0,
    report: Report = None,
) -> None:
    """Estimate how good a policy would have been, with an interval and a lower bound.

    Example: tailproof evaluate log.csv --policy always:hold --gamma 0.99 --report report.html
    """
    from tailproof.report.pages import evaluation_page  # --help needs no pages

    with engine.running() as where:
        reading = read_the_log(log, session, engine=where, outputs=[report])
        target = policy_for(policy, reading.log)
        chosen = chosen_method(method)
        if needs_propensities(chosen, reading.log):
            reading = with_propensities(reading, session)
        diagnosis: Diagnosis | None = None
        shown = reading.log
        if method.method == AUTO or report is not None:
            with session.working("Diagnosing the log"):
                shown = held(reading.log, "The diagnosis", seed=seed)
                diagnosis = diagnose(shown, target, gamma=gamma, seed=seed)
        found = evaluated(
            reading.log,
            target,
            chosen,
            diagnosis,
            session,
            gamma=gamma,
            level=level,
            seed=seed,
            engine=where,
        )
        asked, rows = experiment_findings(
            experiment, reading.log, target, found.estimate, level=level
        )
    numbers = {**found.to_dict(), **asked}
    if diagnosis is not None:
        numbers["diagnosis"] = diagnosis.to_dict()
    conclude(
        session,
        "evaluate",
        log,
        reading,
        asked={
            "policy": policy,
            "method": method_text(chosen),
            "folds by": method_text(found.folds.method),
            "gamma": found.estimate.gamma,
            "level": level,
            "seed": seed,
        },
        found=numbers,
        lines=evaluation_lines(found, rows),
        page=lambda context: evaluation_page(
            shown, target, found, _known(diagnosis), context, name=policy
        ),
        report=report,
    )


@command
def methods(session: Session) -> None:
    """List the methods by name.

    Example: tailproof methods
    """
    learns = {name: row for name, row in deep().items() if hasattr(row.method.base, "extract")}
    evaluates = {name: row for name, row in deep().items() if name not in learns}
    listed = {"evaluate": {**EVALUATION, **evaluates}, "learn": {**LEARNING, **learns}}
    rows: dict[str, dict[str, Any]] = {
        name: {
            "for": purpose,
            "base": type(row.method.base).__name__,
            "folds": row.method.folds,
            "aggregate": str(row.method.aggregate) if row.method.folds > 1 else None,
            "at": row.method.at if row.method.folds > 1 else None,
            "about": row.about,
        }
        for purpose, names in listed.items()
        for name, row in names.items()
    }
    tables = []
    for purpose in listed:
        table = Table(box=None, pad_edge=False, title=f"to {purpose}", title_justify="left")
        for title in ("name", "base", "folds", "about"):
            table.add_column(title, overflow="fold", min_width=20 if title == "name" else None)
        for name, row in rows.items():
            if row["for"] == purpose:
                table.add_row(name, row["base"], str(row["folds"]), row["about"])
        tables += [table, ""]
    session.answer({"command": "methods", "methods": rows}, *tables[:-1])


def evaluated(
    log: AnyLog,
    policy: Any,
    method: Method,
    diagnosis: Diagnosis | None,
    session: Session,
    *,
    gamma: float | None,
    level: float,
    seed: int,
    engine: Engine | None = None,
) -> Answer:
    """Evaluate by the method, and by folds as well where it looks at the log as a whole."""

    def run(method: Method) -> Estimate:
        with session.working(f"Evaluating by {method}"):
            return run_evaluate(log, policy, method=method, gamma=gamma, seed=seed, engine=engine)

    estimate = run(method)
    if diagnosis is None or estimate.choice is None:
        return answer(estimate, level=level)
    verdict = diagnosis.verdict
    folds = run(verdict.bounds()) if verdict.folds > 1 else None
    return answer(estimate, folds=folds, level=level, verdict=verdict)


def evaluation_lines(found: Answer, more: Sequence[tuple[str, str]] = ()) -> list[Any]:
    """Return what a terminal shows of an evaluation, with `more` rows of a label and a text."""
    estimate = found.estimate
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    table.add_row("estimate", Text(number(estimate.value), style="bold green"))
    if found.interval is not None:
        ends = f"{number(found.interval.low)} to {number(found.interval.high)}"
        table.add_row("interval", f"{ends}  ({percent(found.interval.level)})")
        table.add_row("", Text(found.interval.note, style="dim"))
    if found.bound is not None:
        table.add_row(
            "lower bound", f"{number(found.bound.low)}  ({percent(found.bound.level)} one-sided)"
        )
    if estimate.choice is not None:
        gain = estimate.choice.gain
        level = 0.9 if found.bound is None else found.bound.level
        table.add_row("logged", number(estimate.choice.logged_value))
        relative = f" ({gain.relative:+.0%})" if np.isfinite(gain.relative) else ""
        above = f"above {number(gain.lower_bound(level).value)} with {percent(level)}"
        table.add_row("gain", f"{gain.value:+.4g}{relative}, {above}")
        if gain.reference and estimate.choice.declined is None:
            lift = gain.relative_interval(level)
            ends = f"{lift.low:+.1%} to {lift.high:+.1%}  ({percent(level)})"
            table.add_row("lift", f"{gain.relative:+.1%}, {ends}")
    for label, text in more:
        table.add_row(label, text if label else Text(text, style="dim"))
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


def _known(diagnosis: Diagnosis | None) -> Diagnosis:
    assert diagnosis is not None  # a report is never written without one
    return diagnosis
