"""Numbers and short phrases as readable text."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from typing import Any

from tailproof.features import PerAction
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
    >>> from tailproof.statistics.means import AdaptiveHuber
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
