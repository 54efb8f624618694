"""The application with all commands."""

from __future__ import annotations

import platform
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from tailproof.cli import apply, doors, learn
from tailproof.cli.data import data
from tailproof.cli.session import EXIT_CODES, FULL, ExitCode, Session, command, print_error
from tailproof.report.blocks import Headline, Note
from tailproof.report.text import versions


class Commands(TyperGroup):
    """The commands; `--json` may have a value, which the parser does not allow for flags."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line."""
        return super().parse_args(ctx, [FULL if each == "--json=full" else each for each in args])


class Command(TyperCommand):
    """A command that refuses an option given twice, where the parser would keep the last."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the command line; the parser prints what is wrong with it, and here JSON has it too."""
        try:
            return self._parsed(ctx, list(args))
        except Exception as error:
            if hasattr(error, "format_message") and {"--json", FULL} & set(args):
                print_error(error, error.format_message(), ExitCode.INPUT)
            raise

    def _parsed(self, ctx: Any, args: list[str]) -> list[str]:
        _, _, given = self.make_parser(ctx).parse_args(list(args))
        for option in self.params:
            if option.multiple or getattr(option, "is_flag", False) or given.count(option) < 2:
                continue
            raise typer.BadParameter(
                f"It must be given once. Got it {given.count(option)} times; separate several columns "
                f"by commas.",
                ctx=ctx,
                param_hint=option.opts[0],
            )
        return super().parse_args(ctx, args)


app = typer.Typer(
    name="tailproof",
    cls=Commands,
    no_args_is_help=True,
    rich_markup_mode="markdown",
    pretty_exceptions_enable=False,
    epilog=EXIT_CODES,
)
app.command(cls=Command)(doors.diagnose)
app.command(cls=Command)(doors.evaluate)
app.command(cls=Command)(doors.compare)
app.command(cls=Command)(doors.plan)
app.command(cls=Command)(learn.learn)
app.command(cls=Command)(apply.apply)
app.command(cls=Command)(doors.methods)
app.add_typer(data, name="data")


def _version(asked: bool) -> None:
    if asked:
        typer.echo(f"tailproof {versions()['tailproof']}")
        raise typer.Exit


@app.callback()
def _every(
    _: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version and exit.", callback=_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Evaluate and learn policies from logged data whose rewards are heavy-tailed."""


@app.command()
@command
def version(session: Session) -> None:
    """Print the versions in use.

    Example: tailproof version --json
    """
    found = versions()
    others = ", ".join(f"{name} {at}" for name, at in found.items() if name != "tailproof")
    first = f"tailproof {found['tailproof']}, Python {platform.python_version()}"
    session.answer({"command": "version", "versions": found}, (Headline(first), Note(others)))
