"""Logs from D4RL's arrays, in HDF5 or .npz files, and from and to d3rlpy, which is never imported."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, as_array, count_of, require_finite
from tailproof.errors import LogError, require_module
from tailproof.io.steps import Notes, Steps, assemble
from tailproof.io.tables import naming_the_file, refuse_other_files
from tailproof.io.values import Labelled
from tailproof.log.log import Log
from tailproof.log.sources import ReplayData
from tailproof.log.spaces import Continuous, Discrete

_PARTS = ("observations", "actions", "rewards", "terminals")
_RECORDED = ("observations", "actions", "rewards", "terminated")  # of d3rlpy's episodes
_OPTIONAL = ("timeouts", "next_observations", "final_observations", "episode_terminals")


def read_d4rl(source: str | Path | Mapping[str, Any], *, max_steps: int | None = None) -> Log:
    """Read a D4RL file, or the mapping of arrays that D4RL's ``env.get_dataset()`` returns.

    An episode ends at a row of `terminals` (it terminated) or `timeouts` (time ran out). Without
    `next_observations` the next state is that of the next row; a timeout then has none, and its
    transition is left out, as in D4RL.

    Files of the first version have neither `timeouts` nor `next_observations`: they need
    `max_steps`. With only `next_observations`, an episode ends where they differ from the next row's
    observations.

    Parameters
    ----------
    source
        An HDF5 file with `observations`, `actions`, `rewards`, `terminals`, and possibly `timeouts`
        and `next_observations`; or a mapping with these.
    max_steps
        The environment's time limit (1000 in the locomotion tasks). Used only where the file has no
        `timeouts`.

    Examples
    --------
    >>> import numpy as np
    >>> log = read_d4rl({
    ...     "observations": np.arange(6.0), "actions": np.zeros((6, 2)), "rewards": np.ones(6),
    ...     "terminals": [0, 0, 1, 0, 0, 0], "timeouts": [0, 0, 0, 0, 0, 1],
    ... })
    >>> log.lengths, log.terminated
    (array([3, 2]), array([False, False,  True, False, False]))
    """
    if isinstance(source, Mapping):
        return d4rl_log(dict(source), max_steps, Notes())
    return read_hdf5(source, Notes(), max_steps=max_steps)


def read_rollouts(
    source: str | Path | Mapping[str, Any],
    notes: Notes | None = None,
    *,
    max_steps: int | None = None,
) -> Log:
    """Read rollouts in D4RL's format from an .npz file, or from a mapping of its arrays.

    The arrays are those of `read_d4rl`; others are ignored. The optional `final_observations` hold
    the last observation of each episode, one row per true entry of `terminals` or `timeouts`, so that
    the step at a timeout is kept. If all continuous actions lie in [−1, 1], these are the bounds of
    the action space, as in D4RL's environments. Nothing is unpickled.

    Examples
    --------
    >>> log = read_rollouts({
    ...     "observations": np.arange(4.0), "actions": np.zeros((4, 1)), "rewards": np.ones(4),
    ...     "terminals": [0, 1, 0, 0], "timeouts": [0, 0, 0, 1], "final_observations": [9.0, 8.0],
    ... })
    >>> log.next_states.ravel().tolist(), log.action_space.low
    ([1.0, 9.0, 3.0, 8.0], (-1.0,))
    """
    notes = notes or Notes()
    arrays = dict(source) if isinstance(source, Mapping) else _load(source)
    log = d4rl_log(_with_next_observations(arrays), max_steps, notes)
    space = log.action_space
    if isinstance(space, Continuous) and np.abs(log.actions).max() <= 1:
        space = Continuous(space.dimension, (-1.0,) * space.dimension, (1.0,) * space.dimension)
        return replace(log, action_space=space)
    return log


def is_hdf5(path: Path) -> bool:
    """Return whether a path is an HDF5 file, by its content or its suffix."""
    if path.suffix.lower() in (".hdf5", ".h5", ".hdf"):
        return True
    try:
        with path.open("rb") as file:
            return file.read(8) == b"\x89HDF\r\n\x1a\n"
    except (OSError, ValueError):
        return False


def read_hdf5(path: str | Path, notes: Notes, *, max_steps: int | None = None) -> Log:
    """Read an HDF5 file of D4RL or d3rlpy."""
    label = f"The file {path}"
    h5py = require_module("h5py", "'tailproof[minari]'", label, LogError)
    advice = "The file is damaged or not HDF5; download or write it again."
    with naming_the_file(label, advice), h5py.File(path, "r") as file:
        refuse_other_files(file, label)
        if {"columns", "num_episodes"} <= set(file):
            return _log_of_episodes([*_recorded_episodes(file)], notes)
        if not set(_PARTS) <= set(file):
            folder = " Pass the Minari folder instead." if "episode_0" in file else ""
            raise LogError(
                f"{label} must hold observations, actions, rewards and terminals, as D4RL files do. "
                f"Got {', '.join(sorted(file)[:10]) or 'nothing'}.{folder}"
            )
        arrays = {name: _value(file[name]) for name in (*_PARTS, *_OPTIONAL) if name in file}
    return d4rl_log(arrays, max_steps, notes)


def _value(item: Any) -> Any:
    """Return the array of an HDF5 item; a group is a list of arrays in the order of its names."""
    if hasattr(item, "keys"):
        return [_value(item[key]) for key in sorted(item)]
    return item[()]


def _recorded_episodes(file: Any) -> Iterator[dict[str, AnyArray]]:
    """Yield the episodes that d3rlpy wrote to an open HDF5 file."""
    count = int(file["num_episodes"][()])
    if count > len(file):
        raise LogError(f"The file claims {count} episodes and holds {len(file)} items.")

    def part(name: str, i: int) -> Any:
        if f"{name}_{i}" in file:
            return _value(file[f"{name}_{i}"])
        several: list[Any] = []
        while f"{name}_{i}_{len(several)}" in file:
            several.append(_value(file[f"{name}_{i}_{len(several)}"]))
        return several

    for i in range(count):
        yield _arrays(i, *(part(name, i) for name in _RECORDED))


def d4rl_log(
    arrays: dict[str, Any], max_steps: int | None, notes: Notes, space: Discrete | None = None
) -> Log:
    """Return the log of arrays with D4RL's names."""
    states = _rows(arrays, "observations")
    n = len(states)
    rewards = _column(arrays, "rewards", n).astype(float)
    require_finite("rewards", rewards, LogError)
    terminals = _flags(arrays, "terminals", n)
    next_states = None
    if arrays.get("next_observations") is not None:
        next_states = _rows(arrays, "next_observations")
        if next_states.shape != states.shape:
            raise LogError(
                f"next_observations must have the shape of observations, {states.shape}. "
                f"Got {next_states.shape}."
            )
    timeouts = _timeouts(arrays, terminals, states, next_states, max_steps, notes)
    ends = terminals | timeouts
    episode = np.concatenate([[0], np.cumsum(ends[:-1])]) if n else np.zeros(0, dtype=np.intp)
    steps = Steps(
        states=states,
        actions=_actions(arrays, n),
        rewards=rewards,
        next_states=next_states,
        episode=Labelled(episode, np.arange(int(ends[:-1].sum()) + 1)),
        terminated=terminals,
        truncated=~terminals & (timeouts | (np.arange(n) == n - 1)),
        action_space=space,
    )
    log = assemble(steps, Notes())
    if count := n - log.n_transitions:
        notes.notes.append(
            f"{count} step{'' if count == 1 else 's'} at a timeout left out: the state after it was "
            f"not recorded."
        )
    return log


