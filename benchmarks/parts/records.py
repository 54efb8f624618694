"""Results kept in a file, so that a stopped run goes on where it stopped."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path


class Records:
    """Named lists of numbers, as lines of JSON where a path is given."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, list[float]] = {}
        if path is not None and path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                name, numbers = json.loads(line)
                self._known[name] = numbers

    def names(self, prefix: str) -> list[str]:
        """Return what follows the word "of" in the names of records that start like this."""
        return [name.split(" of ", 1)[1] for name in self._known if name.startswith(prefix)]

    def known(self, name: str) -> list[float] | None:
        """Return what is known by this name, or None."""
        return self._known.get(name)

    def once(self, name: str, work: Callable[[], list[float]]) -> list[float]:
        """Return what is known by this name, or do the work and keep what it gives."""
        if name not in self._known:
            self._known[name] = work()
            if self._path is not None:
                with self._path.open("a", encoding="utf-8") as file:
                    file.write(json.dumps([name, self._known[name]], ensure_ascii=False) + "\n")
        return self._known[name]
