"""Fingerprints of what a result depends on: values, functions, and the source behind functions.

A function of a module is sent to other processes by its name. Its fingerprint must not stop there: a
policy that is edited is another policy. So the source of its module counts, and of the modules beside
it that it imports.
"""

from __future__ import annotations

import ast
import hashlib
import pickletools
import sys
import sysconfig
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import Any

from tailproof.engines.packing import in_parts


def fingerprint(value: Any) -> str:
    """Return a digest of a value and of the code that it refers to.

    Installed packages count with the files that are named, modules of the user's own with all that
    they import from their folder, tailproof with its version. What code reads from elsewhere when it
    runs is not seen.
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
    """Return the source files that a module's code depends on, as far as they may change."""
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
    """Return a module or package and all that it imports from the folder it lies in."""
    found: set[Path] = set()
    waiting = [start]
    while waiting:
        for path in _files(waiting.pop()):
            if path not in found:
                found.add(path)
                waiting += [base / name for name in _imported(path, *_stamp(path))]
    return found


def _stamp(path: Path) -> tuple[int, int]:
    """Return when a file was changed and its size: while they stay, what was read of it counts."""
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
    """Return the first words of the modules that a file imports, anywhere in it."""
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
    from importlib.metadata import version  # slow to load, and few need it

    return version("tailproof")


@lru_cache
def _folder(name: str) -> Path:
    return Path(sysconfig.get_path(name)).resolve()
