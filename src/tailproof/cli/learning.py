"""`tailproof learn`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer
from rich.text import Text

from tailproof.cli.command import command
from tailproof.cli.engines import EngineOptions
from tailproof.cli.evaluating import ends_lines, evidence_table
from tailproof.cli.inputs import chosen_method, read_the_log
from tailproof.cli.networks import NETWORKS, network_settings, saved_in, score_facts
from tailproof.cli.options import (
    AUTO,
    Gamma,
    Level,
    LogOptions,
    MethodOptions,
    Report,
    Seed,
    level_option,
)
from tailproof.cli.outcome import Outcome, conclude, diagnosed
from tailproof.cli.session import Session
from tailproof.cli.tables import points
from tailproof.data.log import Log
from tailproof.data.stored import AnyLog
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.engines import Engine
from tailproof.errors import MethodError, TailproofError
from tailproof.evaluation.evaluate import evaluate as run_evaluate
from tailproof.learning.careful.candidates import MOST
from tailproof.learning.constants import ConstantAction, best_constant
from tailproof.learning.learn import learn as run_learn
from tailproof.learning.learned import Learned
from tailproof.methods.method import Method
from tailproof.report.answers import Answer, answer, learned_line
from tailproof.report.text import count, method_text, number

if TYPE_CHECKING:
    from tailproof.report.page import Page
    from tailproof.report.pages import Context
    from tailproof.sources import Reading


@dataclass(frozen=True)
class LearningOptions(MethodOptions):
    """A method that learns."""

    method: Annotated[
        str,
        typer.Option(
            help="auto teaches, chooses and judges on different episodes; `tailproof methods` lists "
            "the others.",
            rich_help_panel="Method",
        ),
    ] = AUTO

    steps: Annotated[
        int | None,
        typer.Option(
            help="Gradient steps of a network, of its critics and its policy alike.",
            min=1,
            rich_help_panel=NETWORKS,
            show_default=False,
        ),
    ] = None
    hidden: Annotated[
        str | None,
        typer.Option(
            help="Widths of a network's hidden layers.",
            metavar="256,256",
            rich_help_panel=NETWORKS,
            show_default=False,
        ),
    ] = None
    device: Annotated[
        str | None,
        typer.Option(
            help="Where networks train: cpu, cuda, cuda:1, ….",
            rich_help_panel=NETWORKS,
            show_default=False,
        ),
    ] = None

    def changes(self) -> dict[str, Any]:
        """Return the keyword arguments of `tailproof.methods.method`."""
        return {**super().changes(), **network_settings(self)}


@command
def learn(
    log: LogOptions,
    method: LearningOptions,
    engine: EngineOptions,
    session: Session,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Where to save the policy: NAME.onnx for any ONNX runtime, or any other name for "
            "`--policy` of these commands.",
            rich_help_panel="Output",
            show_default=False,
        ),
    ] = None,
    holdout: Annotated[
        float | None,
        typer.Option(
            help="Share of the episodes (or groups) kept away from learning, to judge the policy by: "
            "by default a quarter, and 0.3 for a method that is named.",
            rich_help_panel="Method",
            show_default=False,
        ),
    ] = None,
    at_least: Annotated[
        float,
        level_option(
            "With --method auto: confidence that the policy is better than what was logged; below it, "
            "the logged behaviour is kept."
        ),
    ] = 0.9,
    evaluate: Annotated[
        str | None,
        typer.Option(
            help="Also play the policy in this Gymnasium environment.",
            metavar="ENVIRONMENT",
            rich_help_panel="Method",
            show_default=False,
        ),
    ] = None,
    episodes: Annotated[
        int, typer.Option(help="Episodes to play there.", min=1, rich_help_panel="Method")
    ] = 20,
    gamma: Gamma = None,
    level: Level = 0.9,
    seed: Seed = 0,
    report: Report = None,
) -> None:
    """Learn a policy, judge it by episodes that it has not seen, and save it.

    Example: tailproof learn log.csv --gamma 0.99 --out policy.onnx --report learned.html
    """
    with engine.running() as where:
        reading = read_the_log(log, session, engine=where, outputs=[report, out])
        if report is not None and not reading.log.is_discrete:
            raise TailproofError("Reports are of discrete actions. Leave out --report.")
        chosen = saved_in(_learning_method(method), reading.log, engine.checkpoint)
        if holdout is None and chosen != AUTO:
            holdout = 0.3
        with session.working(f"Learning by {chosen}", _steps(chosen)) as advance:
            learned = run_learn(
                reading.log,
                method=chosen,
                gamma=gamma,
                seed=seed,
                holdout=holdout,
                at_least=at_least,
                engine=where,
                advance=advance,
            )
        if out is not None:
            _save(learned, out)
        if report is not None and learned.held_out is None:
            raise TailproofError("A report judges the policy by other episodes: use --holdout 0.3.")
        judged = None if learned.held_out is None else _judged(learned, session, level, where)
    played = None
    if evaluate is not None:
        with session.working(f"Playing {episodes} episodes of {evaluate}"):
            played = learned.score(evaluate, episodes=episodes, seed=seed)
    asked = {
        "method": method_text(learned.method),
        "holdout": holdout,
        "at_least": at_least if learned.improves is not None else None,
        "gamma": learned.gamma,
        "level": level,
        "seed": seed,
    }
    beside = {
        "saved": None if out is None else str(out),
        "played": None if played is None else score_facts(evaluate, played),
    }
    _conclude(session, log, reading, learned, judged, asked, beside, report)


class Judged(NamedTuple):
    """What the held-out episodes say: the policy's answer, and the best single action."""

    log: AnyLog
    found: Answer
    constant: ConstantAction | None


