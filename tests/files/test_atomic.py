import errno
import os

import pytest

from tailproof.errors import StorageError
from tailproof.files import write_whole, written_whole


def test_a_file_is_replaced_whole(tmp_path):
    write_whole(tmp_path / "x", "one")
    write_whole(tmp_path / "x", b"two")
    assert (tmp_path / "x").read_text() == "two"
    assert [each.name for each in tmp_path.iterdir()] == ["x"]


def test_an_error_on_the_way_leaves_what_was_there(tmp_path, monkeypatch):
    write_whole(tmp_path / "x", "one")

    def fail():
        with written_whole(tmp_path / "x") as unfinished:
            unfinished.write_text("half")
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        fail()

    def full(descriptor):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        write_whole(tmp_path / "x", "two")
    assert (tmp_path / "x").read_text() == "one"
    assert [each.name for each in tmp_path.iterdir()] == ["x"]


def test_only_files_are_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path, kind in ((tmp_path / "pipe", "a device or a pipe"), (tmp_path, "a folder")):
        with pytest.raises(StorageError, match=f"it is {kind}, and only files are replaced"):
            write_whole(path, "text")
    before = os.stat("/dev/null")
    with pytest.raises(StorageError, match="a device"):
        write_whole("/dev/null", "text")
    assert os.stat("/dev/null").st_rdev == before.st_rdev
    with pytest.raises(StorageError, match="could not be written"):
        write_whole(tmp_path / "nowhere" / "x", "text")


def test_a_link_keeps_pointing_at_what_is_replaced(tmp_path):
    (tmp_path / "real").write_text("one")
    (tmp_path / "link").symlink_to(tmp_path / "real")
    write_whole(tmp_path / "link", "two")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real").read_text() == "two"
