"""Gains of one-step logs: how often × how large, pooled sizes, and rows of the catalogue."""

import numpy as np
import pytest
from numpy.testing import assert_allclose

from tailproof import Always, Log, compare, diagnose, evaluate, method
from tailproof.errors import LevelError, MethodError
from tailproof.estimators.one_step import evaluate_rows
from tailproof.means import TailPooled
from tailproof.profile.one_step import OneStepRows
from tailproof.report.answers import estimate_answer
from tailproof.report.plots import on_page
from tailproof.report.terminal import as_text


def shop(seed, n=3_000, *, cost=0.0, sign=1, **options):
    """Return a log of a coin's offers: 14.5 % buy instead of 10 %, sizes are Pareto."""
    rng = np.random.default_rng(seed)
    states, offer = rng.standard_normal((n, 1)), rng.integers(2, size=n)
    buys = rng.random(n) < np.where(offer == 1, 0.145, 0.1)
    spend = sign * buys * 25 * (1 + rng.pareto(1.7, n)) - cost * offer
    return Log.from_arrays(
        states, offer, spend, states, episode=np.arange(n), terminated=np.ones(n, bool),
        propensity=np.full(n, 0.5), action_space=2, **options,
    )  # fmt: skip


@pytest.fixture(scope="module")
def estimate():
    return evaluate(shop(1), Always(1))


def test_the_parts_of_an_answer_add_up(estimate):
    gain, parts = estimate.gain, estimate.gain.parts
    assert parts.usual + parts.often.gain + parts.size.gain == pytest.approx(gain.value)
    assert parts.often.policy * parts.size.policy == pytest.approx(estimate.value)
    assert parts.often.relative_interval().low > 0
    found = estimate.to_dict()["gain"]["parts"]
    assert found["often"]["relative"] == pytest.approx(parts.often.relative)


def test_what_an_action_costs_is_a_part_of_its_own():
    parts = evaluate(shop(2, cost=1.5), Always(1)).gain.parts
    assert parts.usual == pytest.approx(-1.5 / 2, rel=0.05)


def test_costs_have_the_same_parts_as_rewards():
    up, down = (evaluate(shop(3, sign=sign), Always(1)).gain for sign in (1, -1))
    assert down.parts.often.relative == pytest.approx(up.parts.often.relative, rel=1e-6)
    assert down.parts.tipping_point == pytest.approx(up.parts.tipping_point, rel=1e-6)
    assert down.parts.often.gain == pytest.approx(-up.parts.often.gain, rel=1e-6)


def test_rewards_without_a_common_value_are_not_split():
    log = shop(4)
    every = log.rewards + np.random.default_rng(0).exponential(size=log.n_transitions)
    moved = Log.from_arrays(
        log.states, log.actions, every, log.states, episode=np.arange(log.n_transitions),
        terminated=np.ones(log.n_transitions, bool), propensity=log.propensity, action_space=2,
    )  # fmt: skip
    assert evaluate(moved, Always(1)).gain.parts is None


def test_two_policies_of_one_log_have_parts_too(estimate):
    other = evaluate(shop(1), Always(0))
    parts = estimate.gain_over(other).parts
    ratio = estimate.gain.parts.often.policy / other.gain.parts.often.policy
    assert parts.often.relative == pytest.approx(ratio - 1)


def test_an_interval_that_assumes_alike_sizes_is_shorter_and_says_so(estimate):
    gain = estimate.gain
    widths = [np.ptp([x.low, x.high]) for x in (gain.sizes_within(0.2).interval(), gain.interval())]
    assert widths[0] < 0.7 * widths[1]
    assert "20 %" in gain.sizes_within(0.2).interval().note
    wider = gain.sizes_within(0.5).interval()
    assert wider.high - wider.low > widths[0]


def test_what_was_not_pooled_has_no_such_interval(estimate):
    with pytest.raises(LevelError):
        estimate.gain_over(3.0).sizes_within(0.2)
    with pytest.raises(LevelError, match="sizes_within"):
        estimate.gain.sizes_within(-0.1)


