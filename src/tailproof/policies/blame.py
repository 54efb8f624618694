"""Report errors that a policy's own code raises, with their location and input."""

from __future__ import annotations

import inspect
import traceback
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from tailproof.errors import PolicyError, TailproofError


@contextmanager
def own_errors(
    policy: Any, states: Any = None, *, columns: Sequence[str] = (), hint: str = ""
) -> Iterator[None]:
    """Convert any error of a policy to a `PolicyError` with its file, line, message and input.

    The policy's input is the array `states`, or a frame (None), with these `columns`; `hint` is a
    sentence to add.
    """
    try:
        yield
    except (TailproofError, MemoryError):
        raise
    except Exception as error:  # a user's code may raise anything
        said = f"{type(error).__name__}: {error}".strip().rstrip(":.")
        names = columns or getattr(policy, "given_names", ())
        given = f"an array of the shape {states.shape}" if states is not None else "a frame"
        if names:
            shown = ", ".join(names[:30]) + (f" and {len(names) - 30} more" if names[30:] else "")
            given = f"{given} with the columns {shown}"
        if "truth value" in said:
            hint = (
                "It is asked about all rows at once: write numpy.where(condition, this, that) in place "
                "of if."
            )
        raise PolicyError(
            f"The policy {called(policy)} raised an error of its own{_place(policy, error)}: {said}. "
            f"It was given {given}.{f' {hint}' if hint else ''}"
        ) from error


def called(policy: Any) -> str:
    """Return the name of a policy for messages."""
    inner = getattr(policy, "policy", policy)
    name = getattr(inner, "__name__", None) or type(inner).__name__
    return "(a lambda)" if name == "<lambda>" else str(name)


def _place(policy: Any, error: Exception) -> str:
    """Return the failing line in the policy's own file, or else the last line of the traceback."""
    frames = traceback.extract_tb(error.__traceback__)
    inner = inspect.unwrap(getattr(policy, "policy", policy))
    code = getattr(inner, "__code__", None)
    own = [each for each in frames if code is not None and each.filename == code.co_filename]
    last = own[-1] if own else frames[-1]
    line = f" ({last.line.strip()})" if last.line else ""
    return f" in {last.filename}, line {last.lineno}{line}"
