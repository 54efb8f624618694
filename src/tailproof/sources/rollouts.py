"""Logs from .npz files of rollouts: arrays named as D4RL's, each ending where its episode did."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray
from tailproof.data.log import Log
from tailproof.data.spaces import Continuous
from tailproof.errors import LogError
from tailproof.sources.hdf5 import d4rl_log
from tailproof.sources.steps import Told

_PARTS = ("observations", "actions", "rewards", "terminals")
_OPTIONAL = ("timeouts", "next_observations", "final_observations")


def read_rollouts(
    source: str | Path | Mapping[str, Any],
    told: Told | None = None,
    *,
    max_steps: int | None = None,
) -> Log:
    """Read rollouts in D4RL's manner from an .npz file, or from a mapping of its arrays.

    The arrays are those of `read_d4rl`; other ones are ignored. `final_observations`, where there are
    any, hold the observation in which each episode ended, a row for each row of `terminals` or
    `timeouts`, so that the step at a timeout is kept. Continuous actions that all lie in [−1, 1] are
    taken to be bounded there, as those of D4RL's environments are. Nothing is unpickled.

    Examples
    --------
    >>> log = read_rollouts({
    ...     "observations": np.arange(4.0), "actions": np.zeros((4, 1)), "rewards": np.ones(4),
    ...     "terminals": [0, 1, 0, 0], "timeouts": [0, 0, 0, 1], "final_observations": [9.0, 8.0],
    ... })
    >>> log.next_states.ravel().tolist(), log.action_space.low
    ([1.0, 9.0, 3.0, 8.0], (-1.0,))
    """
    told = told or Told()
    arrays = dict(source) if isinstance(source, Mapping) else _load(source)
    log = d4rl_log(_with_next_observations(arrays), max_steps, told)
    space = log.action_space
    if isinstance(space, Continuous) and np.abs(log.actions).max() <= 1:
        space = Continuous(space.dimension, (-1.0,) * space.dimension, (1.0,) * space.dimension)
        return replace(log, action_space=space)
    return log


def is_rollouts(path: Path) -> bool:
    """Tell whether a path calls itself a file of numpy arrays."""
    return path.suffix.lower() == ".npz"


def _load(path: str | Path) -> dict[str, AnyArray]:
    try:
        with np.load(path, allow_pickle=False) as file:
            missing = [name for name in _PARTS if name not in file.files]
            if missing:
                raise LogError(
                    f"The file {path} must hold {', '.join(_PARTS)}, as D4RL's do. There is no "
                    f"{missing[0]}; got {', '.join(sorted(file.files)[:10]) or 'nothing'}."
                )
            return {name: file[name] for name in (*_PARTS, *_OPTIONAL) if name in file.files}
    except FileNotFoundError as error:
        raise LogError(f"There is no file {str(path)!r}.") from error
    except (OSError, ValueError, zipfile.BadZipFile, EOFError) as error:
        if isinstance(error, LogError):
            raise
        raise LogError(
            f"The file {path} is damaged or not an .npz of numbers: {error}. Write it again."
        ) from error


def _with_next_observations(arrays: dict[str, Any]) -> dict[str, Any]:
    """Return the arrays with next observations, where final ones say what episodes ended in."""
    final = arrays.pop("final_observations", None)
    if final is None or "next_observations" in arrays:
        return arrays
    missing = [name for name in (*_PARTS, "timeouts") if name not in arrays]
    if missing:
        raise LogError(f"final_observations belong to {', '.join(missing)}, which is not there.")
    observations = np.asarray(arrays["observations"])
    ends = np.asarray(arrays["terminals"], dtype=bool) | np.asarray(arrays["timeouts"], dtype=bool)
    final = np.asarray(final, dtype=observations.dtype)
    if len(ends) != len(observations) or final.shape != (int(ends.sum()), *observations.shape[1:]):
        raise LogError(
            f"final_observations must hold an observation for each of the {int(ends.sum())} ends of "
            f"episodes, {(int(ends.sum()), *observations.shape[1:])}. Got {final.shape} instead."
        )
    if not ends[-1]:
        raise LogError(
            "The last row ends no episode, so that its next observation is unknown. Mark it as a "
            "timeout and give the observation after it, or leave it out."
        )
    following = np.concatenate([observations[1:], observations[-1:]])
    following[ends] = final
    return {**arrays, "next_observations": following}
