"""Decide for the rows of a new table with a saved policy, piece by piece, and write the decisions.

Every row is read by the encoder that the policy carries, so that it gets the decision it would get in
any other file. Rows that the encoder refuses get no action and a reason.
"""

from __future__ import annotations

import csv
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from tailproof.arrays import FloatArray
from tailproof.doors.learned import KIND, Learned
from tailproof.errors import LogError, PolicyError, listed
from tailproof.export.onnx import load
from tailproof.files import is_file_of, require_outputs, written_whole
from tailproof.io.encoder import Encoder
from tailproof.io.past import states_with_past
from tailproof.io.tables import file_kind, open_table, pieces_of_csv, pieces_of_parquet
from tailproof.io.values import amounts_as_written, as_labels, is_text, spellings
from tailproof.log.spaces import Discrete
from tailproof.policies.forms import action_probabilities, draw

_PIECE = 1 << 16  # rows decided at a time
_WRITES = (".csv", ".parquet", ".jsonl", ".ndjson")
Plain = Callable[[pa.ChunkedArray], pa.ChunkedArray]


@dataclass(frozen=True)
class Decided:
    """What a saved policy decided for the rows of a table.

    Attributes
    ----------
    rows
        Number of rows.
    actions
        How many rows got each action, by label.
    refused
        How many rows got none, by the column that was the reason.
    outside
        Share of the rows whose value leaves the range of the log, by column.
    drifted
        Share of the rows in which any column does.
    """

    rows: int
    actions: dict[str, int]
    refused: dict[str, int] = field(default_factory=dict)
    outside: dict[str, float] = field(default_factory=dict)
    drifted: float = 0.0

    def to_dict(self) -> dict[str, object]:
        """Return plain numbers and texts, ready for JSON."""
        return dict(vars(self))


@dataclass
class Decisions:
    """A saved policy, applied to one piece of a table after another."""

    policy: Any
    encoder: Encoder
    most_likely: bool
    seed: int
    by: str | None = None  # the column whose value decides the draw of a row; None for its place
    known: FloatArray | None = None  # states of all rows, of a policy with a memory
    plain: Mapping[str, Plain] = field(default_factory=dict)  # what reads amounts, by column
    rows: int = 0
    drifted: int = 0
    actions: Counter[str] = field(default_factory=Counter)
    refused: Counter[str] = field(default_factory=Counter)
    outside: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        space = self.encoder.actions.space
        if not isinstance(space, Discrete):
            raise PolicyError(f"apply writes discrete actions. The policy acts in {space}.")
        self.labels = np.array(space.names, dtype=object)
        self.rng = np.random.default_rng(self.seed)

    def of(self, piece: pa.Table) -> dict[str, pa.Array]:
        """Return action, probability and reason of each row, (n,); None where there is none."""
        if self.known is None:
            asked = piece
            for name, plain in self.plain.items():
                place = piece.column_names.index(name)
                asked = asked.set_column(place, name, plain(piece.column(place)))
            states, refused = self.encoder.encode(asked)
        else:
            states, refused = self.known[self.rows : self.rows + piece.num_rows], []
        n, reasons = piece.num_rows, np.full(piece.num_rows, None, dtype=object)
        for each in refused:
            for i, row in enumerate(each.rows.tolist()):
                if reasons[row] is None:
                    reasons[row] = each.reason(i)
                    self.refused[each.column] += 1
        read = np.flatnonzero(reasons == None)  # noqa: E711 element by element
        draws = self._draws(piece)[read]  # of all rows, so that pieces of any size draw alike
        action, probability = np.full((2, n), None, dtype=object)
        if len(read):
            probabilities = action_probabilities(self.policy, states[read], len(self.labels))
            codes = probabilities.argmax(axis=1)
            if not self.most_likely:
                codes = draw(np.cumsum(probabilities, axis=1), draws)
            action[read] = self.labels[codes]
            probability[read] = probabilities[np.arange(len(read)), codes]
            self.actions.update(action[read])
            self._drift(states[read])
        self.rows += n
        return {
            "action": pa.array(action, pa.string()),
            "probability": pa.array(probability, pa.float64()),
            "reason": pa.array(reasons, pa.string()),
        }

    def _draws(self, piece: pa.Table) -> FloatArray:
        """Return a uniform number for each row, (n,)."""
        if self.by is None:
            return np.asarray(self.rng.random(piece.num_rows))
        texts = [f"{self.seed}\n{value}" for value in as_labels(piece.column(self.by)).to_pylist()]
        digests = b"".join(blake2b(text.encode(), digest_size=8).digest() for text in texts)
        return np.asarray((np.frombuffer(digests, dtype="<u8") >> 11) * 2.0**-53)

    def _drift(self, states: FloatArray) -> None:
        found = self.encoder.outside(states)
        for column, rows in found.items():
            self.outside[column] += int(rows.sum())
        if found:
            self.drifted += int(np.logical_or.reduce([*found.values()]).sum())

    def summary(self) -> Decided:
        """Return what was decided so far."""
        n = max(self.rows, 1)
        return Decided(
            self.rows,
            {label: self.actions[label] for label in self.labels if self.actions[label]},
            dict(self.refused),
            {column: count / n for column, count in self.outside.items()},
            self.drifted / n,
        )


