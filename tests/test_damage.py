"""Damaged files of every format: an error of ours, or an answer; with checksums, the same answer."""

import random
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import damage


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", damage.FORMATS)
def test_damaged_files_are_refused_or_read(name, tmp_path):
    pytest.importorskip("onnxruntime" if name == "onnx" else "pyarrow")
    file, write, read = damage.FORMATS[name]
    path = tmp_path / file
    write(path)
    whole, answer = path.read_bytes(), read(path)
    for number in range(20 if name == "bench record" else 60):
        path.write_bytes(damage.damaged(whole, random.Random(f"{name} test {number}")))
        what, said = damage.outcome(read, path, answer, sealed=name in damage.SEALED)
        assert what in ("refused", "same", "another log"), said
