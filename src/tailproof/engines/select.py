"""Engines by name."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral

from tailproof.engines.engine import Engine
from tailproof.engines.local import Local
from tailproof.errors import EngineError


def as_engine(given: str | int | Engine | None) -> Engine:
    """Return the engine for a name or a number of threads.

    ``None`` is the calling thread; an integer is a number of threads (−1 for one per core, as in
    scikit-learn); ``"local"`` is one thread per core; ``"ray"`` is the Ray cluster that this process is
    connected to, or else a new one on this machine.

    Examples
    --------
    >>> as_engine(None)
    Local(workers=1, kind='threads', retries=2, checkpoint=None)
    """
    if given is None:
        return Local()
    if isinstance(given, Engine):
        return given
    if given in ("local", -1):
        return Local(workers=0)
    if isinstance(given, Integral) and given > 0:
        return Local(workers=int(given))
    if given == "ray":
        from tailproof.engines.ray import Ray

        return Ray()
    raise EngineError(
        f"engine must be 'local', 'ray', or an engine such as Local(workers=4) or "
        f"Ray(address='auto'), and n_jobs a number of threads or -1. Got {given!r} instead."
    )


@contextmanager
def running(given: str | int | Engine | None) -> Iterator[Engine]:
    """Yield the engine for a name, number or engine; close it unless an engine was given."""
    engine = as_engine(given)
    try:
        yield engine
    finally:
        if engine is not given:
            engine.close()
