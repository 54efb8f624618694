"""Where chunks, folds and replicates run: this process, threads, processes, or a Ray cluster."""

from __future__ import annotations

import ast
import hashlib
import importlib
import logging
import math
import os
import pickle
import pickletools
import subprocess
import sys
import sysconfig
import threading
import time
import warnings
import weakref
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, fields, is_dataclass
from functools import lru_cache, reduce
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from numbers import Integral
from pathlib import Path
from types import ModuleType
from typing import Any, Literal, TypeVar
from uuid import uuid4

import numpy as np
from threadpoolctl import ThreadpoolController

from tailproof.errors import EngineError, StorageError, TailproofWarning
from tailproof.files import read_file, write_file


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


def packed(value: Any) -> bytes:
    """Return a value as bytes for `pickle.loads`."""
    import cloudpickle  # type: ignore[import-untyped]

    content: bytes = cloudpickle.dumps(value)
    return content


def in_parts(value: Any) -> tuple[bytes, list[memoryview]]:
    """Return a value as bytes and, separately and without copies, its arrays."""
    import cloudpickle

    arrays: list[pickle.PickleBuffer] = []
    content: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    return content, [array.raw() for array in arrays]


def fingerprint(value: Any) -> str:
    """Return a digest of a value and of the code that it refers to.

    It includes the named files of installed packages, the user's own modules with all that they
    import from their folder, and tailproof's version. Files that code reads at run time are not
    included.
    """
    content, arrays = in_parts(value)
    digest = hashlib.sha256(_version().encode())
    digest.update(content)
    for array in arrays:
        digest.update(array)
    for path in sorted({each for module in _named(content) for each in _sources(module)}):
        digest.update(_digest(path, *_stamp(path)))
    return digest.hexdigest()


def _named(content: bytes) -> list[ModuleType]:
    """Return the loaded modules that a pickle names."""
    words: set[str] = set()
    for _, argument, _ in pickletools.genops(content):
        if isinstance(argument, str) and len(argument) < 200:
            words.update((argument, argument.partition(" ")[0]))
    found = [sys.modules.get(word) for word in words]
    return [module for module in found if module is not None]


def _sources(module: ModuleType) -> set[Path]:
    """Return the source files that a module's code depends on, except the standard library's."""
    file = getattr(module, "__file__", None)
    name = getattr(module, "__name__", "").split(".")
    path = Path(file or "").resolve()
    if path.suffix != ".py" or not path.is_file() or name[0] == "tailproof":
        return set()
    installed = _folder("purelib"), _folder("platlib")
    if any(path.is_relative_to(folder) for folder in installed):
        return {path}
    if path.is_relative_to(_folder("stdlib")):
        return set()
    depth = len(name) - (path.name != "__init__.py")
    base = path.parents[min(depth, len(path.parents) - 1)] if depth else path.parent
    return _closure(path if len(name) == 1 and depth == 0 else base / name[0], base)


def _closure(start: Path, base: Path) -> set[Path]:
    """Return the files of a module or package and of all that it imports from its folder."""
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        for path in _files(waiting.pop()):
            if path not in found:
                found.add(path)
                waiting += [base / name for name in _imported(path, *_stamp(path))]
    return found


def _stamp(path: Path) -> tuple[int, int]:
    """Return the modification time and size of a file, the key of cached results."""
    status = path.stat()
    return status.st_mtime_ns, status.st_size


def _files(path: Path) -> Iterator[Path]:
    """Yield the files of a module, with or without its suffix, or of a package."""
    if path.is_dir() and (path / "__init__.py").is_file():
        yield from path.rglob("*.py")
    elif (file := path if path.suffix == ".py" else path.with_name(f"{path.name}.py")).is_file():
        yield file


