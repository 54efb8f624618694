"""What training measured on its way, and who is told."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.deep.settings import require_module

Measurements = Mapping[str, FloatArray]


@dataclass(frozen=True)
class Series:
    """One quantity over training: a row a measurement, a column a member."""

    steps: IntArray  # (R,)
    values: FloatArray  # (R, K)


@dataclass(frozen=True)
class History:
    """Named series: losses, Q scale, fold disagreement, evaluation returns.

    Examples
    --------
    >>> import numpy as np
    >>> history = History().with_row(100, {"q loss": np.array([2.0, 3.0])})
    >>> history.with_row(200, {"q loss": np.array([1.0, 2.0])})["q loss"].values.tolist()
    [[2.0, 3.0], [1.0, 2.0]]
    """

    series: Mapping[str, Series] = field(default_factory=dict)

    def __getitem__(self, name: str) -> Series:
        return self.series[name]

    def __contains__(self, name: object) -> bool:
        return name in self.series

    def with_row(self, step: int, measured: Measurements) -> History:
        """Return the history with one more row of each of these quantities."""
        grown = dict(self.series)
        for name, values in measured.items():
            row = np.atleast_1d(np.asarray(values, dtype=float))[None]
            if name in grown:
                before = grown[name]
                row = np.concatenate([before.values, row])
                steps = np.append(before.steps, step)
            else:
                steps = np.array([step])
            grown[name] = Series(steps, row)
        return History(grown)

    def joined(self, other: History, *, prefix: str = "") -> History:
        """Return both histories, the other's names after `prefix`."""
        renamed = {prefix + name: series for name, series in other.series.items()}
        return History({**self.series, **renamed})

    def arrays(self) -> dict[str, Any]:
        """Return the series as named arrays, for a checkpoint."""
        named: dict[str, Any] = {}
        for name, series in self.series.items():
            named[f"{name}/steps"] = series.steps.astype(np.int64)
            named[f"{name}/values"] = series.values
        return named

    @classmethod
    def from_arrays(cls, named: Mapping[str, Any]) -> History:
        """Return the history that `arrays` named."""
        names = [key.removesuffix("/steps") for key in named if key.endswith("/steps")]
        return cls(
            {
                name: Series(
                    np.asarray(named[f"{name}/steps"]), np.asarray(named[f"{name}/values"])
                )
                for name in names
            }
        )

    def to_csv(self, path: str | Path) -> None:
        """Write every measurement as a row: step, quantity, member, value."""
        Path(path).write_text(self._csv(), encoding="utf-8")

    def _csv(self) -> str:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(_HEADER)
        for name, series in self.series.items():
            for step, row in zip(series.steps, series.values, strict=True):
                writer.writerows(_rows(int(step), name, row))
        return text.getvalue()


_HEADER = ("step", "quantity", "member", "value")


def _rows(step: int, name: str, values: FloatArray) -> list[tuple[int, str, int, float]]:
    return [(step, name, member, float(value)) for member, value in enumerate(np.ravel(values))]


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
        for name, values in measured.items():
            writer.writerows(_rows(step, name, values))
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
