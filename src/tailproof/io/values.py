"""Arrow columns to arrays: numbers written as text, labels, flags, missing values."""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as kinds

from tailproof.arrays import (
    AnyArray,
    BoolArray,
    FloatArray,
    IntArray,
    count_of,
    is_number,
    refuse_rows,
)
from tailproof.errors import LogError

_UNIT = r"(?:[$€£¥%]|EUR|USD|GBP|CHF)"
#: How numbers are written as text, by the mark of decimals: with units, and marks between thousands.
_WRITTEN = {
    mark: re.compile(
        rf"(?:[-+]?\s?{_UNIT}?\s?|{_UNIT}\s?[-+])"  # one sign, before or after the unit
        rf"(\d+|[1-9]\d{{0,2}}(['\s{other}]\d{{3}})+)([{mark}]\d+)?\s?{_UNIT}?"
    )
    for mark, other in (".,", ",.")
}
_SHARE = 0.9  # of the texts that must be numbers
_FEW = 20  # so many texts with units may be categories, such as $10 and $20
_DOTTED = 5  # numbers with three decimals that make a suspicion


class Amounts(NamedTuple):
    """Numbers that a text column writes with units, decimal commas or marks between thousands."""

    column: pa.ChunkedArray
    example: str
    value: float

    def describe(self, name: str) -> str:
        """Return what was converted."""
        return (
            f"Column {name!r} is text and read as numbers: {self.example!r} is {self.value:.12g}."
        )


def written_amounts(column: Column, *, category: bool = False) -> Amounts | None:
    """Return the numbers that a text column writes, if all its texts are numbers in one way only.

    None for other columns, where the meaning is in doubt (1,200 may be 1200 or 1.2; units differ), and
    for few texts that may be a `category`.
    """
    column = unwrapped(column)
    if not is_text(column.type) or column.null_count == len(column):
        return None
    encoded = column.combine_chunks().dictionary_encode()
    every = [text.strip() for text in encoded.dictionary.to_pylist()]
    place = next((i for i, text in enumerate(every) if not is_number(text)), None)
    if place is None or (category and len(every) <= _FEW):
        return None
    read = _read_in_one_way(every)
    if read is None:
        return None
    values = pa.chunked_array([pa.array(read, pa.float64()).take(encoded.indices)])
    return Amounts(values, every[place], read[place])


def _read_in_one_way(texts: Sequence[str]) -> list[float] | None:
    """Return the numbers that texts write; None if they may be others, or have several units."""
    read = [found for mark in _WRITTEN if (found := _amounts(texts, mark)) is not None]
    units = {unit for text in texts for unit in re.findall(_UNIT, text)}
    if not read or any(each != read[0] for each in read) or len(units) > 1:
        return None
    return read[0]


def _amounts(texts: Sequence[str], mark: str) -> list[float] | None:
    """Return the numbers of texts with this mark of decimals; None if one is not written so."""
    shares = {"%" in text for text in texts}
    if len(shares) > 1 or not all(map(_WRITTEN[mark].fullmatch, texts)):
        return None  # 5 beside 5 % may be five hundredths, or five
    bare = (re.sub(rf"[^-+\d{mark}]", "", text) for text in texts)
    size = 0.01 if shares == {True} else 1.0
    return [size * float(text.replace(mark, ".")) for text in bare]


def spellings(column: Column) -> set[str]:
    """Return one text for each way in which a column of texts is written, such as 9,999 for 1,200."""
    bare = pc.utf8_trim_whitespace(unwrapped(column))
    leading = pc.replace_substring_regex(bare, r"(^|\D)0", r"\1z")
    shapes = pc.replace_substring_regex(leading, r"\d", "9").drop_null().unique()
    return {shape.replace("z", "0") for shape in shapes.to_pylist()}


