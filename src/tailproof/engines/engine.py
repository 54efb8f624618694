"""What an engine is: it runs tasks in any order and returns their results in order."""

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
    """A place for tasks. What comes out never depends on which engine ran them.

    Tasks run in any order and on any worker, but their results are combined in the order of the
    items: with the same items, sums round the same way everywhere. What has been combined is in this
    process, so that a worker that dies loses only the tasks it was at; these are done again.

    Parameters
    ----------
    retries
        How often a task is tried again after its worker died or its storage failed.
    checkpoint
        A folder for what has been combined so far, if a run is to survive this process too.
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

        return Local, ()  # whatever a task asks for within itself runs where the task runs


def attempt(function: Callable[..., T], item: Any, shared: Any, retries: int) -> T:
    """Call a task, and again after a pause if its storage failed, which may pass."""
    for failures in range(retries + 1):
        try:
            return function(item) if shared is None else function(shared, item)
        except (OSError, StorageError):
            if failures == retries:
                raise
            time.sleep(0.1 * 4**failures)
    raise AssertionError("unreachable")
