"""Results as blocks: Python's own numbers, in one sentence, a verdict and one line."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import Log, compare, evaluate, learn
from tailproof.doors.learned import ConstantAction
from tailproof.doors.verdict import Judged, upper_bound
from tailproof.errors import LevelError
from tailproof.policies.forms import Uniform
from tailproof.report.answers import (
    DecidedGain,
    ReadEstimate,
    ReadGain,
    comparison_answer,
    comparison_title,
    constant_text,
    estimate_answer,
    learned_answer,
    learned_by,
    pair_gains,
    pair_records,
    ranking_table,
)
from tailproof.report.blocks import Facts, Figure, Headline, Note, Section, Table, headline_of
from tailproof.report.terminal import as_text
from tailproof.report.text import Quantity, count, first_screen, number
from tailproof.worlds import CartPole


@pytest.fixture(scope="module", params=["auto", "roam-dm", "roam-fqe", "lstd"])
def estimate(request, heavy_log, cartpole):
    return evaluate(heavy_log, cartpole.target(), method=request.param, gamma=0.9)


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.6, 0.9, 0.99])
def test_what_is_quoted_is_what_python_gives(estimate, level):
    read = ReadEstimate(estimate, level)
    if read.ends is None:
        with pytest.raises(LevelError) as error:
            estimate.interval(level)
        assert read.interval == str(error.value)
    else:
        assert read.interval == estimate.interval(level)
        assert read.ends == (read.interval.low, read.interval.high)
    if read.gain.ends is None:
        with pytest.raises(LevelError):
            estimate.gain.lower_bound(level)
    else:
        low = estimate.gain.lower_bound(level).value
        assert read.gain.ends == (low, upper_bound(estimate.gain, level))


def test_the_first_screen_is_a_sentence_a_verdict_and_numbers(estimate):
    answer = estimate_answer(estimate, name="mine")
    headline, facts, *_ = first_screen(answer)
    assert isinstance(headline, Headline)
    assert headline.text.startswith("mine would earn about ")
    assert headline.verdict == str(estimate.verdict)
    assert isinstance(facts, Facts)
    assert facts.facts[0].value.startswith(number(estimate.value))
    assert facts.facts[1].value == number(estimate.logged_value)
    assert not any(isinstance(each, Figure | Section) for each in first_screen(answer))
    assert len(as_text(first_screen(answer)).splitlines()) <= 4


def test_nothing_is_said_twice(estimate):
    said = [line for line in as_text(estimate_answer(estimate)).splitlines() if len(line) > 40]
    assert len(said) == len(set(said))


def test_the_verdict_follows_from_the_bounds_that_are_shown(estimate):
    gain = ReadEstimate(estimate).gain
    if gain.ends is None:
        assert (gain.verdict.word, gain.verdict.reasons) == ("cannot tell", ("no_interval",))
        assert "cannot be told" in gain.sentence("it")
        return
    low, high = gain.ends
    wanted = "better" if low > 0 else "worse" if high < 0 else "no difference shown"
    assert gain.verdict.word == wanted


@given(
    st.floats(0.01, 1e6),
    st.floats(0.1, 0.9),
    st.floats(-1e3, 1e3),
    st.sampled_from(["reward", "minus"]),
)
def test_a_cost_reads_as_less_where_a_reward_reads_as_more(gain, share, reference, sign):
    quantity = Quantity.named("minus total_cost" if sign == "minus" else "revenue", per="row")
    found = DecidedGain(value=gain, reference=reference, bound=share * gain, level=0.9)
    read = ReadGain(Judged(gain=found, level=0.9), quantity, 0.9)
    word = "less" if sign == "minus" else "more"
    assert f" {word} per row than what was logged (" in read.sentence("it")
    assert f"at least {quantity.about(share * gain)}, 90 % confidence" in read.sentence("it")
    assert read.verdict.word == "better"
    assert read.nearest == pytest.approx(share * gain)


def test_costs_are_positive_in_every_number():
    rng = np.random.default_rng(0)
    actions = rng.integers(2, size=2000)
    costs = rng.lognormal(5, 1, 2000) * (1 - 0.3 * actions)
    log = Log.from_arrays(
        np.zeros(2000), actions, -costs, np.zeros(2000), episode=np.arange(2000),
        reward_name="minus total_cost_eur",
    )  # fmt: skip
    estimate = evaluate(log, "always:1")
    said = as_text(first_screen(estimate_answer(estimate, name="managed", times=1000)))
    assert said.startswith("managed would cost about ")
    assert " EUR less per row than what was logged (-" in said
    assert f"total cost {number(-estimate.value)} EUR per row" in said
    assert "Over 1,000 rows: about " in said
    assert "minus" not in said
    comparison = compare(log, {"managed": "always:1", "usual": "always:0"})
    table = ranking_table(comparison)
    assert [row[0] for row in table.rows] == ["managed", "logged policy", "usual"]
    assert all(float(row[1].replace(",", "")) > 0 for row in table.rows)
    assert [row[-1] for row in table.rows] == ["better", "", "worse"]


@pytest.mark.parametrize(
    ("name", "verb", "unit", "said"),
    [
        ("spend_eur", "earn", "EUR", "2 EUR more"),
        ("Revenue ($)", "earn", "$", "2 $ more"),
        ("reward", "earn", "", "2 more"),
        ("clicks", "have", "", "2 more clicks"),
        ("minus latency_ms", "have", "ms", "2 ms more latency"),
        ("minus total_cost", "cost", "", "2 more"),
        ("ms", "have", "", "2 more ms"),  # a name, not a unit
    ],
)
def test_a_column_s_name_tells_verb_and_unit(name, verb, unit, said):
    quantity = Quantity.named(name, per="row")
    assert (quantity.verb, quantity.unit, quantity.more(2.0)) == (verb, unit, said)


def bandit(shift=1.0, n=600, seed=1):
    rng = np.random.default_rng(seed)
    actions, states = rng.integers(2, size=n), rng.normal(size=n)
    rewards = shift * actions + rng.standard_t(3, n)
    return Log.from_arrays(states, actions, rewards, states, episode=np.arange(n))


@pytest.mark.slow
@pytest.mark.parametrize("at_least", [0.9, 1 - 1e-12])
def test_what_learn_decided_is_what_is_said(at_least):
    log = bandit()
    learned = learn(log, at_least=at_least)
    found = evaluate(learned.held_out, learned.policy)
    headline, *rest = learned_answer(learned, found)
    said = as_text(first_screen([headline, *rest]))
    assert headline.verdict == ("better" if learned.improves else "no difference shown")
    if learned.improves:
        judged = learned.judged
        assert f"about {number(judged.gain, 3)} more per row" in headline.text
        assert f"at least {number(judged.bound, 3)}" in headline.text
        assert number(judged.value) in said
    else:
        assert "more" not in headline.text
        assert number(learned.judged.logged_value) in said
    assert number(found.gain.value, 3) not in headline.text or learned.improves


def test_a_policy_that_nobody_judged_has_no_verdict():
    learned = learn(bandit(), method="fqi")
    headline = headline_of(learned.blocks())
    assert (headline.verdict, "not tested" in headline.text) == ("", True)


def test_a_named_method_is_judged_by_the_episodes_that_were_held_out(cartpole):
    learned = learn(
        cartpole.log(episodes=40, steps=30, seed=1), method="fqi", gamma=0.9, holdout=0.5
    )
    found = evaluate(learned.held_out, learned.policy, method="roam-dm", gamma=0.9)
    answer = learned_answer(learned, found)
    assert headline_of(answer).verdict == str(found.verdict)
    assert any("20 held-out episodes" in each.text for each in answer if isinstance(each, Note))


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


@pytest.mark.slow
def test_a_policy_has_no_second_value_as_the_best_constant():
    learned = learn(bandit(shift=2.0))
    read = ReadEstimate(evaluate(learned.held_out, learned.policy))
    assert learned_by(learned) == "Always 1, chosen from 600 rows."
    same, other = (ConstantAction(action, 0.5) for action in ("1", "0"))
    assert constant_text(same, learned, read) == ""
    assert "On 150 held-out rows alone" in constant_text(other, learned, read)
    assert constant_text(other, replace(learned, improves=False), read) == ""


def test_the_sentence_is_of_the_policy_that_is_shown_to_be_better():
    rng = np.random.default_rng(1)
    actions = rng.choice(3, p=[0.48, 0.48, 0.04], size=1500)
    rewards = np.array([0.0, 1.0, 5.0])[actions] + rng.normal(size=1500) * (1 + 20 * (actions == 2))
    log = Log.from_arrays(0 * rewards, actions, rewards, 0 * rewards, episode=np.arange(1500))
    comparison = compare(log, {"sure": "always:1", "wild": "always:2"})
    assert (comparison.best.name, comparison.proposed.name) == ("wild", "sure")
    answer = comparison_answer(comparison, pairs=True)
    assert headline_of(answer).text.startswith("sure would earn about ")
    said = as_text(first_screen(answer))
    assert "The value of wild is higher, but it is not shown to be better" in said
    assert comparison.verdict.word == "better"
    failing = replace(comparison, candidates=(comparison["wild"],))
    assert failing.verdict.word == "no difference shown"
    tables = [each for each in answer if isinstance(each, Table)]
    assert [row[0] for row in tables[0].rows] == ["wild", "sure", "logged policy"]
    assert [row[0] for row in tables[1].rows] == ["wild − sure"]


def test_pairs_are_the_differences_of_python_at_a_level_for_all():
    comparison = compare(bandit(), {"one": "always:1", "zero": "always:0", "both": "uniform"})
    found, records = pair_gains(comparison), pair_records(comparison)
    assert len(found) == len(records) == 3
    for (first, second), record in zip(found, records, strict=True):
        gain = comparison.difference(first, second).gain
        assert record["difference"] == gain.value
        own = gain.interval(1 - 0.1 / 3)
        assert (record["interval"]["low"], record["interval"]["high"]) == (own.low, own.high)


def test_a_comparison_of_one_policy_asks_about_it():
    world = CartPole()
    log = world.log(episodes=30, steps=20, seed=0)
    one = compare(log, {"new": world.target()}, gamma=0.9, method="lstd")
    assert comparison_title(one) == "Is new better than the logged policy?"
    two = compare(log, {"new": world.target(), "old": Uniform(2)}, gamma=0.9, method="lstd")
    assert comparison_title(two) == "Which of 2 policies is best?"