def _judged(learned: Learned, session: Session, level: float, engine: Engine | None) -> Judged:
    assert learned.held_out is not None
    log, gamma, seed = learned.held_out, learned.gamma, learned.seed
    with session.working("Judging it by the other episodes"):
        estimate = run_evaluate(log, learned.policy, gamma=gamma, seed=seed, engine=engine)
        constant = best_constant(log, gamma=gamma, seed=seed)
        return Judged(log, answer(estimate, level=level), constant)


def _conclude(
    session: Session,
    options: LogOptions,
    reading: Reading,
    learned: Learned,
    judged: Judged | None,
    asked: Mapping[str, Any],
    beside: Mapping[str, Any],
    report: Path | None,
) -> None:
    found = None if judged is None else judged.found
    constant = None if judged is None else judged.constant
    line = learned_line(learned, found, constant)

    def look() -> tuple[Log, Diagnosis]:
        assert judged is not None
        policy = learned.policy
        return diagnosed(judged.log, policy, session, gamma=learned.gamma, seed=learned.seed)

    def page(shown: Log, diagnosis: Diagnosis, context: Context) -> Page:
        from tailproof.report.learning_page import learning_page  # --help needs no pages

        assert found is not None
        return learning_page(shown, learned, found, diagnosis, context, constant=constant)

    conclude(
        session,
        "learn",
        options,
        reading,
        Outcome(
            asked=asked,
            found={
                "learned": learned.to_dict(),
                "held_out": None if found is None else found.estimate.to_dict(level=found.level),
                "best_constant": None if constant is None else constant._asdict(),
                **beside,
            },
            answer=[Text(line, style="bold"), *([] if found is None else ends_lines(found))],
            evidence=_evidence(learned, found, beside),
        ),
        report=report,
        look=look if judged is not None and judged.log.is_discrete else None,
        page=page,
    )


def _steps(chosen: str | Method) -> int | None:
    """Return how many steps the bar has: those of the careful default are known."""
    return MOST if chosen == AUTO else None


def _learning_method(options: LearningOptions) -> str | Method:
    if options.method != AUTO:
        return chosen_method(options)
    if changes := options.changes():
        raise MethodError(
            f"--method auto chooses for itself. Got {', '.join(sorted(changes))} as well; name a "
            f"method to change, such as --method room-fqi."
        )
    return AUTO


def _save(learned: Learned, out: Path) -> None:
    if not out.parent.is_dir():
        raise TailproofError(f"{out} could not be written: there is no folder {out.parent}.")
    if out.suffix == ".onnx":
        learned.policy.save(out)
    else:
        learned.save(out)


def _evidence(learned: Learned, found: Answer | None, beside: Mapping[str, Any]) -> list[Any]:
    """Return what a terminal shows below the answer."""
    made = f"Learned by {method_text(learned.method)} from {count(learned.n_episodes, 'episode')}."
    lines: list[Any] = ["", made, points(learned.reasons)]
    lines += [] if found is None else [evidence_table(found)]
    if (played := beside["played"]) is not None:
        error = number(played["standard_error"], 2)
        lines += ["", f"Played: return {number(played['mean_return'])} (standard error {error})."]
    if (out := beside["saved"]) is not None:
        lines += ["", f"Saved to {out}; on new data, evaluate it with --policy {out}."]
    return lines
