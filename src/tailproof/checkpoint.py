"""Runs that go on where they stopped: fingerprints of values and code, and the progress of a pass."""

from __future__ import annotations

import ast
import hashlib
import pickle
import pickletools
import sys
import sysconfig
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from tailproof.errors import StorageError, TailproofWarning
from tailproof.files import read_value, write_value

T = TypeVar("T")
_KIND, _VERSION = "progress", 3
_SAVE_EVERY = 30.0  # seconds between two writes


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
        cls, folder: Path, function: Callable[..., object], shared: object, items: Sequence[object]
    ) -> Progress:
        """Load the checkpoint of this pass, if any; it is not used if its items have changed."""
        path = folder / f"{fingerprint((function, shared))[:32]}.progress"
        digests = [hashlib.sha256(b"".join(_pickled(item))).hexdigest() for item in items]
        progress = cls(path, digests, written=time.monotonic())
        if path.exists():
            progress._read()
        return progress

    def combined(self, results: Iterator[T], combine: Callable[[T, T], T]) -> T:
        """Add the remaining results to the total; on an error the progress so far is saved too."""
        try:
            for result in results:
                self.total = combine(self.total, result) if self.done else result
                self.done += 1
                if time.monotonic() - self.written > _SAVE_EVERY:
                    self._write()
        finally:
            self._write()
        return self.total  # type: ignore[no-any-return]

    def _write(self) -> None:
        if self.done == self.saved:
            return
        done = tuple(self.digests[: self.done]), self.total
        if write_progress(self.path, _KIND, _VERSION, done):
            self.saved = self.done
        self.written = time.monotonic()

    def _read(self) -> None:
        try:
            done, total = read_value(self.path, _KIND, _VERSION)
            if list(done) == self.digests[: len(done)]:
                self.total, self.done, self.saved = total, len(done), len(done)
        except (TypeError, ValueError) as error:
            warnings.warn(
                f"{self.path} is damaged and was not used: {error} This part of the work starts again.",
                CheckpointWarning,
                stacklevel=3,
            )


def write_progress(path: Path, kind: str, version: int, state: object) -> bool:
    """Write the state of a run, and return whether it succeeded; a full disk is a warning only."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        write_value(path, kind, version, state)
    except (OSError, StorageError) as error:
        warnings.warn(
            f"Progress could not be written to {path.parent}: {error} The run goes on and will try "
            f"again; what was written before stays as it was. Free some space or choose another "
            f"folder.",
            CheckpointWarning,
            stacklevel=3,
        )
        return False
    return True


def fingerprint(value: object) -> str:
    """Return a digest of a value and of the code that it refers to.

    It includes the named files of installed packages, the user's own modules with all that they
    import from their folder, and tailproof's version. Files that code reads at run time are not
    included.
    """
    from importlib.metadata import version  # slow to import

    content = _pickled(value)
    digest = hashlib.sha256(version("tailproof").encode())
    for part in content:
        digest.update(part)
    for path in sorted({each for module in _named(content[0]) for each in _sources(module)}):
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _pickled(value: object) -> list[Any]:
    """Return a value as bytes and, separately and without copies, its arrays."""
    import cloudpickle

    arrays: list[pickle.PickleBuffer] = []
    content: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    return [content, *(array.raw() for array in arrays)]


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
    name, path = module.__name__, Path(getattr(module, "__file__", None) or "").resolve()
    if path.suffix != ".py" or not path.is_file() or name.split(".")[0] == "tailproof":
        return set()
    folders = {key: Path(sysconfig.get_path(key)).resolve() for key in ("purelib", "platlib")}
    if any(path.is_relative_to(folder) for folder in folders.values()):
        return {path}
    if path.is_relative_to(Path(sysconfig.get_path("stdlib")).resolve()):
        return set()
    names = name.split(".")
    within = path.parent if path.name == "__init__.py" else path.with_suffix("")
    base = within.parents[len(names) - 1]
    known = within == base.joinpath(*names)  # not a script, nor loaded under another name
    return _closure(base / names[0] if known else path, base if known else path.parent)


def _closure(start: Path, base: Path) -> set[Path]:
    """Return the files of a module, or of a whole package, and of all that they import from `base`."""
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        place = waiting.pop()
        inside = place.rglob("*.py") if (place / "__init__.py").is_file() else ()
        for file in {place.with_suffix(".py"), *inside} - found:
            if file.is_file():
                found.add(file)
                waiting += [base / name for name in _imported(file.read_bytes())]
    return found


@lru_cache(maxsize=1000)  # every task of a run asks about the same files, which rarely change
def _imported(source: bytes) -> frozenset[str]:
    """Return the first names of the modules that a file imports anywhere."""
    try:
        tree = ast.parse(source)
    except (SyntaxError, ValueError):
        return frozenset()
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names |= {each.name.split(".")[0] for each in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return frozenset(names)
