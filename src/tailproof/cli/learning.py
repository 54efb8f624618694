"""`tailproof learn`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.table import Table

from tailproof.cli.command import command
from tailproof.cli.diagnosing import points
from tailproof.cli.engines import EngineOptions
from tailproof.cli.evaluating import evaluated, evaluation_lines
from tailproof.cli.inputs import chosen_method, read_the_log
from tailproof.cli.networks import NETWORKS, network_settings, saved_in, score_facts
from tailproof.cli.options import AUTO, Gamma, Level, LogOptions, MethodOptions, Report, Seed
from tailproof.cli.outcome import conclude
from tailproof.cli.session import Session
from tailproof.data.log import Log
from tailproof.data.stored_views import held
from tailproof.diagnosis.diagnose import diagnose
from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.errors import MethodError, TailproofError
from tailproof.learning.careful.candidates import MOST
from tailproof.learning.learn import learn as run_learn
from tailproof.learning.learned import Learned
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method
from tailproof.report.answers import Answer
from tailproof.report.text import method_text, percent


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
        typer.Option(
            help="With --method auto: confidence that the policy is better than what was logged; below "
            "it, the logged behaviour is kept.",
            rich_help_panel="Method",
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
    from tailproof.report.learning_page import action_shares  # --help needs no pages

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
        judging, shown = learned.held_out, None
        diagnosis: Diagnosis | None = None
        found: Answer | None = None
        if judging is not None:
            if judging.is_discrete:
                with session.working("Judging it by the other episodes"):
                    shown = held(judging, "The diagnosis", seed=seed)
                    diagnosis = diagnose(shown, learned.policy, gamma=learned.gamma, seed=seed)
            found = evaluated(
                judging,
                learned.policy,
                named_method("auto"),
                diagnosis,
                session,
                gamma=learned.gamma,
                level=level,
                seed=seed,
                engine=where,
            )
        elif report is not None:
            raise TailproofError("A report judges the policy by other episodes: use --holdout 0.3.")
    played = None
    if evaluate is not None:
        with session.working(f"Playing {episodes} episodes of {evaluate}"):
            played = learned.score(evaluate, episodes=episodes, seed=seed)
    shares = action_shares(reading.log, learned.policy)
    conclude(
        session,
        "learn",
        log,
        reading,
        asked={
            "method": method_text(learned.method),
            "holdout": holdout,
            "at_least": at_least if learned.improves is not None else None,
            "gamma": learned.gamma,
            "level": level,
            "seed": seed,
        },
        found={
            "learned": learned.to_dict(),
            "actions": shares,
            "saved": None if out is None else str(out),
            "held_out": None if found is None else found.to_dict(),
            "played": None if played is None else score_facts(evaluate, played),
        },
        lines=_lines(learned, found, shares, out, played),
        page=lambda context: _page(shown, learned, found, diagnosis, shares, context),
        report=report,
    )


def _page(
    shown: Log | None,
    learned: Learned,
    found: Answer | None,
    diagnosis: Diagnosis | None,
    shares: dict[str, dict[str, float]],
    context: Any,
) -> Any:
    from tailproof.report.learning_page import learning_page

    assert shown is not None  # refused above
    assert found is not None
    assert diagnosis is not None
    return learning_page(shown, learned, found, diagnosis, shares, context)


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


def _lines(
    learned: Learned,
    found: Answer | None,
    shares: dict[str, dict[str, float]],
    out: Path | None,
    played: Any,
) -> list[Any]:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("action", "the policy takes it", "the log took it"):
        table.add_column(title)
    for label, share in shares.items():
        table.add_row(label, percent(share["policy"]), percent(share["log"]))
    lines: list[Any] = [*str(learned).splitlines(), points(learned.reasons), ""]
    lines += [table, ""] if shares else []
    if found is not None:
        lines += [
            f"Judged by {found.estimate.n_episodes:,} episodes that it was not learned from:",
            *evaluation_lines(found),
        ]
    if played is not None:
        lines += ["", f"Played: return {played}."]
    if out is not None:
        lines += ["", f"Saved to {out}; evaluate it with --policy {out}."]
    return lines
