"""One ordered map-reduce: in this process, on threads or processes (joblib), or on a Ray cluster."""

from __future__ import annotations

import logging
import os
import threading
import time
import warnings
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from functools import lru_cache, reduce
from numbers import Integral
from pathlib import Path
from typing import Any, Literal, TypeVar
from uuid import uuid4

import numpy as np
from threadpoolctl import ThreadpoolController

from tailproof.checkpoint import Progress
from tailproof.errors import EngineError, EngineWarning, StorageError, require_module
from tailproof.parameters import OneOf, Within, require

T = TypeVar("T")
Kind = Literal["threads", "processes"]
_CANCEL_WITHIN = 5.0  # seconds to wait until cancelled Ray tasks end


@lru_cache
def _controller(trees: bool) -> ThreadpoolController:
    if trees:
        import sklearn.ensemble  # noqa: F401  (the controller finds only loaded libraries)
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which numpy's matrix products use one thread."""
    context: AbstractContextManager[Any] = _controller(False).limit(limits=1, user_api="blas")
    return context


def one_tree_thread() -> AbstractContextManager[Any]:
    """Return a context in which scikit-learn's trees use one thread.

    On busy cores, the threads of small trees wait for each other a hundred times longer than they work.
    """
    context: AbstractContextManager[Any] = _controller(True).limit(limits=1, user_api="openmp")
    return context


_threads = ContextVar("threads", default=1)  # 1 in a worker, so that threads start no threads


def on_threads(function: Callable[[Any], T], items: Sequence[Any]) -> list[T]:
    """Return ``function(item)`` for each item in order, on the threads of the engine in use.

    For compiled functions that hold no lock of Python's, such as growing a tree.
    """
    count = min(_threads.get(), len(items))
    if count < 2:
        return [function(item) for item in items]
    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(function, items))


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
    _sent: Shared | None = None  # the last shared value: passes over one log send it once

    @abstractmethod
    def results(
        self, function: Callable[..., T], items: Sequence[object], *, shared: object = None
    ) -> Iterator[T]:
        """Yield ``function(item)``, or ``function(shared, item)``, for each item in order."""

    def map(
        self, function: Callable[..., T], items: Sequence[object], *, shared: object = None
    ) -> list[T]:
        """Return ``function(item)``, or ``function(shared, item)``, for each item in order."""
        return list(self.results(function, items, shared=shared))

    def map_reduce(
        self,
        function: Callable[..., T],
        items: Sequence[object],
        combine: Callable[[T, T], T],
        *,
        shared: object = None,
    ) -> T:
        """Return the results of all items, combined from the first to the last.

        With a checkpoint folder, results must be arrays, or dataclasses of arrays.

        Examples
        --------
        >>> import operator
        >>> from tailproof.parallel import Local
        >>> Local().map_reduce(len, ["one", "three"], operator.add)
        8
        """
        if self.checkpoint is None:
            return reduce(combine, self.results(function, items, shared=shared))
        progress = Progress.open(Path(self.checkpoint), function, shared, items)
        rest = self.results(function, items[progress.done :], shared=shared)
        return progress.combined(rest, combine)

    def close(self) -> None:  # noqa: B027 not every engine has something to close
        """Stop the workers; a later call starts new ones."""

    def _shared(self, value: Any) -> Shared:
        if self._sent is None or self._sent.value is not value:
            self._sent = Shared(value)
        return self._sent

    def __enter__(self) -> Engine:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __reduce__(self) -> Any:
        return Local, ()  # in a worker, nested tasks run in the worker's own thread


class Shared:
    """A value that all tasks receive; a worker keeps the last one, and whatever was cached in it."""

    def __init__(self, value: object) -> None:
        self.value, self.key, self.sender = value, uuid4().hex, os.getpid()
        self.arrived = False

    def __reduce__(self) -> Any:
        return _receive, (self.key, self.sender, self.value)


_received: dict[str, Shared] = {}  # in a worker: the last shared value, by key