def amounts_as_written(
    label: str, name: str, ways: Iterable[str]
) -> Callable[[pa.ChunkedArray], pa.ChunkedArray] | None:
    """Return what reads numbers of a column that has these `spellings`, None if all are plain.

    It gives texts with plain numbers, and leaves alone what is no number. Texts with several meanings
    are refused, so that no part of a column is read in another way than the rest.
    """
    written = [
        each
        for each in ways
        if is_number(each) or any(way.fullmatch(each) for way in _WRITTEN.values())
    ]
    if all(map(is_number, written)):
        return None
    if _read_in_one_way(written) is None:
        shown = " and ".join(map(repr, sorted(written, key=len)[-2:]))
        raise LogError(
            f"{label} has column {name!r} with numbers that are written in several ways, such as "
            f"{shown} (9: any digit): commas may mark thousands or decimals, or units "
            f"differ. Write all in one way."
        )
    mark = next(mark for mark in _WRITTEN if _amounts(written, mark) is not None)

    def plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
        encoded = unwrapped(column).combine_chunks().dictionary_encode()
        texts = [
            text if (found := _amounts([text.strip()], mark)) is None else repr(found[0])
            for text in encoded.dictionary.to_pylist()
        ]
        return pa.chunked_array([pa.array(texts, pa.string()).take(encoded.indices)])

    return plain


def other_spelling(name: str, texts: Sequence[str], *, category: bool = False) -> str | None:
    """Return what is wrong with numbers that were written in another way, and what to do.

    None if these are not numbers. Few texts may also be a `category`, unless they have commas.
    """
    every = [text.strip() for text in texts if text.strip()]
    fits = {mark: [text for text in every if way.fullmatch(text)] for mark, way in _WRITTEN.items()}
    spelt = max(fits.values(), key=len)
    shown = next((text for text in spelt if not is_number(text)), None)
    others = sorted({*every} - {*spelt})
    if shown is None or len(spelt) < _SHARE * len(every) or any(map(is_number, others)):
        return None
    if category and len(every) <= _FEW and not any("," in text for text in spelt):
        return None
    if others:
        return (
            f"Its numbers are written as {shown!r}, but for {', '.join(map(repr, others[:3]))} "
            f"({count_of(len(others))}). Correct or empty these cells."
        )
    shown = next((text for text in spelt if "," in text), shown)
    return (
        f"Its numbers have commas that may mark thousands or decimals, or different units, such as "
        f"{shown!r}. Convert them, in pandas: table[{name!r}] = table[{name!r}]"
        f".replace(r'[^\\d.-]', '', regex=True).astype(float) if commas mark thousands; if they mark "
        f"decimals, .replace({{r'[^\\d,-]': '', ',': '.'}}, regex=True).astype(float)."
    )


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


_TRUTH = {
    **dict.fromkeys(("true", "t", "yes", "y", "1"), True),
    **dict.fromkeys(("false", "f", "no", "n", "0"), False),
}
#: A `pyarrow.ChunkedArray`, or a `pyarrow.Array`.
Column = Any


class Labelled(NamedTuple):
    """Values as codes into their sorted, distinct labels."""

    codes: IntArray  # (n,) −1 where missing
    labels: AnyArray  # (m,)


def numbers(
    name: str, column: Column, *, missing: bool = False, infinite: bool = False
) -> FloatArray:
    """Return a column of real numbers, (n,); NaN for missing values, if `missing` allows them.

    `infinite` allows infinite numbers too.
    """
    column = unwrapped(column)
    kind = column.type
    if not (
        kinds.is_integer(kind)
        or kinds.is_floating(kind)
        or kinds.is_decimal(kind)
        or kinds.is_boolean(kind)
        or kinds.is_null(kind)
    ):
        got, advice = shown(column), _advice(kind)
        if is_text(kind):
            texts = column.to_pylist()
            advice = other_spelling(name, [text for text in texts[:1000] if text]) or advice
            odd = [row for row, text in enumerate(texts) if text and not is_number(text)]
            if odd and len(odd) < len(texts) / 2:
                got = f"Got {texts[odd[0]][:40]!r} at row {odd[0]} ({count_of(len(odd))})."
        raise LogError(f"Column {name!r} must hold numbers. {got} {advice}")
    if not missing and column.null_count:
        refuse_missing(name, column)
    if kinds.is_decimal(kind):
        column = column.cast(pa.string())  # parsing rounds to nearest, Arrow's own cast may not
    values: FloatArray = array(column.cast(pa.float64(), safe=False), absent=np.nan)
    with np.errstate(over="ignore", invalid="ignore"):
        total = values.sum()
    if not np.isfinite(total):  # a finite sum proves every entry finite
        if not missing:
            refuse_missing(name, column)
        if not infinite:
            rule = f"Column {name!r} must hold finite numbers"
            advice = "drop or replace these rows"
            refuse_rows(np.isinf(values), rule, advice, LogError, values=values)
    return values


