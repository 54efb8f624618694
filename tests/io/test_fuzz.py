"""Files that are not what they claim, and tables of anything: an error of ours or a sound log."""

import datetime as dt
import math
import os
import warnings

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.feather
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tailproof.errors import TailproofError, TailproofWarning
from tailproof.io import read

# TAILPROOF_FUZZ=100 runs a hundred times as many cases.
MANY = settings(
    max_examples=60 * int(os.environ.get("TAILPROOF_FUZZ", "1")),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
SUFFIXES = ("csv", "tsv", "parquet", "arrow", "feather", "h5", "hdf5", "npz", "csv.gz")
MAGIC = (b"", b"PAR1", b"ARROW1\0\0", b"\x89HDF\r\n\x1a\n", b"\xef\xbb\xbf", b"\xff\xff\xff\xff")


def sound(source, **parts):
    """Read a source: True for a log whose parts agree with each other, False for an error of ours."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TailproofWarning)
        try:
            log = read(source, **parts).log
        except TailproofError:
            return False
    n = log.n_transitions
    assert n == len(log.states) == len(log.next_states) == len(log.actions) == log.starts[-1]
    for values in (log.states, log.next_states, log.rewards):
        assert np.isfinite(values).all()
    assert log.states.shape[1] == len(log.state_names)
    assert not (log.terminated & log.truncated).any()
    assert (log.terminated | log.truncated).sum() == log.n_episodes
    assert len(np.unique(log.episode_ids)) == log.n_episodes
    if log.is_discrete:
        assert log.actions.min() >= 0
        assert log.actions.max() < log.n_actions
    if log.propensity is not None:
        assert (log.propensity > 0).all()
    return True


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("files")


@MANY
@given(suffix=st.sampled_from(SUFFIXES), magic=st.sampled_from(MAGIC), rest=st.binary(max_size=300))
def test_any_bytes(folder, suffix, magic, rest):
    path = folder / f"log.{suffix}"
    path.write_bytes(magic + rest)
    sound(path)
    sound(path, state=["a"], reward="b")


@MANY
@given(
    header=st.sampled_from(["x,action,reward", "episode,t,x_1,a,r", "user;x;a;r;done", "x\ta\tr"]),
    lines=st.lists(
        st.text("0123456789.-+eE,;\t\"' \\truefalsnNAi\r\n", max_size=20)
        | st.lists(
            st.sampled_from(["0", "1", "2.5", "", "NA", "nan", "inf", "a", "-1e308", "1e400", '"']),
            min_size=3,
            max_size=5,
        ).map(",".join),
        max_size=6,
    ),
)
def test_any_text(folder, header, lines):
    path = folder / "log.csv"
    path.write_text("\n".join([header, *lines]))
    sound(path)


def whole_table():
    rng = np.random.default_rng(0)
    n = 40
    return pa.table(
        {
            "episode": pa.array([f"e{i // 4}" for i in range(n)]),
            "step": pa.array(np.arange(n) % 4),
            "x_1": pa.array(rng.normal(size=n)),
            "x_2": pa.array(["u", "v"] * (n // 2)),
            "action": pa.array(rng.integers(0, 3, n)),
            "reward": pa.array(rng.standard_t(2, n)),
            "terminated": pa.array(np.arange(n) % 4 == 3),
        }
    )


def whole_file(form, path):
    """Write a good file of some form and return its bytes."""
    if form == "csv":
        pyarrow.csv.write_csv(whole_table(), path)
    elif form == "parquet":
        pyarrow.parquet.write_table(whole_table(), path, compression="none")
    elif form == "feather":
        pyarrow.feather.write_feather(whole_table(), path, compression="uncompressed")
    else:
        rng = np.random.default_rng(0)
        with h5py.File(path, "w") as file:
            file["observations"] = rng.normal(size=(40, 2))
            file["actions"] = rng.normal(size=(40, 1))
            file["rewards"] = rng.normal(size=40)
            file["terminals"] = np.arange(40) % 4 == 3
            file["timeouts"] = np.zeros(40, dtype=bool)
    return path.read_bytes()


@pytest.mark.parametrize("form", ["csv", "parquet", "feather", "hdf5"])
def test_damaged_files(folder, form):
    path = folder / f"whole.{form}"
    whole = whole_file(form, path)
    assert sound(path)

    @MANY
    @given(
        changes=st.lists(
            st.tuples(st.integers(0, len(whole) - 1), st.integers(0, 255)), max_size=4
        ),
        cut=st.none() | st.integers(0, len(whole)),
        more=st.binary(max_size=10),
    )
    def damaged(changes, cut, more):
        content = bytearray(whole)
        for at, byte in changes:
            content[at] = byte
        path.write_bytes(bytes(content[:cut]) + more)
        sound(path)

    damaged()


VALUES = {
    "whole": st.integers(-(2**63), 2**63 - 1),
    "small": st.integers(0, 3),
    "real": st.floats(-10, 10) | st.floats(-10, 10) | st.floats(),
    "half": st.sampled_from([0.5, 1.0, 0.25]),
    "flag": st.booleans(),
    "text": st.text(max_size=3),
    "bytes": st.binary(max_size=3),
    "date": st.dates(),
    "time": st.datetimes(dt.datetime(1970, 1, 1), dt.datetime(2100, 1, 1)),
    "span": st.timedeltas(dt.timedelta(0), dt.timedelta(days=9)),
    "decimal": st.decimals(-99, 99, places=2),
    "list": st.lists(st.floats(-9, 9), max_size=2),
    "pair": st.lists(st.floats(-9, 9), min_size=2, max_size=2),
    "struct": st.fixed_dictionaries({"a": st.integers(0, 3)}),
}
USUAL = {
    "x_1": ("real", "small", "text", "flag", "pair", "decimal"),
    "x_2": ("whole", "half", "text"),
    "next_x_1": ("real", "small", "text", "flag", "pair"),
    "next_x_2": ("whole", "half", "text"),
    "action": ("small", "text", "flag", "half", "pair", "whole"),
    "action_0": ("real",),
    "reward": ("real", "whole", "decimal", "flag"),
    "episode": ("small", "text", "date", "real"),
    "step": ("whole", "time", "span", "real"),
    "terminated": ("flag",),
    "done": ("flag",),
    "truncated": ("flag",),
    "propensity": ("half",),
    "group": ("text", "small"),
    "note": ("text",),
}


@st.composite
def tables(draw):
    """Return tables with conventional names and columns of anything."""
    names = draw(st.lists(st.sampled_from(list(USUAL)), unique=True, max_size=7))
    names = list(dict.fromkeys(["x_1", "action", "reward", *names]))
    n = draw(st.integers(0, 6) | st.integers(1, 6))
    columns = {}
    for name in names:
        odd = draw(st.integers(0, 15)) == 0
        value = VALUES[draw(st.sampled_from(list(VALUES) if odd else USUAL[name]))]
        if draw(st.integers(0, 15)) == 0:
            value = st.none() | value
        column = pa.array(draw(st.lists(value, min_size=n, max_size=n)))
        if draw(st.booleans()) and not pa.types.is_nested(column.type):
            column = column.dictionary_encode()
        columns[name] = column
    return pa.table(columns)


@MANY
@given(table=tables(), terminated=st.sampled_from([None, True, False]))
def test_any_table(table, terminated):
    if sound(table, terminated=terminated):
        rewards = [float(value) for value in table["reward"].to_pylist()]
        assert all(math.isfinite(value) for value in rewards)
        log = read(table, terminated=terminated).log
        assert sorted(log.rewards.tolist()) == sorted(rewards) or log.n_transitions < len(rewards)
        assert set(log.rewards.tolist()) <= set(rewards)
