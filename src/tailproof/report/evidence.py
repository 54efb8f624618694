"""Evidence in sentences and tables: the same in the terminal, the report and the notebook."""

from __future__ import annotations

import math

from tailproof.diagnosis.diagnosis import Diagnosis
from tailproof.report.tables import Table, table
from tailproof.report.text import count, number, percent
from tailproof.statistics.tails.index import TailIndex


def tail_table(diagnosis: Diagnosis) -> Table:
    """Return the index of both tails of everything that was looked at, and which moments exist."""
    return table(
        ("tails of", "left α", "right α", "mean", "variance", "longer"),
        [
            (
                name,
                _index(each.left),
                _index(each.right),
                each.mean.exists,
                each.variance.exists,
                {"symmetric": "neither"}.get(each.skew, each.skew),
            )
            for name, each in diagnosis.tails.items()
        ],
    )


def influence_sentence(diagnosis: Diagnosis) -> str:
    """Return how much the most influential episodes decide."""
    found = diagnosis.influence
    first = found.episodes[0]
    every = ""
    if math.isfinite(found.value_without_all):
        every = f", without all of them {number(found.value_without_all)}"
    return (
        f"{count(len(found.episodes), 'episode')} carry {percent(found.share)} of all influence on the "
        f"plain estimate ({found.estimator}: {number(found.value)}). Without {first.episode} alone it "
        f"would be {number(first.value_without)}{every}."
    )


def influence_table(diagnosis: Diagnosis) -> Table:
    """Return how far each of the most influential episodes moves the estimate."""
    found = diagnosis.influence
    grouped = any(each.group is not None for each in found.episodes)
    return table(
        (
            "episode",
            *(["group"] if grouped else []),
            "effect",
            f"on the median of {found.folds} folds",
        ),
        [
            (
                str(each.episode),
                *([str(each.group)] if grouped else []),
                each.effect,
                each.median_effect,
            )
            for each in found.episodes
        ],
    )


def _index(index: TailIndex) -> str:
    if not index.estimable:
        return "unknown"
    return f"{number(index.alpha, 3)} [{number(index.low, 3)}, {number(index.high, 3)}]"