#: A number as most programs write it: no blanks, units, hexadecimal digits or thousands.
_REAL = r"^[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?$"


def distinct_values(column: pa.ChunkedArray) -> tuple[AnyArray, IntArray | None]:
    """Return the distinct values of a column, None for a missing one, and which of them each row has.

    Of columns whose values cannot be told apart, return all values, and None.
    """
    column = unwrapped(column)
    if is_text(column.type):
        column = column.cast(pa.large_string())  # all chunks in one array may exceed 2 GB
    try:
        encoded = column.combine_chunks().dictionary_encode()
    except pa.ArrowNotImplementedError:
        return np.array(column.to_pylist(), dtype=object), None
    values = encoded.dictionary.to_pylist()
    places = array(encoded.indices, absent=len(values)).astype(np.intp)
    missing = [None] * bool(encoded.indices.null_count)
    found = np.empty(len(values) + len(missing), dtype=object)
    found[:] = [*values, *missing]
    return found, places


def spelt_numbers(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the numbers that a text column spells; missing where a text is no number."""
    trimmed = pc.utf8_trim_whitespace(column)
    spelt = pc.match_substring_regex(trimmed, _REAL)
    return pc.if_else(spelt, trimmed, pa.scalar(None, trimmed.type)).cast(pa.float64())


def spelt_truths(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return 1 and 0 for the texts that spell true and false; missing where a text does not."""
    encoded = column.combine_chunks().dictionary_encode()
    known = [_TRUTH.get(text.strip().lower()) for text in encoded.dictionary.to_pylist()]
    return pa.chunked_array([pa.array(known, pa.bool_()).take(encoded.indices)])


def spelt_dates(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the dates and times that a text column spells; missing where a text is no date."""
    if kinds.is_temporal((found := read_dates(column)).type):
        return found
    encoded = column.combine_chunks().dictionary_encode()
    each = [read_dates(pa.chunked_array([[text]])) for text in encoded.dictionary.to_pylist()]
    known = [one.cast(pa.timestamp("us"))[0].as_py() if _is_date(one) else None for one in each]
    return pa.chunked_array([pa.array(known, pa.timestamp("us")).take(encoded.indices)])


def _is_date(column: pa.ChunkedArray) -> bool:
    return bool(kinds.is_date(column.type) or kinds.is_timestamp(column.type))


_MENU = (
    256  # with more different numbers than this, several spellings of one do not make them labels
)


def spelt_labels(texts: pa.ChunkedArray, *, real: bool = False) -> pa.ChunkedArray:
    """Return labels of a file without types: whole numbers if that loses nothing, else text.

    7 becomes a number, 007 stays text, and so do numbers beyond 64 bits. If they may be `real`, true
    and false and decimals become what they are, unless one is written in several ways: then 1.1 and
    1.10, or true and True, are labels.
    """
    try:
        whole = texts.cast(pa.int64())
        if pc.all(pc.equal(whole.cast(texts.type), texts)).as_py() is not False:
            return whole
    except pa.ArrowInvalid:
        pass
    if not real:
        return texts
    every = pc.unique(texts).drop_null()
    spelt = every.to_pylist()
    lower = sorted(text.lower() for text in spelt)
    if lower in (["true"], ["false"], ["false", "true"]):
        return spelt_truths(texts)
    numbers = spelt_numbers(pa.chunked_array([every]))
    if numbers.null_count or all(text.lstrip("+-").isdigit() for text in spelt):
        return texts
    if len(spelt) <= _MENU and len(pc.unique(numbers)) < len(spelt):
        return texts
    return spelt_numbers(texts)


def as_labels(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Return the values of a column as text; whole numbers without a decimal point."""
    if kinds.is_floating(column.type):
        real = column.cast(pa.float64())
        whole = pc.and_(pc.equal(real, pc.round(real)), pc.less(pc.abs(real), 2.0**53))
        integers = pc.if_else(whole, real, pa.scalar(None, real.type)).cast(pa.int64())
        return pc.coalesce(integers.cast(pa.large_string()), column.cast(pa.large_string()))
    return column.cast(pa.large_string())


def truth_values(name: str, column: Column) -> BoolArray:
    """Return a column of booleans, (n,): numbers or text in a usual spelling, such as yes and no."""
    column = unwrapped(column)
    refuse_missing(name, column)
    wanted = f"Column {name!r} must hold true and false, yes and no, or 1 and 0"
    if is_text(column.type):
        found = labelled(column)
        known = [_TRUTH.get(str(label).strip().lower()) for label in found.labels]
        odd = np.array([each is None for each in known])[found.codes]
        refuse_rows(odd, wanted, "convert it", LogError, values=found.labels[found.codes])
        return np.array(known, dtype=bool)[found.codes]
    if not (kinds.is_boolean(column.type) or kinds.is_primitive(column.type)):
        raise LogError(f"{wanted}. {shown(column)} Convert it.")
    values = numbers(name, column)
    refuse_rows(~np.isin(values, (0, 1)), wanted, "convert it", LogError, values=values)
    return np.asarray(values == 1)


def sort_key(name: str, column: Column) -> AnyArray:
    """Return a sortable column, (n,): numbers, dates or times."""
    column = unwrapped(column)
    kind = column.type
    if kinds.is_temporal(kind):
        refuse_missing(name, column)
        if kinds.is_date32(kind) or kinds.is_time32(kind):
            column = column.cast(pa.int32())
        return array(column.cast(pa.int64()))
    if kinds.is_integer(kind):
        refuse_missing(name, column)
        return array(column)
    if not (kinds.is_floating(kind) or kinds.is_decimal(kind)):
        raise LogError(
            f"Column {name!r} must hold numbers, dates or times to order the steps of an episode. "
            f"{shown(column)} Convert it, or pass step=False to keep the order of the file."
        )
    return numbers(name, column)


def read_dates(column: Column) -> Column:
    """Return text that consists of ISO dates or times as timestamps; other columns unchanged.

    All sources are read alike so: in files without types, dates are what is written like them.
    """
    plain = unwrapped(column)
    if not is_text(plain.type) or plain.null_count == len(plain):
        return column
    if not pc.all(pc.match_substring_regex(plain, r"^\d{4}-\d{2}-\d{2}([T ]|$)")).as_py():
        return column
    for zone in (None, "UTC"):
        try:
            return plain.cast(pa.timestamp("us", zone))
        except pa.ArrowInvalid:  # not all are dates, or they have a zone
            continue
    return column


def identifiers(name: str, column: Column) -> Labelled:
    """Return a column of labels, such as episode ids; whole numbers stay numeric."""
    column = unwrapped(column)
    refuse_missing(name, column)
    kind = column.type
    if kinds.is_floating(kind):
        values = numbers(name, column)
        if (np.abs(values) < 2**53).all() and (values == np.round(values)).all():
            values = values.astype(np.int64)
        labels, codes = np.unique(values, return_inverse=True)
        return Labelled(codes, labels)
    if kinds.is_temporal(kind) or kinds.is_decimal(kind) or kinds.is_boolean(kind):
        column = column.cast(pa.string())
    elif not (kinds.is_integer(kind) or is_text(kind)):
        raise LogError(
            f"Column {name!r} must hold labels: text, whole numbers or dates. {shown(column)} "
            f"Convert it."
        )
    return labelled(column)


def labelled(column: pa.ChunkedArray) -> Labelled:
    """Return codes into the sorted distinct values of a plain column; −1 for missing ones."""
    if is_text(column.type):
        column = column.cast(pa.large_string())  # all chunks in one array may exceed 2 GB
    encoded = column.combine_chunks().dictionary_encode()
    codes = array(encoded.indices, absent=-1).astype(np.intp)
    if is_text(column.type):
        labels = text_array(encoded.dictionary.to_pylist())
    else:
        labels = array(encoded.dictionary)
    ranks = np.argsort(labels, kind="stable")
    place = np.empty(len(labels) + 1, dtype=np.intp)
    place[ranks] = np.arange(len(labels))
    place[-1] = -1
    return Labelled(place[codes], labels[ranks])


def text_array(values: list[str]) -> AnyArray:
    """Return text as an array without losing characters."""
    if max(map(len, values), default=0) <= 256:  # the longest text sets the width of all
        array = np.array(values, dtype=np.str_)
        if array.tolist() == values:  # fixed-width text loses trailing zero characters
            return array
    return np.array(values, dtype=object)


def array(column: Column, *, absent: float | None = None, out: AnyArray | None = None) -> AnyArray:
    """Return numbers, (n,), with `absent` for missing values.

    Arrow's own `to_numpy` would import pandas if it is installed.
    """
    if column.null_count:
        column = column.fill_null(absent)
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    return np.concatenate([np.from_dlpack(chunk) for chunk in chunks], out=out)


def unwrapped(column: Column) -> pa.ChunkedArray:
    """Return a column converted from dictionary, view or extension types to plain types."""
    if not isinstance(column, pa.ChunkedArray):
        column = pa.chunked_array([column])
    while True:
        kind = column.type
        if kinds.is_dictionary(kind):
            column = column.cast(kind.value_type)
        elif isinstance(kind, pa.BaseExtensionType):
            column = column.cast(kind.storage_type)
        elif kinds.is_string_view(kind):
            column = column.cast(pa.large_string())
        else:
            return column


def missing_rows(column: Column) -> BoolArray:
    """Return which values of a column are missing, (n,)."""
    column = unwrapped(column)
    if not column.null_count and not kinds.is_floating(column.type):
        return np.zeros(len(column), dtype=bool)
    nothing = pc.is_null(column, nan_is_null=True)
    return np.asarray(array(nothing.cast(pa.uint8())) == 1)


def refuse_missing(name: str, column: pa.ChunkedArray) -> None:
    """Raise if a column has missing values."""
    missing = missing_rows(column)
    if missing.any():
        count = int(missing.sum())
        raise LogError(
            f"Column {name!r} has {count} missing value{'s' if count > 1 else ''}, the first at "
            f"row {int(missing.argmax())} (the first row is 0). Empty cells, NA, NaN and null count as "
            f"missing; drop these rows or fill them in."
        )


def is_text(kind: object) -> bool:
    """Return whether an Arrow type is text."""
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind))


