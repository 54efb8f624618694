"""`tailproof learn`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from functools import partial
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from tailproof.cli.case import opened
from tailproof.cli.doors import ends_lines, evidence_table
from tailproof.cli.options import (
    AUTO,
    GAMMA,
    LEVEL,
    OUTPUT,
    REPORT,
    SEED,
    EngineOptions,
    LogOptions,
    MethodOptions,
    level_option,
    option,
)
from tailproof.cli.session import Session, command, points
from tailproof.doors.diagnose import Diagnosis
from tailproof.doors.evaluate import evaluate
from tailproof.doors.learn import MOST
from tailproof.doors.learn import learn as run_learn
from tailproof.doors.learned import ConstantAction, Learned, best_constant
from tailproof.errors import MethodError, TailproofError
from tailproof.log.log import Log
from tailproof.log.stored import AnyLog
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method
from tailproof.parallel import Engine
from tailproof.report.answers import Answer, constant_text, learned_by, learned_line
from tailproof.report.text import method_text, number

if TYPE_CHECKING:
    from tailproof.report.page import Page
    from tailproof.report.pages import Context

NETWORKS = "Networks"


@dataclass(frozen=True)
class LearningMethodOptions(MethodOptions):
    """A learning method, and the settings of its networks."""

    method: str = option(
        "auto teaches, chooses and judges on different episodes; `tailproof methods` lists the "
        "others.",
        default=AUTO,
    )
    steps: int | None = option(
        "Gradient steps of a network, of its critics and its policy alike.", panel=NETWORKS, min=1
    )
    hidden: str | None = option(
        "Widths of a network's hidden layers.", panel=NETWORKS, metavar="256,256"
    )
    device: str | None = option("Where networks train: cpu, cuda, cuda:1, ….", panel=NETWORKS)

    def changes(self) -> dict[str, Any]:
        """Return the keyword arguments of `tailproof.methods.method`."""
        changed = super().changes()
        if self.steps is not None:
            base: Any = named_method(self.method, base=self.base).base
            own = {each.name for each in fields(base)} & {"policy_steps"}
            changed |= dict.fromkeys(("steps", *own), self.steps)
        if self.hidden is not None:
            changed["hidden"] = widths(self.hidden)
        if self.device is not None:
            from tailproof.deep.settings import Run

            changed["run"] = Run(device=self.device)
        return changed

    def _given(self) -> list[str]:
        """Return the options that change a method."""
        names = ("folds", "base", "clip", "setting", "steps", "hidden", "device")
        given = [name for name in names if getattr(self, name) not in (None, [])]
        return [f"--{name}".replace("--setting", "--set") for name in given]

    def learning(self, log: AnyLog, checkpoint: Path | None, session: Session) -> str | Method:
        """Return the method; its networks, if any, write checkpoints to the folder `checkpoint`."""
        if self.method == AUTO:
            if given := self._given():
                networks = {"--steps", "--hidden", "--device"} & set(given)
                named = "iql" if networks or not log.is_discrete else "room-fqi"
                raise MethodError(
                    f"--method auto chooses for itself. Got {', '.join(given)} as well; name a method "
                    f"to change, such as --method {named}."
                )
            return AUTO
        chosen = self.chosen()
        if hasattr(chosen.base, "for_log"):
            chosen = replace(chosen, base=chosen.base.for_log(log))
        run = getattr(chosen.base, "run", None)
        if run is None:
            return chosen
        folder = None if checkpoint is None else checkpoint / "training"
        shown = None if session.talks else False
        return chosen.with_settings(run=replace(run, checkpoint=folder, progress=shown))


@dataclass(frozen=True)
class LearnOptions:
    """How the policy is evaluated, and its output file."""

    out: Path | None = option(
        "Where to save the policy: NAME.onnx for any ONNX runtime, or any other name for `--policy` "
        "of these commands.",
        panel=OUTPUT,
    )
    holdout: float | None = option(
        "Share of the episodes (or groups) kept away from learning, to judge the policy by: by "
        "default a quarter (a fifth with continuous actions), and 0.3 for a method that is named."
    )
    at_least: float = level_option(
        "With --method auto: confidence that the policy is better than what was logged; below it, "
        "the logged behaviour is kept."
    )
    evaluate: str | None = option(
        "Also play the policy in this Gymnasium environment.", metavar="ENVIRONMENT"
    )
    episodes: int = option("Episodes to play there.", default=20, min=1)
    gamma: float | None = GAMMA
    level: float = LEVEL
    seed: int = SEED
    report: Path | None = REPORT


@command
def learn(
    log: LogOptions,
    method: LearningMethodOptions,
    engine: EngineOptions,
    session: Session,
    asked: LearnOptions,
) -> None:
    """Learn a policy, judge it by episodes that it has not seen, and save it.

    Example: tailproof learn log.csv --gamma 0.99 --out policy.onnx --report learned.html
    """
    with engine.running() as where:
        case = opened("learn", log, session, asked.report, engine=where, out=asked.out)
        _require_ends(asked, case.log)
        chosen = method.learning(case.log, engine.checkpoint, session)
        holdout = 0.3 if asked.holdout is None and chosen != AUTO else asked.holdout
        with _working(chosen, session) as advance:
            learned = run_learn(
                case.log,
                method=chosen,
                gamma=asked.gamma,
                seed=asked.seed,
                holdout=holdout,
                at_least=asked.at_least,
                engine=where,
                advance=advance,
            )
        if asked.out is not None:
            _save(learned, asked.out)
        if asked.report is not None and learned.held_out is None:
            raise TailproofError("A report judges the policy by other episodes: use --holdout 0.3.")
        found, constant = _judged(learned, session, asked.level, where)
    beside: dict[str, Any] = {
        "saved": None if asked.out is None else str(asked.out),
        "played": _played(learned, session, asked),
    }

    judging, gamma, seed = learned.held_out, learned.gamma, learned.seed
    case.conclude(
        asked={
            "method": method_text(learned.method),
            "holdout": holdout,
            "at_least": asked.at_least if learned.improves is not None else None,
            "gamma": gamma,
            "level": asked.level,
            "seed": seed,
        },
        found={
            "learned": learned.to_dict(),
            "held_out": None if found is None else found.estimate.to_dict(level=found.level),
            "best_constant": None if constant is None else constant._asdict(),
            **beside,
        },
        answer=[
            Text(learned_line(learned, found), style="bold"),
            *ends_lines(found, quoted=learned.improves is None, held_out=True),
        ],
        evidence=_evidence(learned, found, constant, **beside),
        look=None
        if judging is None
        else lambda: case.diagnosed(judging, learned.policy, gamma=gamma, seed=seed),
        page=partial(_page, learned, found, constant),
    )


def _page(
    learned: Learned,
    found: Answer | None,
    constant: ConstantAction | None,
    shown: Log,
    diagnosis: Diagnosis,
    context: Context,
) -> Page:
    from tailproof.report.pages import learning_page  # not imported for --help

    assert found is not None
    return learning_page(shown, learned, found, diagnosis, context, constant=constant)


def widths(text: str) -> tuple[int, ...]:
    """Return the widths of hidden layers.

    >>> widths("256,256")
    (256, 256)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise MethodError(f"--hidden takes widths such as 256,256. Got {text!r}.") from None


