"""Labels are text, exactly: those that differ in spelling only stay apart, in every reader."""

import json
import sqlite3
from contextlib import closing

import duckdb
import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from tailproof import Column, evaluate, read_log
from tailproof.errors import PolicyError, TailproofWarning
from tailproof.io.values import distinct_values

PAIRS = [
    ("07", "7"),
    ("1.1", "1.10"),
    ("1e1", "10"),
    ("0x10", "16"),
    ("01234", "1234"),
    ("9223372036854775808", "9223372036854775809"),
    ("18446744073709551617", "18446744073709551618"),
    ("+5", "5"),
    ("5.0", "5"),
    ("1,5", "15"),
]
IDS = ["/".join(pair) for pair in PAIRS]
N = 60


def rows(pair, **more):
    """Return columns in which the second label earns 3, the first 1."""
    code = np.arange(N) % 2
    labels = [pair[i] for i in code]
    return {"label": labels, "x": np.arange(N) % 5, "reward": 1.0 + 2 * code, **more}


def written(table, folder, how):
    """Write columns of text labels in one of the formats, as numbers where these allow it."""
    folder.mkdir(exist_ok=True)
    if how == "csv":
        path = folder / "log.csv"
        pd.DataFrame(table).to_csv(path, index=False)
    elif how in ("json", "json numbers"):
        path = folder / "log.jsonl"
        quoted = '"{}"' if how == "json" else "{}"
        with path.open("w") as file:
            for i in range(N):
                rest = json.dumps(
                    {k: v[i] for k, v in table.items() if k != "label"}, default=float
                )
                file.write(f'{{"label": {quoted.format(table["label"][i])}, {rest[1:]}\n')
    elif how == "excel":
        path = folder / "log.xlsx"
        whole = [t.isdigit() and t[0] != "0" and len(t) < 16 for t in table["label"]]
        cells = [
            int(t) if is_whole else t for t, is_whole in zip(table["label"], whole, strict=True)
        ]
        pd.DataFrame({**table, "label": cells}).to_excel(path, index=False)
    elif how == "frame":
        return pd.DataFrame(table)
    elif how == "parquet":
        path = folder / "log.parquet"
        pd.DataFrame(table).to_parquet(path)
    elif how == "sqlite":
        path = folder / "log.db"
        with closing(sqlite3.connect(path)) as base, base:
            pd.DataFrame(table).to_sql("log", base, index=False)
    elif how == "duckdb":
        path = folder / "log.duckdb"
        with duckdb.connect(str(path)) as base:
            base.register("given", pd.DataFrame(table))
            base.execute("CREATE TABLE log AS SELECT * FROM given")
    else:
        path = folder / "log"
        frame = pd.DataFrame(table)
        for label, part in frame.groupby("label"):
            own = path / f"label={label}"
            own.mkdir(parents=True)
            part.drop(columns="label").to_parquet(own / "part.parquet")
    return path


def readable(pair, how):
    if how != "json numbers":
        return True
    try:
        return [json.loads(text) is not None for text in pair] == [True, True]
    except ValueError:
        return False


TYPED = ("sqlite", "duckdb", "parquet", "frame")
CASES = [
    pytest.param(pair, how, id=f"{name} {how}")
    for pair, name in zip(PAIRS, IDS, strict=True)
    for how in ("csv", "json", "json numbers", "excel", "hive", *TYPED)
    if readable(pair, how)
]


@pytest.mark.parametrize(("pair", "how"), CASES)
@pytest.mark.parametrize("categorical", [(), ("label",)])
def test_actions(pair, how, categorical, tmp_path):
    path = written(rows(pair), tmp_path / "it", how)
    log = read_log(path, action="label", state="x", reward="reward", categorical=categorical)
    assert set(log.action_space.labels) == set(pair)
    for label, value in zip(pair, (1.0, 3.0), strict=True):
        assert evaluate(log, f"always:{label}", method="lstd").value == pytest.approx(
            value, abs=0.01
        )


