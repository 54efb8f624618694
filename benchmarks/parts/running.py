"""The one main of benchmarks that have parts: options, records, tables or JSON, and the exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from benchmarks.parts.options import parser, print_json
from benchmarks.parts.records import Records

#: What measures a part, returning what was found and the targets missed; and what prints it.
Part = tuple[Callable[..., tuple[dict[str, Any], list[str]]], Callable[[dict[str, Any]], None]]


def run_parts(
    about: str | None, parts: Mapping[str, Part], *, quick: str, seed: int, logs: int | None = None
) -> int:
    """Run the parts that the command line names, and return 1 if any target was missed.

    Parameters
    ----------
    quick
        What --quick leaves out, in words.
    seed
        Of the first log, by default.
    logs
        How many a cell has by default, 10 with --quick; None for parts that know it themselves.
    """
    options = parser(about, quick=quick)
    options.add_argument("--part", action="append", choices=parts, help="all by default")
    options.add_argument("--data", type=Path, help="a folder with the real files")
    options.add_argument("--seed", type=int, default=seed, help="of the first log")
    options.add_argument("--record", type=Path, help="a file from which a stopped run goes on")
    if logs is not None:
        options.add_argument("--logs", type=int, default=logs, help="in every cell")
    given = options.parse_args()
    settings: dict[str, Any] = {"quick": given.quick, "seed": given.seed}
    if logs is not None:
        settings["logs"] = 10 if given.quick else given.logs
    records = Records(given.record)
    found: dict[str, Any] = {"seed": given.seed}
    missed: list[str] = []
    for name in given.part or parts:
        run, show = parts[name]
        found[name], short = run(given.data, records, **settings)
        missed += short
        if not given.json:
            show(found[name])
    found["missed"] = missed
    if given.json:
        print_json(found)
    else:
        print("\n".join(f"missed {each}" for each in missed) or "all targets met")
    return 1 if missed else 0
