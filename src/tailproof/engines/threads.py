"""One thread while we work: our matrices and trees are small, and threads that spin slow each other."""

from __future__ import annotations

from contextlib import AbstractContextManager
from functools import lru_cache
from typing import Any

from threadpoolctl import ThreadpoolController


@lru_cache
def _controller(trees: bool) -> ThreadpoolController:
    if trees:
        import sklearn.ensemble  # noqa: F401  (a controller knows only what is loaded)
    return ThreadpoolController()


def one_thread() -> AbstractContextManager[Any]:
    """Return a context in which numpy's matrix products use a single thread."""
    context: AbstractContextManager[Any] = _controller(False).limit(limits=1, user_api="blas")
    return context


def one_tree_thread() -> AbstractContextManager[Any]:
    """Return a context in which scikit-learn's trees use a single thread.

    On cores that others use too, the threads of small trees wait for each other a hundred times as long
    as they work.
    """
    context: AbstractContextManager[Any] = _controller(True).limit(limits=1, user_api="openmp")
    return context