@pytest.mark.parametrize(("pair", "how"), CASES)
def test_states_that_are_categories(pair, how, tmp_path):
    table = rows(pair, action=["a", "a", "b"] * (N // 3))
    path = written(table, tmp_path / "it", how)
    log = read_log(path, state="label", reward="reward", categorical="label")
    assert set(log.state_names) == {f"label={label}" for label in pair}
    again = log.encoder.states(path)
    assert sorted(map(tuple, again)) == sorted(map(tuple, log.states))


@pytest.mark.parametrize(("pair", "how"), CASES)
def test_episodes(pair, how, tmp_path):
    table = rows(pair, action=["a", "a", "b"] * (N // 3), t=np.arange(N))
    path = written(table, tmp_path / "it", how)
    log = read_log(path, episode="label", step="t", state="x", terminated=True)
    assert sorted(map(str, log.episode_ids)) == sorted(pair)
    assert log.lengths.tolist() == [N // 2] * 2


@pytest.mark.parametrize("pair", PAIRS[:5], ids=IDS[:5])
def test_a_column_that_is_a_policy(pair, tmp_path):
    path = written(rows(pair, new=[pair[1]] * N), tmp_path / "it", "csv")
    log = read_log(path, action="label", state="x", reward="reward")
    assert evaluate(log, Column("new"), method="lstd").value == pytest.approx(3.0, abs=0.01)


def test_truth_values_that_are_spelt_differently_stay_apart(tmp_path):
    path = written(rows(("true", "True")), tmp_path, "csv")
    with pytest.warns(TailproofWarning):
        log = read_log(path, action="label", state="x", reward="reward")
    assert set(log.action_space.labels) == {"true", "True"}


def test_decimals_are_real_numbers_unless_one_is_written_twice(tmp_path):
    table = rows(("0.5", "1.25"))
    log = read_log(written(table, tmp_path, "csv"), action="label", state="x", reward="reward")
    assert not log.is_discrete


def test_numbers_that_policies_answer_mean_the_label_written_like_them():
    big = (2**63, 2**63 + 1)
    log = read_log(rows(tuple(map(str, big))), action="label", state="x", reward="reward")
    for number, value in zip(big, (1.0, 3.0), strict=True):
        for answer in ([number] * N, lambda s, n=number: [n] * len(s)):
            found = evaluate(log, answer, method="lstd").value
            assert found == pytest.approx(value, abs=0.01)
    versions = read_log(rows(("1.1", "1.10")), action="label", state="x", reward="reward")
    assert evaluate(versions, [1.1] * N, method="lstd").value == pytest.approx(1.0, abs=0.01)
    codes = read_log(rows(("07", "007")), action="label", state="x", reward="reward")
    with pytest.raises(PolicyError, match="answered 7, which is none of the log's actions"):
        evaluate(codes, [7] * N)


def test_codes_that_begin_with_zero_are_warned_of_as_states(tmp_path):
    table = rows(("01234", "1234"), action=["a", "a", "b"] * (N // 3))
    path = written(table, tmp_path, "csv")
    with pytest.warns(UserWarning, match=r"'label' has numbers that begin with zero.*categorical="):
        read_log(path, state="label", reward="reward")


@pytest.mark.parametrize(
    "column",
    [
        pa.chunked_array([["a", None], ["b", "a"]]),
        pa.chunked_array([["a", "b"], ["b"]]).dictionary_encode(),
        pa.chunked_array([[2, 1, 2]]),
        pa.chunked_array([[0.5, None, 0.5]]),
        pa.chunked_array([[True, False, None]]),
        pa.chunked_array([[[1], [2], [1]]]),
        pa.chunked_array([[]], pa.string()),
    ],
)
def test_distinct_values_and_their_places_are_the_column(column):
    values, places = distinct_values(column)
    every = values if places is None else values[places]
    assert every.tolist() == column.to_pylist()
    assert places is None or len(set(values.tolist())) == len(values)
