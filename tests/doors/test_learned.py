"""What was learned is kept in one file, which holds numbers and text and is checked before use."""

import hashlib
import io
import json
import operator
import pickle
import zipfile
from dataclasses import replace
from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.tree import DecisionTreeRegressor

from tailproof import (
    FQI,
    Absolute,
    Continuous,
    Discrete,
    HuberRewards,
    Learned,
    Log,
    Mean,
    Median,
    Method,
    Quantile,
    Split,
    learn,
    load_policy,
    method,
)
from tailproof.doors.learned import KIND, VERSION
from tailproof.errors import FoldWarning, MethodError, StorageError, TailproofError
from tailproof.files import SavedFileError
from tailproof.methods.catalogue import LEARNING

GAMMA = 0.9


@pytest.fixture(scope="module")
def short_log(cartpole):
    return cartpole.log(episodes=12, steps=40, seed=3)


@pytest.fixture(scope="module")
def learned(short_log):
    return learn(short_log, method="room-vm", gamma=GAMMA, seed=6)


@pytest.fixture
def saved(learned, tmp_path):
    path = tmp_path / "policy.tailproof"
    learned.save(path)
    return path


@pytest.mark.parametrize("name", [name for name in LEARNING if not name.startswith("policy-")])
def test_every_row_comes_back_as_it_was(name, short_log, tmp_path):
    learned = learn(short_log, method=name, gamma=GAMMA, seed=6)
    learned.save(tmp_path / "x")
    again = Learned.load(tmp_path / "x")
    values = [each.critic.action_values(short_log.states, 2) for each in (again, learned)]
    assert np.array_equal(*values)
    assert np.array_equal(again.history, learned.history)
    assert np.array_equal(again.policy(short_log.states), learned.policy(short_log.states))
    for attribute in ("method", "gamma", "seed", "n_transitions", "n_episodes", "bad_folds"):
        assert getattr(again, attribute) == getattr(learned, attribute)
    assert again.action_space == Discrete(2, ("left", "right"))
    assert again.state_names == short_log.state_names
    assert again.to_dict() == learned.to_dict()


def test_settings_come_back_too(short_log, tmp_path):
    chosen = method("room-vm", ridge=Absolute(20.0), reward=HuberRewards(2.0), clip=0.01, folds=3)
    learn(short_log, method=chosen, gamma=GAMMA).save(tmp_path / "x")
    assert Learned.load(tmp_path / "x").method == chosen


def test_a_loaded_result_still_changes_its_aggregate(saved, learned, short_log):
    again = Learned.load(saved).with_aggregate(Quantile(0.1))
    directly = learned.with_aggregate(Quantile(0.1))
    assert np.array_equal(
        again.policy.values(short_log.states), directly.policy.values(short_log.states)
    )


def test_members_that_failed_stay_left_out(short_log, tmp_path):
    folds = Split(5).assign(short_log, np.random.default_rng(0).spawn(2)[0])
    rewards = short_log.rewards.copy()
    rewards[short_log.rows(folds.episodes(2))] = 1e308
    with pytest.warns(FoldWarning, match="fold 2"):
        learned = learn(short_log.with_rewards(rewards), method="room-vm", gamma=GAMMA)
    learned.save(tmp_path / "x")
    again = Learned.load(tmp_path / "x")
    assert again.bad_folds == (2,)
    assert again.members.count == 4


def test_the_saved_file_is_a_policy_for_anyone_who_asks(saved, learned, short_log):
    assert np.array_equal(load_policy(saved)(short_log.states), learned.policy(short_log.states))


class Own:
    """Features of the user's own."""

    size = 2

    def __call__(self, states, actions):
        return np.column_stack([states[:, 0], states[:, 0] * actions])


def test_features_of_ones_own_are_given_again(short_log, tmp_path):
    features = Own()
    learned = learn(short_log, method=method("fqi", features=features), gamma=GAMMA)
    learned.save(tmp_path / "x")
    again = Learned.load(tmp_path / "x", features=features)
    assert np.array_equal(again.policy(short_log.states), learned.policy(short_log.states))
    with pytest.raises(SavedFileError, match=r"features of your own.*pass them again as features="):
        Learned.load(tmp_path / "x")


def test_features_of_another_size_are_refused(short_log, tmp_path):
    learn(short_log, method=method("fqi", features=Own()), gamma=GAMMA).save(tmp_path / "x")
    other = Own()
    other.size = 3
    with pytest.raises(SavedFileError, match=r"theta must have the shape \(\d+, 3\)"):
        Learned.load(tmp_path / "x", features=other)


