"""Policies from files: what `Learned.save` wrote, or an ONNX graph. Nothing is ever unpickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailproof.container import SavedFileError, is_file_of
from tailproof.learned import KIND, Learned


def load(path: str | Path) -> Any:
    """Return the policy in a file.

    Parameters
    ----------
    path
        An ``.onnx`` graph (from `GreedyPolicy.save`, or any other with states as input), or a file that
        `Learned.save` wrote.
    """
    if not Path(path).is_file():
        raise SavedFileError(f"There is no file {str(path)!r}.")
    if is_file_of(path, KIND):
        return Learned.load(path).policy
    if Path(path).suffix == ".onnx":
        from tailproof.onnx_policy import load_onnx

        return load_onnx(path)
    raise SavedFileError(
        f"{path} holds no policy that tailproof can read: give an .onnx file or one that "
        f"Learned.save wrote."
    )
