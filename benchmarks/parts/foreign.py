"""Values, gains and bounds in worlds written without a view to how the default decides.

Targets: 90 % intervals of values hold in 88 % of the logs, of gains in 87 %, lower bounds in 88 %;
given for 90 %; hidden state is said in 90 % of the logs that have it and in 5 % of the others.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.parts import hard
from benchmarks.parts.foreign_worlds import FOREIGN_HIDDEN, FOREIGN_MARKOV
from benchmarks.parts.records import Records
from benchmarks.parts.worlds import World, truth

NAMES = ("truth", "rmse", "given", "held", "gain_held", "bound", "width", "said", "seconds")
LIMITS = {"given": 0.9, "held": 0.88, "gain_held": 0.87, "bound": 0.88}


def measure(
    folder: Path | None,  # noqa: ARG001 needs no files
    records: Records,
    *,
    logs: int,
    quick: bool,  # noqa: ARG001 no figure depends on it
    seed: int,
) -> tuple[dict[str, Any], list[str]]:
    """Measure the default in every world; return what was found, and the targets missed."""
    logs, cells = min(logs, 30), {}
    for made in (*FOREIGN_HIDDEN, *FOREIGN_MARKOV):
        world, name = made(), made.__name__
        exact = records.once(f"truths of {name}", lambda w=world: [truth(w), truth(w, "behaviour")])
        rows = np.array(
            [
                records.once(f"{name}, log {i}, seed {seed}", lambda w=world, s=seed + i: one(w, s))
                for i in range(logs)
            ]
        )
        found = dict(zip(hard.COLUMNS, rows.T, strict=False))
        cells[name] = hard.cell(found, *exact) | {"said": float(rows[:, -1].mean())}
    shares = hard.pooled(cells)
    missed = [
        f"{what} {shares[what]:.3f} pooled (limit {limit})"
        for what, limit in LIMITS.items()
        if shares[what] < limit - 1e-9
    ]
    for worlds, low, high in ((FOREIGN_HIDDEN, 0.9, 1.0), (FOREIGN_MARKOV, 0.0, 0.05)):
        said = float(np.mean([cells[made.__name__]["said"] for made in worlds]))
        if not low - 1e-9 <= said <= high + 1e-9:
            missed.append(f"hidden state said in {said:.2f} (asked {low} to {high})")
    return {"cells": cells, **shares}, missed


def one(world: World, seed: int) -> list[float]:
    """Return the columns of one log, and whether hidden state was said."""
    estimate, seconds = hard.evaluated(world, seed)
    said = any(each.code == "hidden_state" for each in estimate.cautions)
    return [*hard.columns(estimate, seconds), float(said)]


def show(record: dict[str, Any]) -> None:
    """Print what was found."""
    print(f"{'world':14}" + "".join(f"{name:>11}" for name in NAMES))
    for world, cell in record["cells"].items():
        print(f"{world:14}" + "".join(f"{cell[name]:11.4g}" for name in NAMES))
    print(", ".join(f"{name} {record[name]:.3f}" for name in LIMITS))
