"""`tailproof learn`."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields, replace
from math import isnan
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailproof.cli.case import opened
from tailproof.cli.options import (
    AUTO,
    GAMMA,
    GATE_SIZES_WITHIN,
    LEVEL,
    OUTPUT,
    REPORT,
    SEED,
    TIMES,
    EngineOptions,
    LogOptions,
    MethodOptions,
    level_option,
    option,
)
from tailproof.cli.session import Session, command
from tailproof.errors import MethodError, TailproofError, require_module
from tailproof.log.spaces import Discrete
from tailproof.report.blocks import Note
from tailproof.report.text import method_text, number, size_text

if TYPE_CHECKING:
    from tailproof.doors.curve import TargetingCurve
    from tailproof.doors.estimate import Estimate
    from tailproof.doors.learned import ConstantAction, Learned
    from tailproof.doors.readable import JudgedRule
    from tailproof.log.log import Log
    from tailproof.methods.method import Method
    from tailproof.parallel import Engine
    from tailproof.profile.profile import LogProfile

NETWORKS = "Networks"
_FORMS = {"sql": ".sql", "python": ".py", "onnx": ".onnx"}  # to export, and the endings of files


@dataclass(frozen=True)
class LearningMethodOptions(MethodOptions):
    """A learning method, and the settings of its networks."""

    method: str = option(
        "auto fits, chooses and judges on different episodes; `tailproof methods` lists the "
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
            from tailproof.methods.catalogue import method as named_method

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

    def learning(self, log: Log, checkpoint: Path | None, session: Session) -> str | Method:
        """Return the method; its networks, if any, write checkpoints to the folder `checkpoint`."""
        if self.method == AUTO:
            if given := self._given():
                networks = {"--steps", "--hidden", "--device"} & set(given)
                named = "iql" if networks or not log.is_discrete else "room-fqi"
                raise MethodError(
                    f"--method auto chooses for itself. Got {', '.join(given)} as well; name a method "
                    f"to change, such as --method {named}.",
                    argument="method",
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
    export: str | None = option(
        "Also write the policy beside --out: onnx for any ONNX runtime; a small tree or a constant "
        "also as sql, a CASE expression, or python, a function of a dict.",
        panel=OUTPUT,
        metavar="sql,python,onnx",
    )
    readable: bool = option(
        "Learn a rule that can be read, a small tree or a single action: what is learned otherwise is "
        "replaced by the closest small tree before it is chosen and judged.",
        "--readable",
        default=False,
    )
    at_most: list[str] = option(
        "Largest share of rows that may get an action, or its largest mean cost per row, with the "
        "state column that holds the cost: 'voucher=1.5 of price'. Repeat it for several.",
        default=[],
        metavar="ACTION=20%",
    )
    never: list[str] = option(
        "Rows in which an action must not be taken, by a state column. Repeat it for several.",
        default=[],
        metavar="'ACTION where COLUMN=VALUE'",
    )
    gate_sizes_within: float | None = GATE_SIZES_WITHIN
    memory: bool = option(
        "Where the columns do not tell all that matters, let the policy depend on averages of what "
        "came earlier in an episode too; `apply` computes them.",
        "--memory",
        default=False,
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
    times: int | None = TIMES
    report: Path | None = REPORT

    def outputs(self) -> dict[str, Path]:
        """Return the files of the policy and of its other forms, by their options."""
        if self.out is None:
            return {}
        forms = [] if self.export is None else self.export.split(",")
        endings = {form: _FORMS[form] for form in forms if form in _FORMS}
        others = {f"export {form}": self.out.with_suffix(end) for form, end in endings.items()}
        return {"out": self.out, **others}


@command
def learn(
    log: LogOptions,
    method: LearningMethodOptions,
    engine: EngineOptions,
    session: Session,
    asked: LearnOptions,
) -> int:
    """Learn a policy, judge it by episodes that it has not seen, and save it.

    Example: tailproof learn log.csv --gamma 0.99 --out policy.onnx --report learned.html
    """
    from tailproof.doors.learn import learn as run
    from tailproof.profile.profile import LogProfile
    from tailproof.report.answers import learned_answer

    with engine.running() as where:
        case = opened("learn", log, session, asked.report, engine=where, out=asked.outputs())
        _require_ends(asked, case.log)
        chosen = method.learning(case.log, engine.checkpoint, session)
        holdout = 0.3 if asked.holdout is None and chosen != AUTO else asked.holdout
        with _working(chosen, session) as advance:
            learned = run(
                case.log,
                method=chosen,
                gamma=asked.gamma,
                seed=asked.seed,
                holdout=holdout,
                at_least=asked.at_least,
                readable=asked.readable,
                at_most=asked.at_most,
                never=asked.never,
                gate_sizes_within=asked.gate_sizes_within,
                memory=asked.memory,
                engine=where,
                advance=advance,
            )
        if asked.out is not None:
            _save(learned, asked.out)
            _export(learned, asked, session)
        if asked.report is not None and learned.held_out is None:
            raise TailproofError(
                "A report judges the policy by other episodes: use --holdout 0.3.",
                argument="holdout",
            )
        judging = None if learned.held_out is None else LogProfile(learned.held_out)
        held_out, constant = _judged(learned, judging, session, where)
        rule = _rule(learned, held_out, judging, asked.level)
        curve = _curve(learned, judging, asked)
    played, said = _played(learned, session, asked)
    answer = learned_answer(
        learned,
        held_out,
        level=asked.level,
        times=asked.times,
        constant=constant,
        played=said,
        rule=rule,
        curve=curve,
    )
    if asked.out is not None:
        saved = f"Saved to {asked.out}; on new data, evaluate it with --policy {asked.out}."
        if learned.past is not None:
            saved = (
                f"Saved to {asked.out}; `tailproof apply` decides for new rows (name the --episode "
                f"column)."
            )
        answer = (*answer[:2], Note(saved), *answer[2:])
    gamma, seed = learned.gamma, learned.seed
    return case.conclude(
        answer,
        title="How good is the learned policy?",
        asked={
            "method": method_text(learned.method),
            "holdout": holdout,
            "at_least": asked.at_least if learned.improves is not None else None,
            "gamma": gamma,
            "level": asked.level,
            "clip": learned.method.clip,
            "seed": seed,
        },
        found={
            "learned": learned.to_dict(),
            "held_out": None if held_out is None else held_out.to_dict(level=asked.level),
            "best_constant": None if constant is None else constant._asdict(),
            "rule": None if rule is None else rule.to_dict(),
            "curve": None if curve is None else curve.to_dict(),
            "saved": None if asked.out is None else str(asked.out),
            "played": played,
        },
        look=None if judging is None else lambda: case.diagnosed(judging, held_out),
        whole="" if learned.log_size is None else size_text(*learned.log_size),
    )


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
    if not isinstance(chosen, str) and hasattr(chosen.base, "run"):
        return nullcontext(lambda: None)
    from tailproof.doors.careful import MOST

    return session.working(f"Learning by {chosen}", MOST if chosen == AUTO else None)


def _require_ends(asked: LearnOptions, log: Log) -> None:
    """Raise before training if the policy could not be saved or played after it."""
    out = asked.out
    forms = [] if asked.export is None else asked.export.split(",")
    if forms and (out is None or not set(forms) <= set(_FORMS)):
        raise MethodError(
            f"--export takes {', '.join(_FORMS)}, or several with commas, and --out names the file "
            f"beside which they are written. Got {asked.export!r}"
            f"{' without --out' if out is None else ''}.",
            argument="export",
        )
    if out is not None and not out.parent.is_dir():
        raise TailproofError(f"{out} could not be written: there is no folder {out.parent}.")
    if out is not None and (out.suffix == ".onnx" or "onnx" in forms):
        from tailproof.export.onnx import INSTALL

        require_module("onnx", INSTALL, "ONNX")
    if asked.evaluate is not None:
        from tailproof.worlds.environments import require_matching

        require_matching(asked.evaluate, len(log.state_names), log.action_space)


def _save(learned: Learned, out: Path) -> None:
    if out.suffix == ".onnx":
        learned.policy.save(out)
    else:
        learned.save(out)


def _export(learned: Learned, asked: LearnOptions, session: Session) -> None:
    """Write other forms of a policy beside its file, and warn of those that it does not have."""
    from tailproof.files import write_whole

    kept = learned.improves is False
    for name, path in asked.outputs().items():
        if name == "export onnx":
            learned.policy.save(path)
        elif name != "out" and learned.has_rule:
            write_whole(path, getattr(learned.rule, name.removeprefix("export "))())
        elif name != "out":
            what = "the logged behaviour, which is kept," if kept else "what was learned"
            hint = "" if kept or asked.readable else " Learn a rule with --readable."
            old = " The file that is there is from an earlier run." if path.exists() else ""
            session.warned(f"{path} was not written: {what} is no rule.{old}{hint}")


def _judged(
    learned: Learned, profile: LogProfile | None, session: Session, engine: Engine
) -> tuple[Estimate | None, ConstantAction | None]:
    """Return the policy's estimate on the held-out episodes, and the best single action."""
    from tailproof.doors.evaluate import evaluate
    from tailproof.doors.learned import best_constant

    gamma, seed = learned.gamma, learned.seed
    if profile is None:
        return None, None
    with session.working("Judging it by the other episodes"):
        estimate = evaluate(profile, learned.policy, gamma=gamma, seed=seed, engine=engine)
        return estimate, best_constant(profile, gamma=gamma, seed=seed)