def test_what_only_pickle_could_hold_is_not_saved(short_log, tmp_path):
    tree = method("fqi", model=DecisionTreeRegressor(), iterations=2)
    with pytest.raises(MethodError, match="RegressorCritics cannot be saved"):
        learn(short_log, method=tree, gamma=GAMMA).save(tmp_path / "x")
    own = Method(base=FQI(), partition=Split(3), aggregate=lambda values: values[0], at="pointwise")
    with pytest.raises(MethodError, match="function cannot be saved"):
        learn(short_log, method=own, gamma=GAMMA).save(tmp_path / "x")
    assert not list(tmp_path.iterdir())


# Files that are not what they should be.


def rewritten(path, *, header=None, arrays=None, drop=()):
    """Return a file with other content and a checksum that fits, as a forger would write it."""
    title, _, rest = path.read_bytes().split(b"\n", 2)
    inside = zipfile.ZipFile(io.BytesIO(rest))
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as archive:
        for name in inside.namelist():
            content = inside.read(name)
            if name == "header.json" and header is not None:
                found = json.loads(content)
                for path_to, forged in header.items():
                    *parents, last = path_to.split(".")
                    reduce(operator.getitem, parents, found["value"])[last] = forged
                content = json.dumps(found).encode()
            if name in (arrays or {}):
                content = arrays[name]
            if name not in drop:
                archive.writestr(name, content)
    digest = hashlib.sha256(made.getvalue()).hexdigest().encode()
    path.write_bytes(b"\n".join([title, digest, made.getvalue()]))
    return path


@pytest.mark.parametrize(
    ("version", "advice"), [(VERSION + 1, "Update tailproof"), (0, "that wrote it")]
)
def test_a_file_of_another_version_says_so(saved, version, advice):
    content = saved.read_bytes()
    title = f"tailproof {KIND} {VERSION}\n".encode()
    assert content.startswith(title)
    saved.write_bytes(f"tailproof {KIND} {version}\n".encode() + content[len(title) :])
    with pytest.raises(
        SavedFileError, match=f"has format {version}.*reads format {VERSION}.*{advice}"
    ):
        Learned.load(saved)


@settings(max_examples=40)
@given(st.floats(0, 1, exclude_max=True))
def test_a_truncated_file_is_refused_wherever_it_ends(tmp_path_factory, share):
    path = tmp_path_factory.mktemp("cut") / "x"
    content = _content(tmp_path_factory)
    path.write_bytes(content[: int(share * len(content))])
    with pytest.raises(SavedFileError, match=r"truncated or changed|is no learned policy"):
        Learned.load(path)


@settings(max_examples=40)
@given(st.integers(0, 10**6), st.integers(1, 255))
def test_a_changed_byte_is_noticed_wherever_it_is(tmp_path_factory, place, change):
    content = bytearray(_content(tmp_path_factory))
    content[place % len(content)] ^= change
    path = tmp_path_factory.mktemp("changed") / "x"
    path.write_bytes(bytes(content))
    with pytest.raises(SavedFileError):
        Learned.load(path)


_KEPT = {}


def _content(tmp_path_factory):
    if not _KEPT:
        path = tmp_path_factory.mktemp("whole") / "x"
        rng = np.random.default_rng(0)
        log = Log.from_arrays(
            rng.standard_normal((20, 1)),
            rng.integers(2, size=20),
            rng.standard_normal(20),
            rng.standard_normal((20, 1)),
            episode=np.repeat(np.arange(4), 5),
        )
        learn(log, method="fqi", gamma=GAMMA).save(path)
        _KEPT["content"] = path.read_bytes()
    return _KEPT["content"]


class Trap:
    """Running this would be noticed."""

    sprung = False

    def __reduce__(self):
        return (setattr, (Trap, "sprung", True))


def test_a_pickle_inside_is_never_run(saved):
    """A forged array of objects, with a checksum that fits: refused, and nothing executed."""
    forged = io.BytesIO()
    np.lib.format.write_array(forged, np.array([Trap()], dtype=object), allow_pickle=True)
    path = rewritten(saved, arrays={"array_0.npy": forged.getvalue()})
    with pytest.raises(SavedFileError, match="is no learned policy that tailproof wrote"):
        Learned.load(path)
    assert not Trap.sprung


