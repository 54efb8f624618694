"""`tailproof apply`."""

from __future__ import annotations

from pathlib import Path

import typer

from tailproof.cli.options import OUTPUT, SEED, option
from tailproof.cli.session import ExitCode, Session, command
from tailproof.errors import without_secrets
from tailproof.report.blocks import Headline, table
from tailproof.report.text import count, percent, versions

POLICY = typer.Argument(help="A policy that `learn --out` saved.", metavar="POLICY")
NEW = typer.Argument(
    help="Rows to decide for, with the columns that the policy was learned from: any table that a "
    "log may be.",
    metavar="TABLE",
)
OUT = option(
    "Where to write the table with its decisions: .csv, .parquet or .jsonl.",
    default=...,
    panel=OUTPUT,
)
MOST_LIKELY = option(
    "Take the likeliest action of a stochastic policy instead of drawing one.",
    "--most-likely",
    default=False,
)
PREFIX = option(
    "Put before the names of the new columns action, probability and reason.",
    default="",
    panel=OUTPUT,
)
BY = option(
    "A column that names each row, such as a customer's number: with the seed it alone decides what a "
    "stochastic policy draws for the row, in any file and order.",
    metavar="COLUMN",
)
EPISODE = option(
    "Of a policy with a memory: the column that rows of an episode share, in order of time.",
    metavar="COLUMN",
)
REWARD = option(
    "Of a policy with a memory: the reward's column, with a minus sign for costs.",
    metavar="COLUMN",
)
ALARM = option(
    "Exit with code 4 if more than this share of the rows is refused or outside the log's range; "
    "the decisions are written in any case.",
    metavar="SHARE",
    min=0.0,
    max=1.0,
)


@command
def apply(
    *,
    policy: Path = POLICY,
    table_: str = NEW,
    session: Session,
    out: Path = OUT,
    by: str | None = BY,
    most_likely: bool = MOST_LIKELY,
    prefix: str = PREFIX,
    episode: str | None = EPISODE,
    reward: str | None = REWARD,
    alarm: float | None = ALARM,
    seed: int = SEED,
) -> int:
    """Decide for new rows with a saved policy, and write the decisions beside them.

    Example: tailproof apply policy.tailproof new.csv --out decisions.csv
    """
    from tailproof.export.apply import apply as run

    with session.working(f"Deciding for {without_secrets(table_)}"):
        done = run(
            policy, table_, out, seed=seed, by=by, most_likely=most_likely, prefix=prefix,
            episode=episode, reward=reward,
        )  # fmt: skip
    decided = sum(done.actions.values())
    for column, rows in done.refused.items():
        session.warned(
            f"{count(rows, 'row')} of {done.rows:,} got no action because of column {column!r}: the "
            f"column {prefix}reason of {out} says why."
        )
    if done.outside:
        columns = ", ".join(
            f"{column} ({percent(share)})" for column, share in done.outside.items()
        )
        session.warned(
            f"{percent(done.drifted)} of the rows are outside the range of the log that the policy "
            f"was learned from ({columns}): nothing is known about its value there."
        )
    headline = Headline(f"{count(decided, 'decision')} for {done.rows:,} rows, in {out}.")
    shares = [(label, n, percent(n / done.rows)) for label, n in done.actions.items()]
    record = {
        "command": "apply",
        "policy": str(policy),
        "table": without_secrets(table_),
        "out": str(out),
        "seed": seed,
        "by": by,
        "most_likely": most_likely,
        "sentence": headline.text,
        **done.to_dict(),
        "warnings": session.warnings,
        "versions": versions(),
    }
    session.answer(record, (headline, table(("action", "rows", "share"), shares)))
    worst = max(done.drifted, sum(done.refused.values()) / done.rows)
    return ExitCode.OK if alarm is None or worst <= alarm else ExitCode.CANNOT_TELL
