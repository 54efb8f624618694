"""The command line."""

from __future__ import annotations

import typer
from rich.console import Console

app = typer.Typer(no_args_is_help=True, help=__doc__)


@app.callback()
def _root() -> None:
    """Evaluate and learn policies from logged data with heavy-tailed rewards."""


@app.command()
def demo(seed: int = 0) -> None:
    """Show what heavy tails do to an average, on embedded data."""
    from tailproof.demo import run

    run(Console(), seed=seed)


def main() -> None:
    """Run the command line."""
    app()
