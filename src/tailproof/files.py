"""Files written whole, with checksums, that hold numbers and text only; results as JSON and frames."""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import re
import secrets
import stat
import sys
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields, is_dataclass
from glob import glob
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias
from urllib.parse import unquote

import numpy as np

from tailproof.arrays import AnyArray
from tailproof.errors import MethodError, StorageError, TailproofError, require_module

if TYPE_CHECKING:
    import pandas
    import pyarrow

    Frame: TypeAlias = pandas.DataFrame | pyarrow.Table


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


#: A DuckDB file whose views and queries may read other files.
_EXTERNAL = re.compile(r"duckdb://[^?]*\?external=yes&")


def require_outputs(outputs: Mapping[str, str | Path], inputs: Sequence[str | Path]) -> None:
    """Raise if a file to write is not a regular file, is named twice, or was read.

    `outputs` are files by the argument that names them; `inputs` are logs, tables and policies in any
    form that they may take. The code that this process has imported was read as well. A database that
    may read other files (``external=yes``) may have read any file that exists.
    """
    anything = any(_EXTERNAL.match(str(text)) for text in inputs)
    targets = {name: require_replaceable(path) for name, path in outputs.items()}
    read = {path for text in inputs for path in local_files(text)}
    code = {getattr(module, "__file__", None) for module in tuple(sys.modules.values())}
    for name, target in targets.items():
        if target.exists() and (
            str(target) in code
            or any(target.samefile(source) or target.is_relative_to(source) for source in read)
        ):
            raise TailproofError(
                f"{outputs[name]} is an input of this command, or a part of one, and would be "
                f"replaced. Name another file.",
                argument=name,
            )
        if target.exists() and anything:
            raise TailproofError(
                f"With external=yes a query or a view can read any file, so no file that exists is "
                f"replaced. Got {outputs[name]}; name a new file.",
                argument=name,
            )
    if len(set(targets.values())) < len(targets):
        names = ", ".join(str(path) for path in outputs.values())
        raise TailproofError(
            f"One file cannot hold two results. Got {names}.", argument=next(iter(outputs))
        )


#: Where databases keep what is not yet in their file.
_BESIDE_DATABASES = ("-wal", "-shm", "-journal", ".wal")


def local_files(given: str | Path) -> set[Path]:
    """Return the files and folders on this machine that an input names, in any form it may take.

    A path, a glob, a URI (``sqlite://shop.db?table=orders``), files quoted in its query, a named
    policy (``new=rule.py:choose``), a mixture of them, a module of the current folder, a Minari data
    set by its id. What does not exist is left out.

    >>> [path.name for path in local_files(f"rule={__file__}:choose")]
    ['files.py']
    """
    text = str(given)
    words = {text, text.partition("=")[2], *re.findall(r"['\"]([^'\"]+)['\"]", text)}
    words |= {part for word in words for part in re.split(r"\s*(?:\*|\s\+|\+(?=[\d.]))\s*", word)}
    words |= {word.partition("://")[2] for word in words}
    words |= {unquote(word) for word in words} | {word.partition("?")[0] for word in words}
    words |= {word.rpartition(":")[0] for word in words}
    words |= {word.replace(".", "/") + ".py" for word in words}
    words |= {word + each for word in words for each in _BESIDE_DATABASES}
    minari = os.environ.get("MINARI_DATASETS_PATH", "~/.minari/datasets")
    found = {each for word in words if word for each in (word, *glob(word))}
    found.add(os.path.join(os.path.expanduser(minari), text))
    return {Path(os.path.realpath(each)) for each in found if os.path.exists(each)}


def sync_folder(folder: Path) -> None:
    """Flush a folder to disk, so that a new file survives a power failure, where supported."""
    if not hasattr(os, "O_DIRECTORY"):
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_LONGEST_LINE = 200
_CHECKSUM = "sha256"


class SavedFileError(TailproofError):
    """A saved file that cannot be used."""


