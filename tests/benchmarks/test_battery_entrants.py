import numpy as np
import pytest

from benchmarks.battery.cells import NOISES, Problem, ground
from benchmarks.battery.entrants import (
    HuberThenLSTD,
    Named,
    Reply,
    default_entrants,
    entrant_named,
    reply_of,
    storage_entrants,
)
from tailproof.doors.evaluate import evaluate
from tailproof.errors import MethodError
from tailproof.methods.catalogue import method


@pytest.fixture(scope="module")
def problem():
    clean = ground("linear", "fair").problem(20, np.random.default_rng(1))
    noisy = NOISES["t, df 2.5"].put_on(clean.log, np.random.SeedSequence(2))
    return Problem(noisy, clean.policy, clean.gamma)


def test_every_default_entrant_answers(problem):
    for name, entrant in {**default_entrants(), **storage_entrants()}.items():
        reply = reply_of(entrant, problem, seed=0)
        assert not reply.failure, name
        assert abs(reply.value - ground("linear", "fair").truth) < 20


def test_a_named_entrant_is_evaluate(problem):
    expected = evaluate(
        problem.log,
        problem.policy,
        method="roam-dm",
        gamma=problem.gamma,
        seed=4,
    )
    reply = reply_of(Named(method("roam-dm")), problem, seed=4)
    assert reply.value == expected.value
    interval = expected.interval(0.9)
    assert reply.intervals == {0.9: (interval.low, interval.high)}  # five folds reach no 95 %


def test_members_that_depend_on_each_other_give_no_interval(problem):
    assert reply_of(Named(method("roam-fqe", iterations=5)), problem, seed=0).intervals == {}


def test_huber_rewards_ignore_one_wild_reward(problem):
    rewards = problem.log.rewards.copy()
    rewards[7] = 1e9
    wild = Problem(problem.log.with_rewards(rewards), problem.policy, problem.gamma)
    calm, spoiled = (reply_of(HuberThenLSTD(), each, seed=0).value for each in (problem, wild))
    assert spoiled == pytest.approx(calm, abs=0.2)


def test_readings_pass_and_other_answers_are_refused(problem):
    given = Reply(1.0, {0.9: (0.0, 2.0)})
    assert reply_of(lambda problem, *, seed: given, problem, seed=0) is given
    assert reply_of(lambda problem, *, seed: np.float64(2.5), problem, seed=0).value == 2.5
    with pytest.raises(MethodError, match=r"must return a number.*Got dict"):
        reply_of(lambda problem, *, seed: {}, problem, seed=0)


def test_a_failure_is_a_reading_that_says_so(problem):
    def broken(problem, *, seed):
        raise KeyError("x")

    reply = reply_of(broken, problem, seed=0)
    assert np.isnan(reply.value)
    assert reply.failure == "KeyError: 'x'"


def test_entrants_by_name_and_from_a_file(tmp_path, problem):
    name, entrant = entrant_named("roam-mis")
    assert name == "roam-mis"
    assert np.isfinite(reply_of(entrant, problem, seed=0).value)
    path = tmp_path / "mine.py"
    path.write_text("def guess(problem, *, seed):\n    return 42.0\nnumber = 3\n")
    name, entrant = entrant_named(f"{path}:guess")
    assert (name, reply_of(entrant, problem, seed=0).value) == ("guess", 42.0)
    with pytest.raises(MethodError, match="has no function 'number'"):
        entrant_named(f"{path}:number")
    with pytest.raises(MethodError, match="There is no method 'raom-dm'"):
        entrant_named("raom-dm")
    with pytest.raises(MethodError, match="could not be imported"):
        entrant_named(f"{tmp_path / 'absent.py'}:guess")
