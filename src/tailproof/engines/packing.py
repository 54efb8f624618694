"""Values as bytes that another interpreter can read, functions of scripts and notebooks included."""

from __future__ import annotations

import pickle
from typing import Any


def packed(value: Any) -> bytes:
    """Return a value as bytes; `pickle.loads` gives it back."""
    import cloudpickle  # type: ignore[import-untyped]

    content: bytes = cloudpickle.dumps(value)
    return content


def sent_bytes(value: Any) -> int:
    """Return how many bytes another interpreter is sent for a value; its arrays are not copied."""
    import cloudpickle

    arrays: list[pickle.PickleBuffer] = []
    rest: bytes = cloudpickle.dumps(value, protocol=5, buffer_callback=arrays.append)
    return len(rest) + sum(array.raw().nbytes for array in arrays)
