"""Files that would read others, fill the memory, or say of themselves what is not so."""

import gzip

import h5py
import numpy as np
import pyarrow as pa
import pyarrow.feather
import pyarrow.parquet as pq
import pytest

import tailproof.io.tables
from tailproof import Log
from tailproof.errors import LogError, MethodError
from tailproof.files import opened_page, sealed_page
from tailproof.io import read_log, write_log
from tailproof.io.tables import LimitedStream, naming_the_file


def d4rl(path, *, without=()):
    arrays = {
        "observations": np.zeros((8, 2)),
        "actions": np.zeros((8, 1)),
        "rewards": np.arange(8.0),
        "terminals": np.arange(8) % 4 == 3,
        "timeouts": np.zeros(8, dtype=bool),
    }
    with h5py.File(path, "w") as file:
        for name, values in arrays.items():
            if name not in without:
                file[name] = values
    return path


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "secret"
    path.write_bytes(np.arange(100.0).tobytes())
    return path


def test_data_in_other_files_are_not_read(tmp_path, secret):
    path = d4rl(tmp_path / "log.hdf5", without=["observations"])
    with h5py.File(path, "a") as file:
        file.create_dataset("observations", (8, 2), float, external=[(str(secret), 0, 128)])
    with pytest.raises(LogError, match="the data of '/observations' lie in other files"):
        read_log(path)


def test_links_to_other_files_are_not_followed(tmp_path):
    d4rl(tmp_path / "other.hdf5")
    path = d4rl(tmp_path / "log.hdf5", without=["rewards"])
    with h5py.File(path, "a") as file:
        file["rewards"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "/rewards")
    with pytest.raises(LogError, match=r"'rewards' is a link to another file, '.*other\.hdf5'"):
        read_log(path)
    with h5py.File(path, "a") as file:
        del file["rewards"]
        file["hidden/deep"] = h5py.ExternalLink(str(tmp_path / "other.hdf5"), "/")
        file["rewards"] = h5py.SoftLink("/hidden/deep/rewards")
    with pytest.raises(LogError, match="'deep' is a link to another file"):
        read_log(path)


def test_virtual_data_are_not_read(tmp_path):
    d4rl(tmp_path / "other.hdf5")
    path = d4rl(tmp_path / "log.hdf5", without=["rewards"])
    layout = h5py.VirtualLayout((8,), float)
    layout[:] = h5py.VirtualSource(tmp_path / "other.hdf5", "rewards", (8,))
    with h5py.File(path, "a") as file:
        file.create_virtual_dataset("rewards", layout)
    with pytest.raises(LogError, match="the data of '/rewards' lie in other files"):
        read_log(path)


def test_groups_that_hold_themselves_end(tmp_path):
    path = d4rl(tmp_path / "log.hdf5")
    with h5py.File(path, "a") as file:
        file["round"] = file["/"]
    assert read_log(path).n_transitions == 8


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_minari_data_sets_hold_their_own_data_too(tmp_path, secret, monkeypatch):
    minari = pytest.importorskip("minari")
    import gymnasium as gym

    space = gym.spaces.Box(-1, 1, (2,), np.float64)
    buffer = minari.data_collector.EpisodeBuffer(
        observations=np.zeros((5, 2)),
        actions=np.zeros((4, 2)),
        rewards=np.zeros(4),
        terminations=np.arange(4) == 3,
        truncations=np.zeros(4, dtype=bool),
    )
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path / "sets"))
    made = minari.create_dataset_from_buffers(
        "own/data-v0", buffer=[buffer], observation_space=space, action_space=space
    )
    folder = made.storage.data_path
    assert read_log(str(folder)).n_transitions == 4
    with h5py.File(folder / "main_data.hdf5", "a") as file:
        del file["episode_0/observations"]
        file["episode_0"].create_dataset(
            "observations", (5, 2), float, external=[(str(secret), 0, 80)]
        )
    for source in (str(folder), "own/data-v0"):
        with pytest.raises(LogError, match="lie in other files"):
            read_log(source)


def test_a_file_that_claims_more_than_it_can_stand_for_is_refused(tmp_path, monkeypatch):
    path = d4rl(tmp_path / "log.hdf5", without=["observations"])
    with h5py.File(path, "a") as file:
        file.create_dataset("observations", (10**9, 2), float, chunks=(1000, 2), compression="gzip")
    with pytest.raises(LogError, match="the most for its size"):
        read_log(path)


def test_tables_larger_than_memory_are_refused_by_name(tmp_path, monkeypatch):
    table = pa.table({"x": np.zeros(1000), "action": np.zeros(1000, int), "reward": np.zeros(1000)})
    pq.write_table(table, tmp_path / "log.parquet")
    (tmp_path / "folder").mkdir()
    pq.write_table(table, tmp_path / "folder" / "0.parquet")
    monkeypatch.setattr(tailproof.io.tables, "physical_memory", lambda: 10_000)
    for path in (tmp_path / "log.parquet", tmp_path / "folder"):
        with pytest.raises(LogError, match=r"has 1000 rows: 3 columns .* Pass lazy=True"):
            read_log(path)
    assert read_log(tmp_path / "log.parquet", lazy=True).n_transitions == 1000


