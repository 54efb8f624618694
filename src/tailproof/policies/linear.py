"""A policy for continuous actions that is linear in features of the state."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailproof.arrays import FloatArray, checked_states, one_or_many
from tailproof.errors import PolicyError
from tailproof.features import Polynomial


@dataclass(frozen=True, eq=False)
class LinearPolicy:
    """π(s) = ψ((s − mean) / scale)ᵀW within the bounds of the actions.

    ψ are a constant, main effects and pairwise products. Calling it with states (n, p) gives actions
    (n, q); with one state (p,), one action (q,).
    """

    weights: FloatArray  # (d, q)
    mean: FloatArray  # (p,)
    scale: FloatArray  # (p,)
    low: FloatArray  # (q,)
    high: FloatArray  # (q,)

    @one_or_many
    def __call__(self, states: FloatArray) -> FloatArray:
        """Return the action in each state, (n, q)."""
        given = checked_states(states, len(self.mean), PolicyError)
        actions = Polynomial()((given - self.mean) / self.scale) @ self.weights
        return np.asarray(np.clip(actions, self.low, self.high))

    def save(self, path: str | Path) -> None:
        """Write the policy as one ONNX graph; see `OnnxPolicy`."""
        from tailproof.export.graph import export_regression

        export_regression(self, path)
