"""An estimate in words: Python's own interval and bound, or Python's reason why there is none."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import evaluate, learn
from tailproof.errors import LevelError
from tailproof.learning.constants import ConstantAction
from tailproof.report.answers import answer, learned_line, with_share
from tailproof.report.text import count, number, signed


@pytest.fixture(scope="module", params=["auto", "roam-dm", "roam-fqe", "lstd"])
def estimate(request, heavy_log, cartpole):
    return evaluate(heavy_log, cartpole.target(), method=request.param, gamma=0.9)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_what_is_quoted_is_what_python_gives(estimate, level):
    found = answer(estimate, level=level)
    for ask, quoted in (
        (estimate.interval, found.interval),
        (estimate.gain.interval, found.gain_interval),
    ):
        try:
            ends = ask(level)
        except LevelError:
            assert quoted is None
        else:
            assert (quoted.low, quoted.high, quoted.level) == (ends.low, ends.high, ends.level)
    for ask, quoted in (
        (estimate.lower_bound, found.bound),
        (estimate.gain.lower_bound, found.gain_bound),
    ):
        try:
            bound = ask(level)
        except LevelError:
            assert quoted is None
        else:
            assert (quoted.low, quoted.level) == (bound.value, bound.level)


def test_the_first_line_has_value_unit_logged_value_and_gain(estimate):
    line = answer(estimate).first_line()
    assert line.startswith(f"{number(estimate.value)} discounted reward per episode (γ 0.9")
    assert f"; logged {number(estimate.logged_value)}; gain {signed(estimate.gain.value)}" in line


def test_a_caveat_says_what_a_bound_is_for_or_why_there_is_none(estimate):
    found = answer(estimate)
    said = " ".join(found.caveats())
    if found.interval is None:
        with pytest.raises(LevelError) as error:
            estimate.interval(0.9)
        assert said == str(error.value)
    else:
        assert estimate.interval(0.9).note in said
        assert estimate.lower_bound(0.9).note in said


def test_what_the_policy_does_is_said(estimate):
    line = str(estimate.on_log)
    shares = estimate.on_log.shares
    most = max(shares, key=shares.get)
    assert line.startswith(f"{most} {100 * shares[most]:.0f} %")
    assert "agrees with the log in" in line


def test_a_learned_policy_that_is_not_better_is_a_no(cartpole):
    log = cartpole.log(episodes=40, steps=30, seed=1)
    learned = learn(log, method="fqi", gamma=0.9, holdout=0.5)
    found = answer(evaluate(learned.held_out, learned.policy, method="roam-dm", gamma=0.9))
    better = found.gain_bound.low > 0
    line = learned_line(learned, found, ConstantAction("1", 3.25))
    assert line.startswith("Yes" if better else "No")
    assert "; best constant 1 3.250." in line
    assert learned_line(learned, None).startswith("Not judged")


@given(st.floats(-1e9, 1e9), st.floats(-10, 10) | st.just(math.nan))
def test_a_gain_has_its_sign_and_its_share(value, relative):
    text = with_share(value, relative)
    assert text.startswith("-" if value < 0 else "+" if value > 0 else "0")
    assert ("%" in text) == math.isfinite(relative)


@pytest.mark.parametrize(
    ("amount", "noun", "text"),
    [
        (51, "block of 1001 episodes", "51 blocks of 1001 episodes"),
        (1, "policy", "1 policy"),
        (0, "row", "0 rows"),
    ],
)
def test_plurals(amount, noun, text):
    assert count(amount, noun) == text
