"""Load policies from files of `Learned.save` or ONNX graphs. Nothing is ever unpickled."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tailproof.files.container import SavedFileError, is_file_of
from tailproof.learning.learned import KIND, Learned


def load(path: str | Path) -> Any:
    """Return the policy in a file.

    Parameters
    ----------
    path
        An ``.onnx`` graph (from `GreedyPolicy.save`, or any other with states as input), or a file
        written by `Learned.save` or by the `save` of a neural policy.
    """
    if not Path(path).is_file():
        raise SavedFileError(f"There is no file {str(path)!r}.")
    if is_file_of(path, KIND):
        return Learned.load(path).policy
    if is_file_of(path, "neural policy"):
        from tailproof.deep.settings import require_torch

        require_torch()
        from tailproof.deep.critics import load_policy

        return load_policy(path)
    if Path(path).suffix == ".onnx":
        from tailproof.export.onnx_policy import load_onnx

        return load_onnx(path)
    raise SavedFileError(
        f"{path} holds no policy that tailproof can read: give an .onnx file or one that "
        f"Learned.save wrote."
    )
