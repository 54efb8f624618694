"""The stopping rule against the released program, written plainly, and its limiting cases."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.linear_model import Ridge

from reproduction.released import TOLERANCE, Program
from tailproof import FQE, FQI, Bootstrap, Median, Quantile, Split, Whole
from tailproof.critics.penalties import Absolute
from tailproof.critics.task import Task
from tailproof.errors import MethodError
from tailproof.noise import StudentT
from tailproof.worlds import CartPole

GAMMA = 0.99
WORLD = CartPole()


@pytest.fixture(scope="module", params=[1.0, 2.0, None], ids="df={}".format)
def log(request):
    noise = None if request.param is None else StudentT(df=request.param)
    return WORLD.log(30, 50, epsilon=0.2, noise=noise, seed=3)


def fitted(base, log, partition, backup=None, *, policy=None):
    folds = partition.assign(log, np.random.default_rng(1))
    task = Task(log, GAMMA, policy, log.first_states)
    found = base.fit(task, folds, backup=backup, rng=np.random.default_rng(0))
    return found, [log.rows(folds.episodes(k)) for k in range(folds.count)]


def iterations_of(found):
    return (found.history > 0).sum(axis=0)


@pytest.mark.parametrize("partition", [Whole(), Split(5)], ids=str)
@pytest.mark.parametrize("backup", [None, Median(), Quantile(0.1)], ids=str)
@pytest.mark.parametrize("in_turn", [False, True])
def test_fqi_stops_where_the_released_program_stops(log, partition, backup, in_turn):
    base = FQI(ridge=Absolute(20.0), tolerance=TOLERANCE, in_turn=in_turn)
    found, rows = fitted(base, log, partition, backup)
    program = Program(20.0, GAMMA, aggregate=backup, in_turn=in_turn)
    weights, iterations = program.fit(log, rows)
    assert iterations_of(found).tolist() == iterations.tolist()
    assert found.critics.theta == pytest.approx(weights.reshape(len(rows), -1), rel=1e-7, abs=1e-8)


@pytest.mark.parametrize("partition", [Whole(), Split(5)], ids=str)
@pytest.mark.parametrize("backup", [None, Median()], ids=str)
@pytest.mark.parametrize("in_turn", [False, True])
def test_fqe_stops_where_the_released_program_stops(log, partition, backup, in_turn):
    policy = WORLD.target()
    base = FQE(ridge=Absolute(0.01), tolerance=TOLERANCE, in_turn=in_turn)
    found, rows = fitted(base, log, partition, backup, policy=policy)
    chosen = policy(log.next_states)
    program = Program(0.01, GAMMA, aggregate=backup, in_turn=in_turn)
    weights, iterations = program.fit(log, rows, chosen)
    assert iterations_of(found).tolist() == iterations.tolist()
    assert found.critics.theta == pytest.approx(weights.reshape(len(rows), -1), rel=1e-5, abs=1e-6)


@pytest.mark.parametrize(
    "base",
    [FQE(), FQI(), FQE(in_turn=True), FQI(in_turn=True)],
    ids=["fqe", "fqi", "fqe in turn", "fqi in turn"],
)
@pytest.mark.parametrize("backup", [None, Median()], ids=str)
@pytest.mark.parametrize("partition", [Split(3), Bootstrap(3)], ids=str)
def test_a_tiny_tolerance_never_stops_and_a_huge_one_stops_at_once(log, base, backup, partition):
    policy = WORLD.target() if isinstance(base, FQE) else None

    def theta(**changes):
        given = replace(base, **{"iterations": 12, **changes})
        return fitted(given, log, partition, backup, policy=policy)[0].critics.theta

    assert theta(tolerance=1e-300) == pytest.approx(theta(), rel=1e-6, abs=1e-6)
    assert theta(tolerance=1e9) == pytest.approx(theta(iterations=1), rel=1e-9, abs=1e-9)


def test_members_that_are_fitted_apart_stop_apart(log):
    base = FQI(tolerance=0.02)
    found, rows = fitted(base, log, Split(3))
    for k, own in enumerate(rows):
        _, (count,) = Program(0.0025 * len(own), GAMMA, tolerance=0.02).fit(log, [own])
        assert iterations_of(found)[k] == count


@pytest.mark.parametrize("in_turn", [False, True])
def test_regressors_stop_by_the_same_rule(log, in_turn):
    """At `backup` all folds stop together: as if that many iterations had been asked for."""
    model = Ridge(alpha=1.0)
    stopped, _ = fitted(FQI(model=model, tolerance=0.05, in_turn=in_turn), log, Split(3), Median())
    count = len(stopped.history)
    assert count < 100
    again, _ = fitted(FQI(model=model, iterations=count, in_turn=in_turn), log, Split(3), Median())
    values = stopped.critics.values(log.states, log.actions)
    np.testing.assert_array_equal(values, again.critics.values(log.states, log.actions))


def test_regressors_that_are_fitted_apart_stop_apart(log):
    base = FQI(model=Ridge(alpha=1.0), tolerance=0.05)
    folds = Split(3).assign(log, np.random.default_rng(1))
    together, _ = fitted(base, log, Split(3))
    for k, values in enumerate(together.critics.values(log.states, log.actions)):
        alone, _ = fitted(base, folds.log(log, k), Whole())
        np.testing.assert_array_equal(values, alone.critics.values(log.states, log.actions)[0])


def test_noise_can_stop_the_rule_earlier():
    """Of a small log with much exploration; on the paper's logs it stops later (reproduction.md)."""
    counts = []
    for scale in (0.0, 1.0, 10.0, 100.0):
        clean = WORLD.log(30, 50, epsilon=0.2, seed=3)
        noise = scale * np.random.default_rng(5).standard_cauchy(clean.n_transitions)
        base = FQI(ridge=Absolute(20.0), tolerance=TOLERANCE)
        found, _ = fitted(base, clean.with_rewards(clean.rewards + noise), Whole())
        counts.append(int(iterations_of(found)[0]))
    assert counts == sorted(counts, reverse=True)
    assert counts[-1] < counts[0]


def test_folds_in_turn_and_at_once_have_the_same_fixed_point():
    log = WORLD.log(30, 50, epsilon=0.2, noise=StudentT(df=2.0), seed=3)
    folds = Split(3).assign(log, np.random.default_rng(1))
    task = Task(log, 0.9, WORLD.target(), log.first_states)
    first, second = (
        FQE(ridge=1e-3, in_turn=each, iterations=300)
        .fit(task, folds, backup=Median(), rng=np.random.default_rng(0))
        .critics.theta
        for each in (True, False)
    )
    assert first == pytest.approx(second, rel=1e-6, abs=1e-6)


def test_a_huber_loss_has_no_rule_and_no_turns():
    with pytest.raises(MethodError, match="tolerance"):
        FQI(huber=1.345, tolerance=0.01)
    with pytest.raises(MethodError, match="in_turn"):
        FQI(huber=1.345, in_turn=True)


@pytest.mark.parametrize("tolerance", [0.0, -1.0, np.nan, np.inf])
def test_a_tolerance_must_be_positive(tolerance):
    with pytest.raises(MethodError, match="tolerance"):
        FQE(tolerance=tolerance)
