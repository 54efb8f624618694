"""Numbers and units as text; results as JSON."""

from __future__ import annotations

import json
import math
import platform
import re
from collections.abc import Iterable, Mapping
from dataclasses import MISSING, Field, dataclass, fields, replace
from importlib.metadata import PackageNotFoundError, version
from typing import TYPE_CHECKING, Any

from tailproof.files import plain
from tailproof.report.blocks import Answer, Block, Cell, Facts, Figure, Section, Table

if TYPE_CHECKING:
    from tailproof.doors.estimate import ValueUnit
    from tailproof.methods.method import Method


def number(value: float, digits: int = 4) -> str:
    """Return a number with `digits` significant digits and thousands separators.

    >>> number(98.9712), number(-12345.678), number(0.0123456), number(3e-9), number(float("inf"))
    ('98.97', '-12,346', '0.01235', '3e-09', '∞')
    >>> number(0.99999)
    '1.000'
    """
    if math.isnan(value):
        return "–"
    if math.isinf(value):
        return "∞" if value > 0 else "-∞"
    if value == 0:
        return "0"
    exponent = int(f"{value:.{digits - 1}e}".partition("e")[2])  # of the rounded number
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


def size_text(rows: int, episodes: int, joint: str = ", ") -> str:
    """Return the size of a log: episodes are named where they have several rows.

    >>> size_text(20_000, 20_000), size_text(600, 30, " in ")
    ('20,000 rows', '600 rows in 30 episodes')
    """
    said = count(rows, "row")
    return said if rows == episodes else f"{said}{joint}{count(episodes, 'episode')}"


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
    changed = [
        str(base) if each.name == "fit_fold" else _setting(each.name, getattr(base, each.name))
        for each in fields(base)  # type: ignore[arg-type]
        if each.name != "run"  # where networks train changes no result
        and getattr(base, each.name) != _default(each)
    ]
    name = type(base).__name__
    said = f"{name} ({', '.join(changed)})" if changed else name
    return str(method).replace(name, said, 1)


def _default(setting: Field[Any]) -> Any:
    factory = setting.default_factory
    return setting.default if factory is MISSING else factory()


def _setting(name: str, value: Any) -> str:
    """Return a setting as short text, without the numbers of fitted features."""
    from tailproof.features import PerAction  # not needed for numbers

    if isinstance(value, PerAction):
        features = f"{type(value.state_features).__name__} for each action, {value.size} in all"
        return f"{name} {features}"
    if isinstance(value, bool):
        return name if value else f"not {name}"
    return f"{name} {value}"


_MONEY = ("EUR", "USD", "GBP", "CHF", "JPY", "CNY", "INR", "SEK", "NOK", "DKK", "PLN", "CAD", "AUD")
#: Units that the last word of a column's name may tell.
_UNITS = {code.lower(): code for code in _MONEY} | {
    "euro": "EUR",
    "euros": "EUR",
    "€": "EUR",
    "$": "$",
    "£": "£",
    "dollars": "dollars",
    "pounds": "pounds",
    "cents": "cents",
    "ms": "ms",
    "msec": "ms",
    "secs": "s",
    "seconds": "s",
    "mins": "min",
    "minutes": "min",
    "hours": "h",
    "days": "days",
    "kwh": "kWh",
    "mwh": "MWh",
    "kg": "kg",
    "tonnes": "t",
    "pct": "%",
    "percent": "%",
}
_PAID_IN = {*_MONEY, "$", "£", "dollars", "pounds", "cents"}
_EARNED = {
    *("revenue", "profit", "margin", "spend", "spending", "sales", "income", "earnings", "money"),
    *("reward", "rewards", "return", "returns", "payoff", "gmv", "turnover", "value", "utility"),
}
_SPENT = {
    *("cost", "costs", "expense", "expenses", "charge", "charges", "fee", "fees", "price", "spend"),
    *("spending", "claim", "claims", "loss", "losses", "payment", "payments", "bill"),
}