def _rule(
    learned: Learned, held_out: Estimate | None, profile: LogProfile | None, level: float
) -> JudgedRule | None:
    """Return the policy's rule, or the tree closest to it, judged by the held-out episodes."""
    from tailproof.doors.readable import JudgedRule, judge_simplified, judged_rule

    if learned.has_rule:
        if held_out is None:
            return JudgedRule.unjudged(learned.rule)
        return judged_rule(learned.rule, held_out, level=level)
    discrete = isinstance(learned.action_space, Discrete)
    if held_out is None or profile is None or learned.improves is False or not discrete:
        return None  # the logged behaviour, or nothing to compare by
    return judge_simplified(learned, held_out, profile, level=level)


def _curve(
    learned: Learned, profile: LogProfile | None, asked: LearnOptions
) -> TargetingCurve | None:
    """Return the curve of the first action with a budget, by the held-out episodes."""
    from tailproof.doors.curve import targeting_curve
    from tailproof.learners.limits import AtMost

    if profile is None or not asked.at_most or learned.improves is False:
        return None
    action = AtMost.parse(asked.at_most[0]).action
    return targeting_curve(learned, action, profile, level=asked.level)


def _played(
    learned: Learned, session: Session, asked: LearnOptions
) -> tuple[dict[str, Any] | None, str]:
    """Return what the policy earned in an environment, and a sentence about it."""
    if asked.evaluate is None:
        return None, ""
    with session.working(f"Playing {asked.episodes} episodes of {asked.evaluate}"):
        score = learned.score(asked.evaluate, episodes=asked.episodes, seed=asked.seed)
    error = number(score.standard_error, 2)
    said = f"Played in {asked.evaluate}: return {number(score.mean)} (standard error {error})"
    found = {
        "environment": asked.evaluate,
        "episodes": len(score.returns),
        "mean_return": score.mean,
        "standard_error": score.standard_error,
        "normalised": score.normalised,
        "returns": score.returns,
    }
    if isnan(score.normalised):
        return found, f"{said}."
    return found, f"{said}, normalised score {number(score.normalised)}."
