"""Pickling, including functions that are defined in scripts and notebooks."""

from __future__ import annotations

import pickle
from typing import Any


def packed(value: Any) -> bytes:
    """Return a value as bytes for `pickle.loads`."""
    import cloudpickle  # type: ignore[import-untyped]

    content: bytes = cloudpickle.dumps(value)
    return content


def in_parts(value: Any) -> tuple[bytes, list[memoryview]]:
    """Return a value as bytes and, separately and without copies, its arrays."""
    import cloudpickle

    arrays: list[pickle.PickleBuffer] = []
    content: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    return content, [array.raw() for array in arrays]
