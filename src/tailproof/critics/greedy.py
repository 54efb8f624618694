"""Policies derived from critics: the best action, or a softmax over the actions."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np

from tailproof.arrays import FloatArray, IntArray, one_or_many
from tailproof.critics.ensembles import Ensemble
from tailproof.errors import MethodError, PolicyError
from tailproof.log.spaces import ActionSpace, Discrete

if TYPE_CHECKING:
    from tailproof.io.encoder import Encoder


@dataclass(frozen=True, eq=False, repr=False)
class CriticPolicy:
    """Base class of `GreedyPolicy` and `SoftmaxPolicy`.

    Parameters
    ----------
    critic
        K critics and their aggregate.
    n_actions
        Number of actions, A.
    actions
        The actions to choose from; by default all of them.
    state_names, action_labels
        Names of states and actions, to match logs whose columns are in another order; see
        `tailproof.policies.binding`.
    encoder
        How the table of its log was read: other tables are read alike. None for a log of arrays.
    taught
        Hashes of the critics' training episodes (`tailproof.log.folds`), or None.
    """

    critic: Ensemble
    n_actions: int
    actions: tuple[int, ...] = ()
    _: KW_ONLY
    state_names: tuple[str, ...] = ()
    action_labels: tuple[str, ...] | None = None
    encoder: Encoder | None = None
    taught: IntArray | None = None

    def __post_init__(self) -> None:
        actions = tuple(int(action) for action in self.actions) or tuple(range(self.n_actions))
        if not all(0 <= action < self.n_actions for action in actions):
            raise PolicyError(
                f"actions must lie in 0..{self.n_actions - 1}. Got {list(actions)} instead."
            )
        object.__setattr__(self, "actions", actions)

    @one_or_many
    def __call__(self, states: FloatArray) -> IntArray:
        """Return the best action in each state, (n,); for one state (p,), one action."""
        chosen: IntArray = np.asarray(self.actions)[self.values(states).argmax(axis=1)]
        return chosen

    def values(self, states: FloatArray) -> FloatArray:
        """Return Q(s, a) of the actions to choose from, (n, len(actions))."""
        values = self.critic.action_values(np.asarray(states, dtype=float), self.n_actions)
        every = tuple(self.actions) == tuple(range(self.n_actions))
        return values if every else values[:, list(self.actions)]

    def save(self, path: str | Path) -> None:
        """Write the policy, from features to actions, as one ONNX graph; see `OnnxPolicy`."""
        from tailproof.export.onnx import export_policy

        export_policy(self, path)

    def __repr__(self) -> str:
        count = self.critic.members.count
        critics = "1 critic" if count == 1 else f"{self.critic.aggregate} of {count} critics"
        more = f", temperature {self.temperature:g}" if isinstance(self, SoftmaxPolicy) else ""
        return f"{type(self).__name__}({critics}, {len(self.actions)} actions{more})"


@dataclass(frozen=True, eq=False, repr=False)
class GreedyPolicy(CriticPolicy):
    """π(s) = argmax_a Q(s, a) over the actions that occur in the log; the first one in a tie.

    The parameters are those of `CriticPolicy`.

    Examples
    --------
    >>> from tailproof import learn
    >>> from tailproof.worlds import CartPole
    >>> world = CartPole()
    >>> policy = learn(world.log(episodes=40), method="room-vm", gamma=0.99).policy
    >>> policy
    GreedyPolicy(median of 5 critics, 2 actions)
    >>> policy(np.array([[0.0, 0.0, 0.1, 0.5]]))
    array([1])
    """

    deterministic: ClassVar[bool] = True

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return 1 for the best action and 0 for all others, (n, A)."""
        return np.asarray(np.eye(self.n_actions)[self(states)])


@dataclass(frozen=True, eq=False, repr=False)
class SoftmaxPolicy(CriticPolicy):
    """π(a|s) ∝ exp(Q(s, a) / temperature) over the actions that occur in the log.

    Calling it returns the most likely action; `probabilities` are what it draws with.

    Parameters
    ----------
    critic, n_actions, actions, state_names, action_labels, encoder, taught
        As in `CriticPolicy`.
    temperature
        In units of Q: greedy near 0, uniform for large values.

    Examples
    --------
    >>> from tailproof import learn
    >>> from tailproof.worlds import CartPole
    >>> learned = learn(CartPole().log(episodes=40), method="room-vm", gamma=0.99)
    >>> policy = learned.softmax(temperature=0.1)
    >>> policy.probabilities(np.zeros((3, 4))).sum(axis=1)
    array([1., 1., 1.])
    """

    temperature: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 < self.temperature < np.inf:
            raise PolicyError(
                f"temperature must be above 0 and finite. Got {self.temperature!r} instead; for the "
                f"best action alone use a GreedyPolicy."
            )

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a|s), zero for actions outside `actions`, (n, A)."""
        values = self.values(states) / self.temperature
        likely = np.exp(values - values.max(axis=1, keepdims=True))
        chances = np.zeros((len(values), self.n_actions))
        chances[:, list(self.actions)] = likely / likely.sum(axis=1, keepdims=True)
        return chances


def critic_policy(
    critic: Ensemble,
    space: ActionSpace,
    actions: tuple[int, ...],
    temperature: float | None = None,
    **named: Any,
) -> CriticPolicy:
    """Return the greedy policy over these actions, or the softmax policy if a temperature is given."""
    n_actions, named["action_labels"] = require_discrete(space).n, require_discrete(space).labels
    if temperature is None:
        return GreedyPolicy(critic, n_actions, actions, **named)
    return SoftmaxPolicy(critic, n_actions, actions, temperature, **named)


def require_discrete(space: ActionSpace) -> Discrete:
    """Return the space if it is discrete; raise a `MethodError` otherwise."""
    if isinstance(space, Discrete):
        return space
    raise MethodError(f"This needs discrete actions. The policy acts in {space}; use its `sample`.")