def _receive(key: str, sender: int, value: Any) -> Shared:
    if not _received and os.getppid() == sender:
        threading.Thread(target=_end_with, args=[sender], daemon=True).start()
    if key not in _received:
        _received.clear()
        _received[key] = shared = Shared(value)
        shared.key, shared.sender, shared.arrived = key, sender, True
    return _received[key]


def _end_with(parent: int) -> None:
    """End this worker soon after the process that started it, even if that one was killed."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os._exit(1)


def _run(function: Callable[..., T], item: Any, shared: Shared, retries: int) -> T:
    """Run a task; retry after a pause on transient I/O errors."""
    given = (item,) if shared.value is None else (shared.value, item)
    with one_thread() if shared.arrived else nullcontext():
        for pause in 0.1 * 4.0 ** np.arange(retries):
            try:
                return function(*given)
            except (OSError, StorageError):
                time.sleep(pause)
        return function(*given)


@dataclass(eq=False)
class Local(Engine):
    """Runs tasks on this machine, by joblib.

    Inside ``with joblib.parallel_config(backend=...)`` they run on that backend: Dask, Spark, Ray.

    Parameters
    ----------
    workers
        How many tasks run at a time; 0 for one per core. One is the calling thread, unless joblib's
        configuration says otherwise.
    kind
        ``"threads"`` share the memory of the log. ``"processes"`` are not limited by Python's global
        lock, so they are faster with policies and features written in Python; large arrays of the log
        are mapped, not copied.
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

    def __post_init__(self) -> None:
        require(OneOf("threads", "processes"), EngineError, kind=self.kind)
        require(Within("[0, inf)", whole=True), EngineError, workers=self.workers)
        self.workers = self.workers or os.cpu_count() or 1

    def results(
        self, function: Callable[..., T], items: Sequence[object], *, shared: object = None
    ) -> Iterator[T]:
        """Yield ``function(item)``, or ``function(shared, item)``, for each item in order."""
        from joblib.externals.loky.process_executor import TerminatedWorkerError

        done = failures = 0
        while done < len(items):
            try:
                for result in self._results(function, items[done:], self._shared(shared)):
                    yield result
                    done, failures = done + 1, 0
            except TerminatedWorkerError as error:
                failures += 1
                if failures > self.retries:
                    raise EngineError(
                        f"A worker process died {failures} times at task {done + 1} of {len(items)} "
                        f"or one soon after ({_exit_codes(error)}). It may need more memory than "
                        f"there is: use fewer workers."
                    ) from error

    def _results(
        self, function: Callable[..., T], items: Sequence[Any], shared: Shared
    ) -> Iterator[T]:
        from joblib import Parallel, delayed
        from joblib.parallel import get_active_backend

        backend, configured = get_active_backend(prefer=self.kind)
        streams = "generator" if backend.supports_return_generator else "list"
        jobs = None if self.workers == 1 else self.workers
        alone = (configured or backend.default_n_jobs) == 1
        if jobs is None and (alone or streams == "list"):  # each result counts at once
            for item in items:
                yield _run(function, item, shared, self.retries)
            return
        found = Parallel(jobs, prefer=self.kind, return_as=streams)(
            delayed(_run)(function, item, shared, self.retries) for item in items
        )
        if isinstance(found, list):
            yield from found
            return
        with closing(found), warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*tasks .* by the workers", module="joblib")
            yield from found

    def close(self) -> None:
        """Stop the worker processes; a later call starts new ones."""
        self._sent = None
        if self.kind == "processes":
            from joblib.externals.loky import get_reusable_executor

            get_reusable_executor(reuse=True).shutdown(wait=True, kill_workers=True)


def _exit_codes(error: Exception) -> str:
    said = [line for line in str(error).splitlines() if "exit code" in line]
    return said[0].strip() if said else type(error).__name__


