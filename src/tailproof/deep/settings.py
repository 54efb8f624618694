"""What every deep learner can be told: how it learns, and where and how it runs. No torch here."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tailproof.algorithms.learners.ranking import require_imitation
from tailproof.arrays import require_fraction
from tailproof.errors import MethodError, TailproofError
from tailproof.parameters import Configurable

if TYPE_CHECKING:
    from tailproof.deep.history import History
    from tailproof.deep.loggers import Logger
    from tailproof.engines import Engine

RewardScale = float | Literal["auto"]
TargetRate = float | Literal["auto"]

TIME_CONSTANTS = 3.0  # after so many, values have come within e⁻³ = 5 % of where they go
_AIM = 5.0  # what an automatic target rate goes for, because networks lag behind their targets too
_PUBLISHED_RATE, _FASTEST_RATE = 0.005, 0.1


def require_count(name: str, value: int) -> None:
    """Raise unless `value` is a whole number of at least 1."""
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise MethodError(f"{name} must be a whole number of at least 1. Got {value!r} instead.")


def require_widths(name: str, widths: tuple[int, ...]) -> None:
    """Raise unless `widths` are widths of hidden layers."""
    if not widths or any(not isinstance(each, int) or each < 1 for each in widths):
        raise MethodError(f"{name} must be widths such as (256, 256). Got {widths!r} instead.")


def require_positive(name: str, value: Any, *, at_most: float = float("inf")) -> None:
    """Raise unless `value` is a finite number in (0, at_most]."""
    if not isinstance(value, int | float) or not 0 < value <= at_most or value == float("inf"):
        limit = "" if at_most == float("inf") else f" and at most {at_most:g}"
        raise MethodError(f"{name} must be positive and finite{limit}. Got {value!r} instead.")


def _require_share(name: str, value: Any) -> None:
    if not isinstance(value, int | float) or not 0 <= value < 1:
        raise MethodError(f"{name} must be at least 0 and below 1. Got {value!r} instead.")


def _require_policy(name: str, value: Any) -> None:
    if value not in ("deterministic", "gaussian"):
        raise MethodError(f"{name} must be deterministic or gaussian. Got {value!r} instead.")


#: What is required of settings, by their names.
_REQUIRED: dict[str, Callable[[str, Any], None]] = {
    **dict.fromkeys(("steps", "policy_steps", "batch", "twins", "draws"), require_count),
    **dict.fromkeys(("workers", "threads", "checkpoint_every", "log_every"), require_count),
    **dict.fromkeys(("hidden", "policy_hidden"), require_widths),
    **dict.fromkeys(("learning_rate", "reward_scale", "limit", "huber"), require_positive),
    **dict.fromkeys(("alpha", "beta", "temperature", "tolerance"), require_positive),
    "patience": require_count,
    "target_rate": partial(require_positive, at_most=1.0),
    "expectile": partial(require_fraction, error=MethodError),
    "share": _require_share,
    "policy": _require_policy,
    "top": lambda _, value: require_imitation(value),
    "rank": lambda _, value: require_imitation(rank=value),
}


class _Checked:
    """Checks the settings of a dataclass; ``None`` and ``"auto"`` may stand where they are defaults."""

    def __post_init__(self) -> None:
        for each in fields(self):  # type: ignore[arg-type]
            value = getattr(self, each.name)
            optional = each.default in (None, "auto") and value == each.default
            if each.name in _REQUIRED and not optional:
                _REQUIRED[each.name](each.name, value)


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Play the policy in an environment while it trains.

    Parameters
    ----------
    environment
        A Gymnasium id such as ``"Hopper-v5"``, or a callable that makes an environment.
    every
        Steps between evaluations.
    episodes
        Episodes each time, played side by side.
    first
        Steps before which there is none, to save time.
    score
        Turns a mean return into a score, such as `tailproof.deep.tasks.normalised`'s.
    seed
        Seeds the environments; the same starts at every evaluation.
    """

    environment: str | Callable[[], Any]
    every: int = 5_000
    episodes: int = 10
    first: int = 0
    score: Callable[[float], float] | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Run(_Checked):
    """Where and how training runs; none of it changes what is learned, but for rounding.

    Another device, another number of threads or another processor adds numbers in another order, and
    training makes much of little: for the same networks to the last bit use the same `threads`.

    Parameters
    ----------
    device
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ….
    threads
        Threads of this process for matrix products; by default torch's own number (that of
        ``OMP_NUM_THREADS``), at most 4, because products of this size gain nothing from more.
    workers
        Into how many tasks the members are dealt, to train at the same time; only for members that do
        not meet in the backup.
    engine
        Where these tasks run: by default the engine that `learn` or `evaluate` was given, or as many
        processes of this machine; or an engine of `tailproof.engines`, such as one for a Ray
        cluster. With a checkpoint, a task whose worker
        died goes on where that stopped.
    checkpoint
        A folder. Training saves itself there and, started again with the same settings, continues
        from the last save to the result that it would have had.
    checkpoint_every, log_every
        Steps between saves, and between rows of the history.
    loggers
        Who is told every row of the history: `CSVLogger`, `TensorBoardLogger`, ….
    progress
        Show a bar; by default only on a terminal.
    evaluation
        Play the policy in an environment while it trains.
    """

    device: str = "cpu"
    threads: int | None = None
    workers: int = 1
    engine: Engine | None = None
    checkpoint: str | Path | None = None
    checkpoint_every: int = 5_000
    log_every: int = 1_000
    loggers: tuple[Logger, ...] = ()
    progress: bool | None = None
    evaluation: Evaluation | None = None


