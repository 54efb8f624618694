"""Features of state, action and the policy's agreement, as the rungs of the ladder see them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from tailproof.algorithms.default.target import PolicyActions
from tailproof.arrays import AnyArray, FloatArray
from tailproof.features import Features, mixed_features


@dataclass(frozen=True)
class Map:
    """[φ(s, a), agreement(s, a)·ψ(s)]: ψ is what differs where the log acts as the policy would.

    Either part may be missing: φ alone knows nothing of the policy; ψ alone, where the log always
    agrees, is the critic V(s) of what was done.
    """

    features: Features | None
    state_features: Any = None

    def at(self, states: FloatArray, actions: AnyArray, agreement: FloatArray) -> FloatArray:
        """Return the features at n pairs, (n, d)."""
        own = None if self.features is None else self.features(states, actions)
        return self._joined(own, states, agreement[:, None])

    def under(self, policy: PolicyActions) -> FloatArray:
        """Return the expected features under the policy, (n, d): zero where nothing follows."""
        own = None
        if self.features is not None:
            own = mixed_features(self.features, policy.states, policy.actions, policy.weights)
        share = (policy.weights * policy.agreement).sum(axis=1, keepdims=True)
        return self._joined(own, policy.states, share)

    def _joined(self, own: FloatArray | None, states: FloatArray, share: FloatArray) -> FloatArray:
        if self.state_features is None:
            assert own is not None
            return own
        psi = np.asarray(self.state_features(states) * share)
        return psi if own is None else np.hstack([own, psi])

    @property
    def constant(self) -> FloatArray | None:
        """The θ with which the features are 1 everywhere, (d,); None if there is none that is known."""
        if self.features is None:
            return np.asarray(self.state_features.constant())
        known = getattr(self.features, "constant", None)
        if known is None or self.state_features is None:
            return None if known is None else known()
        return np.concatenate([known(), np.zeros(int(self.state_features.size(0)))])