@dataclass(eq=False)
class Ray(Engine):
    """Runs tasks on a Ray cluster, one core per task.

    Nodes may come and go during a run. When a node is lost, only the tasks whose results had not
    arrived are repeated elsewhere.

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
    _reference: tuple[Shared, Any] | None = field(default=None, init=False, repr=False)

    def results(
        self, function: Callable[..., T], items: Sequence[object], *, shared: object = None
    ) -> Iterator[T]:
        """Yield ``function(item)``, or ``function(shared, item)``, for each item in order."""
        ray = self._connect()
        sent = self._shared(shared)
        if self._reference is None or self._reference[0] is not sent:
            self._reference = sent, ray.put(sent)
        options = {"num_cpus": 1, "memory": self.memory, "max_retries": self.retries}
        task = ray.remote(scheduling_strategy="SPREAD", **options)(_run)
        called, given = ray.put(function), self._reference[1]
        ahead: deque[Any] = deque()
        try:
            for item in items:
                while len(ahead) >= 2 * max(1, int(ray.cluster_resources().get("CPU", 1))):
                    yield _fetched(ray, ahead.popleft())
                ahead.append(task.remote(called, item, given, self.retries))
            while ahead:
                yield _fetched(ray, ahead.popleft())
        finally:
            _cancel(ray, list(ahead))

    def close(self) -> None:
        """Disconnect from the cluster; a cluster that was started here is stopped."""
        self._sent = self._reference = None
        if self._connected:
            import ray

            ray.shutdown()
            self._connected = False

    def _connect(self) -> Any:
        ray = require_module("ray", "'tailproof[ray]'", "engine='ray'", EngineError)
        if not ray.is_initialized():
            began = time.monotonic()
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
            if self.address is None:
                warnings.warn(
                    f"Ray was started on this machine alone, which took "
                    f"{time.monotonic() - began:.0f} s: engine='local' has the same cores, starts at "
                    f"once and shares the memory of the log. For more machines, give the address of "
                    f"a cluster.",
                    EngineWarning,
                    stacklevel=4,
                )
        return ray


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


def _cancel(ray: Any, references: list[Any]) -> None:
    """Cancel tasks, repeatedly, as Ray ignores a cancellation while a task starts.

    The last first: if a running one ends, none that waits takes its place.
    """
    until = time.monotonic() + _CANCEL_WITHIN
    while references and time.monotonic() < until:
        for reference in reversed(references):
            ray.cancel(reference, force=True)
        references = ray.wait(references, num_returns=len(references), timeout=0.2)[1]


def as_engine(given: str | int | Engine | None) -> Engine:
    """Return the engine for a name or a number of threads.

    ``None`` is the calling thread; an integer is a number of threads (−1 for one per core, as in
    scikit-learn); ``"local"`` is one thread per core; ``"ray"`` is the Ray cluster that this process is
    connected to, or else a new one on this machine.

    Examples
    --------
    >>> as_engine(None)
    Local(workers=1, kind='threads', retries=2, checkpoint=None)
    """
    if given is None:
        return Local()
    if isinstance(given, Engine):
        return given
    if given in ("local", -1):
        return Local(workers=0)
    if isinstance(given, Integral) and given > 0:
        return Local(workers=int(given))
    if given == "ray":
        return Ray()
    raise EngineError(
        f"engine must be 'local', 'ray', or an engine such as Local(workers=4) or "
        f"Ray(address='auto'), and n_jobs a number of threads or -1. Got {given!r} instead."
    )


@contextmanager
def running(given: str | int | Engine | None) -> Iterator[Engine]:
    """Yield the engine for a name, number or engine; close it unless an engine was given.

    Meanwhile `on_threads` uses its threads, if it has any.
    """
    engine = as_engine(given)
    threads = engine.workers if isinstance(engine, Local) and engine.kind == "threads" else 1
    before = _threads.set(threads)
    try:
        yield engine
    finally:
        _threads.reset(before)
        if engine is not given:
            engine.close()
