"""The training loop of all learners."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import wraps
from pathlib import Path
from types import MappingProxyType
from typing import ParamSpec, TypeVar

import numpy as np
import torch
from torch import Tensor
from torch._dynamo.exc import TorchDynamoException

from tailproof.arrays import FloatArray
from tailproof.deep import checkpoint
from tailproof.deep.critics import NeuralPolicy
from tailproof.deep.history import History, Measurements
from tailproof.deep.settings import EarlyStopping, Run
from tailproof.errors import FoldError, MethodError
from tailproof.progress import estimate_time, progress_bar
from tailproof.worlds.environments import play

_MOST_THREADS = 4
_BLOCK = 31 * 2**18  # float32 numbers in 31 MB; glibc adapts to blocks of at most 32 MB
_SHOWN = 20  # steps between updates of the progress bar
_TIMED = 50  # steps that tell how long the others will take; the first ten start slowly
_EXPLODED = 10.0  # factor on the largest possible |Q| beyond which a member has diverged

P = ParamSpec("P")
R = TypeVar("R")


def compiled(function: Callable[P, R], run: Run) -> Callable[P, R]:
    """Return the function, compiled by torch at its first call if `run` asks for it."""
    if not run.compile:
        return function

    def refuse(error: Exception) -> MethodError:
        return MethodError(
            f"compile=True needs a compiler that torch can use; on the cpu that is g++ or clang++, "
            f"which the variable CXX may name. Install one, or leave compile=False. "
            f"{type(error).__name__}: {str(error).strip().splitlines()[0]}"
        )

    try:
        fast = torch.compile(function, dynamic=False)
    except RuntimeError as error:  # this version of Python is not supported
        raise refuse(error) from error

    @wraps(function)
    def call(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return fast(*args, **kwargs)
        except TorchDynamoException as error:
            raise refuse(error) from error

    return call


class Learner(ABC):
    """K members that train together, one gradient step at a time.

    Attributes
    ----------
    alive
        Which members have not diverged, (K,).
    limits
        Largest possible |Q| of each member, (K,); a member beyond ten times this has diverged.
    metrics
        The last step's losses by member, (K,) or (1,) each.
    """

    members: int
    alive: Tensor
    limits: FloatArray | None = None
    metrics: Mapping[str, Tensor] = MappingProxyType({})

    @abstractmethod
    def update(self, step: int) -> None:
        """Take one gradient step, and set `metrics`."""

    def mark(self, alive: Tensor) -> None:
        """Record which members have not diverged, (K,)."""
        self.alive.copy_(alive)

    @abstractmethod
    def health(self) -> Tensor:
        """Return which members' parameters are all finite, (K,)."""

    @abstractmethod
    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name; overwritten when a run is resumed."""

    def probe(self) -> Tensor | None:
        """Return every member's Q at the monitored rows, (K, m); None without a Q."""
        return None

    def measure(self, steps: int) -> Measurements:  # noqa: ARG002
        """Return additional quantities for the history after this many steps."""
        return {}

    def policies(self) -> Sequence[NeuralPolicy]:
        """Return the current policies, for evaluation during training."""
        return ()


