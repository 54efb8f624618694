"""The one training loop, for every learner and all of its members."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Protocol

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeRemainingColumn
from rich.text import Text
from torch import Tensor

from tailproof.arrays import FloatArray
from tailproof.deep import checkpoint
from tailproof.deep.history import History, Measurements
from tailproof.deep.settings import EarlyStopping, Run
from tailproof.errors import FoldError

_MOST_THREADS = 4
_EXPLODED = 10.0  # times the largest |Q| that the rewards allow


class Learner(Protocol):
    """K members that learn together, one gradient step at a time."""

    members: int
    alive: Tensor  # (K,) which members have not diverged

    def update(self, step: int) -> None:
        """Take one gradient step."""

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's losses by member, (K,)."""

    def probe(self, rows: Tensor) -> Tensor:
        """Return every member's Q at these rows of the table, (K, m)."""

    def health(self) -> Tensor:
        """Return which members' numbers are all finite, (K,)."""

    def tensors(self) -> dict[str, Tensor]:
        """Return everything that training changes, by name; written to when a run is resumed."""


def train(
    learner: Learner,
    steps: int,
    *,
    phase: str,
    run: Run,
    fingerprint: str,
    limits: FloatArray | None = None,
    rows: Tensor | None = None,
    evaluate: Callable[[], Measurements] | None = None,
    also: Callable[[int], Measurements] | None = None,
    stop: EarlyStopping | None = None,
) -> History:
    """Train to `steps`, from the last checkpoint if there is one, and return what was measured.

    Parameters
    ----------
    phase
        ``"critics"`` or ``"policy"``: names the folder of checkpoints and the loggers' files.
    fingerprint
        Of data, settings and seeds: a checkpoint with another one is refused.
    limits
        How large each member's |Q| can be, (K,); ten times more counts as diverged.
    rows
        Rows of the table at which Q is watched, (m,).
    evaluate
        Plays the policy, every ``run.evaluation.every`` steps and at the end.
    also
        Measures more after so many steps, with every row of the history.
    stop
        When to end before `steps`.
    """
    folder = None if run.checkpoint is None else Path(run.checkpoint) / phase
    history, start = History(), 0
    with _prepared(run), ExitStack() as closing:
        if limits is not None:
            learner.alive &= torch.from_numpy(limits > 0)
        if folder is not None:
            history, start = _resume(learner, folder, fingerprint)
        if stop is not None and stop.reached(history):
            start = steps  # it had stopped before
        for logger in run.loggers:
            logger.start(phase, history)
            closing.callback(logger.close)
        advance = closing.enter_context(_progress(run, phase, start, steps))
        for step in range(start, steps):
            learner.update(step)
            done = step + 1
            measured: dict[str, FloatArray] = {}
            if done % run.log_every == 0 or done == steps:
                measured |= _measure(learner, limits, rows, done)
                measured |= {} if also is None else also(done)
            if evaluate is not None and _evaluates(run, done, steps):
                measured |= evaluate()
            if measured:
                history = history.with_row(done, measured)
                for logger in run.loggers:
                    logger.write(done, measured)
            settled = bool(measured) and stop is not None and stop.reached(history)
            saves = done % run.checkpoint_every == 0 or done == steps or settled
            if folder is not None and saves:
                checkpoint.save(folder, done, _state(learner, history), fingerprint=fingerprint)
            advance(done)
            if settled:
                break
    return history


def _evaluates(run: Run, done: int, steps: int) -> bool:
    chosen = run.evaluation
    if chosen is None or done < chosen.first:
        return False
    return done % chosen.every == 0 or done == steps


def _measure(
    learner: Learner, limits: FloatArray | None, rows: Tensor | None, step: int
) -> dict[str, FloatArray]:
    """Measure losses, the scale of Q and disagreement, and find members that diverged."""
    measured = {name: values.cpu().numpy() for name, values in learner.metrics().items()}
    alive = learner.alive & learner.health()
    if rows is not None:
        values = learner.probe(rows).cpu()  # (K, m)
        scale = values.abs().mean(1)
        measured["q scale"] = scale.numpy()
        if limits is not None:
            alive &= scale <= _EXPLODED * torch.from_numpy(limits)
        if int(alive.sum()) > 1:
            measured["disagreement"] = values[alive].std(0, correction=0).mean().view(1).numpy()
    learner.alive.copy_(alive)
    dead = np.flatnonzero(~alive.numpy())
    if len(dead) and 2 * len(dead) >= learner.members:
        raise FoldError(
            f"{len(dead)} of {learner.members} members diverged by step {step} (members "
            f"{', '.join(map(str, dead))}): their values are not finite or beyond "
            f"{_EXPLODED:g} times what their rewards allow. Too few are left to trust; use a smaller "
            f"learning_rate, a smaller gamma, a larger alpha (SQL), clipped rewards, or fewer folds."
        )
    return measured


def _state(learner: Learner, history: History) -> dict[str, Tensor]:
    arrays = {f"history/{name}": torch.as_tensor(a) for name, a in history.arrays().items()}
    return {**learner.tensors(), **arrays}


def _resume(learner: Learner, folder: Path, fingerprint: str) -> tuple[History, int]:
    found = checkpoint.latest(folder, fingerprint=fingerprint)
    if found is None:
        return History(), 0
    for name, tensor in learner.tensors().items():
        tensor.copy_(found.tensors[name])
    prefix = "history/"
    kept = {
        name.removeprefix(prefix): tensor.numpy()
        for name, tensor in found.tensors.items()
        if name.startswith(prefix)
    }
    return History.from_arrays(kept), found.step


@contextmanager
def _prepared(run: Run) -> Iterator[None]:
    """Set threads and flush denormals, without autograd; put everything back afterwards."""
    threads = torch.get_num_threads()
    flushed = bool((torch.full((1,), 1e-40) * 1.0 == 0).item())
    torch.set_num_threads(run.threads or min(threads, _MOST_THREADS))
    torch.set_flush_denormal(True)  # dying weights would otherwise slow every product down
    try:
        with torch.no_grad():
            yield
    finally:
        torch.set_num_threads(threads)
        torch.set_flush_denormal(flushed)


class _Rate(ProgressColumn):
    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:.0f} steps/s")


@contextmanager
def _progress(run: Run, phase: str, start: int, steps: int) -> Iterator[Callable[[int], None]]:
    shown = sys.stderr.isatty() if run.progress is None else run.progress
    if not shown:
        yield lambda done: None  # noqa: ARG005
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed}/{task.total}"),
        _Rate(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task(phase, total=steps, completed=start)

        def advance(done: int) -> None:
            if done % 20 == 0 or done == steps:
                bar.update(task, completed=done)

        yield advance
