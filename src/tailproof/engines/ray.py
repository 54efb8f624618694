"""The engine for a Ray cluster, whose nodes may come and go."""

from __future__ import annotations

import logging
import math
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar
from uuid import uuid4

from tailproof.engines.engine import Engine, attempt
from tailproof.engines.packing import in_parts
from tailproof.engines.threads import one_thread
from tailproof.errors import EngineError

T = TypeVar("T")
_LOOK = 1.0  # seconds between two counts of the cluster's cores
_LONG = 1.0  # seconds per task of several items, much longer than Ray's start-up time
_LARGE = 1 << 25  # bytes of results per task, which wait in memory for earlier results
_MOST = 32  # largest number of items per task
_PATIENCE = 5.0  # seconds to wait until cancelled tasks end


@dataclass(eq=False)
class Ray(Engine):
    """Runs tasks on a Ray cluster, one core per task.

    Nodes may come and go during a run. When a node is lost, only the tasks whose results had not
    arrived are repeated elsewhere. Items that take much less than a second are sent in batches; their
    results are still combined one by one.

    Parameters
    ----------
    address
        ``"auto"`` or ``host:port`` of a cluster; by default the one that this process is connected
        to, or else a cluster of its own on this machine, which `close` ends.
    retries
        How often a task is retried after its worker or node died, or an I/O error occurred.
    memory
        Bytes to reserve per task, so that the tasks of a node fit into its memory.
    checkpoint
        See `Engine`.
    """

    address: str | None = None
    retries: int = 3
    memory: int | None = None
    checkpoint: str | Path | None = None
    _connected: bool = field(default=False, init=False, repr=False)
    _shared: Any = field(default=None, init=False, repr=False)
    _reference: Any = field(default=None, init=False, repr=False)
    _key: str = field(default="", init=False, repr=False)

    def results(
        self, function: Callable[..., T], items: Sequence[Any], *, shared: Any = None
    ) -> Iterator[T]:
        """Yield ``function(item)``, or ``function(shared, item)``, for each item in order."""
        ray = self._connect()
        if self._reference is None or shared is not self._shared:
            self._shared, self._reference, self._key = shared, ray.put(shared), uuid4().hex
        options = {"num_cpus": 1, "memory": self.memory, "max_retries": self.retries}
        task = ray.remote(scheduling_strategy="SPREAD", **options)(_run)
        called = ray.put(function)

        def started(batch: list[Any]) -> tuple[list[Any], Any]:
            return batch, task.remote(called, batch, self._reference, self._key, self.retries)

        ahead: deque[tuple[list[Any], Any]] = deque()
        waiting = deque(items)
        try:
            cores, looked, size = 1, -math.inf, 1
            while waiting or ahead:
                if time.monotonic() - looked > _LOOK:  # nodes come and go
                    cores = max(1, int(ray.cluster_resources().get("CPU", 1)))
                    looked = time.monotonic()
                while waiting and len(ahead) < 2 * cores:
                    # Batches become small towards the end, so that no core is idle for long.
                    count = min(size, math.ceil(len(waiting) / cores))
                    ahead.append(started([waiting.popleft() for _ in range(count)]))
                batch, reference = ahead.popleft()
                done, spent = _fetched(ray, reference)
                size = max(1, min(_MOST, int(len(done) / spent)))
                rest = [started([item]) for item in batch[len(done) :]]
                ahead.extendleft(reversed(rest))
                yield from done
        finally:
            _cancel(ray, [reference for _, reference in ahead])

    def close(self) -> None:
        """Disconnect from the cluster; a cluster that was started here is stopped."""
        self._shared = self._reference = None
        if self._connected:
            import ray

            ray.shutdown()
            self._connected = False

    def _connect(self) -> Any:
        try:
            import ray
        except ImportError as error:
            raise EngineError(
                "engine='ray' needs Ray. Install it with: pip install 'tailproof[ray]'"
            ) from error
        if not ray.is_initialized():
            try:
                ray.init(
                    address=self.address,
                    log_to_driver=False,
                    include_dashboard=False,
                    logging_level=logging.ERROR,
                )
            except (ConnectionError, RuntimeError, ValueError) as error:
                raise EngineError(
                    f"No Ray cluster answers at {self.address!r}: {error}. Start one with "
                    f"'ray start --head', or leave out the address for one of its own."
                ) from error
            self._connected = True
        return ray


#: In a worker: the shared value of its last task, by key, so that its cached results are reused.
_known: dict[str, Any] = {}


def _run(
    function: Callable[..., T], batch: list[Any], shared: Any, key: str, retries: int
) -> tuple[list[T], float]:
    """Return the results of the first items, and the share of the time or size limit that they used.

    At least one item is run, then more until one fails or a limit is reached.
    """
    if key not in _known:
        _known.clear()
        _known[key] = shared
    done: list[T] = []
    began, filled, spent = time.monotonic(), 0, 0.0
    with one_thread():
        for item in batch:
            try:
                done.append(attempt(function, item, _known[key], retries))
            except Exception:
                if not done:
                    raise
                break  # it runs again as its own task, after the results before it were returned
            content, arrays = in_parts(done[-1])
            filled += len(content) + sum(array.nbytes for array in arrays)
            spent = max((time.monotonic() - began) / _LONG, filled / _LARGE)
            if spent >= 1:
                break
    return done, spent


def _cancel(ray: Any, references: list[Any]) -> None:
    """Cancel tasks, repeatedly, as Ray ignores a cancellation while a task starts.

    The last first: if a running one ends, none that waits takes its place.
    """
    until = time.monotonic() + _PATIENCE
    while references and time.monotonic() < until:
        for reference in reversed(references):
            ray.cancel(reference, force=True)
        references = ray.wait(references, num_returns=len(references), timeout=0.2)[1]


def _fetched(ray: Any, reference: Any) -> Any:
    try:
        return ray.get(reference)
    except ray.exceptions.RayTaskError as error:
        if isinstance(error.cause, ray.exceptions.RayError):
            reason = str(error.cause).strip().splitlines()
            raise EngineError(
                f"A task could not be read by its worker: {reason[-1]}. Every node needs tailproof, "
                f"the same versions, and the modules that policies and features come from; what is "
                f"defined in a script or a notebook is sent along."
            ) from None
        raise error.cause from None
    except ray.exceptions.RayError as error:
        raise EngineError(
            f"A task was lost with its workers more often than it is retried: {error}. It may need "
            f"more memory than a node has: reserve it with Ray(memory=...), or raise retries."
        ) from error
