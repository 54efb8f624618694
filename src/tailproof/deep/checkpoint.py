"""Checkpoints of training: a safetensors file and a JSON page, each written atomically.

The tensors are written first, then the page with their SHA-256. A checkpoint is valid only with its
page, so an interrupted write leaves the previous one. Reading executes nothing.
"""

from __future__ import annotations

import hashlib
import json
import warnings
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import safetensors.torch
import torch
from safetensors import SafetensorError
from torch import Tensor

from tailproof.checkpoint import CheckpointWarning
from tailproof.errors import StorageError, TailproofError
from tailproof.files import write_whole

_FORMAT = "tailproof checkpoint 2"
_KEPT = 2


class CheckpointError(TailproofError):
    """A checkpoint cannot be used."""


def save(folder: Path, step: int, tensors: Mapping[str, Tensor], *, fingerprint: str) -> bool:
    """Write a checkpoint, delete all but the last two, and return whether it succeeded.

    A full disk or a lost mount causes a warning: the previous checkpoint stays, training continues.
    """
    name = f"step-{step:010d}"
    plain = {key: tensor.detach().cpu().contiguous() for key, tensor in tensors.items()}
    try:
        folder.mkdir(parents=True, exist_ok=True)
        content = safetensors.torch.save(plain)
        write_whole(folder / f"{name}.safetensors", content)
        page = {
            "format": _FORMAT,
            "step": step,
            "fingerprint": fingerprint,
            "tensors": f"{name}.safetensors",
            "sha256": hashlib.sha256(content).hexdigest(),
        }
        write_whole(folder / f"{name}.json", json.dumps(page, indent=1).encode())
    except (OSError, StorageError) as error:
        warnings.warn(
            f"The checkpoint at step {step} could not be written to {folder}: {error}. Training "
            f"goes on and will try again; the checkpoint before, if any, is untouched. Free some "
            f"space or choose another folder.",
            CheckpointWarning,
            stacklevel=2,
        )
        return False
    for page_path in _pages(folder)[_KEPT:]:
        page_path.unlink(missing_ok=True)
        page_path.with_suffix(".safetensors").unlink(missing_ok=True)
    return True


def latest(folder: Path, *, fingerprint: str) -> tuple[int, dict[str, Tensor]] | None:
    """Return step and tensors of the newest valid checkpoint, or None if there is none.

    A damaged checkpoint is skipped with a warning. If all are damaged, or belong to other settings,
    an error is raised.
    """
    pages = _pages(folder)
    for page_path in pages:
        try:
            return _read(page_path, fingerprint)
        except CheckpointError:
            raise
        except (OSError, LookupError, TypeError, ValueError, SafetensorError) as error:
            warnings.warn(
                f"The checkpoint {page_path} is damaged ({type(error).__name__}: {error}) and was "
                f"skipped.",
                CheckpointWarning,
                stacklevel=2,
            )
    if pages:
        raise CheckpointError(
            f"None of the {len(pages)} checkpoints in {folder} can be read. Delete the folder to "
            f"train from the start, or restore it from a backup."
        )
    return None


def _read(page_path: Path, fingerprint: str) -> tuple[int, dict[str, Tensor]]:
    page: dict[str, Any] = json.loads(page_path.read_bytes())
    if page["format"] != _FORMAT:
        raise ValueError(f"its format is {page['format']!r}, not {_FORMAT!r}")
    content = (page_path.parent / Path(page["tensors"]).name).read_bytes()
    if hashlib.sha256(content).hexdigest() != page["sha256"]:
        raise ValueError("its tensors do not match their SHA-256")
    if page["fingerprint"] != fingerprint:
        raise CheckpointError(
            f"The checkpoint {page_path} was written with other data, settings or seed. Use another "
            f"folder for this run, or delete this one."
        )
    return int(page["step"]), safetensors.torch.load(content)


def _pages(folder: Path) -> list[Path]:
    """Return the checkpoints' pages, newest first."""
    return sorted(folder.glob("step-*.json"), reverse=True) if folder.is_dir() else []


def training_fingerprint(*parts: object) -> str:
    """Return a short digest of settings, seeds and data that is stable across processes and versions.

    Examples
    --------
    >>> training_fingerprint("iql", 3) == training_fingerprint("iql", 3)
    True
    >>> training_fingerprint("iql", 3) == training_fingerprint("sql", 3)
    False
    """
    digest = hashlib.sha256()
    for part in parts:
        if isinstance(part, Tensor):
            digest.update(part.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        else:
            digest.update(repr(part).encode())
        digest.update(b"\0")
    return digest.hexdigest()[:32]
