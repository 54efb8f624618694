"""`tailproof diagnose`, `evaluate` and `compare`, and `methods`, which lists their methods."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

from rich.table import Table
from rich.text import Text

from tailproof.cli.case import (
    POLICY_HELP,
    ExperimentOptions,
    experiment_findings,
    opened,
    sentences,
)
from tailproof.cli.options import (
    AUTO,
    GAMMA,
    REPORT,
    SEED,
    AnswerOptions,
    EngineOptions,
    LogOptions,
    MethodOptions,
    option,
)
from tailproof.cli.session import ExitCode, Session, as_rich, command, plain_table, points
from tailproof.doors.compare import compare as run_compare
from tailproof.doors.diagnose import Diagnosis
from tailproof.doors.evaluate import evaluate as run_evaluate
from tailproof.errors import PolicyError
from tailproof.estimators.importance import IPS, BanditDR
from tailproof.methods.catalogue import EVALUATION, LEARNING, deep
from tailproof.policies.text import name_and_policy
from tailproof.report.answers import (
    Answer,
    comparison_line,
    comparison_notes,
    influence_sentence,
    influence_table,
    ranking_table,
    tail_table,
)
from tailproof.report.text import count, number

TARGET = option(f"What to evaluate: {POLICY_HELP}.", default=...)
CANDIDATES = option(f"A candidate, once or more, as NAME=POLICY: {POLICY_HELP}.", default=...)
BASELINE = option("Whom to beat: a candidate's name or a number; the logged policy by default.")
SUBJECT = option(f"Whom you want to evaluate, for weights and overlap: {POLICY_HELP}.")


def _pages() -> ModuleType:
    from tailproof.report import pages  # imports matplotlib, which only reports need

    return pages


@command
def evaluate(
    *,
    log: LogOptions,
    policy: str = TARGET,
    method: MethodOptions,
    experiment: ExperimentOptions,
    engine: EngineOptions,
    session: Session,
    asked: AnswerOptions,
) -> None:
    """Estimate how good a policy would have been, with an interval and a lower bound.

    Example: tailproof evaluate log.csv --policy always:hold --gamma 0.99 --report report.html
    """
    level, seed = asked.level, asked.seed
    with engine.running() as where:
        case = opened("evaluate", log, session, asked.report, policies=[policy], engine=where)
        target = case.policy(policy)
        chosen = method.chosen()
        if isinstance(chosen.base, IPS | BanditDR) and not case.log.has_propensity:
            case = case.with_propensities()
        with session.working(f"Evaluating by {chosen}"):
            estimate = run_evaluate(
                case.log, target, method=chosen, gamma=asked.gamma, seed=seed, engine=where
            )
            found, numbers = Answer(estimate, level), estimate.to_dict(level=level)
        more, rows = experiment_findings(experiment, case.log, target, estimate, level=level)
    name = name_and_policy(policy)[0]
    case.conclude(
        asked={"policy": policy, "level": level},
        found={**numbers, **more},
        answer=[Text(found.first_line(), style="bold"), *ends_lines(found), *label_table(rows)],
        evidence=[evidence_table(found)],
        look=lambda: case.diagnosed(case.log, target, gamma=estimate.gamma, seed=seed),
        page=lambda shown, diagnosis, context: _pages().evaluation_page(
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
        table = plain_table("name", "base", "folds", "about", title=f"to {purpose}")
        table.columns[0].min_width = 20
        for name, row in rows.items():
            if row["for"] == purpose:
                table.add_row(name, row["base"], str(row["folds"]), row["about"])
        tables += [table, ""]
    session.answer({"command": "methods", "methods": rows}, *tables[:-1])


def ends_lines(found: Answer | None, *, quoted: bool = True, held_out: bool = False) -> list[Any]:
    """Return the lines below the first: the policy's actions, and the interval of a quoted value."""
    if found is None:
        return []
    actions = str(found.estimate.on_log)
    if held_out and actions:
        actions = f"On the held-out rows: {actions}"
    said = [actions, found.value_ends() if quoted else ""]
    caveats = found.caveats() if quoted else ()
    return [*(Text(each) for each in said if each), *(Text(each, style="dim") for each in caveats)]


def evidence_table(
    found: Answer, more: Sequence[tuple[str, str]] = (), *, of: str = "log"
) -> Table:
    """Return `more` rows of label and text, then the method and the data of the estimate."""
    estimate, rows = found.estimate, list(more)
    values = sorted(estimate.fold_values)
    if len(values) > 1:
        rows.append(("folds", "  ".join(map(number, values))))
    rows.append(("method", found.how()))
    critic = getattr(estimate.choice, "critic", "")
    if critic:
        rows.append(("models of the value", critic))
    transitions = count(estimate.n_transitions, "row")
    rows.append((of, f"{transitions} in {count(estimate.n_episodes, 'episode')}"))
    return label_table(rows)[0]


