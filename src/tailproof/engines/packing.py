"""Values as bytes that another interpreter can read, functions of scripts and notebooks included."""

from __future__ import annotations

import pickle
from typing import Any


def packed(value: Any) -> bytes:
    """Return a value as bytes; `pickle.loads` gives it back."""
    import cloudpickle  # type: ignore[import-untyped]

    content: bytes = cloudpickle.dumps(value)
    return content


def in_parts(value: Any) -> tuple[bytes, list[memoryview]]:
    """Return a value as bytes and, beside them, its arrays, which are not copied."""
    import cloudpickle

    arrays: list[pickle.PickleBuffer] = []
    content: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    return content, [array.raw() for array in arrays]
