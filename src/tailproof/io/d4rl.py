"""Logs from arrays of recorded steps: D4RL's in HDF5 or .npz files, and d3rlpy's, never imported."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray, as_array, require_finite
from tailproof.errors import LogError, require_module
from tailproof.io.steps import Notes, Steps, assemble
from tailproof.io.tables import naming_the_file, refuse_other_files
from tailproof.io.values import Labelled
from tailproof.log.log import Log
from tailproof.log.sources import ReplayData
from tailproof.log.spaces import Continuous, Discrete
from tailproof.parameters import COUNT, require

_PARTS = ("observations", "actions", "rewards", "terminals")
_RECORDED = ("observations", "actions", "rewards", "terminated")  # of d3rlpy's episodes
_OPTIONAL = ("timeouts", "next_observations", "final_observations", "episode_terminals")


def read_d4rl(
    source: str | Path | Mapping[str, object],
    notes: Notes | None = None,
    *,
    max_steps: int | None = None,
) -> Log:
    """Read a D4RL file, or the mapping of arrays that D4RL's ``env.get_dataset()`` returns.

    Files that d3rlpy wrote are read too. `notes` take what was left out.

    An episode ends at a row of `terminals` (it terminated) or `timeouts` (time ran out). Without
    `next_observations` the next state is that of the next row; a timeout then has none, and its
    transition is left out, as in D4RL.

    Files of the first version have neither `timeouts` nor `next_observations`: they need
    `max_steps`. With only `next_observations`, an episode ends where they differ from the next row's
    observations.

    Parameters
    ----------
    source
        An HDF5 file with `observations`, `actions`, `rewards`, `terminals`, and possibly `timeouts`,
        `next_observations` and `final_observations` (see `read_rollouts`); or a mapping with these.
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
    notes = notes or Notes()
    if isinstance(source, Mapping):
        return _log_of(source, notes, max_steps=max_steps)
    label = f"The file {source}"
    h5py = require_module("h5py", "'tailproof[minari]'", label, LogError)
    advice = "The file is damaged or not HDF5; download or write it again."
    with naming_the_file(label, advice), h5py.File(source, "r") as file:
        refuse_other_files(file, label)
        if {"columns", "num_episodes"} <= set(file):
            return _log_of_episodes(_recorded_episodes(file), notes)
        hint = " Pass the Minari folder instead." if "episode_0" in file else ""
        arrays = {name: _value(file[name]) for name in _present(file, label, hint)}
    return _log_of(arrays, notes, max_steps=max_steps)


