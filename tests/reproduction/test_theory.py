import numpy as np
import pytest
from scipy.stats import binom

from reproduction.experiment import Job
from reproduction.summary import Summary
from reproduction.theory import (
    LAWS,
    RATE,
    THEORY,
    block_means,
    independent_log,
    orders_of_folds,
    printed_margin,
    slope,
    true_level,
    world,
)
from tailproof import LSTD, Method, evaluate
from tailproof.noise import Gaussian


def test_the_level_is_a_binomial_tail():
    for folds, j, share in ((5, 1, 0.5), (10, 3, 1 / 3), (20, 8, 2 / 3)):
        assert true_level(folds, j, share) == pytest.approx(binom.sf(j - 1, folds, share))
    assert true_level(5, 5, 1.0) == 1.0


def test_block_means_are_means_of_blocks(rng):
    draws = rng.normal(size=(3, 10))
    assert np.allclose(block_means(draws, 1)[:, 0], draws.mean(axis=1))
    assert np.allclose(block_means(draws, 10), draws)
    blocks = block_means(draws, 3)
    assert np.allclose(blocks[:, 0], draws[:, :3].mean(axis=1))
    assert np.allclose(blocks[:, 2], draws[:, 6:].mean(axis=1))


def test_lstd_finds_the_world_s_truth_on_independent_transitions(rng):
    mdp, truth = world(0.9)
    log = independent_log(mdp, 40_000, Gaussian(0.1), rng)
    found = evaluate(
        log,
        mdp.optimal(gamma=0.9),
        method=Method(base=LSTD()),
        gamma=0.9,
        initial_states=np.eye(mdp.n_states),
    )
    assert found.value == pytest.approx(truth, rel=0.02)


def test_constant_rewards_refute_theorem_3_as_printed():
    job = Job("theory", {"law": "constant", "folds": 10}, 0, 0, THEORY.settings)
    for row in orders_of_folds(job):
        assert row["event"] == 0.0
        assert row["printed"] > 0.3
        assert row["below"] == 1.0


def test_the_printed_margin_uses_the_moment_of_the_law(rng):
    draws = 1 + LAWS["Gaussian"].sample(200_000, rng)
    assert printed_margin("Gaussian", 1) == pytest.approx(np.sqrt(np.mean(draws**2)), rel=0.01)
    draws = LAWS["t 1.5"].sample(1_000_000, rng)
    measured = np.mean(np.abs(draws) ** 1.25) ** (1 / 1.25)
    assert printed_margin("t 1.5", 1) == pytest.approx(measured, rel=0.3)
    assert printed_margin("Pareto 1.5", 1) is None


def test_a_power_law_has_its_exponent():
    sizes = [10, 100, 1000]
    line = [Summary(5 * n**-RATE, 0, 0) for n in sizes]
    assert slope(sizes, line) == pytest.approx(-RATE)
