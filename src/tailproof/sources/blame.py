"""Errors of parsers as errors about the input."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tailproof.errors import LogError, TailproofError


@contextmanager
def blaming(label: str, advice: str) -> Iterator[None]:
    """Convert any error of a parser to a `LogError` that names the input."""
    try:
        yield
    except TailproofError:
        raise
    except Exception as error:  # parsers of untrusted bytes raise errors of any type
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise LogError(f"{label} could not be read: {reason[:300]}. {advice}") from error
