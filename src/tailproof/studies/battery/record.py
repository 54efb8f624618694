"""Records on disk: what each item answered, a line each, so that a stopped run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tailproof.errors import TailproofError
from tailproof.files.atomic import write_whole
from tailproof.studies.battery.entrants import Reading
from tailproof.studies.paper.journal import entry_of, line_of

#: Readings of one item: of each question (a noise, a candidate), by each entrant.
Answers = dict[str, dict[str, Reading]]


def read_record(path: Path, signature: dict[str, Any]) -> dict[str, Answers]:
    """Return the answers that a record holds; start one where there is none.

    `signature` is what has to agree for old answers to be of use. Every line has a checksum: what a
    killed run did not finish, or what was damaged since, is left out and asked again.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _append(path, signature)
        return {}
    content = path.read_bytes()
    whole = content.rfind(b"\n") + 1
    lines = [entry_of(line) for line in content[:whole].splitlines()]
    if not lines or lines[0] != json.loads(json.dumps(signature)):
        raise TailproofError(
            f"{path} holds a run with another seed, other entrants or other noises, or its first line "
            f"is damaged. An entrant whose code was edited is another one. Delete it, or give another "
            f"folder."
        )
    if whole < len(content):
        write_whole(path, content[:whole])
    return {line["item"]: _unpacked(line["answers"]) for line in lines[1:] if line is not None}


def append(path: Path, item: str, answers: Answers) -> None:
    """Add the answers of one item."""
    _append(path, {"item": item, "answers": _packed(answers)})


def _append(path: Path, entry: dict[str, Any]) -> None:
    with path.open("ab") as file:
        file.write(line_of(entry))


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
