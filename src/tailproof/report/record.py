"""Records as JSON."""

from __future__ import annotations

import json
from typing import Any

from tailproof.files.frames import plain

#: Version of the keys that docs/json.md lists: raised when one is renamed, removed or changes meaning.
SCHEMA = 1


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
