"""Ten worlds in which the default was wrong without a warning: values, gains, bounds and the gate.

Targets: 90 % intervals of values hold in 88 % of the logs, those of gains in 87 %, lower bounds in
88 %; policies that leave the log have no answer in 90 % of logs, others have one in 90 %; a policy
without effect passes in at most 12 %.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.parts.hard_worlds import HARD_WORLDS, ChurnNull, NeverScale
from benchmarks.parts.records import Records
from benchmarks.parts.sequential import LEVEL, _short
from benchmarks.parts.worlds import World, draw_log, target_policy, truth
from tailproof import Estimate, evaluate
from tailproof.errors import LevelError

COLUMNS = (
    "value",
    "low",
    "high",
    "bound",
    "gain",
    "gain_low",
    "gain_high",
    "gain_bound",
    "seconds",
    "said",
)


def measure(
    folder: Path | None,  # noqa: ARG001 needs no files
    records: Records,
    *,
    logs: int,
    quick: bool,
    seed: int,
) -> tuple[dict[str, Any], list[str]]:
    """Measure the default in every world; return what was found, and the targets missed."""
    cells = cells_of(HARD_WORLDS, records, logs=min(logs, 30), seed=seed)
    return {"cells": cells, **pooled(cells)}, _missed(cells, min(logs, 30), exact=not quick)


def cells_of(
    worlds: Sequence[type[World]], records: Records, *, logs: int, seed: int
) -> dict[str, dict[str, float]]:
    """Evaluate the target on some logs of each world."""
    cells = {}
    for made in worlds:
        world, name = made(), made.__name__
        exact = records.once(f"truths of {name}", lambda w=world: [truth(w), truth(w, "behaviour")])
        rows = [
            records.once(
                f"{name}, log {i}, seed {seed}",
                lambda w=world, s=seed + i: columns(*evaluated(w, s)),
            )
            for i in range(logs)
        ]
        cells[name] = cell(dict(zip(COLUMNS, np.array(rows).T, strict=True)), *exact)
    return cells


def evaluated(world: World, seed: int) -> tuple[Estimate, float]:
    """Evaluate the target on one log; return CPU seconds too."""
    log = draw_log(world, seed)
    began = time.process_time()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        estimate = evaluate(log, target_policy(world), gamma=world.gamma)
    return estimate, time.process_time() - began


def columns(estimate: Estimate, seconds: float) -> list[float]:
    """Return what `COLUMNS` names of an estimate; NaN where nothing is given."""
    gain, nothing = estimate.gain, [np.nan] * 3
    said = float(any(each.code == "hidden_state" for each in estimate.cautions))
    try:
        own, other = estimate.interval(LEVEL), gain.interval(LEVEL)
    except LevelError:
        return [estimate.value, *nothing, gain.value, *nothing, seconds, said]
    ends = own.low, own.high, estimate.lower_bound(LEVEL).value
    gain_ends = other.low, other.high, gain.lower_bound(LEVEL).value
    return [estimate.value, *ends, gain.value, *gain_ends, seconds, said]


def cell(found: dict[str, Any], value: float, logged: float) -> dict[str, float]:
    given, gain = np.isfinite(found["low"]), value - logged

    def share(holds: Any) -> float:
        return float(holds[given].mean()) if given.any() else np.nan

    return {
        "truth": value,
        "rmse": float(np.sqrt(np.mean((found["value"] - value) ** 2))),
        "gain_rmse": float(np.sqrt(np.mean((found["gain"] - gain) ** 2))),
        "given": float(given.mean()),
        "held": share((found["low"] <= value) & (value <= found["high"])),
        "gain_held": share((found["gain_low"] <= gain) & (gain <= found["gain_high"])),
        "bound": share(found["bound"] <= value),
        "passes": share(found["gain_bound"] > 0),
        "width": float(np.median((found["high"] - found["low"])[given])) if given.any() else np.nan,
        "said": float(found["said"].mean()),
        "seconds": float(np.median(found["seconds"])),
    }


def pooled(cells: dict[str, dict[str, float]]) -> dict[str, float]:
    stays = [cell for name, cell in cells.items() if name != NeverScale.__name__]
    given = np.array([cell["given"] for cell in stays])
    shares = {"given": float(given.mean())}
    for what in ("held", "gain_held", "bound"):
        shares[what] = float(np.nansum([c[what] * c["given"] for c in stays]) / given.sum())
    return shares


def _missed(cells: dict[str, dict[str, float]], logs: int, *, exact: bool) -> list[str]:
    shares, count = pooled(cells), logs * (len(cells) - 1)
    limits = {"given": 0.9, "held": 0.88, "gain_held": 0.87, "bound": 0.88}
    missed = [
        f"{what} {shares[what]:.3f} pooled (limit {limit})"
        for what, limit in limits.items()
        if _short(shares[what], limit, count, exact=exact)
    ]
    if _short(1 - cells[NeverScale.__name__]["given"], 0.9, logs, exact=exact):
        missed.append("a policy that leaves the log has an answer")
    if _short(1 - cells[ChurnNull.__name__]["passes"], 0.88, logs, exact=exact):
        missed.append("a policy without effect passes")
    return missed


def show(record: dict[str, Any]) -> None:
    """Print what was found."""
    names = (
        "truth",
        "rmse",
        "given",
        "held",
        "gain_held",
        "bound",
        "passes",
        "width",
        "said",
        "seconds",
    )
    print(f"{'world':18}" + "".join(f"{name:>10}" for name in names))
    for world, cell in record["cells"].items():
        print(f"{world:18}" + "".join(f"{cell[name]:10.4g}" for name in names))
    pooled = ("given", "held", "gain_held", "bound", "passes")
    shares = ", ".join(f"{name} {record[name]:.3f}" for name in pooled if name in record)
    print(f"pooled: {shares}")