def is_list(kind: object) -> bool:
    """Return whether an Arrow type is a list."""
    return bool(kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind))


def shown(column: pa.ChunkedArray) -> str:
    """Return a description of a column's type and values for error messages."""
    example = next((value for value in column.slice(0, 50).to_pylist() if value is not None), None)
    return f"Got {_kind_in_words(column.type)}, such as {str(example)[:40]!r}."


def _kind_in_words(kind: Any) -> str:
    if is_text(kind):
        return "text"
    words = {
        "whole numbers": kinds.is_integer,
        "numbers": lambda each: kinds.is_floating(each) or kinds.is_decimal(each),
        "true and false": kinds.is_boolean,
        "dates": lambda each: kinds.is_date(each) or kinds.is_timestamp(each),
        "lists": is_list,
        "records": lambda each: kinds.is_struct(each) or kinds.is_map(each),
    }
    return next((word for word, fits in words.items() if fits(kind)), str(kind))


def _advice(kind: Any) -> str:
    if kinds.is_temporal(kind):
        return "Turn dates and times into numbers first, such as the hour or the day."
    if is_text(kind):
        return "Write numbers with a decimal point and no unit, or name another column."
    if kinds.is_nested(kind):
        return "Make columns of their own of its entries, or name another column."
    return "Convert it, or name another column."