def write_file(
    path: str | Path,
    kind: str,
    version: int,
    header: Mapping[str, object],
    arrays: Mapping[str, object],
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
            require_plausible(sum(each.file_size for each in archive.infolist()), len(rest))
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


#: The classes of which a file may hold objects, by module: reading one makes nothing else.
_SAVED = {
    "critics.custom": "Custom",
    "critics.ensembles": "Ensemble LinearCritics",
    "critics.fitted_q": "FQI",
    "critics.greedy": "GreedyPolicy SoftmaxPolicy",
    "critics.linear": "Statistics",
    "critics.lstd": "LSPI",
    "critics.penalties": "Absolute PerObservation Relative",
    "critics.rewards": "ConstantRewards HuberRewards TamedRewards",
    "critics.trees": "Fixed Limited LinearScores LogShares StateCritics StateTree Supported TreeArrays "
    "TreeValues",
    "deep.bases": "BehaviourCloning IQL NeuralFQE SAC SQL TD3BC",
    "deep.critics": "CategoricalPolicy ClippedPolicy GaussianPolicy NeuralCritics NeuralPolicy",
    "deep.data": "Scaling",
    "deep.history": "History Series",
    "deep.settings": "EarlyStopping",
    "deep.stack": "Shape Stack",
    "doors.learned": "Learned",
    "features.maps": "Additive Basis Joint PerAction Polynomial Standardise",
    "io.columns": "Columns",
    "io.encoder": "Actions Encoder Variable",
    "io.parquet": "Description",
    "io.steps": "Tally",
    "learners.cloning": "Cloning RegressionCloning TreeCloning",
    "learners.improvement": "Constant ForestFQI OneStep WithinSupport",
    "learners.judge": "Judgement",
    "learners.one_step": "PolicyScores PolicyTree",
    "log.columns": "Summaries",
    "log.folds": "Bootstrap OutOfBag Replicate Split Whole",
    "log.spaces": "Continuous Discrete",
    "methods.method": "Method",
    "policies.forms": "LinearPolicy",
    "robust.aggregates": "Mean MeanMinusStd Median Quantile TrimmedMean",
}
_MODULES = {name: module for module, names in _SAVED.items() for name in names.split()}
_DEEP = "'tailproof[deep]'", "This file"


@dataclass(frozen=True)
class NotInFile:
    """A function of the user's own, of which a saved file holds the name alone."""

    name: str

    def __str__(self) -> str:
        return self.name

    def __call__(self, fold: object, gamma: float) -> NoReturn:  # noqa: ARG002
        """Raise an error that says so."""
        raise MethodError(
            f"{self.name} is a function of your own. A saved file does not hold code: to learn again, "
            f"pass it as base=."
        )


#: Marks a field of a dataclass that files do not hold: ``field(default=None, metadata=NOT_SAVED)``.
NOT_SAVED = {"saved": False}


def _saved_fields(kind: Any) -> Sequence[str]:
    """Return the arguments that make an object: fields, or those that `__match_args__` names."""
    if not is_dataclass(kind):
        return kind.__match_args__  # type: ignore[no-any-return]
    return [each.name for each in fields(kind) if each.init and each.metadata.get("saved", True)]


def to_parts(value: object, arrays: dict[str, AnyArray] | None = None) -> object:
    """Return a value as JSON types; its arrays are put into `arrays`, and refused without it.

    Tailproof's own classes are stored by name. The user's own features are stored as their text only,
    and a function that is a base by its name; other foreign objects raise an error.

    >>> from tailproof.log.spaces import Discrete
    >>> to_parts(Discrete(2, ("hold", "buy")))
    {'class': 'Discrete', 'n': 2, 'labels': ['hold', 'buy']}
    >>> from_parts(to_parts(Discrete(2, ("hold", "buy"))))
    Discrete(n=2, labels=('hold', 'buy'))
    """
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | float | str):
        return value
    kind = type(value)
    if kind.__name__ == "Custom" and kind.__module__ == "tailproof.critics.custom":
        return {"class": "Custom", "fit_fold": {"own function": str(value)}}
    if kind.__module__ == f"tailproof.{_MODULES.get(kind.__name__)}":
        named = {name: to_parts(getattr(value, name), arrays) for name in _saved_fields(kind)}
        return {"class": kind.__name__, **named}
    if isinstance(value, tuple | list):
        return [to_parts(each, arrays) for each in value]
    if isinstance(value, Mapping):
        return {"mapping": {str(key): to_parts(each, arrays) for key, each in value.items()}}
    what, given = "array", value
    if hasattr(value, "detach"):
        what, given = "tensor", value.detach().cpu().numpy()
    if arrays is not None and isinstance(given, np.ndarray):
        known = [name for name, each in arrays.items() if each is given]
        name = known[0] if known else f"array_{len(arrays)}"
        arrays[name] = given
        return {what: name}
    if hasattr(value, "size") and callable(value):
        return {"own features": repr(value)}
    raise MethodError(
        f"{kind.__name__} cannot be saved: a saved file holds numbers and tailproof's own settings, so "
        f"that loading it executes nothing (models of scikit-learn would need pickle, which does). "
        f"Keep models of your own in the format of their library; readable() is a small tree that "
        f"decides nearly alike, which can be saved and exported. Linear critics and trees can be too."
    )


