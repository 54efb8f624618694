"""Propensities that cannot be those of the logged actions are found; right ones pass."""

import re

import numpy as np
import pytest

from tailproof.log.misfit import propensity_misfit
from tailproof.log.spaces import Discrete

SPACE = Discrete(3, ("a", "b", "c"))


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def laws(kind, states, rng):
    """The probabilities of three actions in each state, by a logging policy of some kind."""
    n = len(states)
    if kind == "uniform":
        return np.full((n, 3), 1 / 3)
    if kind == "steep":  # probabilities down to 1e-5 and less
        return softmax(states @ rng.normal(size=(2, 3)) * 4)
    if kind == "rarely explored":
        best = np.eye(3)[rng.integers(0, 3, n)]
        return 0.999 * best + 0.001 / 3
    if kind == "heavy":
        return rng.dirichlet([0.1, 0.1, 0.1], n)
    if kind == "by segment":  # c is for one segment only
        law = np.tile([0.5, 0.5, 0.0], (n, 1))
        law[states[:, 0] > 0.3] = [0.2, 0.3, 0.5]
        return law
    best = np.eye(3)[(states[:, 0] > 0).astype(int)]
    return 0.9 * best + 0.1 / 3


def logged(law, rng):
    return (law.cumsum(axis=1) > rng.random((len(law), 1))).argmax(axis=1)


KINDS = ("uniform", "steep", "rarely explored", "heavy", "by segment", "greedy")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("n", [200, 3000])
def test_right_propensities_pass(kind, n):
    for seed in range(30):
        rng = np.random.default_rng(seed)
        states = rng.normal(size=(n, 2))
        law = laws(kind, states, rng)
        actions = logged(law, rng)
        taken = law[np.arange(n), actions]
        assert propensity_misfit(states, ("x", "y"), actions, taken, SPACE) is None


@pytest.mark.parametrize(
    ("mistake", "message"),
    [
        ("one column for all", r"was taken in \d"),
        ("of the action before", "was taken in"),
        ("one minus", "was taken in"),
        ("the marginal", "in a part of the range of x"),
        ("certain", "by them, actions of a probability of at most 50 % were taken in 11.1%"),
    ],
)
def test_wrong_propensities_are_found(mistake, message):
    rng = np.random.default_rng(0)
    states = rng.normal(size=(3000, 2))
    law = softmax(np.column_stack([states[:, 0], 0.5 - states[:, 0], 0 * states[:, 0] - 1]))
    actions = logged(law, rng)
    taken = law[np.arange(3000), actions]
    given = {
        "one column for all": law[:, 0],
        "of the action before": law[np.arange(3000), (actions - 1) % 3],
        "one minus": 1 - taken,
        "the marginal": law.mean(axis=0)[actions],
        "certain": np.full(3000, 0.9),
    }[mistake]
    found = propensity_misfit(states, ("x", "y"), actions, given, SPACE, everywhere=False)
    assert found is not None
    assert re.search(message, found)


def test_what_falls_short_alike_everywhere_is_found_unless_it_was_not_available():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(3000, 2))
    law = np.tile([0.4, 0.4, 0.2], (3000, 1))
    actions = logged(law, rng)
    given = np.array([0.4, 0.4, 0.4])[actions]
    found = propensity_misfit(states, ("x", "y"), actions, given, SPACE)
    assert found is not None
    assert "'c' was taken in 19.7%" in found
    assert "available=..." in found
    misfit = propensity_misfit(states, ("x", "y"), actions, given, SPACE, everywhere=False)
    assert misfit is None


@pytest.mark.parametrize("explored", [0.02, 0.1])
def test_exploration_that_few_rows_hardly_show_is_no_contradiction(explored):
    rng = np.random.default_rng(0)
    for _ in range(100):
        states = rng.normal(size=(300, 2))
        best = (states @ rng.normal(size=(2, 3))).argmax(axis=1)
        law = (1 - explored) * np.eye(3)[best] + explored / 3
        actions = logged(law, rng)
        taken = law[np.arange(300), actions]
        assert propensity_misfit(states, ("x", "y"), actions, taken, SPACE) is None