@dataclass(frozen=True)
class Quantity:
    """How a value is spoken of: what is earned or paid, in which unit, per what.

    >>> spend = Quantity.named("spend_eur", per="row")
    >>> spend.amount(3.114), spend.more(3.114), spend.more(-0.5)
    ('3.11 EUR', '3.11 EUR more', '0.500 EUR less')
    >>> latency = Quantity.named("minus latency_ms", per="row")
    >>> latency.verb, latency.shown(-80.0), latency.ends(-3.0, 12.0), latency.more(-12.0)
    ('have', 80.0, (-12.0, 3.0), '12 ms less latency')
    >>> spend.more(162_545.0)
    '163,000 EUR more'
    """

    name: str  # the column without sign and unit
    unit: str
    per: str  # row or episode
    is_cost: bool  # whether the reward is the negative of the column

    @classmethod
    def named(cls, reward: str, *, per: str) -> Quantity:
        """Return the quantity of a reward's name; costs are called "minus NAME"."""
        column = reward.removeprefix("minus ")
        words = [each for each in re.split(r"[\s_()\[\]/-]+", column) if each]
        unit = _UNITS.get(words[-1].lower(), "") if len(words) > 1 else ""
        name = " ".join(words[:-1] if unit else words)
        return cls(name, unit, per, reward.startswith("minus "))

    @classmethod
    def of(cls, unit: ValueUnit) -> Quantity:
        """Return the quantity of an estimate."""
        return cls.named(unit.reward, per=unit.per)

    @property
    def verb(self) -> str:
        """What a policy does with it: earn, cost or have."""
        words = {each.lower() for each in self.name.split()}
        if self.is_cost:
            return "cost" if words & _SPENT or self.unit in _PAID_IN else "have"
        return "earn" if words & _EARNED or self.unit in _PAID_IN else "have"

    @property
    def noun(self) -> str:
        """What the value is called: the column if it has a telling name."""
        return "value" if self.name in ("", "reward") else self.name

    @property
    def title(self) -> str:
        """The title of an axis or a table of values: what, in which unit, per what."""
        unit = f" in {self.unit}" if self.unit else ""
        return f"{self.noun}{unit} per {self.per}"

    def shown(self, value: float) -> float:
        """Return a value as it is read: costs are positive."""
        return (-value if value else 0.0) if self.is_cost else value

    def ends(self, low: float, high: float) -> tuple[float, float]:
        """Return the ends of an interval as they are read."""
        low, high = self.shown(low), self.shown(high)
        return (high, low) if self.is_cost else (low, high)

    def amount(self, size: float, digits: int = 3) -> str:
        """Return a size with its unit; with all digits before the decimal point."""
        return f"{number(size, digits)} {self.unit}".rstrip()

    def about(self, size: float) -> str:
        """Return an estimated size with its unit: three digits."""
        return self.amount(float(f"{size:.3g}"))

    def more(self, change: float, *, named: bool = True) -> str:
        """Return an estimated change, as it is read, as more or less; of what, if `named`."""
        word = "more" if change > 0 else "less"
        what = f" {self.name}" if named and self.verb == "have" else ""
        return f"{self.about(abs(change))} {word}{what}"


def change_text(share: float) -> str:
    """Return a relative change in percent, without a sign if it rounds to 0.

    >>> change_text(-0.254), change_text(-0.001), change_text(0.6)
    ('-25 %', '0 %', '+60 %')
    """
    if not math.isfinite(share):
        return "unlimited"
    return f"{100 * share:+,.0f} %" if round(100 * share) else "0 %"


def shown_cell(cell: Cell, digits: int = 4) -> str:
    """Return a cell of a table as text."""
    if cell is None:
        return "–"
    return cell if isinstance(cell, str) else number(float(cell), digits)


def facts_line(block: Facts) -> str:
    """Return a few numbers as one line."""
    each = (
        f"{fact.name} {fact.value}" + f", {fact.note}" * bool(fact.note) for fact in block.facts
    )
    return "; ".join(each)


def first_screen(answer: Iterable[Block | Section]) -> list[Block]:
    """Return what a terminal shows first: everything but pictures and sections."""
    return [each for each in answer if not isinstance(each, Figure | Section)]


def details(answer: Answer) -> list[Section]:
    """Return what a terminal adds with ``--explain``: no picture whose numbers it has shown already."""
    shown = {each.rows for each in answer if isinstance(each, Table)}
    found = []
    for section in answer:
        if isinstance(section, Section) and not section.folded:
            new = [
                each
                for each in section.blocks
                if not (isinstance(each, Figure) and each.numbers.rows in shown)
            ]
            found += [replace(section, blocks=tuple(new))] if new else []
    return found


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
SCHEMA = 2
#: Keys that only ``--json=full`` prints, at any depth.
EVIDENCE = ("fold_values", "bad_folds", "choice", "diagnosis", "estimate")


def as_json(record: Mapping[str, object]) -> str:
    """Return standard JSON; `frames.plain` converts NaN and infinity.

    >>> import numpy as np
    >>> print(as_json({"alpha": float("nan"), "k": np.int64(3)}))
    {
      "schema": 2,
      "alpha": null,
      "k": 3
    }
    """
    return json.dumps(plain({"schema": SCHEMA, **record}), indent=2, allow_nan=False)


def page_of(record: object) -> Any:
    """Return the part of a full record that ``--json`` prints, without the evidence.

    >>> page_of({"value": 1.0, "fold_values": [1.0, 2.0], "gain": {"value": 0.5, "fold_values": []}})
    {'value': 1.0, 'gain': {'value': 0.5}}
    """
    if isinstance(record, dict):
        return {key: page_of(each) for key, each in record.items() if key not in EVIDENCE}
    return [page_of(each) for each in record] if isinstance(record, list) else record
