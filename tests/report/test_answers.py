"""An estimate in words: Python's own interval and bound, or Python's reason why there is none."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import Log, compare, diagnose, evaluate, learn
from tailproof.doors.learned import ConstantAction
from tailproof.errors import LevelError
from tailproof.report.answers import (
    Answer,
    comparison_line,
    comparison_notes,
    constant_text,
    gain_of,
    learned_by,
    learned_line,
    with_share,
)
from tailproof.report.pages import Context, comparison_page, learning_page
from tailproof.report.text import count, number, signed


@pytest.fixture(scope="module", params=["auto", "roam-dm", "roam-fqe", "lstd"])
def estimate(request, heavy_log, cartpole):
    return evaluate(heavy_log, cartpole.target(), method=request.param, gamma=0.9)


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_what_is_quoted_is_what_python_gives(estimate, level):
    found = Answer(estimate, level)
    for ask, quoted in (
        (estimate.interval, found.interval),
        (estimate.lower_bound, found.bound),
        (estimate.gain.interval, found.gain_interval),
        (estimate.gain.lower_bound, found.gain_bound),
    ):
        try:
            assert quoted == ask(level)
        except LevelError:
            assert quoted is None


def test_the_first_line_has_value_unit_logged_value_and_gain(estimate):
    line = Answer(estimate).first_line()
    assert line.startswith(f"{number(estimate.value)} discounted reward per episode (γ 0.9")
    assert f"; logged {number(estimate.logged_value)}; gain {signed(estimate.gain.value)}" in line


def test_a_caveat_says_what_a_bound_is_for_or_why_there_is_none(estimate):
    found = Answer(estimate)
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
    found = Answer(evaluate(learned.held_out, learned.policy, method="roam-dm", gamma=0.9))
    better = found.gain_bound.value > 0
    line = learned_line(learned, found)
    assert line.startswith("Yes" if better else "No")
    assert f". By 20 held-out episodes: {found.first_line()}." in line
    assert learned_line(learned, None).startswith("Not judged")


@pytest.mark.slow
@pytest.mark.parametrize("at_least", [0.9, 1 - 1e-12])
def test_a_policy_that_learn_chose_has_one_gain_on_every_page_and_terminal(at_least):
    rng = np.random.default_rng(1)
    actions, states = rng.integers(2, size=600), rng.normal(size=600)
    rewards = actions + rng.standard_t(3, 600)
    log = Log.from_arrays(states, actions, rewards, states, episode=np.arange(600))
    learned = learn(log, at_least=at_least)
    found = Answer(evaluate(learned.held_out, learned.policy))
    line = learned_line(learned, found)
    diagnosis = diagnose(learned.held_out, learned.policy)
    page = learning_page(learned.held_out, learned, found, diagnosis, Context(source="log.csv"))
    assert line.startswith(page.verdict)
    assert page.headline in line
    assert found.gain() not in f"{line} {page.second} {page.second_note}"
    if learned.improves:
        assert line.count("gain") == 1
        assert f"gain {page.second}, above" in line
        assert number(learned.judged.value) == page.headline
    else:
        assert "gain" not in line
        assert page.second == ""
        assert number(learned.judged.logged_value) == page.headline
        assert f"{page.headline} {found.estimate.unit} by {learned.judged.episodes:,} ep" in line
        assert f"Logged value: {learned.judged.logged_value:.4g} by" in str(learned)
    held_out = learned.held_out.n_transitions
    rows, episodes = log.n_transitions, log.n_episodes
    assert page.subtitle.startswith(
        f"log.csv: {rows} rows, {episodes} episodes; {held_out} rows, {held_out} episodes held out"
    )


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


def test_a_policy_has_no_second_value_as_the_best_constant():
    rng = np.random.default_rng(1)
    actions, states = rng.integers(2, size=600), rng.normal(size=600)
    log = Log.from_arrays(
        states, actions, actions + rng.normal(size=600), states, episode=np.arange(600)
    )
    learned = learn(log)
    found = Answer(evaluate(learned.held_out, learned.policy))
    assert learned_by(learned) == "Always 1, chosen from 600 episodes"
    same, other = (ConstantAction(action, 0.5) for action in ("1", "0"))
    assert constant_text(same, learned, found) == ""
    own = number(found.estimate.value)
    assert constant_text(other, learned, found) == (
        f"0 0.5000 by 150 held-out rows, where this policy has {own}"
    )
    assert constant_text(other, replace(learned, improves=False), found) == ""


def test_the_first_line_is_of_the_policy_that_passes_the_gate():
    rng = np.random.default_rng(1)
    actions = rng.choice(3, p=[0.48, 0.48, 0.04], size=1500)
    rewards = np.array([0.0, 1.0, 5.0])[actions] + rng.normal(size=1500) * (1 + 20 * (actions == 2))
    log = Log.from_arrays(0 * rewards, actions, rewards, 0 * rewards, episode=np.arange(1500))
    comparison = compare(log, {"sure": "always:1", "wild": "always:2"})
    assert [each.name for each in comparison.candidates if each.passes] == ["sure"]
    assert (comparison.best.name, comparison.proposed.name) == ("wild", "sure")
    line = comparison_line(comparison)
    assert line.startswith(f"sure passes the gate: {number(comparison['sure'].value)} ")
    assert "passed by sure, and not by wild, whose value is the highest" in line
    page = comparison_page(log, comparison, diagnose(log), Context(source="log.csv"))
    assert (page.headline, page.mood) == ("sure", "good")
    assert page.second == gain_of(comparison["sure"])
    assert "best of 2 policies and the logged policy" in " ".join(comparison_notes(comparison))
    assert "sure" in comparison._repr_html_().split("</strong>")[0]
    failing = replace(comparison, candidates=(comparison["wild"],))
    assert comparison_line(failing).startswith("wild ranks first: ")
