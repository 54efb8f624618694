"""An end that no state foresees is said, by every front door and only where it is one."""

import warnings
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from tailproof import Log, compare, diagnose, evaluate, learn, method
from tailproof.errors import HorizonWarning, LogError
from tailproof.io import read_log, write_log
from tailproof.policies.forms import Uniform

EPISODES, STEPS = 60, 6
SAID = (
    r"^Every episode ends for good after 6 steps, and no state column tells the time: .*truncated"
)


def log_of(states, *, ends="terminated", length=STEPS):
    rng = np.random.default_rng(0)
    n = len(states)
    last = np.arange(n) % length == length - 1
    last[-1] = True
    return Log.from_arrays(
        states, rng.integers(2, size=n), rng.normal(size=n), states + 0.1,
        episode=np.arange(n) // length, **{ends: last},
    )  # fmt: skip


@pytest.fixture
def blind(rng):
    return log_of(rng.normal(size=(EPISODES * STEPS, 2)))


def test_every_door_says_it(blind):
    with pytest.warns(HorizonWarning, match=SAID):
        evaluate(blind, Uniform(2), method="lstd", gamma=0.9)
    with pytest.warns(HorizonWarning, match=SAID):
        learn(blind, method="fqi", gamma=0.9)
    with pytest.warns(HorizonWarning, match=SAID):
        compare(blind, {"any": Uniform(2)}, method="roam-dm", gamma=0.9)
    for policy in (None, Uniform(2)):
        with pytest.warns(HorizonWarning, match=SAID) as caught:
            diagnosis = diagnose(blind, policy, gamma=0.9)
        assert str(caught[0].message) == diagnosis.notes[0]


def test_a_log_on_disk_says_the_same(blind, tmp_path):
    lazy = read_log(write_log(blind, tmp_path / "log.parquet"), lazy=True)
    with pytest.warns(HorizonWarning, match=SAID):
        evaluate(lazy, Uniform(2), method="lstd", gamma=0.9)


def test_the_default_counts_the_steps_and_says_so(blind):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        estimate = evaluate(blind, Uniform(2), gamma=0.9)
    assert (
        "knows the step, as every episode ends for good after 6 steps" in estimate.choice.reasons[0]
    )
    with pytest.warns(HorizonWarning, match=SAID):
        evaluate(blind, Uniform(2), method=method("auto", features="polynomial"), gamma=0.9)


def test_what_is_to_come_does_not_matter_without_a_future(blind):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        evaluate(blind, Uniform(2), method="lstd", gamma=0.0)
    assert not caught


@pytest.mark.filterwarnings("ignore:overflow encountered:RuntimeWarning")
@pytest.mark.parametrize("scale", [1e80, 1e150, 1e300])
def test_states_whose_products_overflow_are_refused_by_name(scale, rng):
    states = scale * rng.standard_normal((200, 2))
    log = Log.from_arrays(
        states,
        rng.integers(2, size=200),
        rng.standard_normal(200),
        np.roll(states, -1, axis=0),
        episode=np.repeat(np.arange(40), 5),
    )

    def policy(states):
        return np.zeros(len(states))

    usual = replace(log, states=states / scale, next_states=np.roll(states, -1, axis=0) / scale)
    names = ("lstd", "mis", "dr", "fqe", "roam-dm", "roam-fqe")
    asks = [
        *(partial(evaluate, log, policy, method=method(each, ridge=1e-6)) for each in names),
        *(partial(learn, log, method=each) for each in ("fqi", "room-fqi", "room-vm")),
        partial(compare, log, {"a": policy}, method=method("roam-dm", ridge=1e-6)),
    ]
    if scale > 1e154:  # of the features themselves, not of their products with one another
        asks += [partial(evaluate, log, policy, method=each) for each in names]
    else:
        for name in names:  # their default ridge knows no units
            expected = evaluate(usual, policy, method=name, gamma=0.9).value
            found = evaluate(log, policy, method=name, gamma=0.9).value
            assert found == pytest.approx(expected, rel=1e-8)
    for ask in asks:
        with pytest.raises(LogError, match=r"so large that products of the features overflow"):
            ask(gamma=0.9)
    expected = evaluate(usual, policy, gamma=0.9).value  # the default knows no units
    assert evaluate(log, policy, gamma=0.9).value == pytest.approx(expected, abs=1e-6)
    found, like = (diagnose(each, policy, gamma=0.9).overlap for each in (log, usual))
    assert found.leverage == pytest.approx(like.leverage, rel=1e-6)
