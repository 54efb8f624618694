"""Stages of a computation and their times, by the logger ``tailproof``; and progress bars."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from functools import wraps
from typing import ParamSpec, TypeVar

from tailproof.parallel import one_thread

P = ParamSpec("P")
R = TypeVar("R")
LOGGER = logging.getLogger("tailproof")
ESTIMATES = LOGGER.getChild("estimates")  # how long something that began will take
_RUNNING: ContextVar[str] = ContextVar("running", default="")  # the verb of the innermost stage
_LONG = 10.0  # seconds beyond which that is said


@contextmanager
def stage(text: str) -> Iterator[None]:
    """Log the beginning and the end of a stage, with its time, at level INFO.

    ``logging.basicConfig(level=logging.INFO)`` shows them. A stage of the same verb within one, as
    `compare` within the command that says how many policies it compares, is not logged again.
    """
    verb = text.partition(" ")[0]
    if _RUNNING.get() == verb:
        yield
        return
    start, outer = time.perf_counter(), _RUNNING.set(verb)
    LOGGER.info("%s ...", text)
    try:
        yield
    finally:
        _RUNNING.reset(outer)
    LOGGER.info("%s: done after %.1f s", text, time.perf_counter() - start)


def staged(text: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes a function a `stage`, in which matrix products use one thread.

    On busy cores, threads that wait for each other cost many times what they save.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with stage(text), one_thread():
                return function(*args, **kwargs)

        return run

    return decorate


def estimate_time(text: str, steps: int, per_step: float) -> None:
    """Log how long some more steps will take, if it is long, at level INFO.

    The logger is ``tailproof.estimates``; commands show it on standard error.
    """
    seconds = steps * per_step
    if seconds < _LONG:
        return
    minutes = round(seconds / 60)
    long = f"{seconds:.0f} seconds" if seconds < 90 else f"{minutes:,} minutes"
    ESTIMATES.info("%s: %s more steps take about %s.", text, f"{steps:,}", long)


@contextmanager
def progress_bar(
    text: str, total: int, *, shown: bool | None, done: int = 0, after: float = 0.0
) -> Iterator[Callable[[int], None]]:
    """Show a progress bar on standard error; yield the function that advances it by some steps.

    Unless it is asked for, it appears only on a terminal, `after` so many seconds.
    """
    if shown is False:
        yield lambda amount: None  # noqa: ARG005
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, ProgressColumn, Task, TimeRemainingColumn
    from rich.text import Text

    class Rate(ProgressColumn):
        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:.0f} steps/s")

    console, started = Console(stderr=True), time.monotonic()
    count = "{task.completed}/{task.total}"
    columns = ("{task.description}", BarColumn(), count, Rate(), TimeRemainingColumn())
    bar = Progress(*columns, console=console, transient=console.is_terminal and after > 0)
    task = bar.add_task(text, total=total, completed=done)
    with ExitStack() as opened:

        def advance(amount: int) -> None:
            late = console.is_terminal and time.monotonic() - started >= after
            if (shown or late) and not bar.live.is_started:
                opened.enter_context(bar)
            bar.update(task, advance=amount)

        yield advance
