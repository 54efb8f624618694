"""Single-threaded numpy and scikit-learn: for small matrices and trees, more threads are slower."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


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