def _working(chosen: str | Method, session: Session) -> AbstractContextManager[Any]:
    """Show that a method is learning; networks have progress bars of their own."""
    if isinstance(chosen, Method) and hasattr(chosen.base, "run"):
        return nullcontext(lambda: None)
    return session.working(f"Learning by {chosen}", MOST if chosen == AUTO else None)


def _require_ends(asked: LearnOptions, log: AnyLog) -> None:
    """Raise before training if the policy could not be saved or played after it."""
    out = asked.out
    if out is not None and not out.parent.is_dir():
        raise TailproofError(f"{out} could not be written: there is no folder {out.parent}.")
    if out is not None and out.suffix == ".onnx":
        from tailproof.export.onnx import require_onnx

        require_onnx("onnx")
    if asked.evaluate is not None:
        from tailproof.worlds.environments import require_matching

        require_matching(asked.evaluate, len(log.state_names), log.action_space)


def _save(learned: Learned, out: Path) -> None:
    if out.suffix == ".onnx":
        learned.policy.save(out)
    else:
        learned.save(out)


def _judged(
    learned: Learned, session: Session, level: float, engine: Engine
) -> tuple[Answer | None, ConstantAction | None]:
    """Return the policy's estimate on the held-out episodes, and the best single action."""
    log, gamma, seed = learned.held_out, learned.gamma, learned.seed
    if log is None:
        return None, None
    with session.working("Judging it by the other episodes"):
        estimate = evaluate(log, learned.policy, gamma=gamma, seed=seed, engine=engine)
        return Answer(estimate, level), best_constant(log, gamma=gamma, seed=seed)


def _played(learned: Learned, session: Session, asked: LearnOptions) -> dict[str, Any] | None:
    if asked.evaluate is None:
        return None
    with session.working(f"Playing {asked.episodes} episodes of {asked.evaluate}"):
        score = learned.score(asked.evaluate, episodes=asked.episodes, seed=asked.seed)
    return {
        "environment": asked.evaluate,
        "episodes": len(score.returns),
        "mean_return": score.mean,
        "standard_error": score.standard_error,
        "normalised": score.normalised,
        "returns": score.returns,
    }


def _evidence(
    learned: Learned,
    found: Answer | None,
    constant: ConstantAction | None,
    *,
    saved: str | None,
    played: dict[str, Any] | None,
) -> list[Any]:
    """Return the terminal output below the answer."""
    lines: list[Any] = ["", f"{learned_by(learned)}.", points(learned.reasons)]
    if found is not None:
        best = "" if constant is None else constant_text(constant, learned, found)
        more = [("best constant", best)] if best else []
        lines.append(evidence_table(found, more, of="held out"))
    if played is not None:
        error, score = number(played["standard_error"], 2), played["normalised"]
        said = f"Played: return {number(played['mean_return'])} (standard error {error})"
        lines += ["", said + ("." if isnan(score) else f", normalised score {number(score)}.")]
    if saved is not None:
        lines += ["", f"Saved to {saved}; on new data, evaluate it with --policy {saved}."]
    return lines
