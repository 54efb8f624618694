"""Ten worlds in which the value is mostly not linear in the state, and nothing is given but the log.

Targets, against the default of version 0.1 (LSTD on raw polynomials) on the same logs, whose errors are
in `results/before.json`:

1. RMSE at most 0.25 of it in the geometric mean, no world above 1.15.
2. 90 % intervals in at least 75 % of logs, held by at least 87 % pooled and 82 % in every world; lower
   bounds (90 %) by at least 88 %. The same on logs of ten times as many episodes (part "tenfold").
"""

from __future__ import annotations

import json
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import binom

from benchmarks.parts.records import Records
from benchmarks.parts.worlds import WORLDS, World, draw_log, target_policy, truth
from tailproof import evaluate
from tailproof.arrays import FloatArray
from tailproof.errors import LevelError

LEVEL = 0.9
BEFORE = Path(__file__).parent.parent / "results" / "before.json"
CHANCE = 1e-3


def measure(
    folder: Path | None,  # noqa: ARG001 needs no files
    records: Records,
    *,
    logs: int,
    quick: bool,
    seed: int,
    tenfold: bool = False,
) -> tuple[dict[str, Any], list[str]]:
    """Measure the default in every world; return what was found, and the targets missed."""
    logs = min(logs, 8 if tenfold else 30)
    before = json.loads(BEFORE.read_text(encoding="utf-8"))
    cells = {}
    for made in WORLDS:
        world, name = made(), made.__name__
        size = world.episodes * (10 if tenfold else 1)
        exact = records.once(f"truth of {name}", lambda w=world: [truth(w)])[0]
        rows = [
            records.once(
                f"{name}, {size} episodes, log {i}, seed {seed}",
                lambda w=world, n=size, s=seed + i: _one(w, n, s),
            )
            for i in range(logs)
        ]
        known = before["errors"].get(name, []) if seed == before["seed"] and not tenfold else []
        cells[name] = _cell(np.array(rows), exact, np.array(known[:logs]))
    return {"cells": cells, **_pooled(cells)}, _missed(cells, logs, exact=not quick)


def measure_tenfold(*given: Any, **options: Any) -> tuple[dict[str, Any], list[str]]:
    """Measure the same with ten times as many episodes."""
    return measure(*given, **options, tenfold=True)


def _one(world: World, episodes: int, seed: int) -> list[float]:
    """Return value, interval, bound and seconds of one log; NaN where nothing is given."""
    log = draw_log(world, seed, episodes)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # actions that a small log never took
        estimate = evaluate(log, target_policy(world), gamma=world.gamma)
    seconds = time.process_time() - began
    try:
        interval, bound = estimate.interval(LEVEL), estimate.lower_bound(LEVEL)
    except LevelError:
        return [estimate.value, np.nan, np.nan, np.nan, seconds]
    return [estimate.value, interval.low, interval.high, bound.value, seconds]


def _cell(rows: FloatArray, exact: float, before: FloatArray) -> dict[str, float]:
    value, low, high, bound, seconds = rows.T
    printed = np.isfinite(low)
    rmse = float(np.sqrt(np.mean((value - exact) ** 2)))
    return {
        "truth": exact,
        "rmse": rmse,
        "bias": float(value.mean() - exact),
        "ratio": rmse / float(np.sqrt(np.mean(before**2))) if len(before) else np.nan,
        "printed": float(printed.mean()),
        "coverage": float(((low <= exact) & (exact <= high))[printed].mean()),
        "bound_holds": float((bound <= exact)[printed].mean()),
        "half_width": float(np.median((high - low)[printed] / 2)) if printed.any() else np.nan,
        "seconds": float(np.median(seconds)),
    }


def _pooled(cells: dict[str, dict[str, float]]) -> dict[str, float]:
    def over(what: str) -> FloatArray:
        return np.array([cell[what] for cell in cells.values()])

    printed = over("printed")
    return {
        "ratio": float(np.exp(np.log(over("ratio")).mean())),
        "printed": float(printed.mean()),
        "coverage": float(np.nansum(over("coverage") * printed) / printed.sum()),
        "bound_holds": float(np.nansum(over("bound_holds") * printed) / printed.sum()),
    }


def _missed(cells: dict[str, dict[str, float]], logs: int, *, exact: bool) -> list[str]:
    pooled, missed = _pooled(cells), []
    if exact and pooled["ratio"] > 0.25:
        missed.append(f"1: RMSE {pooled['ratio']:.3f} of that before (limit 0.25)")
    if exact:
        missed += [
            f"1: {name}: RMSE {cell['ratio']:.2f} of that before (limit 1.15)"
            for name, cell in cells.items()
            if cell["ratio"] > 1.15
        ]
    if pooled["printed"] < 0.75:
        missed.append(f"2: intervals in {pooled['printed']:.0%} of logs (limit 75 %)")
    for what, limit in (("coverage", 0.87), ("bound_holds", 0.88)):
        if _short(pooled[what], limit, logs * len(cells), exact=exact):
            missed.append(f"2: {what} {pooled[what]:.3f} pooled (limit {limit})")
    missed += [
        f"2: {name}: coverage {cell['coverage']:.3f} (limit 0.82)"
        for name, cell in cells.items()
        if _short(cell["coverage"], 0.82, logs, exact=exact)
    ]
    return missed


def _short(share: float, limit: float, logs: int, *, exact: bool) -> bool:
    """Return whether a share of logs is below a limit: as it is, or beyond chance."""
    if exact:
        return share < limit - 1e-9
    return bool(binom.cdf(round(share * logs), logs, limit) < CHANCE)


def show(record: dict[str, Any]) -> None:
    """Print what was found."""
    print(
        f"{'world':14} {'truth':>9} {'RMSE':>8} {'bias':>8} {'ratio':>6} {'given':>6} {'cover':>6} "
        f"{'bound':>6} {'half':>8} {'s':>5}"
    )
    for name, cell in record["cells"].items():
        print(
            f"{name:14} {cell['truth']:9.4g} {cell['rmse']:8.3g} {cell['bias']:8.2g} "
            f"{cell['ratio']:6.2f} {cell['printed']:6.2f} {cell['coverage']:6.2f} "
            f"{cell['bound_holds']:6.2f} {cell['half_width']:8.3g} {cell['seconds']:5.2f}"
        )
    print(
        f"{'all':14} {'':9} {'':8} {'':8} {record['ratio']:6.2f} {record['printed']:6.2f} "
        f"{record['coverage']:6.3f} {record['bound_holds']:6.3f}"
    )
