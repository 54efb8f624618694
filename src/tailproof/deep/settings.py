"""Settings of all deep learners: how they learn, and where and how they run. No torch here."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, Literal

import numpy as np

from tailproof.errors import MethodError, require_module
from tailproof.files import NOT_SAVED
from tailproof.parameters import COUNT, POSITIVE, Configurable, Within
from tailproof.worlds.environments import EnvironmentSource

if TYPE_CHECKING:
    from tailproof.deep.history import History
    from tailproof.deep.loggers import Logger
    from tailproof.parallel import Engine

RewardScale = float | Literal["auto"]
TargetRate = float | Literal["auto"]

TIME_CONSTANTS = 3.0  # after which values are within e⁻³ = 5 % of their fixed point
_AIM = 5.0  # time constants of the automatic target rate, as networks also lag their targets
_PUBLISHED_RATE, _FASTEST_RATE = 0.005, 0.1


class _Widths:
    """A constraint: widths of hidden layers."""

    def __contains__(self, value: object) -> bool:
        return isinstance(value, tuple) and bool(value) and all(each in COUNT for each in value)

    def __str__(self) -> str:
        return "widths such as (256, 256)"


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Evaluate the policy in an environment during training.

    Parameters
    ----------
    environment
        A Gymnasium id such as ``"Hopper-v5"``, or a callable that makes an environment.
    every
        Steps between evaluations.
    episodes
        Episodes per evaluation, run in parallel.
    first
        Step of the first evaluation, to save time.
    score
        Converts a mean return to a score; see `tailproof.worlds.environments.scorer`.
    seed
        Seed of the environments; every evaluation has the same initial states.
    """

    environment: EnvironmentSource
    every: int = 5_000
    episodes: int = 10
    first: int = 0
    score: Callable[[float], float] | None = None
    seed: int = 0


@dataclass(frozen=True, kw_only=True)
class Run(Configurable):
    """Where and how training runs; it changes results only by rounding.

    Sums on another device, processor or number of threads round differently, and training amplifies
    such differences: for bitwise equal networks use the same `threads`.

    Parameters
    ----------
    device
        ``"cpu"``, ``"cuda"``, ``"cuda:1"``, ….
    threads
        Threads of this process for matrix products; by default torch's number (that of
        ``OMP_NUM_THREADS``), at most 4, because more do not speed up products of this size.
    workers
        Number of parallel tasks into which the members are divided; only for members without a
        common backup.
    engine
        Where these tasks run: an engine of `tailproof.parallel`, such as one for a Ray cluster; by
        default the engine of `learn` or `evaluate`, or else one local process per task. With a
        checkpoint, a task resumes after its worker died.
    checkpoint
        A folder for checkpoints. A restart with the same settings resumes from the last one and
        gives the same result.
    checkpoint_every, log_every
        Steps between saves, and between rows of the history.
    loggers
        Receive every row of the history: `CSVLogger`, `TensorBoardLogger`, ….
    progress
        Whether to show a progress bar; by default only on a terminal.
    compile
        Whether torch compiles the losses, which takes half a minute and needs a C++ compiler. It pays
        for runs of many thousand steps.
    evaluation
        Evaluation of the policy in an environment during training.
    """

    constraints: ClassVar = dict.fromkeys(
        ("workers", "threads", "checkpoint_every", "log_every"), COUNT
    )

    device: str = "cpu"
    threads: int | None = None
    workers: int = 1
    engine: Engine | None = None
    checkpoint: str | Path | None = None
    checkpoint_every: int = 5_000
    log_every: int = 1_000
    loggers: tuple[Logger, ...] = ()
    progress: bool | None = None
    compile: bool = False
    evaluation: Evaluation | None = None


