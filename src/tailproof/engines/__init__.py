"""Engines run tasks in this thread, in several threads or processes, or on a Ray cluster."""

from tailproof.engines.engine import Engine
from tailproof.engines.local import Local
from tailproof.engines.select import as_engine, running

__all__ = ["Engine", "Local", "as_engine", "running"]
