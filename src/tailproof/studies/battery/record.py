"""Records on disk: what each item answered, so that a stopped run goes on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tailproof.studies.battery.entrants import Reading
from tailproof.studies.journal import Journal

#: Readings of one item: of each question (a noise, a candidate), by each entrant.
Answers = dict[str, dict[str, Reading]]


class Record:
    """The answers of a run by item, and in a file if there is one."""

    def __init__(self, journal: Journal | None) -> None:
        self._journal = journal
        self.known = {key: _unpacked(journal[key]) for key in journal} if journal else {}

    def append(self, item: str, answers: Answers) -> None:
        """Add the answers of one item."""
        self.known[item] = answers
        if self._journal is not None:
            self._journal.append(item, _packed(answers))


@contextmanager
def opened_record(path: Path | None, signature: dict[str, Any]) -> Iterator[Record]:
    """Give the record in a file, or one in memory; `signature` must agree for old answers to count."""
    if path is None:
        yield Record(None)
        return
    differs = (
        "it holds a run with another seed, other entrants or other noises. An entrant whose code was "
        "edited is another one"
    )
    with Journal(path, signature, differs=differs) as journal:
        yield Record(journal)


def _packed(answers: Answers) -> dict[str, Any]:
    return {
        name: {
            who: [reading.value, [[*pair] for pair in reading.intervals.items()], reading.failure]
            for who, reading in row.items()
        }
        for name, row in answers.items()
    }


def _unpacked(packed: dict[str, Any]) -> Answers:
    return {
        name: {
            who: Reading(value, {level: (low, high) for level, (low, high) in pairs}, failure)
            for who, (value, pairs, failure) in row.items()
        }
        for name, row in packed.items()
    }
