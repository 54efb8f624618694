"""The command line: one module per group of commands, thin wrappers of the library."""

from __future__ import annotations

import sys
from typing import Any

from tailproof.cli.interrupt import exit_on_interrupt
from tailproof.cli.startup import put_off_imports, reserve_little

__all__ = ["app", "main"]


def __getattr__(name: str) -> Any:
    """Import the commands on first use, so that `main` can prepare for an interrupt before."""
    if name == "app":
        from tailproof.cli.application import app

        return app
    raise AttributeError(f"module 'tailproof.cli' has no attribute {name!r}")


def main() -> None:
    """Run the command line; see `tailproof.cli.interrupt` for Ctrl-C."""
    exit_on_interrupt()
    put_off_imports()
    reserve_little()
    from tailproof.cli.application import app
    from tailproof.cli.session import ExitCode, writing_output
    from tailproof.errors import StorageError
    from tailproof.report.terminal import degrade_streams

    degrade_streams()
    try:
        with writing_output():  # pages of help are written by the parser
            app()
    except StorageError as error:
        print(f"Error: {error}", file=sys.stderr)
        sys.exit(ExitCode.INPUT)
