"""The options that every benchmark takes."""

from __future__ import annotations

import argparse
import json
from typing import Any


def parser(about: str | None, *, quick: str) -> argparse.ArgumentParser:
    """Return a parser with --quick and --json; `quick` says what the former leaves out."""
    made = argparse.ArgumentParser(
        description=about, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--quick", action="store_true", help=quick)
    made.add_argument("--json", action="store_true", help="print JSON to standard output")
    return made


def print_json(record: Any) -> None:
    """Print a record as JSON."""
    print(json.dumps(record, indent=1, ensure_ascii=False))
