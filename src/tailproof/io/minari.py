"""Logs from Minari data sets."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, FloatArray
from tailproof.errors import LogError, require_module
from tailproof.io.steps import Notes
from tailproof.io.tables import naming_the_file, refuse_other_files
from tailproof.log.log import Log
from tailproof.log.sources import MinariData
from tailproof.log.spaces import Continuous, as_space

IDENTIFIER = re.compile(r"([-\w]+/)*[-\w]+-v\d+")


def read_minari(source: str | Path | MinariData, notes: Notes | None = None) -> Log:
    """Read a Minari data set, given by its id, its folder or as a `MinariDataset`.

    Observations are flattened as in Gymnasium: dictionary entries in the order of the space,
    discrete ones one-hot. An id is looked up in ``MINARI_DATASETS_PATH`` or ``~/.minari/datasets``;
    nothing is downloaded.

    Parameters
    ----------
    source
        For example ``"D4RL/door/human-v2"``, or a folder with ``data/metadata.json``.
    notes
        Take what is ignored.
    """
    notes = notes or Notes()
    if not isinstance(source, str | Path):
        return _log_of(source, notes)
    label = f"The Minari data set {source}"
    minari = require_module("minari", "'tailproof[minari]'", label, LogError)
    folder = _folder(Path(source))
    try:
        with naming_the_file(
            label, "Its files are damaged or of another version; download them again."
        ):
            if folder is not None:
                _refuse_other_files(folder, label)
                return _log_of(minari.MinariDataset(folder), notes)
            dataset = minari.load_dataset(str(source))
            _refuse_other_files(Path(dataset.storage.data_path), label)
            return _log_of(dataset, notes)
    except LogError as error:
        if isinstance(error.__cause__, FileNotFoundError):
            raise LogError(
                f"{label} is not on this machine. Download it with `minari download {source}`, or "
                f"set MINARI_DATASETS_PATH to the folder that holds it."
            ) from error
        raise


def is_dataset(source: str | Path) -> bool:
    """Return whether this is a Minari folder, or an id and not a file or folder."""
    try:
        path = Path(source)
        if path.exists():
            return _folder(path) is not None
    except (OSError, ValueError):
        return False
    return isinstance(source, str) and IDENTIFIER.fullmatch(source) is not None


def _log_of(dataset: MinariData, notes: Notes) -> Log:
    """Return the log of a `MinariDataset`."""
    observation_space, action_space = dataset.observation_space, dataset.action_space
    episodes = []
    for episode in dataset.iterate_episodes():
        steps = len(episode.rewards)
        seen = flatten(observation_space, episode.observations)
        if len(seen) != steps + 1:
            raise LogError(
                f"A Minari episode has one observation more than steps. Episode {episode.id} has "
                f"{len(seen)} observations and {steps} steps."
            )
        taken = _actions(action_space, episode.actions)
        flags = episode.terminations, episode.truncations
        ids = np.full(steps, episode.id)
        episodes.append((seen[:-1], taken, episode.rewards, seen[1:], ids, *flags))
    if not sum(len(episode[2]) for episode in episodes):
        raise LogError("The Minari data set has no steps. A log needs at least one.")
    states, actions, rewards, after, ids, terminated, truncated = map(
        np.concatenate, zip(*episodes, strict=True)
    )
    return Log.from_arrays(
        states,
        actions,
        rewards,
        after,
        episode=ids,
        terminated=terminated,
        truncated=truncated,
        action_space=_space(action_space, actions, notes),
        state_names=_names(observation_space),
    )


def flatten(space: Any, values: Any) -> FloatArray:
    """Return n values of a Gymnasium space, in Minari's storage format, as an (n, p) array."""
    kind = type(space).__name__
    if kind == "Dict":
        return np.concatenate([flatten(part, values[k]) for k, part in space.items()], axis=1)
    if kind == "Tuple":
        parts = [flatten(part, value) for part, value in zip(space, values, strict=True)]
        return np.concatenate(parts, axis=1)
    array = np.asarray(values)
    if kind == "Discrete":
        return _one_hot(array.reshape(-1) - space.start, int(space.n))
    if kind == "MultiDiscrete":
        codes = (array - space.start).reshape(len(array), -1)
        sizes = np.ravel(space.nvec).tolist()
        return np.concatenate([_one_hot(codes[:, j], n) for j, n in enumerate(sizes)], axis=1)
    if kind in ("Box", "MultiBinary") and array.dtype.kind in "fiub":
        flat = array.reshape(len(array), -1)
        return flat if flat.dtype.kind == "f" else flat.astype(float)
    raise LogError(
        f"Observations of a {kind} space cannot be made into state variables. Got {space}; "
        f"turn them into numbers first and use Log.from_arrays."
    )


def _one_hot(codes: AnyArray, n: int) -> FloatArray:
    if ((codes < 0) | (codes >= n)).any():
        raise LogError(f"An observation lies outside its discrete space of {n} values.")
    return np.asarray(codes[:, None] == np.arange(n), dtype=float)


def _names(space: Any, prefix: str = "") -> list[str] | None:
    """Return one name per state variable of a dictionary or tuple of spaces."""
    from gymnasium.spaces import flatdim

    parts = space.items() if hasattr(space, "items") else None
    if type(space).__name__ == "Tuple":
        parts = enumerate(space)
    if parts is None:
        return [f"{prefix}[{j}]" for j in range(flatdim(space))] if prefix else None
    inner = [_names(part, f"{prefix}.{key}" if prefix else str(key)) for key, part in parts]
    return [name for names in inner for name in names or ()]


def _actions(space: Any, values: Any) -> AnyArray:
    kind = type(space).__name__
    array = np.asarray(values) if kind in ("Discrete", "Box") else None
    if array is None:
        raise LogError(
            f"Actions must be discrete or real vectors. Got a {kind} space; code combinations of "
            f"actions as one integer and use Log.from_arrays."
        )
    if kind == "Discrete":
        return np.asarray(array.reshape(-1) - space.start)
    return array.reshape(len(array), -1).astype(np.result_type(array, np.float32), copy=False)


def _space(space: Any, actions: AnyArray, notes: Notes) -> Any:
    if type(space).__name__ == "Discrete":
        return int(space.n)
    found = as_space(space, actions)
    if isinstance(found, Continuous) and found.low is not None and found.high is not None:
        outside = (actions < found.low) | (actions > found.high)
        if outside.any():
            notes.notes.append(
                f"{int(outside.any(axis=1).sum())} actions lie outside the bounds that the data set "
                f"states; the bounds are ignored."
            )
            return Continuous(found.dimension)
    return found


def _refuse_other_files(folder: Path, label: str) -> None:
    """Raise if HDF5 files of a data set refer to other files."""
    for path in sorted(folder.glob("*.hdf5")):
        import h5py

        with h5py.File(path, "r") as file:
            refuse_other_files(file, label)


def _folder(path: Path) -> Path | None:
    for folder in (path, path / "data"):
        if (folder / "metadata.json").is_file():
            return folder
    return None
