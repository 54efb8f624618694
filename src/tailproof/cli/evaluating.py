"""`tailproof evaluate`, `tailproof methods`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from rich.table import Table
from rich.text import Text

from tailproof.algorithms.bandit import IPS, BanditDR
from tailproof.cli.case import POLICY_HELP, opened
from tailproof.cli.command import command
from tailproof.cli.engines import EngineOptions
from tailproof.cli.experiment import ExperimentOptions, experiment_findings, sentences
from tailproof.cli.options import AnswerOptions, LogOptions, MethodOptions, option
from tailproof.cli.session import Session
from tailproof.evaluation.evaluate import evaluate as run_evaluate
from tailproof.methods.catalogue import EVALUATION, LEARNING, deep
from tailproof.policies.text import name_and_policy
from tailproof.report.answers import Answer
from tailproof.report.text import count, number


@dataclass(frozen=True)
class Target:
    """What to evaluate."""

    policy: str = option(f"What to evaluate: {POLICY_HELP}.", default=...)


@command
def evaluate(
    log: LogOptions,
    target: Target,
    method: MethodOptions,
    experiment: ExperimentOptions,
    engine: EngineOptions,
    session: Session,
    asked: AnswerOptions,
) -> None:
    """Estimate how good a policy would have been, with an interval and a lower bound.

    Example: tailproof evaluate log.csv --policy always:hold --gamma 0.99 --report report.html
    """
    from tailproof.report.pages import evaluation_page  # --help needs no pages

    level, seed = asked.level, asked.seed
    with engine.running() as where:
        case = opened("evaluate", log, session, asked.report, engine=where)
        policy = case.policy(target.policy)
        chosen = method.chosen()
        if isinstance(chosen.base, IPS | BanditDR) and not case.log.has_propensity:
            case = case.with_propensities()
        with session.working(f"Evaluating by {chosen}"):
            estimate = run_evaluate(
                case.log, policy, method=chosen, gamma=asked.gamma, seed=seed, engine=where
            )
            found, numbers = Answer(estimate, level), estimate.to_dict(level=level)
        more, rows = experiment_findings(experiment, case.log, policy, estimate, level=level)
    name = name_and_policy(target.policy)[0]
    case.conclude(
        asked={"policy": target.policy, "level": level},
        found={**numbers, **more},
        answer=[Text(found.first_line(), style="bold"), *ends_lines(found)],
        evidence=[evidence_table(found, rows)],
        look=lambda: case.diagnosed(case.log, policy, gamma=estimate.gamma, seed=seed),
        page=lambda shown, diagnosis, context: evaluation_page(
            shown, found, diagnosis, context, name=name, more=sentences(rows)
        ),
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


def ends_lines(found: Answer, *, quoted: bool = True) -> list[Any]:
    """Return what stands below the first line: what the policy does, and how sure a quoted value is."""
    said = [str(found.estimate.on_log), found.value_ends() if quoted else ""]
    caveats = found.caveats() if quoted else ()
    return [*(Text(each) for each in said if each), *(Text(each, style="dim") for each in caveats)]


def evidence_table(found: Answer, more: Sequence[tuple[str, str]] = ()) -> Table:
    """Return how the estimate was made, and from what, below `more` rows of a label and a text."""
    estimate = found.estimate
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold")
    table.add_column()
    for label, text in more:
        table.add_row(label, text if label else Text(text, style="dim"))
    values = sorted(estimate.fold_values)
    if len(values) > 1:
        table.add_row("folds", "  ".join(map(number, values)))
    table.add_row("method", found.how())
    rows, episodes = count(estimate.n_transitions, "row"), count(estimate.n_episodes, "episode")
    table.add_row("log", f"{rows} in {episodes}")
    return table
