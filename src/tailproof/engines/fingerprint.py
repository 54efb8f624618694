"""Fingerprints of values and functions, including the source code of functions.

A module's function is pickled by name only, but after an edit it is a different function. So the
fingerprint includes the source of its module and of the neighbouring modules that this one imports.
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
