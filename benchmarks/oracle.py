"""Thousands of random logs: the library against the algorithms as a textbook writes them.

The oracle (tests/oracle.py) is plain numpy and shares no code with the library. Logs are evaluated in
memory, from disk, with threads and with processes in turn, and learned from; a number that differs by
more than rounding is a miss. Exit code 1 if there is any.

    python -m benchmarks.oracle            # 2,000 logs
    python -m benchmarks.oracle --quick    # 80 logs
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
import time
import warnings
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests"))

import agreement  # noqa: E402
import oracle  # noqa: E402
from tailproof.errors import TailproofWarning  # noqa: E402
from tailproof.parallel import Local  # noqa: E402


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="80 logs")
    parser.add_argument("--logs", type=int, help="how many random logs")
    parser.add_argument("--seed", type=int, default=100_000, help="the first log's seed")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    chosen = parser.parse_args()
    logs = chosen.logs or (80 if chosen.quick else 2_000)
    warnings.simplefilter("ignore", TailproofWarning)
    began, compared = time.process_time(), dict.fromkeys(agreement.SURFACES, 0)
    misses: list[str] = []
    with (
        Local(workers=2, kind="processes") as processes,
        tempfile.TemporaryDirectory() as folder,
    ):
        engines = {"threads": Local(workers=2), "processes": processes}
        for number in range(logs):
            surface = agreement.SURFACES[number % len(agreement.SURFACES)]
            count, said = agreement.disagreements(
                oracle,
                chosen.seed + number,
                surface=surface,
                path=Path(folder) / "log.parquet",
                engine=engines.get(surface),
            )
            compared[surface] += count
            misses += said
    record = {
        "logs": logs,
        "first_seed": chosen.seed,
        "comparisons": sum(compared.values()),
        "by_surface": compared,
        "misses": misses,
        "cpu_seconds": round(time.process_time() - began, 1),
    }
    if chosen.json:
        print(json.dumps(record, indent=1))
    else:
        total = record["comparisons"]
        print(f"{logs} logs, {total} comparisons, {len(misses)} misses: {compared}")
        for each in misses:
            print(f"  {each}")
    return 1 if misses else 0


if __name__ == "__main__":
    raise SystemExit(main())