def _timeouts(
    arrays: dict[str, Any],
    terminals: BoolArray,
    states: FloatArray,
    next_states: FloatArray | None,
    max_steps: int | None,
    notes: Notes,
) -> BoolArray:
    n = len(terminals)
    if arrays.get("timeouts") is not None:
        return _flags(arrays, "timeouts", n)
    if arrays.get("episode_terminals") is not None:  # d3rlpy's first file format
        return _flags(arrays, "episode_terminals", n)
    if max_steps is not None:
        if max_steps < 1:
            raise LogError(f"max_steps must be at least 1. Got {max_steps}.")
        before = np.concatenate([[0], np.flatnonzero(terminals) + 1])
        run = np.concatenate([[0], np.cumsum(terminals)[:-1]]) if n else np.zeros(0, dtype=np.intp)
        return np.asarray((np.arange(n) - before[run] + 1) % max_steps == 0)
    if next_states is not None:
        cut = np.zeros(n, dtype=bool)
        cut[:-1] = (next_states[:-1] != states[1:]).any(axis=1)
        notes.notes.append(
            "The file records no timeouts: an episode also ends where the next observation is not "
            "the next row's."
        )
        return cut
    raise LogError(
        "The file records neither timeouts nor next_observations, so where an episode ran out of "
        "time is not known. Pass max_steps, the environment's time limit (1000 in D4RL's "
        "locomotion tasks), or the number of rows if only terminals end an episode."
    )


