"""Ctrl-C ends the command line with one line and exit code 130, whenever it is pressed."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

MESSAGE = "Interrupted."
EXIT_CODE = 130


def exit_on_interrupt() -> None:
    """From now on an interrupt ends the process at once, unless interrupts are ignored.

    Outside a command there is nothing to clean up, and an exception would not do: imports may swallow
    it, compiled modules turn it into other errors, and the parser exits without a message.
    """
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        signal.signal(signal.SIGINT, _exit)


@contextmanager
def raise_on_interrupt() -> Iterator[None]:
    """Raise `KeyboardInterrupt` inside the block, so that unfinished files and tasks are removed."""
    if signal.getsignal(signal.SIGINT) is not _exit:
        yield
        return
    try:
        signal.signal(signal.SIGINT, signal.default_int_handler)
        yield
    finally:
        signal.signal(signal.SIGINT, _exit)


def _exit(_signal: int, _frame: FrameType | None) -> None:
    os.write(2, f"Error: {MESSAGE}\n".encode())
    os._exit(EXIT_CODE)
