"""IQL and SQL: values learned in the sample, for K members at once."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from tailproof.arrays import FloatArray
from tailproof.deep.critic_learner import CriticLearner
from tailproof.deep.data import Transitions
from tailproof.deep.fitting import MemberGroup
from tailproof.deep.history import returns_to_go
from tailproof.deep.networks import Pass, Shape, initialise


class ImplicitLearner(CriticLearner):
    """Q_k and V_k of K members: V by IQL's or SQL's loss, Q by regression on r + γ(1 − terminal)V(s').

    All gradients of a step are taken at the parameters before it, so that one optimiser step serves
    Q and V. With a `backup`, aggregate_k Q_k(s, a) and aggregate_k V_k(s') take the members' place in
    both targets.
    """

    def __init__(self, group: MemberGroup) -> None:
        settings, backup = group.settings, group.backup
        states = group.transitions["states"].shape[1]
        shape = Shape(len(group.seeds), (states, *settings.hidden, 1))
        super().__init__(
            group, backup=backup, twins=settings.twins, huber=settings.huber, others={"v": shape}
        )
        self.settings = settings
        self.v = self.parameters.stacks["v"]
        initialise(self.v, group.seeds, stream=3)
        self._values = Pass(self.v, 2 * self.batch, self.parameters.gradients["v"])
        self._after = Pass(self.v, self.rows) if self.rows > self.batch else None
        self._states = self.v.flat.new_empty(self.members, 2 * self.batch, states)
        self._last = (self._error, self._error)
        self._recorded = _Recorded(group)

    def gradients(self, step: int) -> None:
        """Write the gradient of every parameter at this step's batch."""
        batch = self.table.gather(self.draws(step))
        rows = self.batch
        self._states[:, :rows].copy_(batch["states"])
        self._states[:, rows:].copy_(batch["next_states"])
        values = self._values.forward(self._states).squeeze(-1)  # (K, 2B)
        value, after = values[:, :rows], values[:, rows:]
        slow = self.at_logged(self.slow_values(self.inputs(batch)), self.spread(batch["actions"]))
        advantage = self.agreed(slow) - value  # (K, B)
        self.regress(batch, self._agreed_after(batch, after))
        self._values.backward(self.settings.value_gradient(advantage).unsqueeze(-1))
        self._last = (advantage, value)

    def _agreed_after(self, batch: Transitions, after: Tensor) -> Tensor:
        if self._after is not None:
            everywhere = self.spread(batch["next_states"]).expand(self.members, -1, -1)
            after = self._after.forward(everywhere).squeeze(-1)
        return self.agreed(after)

    def metrics(self) -> dict[str, Tensor]:
        """Return the last step's losses by member, (K,)."""
        return {**super().metrics(), "v loss": self.settings.value_loss(*self._last)}

    def mean_values(self) -> dict[str, FloatArray]:
        """Return mean V, the returns that were recorded, and what the smaller of two Q takes."""
        seen, unit = self._recorded, self.group.scaling.reward_scale
        every = self.every_slow(self.table.gather(seen.rows))  # (T, K, m)
        gap = (every.mean(0) - every.amin(0)).mean(1).cpu().numpy()
        values = self.v(self.table["states"][seen.rows]).squeeze(-1).cpu().numpy()
        after = self.v(self.table["next_states"][seen.ends]).squeeze(-1).cpu().numpy()
        return {
            "mean value": (values - seen.carried * after).mean(axis=1) / unit,
            "logged return": seen.returns.mean(axis=1),
            # V loses the gap at every step that it looks ahead, and Q inherits V's loss.
            "pessimism": gap * seen.ahead.mean(axis=1) / unit,
        }


class _Recorded:
    """What the log recorded from some rows of each member on, (K, m) each.

    Attributes
    ----------
    rows, ends
        The rows, and the last row of the episode of each.
    returns, carried
        The discounted return recorded from each row on, and the weight γʰ of what follows the last
        recorded step, 0 where the episode terminated.
    ahead
        Σ γᵗ over the recorded steps from each row on: what one unit per step adds up to.
    """

    def __init__(self, group: MemberGroup) -> None:
        log, gamma, rows = group.log, group.gamma, group.own_watched
        ends = (log.starts[1:] - 1)[log.episode_of_row[rows]]
        left = ends - rows + 1
        device = group.settings.run.device
        self.rows, self.ends = (torch.from_numpy(each).to(device) for each in (rows, ends))
        self.returns = returns_to_go(log, gamma)[rows]
        self.carried = np.where(log.terminated[ends], 0.0, gamma**left)
        self.ahead = left.astype(float) if gamma == 1 else (1 - gamma**left) / (1 - gamma)
