"""Worker processes: a task is retried if its process dies, and all end with the main process."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import CancelledError
from contextlib import contextmanager
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection
from typing import Any, TypeVar

from tailproof.engines.engine import attempt
from tailproof.engines.packing import packed
from tailproof.engines.threads import one_thread
from tailproof.errors import EngineError

T = TypeVar("T")
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
    command = f"from tailproof.engines.processes import work; work(*{ends})"
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