@dataclass(frozen=True, kw_only=True)
class EarlyStopping(_Checked):
    """Stop training once a quantity of the history has settled.

    It has settled when its mean over members moved by at most `tolerance` of its size over the last
    `patience` rows; critics also need three time constants behind them. A phase that does not measure
    the quantity trains to its last step.

    Parameters
    ----------
    quantity
        ``"mean value"`` for critics; ``"policy loss"``, ``"return"`` or ``"score"`` for policies.
    patience
        Rows of the history, `Run.log_every` steps apart (evaluations, for returns and scores).
    tolerance
        Largest relative movement that counts as none.
    """

    quantity: str = "mean value"
    patience: int = 5
    tolerance: float = 0.01

    def reached(self, history: History) -> bool:
        """Return whether the quantity has settled."""
        if self.quantity not in history:
            return False
        recent = history[self.quantity].values[-self.patience - 1 :].mean(axis=1)
        if len(recent) <= self.patience:
            return False
        if "time constants" in history and history["time constants"].values[-1, 0] < TIME_CONSTANTS:
            return False
        return bool(np.ptp(recent) <= self.tolerance * np.abs(recent).mean())


@dataclass(frozen=True, kw_only=True)
class DeepSettings(_Checked, Configurable):
    """The settings that every deep learner has.

    Parameters
    ----------
    steps
        Gradient steps of the critics.
    batch
        Transitions a step and member.
    hidden
        Widths of the hidden layers, of critics and policy.
    learning_rate
        Adam's.
    target_rate
        How fast the target networks follow, ρ in θ̄ ← (1 − ρ)θ̄ + ρθ. Values settle after about
        1/(ρ(1 − γ)) steps, three times over. ``"auto"`` lets ρ follow `steps`: the usual 0.005 where
        that gives five such time constants, and otherwise as much more as it takes, up to 0.1.
    reward_scale
        Rewards are multiplied by this while training; ``"auto"`` makes the median absolute reward
        one. Values of critics are given in the log's own unit.
    standardise
        Whether each state variable is given mean 0 and standard deviation 1.
    zero_rewards
        Train on rewards of zero: the baseline that shows how much of a score the rewards earned.
    stop
        End a phase of training early; none: train to the last step.
    run
        Where and how training runs.
    """

    steps: int = 200_000
    batch: int = 256
    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 3e-4
    target_rate: TargetRate = "auto"
    reward_scale: RewardScale = "auto"
    standardise: bool = True
    zero_rewards: bool = False
    stop: EarlyStopping | None = None
    run: Run = field(default_factory=Run)

    def rate(self, horizon: float) -> float:
        """Return ρ for values that look `horizon` = 1/(1 − γ) steps ahead."""
        if self.target_rate != "auto":
            return self.target_rate
        needed = _AIM * horizon / self.steps
        return min(max(_PUBLISHED_RATE, needed), _FASTEST_RATE)


def require_torch() -> ModuleType:
    """Return torch, or say which install brings it."""
    return require_module("torch", "'tailproof[deep]'", "Deep learners")


def require_module(module: str, install: str, what: str) -> ModuleType:
    """Import a module that only some uses need, or say which install brings it."""
    try:
        return importlib.import_module(module)
    except ImportError as error:
        raise TailproofError(
            f"{what} need {module}, which is not installed: pip install {install}."
        ) from error