@dataclass(frozen=True, kw_only=True)
class EarlyStopping(Configurable):
    """Stop training when a quantity of the history no longer changes.

    That is, when its mean over members changed by at most `tolerance`, relatively, over the last
    `patience` rows; critics also need at least three time constants. A phase that does not measure
    the quantity trains to its last step.

    Parameters
    ----------
    quantity
        ``"mean value"`` for critics; ``"policy loss"``, ``"return"`` or ``"score"`` for policies.
    patience
        Rows of the history, `Run.log_every` steps apart (evaluations, for returns and scores).
    tolerance
        Largest relative change that counts as none.
    """

    constraints: ClassVar = {"patience": COUNT, "tolerance": POSITIVE}

    quantity: str = "mean value"
    patience: int = 5
    tolerance: float = 0.01

    def reached(self, history: History) -> bool:
        """Return whether the quantity no longer changes."""
        if self.quantity not in history:
            return False
        recent = history[self.quantity].values[-self.patience - 1 :].mean(axis=1)
        if len(recent) <= self.patience:
            return False
        if "time constants" in history and history["time constants"].values[-1, 0] < TIME_CONSTANTS:
            return False
        return bool(np.ptp(recent) <= self.tolerance * np.abs(recent).mean())


@dataclass(frozen=True, kw_only=True)
class DeepSettings(Configurable):
    """The settings of every deep learner.

    Parameters
    ----------
    steps
        Gradient steps of the critics.
    batch
        Transitions per step and member.
    hidden
        Widths of the hidden layers, of critics and policy.
    learning_rate
        Adam's learning rate.
    target_rate
        Update rate of the target networks, ρ in θ̄ ← (1 − ρ)θ̄ + ρθ. Values converge after about
        three time constants of 1/(ρ(1 − γ)) steps. ``"auto"`` is the usual 0.005 if `steps` are at
        least five time constants with it, and otherwise the larger ρ that makes them five, up to 0.1.
    reward_scale
        Factor on rewards during training; ``"auto"`` makes the median absolute reward one. Values
        of critics are returned in the log's unit.
    standardise
        Whether to scale each state variable to mean 0 and standard deviation 1.
    zero_rewards
        Train with all rewards zero: a baseline that shows how much the rewards contribute.
    stop
        Early stopping; None to train to the last step.
    run
        Where and how training runs.
    """

    constraints: ClassVar = {
        **dict.fromkeys(("steps", "batch"), COUNT),
        **dict.fromkeys(("learning_rate", "reward_scale", "huber", "alpha"), POSITIVE),
        "target_rate": Within("(0, 1]"),
        "hidden": _Widths(),
    }
    delay: ClassVar[int] = 1  # steps between updates of the target networks

    steps: int = 200_000
    batch: int = 256
    hidden: tuple[int, ...] = (256, 256)
    learning_rate: float = 3e-4
    target_rate: TargetRate = "auto"
    reward_scale: RewardScale = "auto"
    standardise: bool = True
    zero_rewards: bool = False
    stop: EarlyStopping | None = None
    run: Run = field(default_factory=Run, metadata=NOT_SAVED)

    def rate(self, horizon: float) -> float:
        """Return ρ for values with this `horizon` = 1/(1 − γ) in steps."""
        if self.target_rate != "auto":
            return self.target_rate
        needed = _AIM * horizon * self.delay / self.steps
        return min(max(_PUBLISHED_RATE, needed), _FASTEST_RATE)


@dataclass(frozen=True, kw_only=True)
class Imitation:
    """How a policy imitates weighted rows of the log.

    Attributes
    ----------
    steps, hidden
        Gradient steps, and widths of the hidden layers.
    likelihood
        Whether continuous actions are fitted by the likelihood of a normal distribution with a learned
        standard deviation, instead of by squared error.
    squash
        Whether continuous actions are tanh of the network; otherwise its outputs, clipped when used.
    cosine
        Steps in which the learning rate falls to zero along a cosine; it rises again thereafter.
    """

    steps: int
    hidden: tuple[int, ...]
    cosine: int
    likelihood: bool = False
    squash: bool = True


def require_torch(device: str = "cpu") -> None:
    """Raise an error with the install command if torch is missing, or if it has no such device."""
    torch = require_module("torch", "'tailproof[deep]'", "Deep learning")
    try:
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise MethodError(
            f"device must be one that torch has here, such as cpu or cuda:1. Got {device!r}: {reason}."
        ) from error
