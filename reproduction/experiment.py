"""Experiments: cells × replicates of a function, a figure, and verdicts on the paper's claims."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from tailproof.arrays import AnyArray, BoolArray, FloatArray

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: One point of the grid: names and plain values, such as {"df": 1.0, "kappa": 2.0}.
Cell = Mapping[str, Any]
#: One measurement: "method", numbers, and the run time "seconds", which is not reproducible.
Row = dict[str, Any]
#: JSON values that a run depends on, besides cell, replicate and seed.
Settings = Mapping[str, Any]
#: Settings that deep experiments have only if they are given: where to train, the time limit of files
#: without timeouts, and whether the bases have their published settings.
_OF_DEEP = ("device", "max_steps", "as_published")
Verdict = Literal["holds", "holds in part", "does not hold", "undecided"]


@dataclass(frozen=True)
class Job:
    """One replicate of one cell.

    Its random numbers depend on the root seed, the experiment, the cell and the replicate, and on
    nothing else: not on which process runs it, nor on what ran before.

    Examples
    --------
    >>> first = Job("ope", {"df": 1.0}, 0, seed=0, settings={})
    >>> again = Job("ope", {"df": 1.0}, 0, seed=0, settings={})
    >>> first.integer(0) == again.integer(0) != first.integer(1)
    True
    """

    experiment: str
    cell: Cell
    replicate: int
    seed: int
    settings: Settings
    data: Path | None = None
    scratch: Path | None = None

    @property
    def key(self) -> str:
        """The key of this job in a journal."""
        return f"{canonical(self.cell)}#{self.replicate}"

    def sequence(self, stream: int = 0) -> np.random.SeedSequence:
        """Return an independent seed sequence for each stream."""
        digest = hashlib.sha256(f"{self.experiment}/{canonical(self.cell)}".encode()).digest()
        words = np.frombuffer(digest[:16], dtype="<u4").tolist()
        return np.random.SeedSequence([self.seed, *words], spawn_key=(self.replicate, stream))

    def rng(self, stream: int = 0) -> np.random.Generator:
        """Return an independent generator for each stream."""
        return np.random.default_rng(self.sequence(stream))

    def integer(self, stream: int = 0) -> int:
        """Return an independent seed for each stream, for what takes an integer."""
        return int(self.sequence(stream).generate_state(1)[0])


@dataclass(frozen=True)
class Results:
    """All rows of an experiment, in the order of cells, replicates and methods.

    Examples
    --------
    >>> rows = [{"df": 1.0, "replicate": i, "method": "fqe", "value": float(i)} for i in (0, 1)]
    >>> results = Results("ope", {}, 2, tuple(rows))
    >>> results.values("value", df=1.0, method="fqe")
    array([0., 1.])
    """

    name: str
    settings: Settings
    replicates: int
    rows: tuple[Row, ...]

    @cached_property
    def columns(self) -> dict[str, AnyArray]:
        """Each column as an array, (rows,); NaN or None where a row lacks it."""
        names = list(dict.fromkeys(name for row in self.rows for name in row))
        found = {}
        for name in names:
            entries = [row.get(name) for row in self.rows]
            if all(each is None or isinstance(each, int | float) for each in entries):
                found[name] = np.array([np.nan if e is None else e for e in entries], dtype=float)
            else:
                found[name] = np.array(entries, dtype=object)
        return found

    def where(self, **wanted: Any) -> BoolArray:
        """Return which rows have these values, (rows,)."""
        chosen = np.ones(len(self.rows), dtype=bool)
        for name, value in wanted.items():
            chosen &= self.columns[name] == value
        return chosen

    def values(self, column: str, **wanted: Any) -> FloatArray:
        """Return one column of the rows with these values, in the order of replicates."""
        return np.asarray(self.columns[column][self.where(**wanted)], dtype=float)

    def under(self, stopping: str) -> Results:
        """Return the rows of methods whose iterations end so, and of those without iterations."""
        rows = tuple(row for row in self.rows if row["stopping"] in (stopping, ""))
        return replace(self, rows=rows)

    def first(self, replicates: int) -> Results:
        """Return the rows of the first replicates, on which slow methods ran too."""
        rows = tuple(row for row in self.rows if row["replicate"] < replicates)
        return replace(self, replicates=min(replicates, self.replicates), rows=rows)

    def halves(self) -> tuple[Results, Results]:
        """Return every other replicate to choose by, and the rest to judge what was chosen."""
        if self.replicates < 2:
            return self, self
        odd = [tuple(row for row in self.rows if row["replicate"] % 2 == i) for i in (0, 1)]
        first, second = (replace(self, rows=rows) for rows in odd)
        return first, second

    def distinct(self, column: str, **wanted: Any) -> list[Any]:
        """Return the values that a column takes, in the order of their first appearance."""
        return list(dict.fromkeys(self.columns[column][self.where(**wanted)].tolist()))


@dataclass(frozen=True)
class Claim:
    """A claim of the paper, whether it holds here, and the numbers."""

    paper: str
    verdict: Verdict
    found: str
    timed: bool = False  # based on run times, which are not reproducible
    stopping: str = ""  # how iterations end: "rule", "all", or "" for methods without iterations

    def __str__(self) -> str:
        rule = {"rule": ", with the released rule", "all": ", with 100 iterations"}
        return f"{self.verdict}{rule.get(self.stopping, '')}: {self.paper} ({self.found})"


@dataclass(frozen=True)
class Experiment:
    """A figure or table of the paper."""

    name: str  # as on the command line
    shows: str  # what it is in the paper, such as "figure 3a"
    title: str  # its question
    cells: Callable[[Settings], Sequence[Cell]]
    run: Callable[[Job], list[Row]]  # one replicate of one cell
    draw: Callable[[Results], Figure]
    judge: Callable[[Results], list[Claim]]
    settings: Settings  # from the paper's text and code, or chosen here
    quick: Settings  # other settings for a run of one minute
    #: Claims that compare the rows with and without the stopping rule.
    beside: Callable[[Results], list[Claim]] | None = None
    replicates: int = 100  # of every cell
    quick_replicates: int = 4
    #: For experiments that need torch, MuJoCo and data: returns the settings for a data folder.
    find: Callable[[Path, Settings], Settings] | None = None
    #: Of deep experiments, the settings of the paper's own budget.
    published: Settings = field(default_factory=dict)

    @property
    def deep(self) -> bool:
        """Whether it needs torch, MuJoCo and data."""
        return self.find is not None

    def claims(self, results: Results) -> list[Claim]:
        """Judge all claims: with the released stopping rule, without it, and beside each other."""
        if "stopping" not in results.columns:
            return self.judge(results)
        ends = {stopping: self.judge(results.under(stopping)) for stopping in ("rule", "all")}
        claims = [
            replace(claim, stopping=stopping) for stopping, some in ends.items() for claim in some
        ]
        return [*claims, *(self.beside(results) if self.beside else [])]

    def settled(
        self, *, quick: bool, data: Path | None = None, changes: Settings | None = None
    ) -> Settings:
        """Return the settings of a full or a quick run; `changes` are to those of deep experiments."""
        settings = {**self.settings, **self.quick} if quick else dict(self.settings)
        changes = changes or {}
        if changes.get("as_published"):
            settings |= self.published
        if self.deep:
            known = {*settings, *_OF_DEEP}
            settings |= {name: value for name, value in changes.items() if name in known}
        if self.find is not None and data is not None:
            settings |= self.find(data, settings)
        return settings


@dataclass(frozen=True)
class Reproduced:
    """The outcome of one experiment: the claims and the written files.

    `skipped` is the reason if the experiment was not run.
    """

    name: str
    shows: str
    claims: tuple[Claim, ...] = ()
    files: Mapping[str, Path] = field(default_factory=dict)
    replicates: int = 0
    jobs_run: int = 0
    seconds: float = 0.0
    skipped: str = ""

    def lines(self) -> list[str]:
        """Return one line per claim; a quick run has none, for it decides nothing."""
        said: Sequence[object] = self.claims
        if self.skipped:
            said = [f"skipped: {self.skipped}"]
        elif not self.claims:
            said = [f"ran {self.jobs_run} jobs: {self.files.get('parquet')}"]
        return [f"{self.name} ({self.shows}) {each}" for each in said]


def canonical(value: Any) -> str:
    """Return JSON that is the same for equal values.

    >>> canonical({"b": 1, "a": (1.0, 2)})
    '{"a":[1.0,2],"b":1}'
    """
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