def apply(
    policy: str | Path,
    table: str | Path,
    out: str | Path,
    *,
    seed: int = 0,
    by: str | None = None,
    most_likely: bool = False,
    prefix: str = "",
    episode: str | None = None,
    reward: str | None = None,
) -> Decided:
    r"""Decide for each row of a table, and write its columns with the decisions to a file.

    Parameters
    ----------
    policy
        A file of `Learned.save`, or an ONNX graph that tailproof wrote.
    table
        Any table that `read_log` opens, with the state columns of the policy's log, in any order and
        beside others. Parquet, and CSV if CSV is written, are read piece by piece; other files must
        fit into memory.
    out
        Where to write: ``.csv``, ``.parquet`` or ``.jsonl``. It holds the columns of the table,
        ``action``, ``probability`` (with which the policy takes it), and ``reason``, which is empty
        unless the row was refused. It is replaced as a whole, or not at all.
    seed
        Draws the actions of a stochastic policy: by default by the place of a row in the file.
    by
        A column that names each row, such as a customer's number: then the seed and this name alone
        decide the draw, in any file and order.
    most_likely
        Take the likeliest action instead.
    prefix
        Put before the names of the three columns.
    episode, reward
        Of a policy with a memory: as in `Learned.predict`. No row may then be refused.

    Examples
    --------
    >>> import tempfile
    >>> from tailproof import learn, read_log
    >>> rng = np.random.default_rng(0)
    >>> age, mail = rng.integers(20, 80, 2000), rng.integers(0, 2, 2000)
    >>> table = {"x_age": age, "action": mail, "reward": mail * (age > 50.0) - 0.4 * mail}
    >>> learned = learn(read_log(table), method="policy-tree", gamma=0.0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     learned.save(f"{folder}/policy.tailproof")
    ...     _ = Path(f"{folder}/new.csv").write_text("name,x_age\nAda,30\nBob,70\nCat,\n")
    ...     done = apply(
    ...         f"{folder}/policy.tailproof", f"{folder}/new.csv", f"{folder}/decisions.csv"
    ...     )
    ...     print(Path(f"{folder}/decisions.csv").read_text())
    name,x_age,action,probability,reason
    Ada,30,0,1.0,
    Bob,70,1,1.0,
    Cat,,,,"'x_age' is missing, which it never was in the log of the encoder"
    <BLANKLINE>
    >>> done.actions, done.refused
    ({'0': 1, '1': 1}, {'x_age': 1})
    """
    if Path(out).suffix not in _WRITES:
        raise PolicyError(
            f"Decisions are written as {', '.join(_WRITES)}. Got {str(out)!r}.", argument="out"
        )
    require_outputs({"out": out}, [policy, table])
    found = load(policy)
    encoder, past = getattr(found, "encoder", None), None
    if encoder is None and is_file_of(policy, KIND):
        learned = Learned.load(policy)
        encoder, past = learned.encoder, learned.past
    if encoder is None:
        raise PolicyError(
            f"{policy} was learned from arrays or made elsewhere, so it knows no columns of a table. "
            f"Learn from a table and save the result."
        )
    known = None
    if past is not None:
        known = states_with_past(encoder, past, table, episode=episode, reward=reward)
    decisions = Decisions(found, encoder, most_likely, seed, by, known)
    names, pieces = _pieces(table, encoder, as_text=Path(out).suffix == ".csv")
    decisions.plain = _amounts(str(table), encoder, pieces())
    if by is not None and by not in names:
        raise LogError(f"{table} has no column {by!r}; it has {listed(names, 20)}.", argument="by")
    new = [prefix + name for name in ("action", "probability", "reason")]
    if taken := [name for name in new if name in names]:
        raise LogError(
            f"{table} has a column {taken[0]!r} already, which would be lost. Rename it, or choose "
            f"other names for the decisions with prefix='new_'.",
            argument="prefix",
        )
    with written_whole(out) as unfinished, _writer(unfinished, Path(out).suffix) as write:
        for piece in pieces():
            for name, column in decisions.of(piece).items():
                piece = piece.append_column(prefix + name, column)
            write(piece)
        done = decisions.summary()
        if not done.actions:
            column = next(iter(done.refused), None)
            said = (
                f"every row was refused, first for column {column!r}" if column else "it is empty"
            )
            raise LogError(f"{table} has no row to decide for: {said}. Nothing was written.")
    return done


