"""Saved files: a JSON header and arrays, with a checksum.

A file has one line with its kind, one line with the SHA-256 of the rest, and then a zip archive of
``header.json`` and one ``.npy`` per array. Reading parses numbers and text only; nothing is executed
or unpickled. The unpacked size of the archive is limited.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray
from tailproof.errors import TailproofError
from tailproof.files.atomic import write_whole

_LONGEST_LINE = 200
#: Limit on the unpacked size: MOST_EXPANSION times the size of the file, plus MOST_EXTRA bytes.
MOST_EXPANSION, MOST_EXTRA = 100, 1 << 24
_CHECKSUM = "sha256"


class SavedFileError(TailproofError):
    """A saved file that cannot be used."""


def write_file(
    path: str | Path, kind: str, version: int, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write a header and arrays to a file, atomically."""
    inside = io.BytesIO()
    with zipfile.ZipFile(inside, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr("header.json", json.dumps(header, indent=1, ensure_ascii=False))
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.asarray(values), allow_pickle=False)
    rest = inside.getvalue()
    lines = f"{_title(kind)} {version}\n{hashlib.sha256(rest).hexdigest()}\n"
    write_whole(path, lines.encode() + rest)


def read_file(
    path: str | Path, kind: str, version: int
) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return the header and arrays of a file of `write_file`; raise a `SavedFileError` if invalid."""
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise SavedFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    first, _, content = content.partition(b"\n")
    found = _version(path, first, kind)
    if found != version:
        raise SavedFileError(
            f"{path} has format {found} of a {kind}; this tailproof reads format {version}. "
            f"{'Update tailproof' if found > version else 'Use the tailproof that wrote it'}, or "
            f"learn again."
        )
    checksum, _, rest = content.partition(b"\n")
    if hashlib.sha256(rest).hexdigest().encode() != checksum:
        raise SavedFileError(
            f"{path} is damaged: its content does not match its checksum. It was truncated or "
            f"changed after it was written; copy it again, or learn again."
        )
    try:
        with zipfile.ZipFile(io.BytesIO(rest)) as archive:
            _refuse_bombs(archive, len(rest))
            header = json.loads(archive.read("header.json"))
            arrays = {
                name.removesuffix(".npy"): _array(archive.read(name))
                for name in archive.namelist()
                if name.endswith(".npy")
            }
        if not isinstance(header, dict):
            raise ValueError("its header is no JSON object")
    except Exception as error:  # parsers of untrusted bytes raise errors of any type
        raise SavedFileError(f"{path} is no {kind} that tailproof wrote: {error}.") from error
    return header, arrays


def is_file_of(path: str | Path, kind: str) -> bool:
    """Return whether the first line of a file names this kind."""
    try:
        with Path(path).open("rb") as file:
            return file.read(_LONGEST_LINE).startswith(_title(kind).encode() + b" ")
    except OSError:
        return False


def sealed_page(page: Mapping[str, Any]) -> bytes:
    """Return a page as JSON with its own SHA-256.

    If the page lists the checksums of other files, its checksum protects those files too.

    >>> opened_page(sealed_page({"step": 3}), "The page")
    {'step': 3}
    """
    return json.dumps({**page, _CHECKSUM: _digest(page)}, indent=1).encode()


def opened_page(content: bytes, label: str) -> dict[str, Any]:
    """Return the page that `sealed_page` wrote; raise an error if it is damaged."""
    try:
        page = json.loads(content)
        seal = page.pop(_CHECKSUM)
    except (ValueError, LookupError, AttributeError, TypeError, RecursionError) as error:
        raise SavedFileError(f"{label} is no page that tailproof wrote: {error}.") from error
    if not isinstance(page, dict) or seal != _digest(page):
        raise SavedFileError(
            f"{label} is damaged: it does not match its checksum. Copy it again, or write it anew."
        )
    return page


def _digest(page: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(page, sort_keys=True).encode()).hexdigest()


def _title(kind: str) -> str:
    return f"tailproof {kind}"


def _version(path: str | Path, line: bytes, kind: str) -> int:
    title, _, number = line[:_LONGEST_LINE].rpartition(b" ")
    if title != _title(kind).encode() or not number.isdigit():
        raise SavedFileError(
            f"{path} is no {kind} that tailproof wrote: it starts with {bytes(line[:40])!r}."
        )
    return int(number)


def _refuse_bombs(archive: zipfile.ZipFile, size: int) -> None:
    """Raise if an archive would unpack to more than the limit."""
    claimed = sum(entry.file_size for entry in archive.infolist())
    limit = MOST_EXPANSION * size + MOST_EXTRA
    if claimed > limit:
        raise ValueError(f"it would unpack to {claimed} bytes, and may have {limit}")


def _array(content: bytes) -> AnyArray:
    """Return the array of a ``.npy`` file; its size is checked before memory is allocated."""
    file = io.BytesIO(content)
    version = np.lib.format.read_magic(file)
    if version not in ((1, 0), (2, 0)):
        raise ValueError(f"it holds an array of format {version}")
    header = (
        np.lib.format.read_array_header_1_0(file)
        if version == (1, 0)
        else np.lib.format.read_array_header_2_0(file)
    )
    shape, fortran, dtype = header
    if dtype.hasobject:
        raise ValueError("it holds an array of objects")
    rest = content[file.tell() :]
    if len(rest) != math.prod(shape) * dtype.itemsize:
        raise ValueError("an array of it has another size than it says")
    values = np.frombuffer(rest, dtype=dtype).reshape(shape, order="F" if fortran else "C")
    return values.copy()
