"""What every contender trains on, and the matrix products that nobody can do without."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from tailproof import Log, Replicate, Split
from tailproof.deep.bases import TrainsCritics
from tailproof.deep.data import Scaling
from tailproof.deep.fitting import MemberGroup
from tailproof.robust.aggregates import Aggregate

STATES, ACTIONS, ROWS, BATCH = 17, 6, 20_000, 256


def group(
    settings: TrainsCritics, members: int = 1, backup: Aggregate | None = None
) -> MemberGroup:
    """Return members of one group: each a part of the log or, with a backup, all of it."""
    rng = np.random.default_rng(0)
    states, actions = rng.standard_normal((ROWS, STATES)), rng.uniform(-1, 1, (ROWS, ACTIONS))
    log = Log.from_arrays(
        states,
        actions,
        rng.standard_normal(ROWS),
        rng.standard_normal((ROWS, STATES)),
        episode=np.arange(ROWS) // 100,
    )
    partition = Split(members) if backup is None else Replicate(members)
    scaling = Scaling.of(log, standardise=False, reward_scale=1.0)
    folds = partition.assign(log, rng)
    return MemberGroup(log, 0.99, folds, tuple(range(members)), scaling, settings, backup)


def products(members: int, hidden: tuple[int, ...]) -> Callable[[int], None]:
    """Return the matrix products of one stacked IQL step and nothing else."""
    calls: list[tuple[Tensor, Tensor, Tensor]] = []

    def add(count: int, rows: int, wide: int, out: int) -> None:
        calls.append(
            (
                torch.randn(count, rows, wide),
                torch.randn(count, wide, out),
                torch.empty(count, rows, out),
            )
        )

    def network(count: int, forward: int, backward: int, widths: tuple[int, ...]) -> None:
        for layer, (wide, out) in enumerate(pairwise(widths)):
            add(count, forward, wide, out)
            if backward:
                add(count, wide, backward, out)  # by the weights
                if layer:
                    add(count, backward, out, wide)  # by what entered

    pairs, states = (STATES + ACTIONS, *hidden, 1), (STATES, *hidden, 1)
    network(2 * members, BATCH, BATCH, pairs)
    network(2 * members, BATCH, 0, pairs)
    network(members, 2 * BATCH, BATCH, states)
    # The last layer's products have one column, and are fastest transposed.
    thin = [call for call in calls if 1 in call[2].shape[1:] or call[0].shape[2] == 1]
    wide = [call for call in calls if not (1 in call[2].shape[1:] or call[0].shape[2] == 1)]

    def run(step: int) -> None:  # noqa: ARG001
        for left, right, result in wide:
            torch.bmm(left, right, out=result)
        for left, right, result in thin:
            if left.shape[2] == 1:
                torch.mul(left, right, out=result)
            else:
                torch.bmm(right.mT, left.mT, out=result.mT)

    return run
