"""Stages of a computation and their times, for jobs and notebooks: the logger ``tailproof``."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
R = TypeVar("R")
LOGGER = logging.getLogger("tailproof")


@contextmanager
def stage(text: str) -> Iterator[None]:
    """Log the beginning and the end of a stage, with its time, at level INFO.

    ``logging.basicConfig(level=logging.INFO)`` shows them.
    """
    start = time.perf_counter()
    LOGGER.info("%s ...", text)
    yield
    LOGGER.info("%s: done after %.1f s", text, time.perf_counter() - start)


def staged(text: str) -> Callable[[Callable[P, R]], Callable[P, R]]:
    """Return a decorator that makes a function a `stage`."""

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        @wraps(function)
        def run(*args: P.args, **kwargs: P.kwargs) -> R:
            with stage(text):
                return function(*args, **kwargs)

        return run

    return decorate
