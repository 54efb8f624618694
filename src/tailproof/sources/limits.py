"""Limits for untrusted files: no access to other files, and bounded memory."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from tailproof.data.view import physical_memory
from tailproof.errors import LogError

#: Limit on the unpacked size: MOST_EXPANSION times the size of the file, plus MOST_EXTRA bytes.
MOST_EXPANSION, MOST_EXTRA = 200, 1 << 26


def require_own_data(file: Any, label: str) -> None:
    """Raise unless an open HDF5 file contains all its data, within the limit on the unpacked size.

    External links, external storage and virtual data sets would read other files of the machine.
    """
    import h5py

    limit = MOST_EXPANSION * Path(file.filename).stat().st_size + MOST_EXTRA
    total, seen, waiting = 0, set(), [file]
    while waiting:
        group = waiting.pop()
        for name in group:
            link = group.get(name, getlink=True)
            if isinstance(link, h5py.ExternalLink):
                raise LogError(
                    f"{label} is not read: {name!r} is a link to another file, {link.filename!r}. "
                    f"Copy the data into the file itself."
                )
            item = group.get(name)
            if item is None or item.id in seen:
                continue
            seen.add(item.id)
            if hasattr(item, "keys"):
                waiting.append(item)
                continue
            if item.external or item.is_virtual:
                raise LogError(
                    f"{label} is not read: the data of {item.name!r} lie in other files. Copy them "
                    f"into the file itself."
                )
            total += item.nbytes
            if total > limit:
                raise LogError(
                    f"{label} is not read: it claims over {limit} bytes, more than its file can hold. "
                    f"It is damaged, or made to fill the memory."
                )


def require_room(label: str, rows: int, columns: int) -> None:
    """Raise if a table needs more than half of the machine's memory."""
    needed, allowed = 8 * rows * columns, physical_memory() // 2
    if needed > allowed:
        raise LogError(
            f"{label} has {rows} rows: {columns} columns of them need {needed / 1e9:.1f} GB of memory, "
            f"and may take {allowed / 1e9:.1f} GB. Pass lazy=True to leave it on disk."
        )


class LimitedStream(io.RawIOBase):
    """A stream that raises an error after more bytes than allowed."""

    def __init__(self, stream: Any, label: str, allowed: int | None = None) -> None:
        super().__init__()
        self._stream, self._label = stream, label
        self._left = self._allowed = physical_memory() // 2 if allowed is None else allowed

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Any) -> int:
        """Read some bytes."""
        content = self._stream.read(len(buffer))
        self._left -= len(content)
        if self._left < 0:
            raise LogError(
                f"{self._label} is not read: it unpacks to more than {self._allowed / 1e9:.1f} GB. "
                f"Write it as Parquet, which can be read in pieces."
            )
        buffer[: len(content)] = content
        return len(content)

    def close(self) -> None:
        """Close this and the underlying stream."""
        self._stream.close()
        super().close()
