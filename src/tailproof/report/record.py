"""Results as JSON."""

from __future__ import annotations

import json
from typing import Any

from tailproof.files.frames import plain

#: Version of the keys that docs/json.md lists: raised when one is renamed, removed or changes meaning.
SCHEMA = 1
#: Keys that only ``--json=full`` prints, at any depth.
EVIDENCE = ("fold_values", "bad_folds", "choice", "diagnosis", "estimate")


def as_json(record: dict[str, Any]) -> str:
    """Return standard JSON; `frames.plain` converts NaN and infinity.

    >>> import numpy as np
    >>> print(as_json({"alpha": float("nan"), "k": np.int64(3)}))
    {
      "schema": 1,
      "alpha": null,
      "k": 3
    }
    """
    return json.dumps(plain({"schema": SCHEMA, **record}), indent=2, allow_nan=False)


def page_of(record: Any) -> Any:
    """Return the part of a full record that ``--json`` prints, without the evidence.

    >>> page_of({"value": 1.0, "fold_values": [1.0, 2.0], "gain": {"value": 0.5, "fold_values": []}})
    {'value': 1.0, 'gain': {'value': 0.5}}
    """
    if isinstance(record, dict):
        return {key: page_of(each) for key, each in record.items() if key not in EVIDENCE}
    return [page_of(each) for each in record] if isinstance(record, list) else record
