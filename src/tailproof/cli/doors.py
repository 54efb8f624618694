"""`tailproof diagnose`, `evaluate` and `compare`, and `methods`, which lists their methods."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailproof.cli.asked import ExperimentOptions, asked_for
from tailproof.cli.case import opened
from tailproof.cli.options import (
    AUTO,
    GAMMA,
    GATE_SIZES_WITHIN,
    LEVEL,
    POLICY_FORMS,
    REPORT,
    SEED,
    SIZES_WITHIN,
    AnswerOptions,
    EngineOptions,
    LogOptions,
    MethodOptions,
    level_option,
    option,
    share_of,
)
from tailproof.cli.session import Session, command
from tailproof.errors import PolicyError
from tailproof.report.blocks import Headline, Note, below_first, table
from tailproof.report.text import count

if TYPE_CHECKING:
    from tailproof.doors.diagnose import Diagnosis

TARGET = option(f"What to evaluate: {POLICY_FORMS}.", default=...)
CANDIDATES = option(f"A candidate, once or more, as NAME=POLICY: {POLICY_FORMS}.", default=...)
BASELINE = option("What to beat: a candidate's name or a number; the logged policy by default.")
SUBJECT = option(f"The policy to evaluate, for weights and overlap: {POLICY_FORMS}.")
BY = option(
    "Also the gain by segment: the values of this column, or its quarters if it holds many numbers.",
    metavar="COLUMN",
)
GUARDRAILS = option(
    "An outcome that must not be harmed: a column, -NAME where less is better; may be repeated.",
    default=[],
    metavar="COLUMN",
)
MARGINS = option(
    "Harm to a guarded outcome that is tolerated: --margin visits=2%, or an amount.",
    default=[],
    metavar="COLUMN=AMOUNT",
)
PLAN_SIZES_WITHIN = option(
    "Also the gain that is shown if sizes of extremes may be assumed to differ by at most this share "
    "between the arms, as 20% (compare --gate-sizes-within).",
    parser=share_of,
    metavar="SHARE",
)
SEQUENTIAL = option(
    "Verdicts that hold however often one looks at a growing log, and bounds for logs of a bandit.",
    "--sequential",
    default=False,
)
PAIRS = option("Also the difference of any two candidates.", "--pairs", default=False)


@command
def evaluate(
    *,
    log: LogOptions,
    policy: str = TARGET,
    by: str | None = BY,
    method: MethodOptions,
    experiment: ExperimentOptions,
    engine: EngineOptions,
    session: Session,
    sizes_within: float | None = SIZES_WITHIN,
    asked: AnswerOptions,
) -> int:
    """Estimate how good a policy would have been, with an interval and a lower bound.

    Example: tailproof evaluate log.csv --policy always:hold --gamma 0.99 --report report.html
    """
    from tailproof.doors.evaluate import evaluate as run
    from tailproof.doors.plan import rows_to_decide
    from tailproof.doors.segments import gain_by_segment
    from tailproof.estimators.importance import IPS, BanditDR
    from tailproof.policies.text import name_and_policy
    from tailproof.report.answers import estimate_answer
    from tailproof.report.decisions import rows_note, with_segments
    from tailproof.report.paper import methods_text

    level, seed = asked.level, asked.seed
    with engine.running() as where:
        case = opened("evaluate", log, session, asked.report, policies=[policy], engine=where)
        target = case.policy(policy)
        chosen = method.chosen()
        if isinstance(chosen.base, IPS | BanditDR) and not case.log.has_propensity:
            case = case.with_propensities()
        with session.working(f"Evaluating by {chosen}"):
            estimate = run(
                case.profile, target, method=chosen, gamma=asked.gamma, seed=seed, engine=where
            )
            name = name_and_policy(policy)[0]
            answer = estimate_answer(
                estimate, name=name, level=level, times=asked.times, sizes_within=sizes_within
            )
        found, more = asked_for(experiment, case.log, target, estimate, level=level)
    if estimate.verdict_at(level).word == "no difference shown":
        needed = rows_to_decide(estimate, level=level, seed=seed)
        found, more = {**found, "rows_to_decide": needed}, [*more, *rows_note(estimate, needed)]
    if asked.methods_text:
        said = methods_text(estimate, level=level)
        found, more = {**found, "methods_text": said}, [*more, Note(said)]
    answer = below_first(answer, more)
    if by is not None:
        segments = gain_by_segment(estimate, by, level=level, names=(name, "logged policy"))
        answer, found = with_segments(answer, segments), {**found, "by": segments.to_dict()}
    return case.conclude(
        answer,
        title=f"How good is {name}?",
        asked={"policy": policy, "level": level, "clip": chosen.clip},
        found={**estimate.to_dict(level=level, sizes_within=sizes_within), **found},
        look=lambda: case.diagnosed(case.profile, estimate),
    )


@dataclass(frozen=True)
class PairedMethodOptions(MethodOptions):
    """A method whose estimates can be paired, by row scores or by folds."""

    method: str = option(
        "auto: as in `evaluate`. Or a name that `tailproof methods` lists; one with folds gets as many "
        "as the verdicts need unless --folds says otherwise.",
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
    by: str | None = BY,
    guardrail: list[str] = GUARDRAILS,
    margin: list[str] = MARGINS,
    pairs: bool = PAIRS,
    sequential: bool = SEQUENTIAL,
    sizes_within: float | None = SIZES_WITHIN,
    gate_sizes_within: float | None = GATE_SIZES_WITHIN,
    asked: AnswerOptions,
) -> int:
    """Rank policies by their estimates; exit code 3 when none beats the logged one.

    Example: tailproof compare log.csv --policy new=mine:policy --policy always:hold --gamma 0.99
    """
    from tailproof.doors.compare import compare as run
    from tailproof.policies.text import name_and_policy
    from tailproof.report.answers import comparison_answer, comparison_title, pair_records
    from tailproof.report.decisions import with_guardrails, with_segments
    from tailproof.report.paper import methods_text
    from tailproof.report.text import count

    with engine.running() as where:
        guarded = [each.removeprefix("-") for each in guardrail]
        case = opened(
            "compare", log, session, asked.report, policies=policy, engine=where, beside=guarded
        )
        named = [name_and_policy(each)[0] for each in policy]
        policies = dict(zip(named, map(case.policy, policy), strict=True))
        if len(policies) < len(named):
            raise PolicyError(
                f"Candidates need different names. Got {', '.join(named)}; write NAME=POLICY.",
                argument="policy",
            )
        with session.working(f"Comparing {count(len(policies), 'policy')}"):
            comparison = run(
                case.profile,
                policies,
                gamma=asked.gamma,
                method=method.chosen() if method.changes() else method.method,
                level=asked.level,
                baseline=_number(baseline),
                guardrails=guardrail,
                margins=dict(map(_margin, margin)),
                seed=asked.seed,
                engine=where,
                sizes_within=sizes_within,
                gate_sizes_within=gate_sizes_within,
                sequential=sequential,
            )
    found: dict[str, Any] = comparison.to_dict()
    if pairs:
        found["pairs"] = pair_records(comparison)
    if asked.report is not None or session.full:
        for row, each in zip(found["candidates"], comparison.candidates, strict=True):
            row["estimate"] = each.estimate.to_dict(level=comparison.level)
    answer = comparison_answer(comparison, times=asked.times, pairs=pairs)
    if guardrail:
        answer = with_guardrails(answer, comparison)
    if asked.methods_text:
        said = methods_text(comparison.best.estimate, level=asked.level, comparison=comparison)
        answer = below_first(answer, [Note(said)])
        found["methods_text"] = said
    if by is not None:
        segments = comparison.by(by)
        answer, found = with_segments(answer, segments), {**found, "by": segments.to_dict()}
    return case.conclude(
        answer,
        title=comparison_title(comparison),
        asked={
            "policies": ", ".join(policy),
            "level": asked.level,
            "clip": comparison.best.estimate.method.clip,
        },
        found=found,
        look=lambda: case.diagnosed(case.profile, comparison.proposed.estimate),
    )


@dataclass(frozen=True)
class PlanOptions:
    """The test to plan."""

    rows: list[int] = option("Rows in each arm; may be repeated.", default=[], metavar="N")
    gain: float | None = option("Also the rows that show a gain of this size.")
    power: float = level_option("How often the test shall show it.", default=0.8)
    sizes_within: float | None = PLAN_SIZES_WITHIN
    level: float = LEVEL
    gamma: float | None = GAMMA
    seed: int = SEED


@command
def plan(*, log: LogOptions, session: Session, asked: PlanOptions) -> int:
    """Show which gain a randomised test with two arms can show, by its size.

    Example: tailproof plan log.csv --reward spend --rows 5000 --gain 2
    """
    from tailproof.doors.plan import plan as run

    case = opened("plan", log, session, None)
    with session.working("Planning"):
        found = run(
            case.log,
            rows=asked.rows,
            gain=asked.gain,
            level=asked.level,
            power=asked.power,
            sizes_within=asked.sizes_within,
            gamma=asked.gamma,
            seed=asked.seed,
        )
    return case.conclude(
        found.blocks(),
        title="How large must the test be?",
        asked={"level": asked.level, "power": asked.power, "seed": asked.seed},
        found=found.to_dict(),
        look=None,
    )


def _margin(text: str) -> tuple[str, str]:
    column, equals, amount = text.partition("=")
    if not equals:
        raise PolicyError(
            f"--margin takes COLUMN=AMOUNT, as in --margin visits=2%. Got {text!r}.",
            argument="margin",
        )
    return column.strip(), amount.strip()


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
) -> int:
    """Show how heavy the tails are, which episodes decide, and which method is safe.

    Example: tailproof diagnose log.csv --report diagnosis.html
    """
    from tailproof.report.answers import diagnosis_answer

    case = opened("diagnose", log, session, report, policies=[policy] if policy else [])
    target = None if policy is None else case.policy(policy)
    shown, diagnosis = case.diagnosed(case.profile, policy=target, gamma=gamma, seed=seed)
    return case.conclude(
        diagnosis_answer(diagnosis),
        title=f"Diagnosis of {log.log}",
        asked={"policy": policy, "gamma": diagnosis.gamma, "seed": seed},
        found=_numbers(diagnosis),
        look=lambda: (shown, diagnosis),
    )


def _numbers(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the numbers of a diagnosis for JSON; the complete diagnosis is evidence."""
    verdict, influence = diagnosis.verdict, diagnosis.influence
    return {
        "summary": verdict.summary,
        "call": verdict.call,
        "reasons": verdict.reasons,
        "cautions": verdict.cautions,
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
            "of": influence.of,
            "value": influence.value,
            "share": influence.share,
            "effects": {each.name: each.effect for each in influence.units},
        },
        "transitions": diagnosis.transitions,
        "episodes": diagnosis.episodes,
        "groups": diagnosis.groups,
        "diagnosis": diagnosis.to_dict(),
    }


@command
def methods(session: Session) -> None:
    """List the methods by name.

    Example: tailproof methods
    """
    from tailproof.methods.catalogue import EVALUATION, LEARNING, deep

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
    shown = [
        table(
            ("name", "base", "folds", "about"),
            [
                (name, row["base"], str(row["folds"]), row["about"])
                for name, row in rows.items()
                if row["for"] == purpose
            ],
            caption=f"to {purpose}",
        )
        for purpose in listed
    ]
    headline = Headline(f"{count(len(rows), 'method')}, for evaluate and learn.")
    session.answer({"command": "methods", "methods": rows}, (headline, *shown))
