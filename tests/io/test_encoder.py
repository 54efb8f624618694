"""An encoder reads a row in one way, whatever other rows, columns and files it stands among."""

import datetime as dt
import json
from functools import reduce
from itertools import pairwise
from operator import add

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import read_log
from tailproof.errors import LogError
from tailproof.files import from_parts, to_parts
from tailproof.io.columns import resolve_columns
from tailproof.io.encoder import EncoderFit, Tidying
from tailproof.io.steps import Notes


def frame(n=60, *, seed=0, shops=("north", "south", "east")):
    """Return a table with columns of every kind, and gaps in most of them."""
    rng = np.random.default_rng(seed)
    some = rng.random((4, n)) < 0.2
    days = np.datetime64("2024-03-01T00:00") + rng.integers(0, 10_000, n).astype("timedelta64[m]")
    return pd.DataFrame(
        {
            "age": np.where(some[0], np.nan, rng.integers(18, 90, n)),
            "visits": rng.integers(0, 9, n),
            "shop": np.where(some[1], None, rng.choice(shops, n)),
            "site": rng.choice([7, 12, 30], n),
            "member": pd.array(np.where(some[2], None, rng.random(n) < 0.5), dtype="boolean"),
            "since": pd.Series(days).mask(some[3]),
            "born": [dt.date(1980, 1, 1 + int(day)) for day in rng.integers(0, 28, n)],
            "scores": list(rng.normal(size=(n, 2))),
            "offer": rng.choice(["mail", "none"], n),
            "spend": rng.exponential(size=n),
        }
    )


STATE = ["age", "visits", "shop", "site", "member", "since", "born", "scores"]
NAMED = {"state": STATE, "action": "offer", "reward": "spend", "categorical": "site"}


def same(one, other):
    np.testing.assert_array_equal(one, other)


@pytest.fixture(scope="module")
def log():
    return read_log(frame(), **NAMED)


def test_the_log_keeps_its_encoder(log):
    assert log.encoder.state_names == log.state_names
    assert log.encoder.columns == tuple(STATE)
    same(log.encoder.states(frame()), log.states)
    assert log[3:9].encoder is log.encoder


@given(order=st.permutations(range(60)), columns=st.permutations(STATE))
def test_a_row_is_read_alike_alone_in_any_order_and_beside_other_columns(log, order, columns):
    table = frame()[[*columns, "spend"]].assign(more="?").iloc[list(order)]
    same(log.encoder.states(table), log.states[list(order)])
    same(log.encoder.states(table.iloc[[0]]), log.states[[order[0]]])


def test_a_row_with_a_gap_has_one_state_in_all_files(log):
    """The fill value is that of the encoder's log, not of the file at hand."""
    others = frame(seed=1).assign(age=lambda table: table["age"] + 40)
    row = frame().loc[[int(frame()["age"].isna().argmax())]]
    mixed = pd.concat([others, row])
    again = read_log(mixed, action="offer", reward="spend", encoder=log.encoder)
    same(again.states[-1], log.states[row.index[0]])
    assert not np.array_equal(read_log(mixed, **NAMED).states[-1], again.states[-1])


@pytest.mark.parametrize("suffix", [".csv", ".parquet", ".jsonl"])
def test_files_are_read_as_the_frame(log, tmp_path, suffix):
    table = frame(seed=2).drop(columns="scores" if suffix == ".csv" else [])
    named = {**NAMED, "state": [name for name in STATE if name in table]}
    encoder = read_log(frame()[table.columns], **named).encoder
    path = tmp_path / f"new{suffix}"
    if suffix == ".csv":
        table.to_csv(path, index=False)
    elif suffix == ".parquet":
        table.to_parquet(path)
    else:
        table.to_json(
            path,
            orient="records",
            lines=True,
            date_format="iso",
            date_unit="us",
            double_precision=15,
        )
    close = np.testing.assert_allclose if suffix == ".jsonl" else same  # pandas writes 15 digits
    close(encoder.states(path), encoder.states(table))
    one = tmp_path / f"one{suffix}"
    if suffix == ".csv":
        table.iloc[[5]].to_csv(one, index=False)
        same(encoder.states(one), encoder.states(table)[[5]])


def test_it_is_plain_json(log):
    again = from_parts(json.loads(json.dumps(to_parts(log.encoder))))
    assert again == log.encoder
    same(again.states(frame(seed=3)), log.encoder.states(frame(seed=3)))


@given(borders=st.sets(st.integers(1, 59), max_size=6))
def test_a_fit_is_a_sum_over_chunks(log, borders):
    table = pa.Table.from_pandas(frame())
    parts = {name: value for name, value in NAMED.items() if name != "categorical"}
    columns = resolve_columns(table.column_names, **parts)
    tidying = Tidying(categorical=("site",))
    edges = [0, *sorted(borders), 60]
    chunks = [table.slice(a, b - a) for a, b in pairwise(edges)]
    fit = reduce(add, [EncoderFit.of(chunk, columns, tidying) for chunk in chunks])
    assert fit.encoder(Notes()) == log.encoder


def test_the_median_of_many_chunks_is_close():
    values = np.random.default_rng(0).permutation(200_001).astype(float)
    values[::10] = np.nan
    table = pa.table({"x": values, "a": np.arange(200_001) % 2, "r": values})
    columns = resolve_columns(table.column_names)
    fits = [
        EncoderFit.of(table.slice(at, 5_000), columns, Tidying()) for at in range(0, 200_001, 5_000)
    ]
    (x,) = reduce(add, fits).encoder(Notes()).variables
    assert x.fill == pytest.approx(100_000, rel=0.01)
    assert (x.low, x.high) == (np.nanmin(values), np.nanmax(values))


