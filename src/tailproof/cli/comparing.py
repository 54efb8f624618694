"""`tailproof compare`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from rich.text import Text

from tailproof.cli.case import POLICY_HELP, opened
from tailproof.cli.command import ExitCode, command
from tailproof.cli.engines import EngineOptions
from tailproof.cli.options import AUTO, AnswerOptions, LogOptions, MethodOptions, option
from tailproof.cli.session import Session
from tailproof.cli.tables import as_rich, points
from tailproof.comparison.compare import compare as run_compare
from tailproof.errors import PolicyError
from tailproof.policies.text import name_and_policy
from tailproof.report.answers import comparison_line, comparison_notes, ranking_table


@dataclass(frozen=True)
class Candidates:
    """Who is compared."""

    policy: list[str] = option(
        f"A candidate, once or more, as NAME=POLICY: {POLICY_HELP}.", default=...
    )


@dataclass(frozen=True)
class PairedMethodOptions(MethodOptions):
    """A method whose estimates can be paired: by the scores of rows, or by folds."""

    method: str = option(
        "auto: the default of `evaluate` for one-step logs, roam-dm for others. Or a name with folds "
        "that `tailproof methods` lists; it gets as many folds as the gate needs unless --folds says "
        "otherwise.",
        default=AUTO,
    )


@dataclass(frozen=True)
class Baseline:
    """Whom to beat."""

    baseline: str | None = option(
        "Whom to beat: a candidate's name or a number; the logged policy by default."
    )


@command
def compare(
    log: LogOptions,
    candidates: Candidates,
    method: PairedMethodOptions,
    engine: EngineOptions,
    session: Session,
    beaten: Baseline,
    asked: AnswerOptions,
) -> int:
    """Rank policies by their estimates; exit code 3 when none beats the logged one.

    Example: tailproof compare log.csv --policy new=mine:policy --policy always:hold --gamma 0.99
    """
    from tailproof.report.pages import comparison_page  # --help needs no pages

    with engine.running() as where:
        case = opened("compare", log, session, asked.report, engine=where)
        named = [name_and_policy(each)[0] for each in candidates.policy]
        policies = dict(zip(named, map(case.policy, candidates.policy), strict=True))
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
                baseline=_number(beaten.baseline),
                seed=asked.seed,
                engine=where,
            )
    found: dict[str, Any] = comparison.to_dict()
    if asked.report is not None or session.full:
        for row, each in zip(found["candidates"], comparison.candidates, strict=True):
            row["estimate"] = each.estimate.to_dict(level=comparison.level)
    case.conclude(
        asked={"policies": ", ".join(candidates.policy), "level": asked.level},
        found=found,
        answer=[
            Text(comparison_line(comparison), style="bold"),
            as_rich(ranking_table(comparison)),
        ],
        evidence=[points(comparison_notes(comparison))],
        look=lambda: case.diagnosed(case.log, None, gamma=comparison.gamma, seed=asked.seed),
        page=lambda shown, diagnosis, context: comparison_page(
            shown, comparison, diagnosis, context
        ),
    )
    return ExitCode.OK if comparison.passes else ExitCode.GATE


def _number(text: str | None) -> str | float | None:
    try:
        return None if text is None else float(text)
    except ValueError:
        return text