def test_text_that_unpacks_to_more_than_memory_is_refused(tmp_path, monkeypatch):
    lines = b"x,action,reward\n" + b"0.5,1,1.0\n" * 200_000
    (tmp_path / "log.csv.gz").write_bytes(gzip.compress(lines))
    assert read_log(tmp_path / "log.csv.gz").n_transitions == 200_000
    monkeypatch.setattr(tailproof.io.tables, "physical_memory", lambda: 2_000_000)
    with pytest.raises(LogError, match=r"log\.csv\.gz is not read: it unpacks to more than"):
        read_log(tmp_path / "log.csv.gz")


def test_a_limited_stream_is_the_stream_until_its_limit(tmp_path):
    import io

    with LimitedStream(io.BytesIO(b"abc"), "It", 3) as stream:
        assert stream.read() == b"abc"
    with LimitedStream(io.BytesIO(b"abcd"), "It", 3) as stream, pytest.raises(LogError):
        stream.read()


# Forged descriptions, with checksums that fit.


def forged(path, change):
    log = Log.from_arrays([[0.0], [1.0]], [1, 0], [1.0, 2.0], [[1.0], [2.0]], episode=["a", "a"])
    table = pq.read_table(write_log(log, path))
    page = opened_page(table.schema.metadata[b"tailproof"], "It")
    changed = change(page["log"])
    content = changed if isinstance(changed, bytes) else sealed_page({**page, "log": changed})
    pq.write_table(table.replace_schema_metadata({b"tailproof": content}), path)
    return path


def with_part(page, part, value):
    return {**page, "columns": {**page["columns"], part: value}}


def with_kind(page, part, value):
    return {**page, "kinds": {"mapping": {**page["kinds"]["mapping"], part: value}}}


@pytest.mark.parametrize(
    "change",
    [
        lambda d: {**d, "kinds": {"mapping": {}}},
        lambda d: with_kind(d, "states", "V100000000"),
        lambda d: with_kind(d, "episode", "nothing"),
        lambda d: with_kind(d, "states", 3),
        lambda d: {**d, "written": ["episode"]},
        lambda d: {**d, "written": None},
        lambda d: with_part(d, "state", [["x"]]),
        lambda d: with_part(d, "state", "state_0"),
        lambda d: with_part(d, "next_state", []),
        lambda d: with_part(d, "reward", 3),
        lambda d: with_part(d, "episode", ["nobody"]),
        lambda d: {**d, "space": {"class": "Discrete", "n": "two"}},
        lambda d: {**d, "space": {"class": "Discrete", "n": -1}},
        lambda d: {**d, "space": []},
        lambda d: {**d, "space": {"class": "Continuous", "dimension": None}},
        lambda d: {**d, "state_names": None},
        lambda d: {**d, "encoder": {"class": "Discrete", "n": 2}},
        lambda d: {k: v for k, v in d.items() if k != "columns"},
        lambda d: [d],
        lambda d: "text",
        lambda d: None,
        lambda d: b"[" * 100_000,
        lambda d: b"\xff\xfe",
    ],
)
@pytest.mark.parametrize("lazy", [False, True])
def test_a_forged_description_is_one_clear_error(tmp_path, change, lazy):
    path = forged(tmp_path / "log.parquet", change)
    with pytest.raises(LogError, match=r"damaged|could not be read|changed since|written by"):
        read_log(path, lazy=lazy)


@pytest.mark.parametrize("lazy", [False, True])
def test_column_names_that_are_no_text_are_one_clear_error(tmp_path, lazy):
    path = tmp_path / "log.parquet"
    columns = {"x": [0.0], "action": [0], "reward": [1.0], "notexxxxx": [1]}
    pq.write_table(pa.table(columns), path, compression="none", store_schema=False)
    path.write_bytes(
        path.read_bytes().replace(b"notexxxxx", b"\xff\xfe\xfd\xfc\xfb\xfa\xf9\xf8\xf7")
    )
    try:
        log = read_log(path, lazy=lazy)
    except LogError:
        return
    assert log.n_transitions == 1


@pytest.mark.parametrize("column", ["episode", "x", "action", "group"])
@pytest.mark.parametrize("lazy", [False, True])
def test_text_that_is_not_utf8_is_one_clear_error(tmp_path, column, lazy):
    path = tmp_path / "log.parquet"
    table = {"episode": ["aaaa", "bbbb"], "x": ["cccc", "dddd"], "action": ["eeee", "ffff"]}
    table |= {"group": ["gggg", "hhhh"], "reward": [1.0, 2.0]}
    pq.write_table(pa.table(table), path, compression="none", write_statistics=False)
    letters = table[column][1].encode()
    path.write_bytes(path.read_bytes().replace(letters, b"\xe5\xff\xfe\x80"))
    with pytest.raises(LogError, match="cannot be read"):
        read_log(path, lazy=lazy)


def test_features_that_would_fill_the_memory_are_refused_by_name(rng):
    from tailproof import PerAction, Polynomial, evaluate, method

    states = rng.standard_normal((50, 400))
    log = Log.from_arrays(states, rng.integers(3, size=50), np.zeros(50), states, episode=range(50))
    chosen = method("roam-dm", features=PerAction(Polynomial(), 400, 3))
    with pytest.raises(MethodError, match=r"features need 10 matrices of .* GB"):
        evaluate(log, lambda s: np.zeros(len(s)), method=chosen)
    with pytest.raises(LogError, match="Integer actions are codes"):
        Log.from_arrays([0.0], [10**12], [1.0], [0.0], episode=[0])


def test_a_lack_of_memory_is_said_as_one():
    with pytest.raises(LogError, match="memory"), naming_the_file("log.csv", "Write it as UTF-8."):
        raise MemoryError("malloc of size 131072 failed")
