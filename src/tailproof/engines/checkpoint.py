"""Checkpoints: the number of combined tasks and their total, in one small file.

Each pass over the data has its own file, named by a fingerprint of its function and inputs, including
the source code of policies. A restarted run reads finished passes and resumes the unfinished one.
Reading a checkpoint executes nothing.
"""

from __future__ import annotations

import hashlib
import importlib
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from tailproof.engines.fingerprint import fingerprint
from tailproof.engines.packing import packed
from tailproof.errors import StorageError, TailproofWarning
from tailproof.files.container import read_file, write_file

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
        progress = cls(path, [_digest(item) for item in items], written=time.monotonic())
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


def _digest(value: Any) -> str:
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
