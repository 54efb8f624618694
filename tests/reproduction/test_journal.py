import json
import os
import subprocess
import sys
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reproduction.journal import Journal
from tailproof.errors import StorageError

ABOUT = {"experiment": "ope", "seed": 0}
RECORD = [{"method": "fqe", "value": 0.1 + 0.2, "worst": float("inf")}]


def written(path, count):
    with Journal(path, ABOUT) as journal:
        for i in range(count):
            journal.append(f"cell#{i}", [{"value": i / 7}])


def test_what_was_appended_is_read_again_to_the_last_bit(tmp_path):
    path = tmp_path / "deep" / "folder" / "progress.jsonl"
    with Journal(path, ABOUT) as journal:
        journal.append("a", RECORD)
        assert journal["a"] == RECORD
    with Journal(path, ABOUT) as journal:
        assert journal["a"] == RECORD
        assert len(journal) == 1
        assert "b" not in journal


@given(cut=st.integers(min_value=0, max_value=400))
def test_a_file_cut_anywhere_keeps_its_whole_lines_and_can_be_continued(tmp_path_factory, cut):
    path = tmp_path_factory.mktemp("cut") / "progress.jsonl"
    written(path, 5)
    content = path.read_bytes()[:cut]
    path.write_bytes(content)
    kept = max(0, content.count(b"\n") - 1)
    with Journal(path, ABOUT) as journal:
        assert list(journal) == [f"cell#{i}" for i in range(kept)]
        journal.append("more", [])
    with Journal(path, ABOUT) as journal:
        assert list(journal) == [*(f"cell#{i}" for i in range(kept)), "more"]


@given(place=st.integers(min_value=60, max_value=300), bit=st.integers(min_value=0, max_value=7))
def test_a_damaged_line_is_left_out_and_the_others_stay(tmp_path_factory, place, bit):
    path = tmp_path_factory.mktemp("damaged") / "progress.jsonl"
    written(path, 5)
    content = bytearray(path.read_bytes())
    place = min(place, len(content) - 1)
    if place < content.index(b"\n"):
        return  # the first line says whose file it is; without it nothing counts
    content[place] ^= 1 << bit
    path.write_bytes(content)
    with Journal(path, ABOUT) as journal:
        assert len(journal) >= 3
        assert all(journal[key] == [{"value": int(key[5:]) / 7}] for key in journal)


def test_a_file_of_other_settings_is_refused_and_left_alone(tmp_path):
    path = tmp_path / "progress.jsonl"
    written(path, 2)
    before = path.read_bytes()
    with pytest.raises(StorageError, match="belongs to another run"), Journal(path, {"seed": 1}):
        pass
    assert path.read_bytes() == before


def test_two_runs_cannot_write_the_same_file(tmp_path):
    path = tmp_path / "progress.jsonl"
    with (
        Journal(path, ABOUT),
        pytest.raises(StorageError, match="being written by another run"),
        Journal(path, ABOUT),
    ):
        pass
    with Journal(path, ABOUT):  # once the first is closed, it is free again
        pass


def test_a_folder_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with (
        pytest.raises(StorageError, match=r"could not be opened.*another folder"),
        Journal(tmp_path / "file" / "progress.jsonl", ABOUT),
    ):
        pass


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_disk_is_an_error_that_says_what_is_kept(tmp_path):
    path = tmp_path / "progress.jsonl"
    with Journal(path, ABOUT) as journal:
        journal.append("a", RECORD)
        full = open("/dev/full", "ab")  # noqa: SIM115 the journal is given it
        real, journal._file = journal._file, full
        with pytest.raises(StorageError, match="What is in it is kept"):
            journal.append("b", RECORD)
        journal._file = real
        with pytest.raises(OSError, match="No space"):
            full.close()
    with Journal(path, ABOUT) as journal:
        assert list(journal) == ["a"]


def test_a_record_is_on_the_disk_when_append_returns(tmp_path):
    path = tmp_path / "progress.jsonl"
    code = (
        "import os, signal, sys; from pathlib import Path\n"
        "from reproduction.journal import Journal\n"
        f"with Journal(Path({str(path)!r}), {ABOUT!r}) as journal:\n"
        "    journal.append('a', 1)\n"
        "    os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=False)
    with Journal(path, ABOUT) as journal:
        assert journal["a"] == 1


def test_lines_are_a_checksum_and_json(tmp_path):
    path = tmp_path / "progress.jsonl"
    written(path, 1)
    for line in path.read_bytes().splitlines():
        checksum, _, content = line.partition(b" ")
        assert int(checksum, 16) == zlib.crc32(content)
        json.loads(content)
