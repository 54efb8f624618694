"""The command line: one module for each group of commands, thin around the library."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    """Load the commands only when they are asked for: an interrupt may come meanwhile."""
    if name == "app":
        from tailproof.cli.application import app

        return app
    raise AttributeError(f"module 'tailproof.cli' has no attribute {name!r}")


def main() -> None:
    """Run the command line; whenever it is interrupted, even while it loads, it says so and ends."""
    try:
        from tailproof.cli.application import app
        from tailproof.cli.terminal import degrade_streams

        degrade_streams()
        app()
    except KeyboardInterrupt:
        sys.stderr.write("Error: Interrupted.\n")
        raise SystemExit(130) from None