@lru_cache(maxsize=4096)
def _imported(path: Path, stamp: int, size: int) -> frozenset[str]:  # noqa: ARG001 part of the key
    """Return the top-level names of the modules that a file imports anywhere."""
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.name.split(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return frozenset(names)


@lru_cache(maxsize=4096)
def _digest(path: Path, stamp: int, size: int) -> bytes:  # noqa: ARG001 part of the key
    return hashlib.sha256(path.read_bytes()).digest()


@lru_cache
def _version() -> str:
    from importlib.metadata import version  # slow to import

    return version("tailproof")


@lru_cache
def _folder(name: str) -> Path:
    return Path(sysconfig.get_path(name)).resolve()


T = TypeVar("T")
_KIND, _VERSION = "progress", 2
_EVERY = 30.0  # seconds between two writes
_DAMAGED = (LookupError, TypeError, ValueError, AttributeError, ImportError, RecursionError)


class CheckpointWarning(TailproofWarning):
    """A checkpoint could not be written or read; the run continues without it."""


@dataclass
class Progress:
    """The first `done` tasks of a pass and their combined result `total`."""

    path: Path
    digests: list[str]  # of the items, in order
    done: int = 0
    total: Any = None
    written: float = 0.0
    saved: int = 0

    @classmethod
    def open(
        cls, folder: Path, function: Callable[..., Any], shared: Any, items: Sequence[Any]
    ) -> Progress:
        """Load the checkpoint of this pass, if any; it is not used if its items have changed."""
        path = folder / f"{fingerprint((function, shared))[:32]}.progress"
        progress = cls(path, [_digest_checkpoint(item) for item in items], written=time.monotonic())
        if path.exists():
            progress._read()
        return progress

    def combined(self, results: Iterator[T], combine: Callable[[T, T], T]) -> T:
        """Add the remaining results to the total; on an error the progress so far is saved too."""
        try:
            for result in results:
                self.total = combine(self.total, result) if self.done else result
                self.done += 1
                if time.monotonic() - self.written > _EVERY:
                    self._write()
        finally:
            self._write()
        return self.total  # type: ignore[no-any-return]

    def _write(self) -> None:
        if self.done == self.saved:
            return
        arrays: dict[str, Any] = {}
        page = {"items": self.digests[: self.done], "total": _taken_apart(self.total, arrays)}
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            write_file(self.path, _KIND, _VERSION, page, arrays)
            self.saved = self.done
        except (OSError, StorageError) as error:
            warnings.warn(
                f"Progress could not be written to {self.path.parent}: {error} The run goes on; what "
                f"was written before stays as it was. Free some space or choose another folder.",
                CheckpointWarning,
                stacklevel=2,
            )
        self.written = time.monotonic()

    def _read(self) -> None:
        try:
            page, named = read_file(self.path, _KIND, _VERSION)
            done = page["items"]
            if done != self.digests[: len(done)]:
                return
            self.total = _put_together(page["total"], named)
            self.done = self.saved = len(done)
        except _DAMAGED as error:
            warnings.warn(
                f"{self.path} is damaged and was not used: {error} This pass starts anew.",
                CheckpointWarning,
                stacklevel=3,
            )


def _digest_checkpoint(value: Any) -> str:
    return hashlib.sha256(packed(value)).hexdigest()


def _taken_apart(value: Any, arrays: dict[str, Any]) -> Any:
    """Return the structure of a total, each array replaced by its index in `arrays`."""
    if is_dataclass(value):
        kind = f"{type(value).__module__}:{type(value).__qualname__}"
        inner = {each.name: getattr(value, each.name) for each in fields(value)}
        return {"class": kind} | {key: _taken_apart(each, arrays) for key, each in inner.items()}
    if isinstance(value, tuple | list):
        return [_taken_apart(each, arrays) for each in value]
    if value is None:
        return None
    arrays[f"array_{len(arrays)}"] = np.asarray(value)
    return len(arrays) - 1


def _put_together(structure: Any, arrays: dict[str, Any]) -> Any:
    if structure is None:
        return None
    if isinstance(structure, int):
        array = arrays[f"array_{structure}"]
        return array if array.ndim else array.item()
    if isinstance(structure, list):
        return tuple(_put_together(each, arrays) for each in structure)
    module, name = structure["class"].split(":")
    if module.split(".")[0] != "tailproof":
        raise ValueError(f"it holds a {module}.{name}")
    kind: Any = getattr(importlib.import_module(module), name)
    rest = {key: _put_together(value, arrays) for key, value in structure.items() if key != "class"}
    if {each.name for each in fields(kind)} != set(rest):
        raise ValueError(f"{module}.{name} has other fields than it had")
    return kind(**rest)


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
        >>> from tailproof.parallel import Local
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


_SHARED, _TASK = b"s", b"t"  # first byte of a message


@dataclass(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    lifeline: Connection  # carries no data: it closes when the main process ends
    knows: Any = None  # the shared value that it has received
    call: object = None  # the call of `Pool.serving` that it works for, if any

    def answer(self, task: bytes, shared: Any, content: bytes) -> bytes | None:
        """Return the pickled result of a task, or None if the process died."""
        try:
            if self.knows is not shared:
                self.connection.send_bytes(content)
                self.knows = shared
            self.connection.send_bytes(task)
            return self.connection.recv_bytes()
        except (EOFError, OSError):
            return None


class Pool:
    """A pool of Python processes; threads of the main process send them tasks through pipes.

    Workers do not import the main script, so it needs no ``__main__`` guard. Ctrl-C reaches the main
    process only, which then ends the workers; if it is killed, their pipes close and they end too.
    """

    def __init__(self) -> None:
        self._workers: set[_Worker] = set()
        self._lock = threading.Lock()
        self._shared: Any = None
        self._packed = b""
        weakref.finalize(self, _end_all, self._workers)

    @contextmanager
    def serving(
        self, function: Callable[..., T], items: Sequence[Any], shared: Any, retries: int
    ) -> Iterator[Callable[[int], T]]:
        """Yield a function that runs the task of an item index in a worker; at the end stop tasks."""
        if shared is not self._shared:
            self._shared, self._packed = shared, _SHARED + packed(shared)
        content, call, stopped = self._packed, object(), threading.Event()

        def run(place: int) -> T:
            task = _TASK + packed((function, items[place], retries))
            for _ in range(retries + 1):
                with self._lock:
                    if stopped.is_set():
                        raise CancelledError
                    worker = self._idle()
                    worker.call = call
                answer = worker.answer(task, shared, content)
                worker.call = None
                if answer is not None:
                    result, error = pickle.loads(answer)
                    if error is not None:
                        raise error
                    return result  # type: ignore[no-any-return]
                self._workers.discard(worker)
                _end_all({worker})
            raise EngineError(
                f"Task {place + 1} of {len(items)} ended its worker process {retries + 1} times "
                f"(exit code {worker.process.returncode}). It may need more memory than there is: "
                f"use fewer workers, or write the log in smaller row groups."
            )

        try:
            yield run
        finally:
            with self._lock:
                stopped.set()
            for worker in self._workers.copy():
                if worker.call is call:
                    worker.process.kill()

    def close(self) -> None:
        """End every worker; a later call starts new ones."""
        _end_all(self._workers)

    def _idle(self) -> _Worker:
        worker = next((each for each in self._workers if each.call is None), None) or _start()
        self._workers.add(worker)
        return worker


def _start() -> _Worker:
    ours, theirs = Pipe()
    lifeline, watched = Pipe()
    ends = [theirs.fileno(), watched.fileno()]
    command = f"from tailproof.parallel import work; work(*{ends})"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    environment |= dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"), "1")
    process = subprocess.Popen(
        [sys.executable, "-c", command],
        stdin=subprocess.DEVNULL,
        pass_fds=ends,
        env=environment,
        start_new_session=True,
    )
    theirs.close()
    watched.close()
    return _Worker(process, ours, lifeline)


def _end_all(workers: set[_Worker]) -> None:
    while workers:
        worker = workers.pop()
        worker.process.kill()
        worker.process.wait()
        worker.connection.close()
        worker.lifeline.close()


def work(descriptor: int, lifeline: int) -> None:
    """Run tasks until the pipe closes; the main function of a worker process."""
    threading.Thread(target=_end_with_parent, args=[lifeline], daemon=True).start()
    connection = Connection(descriptor)
    told, shared = b"", None
    with one_thread():
        while True:
            try:
                message = connection.recv_bytes()
                if message.startswith(_SHARED):
                    told, shared = message[1:], None
                    continue
                if told:
                    told, shared = b"", pickle.loads(told)
                function, item, retries = pickle.loads(message[1:])
                answer = packed((attempt(function, item, shared, retries), None))
            except (EOFError, BrokenPipeError):
                return
            except Exception as error:
                answer = _failure(error)
            connection.send_bytes(answer)


def _end_with_parent(lifeline: int) -> None:
    os.read(lifeline, 1)  # returns when the other end closes
    os._exit(1)


def _failure(error: Exception) -> bytes:
    try:
        return packed((None, error))
    except Exception:  # the error cannot be pickled
        return packed((None, EngineError(f"A task failed: {error!r}")))


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
    """Yield the engine for a name, number or engine; close it unless an engine was given."""
    engine = as_engine(given)
    try:
        yield engine
    finally:
        if engine is not given:
            engine.close()