def _required(arrays: dict[str, Any], name: str) -> Any:
    if arrays.get(name) is None:
        raise LogError(
            f"A D4RL data set has observations, actions, rewards and terminals. There is no {name}; "
            f"got {', '.join(sorted(arrays)) or 'nothing'}."
        )
    values = arrays[name]
    if not isinstance(values, list | tuple) or any(isinstance(each, np.ndarray) for each in values):
        return values  # several arrays are parts of one observation
    try:
        return np.asarray(values)
    except ValueError as error:
        raise LogError(f"The rows of {name} differ in length.") from error


def _rows(arrays: dict[str, Any], name: str) -> FloatArray:
    values = flat(name, _required(arrays, name))
    require_finite(name, values, LogError)
    return values


def _column(arrays: dict[str, Any], name: str, n: int) -> AnyArray:
    values = as_array(name, _required(arrays, name), LogError)
    if values.size != n or values.ndim == 0 or len(values) != n or values.dtype.kind not in "fiub":
        raise LogError(
            f"{name} must hold {n} numbers, as many as observations has rows. Got dtype "
            f"{values.dtype}, shape {values.shape}."
        )
    return values.reshape(n)


def _flags(arrays: dict[str, Any], name: str, n: int) -> BoolArray:
    values = _column(arrays, name, n)
    if not np.isin(values, (0, 1)).all():
        raise LogError(f"{name} must hold 0 and 1 only. Got other numbers as well.")
    return values.astype(bool)


def _actions(arrays: dict[str, Any], n: int) -> AnyArray:
    actions = as_array("actions", _required(arrays, "actions"), LogError)
    if actions.ndim == 0 or len(actions) != n or actions.dtype.kind not in "fiub":
        raise LogError(
            f"actions must hold {n} rows of numbers, as observations does. Got dtype "
            f"{actions.dtype}, shape {actions.shape}."
        )
    if actions.dtype.kind != "f" and actions.size == n:
        return actions.reshape(n)
    return flat("actions", actions)


def _load(path: str | Path) -> dict[str, AnyArray]:
    if not isinstance(path, str | Path):
        raise LogError(
            f"Rollouts are an .npz file or a mapping of arrays. Got {type(path).__name__} instead."
        )
    if not Path(path).is_file():
        raise LogError(f"There is no file {str(path)!r}.")
    label = f"The file {path}"
    advice = "It is damaged or not an .npz of numbers; write it again."
    with naming_the_file(label, advice), Path(path).open("rb") as opened:
        file = np.load(opened, allow_pickle=False)
        if not isinstance(file, Mapping):
            raise LogError(f"{label} holds one array. Save several by name: np.savez(path, ...).")
        missing = [name for name in _PARTS if name not in file]
        if missing:
            raise LogError(
                f"{label} must hold {', '.join(_PARTS)}, as D4RL's do. There is no {missing[0]}; got "
                f"{', '.join(sorted(file)[:10]) or 'nothing'}."
            )
        return {name: file[name] for name in (*_PARTS, *_OPTIONAL) if name in file}


