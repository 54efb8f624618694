"""Records on disk: what each item answered, a line each, so that a stopped run goes on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tailproof.battery.entrants import Reading
from tailproof.errors import TailproofError

#: Readings of one item: of each question (a noise, a candidate), by each entrant.
Answers = dict[str, dict[str, Reading]]


def read_record(path: Path, signature: dict[str, Any]) -> dict[str, Answers]:
    """Return the answers that a record holds; start one where there is none.

    `signature` is what has to agree for old answers to be of use. The end of a line that a killed run
    did not finish is cut off.
    """
    if not path.exists():
        path.parent.mkdir(parents=True, exist_ok=True)
        _write_line(path, signature)
        return {}
    whole, end, _ = path.read_text(encoding="utf-8").rpartition("\n")
    lines = [json.loads(line) for line in whole.splitlines()]
    if not lines or lines[0] != signature:
        raise TailproofError(
            f"{path} holds a run with another seed, other entrants or other noises. Delete it, or "
            f"give another folder."
        )
    path.write_text(whole + end, encoding="utf-8")
    return {line["item"]: _unpacked(line["answers"]) for line in lines[1:]}


def append(path: Path, item: str, answers: Answers) -> None:
    """Add the answers of one item."""
    _write_line(path, {"item": item, "answers": _packed(answers)})


def _write_line(path: Path, line: dict[str, Any]) -> None:
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps(line, ensure_ascii=False) + "\n")


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
