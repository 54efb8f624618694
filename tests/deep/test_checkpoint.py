"""Checkpoints: whole or not there, checked when read, and training continues to the same bits."""

import errno
import os
import resource
import signal
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch

from tailproof import Mean, Median, Quantile, Replicate, Split
from tailproof import checkpoint as progress
from tailproof.deep import IQL, SAC, History, Run
from tailproof.deep.checkpoint import CheckpointError, CheckpointWarning, latest, save

#: What these tests train has no time to converge, and need not.
pytestmark = pytest.mark.filterwarnings("ignore::tailproof.errors.ConvergenceWarning")

SMALL = {"hidden": (16, 16), "batch": 32, "steps": 60}
RUN = Run(threads=1, log_every=10, checkpoint_every=10)


class StopError(Exception):
    pass


class Stopper:
    """A logger that ends the process's work in the middle."""

    def __init__(self, after):
        self.after = after

    def start(self, phase, history):
        pass

    def write(self, step, measured):  # noqa: ARG002
        if step >= self.after:
            raise StopError

    def close(self):
        pass


def tensors(value=1.0):
    return {"a": torch.full((3,), value), "b": torch.arange(4)}


def train(task, base, partition, backup, **run):
    folds = partition.assign(task.log, np.random.default_rng(0))
    base = replace(base, run=replace(RUN, **run))
    return base.fit(task, folds, backup=backup, rng=np.random.default_rng(1))


@pytest.mark.parametrize(
    ("base", "partition", "backup"),
    [
        (IQL(policy_steps=1, **SMALL), Split(3), None),
        (SAC(**SMALL), Replicate(3), Quantile(0.0)),
    ],
    ids=["iql", "sac"],
)
def test_an_interrupted_run_ends_in_the_same_bits(task, tmp_path, base, partition, backup):
    whole = train(task, base, partition, backup)
    for after in (20, 30, 50):
        with pytest.raises(StopError):
            train(task, base, partition, backup, checkpoint=tmp_path, loggers=(Stopper(after),))
    resumed = train(task, base, partition, backup, checkpoint=tmp_path)
    assert torch.equal(whole.critics.q.flat, resumed.critics.q.flat)
    for name, series in whole.training.series.items():
        np.testing.assert_array_equal(series.values, resumed.training[name].values)
        np.testing.assert_array_equal(series.steps, resumed.training[name].steps)
    if whole.policy is not None:
        assert torch.equal(whole.policy.stack.flat, resumed.policy.stack.flat)


def test_a_finished_run_is_loaded_not_trained(task, tmp_path, monkeypatch):
    base = IQL(policy_steps=1, **SMALL)
    first = train(task, base, Split(3), None, checkpoint=tmp_path)
    monkeypatch.setattr("tailproof.deep.learners.ImplicitLearner.update", None)
    again = train(task, base, Split(3), None, checkpoint=tmp_path)
    assert torch.equal(first.critics.q.flat, again.critics.q.flat)


def test_critics_saved_once_serve_several_aggregates(task, tmp_path, monkeypatch):
    base = IQL(policy_steps=20, run=replace(RUN, checkpoint=tmp_path), **SMALL)
    fitted = train(task, base, Split(3), None, checkpoint=tmp_path)

    def policy(aggregate):
        return base.extract(
            task, fitted, aggregate=aggregate, rng=np.random.default_rng(3)
        ).policy.stack.flat

    median, mean = policy(Median()), policy(Mean())
    assert not torch.equal(median, mean)
    monkeypatch.setattr("tailproof.deep.learners.ImitationLearner.update", None)
    assert torch.equal(policy(Median()), median)
    assert torch.equal(policy(Mean()), mean)


@pytest.mark.parametrize("change", ["settings", "seed", "data"])
def test_another_runs_checkpoint_is_refused(task, tmp_path, change):
    base = IQL(policy_steps=1, **SMALL)
    train(task, base, Split(3), None, checkpoint=tmp_path)
    if change == "settings":
        base = replace(base, expectile=0.8)
    if change == "data":
        task = replace(task, log=task.log.with_rewards(2 * task.log.rewards))
        base = replace(base, reward_scale=1.0)
    seed = 2 if change == "seed" else 1
    folds = Split(3).assign(task.log, np.random.default_rng(0))
    base = replace(base, run=replace(RUN, checkpoint=tmp_path))
    with pytest.raises(CheckpointError, match="other data, settings or seed"):
        base.fit(task, folds, backup=None, rng=np.random.default_rng(seed))


def test_two_checkpoints_are_kept_and_the_newest_is_read(tmp_path):
    for step in (10, 20, 30):
        assert save(tmp_path, step, tensors(step), History(), fingerprint="f")
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        f"step-{step:010d}" for step in (20, 30)
    ]
    step, found, _ = latest(tmp_path, fingerprint="f")
    assert step == 30
    assert torch.equal(found["a"], tensors(30)["a"])
    assert latest(tmp_path / "nothing", fingerprint="f") is None


def change_a_byte(path):
    content = bytearray(path.read_bytes())
    content[-200] ^= 1
    path.write_bytes(content)


def cut_off(path):
    path.write_bytes(path.read_bytes()[:-5])


