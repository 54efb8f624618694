import sys
from dataclasses import dataclass

import numpy as np
import pyarrow
import pytest

from tailproof.files import as_frame, plain, scalar


@dataclass(frozen=True)
class Pair:
    left: float
    right: object


def test_what_json_lacks_is_spelt_out():
    nested = Pair(float("nan"), {"a": (np.float64("-inf"), np.int32(3)), "b": np.array(["x"])})
    assert plain(nested) == {"left": None, "right": {"a": ["-inf", 3], "b": ["x"]}}


def test_what_json_does_not_know_becomes_text():
    assert plain(np.datetime64("2021-02-16")) == "2021-02-16"
    assert plain(Pair) == str(Pair)


def test_numpy_scalars_become_python_ones():
    assert type(scalar(np.float32(0.5))) is float
    assert scalar("text") == "text"


def test_without_pandas_a_frame_is_a_pyarrow_table(monkeypatch: pytest.MonkeyPatch):
    rows = [{"a": 1, "b": "x"}, {"a": 2, "b": "y"}]
    assert list(as_frame(rows)["a"]) == [1, 2]
    monkeypatch.setitem(sys.modules, "pandas", None)
    table = as_frame(rows)
    assert isinstance(table, pyarrow.Table)
    assert table.to_pylist() == rows
