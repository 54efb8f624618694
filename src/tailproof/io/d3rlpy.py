"""Conversion from and to d3rlpy's plain arrays; d3rlpy itself is never imported."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, as_array, count_of, require_finite
from tailproof.errors import LogError
from tailproof.io.steps import Notes, Steps, assemble
from tailproof.io.values import Labelled
from tailproof.log.log import Log
from tailproof.log.sources import ReplayData
from tailproof.log.spaces import Discrete


class Recorded(NamedTuple):
    """One episode as d3rlpy records it: without the state after its last step."""

    observations: Any  # (T, ...), or a list of such arrays
    actions: AnyArray  # (T, q)
    rewards: AnyArray  # (T, 1)
    terminated: bool


def from_d3rlpy(dataset: ReplayData) -> Log:
    """Return the log of a d3rlpy `MDPDataset` or `ReplayBuffer`.

    d3rlpy records no state after the last step of an episode that a timeout ended, so this step is
    left out.

    Parameters
    ----------
    dataset
        Any object with `episodes`, each with `observations`, `actions`, `rewards` and `terminated`.
    """
    return read_episodes(dataset, Notes())


def read_episodes(dataset: ReplayData, notes: Notes) -> Log:
    """Read a d3rlpy data set, and note in `notes` what was left out."""
    try:
        episodes = [
            Recorded(
                each.observations,
                each.actions,
                each.rewards,
                one_flag(f"terminated of episode {i}", each.terminated),
            )
            for i, each in enumerate(dataset.episodes)
        ]
    except (AttributeError, TypeError) as error:
        raise LogError(
            f"A d3rlpy data set has episodes with observations, actions, rewards and terminated. "
            f"Got {type(dataset).__name__}: {error}."
        ) from error
    info = getattr(dataset, "dataset_info", None)
    kind = getattr(getattr(info, "action_space", None), "name", None)
    discrete = None if kind is None else kind == "DISCRETE"
    size = int(getattr(info, "action_size", 0)) if discrete else 0
    return log_of_recorded(episodes, notes, discrete=discrete, n_actions=size)


def log_of_recorded(
    episodes: Iterable[Recorded], notes: Notes, *, discrete: bool | None = None, n_actions: int = 0
) -> Log:
    """Return the log of recorded episodes; integer actions are discrete unless stated otherwise."""
    parts = [_arrays(i, episode) for i, episode in enumerate(episodes)]
    if not parts:
        raise LogError("A log needs at least one episode. The d3rlpy data set has none.")
    states, actions, rewards, terminated = (
        _joined(name, [part[j] for part in parts])
        for j, name in enumerate(("observations", "actions", "rewards", "terminated"))
    )
    if discrete or (discrete is None and actions.dtype.kind in "iub"):
        if actions.shape[1] != 1 or (actions != np.round(actions)).any() or (actions < 0).any():
            raise LogError(
                f"Discrete d3rlpy actions must be one whole number from 0 per step. Got shape "
                f"{actions.shape}, dtype {actions.dtype}."
            )
        actions = actions[:, 0].astype(np.intp)
        space = Discrete(max(int(actions.max()) + 1, n_actions))
    else:
        actions, space = actions.astype(float, copy=False), None
    lengths = [len(part[2]) for part in parts]
    steps = Steps(
        states=states,
        actions=actions,
        rewards=rewards,
        episode=Labelled(np.repeat(np.arange(len(parts)), lengths), np.arange(len(parts))),
        terminated=terminated,
        action_space=space,
    )
    found = Notes()
    log = assemble(steps, found)
    if log.n_transitions < len(rewards):
        notes.notes.append(
            f"{len(rewards) - log.n_transitions} last steps of episodes cut off by a timeout have "
            f"no next state in d3rlpy, and so no transition."
        )
    return log


def to_d3rlpy(log: Log) -> dict[str, Any]:
    """Return the arguments of a d3rlpy data set: ``MDPDataset(**to_d3rlpy(log))``.

    d3rlpy stores no next states. A truncated episode therefore gets one more row with its last next
    state, reward 0 and the last action; d3rlpy and `from_d3rlpy` use only its observation. Ids,
    groups, labels and propensities are not exported.

    Examples
    --------
    >>> from tailproof import Log
    >>> log = Log.from_arrays([0.0, 1.0], [1, 0], [5.0, 6.0], [1.0, 2.0], episode=["a", "a"])
    >>> arrays = to_d3rlpy(log)
    >>> arrays["observations"].ravel(), arrays["rewards"], arrays["timeouts"]
    (array([0., 1., 2.]), array([5., 6., 0.]), array([0., 0., 1.], dtype=float32))
    """
    last = log.starts[1:] - 1
    inside = np.ones(log.n_transitions, dtype=bool)
    inside[last] = False
    rows = np.flatnonzero(inside)
    apart = rows[(log.next_states[rows] != log.states[rows + 1]).any(axis=1)]
    if len(apart):
        raise LogError(
            f"d3rlpy takes the next row's state as the next state. Row {apart[0]} of the log has "
            f"another one ({count_of(len(apart))}); it cannot be exported."
        )
    cut = last[~log.terminated[last]]
    at = cut + 1  # numpy inserts before these rows, so the new row comes last in its episode
    flags = np.insert(log.terminated, at, False).astype(np.float32)
    timeouts = np.insert(np.zeros(log.n_transitions, dtype=bool), at, True).astype(np.float32)
    return {
        "observations": np.insert(log.states, at, log.next_states[cut], axis=0),
        "actions": np.insert(log.actions, at, log.actions[cut], axis=0),
        "rewards": np.insert(log.rewards, at, 0.0),
        "terminals": flags,
        "timeouts": timeouts,
        "action_size": log.n_actions if log.is_discrete else log.actions.shape[1],
    }


def flat(name: str, values: Any) -> FloatArray:
    """Return observations of any shape, or a list of such arrays, as (T, p)."""
    if isinstance(values, list | tuple):
        if not values:
            raise LogError(f"{name} must be an array or several. Got none.")
        pieces = [flat(name, value) for value in values]
        if len({len(piece) for piece in pieces}) > 1:
            raise LogError(f"All {name} of an episode must have as many steps. They differ.")
        return np.concatenate(pieces, axis=1)
    array = as_array(name, values, LogError)
    if array.dtype.kind not in "fiub" or array.ndim == 0:
        raise LogError(
            f"{name} must be an array of numbers, one row per step. Got dtype {array.dtype}, shape "
            f"{array.shape}."
        )
    array = array.reshape(len(array), -1) if array.size else array.reshape(len(array), 0)
    return array if array.dtype.kind == "f" else array.astype(float)


def one_flag(name: str, value: Any) -> bool:
    """Return a single boolean, which may be given as the number 0 or 1."""
    array = as_array(name, value, LogError)
    if array.size != 1 or array.dtype.kind not in "biuf" or array.item() not in (0, 1):
        raise LogError(f"{name} must be true or false, or 1 or 0. Got {value!r} instead.")
    return bool(array.item())


def _arrays(index: int, episode: Recorded) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    states = flat("observations", episode.observations)
    actions = as_array("actions", episode.actions, LogError)
    rewards = as_array("rewards", episode.rewards, LogError)
    steps = len(states)
    shapes = actions.shape, rewards.shape
    if actions.ndim == 0 or len(actions) != steps or rewards.size != steps or steps == 0:
        raise LogError(
            f"An episode needs as many observations, actions and rewards. Episode {index} has "
            f"{steps} observations and actions and rewards of the shapes {shapes}."
        )
    for name, values in (("actions", actions), ("rewards", rewards)):
        if values.dtype.kind not in "fiub":
            raise LogError(f"{name} must be numbers. Got dtype {values.dtype} in episode {index}.")
    for name, values in (("observations", states), ("rewards", rewards)):
        require_finite(f"{name} of episode {index}", values, LogError)
    terminated = np.zeros(steps, dtype=bool)
    terminated[-1] = episode.terminated
    return states, actions.reshape(steps, -1), rewards.ravel().astype(float), terminated


def _joined(name: str, pieces: list[AnyArray]) -> AnyArray:
    widths = {piece.shape[1:] for piece in pieces}
    if len(widths) > 1:
        raise LogError(
            f"The {name} of all episodes must have one shape. Got {sorted(map(str, widths))}."
        )
    return np.concatenate(pieces)