def label_table(rows: Sequence[tuple[str, str]]) -> list[Table]:
    """Return a table of labels and texts; nothing if there are no rows."""
    table = plain_table(show_header=False)
    table.add_column(style="bold")
    table.add_column()
    for label, text in rows:
        table.add_row(label, text if label else Text(text, style="dim"))
    return [table] if rows else []


@dataclass(frozen=True)
class PairedMethodOptions(MethodOptions):
    """A method whose estimates can be paired, by row scores or by folds."""

    method: str = option(
        "auto: as in `evaluate`. Or a name that `tailproof methods` lists; one with folds gets as many "
        "as the gate needs unless --folds says otherwise.",
        default=AUTO,
    )


@command
def compare(
    *,
    log: LogOptions,
    policy: list[str] = CANDIDATES,
    method: PairedMethodOptions,
    engine: EngineOptions,
    session: Session,
    baseline: str | None = BASELINE,
    asked: AnswerOptions,
) -> int:
    """Rank policies by their estimates; exit code 3 when none beats the logged one.

    Example: tailproof compare log.csv --policy new=mine:policy --policy always:hold --gamma 0.99
    """
    with engine.running() as where:
        case = opened("compare", log, session, asked.report, policies=policy, engine=where)
        named = [name_and_policy(each)[0] for each in policy]
        policies = dict(zip(named, map(case.policy, policy), strict=True))
        if len(policies) < len(named):
            raise PolicyError(
                f"Candidates need different names. Got {', '.join(named)}; write NAME=POLICY."
            )
        with session.working(f"Comparing {len(policies)} policies"):
            comparison = run_compare(
                case.log,
                policies,
                gamma=asked.gamma,
                method=method.chosen() if method.changes() else method.method,
                level=asked.level,
                baseline=_number(baseline),
                seed=asked.seed,
                engine=where,
            )
    found: dict[str, Any] = comparison.to_dict()
    if asked.report is not None or session.full:
        for row, each in zip(found["candidates"], comparison.candidates, strict=True):
            row["estimate"] = each.estimate.to_dict(level=comparison.level)
    case.conclude(
        asked={"policies": ", ".join(policy), "level": asked.level},
        found=found,
        answer=[
            Text(comparison_line(comparison), style="bold"),
            as_rich(ranking_table(comparison)),
        ],
        evidence=[points(comparison_notes(comparison))],
        look=lambda: case.diagnosed(case.log, None, gamma=comparison.gamma, seed=asked.seed),
        page=lambda shown, diagnosis, context: _pages().comparison_page(
            shown, comparison, diagnosis, context
        ),
    )
    return ExitCode.OK if comparison.passes else ExitCode.GATE


def _number(text: str | None) -> str | float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text


@command
def diagnose(
    *,
    log: LogOptions,
    session: Session,
    policy: str | None = SUBJECT,
    gamma: float | None = GAMMA,
    seed: int = SEED,
    report: Path | None = REPORT,
) -> None:
    """Say how heavy the tails are, which episodes decide, and which method is safe.

    Example: tailproof diagnose log.csv --report diagnosis.html
    """
    case = opened("diagnose", log, session, report, policies=[policy] if policy else [])
    target = None if policy is None else case.policy(policy)
    shown, diagnosis = case.diagnosed(case.log, target, gamma=gamma, seed=seed)
    case.conclude(
        asked={"policy": policy, "gamma": diagnosis.gamma, "seed": seed},
        found=_numbers(diagnosis),
        answer=[Text(diagnosis.verdict.summary, style="bold")],
        evidence=_evidence(diagnosis),
        look=lambda: (shown, diagnosis),
        page=lambda *parts: _pages().diagnosis_page(*parts),
    )


def _numbers(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the numbers of a diagnosis for JSON; the complete diagnosis is evidence."""
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
    """Return the terminal output of a diagnosis below its summary."""
    verdict = diagnosis.verdict
    lines: list[Any] = ["", points(verdict.reasons)]
    if verdict.improvements:
        lines += ["", Text("What would help", style="bold"), points(verdict.improvements)]
    lines += ["", as_rich(tail_table(diagnosis)), ""]
    if diagnosis.influence.episodes:
        lines += [Text(influence_sentence(diagnosis)), as_rich(influence_table(diagnosis))]
    return lines
