"""Loggers that receive the rows of the history during training."""

from __future__ import annotations

import csv
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np

from tailproof.deep.history import History, Measurements
from tailproof.errors import require_module


class Logger(ABC):
    """Receives every row of the history."""

    phase = ""

    def start(self, phase: str, history: History) -> None:  # noqa: ARG002
        """Begin a phase (``"critics"``, ``"policy"``); a resumed run passes its history so far."""
        self.phase = phase

    @abstractmethod
    def write(self, step: int, measured: Measurements) -> None:
        """Write one row."""

    def close(self) -> None:  # noqa: B027
        """End the phase; by default nothing, where the run is the caller's."""


@dataclass
class CSVLogger(Logger):
    """Writes ``<folder>/<phase>.csv`` during training: step, quantity, member, value."""

    folder: str | Path

    def start(self, phase: str, history: History) -> None:
        """Start a file with the history so far, so that a resumed run has no duplicates."""
        path = Path(self.folder) / f"{phase}.csv"
        path.parent.mkdir(parents=True, exist_ok=True)
        history.to_csv(path)
        self._file = path.open("a", encoding="utf-8", newline="")

    def write(self, step: int, measured: Measurements) -> None:
        """Append one row per quantity and member."""
        writer = csv.writer(self._file, lineterminator="\n")
        writer.writerows(History().with_row(step, measured))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass
class TensorBoardLogger(Logger):
    """Writes TensorBoard event files to ``<folder>/<phase>``; needs the package tensorboard."""

    folder: str | Path

    def start(self, phase: str, history: History) -> None:
        """Open the writer; TensorBoard drops rows that a resumed run writes again."""
        require_module("tensorboard", "tensorboard", "A TensorBoard log")
        from torch.utils.tensorboard import SummaryWriter

        known = max((int(each.steps[-1]) + 1 for each in history.series.values()), default=None)
        self._writer = SummaryWriter(str(Path(self.folder) / phase), purge_step=known)

    def write(self, step: int, measured: Measurements) -> None:
        """Add one scalar per quantity and member."""
        for name, value in _scalars(measured).items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()


@dataclass
class MLflowLogger(Logger):
    """Reports to the active MLflow run; needs the package mlflow."""

    def write(self, step: int, measured: Measurements) -> None:
        """Log one metric per quantity and member."""
        mlflow = require_module("mlflow", "mlflow", "An MLflow log")
        mlflow.log_metrics(_scalars(measured, f"{self.phase}/"), step=step)


class WandbRun(Protocol):
    """What ``wandb.init(...)`` returns, as far as it is needed."""

    def define_metric(self, name: str, step_metric: str | None = None) -> object:
        """Give a metric its own step."""

    def log(self, data: dict[str, float]) -> object:
        """Log one value per name."""


@dataclass
class WandbLogger(Logger):
    """Reports to a Weights & Biases run, for instance ``wandb.init(...)``."""

    run: WandbRun

    def start(self, phase: str, history: History) -> None:
        """Name the phase and give it its own step."""
        super().start(phase, history)
        self.run.define_metric(f"{phase}/step")
        self.run.define_metric(f"{phase}/*", step_metric=f"{phase}/step")

    def write(self, step: int, measured: Measurements) -> None:
        """Log one value per quantity and member."""
        self.run.log({f"{self.phase}/step": step, **_scalars(measured, f"{self.phase}/")})


def _scalars(measured: Measurements, prefix: str = "") -> dict[str, float]:
    """Return the values by name and member; by name alone if there is one value."""
    return {
        prefix + (name if np.size(values) == 1 else f"{name}/{member}"): float(value)
        for name, values in measured.items()
        for member, value in enumerate(np.ravel(values))
    }
