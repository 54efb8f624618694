"""Numbers that were written as text in ways other than 1234.5, and how to convert them."""

from __future__ import annotations

import codecs
import re
from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from tailproof.arrays import AnyArray
from tailproof.errors import LogError

#: Other ways to write numbers: in words, those written so, which of them show it, and what to do.
_WAYS = (
    (
        "decimal commas",
        re.compile(r"[-+]?(\d+|[1-9]\d{0,2}(\.\d{3})+)(,\d+)?"),
        re.compile(r".*,.*"),
        ".str.replace('.', '').str.replace(',', '.').astype(float)",
    ),
    (
        "points between thousands",
        re.compile(r"[-+]?(\d+|[1-9]\d{0,2}(\.\d{3})+)"),
        re.compile(r".*\..*\..*"),
        ".str.replace('.', '').astype(float)",
    ),
    (
        "units or commas between thousands",
        re.compile(r"[-+]?[$€£¥]?\s?[-+]?(\d+|\d{1,3}(,\d{3})+)(\.\d+)?\s?([$€£¥]|EUR|USD|GBP)?"),
        re.compile(r".*[^-+.\d].*"),
        r".replace(r'[^\d.-]', '', regex=True).astype(float)",
    ),
)
_SHARE = 0.9  # of the texts that must be numbers
_FEW = 20  # so many texts with units may be categories, such as $10 and $20
_DOTTED = 5  # numbers with three decimals that make a suspicion


def other_spelling(name: str, texts: Sequence[str], *, category: bool = False) -> str | None:
    """Return what is wrong with numbers that were written in another way, and what to do.

    None if these are not numbers. Few texts may also be a `category`, unless they have decimal commas.
    """
    every = [text.strip() for text in texts if text.strip()]
    for what, way, mark, remedy in _WAYS:
        spelt = [text for text in every if way.fullmatch(text)]
        shown = next((text for text in spelt if mark.fullmatch(text)), None)
        others = {*every} - {*spelt}
        if shown is None or len(spelt) < _SHARE * len(every) or any(map(is_number, others)):
            continue
        if category and what != "decimal commas" and len(every) <= _FEW:
            return None
        return (
            f"Its numbers have {what}, such as {shown!r}. Convert them, in pandas: "
            f"table[{name!r}] = table[{name!r}]{remedy}."
        )
    return None


def is_number(text: str) -> bool:
    """Return whether a text is a number as Python writes it."""
    try:
        float(text)
    except ValueError:
        return False
    return True


def may_be_thousands(values: AnyArray) -> bool:
    """Return whether numbers, (n,), might have been written with points between thousands.

    Those that are not whole have three decimals, none is 1000 or more, and some are above 100.
    """
    size = np.abs(values)
    dotted = size[size != np.round(size)]
    whole = size[size == np.round(size)]
    return (
        len(dotted) >= _DOTTED
        and bool((size < 1000).all() and (dotted >= 1).all() and (whole >= 100).any())
        and bool((np.abs(1000 * dotted - np.round(1000 * dotted)) < 1e-6).all())
    )


def require_no_thousands(label: str, name: str, texts: pa.ChunkedArray) -> None:
    """Raise if all texts with a point have three decimals, and some without one have three digits."""
    every = [text.strip() for text in texts.drop_null().unique().to_pylist()]
    dotted = [text for text in every if "." in text]
    dots = all(re.fullmatch(r"[-+]?[1-9]\d{0,2}\.\d{3}", text) for text in dotted)
    if dots and any(re.fullmatch(r"[-+]?\d{3}", text) for text in every):
        first = dotted[0]
        raise LogError(
            f"{label} has {first!r} in column {name!r}, which may be {float(first):g} or "
            f"{first.replace('.', '')}: all its numbers with a point have three digits after it, and "
            f"those without one have no more than three. If the points separate thousands, convert "
            f"them: table = pandas.read_csv(FILE, dtype={{{name!r}: str}}); table[{name!r}] = "
            f"table[{name!r}].str.replace('.', '').astype(float). If they are decimal points, write a "
            f"format that has numbers, as pandas.read_csv(FILE).to_parquet('log.parquet') does."
        )


def require_utf8(label: str, name: str, head: bytes, delimiter: str) -> None:
    """Raise if a text file does not begin with UTF-8."""
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head)
    except UnicodeDecodeError as error:
        coding = "utf-16" if head[:2] in (b"\xff\xfe", b"\xfe\xff") else "latin-1"
        raise LogError(
            f"{label} is no UTF-8 text (byte {head[error.start]:#x} in line "
            f"{head[: error.start].count(10) + 1}); spreadsheets often write {coding}. Convert it: "
            f"pandas.read_csv({name!r}, sep={delimiter!r}, encoding={coding!r}, dtype=str)"
            f".to_csv('log.csv', index=False)."
        ) from error