def test_states_of_one_encoder_become_those_of_another(log):
    other = read_log(frame(200, seed=4), **NAMED)
    assert other.encoder != log.encoder
    log.encoder.require_translation(other.encoder)
    same(
        log.encoder.translate(other.states, other.encoder),
        log.encoder.states(frame(200, seed=4)),
    )


def test_rare_categories_that_were_put_together_are_not_guessed():
    base = {"action": ["a", "b"] * 50, "reward": np.arange(100.0)}
    few = read_log({**base, "x": ["p", "q", "r", "r"] * 25}, categories=2).encoder
    many = read_log({**base, "x": ["p", "q", "r", "s"] * 25}).encoder
    few.require_translation(many)  # whatever is not r is other
    with pytest.raises(LogError, match=r"'x' were put together .* q, r, s may be among them"):
        many.require_translation(
            read_log({**base, "x": ["p", "q", "r", "p"] * 25}, categories=2).encoder
        )


REFUSED = [
    ({"shop": "west"}, r"'shop' must hold one of its 4 categories.*'west' at row 0 \(1 such row"),
    ({"visits": None}, r"'visits' is missing, which it never was"),
    ({"visits": "many"}, r"'visits' must hold finite numbers. Got 'many'"),
    ({"visits": np.inf}, r"'visits' must hold finite numbers. Got 'inf'"),
    ({"member": "maybe"}, r"'member' must hold true and false. Got 'maybe'"),
    ({"member": 2}, r"'member' must hold true and false. Got '2'"),
    ({"since": "yesterday"}, r"'since' must hold dates or times. Got 'yesterday'"),
    ({"since": 17}, r"'since' must hold dates without a time zone. Got whole numbers"),
    ({"site": 8}, r"'site' must hold one of its 3 categories, 12, 30, 7. Got '8'"),
    ({"scores": [1.0]}, r"lists of column 'scores' must be equally long"),
    ({"age": dt.date(2020, 1, 1)}, r"Column 'age' must hold numbers. Got dates"),
]


@pytest.mark.parametrize(("change", "said"), REFUSED)
def test_what_it_does_not_know_is_refused_by_name(log, change, said):
    row = frame().dropna().iloc[[0]].to_dict("list")
    with pytest.raises(LogError, match=said):
        log.encoder.states(row | {name: [value] for name, value in change.items()})


def test_a_missing_column_is_named(log):
    with pytest.raises(LogError, match=r"has no age, shop; it has"):
        log.encoder.states(frame().drop(columns=["age", "shop"]))


@pytest.mark.parametrize(
    ("column", "spelt"),
    [
        ("visits", ["3", "4.0", "3e0"]),
        ("member", ["yes", "False", "1"]),
        ("site", ["7", "30", "12"]),
        ("since", ["2024-03-02 10:00:00", "2024-03-02", "2024-03-03T01:00"]),
    ],
)
def test_text_that_spells_a_value_is_that_value(log, column, spelt):
    rows = frame().dropna().iloc[:3]
    meant = {
        "visits": [3, 4, 3],
        "member": [True, False, True],
        "site": [7, 30, 12],
        "since": pd.to_datetime(["2024-03-02 10:00", "2024-03-02 00:00", "2024-03-03 01:00"]),
    }[column]
    same(
        log.encoder.states(rows.assign(**{column: spelt})),
        log.encoder.states(rows.assign(**{column: meant})),
    )


def test_rows_that_leave_the_range_of_the_log_are_found(log):
    table = frame(seed=5)
    table.loc[3, "visits"] = 1_000
    outside = log.encoder.outside(log.encoder.states(table))
    assert outside["visits"].tolist() == [row == 3 for row in range(60)]
    assert log.encoder.outside(log.states) == {}


def test_a_written_log_keeps_its_encoder(log, tmp_path):
    again = read_log(log.to_parquet(tmp_path / "log.parquet"))
    assert again.encoder == log.encoder
    same(again.states, log.states)


def test_actions_are_read_with_the_codes_of_the_encoder():
    table = {"x": [1.0, 2.0, 3.0], "offer": ["a", "b", "c"], "spend": [1.0, 2.0, 3.0]}
    encoder = read_log(table).encoder
    fewer = {name: column[1:] for name, column in table.items()}
    again = read_log(fewer, encoder=encoder)
    assert again.actions.tolist() == [1, 2]
    assert again.action_space.labels == ("a", "b", "c")
    with pytest.raises(LogError, match=r"'offer' must hold actions of the log, a, b, c. Got 'd'"):
        read_log(fewer | {"offer": ["a", "d"]}, encoder=encoder)
    with pytest.raises(LogError, match=r"encoder reads the state from x. Got state='y'"):
        read_log({**table, "y": [1, 2, 3]}, state="y", encoder=encoder)


def test_a_log_without_state_columns_has_an_encoder():
    encoder = read_log({"action": ["a", "b"], "reward": [1.0, 2.0]}).encoder
    assert encoder.state_names == ("constant",)
    assert encoder.states({"anything": [1, 2, 3]}).tolist() == [[0.0]] * 3
