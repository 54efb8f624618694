"""The engine for one machine: the calling thread, several threads, or several processes."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from tailproof.engines.engine import Engine, attempt
from tailproof.engines.processes import Pool
from tailproof.errors import EngineError

T = TypeVar("T")
Kind = Literal["threads", "processes"]


@dataclass(eq=False)
class Local(Engine):
    """Runs tasks on this machine.

    Parameters
    ----------
    workers
        How many tasks run at a time; 0 for one per core.
    kind
        ``"threads"`` share the memory of a loaded log. ``"processes"`` are not limited by Python's
        global lock, so they are faster with policies and features written in Python; each receives
        a copy of the log, which is small for a lazy log.
    retries, checkpoint
        See `Engine`.

    Examples
    --------
    >>> Local(workers=2).map(str.upper, ["a", "b", "c"])
    ['A', 'B', 'C']
    """

    workers: int = 1
    kind: Kind = "threads"
    retries: int = 2
    checkpoint: str | Path | None = None
    _pool: Pool | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.kind not in ("threads", "processes"):
            raise EngineError(f"kind must be 'threads' or 'processes'. Got {self.kind!r} instead.")
        if not isinstance(self.workers, int) or self.workers < 0:
            raise EngineError(
                f"workers must be a whole number of at least 0. Got {self.workers!r} instead."
            )
        self.workers = self.workers or os.cpu_count() or 1

    def results(
        self, function: Callable[..., T], items: Sequence[Any], *, shared: Any = None
    ) -> Iterator[T]:
        """Yield ``function(item)``, or ``function(shared, item)``, for each item in order."""
        if self.kind == "processes":
            self._pool = self._pool or Pool()
            serving = self._pool.serving(function, items, shared, self.retries)
            return self._in_order(serving, len(items), 2 * self.workers)
        if self.workers == 1 or len(items) == 1:
            return (attempt(function, item, shared, self.retries) for item in items)
        run = nullcontext(lambda place: attempt(function, items[place], shared, self.retries))
        return self._in_order(run, len(items), self.workers)

    def close(self) -> None:
        """Stop the workers; a later call starts new ones."""
        if self._pool is not None:
            self._pool.close()
            self._pool = None

    def _in_order(
        self, serving: AbstractContextManager[Callable[[int], T]], count: int, most: int
    ) -> Iterator[T]:
        """Yield the results of items 0 to `count` − 1 in order, with at most `most` tasks ahead."""
        ahead: deque[Future[T]] = deque()
        executor = ThreadPoolExecutor(self.workers)
        try:
            with serving as run:
                for place in range(count):
                    ahead.append(executor.submit(run, place))
                    if len(ahead) > most:  # limits the results in memory
                        yield ahead.popleft().result()
                while ahead:
                    yield ahead.popleft().result()
        finally:
            executor.shutdown(wait=True, cancel_futures=True)
