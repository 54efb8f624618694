"""The command line: one module per group of commands, thin wrappers of the library."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    """Import the commands on first use, so that `main` can handle an interrupt meanwhile."""
    if name == "app":
        from tailproof.cli.application import app

        return app
    raise AttributeError(f"module 'tailproof.cli' has no attribute {name!r}")


def main() -> None:
    """Run the command line; an interrupt, even during imports, ends it with a message."""
    try:
        from tailproof.cli.application import app
        from tailproof.cli.terminal import degrade_streams

        degrade_streams()
        app()
    except KeyboardInterrupt:
        sys.stderr.write("Error: Interrupted.\n")
        raise SystemExit(130) from None
