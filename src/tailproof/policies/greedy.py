"""Policies that a critic implies: the best action, or a softmax over the actions."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tailproof.arrays import FloatArray, IntArray, one_or_many
from tailproof.ensemble.critics import Ensemble
from tailproof.errors import PolicyError


@dataclass(frozen=True, eq=False, repr=False)
class GreedyPolicy:
    """π(s) = argmax_a Q(s, a) over the actions that the log takes; the first of equals.

    Parameters
    ----------
    critic
        K critics and their aggregate.
    n_actions
        Number of actions, A.
    actions
        The actions to choose from; by default all of them.
    state_names, action_labels
        What states and actions are called, so that a log in another order is read right; see
        `tailproof.policies.naming`.
    taught
        Marks of the episodes that taught the critics (`tailproof.data.marks`), or None.

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

    critic: Ensemble
    n_actions: int
    actions: tuple[int, ...] = ()
    state_names: tuple[str, ...] = ()
    action_labels: tuple[str, ...] | None = None
    taught: IntArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", _actions(self.actions, self.n_actions))

    @one_or_many
    def __call__(self, states: FloatArray) -> IntArray:
        """Return the best action in each state, (n,); of one state (p,), its action."""
        chosen: IntArray = np.asarray(self.actions)[self.values(states).argmax(axis=1)]
        return chosen

    def values(self, states: FloatArray) -> FloatArray:
        """Return Q(s, a) of the actions to choose from, (n, len(actions))."""
        return _values(self.critic, states, self.n_actions, self.actions)

    def save(self, path: str | Path) -> None:
        """Write features, critics, aggregate and argmax as one ONNX graph; see `OnnxPolicy`."""
        from tailproof.export.graph import export_policy

        export_policy(self, path)

    def __repr__(self) -> str:
        return f"GreedyPolicy({_describe(self.critic, self.actions)})"


@dataclass(frozen=True, eq=False, repr=False)
class SoftmaxPolicy:
    """π(a|s) ∝ exp(Q(s, a) / temperature) over the actions that the log takes.

    Parameters
    ----------
    critic, n_actions, actions, state_names, action_labels, taught
        As in `GreedyPolicy`.
    temperature
        In units of Q: near 0 is greedy, large is uniform.

    Examples
    --------
    >>> from tailproof import learn
    >>> from tailproof.worlds import CartPole
    >>> learned = learn(CartPole().log(episodes=40), method="room-vm", gamma=0.99)
    >>> policy = learned.softmax(temperature=0.1)
    >>> policy.probabilities(np.zeros((3, 4))).sum(axis=1)
    array([1., 1., 1.])
    """

    critic: Ensemble
    n_actions: int
    actions: tuple[int, ...] = ()
    temperature: float = 1.0
    state_names: tuple[str, ...] = ()
    action_labels: tuple[str, ...] | None = None
    taught: IntArray | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "actions", _actions(self.actions, self.n_actions))
        if not 0 < self.temperature < np.inf:
            raise PolicyError(
                f"temperature must be above 0 and finite. Got {self.temperature!r} instead; for the "
                f"best action alone use a GreedyPolicy."
            )

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a|s), zero for actions that are not to be chosen, (n, A)."""
        values = _values(self.critic, states, self.n_actions, self.actions) / self.temperature
        likely = np.exp(values - values.max(axis=1, keepdims=True))
        chances = np.zeros((len(values), self.n_actions))
        chances[:, list(self.actions)] = likely / likely.sum(axis=1, keepdims=True)
        return chances

    def save(self, path: str | Path) -> None:
        """Write features, critics, aggregate and softmax as one ONNX graph; see `OnnxPolicy`."""
        from tailproof.export.graph import export_policy

        export_policy(self, path)

    def __repr__(self) -> str:
        described = _describe(self.critic, self.actions)
        return f"SoftmaxPolicy({described}, temperature {self.temperature:g})"


def _actions(given: tuple[int, ...], n_actions: int) -> tuple[int, ...]:
    actions = tuple(int(action) for action in given) or tuple(range(n_actions))
    if not all(0 <= action < n_actions for action in actions):
        raise PolicyError(f"actions must lie in 0..{n_actions - 1}. Got {list(actions)} instead.")
    return actions


def _values(
    critic: Ensemble, states: FloatArray, n_actions: int, actions: tuple[int, ...]
) -> FloatArray:
    values = critic.action_values(np.asarray(states, dtype=float), n_actions)
    return values if len(actions) == n_actions else values[:, list(actions)]


def _describe(critic: Ensemble, actions: tuple[int, ...]) -> str:
    count = critic.members.count
    critics = "1 critic" if count == 1 else f"{critic.aggregate} of {count} critics"
    return f"{critics}, {len(actions)} actions"
