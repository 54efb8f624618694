"""Members dealt to processes, or to the workers of a Ray cluster."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

from tailproof.deep.settings import Run, require_extra

Part = TypeVar("Part")
Result = TypeVar("Result")


def spread(work: Callable[[Part], Result], parts: Sequence[Part], run: Run) -> list[Result]:
    """Return the work on each part, in order, done at the same time elsewhere.

    Every part carries its own seeds, so where it runs does not change what it gives.
    """
    if run.executor == "ray":
        ray = require_extra("ray", "ray", "Ray workers")
        remote = ray.remote(work)
        found: list[Result] = ray.get([remote.remote(part) for part in parts])
        return found
    # A fresh interpreter each: a fork would copy torch's thread pool in an unknown state.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(len(parts), mp_context=context) as pool:
        return list(pool.map(work, parts))
