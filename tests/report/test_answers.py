"""The answer: what is quoted, what is only on offer, and what is withheld."""

import numpy as np
import pytest

from tailproof import Log, evaluate
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


@pytest.mark.parametrize("level", [0.5, 0.99])
def test_the_record_is_plain(heavy_log, cartpole, level):
    import json

    from tailproof.report.record import as_json

    found = answer(evaluate(heavy_log, cartpole.target(), method="roam-dm", gamma=0.9), level=level)
    record = json.loads(as_json(found.to_dict()))
    assert record["value"] == found.estimate.value
    assert len(record["offers"]) == 4
