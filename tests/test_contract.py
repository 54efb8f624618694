"""What every base, partition and aggregate owes the loop that combines them."""

from itertools import product

import numpy as np
import pytest

from tailproof import (
    DR,
    FQE,
    LSTD,
    MIS,
    Bootstrap,
    Custom,
    Mean,
    MeanMinusStd,
    Median,
    Method,
    Quantile,
    Replicate,
    Split,
    TrimmedMean,
    Whole,
    evaluate,
)
from tailproof.robust.means import AdaptiveHuber


def next_rewards(fold, gamma, policy):
    """A base that is a function: mean reward of each action, forever."""
    means = [fold.rewards[fold.actions == a].mean() / (1 - gamma) for a in range(fold.n_actions)]
    return lambda states: np.tile(means, (len(states), 1))


BASES = [
    FQE(iterations=20),
    FQE(iterations=20, tolerance=0.02),
    LSTD(),
    MIS(),
    MIS(mean=AdaptiveHuber(), unit="episode"),
    DR(),
    Custom(next_rewards),
]
PARTITIONS = [Whole(), Split(3), Bootstrap(3), Replicate(2)]
AGGREGATES = [Mean(), Median(), Quantile(0.25), TrimmedMean(0.34), MeanMinusStd(0.5)]


def places(base):
    return base.capabilities.at


CASES = [
    Method(base=base, partition=partition, aggregate=aggregate, at=at)
    for base, partition, aggregate in product(BASES, PARTITIONS, AGGREGATES)
    for at in places(base)
]


@pytest.fixture(scope="module")
def short_log(cartpole):
    return cartpole.log(episodes=12, steps=30, seed=3)


@pytest.mark.parametrize("method", CASES, ids=str)
def test_every_combination_evaluates_repeatably_and_stays_between_its_members(
    method, short_log, cartpole
):
    first = evaluate(short_log, cartpole.target(), method=method, gamma=0.9, seed=4)
    again = evaluate(short_log, cartpole.target(), method=method, gamma=0.9, seed=4)
    assert first.value == again.value
    assert np.array_equal(first.fold_values, again.fold_values)
    assert first.fold_values.shape == (method.folds,)
    assert np.isfinite(first.value)
    if not isinstance(method.aggregate, MeanMinusStd) and method.at == "value":
        assert first.fold_values.min() - 1e-9 <= first.value <= first.fold_values.max() + 1e-9
    assert first.to_dict()["method"] == str(method)


@pytest.mark.parametrize("base", BASES, ids=str)
@pytest.mark.parametrize("aggregate", AGGREGATES, ids=str)
def test_one_member_is_the_base_algorithm(base, aggregate, short_log, cartpole):
    plain = evaluate(short_log, cartpole.target(), method=Method(base=base), gamma=0.9)
    for at in places(base):
        alone = Method(base=base, partition=Split(1), aggregate=aggregate, at=at)
        value = evaluate(short_log, cartpole.target(), method=alone, gamma=0.9).value
        assert value == pytest.approx(plain.value, rel=1e-9)


@pytest.mark.parametrize("base", [FQE(), LSTD()], ids=str)
def test_the_mean_is_the_same_at_value_and_pointwise(base, short_log, cartpole):
    values = [
        evaluate(
            short_log,
            cartpole.target(),
            method=Method(base=base, partition=Split(4), aggregate=Mean(), at=at),
            gamma=0.9,
        ).value
        for at in ("value", "pointwise")
    ]
    assert values[0] == pytest.approx(values[1], rel=1e-9)


@pytest.mark.parametrize("base", [each for each in BASES if not isinstance(each, DR)], ids=str)
def test_replicates_of_a_deterministic_base_are_equal(base, short_log, cartpole):
    """All but DR, whose cross-fitting draws its parts."""
    for at in places(base):
        method = Method(base=base, partition=Replicate(3), aggregate=Median(), at=at)
        estimate = evaluate(short_log, cartpole.target(), method=method, gamma=0.9)
        plain = evaluate(short_log, cartpole.target(), method=Method(base=base), gamma=0.9)
        assert np.ptp(estimate.fold_values) <= 1e-9 * abs(plain.value)
        assert estimate.value == pytest.approx(plain.value, rel=1e-8)


@pytest.mark.parametrize("at", ["value", "pointwise"])
def test_another_aggregate_needs_no_refit(at, short_log, cartpole):
    def run(aggregate):
        method = Method(base=FQE(), partition=Split(5), aggregate=aggregate, at=at)
        return evaluate(short_log, cartpole.target(), method=method, gamma=0.9, seed=2)

    for aggregate in AGGREGATES:
        assert run(Median()).with_aggregate(aggregate).value == pytest.approx(run(aggregate).value)
