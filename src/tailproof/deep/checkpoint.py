"""Checkpoints of training: one file each, written atomically and read with its checksum.

An interrupted write leaves the previous checkpoint. Reading executes nothing.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from pathlib import Path

from torch import Tensor

from tailproof.checkpoint import CheckpointWarning, write_progress
from tailproof.deep.history import History
from tailproof.errors import TailproofError
from tailproof.files import SavedFileError, read_value

_KIND, _VERSION = "checkpoint", 3
_KEPT = 2


class CheckpointError(TailproofError):
    """A checkpoint cannot be used."""


def save(
    folder: Path, step: int, tensors: Mapping[str, Tensor], history: History, *, fingerprint: str
) -> bool:
    """Write a checkpoint, delete all but the last two, and return whether it succeeded.

    A full disk or a lost mount causes a warning: the previous checkpoint stays, training continues.
    """
    state = (fingerprint, step, tensors, history)
    if not write_progress(folder / f"step-{step:010d}", _KIND, _VERSION, state):
        return False
    for old in _newest_first(folder)[_KEPT:]:
        old.unlink(missing_ok=True)
    return True


def latest(folder: Path, *, fingerprint: str) -> tuple[int, Mapping[str, Tensor], History] | None:
    """Return step, tensors and history of the newest valid checkpoint, or None if there is none.

    A damaged checkpoint is skipped with a warning. If all are damaged, or belong to other settings,
    an error is raised.
    """
    paths = _newest_first(folder)
    for path in paths:
        try:
            mark, step, tensors, history = read_value(path, _KIND, _VERSION)
        except SavedFileError as error:
            warnings.warn(f"A checkpoint was skipped. {error}", CheckpointWarning, stacklevel=2)
            continue
        if mark != fingerprint:
            raise CheckpointError(
                f"The checkpoint {path} was written with other data, settings or seed, or by another "
                f"version of tailproof. Use another folder for this run, or delete this one."
            )
        return int(step), tensors, history
    if paths:
        raise CheckpointError(
            f"None of the {len(paths)} checkpoints in {folder} can be read. Delete the folder to "
            f"train from the start, or restore it from a backup."
        )
    return None


def _newest_first(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*"), reverse=True) if folder.is_dir() else []