def _pieces(
    table: str | Path, encoder: Encoder, *, as_text: bool
) -> tuple[tuple[str, ...], Callable[[], Iterator[pa.Table]]]:
    """Return the columns of a table, and a function that gives its rows in pieces.

    A CSV file whose decisions are written as CSV is read as text, so that its columns stay as they
    are; otherwise they get types, which only the whole file tells.
    """
    source = open_table(table)
    encoder.require(source.names, source.label)
    kind = file_kind(table)
    if as_text and kind == "csv":
        return source.names, lambda: pieces_of_csv(Path(table), source.label)
    if kind == "parquet":
        return source.names, lambda: pieces_of_parquet(Path(table), source.label)

    read = source.read(source.names, dict.fromkeys(encoder.texts, False))
    starts = range(0, read.num_rows, _PIECE)
    return source.names, lambda: (read.slice(start, _PIECE) for start in starts)


def _amounts(label: str, encoder: Encoder, pieces: Iterator[pa.Table]) -> dict[str, Plain]:
    """Return what reads columns whose numbers have units, decimal commas or marks of thousands.

    The whole column tells how it is written: a piece of it may not.
    """
    ways: dict[str, set[str]] = {}
    for piece in pieces:
        texts = [name for name in encoder.numbers if is_text(piece.column(name).type)]
        for name in texts:
            ways[name] = ways.get(name, set()) | spellings(piece.column(name))
        if not texts:
            break
    found = {name: amounts_as_written(label, name, own) for name, own in ways.items()}
    return {name: plain for name, plain in found.items() if plain is not None}


Write = Callable[[pa.Table], None]


@contextmanager
def _writer(path: Path, suffix: str) -> Iterator[Write]:
    """Yield a function that writes pieces of a table to a file."""
    from pyarrow.parquet import ParquetWriter

    with ExitStack() as closing:
        if suffix == ".parquet":
            writers: list[Any] = []

            def write_parquet(piece: pa.Table) -> None:
                if not writers:
                    writers.append(closing.enter_context(ParquetWriter(path, piece.schema)))
                writers[0].write_table(piece.cast(writers[0].schema))

            yield write_parquet
            return
        file = closing.enter_context(path.open("w", encoding="utf-8", newline=""))
        lines = csv.writer(file, lineterminator="\n")

        def write_csv(piece: pa.Table) -> None:
            if file.tell() == 0:
                lines.writerow(piece.column_names)
            lines.writerows(zip(*(each.to_pylist() for each in piece.columns), strict=True))

        def write_json(piece: pa.Table) -> None:
            for row in piece.to_pylist():
                file.write(json.dumps(row, ensure_ascii=False, default=str) + "\n")

        yield write_csv if suffix == ".csv" else write_json
