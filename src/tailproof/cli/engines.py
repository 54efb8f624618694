"""Where the work of a command runs."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from tailproof.engines import Engine, Local
from tailproof.errors import EngineError

_PANEL = "Engine (changes how long it takes, never the result)"


@dataclass(frozen=True)
class ClusterOptions:
    """An engine by name."""

    engine: Annotated[
        str | None,
        typer.Option(
            help="local: the cores of this machine; ray: a cluster.",
            metavar="local|ray",
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None
    address: Annotated[
        str | None,
        typer.Option(
            help="Of the Ray cluster: auto for the one of this machine, or HOST:PORT. Without it, "
            "Ray is started here and ends with the command.",
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None

    @contextmanager
    def cluster(self, *, aside: bool = True) -> Iterator[Engine | None]:
        """Give the cluster if one was asked for, and leave it at the end.

        What is printed meanwhile goes to stderr if it is to stay `aside` of the answer: Ray tells of
        workers that died.
        """
        self._check()
        if self.engine != "ray":
            yield None
            return
        with redirect_stdout(sys.stderr) if aside else nullcontext(), self._ray(None) as engine:
            yield engine

    def _check(self) -> None:
        if self.engine not in (None, "local", "ray"):
            raise EngineError(f"--engine must be local or ray. Got {self.engine!r} instead.")
        if self.address is not None and self.engine != "ray":
            raise EngineError("--address is that of a Ray cluster: say --engine ray as well.")

    def _ray(self, checkpoint: Path | None) -> Engine:
        from tailproof.engines.ray import Ray

        return Ray(address=self.address, checkpoint=checkpoint)


@dataclass(frozen=True)
class EngineOptions(ClusterOptions):
    """An engine that passes over a log."""

    workers: Annotated[
        int | None,
        typer.Option(
            help="Threads on this machine; one a core with --engine local, else a single one.",
            min=1,
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None
    checkpoint: Annotated[
        Path | None,
        typer.Option(
            help="A folder for progress: the same command, started again, goes on where it was.",
            file_okay=False,
            rich_help_panel=_PANEL,
            show_default=False,
        ),
    ] = None

    @contextmanager
    def running(self) -> Iterator[Engine]:
        """Give the engine, and close it at the end."""
        self._check()
        if self.engine == "ray":
            if self.workers is not None:
                raise EngineError("--workers is for this machine; a Ray cluster knows its cores.")
            with redirect_stdout(sys.stderr), self._ray(self.checkpoint) as engine:
                yield engine
        else:
            workers = self.workers or (0 if self.engine == "local" else 1)
            with Local(workers=workers, checkpoint=self.checkpoint) as engine:
                yield engine
