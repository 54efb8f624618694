"""What trains in one process, and what is measured of it: the clock, and values against returns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tailproof.arrays import FloatArray
from tailproof.data.log import Log
from tailproof.data.partition import Folds
from tailproof.deep.convergence import Yardstick
from tailproof.deep.data import Scaling, all_rows, member_rows
from tailproof.deep.implicit import ImplicitLearner
from tailproof.deep.train import Learner
from tailproof.ensemble.aggregate import Aggregate

_WATCHED = 512  # rows at which the members' Q are compared while they train, and V with returns


@dataclass(frozen=True)
class Part:
    """What trains in one process: some members, their folds and seeds."""

    log: Log
    gamma: float
    folds: Folds
    seeds: tuple[int, ...]
    scaling: Scaling
    limits: FloatArray
    settings: Any
    backup: Aggregate | None
    extra: Mapping[str, FloatArray]
    phase: str


def watched(part: Part) -> torch.Tensor:
    """Return the rows at which all members' Q are compared, (m,)."""
    rows = all_rows(part.log, part.folds)
    chosen = rows[:: max(1, len(rows) // _WATCHED)][:_WATCHED]
    return torch.from_numpy(chosen).to(part.settings.run.device)


def yardstick(part: Part) -> Yardstick:
    """Return the clock of this training, and the returns of rows that each member sees."""
    seen = member_rows(part.log, part.folds)
    count = min(_WATCHED, *map(len, seen))
    rows = np.stack([each[np.linspace(0, len(each) - 1, count).astype(int)] for each in seen])
    return Yardstick.of(part.log, rows, part.gamma, part.settings)


def measure(learner: Learner, part: Part) -> Callable[[int], dict[str, FloatArray]]:
    """Return what measures time constants, mean values and, where there is a V, logged returns."""
    against, device = yardstick(part), part.settings.run.device
    rows, ends = (torch.from_numpy(each).to(device) for each in (against.rows, against.ends))
    everywhere, unit = watched(part), part.scaling.reward_scale

    def measured(steps: int) -> dict[str, FloatArray]:
        found = {"time constants": np.array([against.time_constants(steps)])}
        if not isinstance(learner, ImplicitLearner):
            return {**found, "mean value": learner.probe(everywhere).mean(1).cpu().numpy() / unit}
        values = learner.state_values(rows).cpu().numpy()
        gap = learner.twins_gap(rows).cpu().numpy()
        beyond = against.carried * learner.state_values(ends, after=True).cpu().numpy()
        return {
            **found,
            "mean value": (values - beyond).mean(axis=1) / unit,
            "logged return": against.returns.mean(axis=1),
            # V loses the gap at every step that it looks ahead, and Q inherits V's loss.
            "pessimism": gap * against.ahead.mean(axis=1) / unit,
        }

    return measured
