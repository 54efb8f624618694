"""Values, gains and bounds in worlds written without a view to how the default decides.

Targets: 90 % intervals of values hold in 88 % of the logs, of gains in 87 %, lower bounds in 88 %;
given for 90 %; hidden state is said in 90 % of the logs that have it and in 5 % of the others.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.parts import hard
from benchmarks.parts.records import Records
from benchmarks.parts.worlds import World

LIMITS = {"given": 0.9, "held": 0.88, "gain_held": 0.87, "bound": 0.88}


def measure(
    hidden: Sequence[type[World]],
    markov: Sequence[type[World]],
    folder: Path | None,  # noqa: ARG001 needs no files
    records: Records,
    *,
    logs: int,
    quick: bool,  # noqa: ARG001 no figure depends on it
    seed: int,
) -> tuple[dict[str, Any], list[str]]:
    """Measure the default in worlds whose log hides something, and in others that log all."""
    cells = hard.cells_of((*hidden, *markov), records, logs=min(logs, 30), seed=seed)
    shares = hard.pooled(cells)
    missed = [
        f"{what} {shares[what]:.3f} pooled (limit {limit})"
        for what, limit in LIMITS.items()
        if shares[what] < limit - 1e-9
    ]
    for worlds, low, high in ((hidden, 0.9, 1.0), (markov, 0.0, 0.05)):
        said = float(np.mean([cells[made.__name__]["said"] for made in worlds]))
        if not low - 1e-9 <= said <= high + 1e-9:
            missed.append(f"hidden state said in {said:.2f} (asked {low} to {high})")
    return {"cells": cells, **shares}, missed


def recorded(
    folder: Path | None,  # noqa: ARG001 needs no files
    records: Records,
    *,
    logs: int,
    quick: bool,  # noqa: ARG001
    seed: int,
) -> tuple[dict[str, Any], list[str]]:
    """Show the prototypes' cells, of which the project has records only."""
    cells = {}
    for name in records.names("truths of prototype "):
        known = (records.known(f"{name}, log {i}, seed {seed}") for i in range(logs))
        if not (rows := [row for row in known if row]):
            continue
        found = dict(zip(hard.COLUMNS, np.array(rows).T, strict=True))
        cells[name] = hard.cell(found, *(records.known(f"truths of {name}") or ()))
    return {"cells": cells, **(hard.pooled(cells) if cells else {})}, []


show = hard.show
