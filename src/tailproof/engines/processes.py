"""Worker processes that outlive nobody: their tasks are redone if they die, and they end if we do."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import threading
import weakref
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from multiprocessing import Pipe
from multiprocessing.connection import Connection, wait
from typing import Any, TypeVar

from tailproof.engines.engine import attempt
from tailproof.engines.packing import packed
from tailproof.engines.threads import one_thread
from tailproof.errors import EngineError

T = TypeVar("T")
_SHARED, _TASK = b"s", b"t"  # what a message begins with


@dataclass(eq=False)
class _Worker:
    process: subprocess.Popen[bytes]
    connection: Connection
    lifeline: Connection  # nothing is ever sent: it closes when this process ends, however it ends
    knows: Any = None  # what is shared between its tasks


class Pool:
    """Interpreters of our own, each at the other end of a pipe.

    They import what they need and nothing else: a script needs no main guard. Ctrl-C reaches this
    process alone, which then ends them; should it be killed, their pipes close and they end too.
    """

    def __init__(self, size: int) -> None:
        self._size = size
        self._workers: list[_Worker] = []
        self._shared: Any = None
        self._packed = b""
        weakref.finalize(self, _end_all, self._workers)

    def results(
        self, function: Callable[..., T], items: Sequence[Any], shared: Any, retries: int
    ) -> Iterator[T]:
        """Yield the task's result for each item in order; tasks of dead workers are done again."""
        if shared is not self._shared:
            self._shared, self._packed = shared, _SHARED + packed(shared)
        waiting = deque(range(len(items)))
        busy: dict[_Worker, int] = {}
        done: dict[int, T] = {}
        deaths = [0] * len(items)
        try:
            for place in range(len(items)):
                while place not in done:
                    # Results wait for the ones before them: not too many, or they fill the memory.
                    while (
                        waiting and waiting[0] < place + 2 * self._size and len(busy) < self._size
                    ):
                        number = waiting.popleft()
                        task = _TASK + packed((function, items[number], retries))
                        busy[self._send(task, busy)] = number
                    for worker, answer in _answers(busy):
                        number = busy.pop(worker)
                        if answer is not None:
                            done[number] = _result(answer)
                            continue
                        self._bury(worker)
                        waiting.appendleft(number)
                        deaths[number] += 1
                        if deaths[number] > retries:
                            raise EngineError(
                                f"Task {number + 1} of {len(items)} ended its worker process "
                                f"{deaths[number]} times (exit code {worker.process.returncode}). "
                                f"It may need more memory than there is: use fewer workers, or "
                                f"write the log in smaller row groups."
                            )
                yield done.pop(place)
        finally:
            for worker in busy:  # what they are at is of no use to anyone
                self._bury(worker)

    def close(self) -> None:
        """End every worker; a later call starts new ones."""
        _end_all(self._workers)

    def _send(self, task: bytes, busy: dict[_Worker, int]) -> _Worker:
        """Give a task to an idle worker, or to a new one."""
        worker = next((each for each in self._workers if each not in busy), None)
        if worker is None:
            worker = _start()
            self._workers.append(worker)
        try:
            if worker.knows is not self._shared:
                worker.connection.send_bytes(self._packed)
                worker.knows = self._shared
            worker.connection.send_bytes(task)
        except OSError:
            pass  # it has died, as its pipe will say when it is asked for the answer
        return worker

    def _bury(self, worker: _Worker) -> None:
        self._workers.remove(worker)
        _end_all([worker])


def _answers(busy: dict[_Worker, int]) -> Iterator[tuple[_Worker, bytes | None]]:
    """Wait for news; yield the answers that came, and None for workers that died."""
    ready = wait([worker.connection for worker in busy])
    for worker in [each for each in busy if each.connection in ready]:
        try:
            yield worker, worker.connection.recv_bytes()
        except (EOFError, OSError):
            yield worker, None


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


def _end_all(workers: list[_Worker]) -> None:
    while workers:
        worker = workers.pop()
        worker.connection.close()
        worker.lifeline.close()
        worker.process.kill()
        worker.process.wait()


def work(descriptor: int, lifeline: int) -> None:
    """Do tasks until the pipe closes: what a worker process runs."""
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
    except Exception:  # an error that holds something which cannot be sent
        return packed((None, EngineError(f"A task failed: {error!r}")))


def _result(answer: bytes) -> Any:
    result, error = pickle.loads(answer)
    if error is not None:
        raise error
    return result
