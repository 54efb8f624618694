"""A shop's mailings: diagnose, compare, learn, apply, and at the end the truth.

python -m examples.shop
"""

from __future__ import annotations

import argparse
import contextlib
import shlex
import shutil
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from pyarrow import csv
from rich.console import Console
from rich.markup import escape

from examples.shop import rules
from examples.shop.world import OFFERS, WEEKS, Columns, Rule, customers, truth
from tailproof.cli import app
from tailproof.report.blocks import Note, table
from tailproof.report.terminal import show

CUSTOMERS, SEED = 20_000, 4
COLUMNS = "--action offer --reward profit_eur --state idle_weeks,loyalty --quiet"
COMMANDS = (
    f"diagnose shop.csv {COLUMNS}",
    f"compare shop.csv --policy wake=rules.py:wake --policy loyal=rules.py:reward_loyalty "
    f"--policy always:voucher {COLUMNS}",
    f"learn shop.csv --method policy-tree --out policy.tailproof --report report.html {COLUMNS}",
    "apply policy.tailproof tomorrow.csv --out decisions.csv --by customer --quiet",
)
TOMORROW = 1_000  # customers who are not in the log, for whom the learned rule decides
AFTER = 200  # other logs of the same shop, to tell luck from habit


def best_by_average(log: Columns) -> tuple[Rule, float]:
    """Return the rule of the offer with the highest average in each week, and what it promises."""
    means = np.array(
        [
            [
                log["profit_eur"][(log["idle_weeks"] == week) & (log["offer"] == offer)].mean()
                for offer in OFFERS
            ]
            for week in WEEKS
        ]
    )
    best = np.asarray(OFFERS)[means.argmax(axis=1)]

    def rule(who: Mapping[str, Any]) -> Any:
        return best[np.asarray(who["idle_weeks"])]

    return rule, float(means.max(axis=1).mean())


def average_of(rule: Rule | str, log: Columns) -> float:
    """Return the average profit of those customers who were sent what a rule sends, weighted."""
    sent = np.full(log["offer"].shape, rule) if isinstance(rule, str) else rule(log)
    weight = (log["offer"] == sent) / log["propensity"]
    return float((weight * log["profit_eur"]).sum() / weight.sum())


def misled(*, logs: int = AFTER, n: int = CUSTOMERS) -> tuple[float, float]:
    """Return how often averages promise 20 % too much, and what they lose, over many logs."""
    found = [best_by_average(customers(n, seed=10_000 + each)) for each in range(logs)]
    worth = np.array([truth(rule) for rule, _ in found])
    promised = np.array([promise for _, promise in found])
    return float((promised > 1.2 * worth).mean()), float(truth(rules.wake) - worth.mean())


def the_truth(log: Columns, learned: Rule, *, logs: int = AFTER) -> list[Any]:
    """Return the truth beside what averages say, and where they would have led, as blocks."""
    by_average, promise = best_by_average(log)
    named: dict[str, Rule | str] = {
        "as logged": "logged",
        "always:voucher": "voucher",
        "loyal": rules.reward_loyalty,
        "wake": rules.wake,
        "the learned rule": learned,
    }
    rows: list[tuple[str, str, str]] = [
        (
            name,
            f"{truth(rule):.2f}",
            f"{log['profit_eur'].mean() if rule == 'logged' else average_of(rule, log):.2f}",
        )
        for name, rule in named.items()
    ]
    rows.append(("best average in each week", f"{truth(by_average):.2f}", f"{promise:.2f}"))
    often, lost = misled(logs=logs)
    largest = int(np.argmax(log["profit_eur"]))
    return [
        table(("profit per customer, EUR", "truth", "plain average"), rows),
        Note(
            f"One order, of customer {log['customer'][largest]}, brought "
            f"{log['profit_eur'][largest]:,.0f} EUR after the offer {log['offer'][largest]}. The rule "
            f"that takes the best average in each week promises {promise:.2f} and is worth "
            f"{truth(by_average):.2f}. In {logs} other logs of this shop it promises over 20 % too "
            f"much in {100 * often:.0f} % of them, and loses {lost:.2f} EUR per customer against wake."
        ),
    ]


def run(folder: Path, *, seed: int = SEED, n: int = CUSTOMERS, logs: int = AFTER) -> None:
    """Write the log to a folder, run the commands there, and print the truth."""
    from tailproof import Learned

    console = Console(highlight=False)
    folder.mkdir(parents=True, exist_ok=True)
    log = customers(n, seed=seed)
    csv.write_csv(pa.table(log), folder / "shop.csv")
    new = pa.table(customers(TOMORROW, seed=seed + 1))
    csv.write_csv(new.select(["customer", "idle_weeks", "loyalty"]), folder / "tomorrow.csv")
    shutil.copy(Path(rules.__file__), folder / "rules.py")
    with contextlib.chdir(folder):
        for command in COMMANDS:
            console.print(f"[bold]$ tailproof {escape(command)}[/bold]")
            if app(shlex.split(command), standalone_mode=False) in (1, 2):  # no verdict: an error
                raise SystemExit(f"This command failed: tailproof {command}")
            console.print()
        learned = Learned.load("policy.tailproof")
    console.print("[bold]The truth, which this shop knows because it was made[/bold]")
    show(console, the_truth(log, learned.predict, logs=logs))
    console.print(
        f"\nThe logs, the rules, the policy, its decisions and the report are in {folder}."
    )


def main(words: Sequence[str] | None = None) -> int:
    """Run the demonstration and return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m examples.shop", description=__doc__)
    parser.add_argument("--folder", type=Path, default=Path("demo"), help="where to write")
    parser.add_argument("--seed", type=int, default=SEED, help="random seed")
    given = parser.parse_args(words)
    run(given.folder, seed=given.seed)
    return 0


if __name__ == "__main__":
    sys.exit(main())