def test_a_pickle_in_place_of_the_file_is_never_run(tmp_path):
    path = tmp_path / "x.pkl"
    path.write_bytes(pickle.dumps(Trap()))
    for read in (Learned.load, load_policy):
        with pytest.raises(SavedFileError):
            read(path)
    assert not Trap.sprung


@pytest.mark.parametrize(
    ("header", "text"),
    [
        ({"method": {"class": "os.system", "command": "true"}}, "names 'os.system', which this"),
        ({"critic.members.features": {"class": "Method"}}, "does not fit together: Method"),
        ({"method": {"class": "Split", "folds": 2, "other": 1}}, "'other' in Split, which this"),
        ({"method": {"class": "Split", "folds": "two"}}, "folds must be int"),
        ({"method": None}, "method must be Method"),
        ({"method.base.run": {"class": "Run"}}, "'run' in FQI, which this"),
        (
            {
                "critic.members.features": {
                    "class": "Joint",
                    "state_dimension": 2,
                    "action_dimension": 1,
                }
            },
            "theta must have the shape",
        ),
    ],
)
def test_a_forged_header_builds_nothing_but_settings(saved, header, text):
    with pytest.raises(SavedFileError, match=text):
        Learned.load(rewritten(saved, header=header))


ANYTHING = [None, 3, -1, 1e300, "text", [], {}, [[]], {"class": "tuple"}, {"class": ["a"]}, True]
ANYTHING += [{"class": "Split", "folds": "x"}, {"class": "Discrete", "n": 1e9}, [None] * 3]
ANYTHING += [{"array": "array_0"}, {"array": "none"}, {"array": []}, {"a": 1, "b": 2}]
KEYS = ["method", "critic", "action_space", "state_names", "gamma", "seed", "policy.critic"]
KEYS += ["policy.actions", "policy.critic.members.features", "policy.critic.members.theta"]
KEYS += ["policy", "policy.encoder", "n_transitions", "bad_folds", "reasons"]


@pytest.mark.parametrize("key", KEYS)
def test_whatever_a_header_says_the_error_is_one_of_ours(saved, key):
    whole = saved.read_bytes()
    for value in ANYTHING:
        saved.write_bytes(whole)
        try:
            policy = load_policy(rewritten(saved, header={key: value}))
        except TailproofError:
            continue
        assert set(policy(np.zeros((3, 4)))) <= {0, 1}


def test_deep_nesting_is_refused(saved):
    deep = []
    for _ in range(900):
        deep = [deep]
    with pytest.raises(SavedFileError):
        Learned.load(rewritten(saved, header={"method": deep}))


def test_missing_parts_are_named(saved):
    with pytest.raises(SavedFileError, match=r"does not fit together.*array_0"):
        Learned.load(rewritten(saved, drop=("array_0.npy",)))


def test_a_zip_without_a_header_is_refused(saved):
    with pytest.raises(SavedFileError, match="is no learned policy that tailproof wrote"):
        Learned.load(rewritten(saved, drop=("header.json",)))


def test_files_that_are_not_there_or_not_ours(tmp_path):
    with pytest.raises(SavedFileError, match="There is no file"):
        load_policy(tmp_path / "nothing.onnx")
    with pytest.raises(SavedFileError, match="cannot be read: No such file"):
        Learned.load(tmp_path / "nothing")
    (tmp_path / "other.csv").write_text("a,b\n1,2\n")
    with pytest.raises(SavedFileError, match=r"holds no policy that tailproof can read"):
        load_policy(tmp_path / "other.csv")
    with pytest.raises(SavedFileError, match=r"it starts with b'a,b'"):
        Learned.load(tmp_path / "other.csv")


def test_a_failed_save_leaves_the_old_file(saved, learned, monkeypatch):
    before = saved.read_bytes()
    monkeypatch.setattr("os.replace", _full_disk)
    with pytest.raises(StorageError, match="could not be written: the disk is full"):
        learned.with_aggregate(Mean()).save(saved)
    assert saved.read_bytes() == before
    assert [path.name for path in saved.parent.iterdir()] == [saved.name]


def _full_disk(*_):
    raise OSError("the disk is full")


def test_continuous_actions_have_no_softmax(learned):
    with pytest.raises(MethodError, match="This needs discrete actions"):
        replace(learned, action_space=Continuous(1)).epsilon_greedy(0.1)
    assert learned.with_aggregate(Median()).method == learned.method
