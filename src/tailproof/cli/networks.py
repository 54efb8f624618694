"""What the command line says about networks: their settings, and what their policies played."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tailproof.data.stored import AnyLog
from tailproof.errors import MethodError
from tailproof.methods.catalogue import method as named_method
from tailproof.methods.method import Method

if TYPE_CHECKING:
    from tailproof.cli.learning import LearningOptions

NETWORKS = "Networks"


def network_settings(options: LearningOptions) -> dict[str, Any]:
    """Return the settings of a base that these options ask for."""
    found: dict[str, Any] = {}
    if options.steps is not None:
        found["steps"] = options.steps
        if _has_policy_steps(options):
            found["policy_steps"] = options.steps
    if options.hidden is not None:
        found["hidden"] = widths(options.hidden)
    if options.device is not None:
        from tailproof.deep.settings import Run

        found["run"] = Run(device=options.device)
    return found


def saved_in(chosen: str | Method, log: AnyLog, checkpoint: Path | None) -> str | Method:
    """Return the method with networks that save their training in this folder, if it has any."""
    if isinstance(chosen, str) or checkpoint is None:
        return chosen
    if hasattr(chosen.base, "for_log"):
        chosen = replace(chosen, base=chosen.base.for_log(log))
    run = getattr(chosen.base, "run", None)
    if run is None:
        return chosen
    return chosen.with_settings(run=replace(run, checkpoint=checkpoint / "training"))


def widths(text: str) -> tuple[int, ...]:
    """Return the widths of hidden layers.

    >>> widths("256,256")
    (256, 256)
    """
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise MethodError(f"--hidden takes widths such as 256,256. Got {text!r}.") from None


def score_facts(environment: str | None, score: Any) -> dict[str, Any]:
    """Return what was played, for JSON."""
    return {
        "environment": environment,
        "episodes": len(score.returns),
        "mean_return": score.mean,
        "standard_error": score.standard_error,
        "normalised": score.normalised,
        "returns": score.returns,
    }


def _has_policy_steps(options: LearningOptions) -> bool:
    """Return whether critics and policy of this row have steps of their own."""
    chosen = named_method(options.method, base=options.base)
    return "policy_steps" in {each.name for each in fields(chosen.base)}  # type: ignore[arg-type]
