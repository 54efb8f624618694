"""What scikit-learn imports and no command needs: put off, as it takes a third of a small evaluation.

scikit-learn imports `scipy.stats` for a few functions, and pandas to see whether it is there.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib import import_module
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from threading import RLock
from types import ModuleType
from typing import Any

_NAME = "scipy.stats"
_NAMED = ("chi2", "gmean", "rankdata", "spearmanr")  # what scikit-learn imports from it
_lock = RLock()


def reserve_little() -> None:
    """Let pyarrow reserve no addresses ahead, a gigabyte, where `ulimit -v` counts them as memory."""
    try:
        from resource import RLIM_INFINITY, RLIMIT_AS, getrlimit
    except ImportError:  # Windows has no such limit
        return
    if getrlimit(RLIMIT_AS)[0] != RLIM_INFINITY:
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def put_off_imports() -> None:
    """Import `scipy.stats` on first use, and pandas not for scikit-learn, unless they are there."""
    if _NAME not in sys.modules:
        sys.meta_path.insert(0, _Finder())


class _Finder(MetaPathFinder, Loader):
    """Finds a stand-in for `scipy.stats`, and no pandas for the module that only looks for it."""

    def find_spec(
        self,
        name: str,
        path: Sequence[str] | None,
        target: ModuleType | None = None,  # noqa: ARG002
    ) -> ModuleSpec | None:
        """Return how to make the stand-in; None for other modules."""
        if name == "pandas" and _is_being_imported("sklearn.utils.fixes"):
            raise ModuleNotFoundError("pandas is not imported for scikit-learn.", name=name)
        if name != _NAME:
            return None
        found = ModuleSpec(name, self, is_package=True)
        found.submodule_search_locations = [f"{each}/stats" for each in path or ()]
        return found

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """Return the stand-in."""
        return _Later(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Do nothing yet."""


class _Later(ModuleType):
    """Stands for `scipy.stats` until it is used."""

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # the import system looks for such
            raise AttributeError(name)
        return _Function(name) if name in _NAMED else getattr(_loaded(), name)


class _Function:
    """A function or distribution that is imported when it is used."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __call__(self, *given: Any, **named: Any) -> Any:
        return getattr(_loaded(), self._name)(*given, **named)

    def __getattr__(self, name: str) -> Any:
        return getattr(getattr(_loaded(), self._name), name)


def _loaded() -> ModuleType:
    """Return `scipy.stats` itself, from now on for all who import it."""
    with _lock:
        if isinstance(sys.modules.get(_NAME), _Later):
            sys.meta_path[:] = [each for each in sys.meta_path if not isinstance(each, _Finder)]
            del sys.modules[_NAME]
        return import_module(_NAME)


def _is_being_imported(name: str) -> bool:
    return bool(getattr(getattr(sys.modules.get(name), "__spec__", None), "_initializing", False))
