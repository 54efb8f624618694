"""Weights of the policy: what an action is worth, and how far a few of them may rule."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tailproof.deep import IQL, SQL
from tailproof.deep.fitting import effective_share, spread_weights

BASES = [IQL(beta=3.0), SQL(alpha=0.3)]


def spread(base, advantage, share):
    return spread_weights(replace(base, share=share), advantage)


def advantages(scale, seed=0):
    return scale * torch.randn(500, generator=torch.Generator().manual_seed(seed))


def test_the_effective_share_counts_rows():
    assert effective_share(torch.full((8,), 0.3)) == pytest.approx(1)
    assert effective_share(torch.tensor([0.0, 0.0, 5.0, 0.0])) == pytest.approx(1 / 4)
    assert effective_share(torch.tensor([1.0, 1.0, 0.0, 0.0])) == pytest.approx(1 / 2)
    assert effective_share(torch.zeros(4)) == 0


@pytest.mark.parametrize("base", BASES, ids=["iql", "sql"])
@given(scale=st.floats(1e-3, 1e6), seed=st.integers(0, 99), share=st.floats(0.0, 0.95))
def test_weights_are_worth_the_share(base, scale, seed, share):
    advantage = advantages(scale, seed)
    weights = spread(base, advantage, share)
    assert effective_share(weights) >= share
    order = advantage.argsort()
    assert (weights[order].diff() >= 0).all()  # the better action never weighs less


@pytest.mark.parametrize("base", BASES, ids=["iql", "sql"])
def test_weights_that_are_worth_enough_are_the_bases_own(base):
    gentle, wild = advantages(0.01), advantages(100.0)
    assert spread(base, gentle, 0.5).equal(base.action_weight(gentle))
    assert spread(base, wild, 0.0).equal(base.action_weight(wild))


def test_only_as_much_is_shrunk_as_must_be():
    weights = spread(BASES[0], advantages(1.0), 0.5)
    assert effective_share(weights) == pytest.approx(0.5, abs=1e-4)


def test_the_unit_of_a_wild_advantage_does_not_matter():
    one, other = (spread(BASES[0], advantages(scale), 0.5) for scale in (1.0, 2.0))
    torch.testing.assert_close(one, other, rtol=1e-4, atol=0)