def read_rollouts(
    source: str | Path | Mapping[str, object],
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
    arrays = source if isinstance(source, Mapping) else _npz(source)
    log = _log_of(arrays, notes or Notes(), max_steps=max_steps)
    space = log.action_space
    if isinstance(space, Continuous) and np.abs(log.actions).max() <= 1:
        space = Continuous(space.dimension, (-1.0,) * space.dimension, (1.0,) * space.dimension)
    return replace(log, action_space=space)


def _npz(path: str | Path) -> dict[str, AnyArray]:
    """Return the arrays of an .npz file."""
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
        return {name: file[name] for name in _present(file, label)}


def _present(file: Iterable[str], label: str, hint: str = "") -> list[str]:
    """Return the names of a file that are read; raise if one that a log needs is not there."""
    names = set(file)
    if missing := [name for name in _PARTS if name not in names]:
        raise LogError(
            f"{label} must hold {', '.join(_PARTS)}, as D4RL's do. There is no {missing[0]}; got "
            f"{', '.join(sorted(names)[:10]) or 'nothing'}.{hint}"
        )
    return [name for name in (*_PARTS, *_OPTIONAL) if name in names]


def _value(item: Any) -> Any:
    """Return the array of an HDF5 item; a group is a list of arrays in the order of its names."""
    if hasattr(item, "keys"):
        return [_value(item[key]) for key in sorted(item)]
    return item[()]


def _recorded_episodes(file: Any) -> Iterator[list[Any]]:
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
        yield [part(name, i) for name in _RECORDED]


def from_d3rlpy(dataset: ReplayData, notes: Notes | None = None) -> Log:
    """Return the log of a d3rlpy `MDPDataset` or `ReplayBuffer`.

    d3rlpy records no state after the last step of an episode that a timeout ended, so this step is
    left out.

    Parameters
    ----------
    dataset
        Any object with `episodes`, each with `observations`, `actions`, `rewards` and `terminated`.
    notes
        Take what was left out.
    """
    try:
        episodes = [[getattr(each, name) for name in _RECORDED] for each in dataset.episodes]
    except (AttributeError, TypeError) as error:
        raise LogError(
            f"A d3rlpy data set has episodes with observations, actions, rewards and terminated. "
            f"Got {type(dataset).__name__}: {error}."
        ) from error
    info = getattr(dataset, "dataset_info", None)
    kind = getattr(getattr(info, "action_space", None), "name", None)
    discrete = None if kind is None else kind == "DISCRETE"
    size = int(getattr(info, "action_size", 0)) if discrete else 0
    return _log_of_episodes(episodes, notes or Notes(), discrete=discrete, n_actions=size)


def _log_of_episodes(
    episodes: Iterable[list[Any]],
    notes: Notes,
    *,
    discrete: bool | None = None,
    n_actions: int = 0,
) -> Log:
    """Return the log of episodes, of which each is a list of `_RECORDED`.

    Integer actions are discrete unless stated otherwise.
    """
    pieces: dict[str, list[AnyArray]] = {name: [] for name in (*_PARTS, "timeouts")}
    for i, recorded in enumerate(episodes):
        part, whose = dict(zip(_RECORDED, recorded, strict=True)), f" of episode {i}"
        states = _rows(part, "observations", whose=whose)
        n = len(states)
        if n == 0:
            raise LogError(f"An episode needs at least one step. Episode {i} has none.")
        part["terminated"] = np.atleast_1d(part["terminated"])
        ended = bool(_flags(part, "terminated", 1, whose=whose)[0])
        last = np.arange(n) == n - 1
        pieces["observations"].append(states)
        pieces["actions"].append(_rows(part, "actions", n, whose=whose))
        pieces["rewards"].append(_rows(part, "rewards", n, 1, whose=whose))
        pieces["terminals"].append(last & ended)
        pieces["timeouts"].append(last & (not ended))
    if not pieces["rewards"]:
        raise LogError("A log needs at least one episode. The d3rlpy data set has none.")
    for name in ("observations", "actions"):
        if len(widths := {each.shape[1] for each in pieces[name]}) > 1:
            raise LogError(
                f"The {name} of all episodes must have one shape. Got {sorted(widths)} numbers."
            )
    arrays = {name: np.concatenate(each) for name, each in pieces.items()}
    actions = arrays["actions"]
    if not (discrete or (discrete is None and actions.dtype.kind in "iub")):
        return _log_of({**arrays, "actions": actions.astype(float, copy=False)}, notes)
    if actions.shape[1] != 1 or (actions != np.round(actions)).any() or (actions < 0).any():
        raise LogError(
            f"Discrete d3rlpy actions must be one whole number from 0 per step. Got shape "
            f"{actions.shape}, dtype {actions.dtype}."
        )
    space = Discrete(max(int(actions.max()) + 1, n_actions))
    return _log_of({**arrays, "actions": actions.astype(np.intp)}, notes, space=space)


def _log_of(
    arrays: Mapping[str, Any],
    notes: Notes,
    *,
    max_steps: int | None = None,
    space: Discrete | None = None,
) -> Log:
    """Return the log of arrays with D4RL's names; every source ends here."""
    states = _rows(arrays, "observations")
    n = len(states)
    actions = _rows(arrays, "actions", n)
    if actions.dtype.kind != "f":
        actions = actions[:, 0] if actions.shape[1] == 1 else actions.astype(float)
    terminals = _flags(arrays, "terminals", n)
    next_states = None
    if arrays.get("next_observations") is not None:
        next_states = _rows(arrays, "next_observations", n, states.shape[1])
    timeouts = _timeouts(arrays, terminals, states, next_states, max_steps, notes)
    ends = terminals | timeouts
    if next_states is None and arrays.get("final_observations") is not None:
        next_states = _with_final(arrays, states, ends)
    episode = np.concatenate([[0], np.cumsum(ends[:-1])]) if n else np.zeros(0, dtype=np.intp)
    steps = Steps(
        states=_real(states),
        actions=actions,
        rewards=_rows(arrays, "rewards", n, 1)[:, 0].astype(float),
        next_states=None if next_states is None else _real(next_states),
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


def _with_final(arrays: Mapping[str, Any], states: AnyArray, ends: BoolArray) -> AnyArray:
    """Return the next observations, (n, p), of which those at the ends are given."""
    final = _rows(arrays, "final_observations", int(ends.sum()), states.shape[1])
    if len(ends) and not ends[-1]:
        raise LogError(
            "The last row ends no episode, so that its next observation is unknown. Mark it as a "
            "timeout and give the observation after it, or leave it out."
        )
    following = np.concatenate([states[1:], states[-1:]])
    following[ends] = final
    return following


def _timeouts(
    arrays: Mapping[str, Any],
    terminals: BoolArray,
    states: AnyArray,
    next_states: AnyArray | None,
    max_steps: int | None,
    notes: Notes,
) -> BoolArray:
    n = len(terminals)
    for name in ("timeouts", "episode_terminals"):  # the second in d3rlpy's first file format
        if arrays.get(name) is not None:
            return _flags(arrays, name, n)
    if max_steps is not None:
        require(COUNT, LogError, max_steps=max_steps)
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


def _rows(
    arrays: Mapping[str, Any],
    name: str,
    n: int | None = None,
    width: int | None = None,
    *,
    whose: str = "",
) -> AnyArray:
    """Return finite numbers as (n, width); arrays of any shape are flattened, lists of them joined."""
    values = arrays.get(name)
    if values is None:
        raise LogError(
            f"A D4RL data set has observations, actions, rewards and terminals. There is no {name}; "
            f"got {', '.join(sorted(arrays)) or 'nothing'}."
        )
    several = isinstance(values, list | tuple) and any(hasattr(each, "dtype") for each in values)
    pieces = [as_array(name + whose, each, LogError) for each in (values if several else [values])]
    flat = [each.reshape(len(each), int(np.prod(each.shape[1:]))) for each in pieces if each.ndim]
    count = len(flat[0]) if n is None and flat else n
    fits = len(flat) == len(pieces) and all(
        len(each) == count and each.dtype.kind in "fiub" for each in flat
    )
    found = np.concatenate(flat, axis=1) if fits else pieces[0]
    if not fits or (width is not None and found.shape[1] != width):
        rows = "a row" if n is None else f"{n} rows"
        raise LogError(
            f"{name}{whose} must hold {rows} of {'' if width is None else f'{width} '}numbers, one "
            f"for each step. Got dtype {found.dtype}, shape {found.shape}."
        )
    require_finite(name + whose, found, LogError)
    return found


def _flags(arrays: Mapping[str, Any], name: str, n: int, *, whose: str = "") -> BoolArray:
    values = _rows(arrays, name, n, 1, whose=whose)[:, 0]
    if not np.isin(values, (0, 1)).all():
        raise LogError(f"{name}{whose} must hold 0 and 1 only. Got other numbers as well.")
    return values.astype(bool)


def _real(values: AnyArray) -> FloatArray:
    return values if values.dtype.kind == "f" else values.astype(float)