def test_tail_pooled_snips_is_snips_for_what_was_logged_and_less_noisy_otherwise():
    log = shop(5)
    as_logged = {"tail-pooled-snips": 0.0, "snips": 0.0}
    for name in as_logged:
        half = lambda states: np.full((len(states), 2), 0.5)  # noqa: E731
        as_logged[name] = evaluate(log, half, method=name).value
    assert as_logged["tail-pooled-snips"] == pytest.approx(as_logged["snips"])
    truth = (0.145 - 0.1) / 2 * 25 * (1 + 1 / 0.7)
    errors = np.array(
        [
            [
                evaluate(shop(seed, n=1_000), Always(1), method=name).gain.value - truth
                for name in as_logged
            ]
            for seed in range(25)
        ]
    )
    pooled, plain = np.sqrt((errors**2).mean(axis=0))
    assert pooled < 0.8 * plain


def test_mis_takes_a_tail_pooled_mean_and_doubly_robust_refuses_it():
    log = shop(6, n=800)
    plain, pooled = (
        evaluate(log, Always(1), method=method("mis", mean=mean), gamma=0.0).value
        for mean in (TailPooled(tail="lower"), TailPooled())
    )
    assert plain != pooled
    assert_allclose(
        plain, evaluate(log, Always(1), method="mis", gamma=0.0).value
    )  # no lower tail: nothing is pooled
    with pytest.raises(MethodError, match="TailPooled"):
        method("dr", mean=TailPooled())


def test_the_answer_says_how_often_and_how_large_and_what_an_interval_assumes(estimate):
    said = as_text(estimate_answer(estimate, sizes_within=0.2))
    assert "How often" in said
    assert "20 %" in said
    sized = estimate.to_dict(sizes_within=0.2)["gain"]["sizes_within"]
    low = estimate.gain.sizes_within(0.2).lower_bound().value
    assert sized["lower_bound"]["value"] == pytest.approx(low)


def test_a_gate_that_assumes_alike_sizes_must_be_asked_for():
    log, policies = shop(1), {"offer": Always(1)}
    usual, asked = compare(log, policies), compare(log, policies, gate_sizes_within=0.0)
    assert usual.best.value == asked.best.value
    assert asked.best.gain.lower_bound.value > usual.best.gain.lower_bound.value
    assert any("assume" in note for note in asked.notes)
    beside = compare(log, policies, sizes_within=0.2)
    assert beside.best.gain.lower_bound == usual.best.gain.lower_bound
    ends = usual.best.gain.gain.sizes_within(0.2).interval(0.9)
    assert f"offer {ends.low:+.4g} to {ends.high:+.4g}. The verdicts do not" in beside.notes[-1]
    for more in ({"method": "roam-mis", "gamma": 0.0}, {"gate_sizes_within": 0.2}):
        with pytest.raises(LevelError) as error:
            compare(log, policies, sizes_within=0.2, **more)
        assert error.value.argument == "sizes_within"
    with pytest.raises(LevelError, match="gate_sizes_within"):
        compare(log, policies, method="roam-mis", gate_sizes_within=0.2, gamma=0.0)


def test_a_diagnosis_of_a_policy_shows_the_path():
    found = diagnose(shop(1, n=600), policy=Always(1))
    keys = [each.key for each in found.blocks() if hasattr(each, "key")]
    assert "pooling" in keys
    assert len(found.to_dict()["pooling"]["gains"]) == len(found.pooling.gains)
    section = next(each for each in found.blocks() if getattr(each, "key", "") == "pooling")
    on_page(section.blocks[1], 600.0)


def test_sizes_are_pooled_by_state_where_the_policy_chooses_among_large_customers():
    """The offer doubles how often large customers buy: their orders are 20 times the others'."""
    rng = np.random.default_rng(21)
    n = 6_000
    large = rng.integers(2, size=n)
    offer = rng.integers(2, size=n)
    buys = rng.random(n) < np.where(offer * large == 1, 0.3, 0.15)
    spend = buys * np.where(large == 1, 20.0, 1.0) * (1 + rng.pareto(2.5, n))
    log = Log.from_arrays(
        large[:, None].astype(float), offer, spend, large[:, None].astype(float),
        episode=np.arange(n), terminated=np.ones(n, bool), propensity=np.full(n, 0.5),
        action_space=2,
    )  # fmt: skip
    rows = OneStepRows.of(log, 0)
    policy = rows.in_order(np.eye(2)[large])
    by_state = evaluate_rows(rows, policy)
    rows.__dict__["pooling_by_state"] = rows.pooling
    alike = evaluate_rows(rows, policy)
    truth = (0.5 * 0.15 / 2 * 20) * (1 + 1 / 1.5)
    often = [choice.pooling.gains[0] for choice in (by_state, alike)]
    assert abs(often[0] - truth) < 0.3 < abs(often[1] - truth)
