"""Features in blocks and in full must agree with each other and with the obvious sums."""

from dataclasses import dataclass

import numpy as np
import pytest

from tailproof import FQI, Bootstrap, Log, Median, PerAction, Polynomial, Replicate, Split, Whole
from tailproof.critics import linear as layout
from tailproof.critics.fitted_q import GreedyBackup, logged_actions
from tailproof.critics.linear import Design
from tailproof.critics.lstd import _crossed
from tailproof.critics.task import Task
from tailproof.features import Blocks, Dense, at_actions
from tailproof.log.folds import OutOfBag

PARTITIONS = [Whole(), Split(3), Bootstrap(3), Replicate(2), OutOfBag(3)]


@dataclass(frozen=True)
class Disguised:
    """PerAction features that do not say so."""

    inner: PerAction

    @property
    def size(self):
        return self.inner.size

    def __call__(self, states, actions):
        return self.inner(states, actions)


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(5)
    n, lengths = 120, np.array([7, 13, 20, 5, 25, 10, 30, 10])
    states = rng.standard_normal((n, 2))
    ends = np.cumsum(lengths) - 1
    terminated = np.zeros(n, dtype=bool)
    terminated[ends[::2]] = True
    return Log.from_arrays(
        states,
        rng.integers(3, size=n),
        rng.standard_t(2, size=n),
        rng.standard_normal((n, 2)),
        episode=np.repeat(np.arange(8), lengths),
        terminated=terminated,
    )


@pytest.fixture(params=PARTITIONS, ids=str)
def parts(request, log):
    """Return task, features, folds and, for each member, the rows it sees with their counts."""
    task = Task(log, 0.9, None, log.first_states)
    features = PerAction(Polynomial(), 2, 3)
    folds = request.param.assign(log, np.random.default_rng(1))
    rows = [log.rows(folds.episodes(k)) for k in range(folds.count)]
    return task, features, folds, rows


def test_layouts_agree_with_plain_sums(parts, rng):
    task, features, folds, rows = parts
    log = task.log
    theta = rng.standard_normal((folds.count, features.size))
    every = np.broadcast_to(np.arange(3), (log.n_transitions, 3))
    q_next = at_actions(features, log.next_states, every).values(theta)  # (K, A, n)
    phi = features(log.states, log.actions)
    backup = GreedyBackup(actions=np.arange(3))
    for chosen, kind in ((features, Blocks), (Disguised(features), Dense)):
        design = Design(task, chosen, folds, keep=True)
        (laid,) = design
        assert isinstance(laid.after, kind)
        moments, fitted = np.zeros_like(theta), np.zeros_like(theta)
        for segment, values in backup(laid, theta):
            laid.add_moment(moments, segment, values)
            laid.add_moment(fitted, segment, laid.values(segment, theta[segment.member]))
        (part,) = log.parts
        taken = _crossed(backup, theta, design, part)
        stats = design.statistics
        for k, own in enumerate(rows):
            alive = ~log.terminated[own]
            best = q_next[k][:, own].max(axis=0) * alive
            assert moments[k] == pytest.approx(best @ phi[own])
            choice = q_next[k][:, own].argmax(axis=0)
            after = features(log.next_states[own], choice) * alive[:, None]
            assert taken[k] == pytest.approx(phi[own].T @ after)
            assert fitted[k] == pytest.approx((phi[own] @ theta[k]) @ phi[own])
            assert stats.gram[k] == pytest.approx(phi[own].T @ phi[own])
            assert stats.moment[k] == pytest.approx(log.rewards[own] @ phi[own])
            assert stats.count[k] == len(own)


@pytest.mark.parametrize("first", [True, False])
def test_the_aggregate_in_the_target_is_that_of_all_members(parts, first, rng):
    task, features, folds, rows = parts
    theta = rng.standard_normal((folds.count, features.size))
    every = np.broadcast_to(np.arange(3), (task.log.n_transitions, 3))
    q_next = at_actions(features, task.log.next_states, every).values(theta)
    shared = Median()(q_next).max(axis=0) if first else Median()(q_next.max(axis=1))
    shared = shared * ~task.log.terminated
    phi = features(task.log.states, task.log.actions)
    for chosen in (features, Disguised(features)):
        (laid,) = Design(task, chosen, folds, keep=True)
        moments = np.zeros_like(theta)
        for segment, values in GreedyBackup(
            actions=np.arange(3), aggregate=Median(), aggregate_first=first
        )(laid, theta):
            laid.add_moment(moments, segment, values)
        for k, own in enumerate(rows):
            assert moments[k] == pytest.approx(shared[own] @ phi[own])


@pytest.mark.parametrize("huber", [None, 1.345])
@pytest.mark.parametrize("backup", [None, Median()], ids=str)
def test_chunks_of_a_large_log_give_the_same_critics(parts, backup, huber, monkeypatch):
    task, features, folds, _ = parts
    base = FQI(features=features, iterations=15, huber=huber)

    def theta():
        rng = np.random.default_rng(0)
        return base.fit(task, folds, backup=backup, rng=rng).critics.theta

    whole = theta()
    monkeypatch.setattr(layout, "_KEPT", 0)
    chunks = Log.chunks
    monkeypatch.setattr(
        Log, "chunks", lambda log, part, *_, **asked: chunks(log, part, 17, **asked)
    )
    assert theta() == pytest.approx(whole, rel=1e-9)


def test_logged_actions(log):
    assert logged_actions(log).tolist() == [0, 1, 2]
