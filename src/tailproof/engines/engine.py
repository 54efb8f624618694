"""The engine interface: run tasks in any order, return results in the order of the items."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from pathlib import Path
from typing import Any, TypeVar

from tailproof.engines.checkpoint import Progress
from tailproof.errors import StorageError

T = TypeVar("T")


class Engine(ABC):
    """Runs tasks; results do not depend on the engine.

    Tasks run in any order on any worker, but their results are combined in the order of the items, so
    that sums round the same way everywhere. Combined results are kept in this process: when a worker
    dies, only its current tasks are lost, and they run again.

    Parameters
    ----------
    retries
        How often a task is retried after its worker died or an I/O error occurred.
    checkpoint
        A folder for checkpoints, to resume a run after this process has ended.
    """

    retries: int
    checkpoint: str | Path | None

    @abstractmethod
    def results(
        self, function: Callable[..., T], items: Sequence[Any], *, shared: Any = None
    ) -> Iterator[T]:
        """Yield ``function(item)``, or ``function(shared, item)``, for each item in order."""

    def map(
        self, function: Callable[..., T], items: Sequence[Any], *, shared: Any = None
    ) -> list[T]:
        """Return ``function(item)``, or ``function(shared, item)``, for each item in order."""
        return list(self.results(function, items, shared=shared))

    def map_reduce(
        self,
        function: Callable[..., T],
        items: Sequence[Any],
        combine: Callable[[T, T], T],
        *,
        shared: Any = None,
    ) -> T:
        """Return the results of all items, combined from the first to the last.

        With a checkpoint folder, results must be arrays, or dataclasses of arrays.

        Examples
        --------
        >>> import operator
        >>> from tailproof.engines import Local
        >>> Local().map_reduce(len, ["one", "three"], operator.add)
        8
        """
        if self.checkpoint is None:
            return reduce(combine, self.results(function, items, shared=shared))
        progress = Progress.open(Path(self.checkpoint), function, shared, items)
        rest = self.results(function, items[progress.done :], shared=shared)
        return progress.combined(rest, combine)

    def close(self) -> None:  # noqa: B027 most engines have nothing to close
        """Stop the workers; a later call starts new ones."""

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        from tailproof.engines.local import Local

        return Local, ()  # in a worker, nested tasks run in the worker's own thread


def attempt(function: Callable[..., T], item: Any, shared: Any, retries: int) -> T:
    """Run a task; retry after a pause on transient I/O errors."""
    for failures in range(retries + 1):
        try:
            return function(item) if shared is None else function(shared, item)
        except (OSError, StorageError):
            if failures == retries:
                raise
            time.sleep(0.1 * 4**failures)
    raise AssertionError("unreachable")
