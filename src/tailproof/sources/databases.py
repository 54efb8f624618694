"""Tables and query results from SQLite and DuckDB files, opened read-only."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from tailproof.errors import LogError

KINDS = ("sqlite", "duckdb")


class Database(NamedTuple):
    """A database file and the table or query to read; both None for its only table."""

    kind: str
    path: Path
    table: str | None = None
    query: str | None = None


def database(source: Any) -> Database | None:
    """Return the database of a URI or file; None if the source is not a database.

    >>> database("duckdb://shop.db?query=SELECT * FROM orders").query
    'SELECT * FROM orders'
    >>> database("sqlite:///data/shop.db?table=orders")[1:3]
    (PosixPath('/data/shop.db'), 'orders')
    """
    if isinstance(source, str):
        kind, _, rest = source.partition("://")
        if kind in KINDS and rest:
            path, _, asked = rest.partition("?")
            key, equals, value = asked.partition("=")
            if asked and (key not in ("query", "table") or not equals or not value):
                raise LogError(
                    f"After ? comes table=NAME or query=SELECT .... Got {asked!r} in {source!r}."
                )
            return Database(kind, Path(path), **({key: value} if asked else {}))
    kind = _kind_of_file(Path(source)) if isinstance(source, str | Path) else ""
    return Database(kind, Path(source)) if kind else None


def _kind_of_file(path: Path) -> str:
    try:
        with path.open("rb") as file:
            head = file.read(16)
    except (OSError, ValueError):
        return ""
    if head == b"SQLite format 3\0":
        return "sqlite"
    return "duckdb" if head[8:12] == b"DUCK" else ""


def read_database(asked: Database) -> pa.Table:
    """Return the requested table or query result."""
    if not asked.path.is_file():
        raise LogError(f"There is no file {str(asked.path)!r}. Check the path.")
    opened = _sqlite if asked.kind == "sqlite" else _duckdb
    with opened(asked.path) as run:
        if asked.query is not None:
            return run(asked.query)
        listed = (
            "SELECT name FROM sqlite_master "
            "WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite_%'"
            if asked.kind == "sqlite"
            else "SELECT table_name AS name FROM information_schema.tables"
        )
        names = sorted(run(listed).column("name").to_pylist())
        name = asked.table or (names[0] if len(names) == 1 else None)
        if name is None or name not in names:
            wanted = f"no table {name!r}" if name else f"{len(names)} tables"
            raise LogError(
                f"{asked.path} has {wanted}: {', '.join(names[:20]) or 'it is empty'}. Say which, as "
                f"in {asked.kind}://{asked.path}?table={names[0] if names else 'NAME'}, or ask with "
                f"{asked.kind}://{asked.path}?query=SELECT ...."
            )
        quoted = name.replace('"', '""')
        return run(f'SELECT * FROM "{quoted}"')


@contextmanager
def _sqlite(path: Path) -> Iterator[Any]:
    address = f"{path.resolve().as_uri()}?mode=ro"
    with closing(sqlite3.connect(address, uri=True)) as connection:

        def run(query: str) -> pa.Table:
            found = connection.execute(query)
            names = [each[0] for each in found.description or ()]
            rows = found.fetchall()
            columns = zip(*rows, strict=True) if rows else [[] for _ in names]
            return pa.table(
                {name: pa.array(list(each)) for name, each in zip(names, columns, strict=True)}
            )

        yield run


@contextmanager
def _duckdb(path: Path) -> Iterator[Any]:
    try:
        import duckdb
    except ModuleNotFoundError as error:
        raise LogError(f"Reading {path} needs DuckDB: pip install 'tailproof[duckdb]'.") from error
    with closing(duckdb.connect(str(path), read_only=True)) as connection:

        def run(query: str) -> pa.Table:
            found = connection.sql(query)
            if found is None:
                raise LogError(f"The query {query[:60]!r} gives no table. Ask with SELECT ....")
            return found.to_arrow_table()

        yield run
