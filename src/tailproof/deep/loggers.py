"""Who is told what training measures while it goes on."""

from __future__ import annotations

import csv
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tailproof.deep.history import History, Measurements
from tailproof.deep.settings import require_module


class Logger(Protocol):
    """Someone who is told what training measures."""

    def start(self, phase: str, history: History) -> None:
        """Begin a phase (``"critics"``, ``"policy"``), after what a resumed run already measured."""

    def write(self, step: int, measured: Measurements) -> None:
        """Take one row."""

    def close(self) -> None:
        """End the phase."""


@dataclass
class CSVLogger:
    """Writes ``<folder>/<phase>.csv`` while training goes on: step, quantity, member, value."""

    folder: str | Path
    _file: Any = field(default=None, init=False, repr=False)

    def start(self, phase: str, history: History) -> None:
        """Begin a file with what is already known; a resumed run repeats nothing."""
        folder = Path(self.folder)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{phase}.csv"
        history.to_csv(path)
        self._file = path.open("a", encoding="utf-8", newline="")

    def write(self, step: int, measured: Measurements) -> None:
        """Append one row for each quantity and member."""
        writer = csv.writer(self._file, lineterminator="\n")
        writer.writerows(History().with_row(step, measured))
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


@dataclass
class TensorBoardLogger:
    """Writes TensorBoard event files to ``<folder>/<phase>``; needs the package tensorboard."""

    folder: str | Path
    _writer: Any = field(default=None, init=False, repr=False)

    def start(self, phase: str, history: History) -> None:
        """Begin to write; TensorBoard drops what a resumed run repeats after this step."""
        require_module("tensorboard", "tensorboard", "TensorBoard logs")
        from torch.utils.tensorboard import SummaryWriter

        steps = [int(series.steps[-1]) for series in history.series.values()]
        self._writer = SummaryWriter(
            str(Path(self.folder) / phase), purge_step=max(steps) + 1 if steps else None
        )

    def write(self, step: int, measured: Measurements) -> None:
        """Add a scalar for each quantity and member."""
        for name, value in _scalars(measured).items():
            self._writer.add_scalar(name, value, step)

    def close(self) -> None:
        """Flush and close."""
        self._writer.close()


@dataclass
class MLflowLogger:
    """Reports to the active MLflow run; needs the package mlflow."""

    _phase: str = field(default="", init=False, repr=False)

    def start(self, phase: str, history: History) -> None:  # noqa: ARG002
        """Name the phase."""
        self._phase = phase

    def write(self, step: int, measured: Measurements) -> None:
        """Log a metric for each quantity and member."""
        mlflow = require_module("mlflow", "mlflow", "MLflow logs")
        named = {f"{self._phase}/{name}": value for name, value in _scalars(measured).items()}
        mlflow.log_metrics(named, step=step)

    def close(self) -> None:
        """Leave the run open: it is the caller's."""


@dataclass
class WandbLogger:
    """Reports to a Weights & Biases run, for instance ``wandb.init(...)``."""

    run: Any
    _phase: str = field(default="", init=False, repr=False)

    def start(self, phase: str, history: History) -> None:  # noqa: ARG002
        """Name the phase and give it its own step."""
        self._phase = phase
        self.run.define_metric(f"{phase}/step")
        self.run.define_metric(f"{phase}/*", step_metric=f"{phase}/step")

    def write(self, step: int, measured: Measurements) -> None:
        """Log a value for each quantity and member."""
        named: dict[str, float] = {
            f"{self._phase}/{name}": value for name, value in _scalars(measured).items()
        }
        self.run.log({f"{self._phase}/step": step, **named})

    def close(self) -> None:
        """Leave the run open: it is the caller's."""


def _scalars(measured: Measurements) -> dict[str, float]:
    """Return a name for each member's value; the bare name where there is one value."""
    named = {}
    for name, values in measured.items():
        flat = np.ravel(values)
        for member, value in enumerate(flat):
            named[name if len(flat) == 1 else f"{name}/{member}"] = float(value)
    return named
