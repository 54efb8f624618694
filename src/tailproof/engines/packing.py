"""Values as bytes that another interpreter can read, functions of scripts and notebooks included."""

from __future__ import annotations

from typing import Any


def packed(value: Any) -> bytes:
    """Return a value as bytes; `pickle.loads` gives it back."""
    import cloudpickle  # type: ignore[import-untyped]

    content: bytes = cloudpickle.dumps(value)
    return content
