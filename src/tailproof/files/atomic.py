"""Atomic writes that replace only regular files."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tailproof.errors import StorageError


@contextmanager
def written_whole(path: str | Path) -> Iterator[Path]:
    """Yield a temporary path to write to; it replaces `path` when the ``with`` block ends.

    After a crash, a full disk or an error the old file is unchanged. Only regular files are
    replaced, never a device, a pipe or a folder. For a symbolic link, its target is replaced.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(f"{folder}/answer.txt") as unfinished:
    ...         _ = unfinished.write_text("42")
    ...     Path(folder, "answer.txt").read_text()
    '42'
    """
    target = require_replaceable(path)
    unfinished = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
    try:
        yield unfinished
        with unfinished.open("rb+") as file:
            os.fsync(file.fileno())
        os.replace(unfinished, target)
        sync_folder(target.parent)
    except OSError as error:
        raise StorageError(
            f"{path} could not be written: {error.strerror or error}. Check that the folder exists, "
            f"may be written to and has room; what was there before is untouched."
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)


def write_whole(path: str | Path, content: bytes | str) -> None:
    """Write a file atomically; see `written_whole`."""
    with written_whole(path) as unfinished:
        unfinished.write_bytes(content.encode() if isinstance(content, str) else content)


def require_replaceable(path: str | Path) -> Path:
    """Return the resolved path; raise if it exists and is not a regular file."""
    target = Path(os.path.realpath(path))
    try:
        mode = target.stat().st_mode
    except OSError:
        return target  # it does not exist, or writing will raise the error
    if not stat.S_ISREG(mode):
        kind = "a folder" if stat.S_ISDIR(mode) else "a device or a pipe"
        raise StorageError(
            f"{path} could not be written: it is {kind}, and only files are replaced. Name a file."
        )
    return target


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, so that a new file survives a power failure, where supported."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
