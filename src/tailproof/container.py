"""One file for numbers and their description: JSON and arrays, checked before they are used.

A file is a line that says what it is, a line with the SHA-256 of the rest, and the rest: a zip
archive of ``header.json`` and one ``.npy`` for each array. Reading it parses numbers and text; nothing
in it can be executed, and nothing is unpickled.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray
from tailproof.errors import TailproofError

_LONGEST_LINE = 200


class SavedFileError(TailproofError):
    """A saved file that cannot be used."""


def write_file(
    path: str | Path, kind: str, version: int, header: Mapping[str, Any], arrays: Mapping[str, Any]
) -> None:
    """Write a file whole or not at all, whatever happens meanwhile."""
    inside = io.BytesIO()
    with zipfile.ZipFile(inside, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(header, indent=1, ensure_ascii=False))
        for name, values in arrays.items():
            with archive.open(f"{name}.npy", "w") as file:
                np.lib.format.write_array(file, np.asarray(values), allow_pickle=False)
    rest = inside.getvalue()
    lines = f"{_title(kind)} {version}\n{hashlib.sha256(rest).hexdigest()}\n"
    target = Path(path)
    part = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        part.write_bytes(lines.encode() + rest)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)


def read_file(
    path: str | Path, kind: str, version: int
) -> tuple[dict[str, Any], dict[str, AnyArray]]:
    """Return the header and the arrays of a file that `write_file` wrote, or say what is wrong."""
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
            header = json.loads(archive.read("header.json"))
            arrays = {
                name.removesuffix(".npy"): _array(archive.read(name))
                for name in archive.namelist()
                if name.endswith(".npy")
            }
        if not isinstance(header, dict):
            raise ValueError("its header is no JSON object")
    except (zipfile.BadZipFile, KeyError, ValueError, EOFError, NotImplementedError) as error:
        raise SavedFileError(f"{path} is no {kind} that tailproof wrote: {error}.") from error
    return header, arrays


def is_file_of(path: str | Path, kind: str) -> bool:
    """Return whether a file says that it holds this kind of thing."""
    try:
        with Path(path).open("rb") as file:
            return file.read(_LONGEST_LINE).startswith(_title(kind).encode() + b" ")
    except OSError:
        return False


def _title(kind: str) -> str:
    return f"tailproof {kind}"


def _version(path: str | Path, line: bytes, kind: str) -> int:
    title, _, number = line[:_LONGEST_LINE].rpartition(b" ")
    if title != _title(kind).encode() or not number.isdigit():
        raise SavedFileError(
            f"{path} is no {kind} that tailproof wrote: it starts with {bytes(line[:40])!r}."
        )
    return int(number)


def _array(content: bytes) -> AnyArray:
    return np.asarray(np.lib.format.read_array(io.BytesIO(content), allow_pickle=False))
