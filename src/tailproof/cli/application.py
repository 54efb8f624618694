"""The application: every command by its name."""

from __future__ import annotations

import platform

import typer

from tailproof.cli import (
    bench,
    comparing,
    demonstrating,
    diagnosing,
    evaluating,
    learning,
    reproduce,
)
from tailproof.cli.command import EXIT_CODES, command
from tailproof.cli.data import data
from tailproof.cli.session import Session
from tailproof.report.versions import versions

app = typer.Typer(
    name="tailproof",
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
    help="Evaluate and learn policies from logged data whose rewards are heavy-tailed.",
)
app.command()(demonstrating.demo)
app.command()(diagnosing.diagnose)
app.command()(evaluating.evaluate)
app.command()(comparing.compare)
app.command()(learning.learn)
app.command()(evaluating.methods)
app.command()(bench.bench)
app.command()(reproduce.reproduce)
app.add_typer(data, name="data")


@app.command()
@command
def version(session: Session) -> None:
    """Say which versions are at work.

    Example: tailproof version --json
    """
    found = versions()
    lines = [f"tailproof {found['tailproof']}, Python {platform.python_version()}"]
    if session.talks:
        lines.append(", ".join(f"{name} {at}" for name, at in found.items() if name != "tailproof"))
    session.answer({"command": "version", "versions": found}, *lines)
