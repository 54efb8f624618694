"""Engines by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from tailproof.engines.engine import Engine
from tailproof.engines.local import Local
from tailproof.errors import EngineError


def as_engine(given: str | Engine | None) -> Engine:
    """Return the engine that was meant.

    ``None`` is the calling thread, ``"local"`` a thread for each core, ``"ray"`` the Ray cluster that
    this process is connected to, or else one of its own on this machine.

    Examples
    --------
    >>> as_engine(None)
    Local(workers=1, kind='threads', retries=2, checkpoint=None)
    """
    if given is None:
        return Local()
    if isinstance(given, Engine):
        return given
    if given == "local":
        return Local(workers=0)
    if given == "ray":
        from tailproof.engines.ray import Ray

        return Ray()
    raise EngineError(
        f"engine must be 'local', 'ray', or an engine such as Local(workers=4) or "
        f"Ray(address='auto'). Got {given!r} instead."
    )


@contextmanager
def running(given: str | Engine | None) -> Iterator[Engine]:
    """Give the engine that was meant, and close it if it was only named."""
    engine = as_engine(given)
    try:
        yield engine
    finally:
        if engine is not given:
            engine.close()
