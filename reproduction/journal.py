"""Finished replicates on disk, one line each, so that a stopped run can resume."""

from __future__ import annotations

import json
import os
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import IO, Any, Self

from tailproof.errors import StorageError
from tailproof.files import sync_folder


class Journal(dict[str, Any]):
    """Records by key in an append-only file, flushed to disk after each line.

    Every line is a checksum and JSON. An incomplete or damaged line does not match its checksum: it is
    left out, and its replicate runs again. The file is locked while it is open, so that two runs cannot
    write to it at once. Without a `path`, records are only kept in memory. `about` are the settings
    that all records share: a file with other settings, or without them, raises an error, which names
    what `differs`.

    Examples
    --------
    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "progress.jsonl"
    >>> with Journal(path, {"name": "ope"}) as journal:
    ...     journal.append("a", [{"value": 1.5}])
    >>> with Journal(path, {"name": "ope"}) as journal:
    ...     journal["a"]
    [{'value': 1.5}]
    """

    def __init__(
        self,
        path: Path | None,
        about: Mapping[str, Any],
        *,
        differs: str = "its settings are not the ones given now",
    ) -> None:
        super().__init__()
        self.path, self._differs = path, differs
        self._about = json.loads(json.dumps(about))
        self._file: IO[bytes] | None = None

    def __enter__(self) -> Self:
        if self.path is None:
            return self
        try:
            self.path.parent.mkdir(parents=True, exist_ok=True)
            self._file = self.path.open("a+b")
            _lock(self._file, self.path)
            self._read(self._file, self.path.parent)
        except OSError as error:
            self.close()
            raise StorageError(
                f"{self.path} could not be opened: {error}. Choose another folder with out=."
            ) from error
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def append(self, key: str, record: Any) -> None:
        """Add a record, and return when it is on disk."""
        self._write({"key": key, "record": record})
        # Converted by JSON, so that new records equal those read from the file.
        self[key] = json.loads(json.dumps(record))

    def close(self) -> None:
        """Close the file and release the lock."""
        if self._file is not None:
            self._file.close()
            self._file = None

    def _read(self, file: IO[bytes], folder: Path) -> None:
        file.seek(0)
        content = file.read()
        whole = content.rfind(b"\n") + 1
        if whole < len(content):  # the last line is incomplete
            file.truncate(whole)
        if whole == 0:
            self._write({"about": self._about})
            sync_folder(folder)
            return
        entries = [entry for line in content[:whole].splitlines() if (entry := entry_of(line))]
        if next((each["about"] for each in entries if "about" in each), None) != self._about:
            raise StorageError(
                f"{self.path} belongs to another run, or its first line is damaged: {self._differs}. "
                f"Choose another folder with out=, or delete the file to start over."
            )
        self.update((each["key"], each["record"]) for each in entries if "key" in each)

    def _write(self, entry: Any) -> None:
        if self._file is None:
            return
        try:
            self._file.write(line_of(entry))
            self._file.flush()
            os.fsync(self._file.fileno())
        except OSError as error:
            raise StorageError(
                f"{self.path} could not be written: {error}. What is in it is kept: make room and "
                f"run the same command again."
            ) from error


def line_of(entry: Any) -> bytes:
    """Return an entry as a line: a checksum and JSON."""
    content = json.dumps(entry).encode()
    return b"%08x %s\n" % (zlib.crc32(content), content)


def entry_of(line: bytes) -> dict[str, Any] | None:
    """Return the entry of a line; None if it does not match its checksum."""
    checksum, _, content = line.partition(b" ")
    try:
        if int(checksum, 16) != zlib.crc32(content):
            return None
        entry = json.loads(content)
    except (ValueError, RecursionError):
        return None
    return entry if isinstance(entry, dict) else None


def _lock(file: IO[bytes], path: Path) -> None:
    try:
        import fcntl
    except ImportError:  # Windows has no fcntl
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        raise StorageError(
            f"{path} is being written by another run. Wait for it, or choose another folder with "
            f"out=."
        ) from None