def train(
    learner: Learner,
    steps: int,
    *,
    phase: str,
    run: Run,
    fingerprint: str,
    stop: EarlyStopping | None = None,
) -> History:
    """Train to `steps`, from the last checkpoint if there is one, and return the history.

    Parameters
    ----------
    phase
        ``"critics"`` or ``"policy"``: the name of the checkpoint folder and of the loggers' files.
    fingerprint
        Digest of data, settings and seeds: checkpoints with another one are rejected.
    stop
        Early stopping, if any.
    """
    folder = None if run.checkpoint is None else Path(run.checkpoint) / phase
    history, start = History(), 0
    with prepared(run), ExitStack() as closing:
        if learner.limits is not None:
            learner.mark(learner.alive & torch.from_numpy(learner.limits > 0))
        if folder is not None:
            history, start = _resume(learner, folder, fingerprint)
        if stop is not None and stop.reached(history):
            start = steps  # the resumed run had already stopped early
        for logger in run.loggers:
            logger.start(phase, history)
            closing.callback(logger.close)
        bar = progress_bar(phase, steps, shown=run.progress, done=start)
        advance = closing.enter_context(bar)
        began = time.monotonic()
        for step in range(start, steps):
            learner.update(step)
            done = step + 1
            if step == start + _TIMED // 5:
                began = time.monotonic()
            elif step == start + _TIMED and run.progress is not False:
                each = (time.monotonic() - began) / (_TIMED - _TIMED // 5)
                estimate_time(f"Training of {phase}", steps - done, each)
            measured: dict[str, FloatArray] = {}
            if done % run.log_every == 0 or done == steps:
                with torch.no_grad():
                    measured |= {**_measured(learner, done), **learner.measure(done)}
            measured |= _played(learner, run, done, steps)
            if measured:
                history = history.with_row(done, measured)
                for logger in run.loggers:
                    logger.write(done, measured)
            settled = bool(measured) and stop is not None and stop.reached(history)
            saves = done % run.checkpoint_every == 0 or done == steps or settled
            if folder is not None and saves:
                checkpoint.save(folder, done, learner.tensors(), history, fingerprint=fingerprint)
            if done % _SHOWN == 0 or done == steps:
                advance(done - max(start, (done - 1) // _SHOWN * _SHOWN))
            if settled:
                break
    return history


def _measured(learner: Learner, step: int) -> dict[str, FloatArray]:
    """Measure losses, the scale of Q and the members' disagreement, and mark diverged members."""
    measured = {name: values.cpu().numpy() for name, values in learner.metrics.items()}
    alive = learner.alive & learner.health()
    q = learner.probe()
    if q is not None:
        values = q.cpu()  # (K, m)
        scale = values.abs().mean(1)
        measured["q scale"] = scale.numpy()
        if learner.limits is not None:
            alive &= scale <= _EXPLODED * torch.from_numpy(learner.limits)
        if int(alive.sum()) > 1:
            measured["disagreement"] = values[alive].std(0, correction=0).mean().view(1).numpy()
    learner.mark(alive)
    dead = np.flatnonzero(~alive.numpy())
    if len(dead) and 2 * len(dead) >= learner.members:
        raise FoldError(
            f"{len(dead)} of {learner.members} members diverged by step {step} (members "
            f"{', '.join(map(str, dead))}): their values are not finite or beyond "
            f"{_EXPLODED:g} times what their rewards allow. Too few are left to trust; use a smaller "
            f"learning_rate, a smaller gamma, a larger alpha (SQL), clipped rewards, or fewer folds."
        )
    return measured


def _played(learner: Learner, run: Run, done: int, steps: int) -> Measurements:
    """Return the mean returns and scores of the policies, if an evaluation is due."""
    chosen = run.evaluation
    if chosen is None or done < chosen.first or (done % chosen.every and done != steps):
        return {}
    returns = [
        play(chosen.environment, policy, episodes=chosen.episodes, seed=chosen.seed).mean()
        for policy in learner.policies()
    ]
    measured = {"return": np.array(returns)} if returns else {}
    if returns and chosen.score is not None:
        measured["score"] = np.array([chosen.score(float(mean)) for mean in returns])
    return measured


def _resume(learner: Learner, folder: Path, fingerprint: str) -> tuple[History, int]:
    newest = checkpoint.latest(folder, fingerprint=fingerprint)
    if newest is None:
        return History(), 0
    step, saved, history = newest
    for name, tensor in learner.tensors().items():
        tensor.copy_(saved[name])
    learner.mark(learner.alive)
    return history, step


@contextmanager
def prepared(run: Run) -> Iterator[None]:
    """Set what makes training fast: threads, denormals, memory; restore threads and denormals."""
    threads = torch.get_num_threads()
    flushed = bool((torch.full((1,), 1e-40) * 1.0 == 0).item())
    torch.set_num_threads(run.threads or min(threads, _MOST_THREADS))
    torch.set_flush_denormal(True)  # denormal weights slow down every product
    # Once a block of this size was freed, glibc keeps that much memory instead of returning it to the
    # system after every step, which would cost an eighth of the time.
    torch.empty(_BLOCK)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)