def from_parts(
    parts: Any, arrays: Mapping[str, AnyArray] | None = None, *, features: Any = None
) -> Any:
    """Rebuild the argument of `to_parts`; `features` replaces the user's own features."""
    if isinstance(parts, list):
        return tuple(from_parts(each, arrays, features=features) for each in parts)
    if not isinstance(parts, dict):
        return parts
    if "class" not in parts:
        ((what, inner),) = parts.items()
        if what == "mapping":
            return {key: from_parts(each, arrays, features=features) for key, each in inner.items()}
        if what == "own function":
            return NotInFile(inner)
        if what == "own features":
            if features is None:
                raise SavedFileError(
                    f"It was saved with features of your own, {inner}. They are code, which a saved "
                    f"file does not hold: pass them again as features=."
                )
            return features
        found = (arrays or {})[inner]
        return found if what == "array" else require_module("torch", *_DEEP).from_numpy(found)
    name = parts["class"]
    if name not in _MODULES:
        raise SavedFileError(f"It names {name!r}, which this tailproof does not know.")
    kind = getattr(require_module(f"tailproof.{_MODULES[name]}", *_DEEP), name)
    if unknown := sorted({*parts} - {"class", *_saved_fields(kind)}):
        raise SavedFileError(
            f"It has {unknown[0]!r} in {name}, which this tailproof does not know."
        )
    given = {key: from_parts(each, arrays, features=features) for key, each in parts.items()}
    del given["class"]
    try:
        _require_types(kind, given)
        return kind(**given)
    except Exception as error:  # constructors of untrusted contents raise errors of any type
        raise SavedFileError(f"It does not fit together: {name}: {error}.") from error


_TYPES: dict[str, Any] = {
    "None": type(None),
    "bool": bool,
    "int": int,
    "float": (int, float),
    "str": str,
    **dict.fromkeys(("FloatArray", "IntArray", "BoolArray", "AnyArray"), np.ndarray),
    "tuple": tuple,
    "Mapping": Mapping,
}


def _require_types(kind: Any, given: Mapping[str, Any]) -> None:
    """Raise if a field of a dataclass is not of its declared type, where that is plain or ours."""
    for each in fields(kind) if is_dataclass(kind) else ():
        named = [name.partition("[")[0].strip() for name in str(each.type).split("|")]
        if each.name not in given or not {*named} <= {*_TYPES, *_MODULES}:
            continue
        value, known = given[each.name], tuple(_TYPES[name] for name in named if name in _TYPES)
        texts = str(each.type).startswith("tuple[str") and isinstance(value, tuple)
        fits = type(value).__name__ in named or isinstance(value, known)
        if not fits or (texts and not all(isinstance(text, str) for text in value)):
            raise TypeError(f"{each.name} must be {each.type}. Got {value!r:.40} instead")


def write_value(path: str | Path, kind: str, version: int, value: object) -> None:
    """Write any value of `to_parts` to a file, atomically."""
    arrays: dict[str, AnyArray] = {}
    write_file(path, kind, version, {"value": to_parts(value, arrays)}, arrays)


def read_value(path: str | Path, kind: str, version: int, *, features: object = None) -> Any:
    """Return what `write_value` wrote, or raise a `SavedFileError`."""
    header, arrays = read_file(path, kind, version)
    try:
        return from_parts(header["value"], arrays, features=features)
    except SavedFileError as error:
        raise SavedFileError(f"{path} cannot be used. {error}") from error
    except (LookupError, ValueError, TypeError, AttributeError, RecursionError) as error:
        if isinstance(error, TailproofError):
            raise
        raise SavedFileError(f"{path} does not fit together: {error!r}. Save it again.") from error


def is_file_of(path: str | Path, kind: str) -> bool:
    """Return whether the first line of a file names this kind."""
    try:
        with Path(path).open("rb") as file:
            return file.read(_LONGEST_LINE).startswith(_title(kind).encode() + b" ")
    except OSError:
        return False


def sealed_page(page: Mapping[str, object]) -> bytes:
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


def require_plausible(claimed: int, size: int, times: int = 100, extra: int = 1 << 24) -> None:
    """Raise if a file of `size` bytes claims to unpack to more than so many times that, and `extra`."""
    limit = times * size + extra
    if claimed > limit:
        raise ValueError(
            f"it unpacks to {claimed} bytes, and {limit} are the most for its size: it is damaged, or "
            f"made to fill the memory"
        )


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


def plain(value: object) -> Any:
    """Return dataclasses, arrays and numpy numbers as dicts, lists, numbers and strings.

    JSON has no NaN and no infinity: NaN becomes None, ±∞ the strings "inf" and "-inf".

    >>> plain({"a": np.array([1.0, np.nan]), "b": (np.int64(2), math.inf)})
    {'a': [1.0, None], 'b': [2, 'inf']}
    """
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, np.ndarray):
        return [plain(each) for each in value.tolist()]
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    value = scalar(value)
    if isinstance(value, float) and not math.isfinite(value):
        return None if math.isnan(value) else "inf" if value > 0 else "-inf"
    return value if isinstance(value, bool | int | float | str | None) else str(value)


def scalar(value: object) -> object:
    """Return a numpy scalar as the Python one, anything else as it is."""
    return value.item() if isinstance(value, np.generic) else value


def as_frame(rows: Sequence[Mapping[str, object]]) -> Frame:
    """Return rows as a pandas frame, or as a pyarrow table where pandas is not installed.

    >>> as_frame([{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]).shape
    (2, 2)
    """
    try:
        import pandas
    except ImportError:
        import pyarrow

        table: Frame = pyarrow.Table.from_pylist([dict(row) for row in rows])
        return table
    frame: Frame = pandas.DataFrame(list(rows))
    return frame
