"""What every contender trains on, and the matrix products that nobody can do without."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from tailproof.deep.data import Table

STATES, ACTIONS, ROWS, BATCH = 17, 6, 20_000, 256


def table() -> Table:
    rng = np.random.default_rng(0)
    return Table(
        {
            "actions": rng.uniform(-1, 1, (ROWS, ACTIONS)),
            "states": rng.standard_normal((ROWS, STATES)),
            "next_states": rng.standard_normal((ROWS, STATES)),
            "rewards": rng.standard_normal((ROWS, 1)),
            "discounts": np.full((ROWS, 1), 0.99),
            "weights": rng.exponential(size=(ROWS, 1)),
        }
    )


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
    # The last layer's products have one column: matrix-vector products, as in the learner.
    thin = [call for call in calls if 1 in call[2].shape[1:] or call[0].shape[2] == 1]
    wide = [call for call in calls if not (1 in call[2].shape[1:] or call[0].shape[2] == 1)]

    def run(step: int) -> None:  # noqa: ARG001
        for left, right, result in wide:
            torch.bmm(left, right, out=result)
        for left, right, result in thin:
            if left.shape[2] == 1:
                torch.mul(left, right, out=result)
            else:
                for a, b, c in zip(left, right, result, strict=True):
                    torch.mv(a, b[:, 0], out=c[:, 0])

    return run
