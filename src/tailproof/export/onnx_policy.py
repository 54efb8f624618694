"""Load, check and run policies in ONNX graphs. Extra `deep`."""

from __future__ import annotations

import hashlib
import re
from base64 import b64decode
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from tailproof.arrays import AnyArray, FloatArray, IntArray, one_or_many
from tailproof.errors import PolicyError
from tailproof.export.graph import CHECKSUM_KEY, METADATA_KEY, UNSEALED, require_onnx
from tailproof.files.container import SavedFileError, opened_page

_TYPES = {
    "tensor(double)": np.float64,
    "tensor(float)": np.float32,
    "tensor(float16)": np.float16,
    "tensor(int64)": np.int64,
    "tensor(int32)": np.int32,
}


@dataclass(frozen=True, eq=False)
class _OnnxGraph:
    """An ONNX graph with one input, states (n, p).

    It keeps the bytes of the file, so that it can be sent to other processes and machines, and later
    changes of the file have no effect.
    """

    path: str
    content: bytes = field(repr=False)
    n_actions: int | None = None
    state_names: tuple[str, ...] = ()
    action_labels: tuple[str, ...] | None = None
    taught: IntArray | None = field(default=None, repr=False)

    @cached_property
    def session(self) -> Any:
        """The runtime's session, created on first use."""
        return _session(self.path, self.content)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "session"}

    def run(self, states: FloatArray, wanted: str) -> AnyArray:
        """Return one output of the graph, (n, ...)."""
        given = self.session.get_inputs()[0]
        names = [each.name for each in self.session.get_outputs()]
        output = wanted if wanted in names else names[0]
        array, fixed = _as_input(states, given, self.path), given.shape[0]
        count = len(array)
        size = fixed if isinstance(fixed, int) and fixed > 0 else max(count, 1)
        if size == fixed:  # pad the last batch
            array = np.pad(array, ((0, -count % size if count else size), (0, 0)))
        batches = np.split(array, range(size, len(array), size))
        return np.concatenate([self._answers(batch, given.name, output) for batch in batches])[
            :count
        ]

    def _answers(self, batch: AnyArray, name: str, output: str) -> AnyArray:
        try:
            values = np.asarray(self.session.run([output], {name: batch})[0])
        except Exception as error:  # onnxruntime has a type of its own for every way to fail
            reason = str(error).splitlines()[0]
            raise PolicyError(f"The policy in {self.path} could not be run: {reason}") from error
        if values.ndim == 0 or len(values) != len(batch):
            raise PolicyError(
                f"The policy in {self.path} must answer with a row for each state. Got the shape "
                f"{values.shape} for {len(batch)} states."
            )
        return values


@dataclass(frozen=True, eq=False)
class OnnxPolicy(_OnnxGraph):
    """A deterministic policy in an ONNX graph: its output ``actions``, or else its first output.

    Examples
    --------
    >>> import os, tempfile
    >>> from tailproof import learn
    >>> from tailproof.export.load import load
    >>> from tailproof.worlds import CartPole
    >>> log = CartPole().log(episodes=20)
    >>> policy = learn(log, method="room-vm", gamma=0.99).policy
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     policy.save(os.path.join(folder, "policy.onnx"))
    ...     again = load(os.path.join(folder, "policy.onnx"))
    >>> bool((again(log.states) == policy(log.states)).all())
    True
    """

    @one_or_many
    def __call__(self, states: FloatArray) -> AnyArray:
        """Return one action per state, (n,) or (n, q); for one state (p,), one action."""
        return self.run(states, "actions")


@dataclass(frozen=True, eq=False)
class OnnxStochasticPolicy(_OnnxGraph):
    """A distribution over discrete actions in an ONNX graph: its output ``probabilities``."""

    def probabilities(self, states: FloatArray) -> FloatArray:
        """Return π(a | s), (n, A)."""
        return np.asarray(self.run(states, "probabilities"), dtype=float)


