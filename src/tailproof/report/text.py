"""Numbers, short phrases and tables as readable text; results as JSON."""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import numpy as np
from markupsafe import Markup

from tailproof.features import PerAction
from tailproof.files import plain
from tailproof.methods.method import Method


def number(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits and thousands separators.

    >>> number(98.9712), number(-12345.678), number(0.0123456), number(3e-9), number(float("inf"))
    ('98.97', '-12,346', '0.01235', '3e-09', '∞')
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    exponent = math.floor(math.log10(abs(value)))
    if not -5 <= exponent < 15:
        return f"{value:.{digits}g}"
    decimals = max(0, digits - 1 - exponent)
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text and value == int(value) else text


def signed(value: float, digits: int = 3) -> str:
    """Return a number with its sign.

    >>> signed(6.271), signed(-0.5), signed(0)
    ('+6.27', '-0.500', '0')
    """
    text = number(value, digits)
    return f"+{text}" if value > 0 else text


def percent(share: float, digits: int = 3) -> str:
    """Return a share as a percentage, never rounded up to 100.

    >>> percent(0.9375), percent(0.9), percent(0.99999)
    ('93.8 %', '90 %', '99.9 %')
    """
    if math.isnan(share):
        return "–"
    if 0.999 < share < 1:
        return "99.9 %"
    return f"{float(f'{100 * share:.{digits}g}'):g} %"


def count(amount: int, noun: str) -> str:
    """Return an amount with its noun.

    >>> count(1, "episode"), count(20000, "row"), count(2, "policy"), count(3, "block of 9 rows")
    ('1 episode', '20,000 rows', '2 policies', '3 blocks of 9 rows')
    """
    first, of, rest = noun.partition(" of ")
    if amount != 1:
        first = f"{first[:-1]}ies" if first.endswith("y") else f"{first}s"
    return f"{amount:,} {first}{of}{rest}"


def minus(text: str) -> str:
    """Return a text with true minus signs, and no break between a number and its percent sign.

    >>> minus("-3.2 to -1, well-known")
    '−3.2 to −1, well-known'
    """
    return re.sub(r"(?<![\w.])-(?=[\d.∞])", "−", text).replace(" %", "\u00a0%")


def method_text(method: Method) -> str:
    """Return a method as text, with those settings of its base that are not defaults.

    >>> from tailproof import method
    >>> from tailproof.robust.means import AdaptiveHuber
    >>> method_text(method("mis", mean=AdaptiveHuber(), unit="episode"))
    'MIS (mean AdaptiveHuber(), unit episode)'
    >>> method_text(method("roam-dm", folds=7))
    'FQE, split in 7, median at pointwise'
    """
    base = method.base
    usual = type(base)()
    changed = [
        _setting(each.name, getattr(base, each.name))
        for each in fields(base)  # type: ignore[arg-type]
        if each.name != "run"  # where networks train changes no result
        and getattr(base, each.name) != getattr(usual, each.name)
    ]
    name = type(base).__name__
    said = f"{name} ({', '.join(changed)})" if changed else name
    return str(method).replace(name, said, 1)


def _setting(name: str, value: Any) -> str:
    """Return a setting as short text, without the numbers of fitted features."""
    if isinstance(value, PerAction):
        features = f"{type(value.state_features).__name__} for each action, {value.size} in all"
        return f"{name} {features}"
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return f"{name} {value}"


Cell = str | float | int | None
_NUMBER = Markup(' class="number"')
_FIGURES = re.compile(r"[-+][\d.,]+( \([-+][\d.,]+ %\))?")  # a signed number and percentage


@dataclass(frozen=True)
class ResultTable:
    """Rows with named columns. The HTML has the full value of each number beside the rounded one.

    Parameters
    ----------
    columns
        The titles.
    rows
        Cells: text is escaped, numbers are rounded.
    caption
        What the table shows.
    digits
        Significant digits of numbers.

    Examples
    --------
    >>> Markup.escape(ResultTable(("id",), (("<b>",),)))
    Markup('<table><thead><tr><th scope="col">id</th></tr></thead><tbody><tr><td>&lt;b&gt;</td>\
</tr></tbody></table>')
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[Cell, ...], ...]
    caption: str = ""
    digits: int = 4

    def __html__(self) -> str:
        columns = [[row[i] for row in self.rows] for i in range(len(self.columns))]
        # a smaller number is a rounding error in its column
        noise = [1e-12 * max(map(abs, _finite(column)), default=0.0) for column in columns]
        head = Markup("").join(
            Markup('<th scope="col"{}>{}</th>').format(
                _NUMBER if _is_numeric(column) else "", title
            )
            for title, column in zip(self.columns, columns, strict=True)
        )
        body = Markup("").join(
            Markup("<tr>{}</tr>").format(Markup("").join(map(self._cell, row, noise)))
            for row in self.rows
        )
        caption = Markup("<caption>{}</caption>").format(self.caption) if self.caption else ""
        return Markup("<table>{}<thead><tr>{}</tr></thead><tbody>{}</tbody></table>").format(
            caption, head, body
        )

    def lines(self) -> list[str]:
        """Return the table as lines of plain text; all cells must be text.

        >>> ResultTable(("id", "gain"), (("a", "+1"), ("long", ""))).lines()
        ['id    gain', 'a     +1', 'long']
        """
        rows = [self.columns, *(tuple(map(str, row)) for row in self.rows)]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return [
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        ]

    def _cell(self, cell: Cell, noise: float) -> Markup:
        if cell is None:
            return Markup('<td class="number">–</td>')
        if isinstance(cell, str):
            text = minus(cell) if _FIGURES.fullmatch(cell) else cell
            return Markup("<td>{}</td>").format(text)
        value = float(cell)
        shown = minus(number(0.0 if abs(value) < noise else value, self.digits))
        return Markup('<td class="number" data-value="{}">{}</td>').format(repr(value), shown)


def table(columns: Sequence[str], rows: Iterable[Sequence[Any]], **options: Any) -> ResultTable:
    """Return a table from any sequences, with numpy scalars as Python numbers."""
    return ResultTable(
        tuple(columns),
        tuple(
            tuple(cell.item() if isinstance(cell, np.generic) else cell for cell in row)
            for row in rows
        ),
        **options,
    )


def _finite(cells: Iterable[Cell]) -> list[float]:
    return [each for each in cells if isinstance(each, int | float) and abs(each) < float("inf")]


def _is_numeric(cells: Sequence[Cell]) -> bool:
    return any(each is not None for each in cells) and not any(
        isinstance(each, str | bool) for each in cells
    )


PACKAGES = ("tailproof", "numpy", "scipy", "scikit-learn", "pyarrow")


def versions() -> dict[str, str]:
    """Return the versions of Python and of the packages that results depend on."""
    found = {}
    for name in PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:  # run from a source folder without installation
            found[name] = "unknown"
    return {**found, "python": platform.python_version()}


#: Version of the keys that docs/json.md lists: raised when one is renamed, removed or changes meaning.
SCHEMA = 1
#: Keys that only ``--json=full`` prints, at any depth.
EVIDENCE = ("fold_values", "bad_folds", "choice", "diagnosis", "estimate")


def as_json(record: dict[str, Any]) -> str:
    """Return standard JSON; `frames.plain` converts NaN and infinity.

    >>> import numpy as np
    >>> print(as_json({"alpha": float("nan"), "k": np.int64(3)}))
    {
      "schema": 1,
      "alpha": null,
      "k": 3
    }
    """
    return json.dumps(plain({"schema": SCHEMA, **record}), indent=2, allow_nan=False)


def page_of(record: Any) -> Any:
    """Return the part of a full record that ``--json`` prints, without the evidence.

    >>> page_of({"value": 1.0, "fold_values": [1.0, 2.0], "gain": {"value": 0.5, "fold_values": []}})
    {'value': 1.0, 'gain': {'value': 0.5}}
    """
    if isinstance(record, dict):
        return {key: page_of(each) for key, each in record.items() if key not in EVIDENCE}
    return [page_of(each) for each in record] if isinstance(record, list) else record
