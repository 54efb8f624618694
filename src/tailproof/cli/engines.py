"""Where the work of a command runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path

from tailproof.cli.options import option
from tailproof.engines import Engine, Local
from tailproof.errors import EngineError

_PANEL = "Engine (changes how long it takes, never the result)"


@dataclass(frozen=True)
class ClusterOptions:
    """An engine by name."""

    engine: str | None = option(
        "local: the cores of this machine; ray: a cluster.", panel=_PANEL, metavar="local|ray"
    )
    address: str | None = option(
        "Of the Ray cluster: auto for the one of this machine, or HOST:PORT. Without it, Ray is "
        "started here and ends with the command.",
        panel=_PANEL,
    )

    @contextmanager
    def cluster(
        self, checkpoint: Path | None = None, *, aside: bool = True
    ) -> Iterator[Engine | None]:
        """Give the cluster if one was asked for, and leave it at the end.

        What Ray prints meanwhile, such as that workers died, goes to stderr if it is to stay `aside` of
        the answer.
        """
        if self.engine not in (None, "local", "ray"):
            raise EngineError(f"--engine must be local or ray. Got {self.engine!r} instead.")
        if self.address is not None and self.engine != "ray":
            raise EngineError("--address is that of a Ray cluster: say --engine ray as well.")
        if self.engine != "ray":
            yield None
            return
        from tailproof.engines.ray import Ray

        with (
            redirect_stdout(sys.stderr) if aside else nullcontext(),
            Ray(address=self.address, checkpoint=checkpoint) as engine,
        ):
            yield engine


@dataclass(frozen=True)
class EngineOptions(ClusterOptions):
    """An engine that passes over a log."""

    workers: int | None = option(
        "Threads on this machine; one a core with --engine local, else a single one.",
        panel=_PANEL,
        min=1,
    )
    checkpoint: Path | None = option(
        "A folder for progress: the same command, started again, goes on where it was.",
        panel=_PANEL,
        file_okay=False,
    )

    @contextmanager
    def running(self) -> Iterator[Engine]:
        """Give the engine, and close it at the end."""
        if self.engine == "ray" and self.workers is not None:
            raise EngineError("--workers is for this machine; a Ray cluster knows its cores.")
        workers = self.workers or (0 if self.engine == "local" else 1)
        with (
            self.cluster(self.checkpoint) as cluster,
            Local(workers=workers, checkpoint=self.checkpoint) as local,
        ):
            yield cluster or local
