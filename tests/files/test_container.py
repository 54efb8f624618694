import hashlib
import io
import json
import zipfile

import numpy as np
import pytest

from tailproof.files import (
    SavedFileError,
    opened_page,
    read_file,
    sealed_page,
    write_file,
)


def forged(path, content):
    """Write an archive with a checksum that fits, as a forger would."""
    title = b"tailproof thing 1"
    path.write_bytes(b"\n".join([title, hashlib.sha256(content).hexdigest().encode(), content]))
    return path


def archive(**entries):
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", zipfile.ZIP_DEFLATED) as inside:
        for name, content in entries.items():
            inside.writestr(name.replace("_", "."), content)
    return made.getvalue()


def npy(header, data=b""):
    text = (header + " " * (117 - len(header)) + "\n").encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text + data


@pytest.mark.parametrize("dtype", [float, int, bool, "<U3", "float32"])
@pytest.mark.parametrize("shape", [(), (3,), (2, 3), (0, 4)])
def test_arrays_come_back_as_they_were(tmp_path, dtype, shape, rng):
    values = np.asarray(rng.integers(5, size=shape), order="F").astype(dtype)
    write_file(tmp_path / "x", "thing", 1, {"a": [1, "ü"]}, {"values": values})
    header, arrays = read_file(tmp_path / "x", "thing", 1)
    assert header == {"a": [1, "ü"]}
    assert arrays["values"].dtype == values.dtype
    assert arrays["values"].shape == shape
    assert np.array_equal(arrays["values"], values)


def test_an_archive_that_would_unpack_to_gigabytes_is_refused(tmp_path):
    bomb = archive(header_json="{}", a_npy=b"\0" * (1 << 25))
    assert len(bomb) < 1 << 16
    with pytest.raises(SavedFileError, match="unpacks to 33554434 bytes"):
        read_file(forged(tmp_path / "x", bomb), "thing", 1)


@pytest.mark.parametrize(
    "content",
    [
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (999999999999,), }"),
        npy("{'descr': '|O', 'fortran_order': False, 'shape': (1,), }", b"\0" * 8),
        npy("{'descr': '<f8', 'fortran_order': False, 'shape': (-1,), }"),
        npy("{'descr': ["),
        b"\x93NUMPY\x09\x00" + b"\0" * 20,
        b"",
    ],
)
def test_an_array_that_is_none_is_refused(tmp_path, content):
    with pytest.raises(SavedFileError, match="is no thing that tailproof wrote"):
        read_file(forged(tmp_path / "x", archive(header_json="{}", a_npy=content)), "thing", 1)


@pytest.mark.parametrize("header", ["[" * 100_000, '{"a": ', "[]", b"\xff\xfe", '"text"'])
def test_a_header_that_is_none_is_refused(tmp_path, header):
    with pytest.raises(SavedFileError, match="is no thing that tailproof wrote"):
        read_file(forged(tmp_path / "x", archive(header_json=header)), "thing", 1)


def test_a_page_vouches_for_what_it_says():
    content = sealed_page({"kind": "policy", "tensors": "ab" * 32, "widths": [3, 2]})
    assert opened_page(content, "It")["widths"] == [3, 2]
    for place in range(0, len(content), 3):
        changed = bytearray(content)
        changed[place] ^= 2
        try:
            same = json.loads(changed) == json.loads(content)
        except ValueError:
            same = False
        if not same:
            with pytest.raises(SavedFileError, match="It is"):
                opened_page(bytes(changed), "It")
    for other in (b"", b"[]", b"3", b"{}", b"[" * 100_000):
        with pytest.raises(SavedFileError, match="It is"):
            opened_page(other, "It")
