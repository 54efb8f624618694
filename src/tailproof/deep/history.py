"""What training measured on its way."""

from __future__ import annotations

import csv
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tailproof.arrays import FloatArray, IntArray
from tailproof.deep.convergence import Convergence, convergence_of
from tailproof.files.frames import as_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Measurements = Mapping[str, FloatArray]


class Series(NamedTuple):
    """One quantity over training: one row per measurement, one column per member."""

    steps: IntArray  # (R,)
    values: FloatArray  # (R, K)


class Measurement(NamedTuple):
    """One number that training measured."""

    step: int
    quantity: str
    member: int
    value: float


@dataclass(frozen=True)
class History:
    """Named series: losses, Q scale, fold disagreement, values and time constants, evaluation returns.

    Iterating over it gives every `Measurement`.

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

    def __iter__(self) -> Iterator[Measurement]:
        for name, series in self.series.items():
            for step, row in zip(*series, strict=True):
                for member, value in enumerate(row):
                    yield Measurement(int(step), name, member, float(value))

    def __len__(self) -> int:
        """Return how many numbers were measured."""
        return sum(series.values.size for series in self.series.values())

    @property
    def quantities(self) -> tuple[str, ...]:
        """The names of what was measured."""
        return tuple(self.series)

    @property
    def convergence(self) -> Convergence:
        """How far the critics have come: time constants, values against returns, trend."""
        return convergence_of(self)

    def members(self, name: str) -> FloatArray:
        """Return a quantity of all members, (R, K), also where workers measured it apart."""
        found = [each.values for key, each in self.series.items() if key.split(": ")[-1] == name]
        return np.concatenate(found, axis=1) if found else np.empty((0, 1))

    def to_frame(self) -> Any:
        """Return a frame of step, quantity, member and value: pandas, or pyarrow without it."""
        return as_frame([measured._asdict() for measured in self])

    def plot(self, *quantities: str, ax: Axes | None = None) -> Any:
        """Draw quantities over steps, by default all: a panel each, and a line for each member.

        Returns the Axes of one quantity, or an array of Axes. `ax` is where to draw a single one.
        """
        from tailproof.plotting.results import plot_history  # matplotlib is for those who look

        return plot_history(self.series, quantities or self.quantities, ax=ax)

    def with_row(self, step: int, measured: Measurements) -> History:
        """Return the history with one more row of each of these quantities."""
        grown = dict(self.series)
        for name, values in measured.items():
            row = np.atleast_1d(np.asarray(values, dtype=float))[None]
            before = grown.get(name, Series(np.empty(0, int), row[:0]))
            grown[name] = Series(
                np.append(before.steps, step), np.concatenate([before.values, row])
            )
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
        kinds = ("steps", "values")
        return cls(
            {
                name: Series(*(np.asarray(named[f"{name}/{kind}"]) for kind in kinds))
                for name in names
            }
        )

    def to_csv(self, path: str | Path) -> None:
        """Write every measurement as a row: step, quantity, member, value."""
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            writer = csv.writer(file, lineterminator="\n")
            writer.writerow(Measurement._fields)
            writer.writerows(self)
