"""The answer: what is quoted, what is only on offer, and what is withheld."""

from dataclasses import replace

import numpy as np
import pytest

from tailproof import Log, diagnose, evaluate, method
from tailproof.report.answers import answer


def skewed_log(sign=1.0):
    rng = np.random.default_rng(3)
    states = rng.normal(size=(1200, 2))
    actions = rng.integers(0, 2, 1200)
    rewards = sign * rng.pareto(1.4, 1200)
    return Log.from_arrays(
        states, actions, rewards, states, episode=np.arange(1200), terminated=np.ones(1200, bool)
    )


def first(states):
    return np.zeros(len(states), dtype=int)


def test_order_statistics_are_quoted_for_a_method_with_folds(heavy_log, cartpole):
    estimate = evaluate(heavy_log, cartpole.target(), method="roam-variant", gamma=0.9)
    found = answer(estimate)
    assert (found.interval.low, found.interval.high) == (
        estimate.interval(0.9).low,
        estimate.interval(0.9).high,
    )
    assert found.bound.low == estimate.lower_bound(0.9).value
    assert "93.8 % interval" in found.sentence()


def test_nothing_is_quoted_where_members_depend_or_folds_are_missing(heavy_log, cartpole):
    policy = cartpole.target()
    backup = answer(evaluate(heavy_log, policy, method="roam-fqe", gamma=0.9))
    assert backup.interval is None
    assert backup.bound is None
    assert not any(offer.exists for offer in backup.offers)
    plain = answer(evaluate(heavy_log, policy, method="lstd", gamma=0.9))
    assert plain.interval is None
    assert "several folds" in plain.why_no_interval()
    assert "without an interval" in plain.sentence()


def test_folds_of_a_skewed_log_give_a_bound_but_no_interval_and_scores_give_both():
    log = skewed_log()
    verdict = diagnose(log, first).verdict
    assert verdict.interval_level is None
    folds = evaluate(log, first, method=verdict.bounds())
    by_folds = answer(folds, verdict=verdict)
    assert by_folds.interval is None
    assert by_folds.bound is not None
    found = answer(evaluate(log, first), folds=folds, verdict=verdict)
    assert found.interval.name == "chosen mean"
    assert found.bound.low < found.estimate.value < found.interval.high
    assert found.why_no_interval() == ""
    assert found.how().endswith("chosen by the log")


def test_a_heavy_left_tail_is_allowed_for():
    log = skewed_log(-1.0)
    verdict = diagnose(log, first).verdict
    assert 1 < verdict.tail_index < 2
    folds = evaluate(log, first, method=method("roam-mis", folds=20))
    out_of_reach = answer(folds, verdict=verdict)
    assert out_of_reach.bound is None  # the plain order statistic does not take its place
    assert "folds or more" in out_of_reach.offers[-1].note
    milder = answer(folds, verdict=replace(verdict, tail_index=1.5))
    assert milder.bound.name == "tail-aware, lower"
    assert milder.bound.low <= answer(folds).bound.low


def test_what_no_one_can_promise_is_withheld():
    log = skewed_log()
    verdict = replace(diagnose(log, first).verdict, level=None)
    folds = evaluate(log, first, method=verdict.bounds())
    assert answer(folds, verdict=verdict).bound is None


def test_a_median_is_called_a_median():
    log = skewed_log()
    verdict = replace(diagnose(log, first).verdict, covers="median of folds", level=0.95)
    folds = evaluate(log, first, method=verdict.bounds())
    assert "the median of folds exceeds" in answer(folds, verdict=verdict).sentence()


@pytest.mark.parametrize("level", [0.5, 0.99])
def test_the_record_is_plain(heavy_log, cartpole, level):
    import json

    from tailproof.report.record import as_json

    found = answer(evaluate(heavy_log, cartpole.target(), method="roam-dm", gamma=0.9), level=level)
    record = json.loads(as_json(found.to_dict()))
    assert record["value"] == found.estimate.value
    assert len(record["offers"]) == 4