def empty(path):
    path.write_bytes(b"")


def earlier_version(path):
    path.write_bytes(path.read_bytes().replace(b"checkpoint 3", b"checkpoint 1", 1))


@pytest.mark.parametrize("harm", [change_a_byte, cut_off, empty, earlier_version])
def test_a_damaged_checkpoint_is_named_and_the_one_before_is_used(tmp_path, harm):
    for step in (10, 20):
        save(tmp_path, step, tensors(step), History(), fingerprint="f")
    harm(tmp_path / "step-0000000020")
    with pytest.warns(CheckpointWarning, match="step-0000000020"):
        assert latest(tmp_path, fingerprint="f")[0] == 10
    empty(tmp_path / "step-0000000010")
    with (
        pytest.warns(CheckpointWarning),
        pytest.raises(CheckpointError, match=r"None of the 2 checkpoints .* Delete the folder"),
    ):
        latest(tmp_path, fingerprint="f")


def test_a_full_disk_is_a_warning_and_loses_nothing(task, tmp_path, monkeypatch):
    base = IQL(policy_steps=1, **SMALL)
    whole = train(task, base, Split(3), None)
    real = progress.write_value
    written = 0

    def full(path, *content):
        nonlocal written
        written += 1
        if written > 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        real(path, *content)

    monkeypatch.setattr(progress, "write_value", full)
    with pytest.warns(CheckpointWarning, match="No space left on device.*Free some space"):
        fitted = train(task, base, Split(3), None, checkpoint=tmp_path)
    assert torch.equal(fitted.critics.q.flat, whole.critics.q.flat)
    assert len(list((tmp_path / "critics").iterdir())) == 2


def test_a_file_that_cannot_be_written_leaves_no_part(tmp_path):
    """The operating system itself refuses here: in a child whose files may not exceed 1,000 bytes."""
    assert save(tmp_path, 1, tensors(), History(), fingerprint="f")
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (1000, 1000))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            saved = save(tmp_path, 2, {"a": torch.zeros(10_000)}, History(), fingerprint="f")
        os._exit(0 if not saved and "File too large" in str(caught[0].message) else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    assert latest(tmp_path, fingerprint="f")[0] == 1
    assert len(list(tmp_path.iterdir())) == 1


KILLED = """
import os, random, signal, sys
from pathlib import Path
import numpy as np
from dataclasses import replace
sys.path.insert(0, sys.argv[1])
from conftest import make_log
from tailproof import Split, files
from tailproof.critics.task import Task
from tailproof.deep import IQL, Run
from tailproof.deep.fitting import fit_critics

log = make_log()
task = Task(log, 0.5, None, log.first_states)
folds = Split(3).assign(log, np.random.default_rng(0))
base = IQL(steps=120, policy_steps=1, hidden=(16, 16), batch=32,
           run=Run(threads=1, log_every=10, checkpoint_every=3))


def train(folder=None):
    run = replace(base.run, checkpoint=folder)
    return fit_critics(replace(base, run=run), task, folds, backup=None, seeds=[1, 2, 3])


class Lines:
    # Counts the lines of tailproof (or of one of its files) that are run, and kills the process
    # at one of them.
    def __init__(self, within, last=None):
        self.within, self.last, self.count = within, last, 0

    def __call__(self, frame, event, value):
        if event == "call":
            return self if self.within in frame.f_code.co_filename else None
        self.count += event == "line"
        if self.count == self.last:
            os.kill(os.getpid(), signal.SIGKILL)
        return self


def child(lines, folder):
    # Train in a process of its own; return whether it was killed, and how many lines it ran.
    ours, theirs = os.pipe()
    pid = os.fork()
    if pid == 0:
        sys.settrace(lines)
        train(folder)
        os.write(theirs, str(lines.count).encode())
        os._exit(0)
    os.close(theirs)
    with open(ours) as pipe:
        told = pipe.read()
    status = os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])
    assert status == (0 if told else -signal.SIGKILL), status
    return int(told) if told else None


folder, chosen = Path(sys.argv[2]), random.Random(int(sys.argv[3]))
# Lives end anywhere in training, and in turn while a checkpoint is written.
places = (os.path.join("tailproof", ""), files.__file__)
whole_lives = [child(Lines(place), folder / f"whole {i}") for i, place in enumerate(places)]
assert min(whole_lives) > 100
kills = 0
while True:
    # At most a quarter of the whole, so that there are at least three kills.
    last = chosen.randint(1, whole_lives[kills % 2] // 4)
    if child(Lines(places[kills % 2], last), folder / "killed") is not None:
        break
    kills += 1
resumed = train(folder / "killed")
whole = train()
assert (resumed.critics.q.flat == whole.critics.q.flat).all()
assert (resumed.critics.v.flat == whole.critics.v.flat).all()
for name, series in whole.training.series.items():
    np.testing.assert_array_equal(series.values, resumed.training[name].values)
print(kills)
"""


def test_killed_at_random_lines_training_ends_in_the_same_bits(tmp_path):
    here, seed = str(Path(__file__).parent), "2"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", KILLED, here, str(tmp_path), seed],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"seed {seed}: {done.stderr}"
    assert int(done.stdout) >= 3