def _with_next_observations(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays with next observations, derived with the help of the final observations."""
    final = arrays.get("final_observations")
    if final is None or arrays.get("next_observations") is not None:
        return arrays
    if arrays.get("timeouts") is None:
        raise LogError("final_observations belong to timeouts, which is not there.")
    observations = _rows(arrays, "observations")
    n = len(observations)
    ends = _flags(arrays, "terminals", n) | _flags(arrays, "timeouts", n)
    final = _rows(arrays, "final_observations")
    expected = (int(ends.sum()), observations.shape[1])
    if final.shape != expected:
        raise LogError(
            f"final_observations must hold an observation for each of the {expected[0]} ends of "
            f"episodes, {expected}. Got {final.shape} instead."
        )
    if n and not ends[-1]:
        raise LogError(
            "The last row ends no episode, so that its next observation is unknown. Mark it as a "
            "timeout and give the observation after it, or leave it out."
        )
    following = np.concatenate([observations[1:], observations[-1:]])
    following[ends] = final
    return {**arrays, "next_observations": following}


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
            _arrays(i, *(getattr(each, name) for name in _RECORDED))
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
    return _log_of_episodes(episodes, notes, discrete=discrete, n_actions=size)


def _log_of_episodes(
    parts: Sequence[dict[str, AnyArray]],
    notes: Notes,
    *,
    discrete: bool | None = None,
    n_actions: int = 0,
) -> Log:
    """Return the log of recorded episodes; integer actions are discrete unless stated otherwise."""
    if not parts:
        raise LogError("A log needs at least one episode. The d3rlpy data set has none.")
    arrays = {
        name: _joined(name, [part[name] for part in parts])
        for name in ("observations", "actions", "rewards", "terminals", "timeouts")
    }
    actions = arrays["actions"]
    if not (discrete or (discrete is None and actions.dtype.kind in "iub")):
        return d4rl_log({**arrays, "actions": actions.astype(float, copy=False)}, None, notes)
    if actions.shape[1] != 1 or (actions != np.round(actions)).any() or (actions < 0).any():
        raise LogError(
            f"Discrete d3rlpy actions must be one whole number from 0 per step. Got shape "
            f"{actions.shape}, dtype {actions.dtype}."
        )
    space = Discrete(max(int(actions.max()) + 1, n_actions))
    return d4rl_log({**arrays, "actions": actions.astype(np.intp)}, None, notes, space)


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


def flat(name: str, values: object) -> FloatArray:
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


def one_flag(name: str, value: object) -> bool:
    """Return a single boolean, which may be given as the number 0 or 1."""
    array = as_array(name, value, LogError)
    if array.size != 1 or array.dtype.kind not in "biuf" or array.item() not in (0, 1):
        raise LogError(f"{name} must be true or false, or 1 or 0. Got {value!r} instead.")
    return bool(array.item())


def _arrays(
    index: int, observations: object, actions: object, rewards: object, terminated: object
) -> dict[str, AnyArray]:
    """Return an episode as d3rlpy records it, without the state after its last step, as D4RL does."""
    states = flat("observations", observations)
    steps, ended = len(states), one_flag(f"terminated of episode {index}", terminated)
    taken, earned = as_array("actions", actions, LogError), as_array("rewards", rewards, LogError)
    if taken.ndim == 0 or len(taken) != steps or earned.size != steps or steps == 0:
        raise LogError(
            f"An episode needs as many observations, actions and rewards. Episode {index} has "
            f"{steps} observations and actions and rewards of the shapes {taken.shape, earned.shape}."
        )
    for name, values in (("actions", taken), ("rewards", earned)):
        if values.dtype.kind not in "fiub":
            raise LogError(f"{name} must be numbers. Got dtype {values.dtype} in episode {index}.")
    last = np.arange(steps) == steps - 1
    return {
        "observations": states,
        "actions": taken.reshape(steps, -1),
        "rewards": earned.ravel().astype(float),
        "terminals": last & ended,
        "timeouts": last & (not ended),
    }


def _joined(name: str, pieces: list[AnyArray]) -> AnyArray:
    widths = {piece.shape[1:] for piece in pieces}
    if len(widths) > 1:
        raise LogError(
            f"The {name} of all episodes must have one shape. Got {sorted(map(str, widths))}."
        )
    return np.concatenate(pieces)
