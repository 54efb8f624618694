"""Records as JSON, and files that appear whole."""

from __future__ import annotations

import json
import os
import secrets
from pathlib import Path
from typing import Any

from tailproof.errors import TailproofError
from tailproof.frames import plain


def as_json(record: Any) -> str:
    """Return JSON that every parser reads; `frames.plain` says what becomes of NaN and infinity.

    >>> import numpy as np
    >>> print(as_json({"alpha": float("nan"), "k": np.int64(3)}))
    {
      "alpha": null,
      "k": 3
    }
    """
    return json.dumps(plain(record), indent=2, allow_nan=False)


def write_whole(path: Path, text: str) -> None:
    """Write a file that appears complete or not at all."""
    unfinished = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    try:
        unfinished.write_text(text, encoding="utf-8")
        os.replace(unfinished, path)
    except OSError as error:
        raise TailproofError(
            f"{path} could not be written: {error}. Check that the folder exists and may be "
            f"written to."
        ) from error
    finally:
        unfinished.unlink(missing_ok=True)