def load_onnx(path: str | Path) -> OnnxPolicy | OnnxStochasticPolicy:
    """Return the policy in an ONNX graph; it has one input, states (n, p).

    The graph must be one file: weights in other files are not read.
    """
    try:
        content = Path(path).read_bytes()
    except OSError as error:
        raise SavedFileError(f"{path} cannot be read: {error.strerror or error}.") from error
    sealed = _is_sealed(content, str(path))
    session = _session(str(path), content)
    inputs = session.get_inputs()
    if len(inputs) != 1:
        raise SavedFileError(
            f"A policy has one input, the states. {path} has {len(inputs)}: "
            f"{', '.join(each.name for each in inputs)}."
        )
    if inputs[0].type not in _TYPES:
        raise SavedFileError(
            f"A policy takes states as numbers ({', '.join(_TYPES)}). {path} takes {inputs[0].type}."
        )
    stochastic = "probabilities" in (each.name for each in session.get_outputs())
    kind = OnnxStochasticPolicy if stochastic else OnnxPolicy
    policy = kind(str(path), content, **_described(session, str(path), sealed))
    vars(policy)["session"] = session
    return policy


def _session(path: str, content: bytes) -> Any:
    runtime = require_onnx("onnxruntime")
    options = runtime.SessionOptions()
    options.intra_op_num_threads = 1  # more threads do not speed up small graphs
    options.log_severity_level = 4
    try:
        return runtime.InferenceSession(
            content, options, providers=["CPUExecutionProvider"], enable_fallback=0
        )
    except Exception as error:  # onnxruntime has a type of its own for every way to fail
        reason = str(error).splitlines()[0]
        raise SavedFileError(f"{path} is no ONNX graph that can be run: {reason}") from error


def _is_sealed(content: bytes, path: str) -> bool:
    """Return whether a graph has tailproof's checksum; raise an error if it does not match."""
    if CHECKSUM_KEY.encode() not in content:
        return False
    found = re.search(CHECKSUM_KEY.encode() + rb"\x12@([0-9a-f]{64})", content)
    seal = b"" if found is None else found[1]
    unsealed = content.replace(seal, UNSEALED) if seal else content
    if hashlib.sha256(unsealed).hexdigest().encode() != seal:
        raise _damaged(path)
    return True


def _damaged(path: str) -> SavedFileError:
    return SavedFileError(
        f"{path} is damaged: its content does not match its checksum. Copy it again, or save it anew."
    )


def _described(session: Any, path: str, sealed: bool) -> dict[str, Any]:
    """Return the description in a graph that tailproof wrote; empty for others."""
    try:
        text = session.get_modelmeta().custom_metadata_map.get(METADATA_KEY)
    except UnicodeDecodeError as error:
        raise SavedFileError(f"{path} has properties that are no text: {error}.") from error
    if text is None:
        return {}
    if not sealed:
        raise _damaged(path)
    page = opened_page(text.encode(), f"The description in {path}")
    try:
        labels, marks = page["action_labels"], page.get("taught")
        return {
            "taught": None if marks is None else np.frombuffer(b64decode(marks), dtype="<i8"),
            "n_actions": int(page["n_actions"]),
            "state_names": tuple(str(name) for name in page["state_names"]),
            "action_labels": None if labels is None else tuple(str(label) for label in labels),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise SavedFileError(f"The description in {path} lacks {error}; save it again.") from error


def _as_input(states: FloatArray, given: Any, path: str) -> AnyArray:
    """Return states in the input type of a graph; raise an error if values do not fit it."""
    expected, kind = given.shape[-1] if given.shape else None, _TYPES[given.type]
    array = np.asarray(states)
    if array.ndim != 2 or (isinstance(expected, int) and array.shape[1] != expected):
        raise PolicyError(
            f"The policy in {path} takes states of shape (n, {expected}). Got {array.shape}."
        )
    with np.errstate(over="ignore", invalid="ignore"):
        cast = np.ascontiguousarray(array, dtype=kind)
        whole = np.issubdtype(kind, np.integer)
        fits = (cast == array).all() if whole else np.isfinite(cast).all()
    if not fits:
        what = "whole numbers of its range" if whole else "numbers of its range"
        raise PolicyError(
            f"The policy in {path} takes {given.type}, that is {what}. The states have others; "
            f"export it with double or float inputs."
        )
    return cast
