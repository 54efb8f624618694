"""Propensities that cannot be those of the logged actions are found; right ones pass."""

import contextlib
import re
import warnings

import numpy as np
import pytest

from tailproof import Log, compare, diagnose, evaluate, learn, read_log, returns_under
from tailproof.errors import LogError, TailproofError, WeightWarning
from tailproof.log.misfit import doubtful_propensities, propensity_misfit
from tailproof.log.spaces import Discrete
from tailproof.methods.catalogue import EVALUATION

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
        ("certain", "by them, actions of a probability of at most 50 % were taken in 11.1 %"),
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


def test_a_mismatch_that_only_halves_of_a_variable_show_is_found():
    """53 % where x > 0 and 47 % elsewhere: 5 errors in a fifth of the rows, 8 in a half of them."""
    rng = np.random.default_rng(1)
    states = rng.normal(size=(40_000, 2))
    actions = (rng.random(40_000) < np.where(states[:, 0] > 0, 0.53, 0.47)).astype(int)
    found = propensity_misfit(states, ("x", "y"), actions, np.full(40_000, 0.5), Discrete(2))
    assert found is not None
    assert "of the rows in a part of the range of x" in found


def test_what_falls_short_alike_everywhere_is_found_unless_it_was_not_available():
    rng = np.random.default_rng(0)
    states = rng.normal(size=(3000, 2))
    law = np.tile([0.4, 0.4, 0.2], (3000, 1))
    actions = logged(law, rng)
    given = np.array([0.4, 0.4, 0.4])[actions]
    found = propensity_misfit(states, ("x", "y"), actions, given, SPACE)
    assert found is not None
    assert "'c' was taken in 19.7 %" in found
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


def served(mistake: str) -> Log:
    """Two actions, drawn half and half but for the mistake."""
    rng = np.random.default_rng(1)
    n = 10_000
    x = rng.normal(size=n)
    law = 1 / (1 + np.exp(-x))
    actions = (rng.random(n) < (0.54 if mistake == "mismatch" else law)).astype(int)
    given = np.where(actions == 1, law, 1 - law)
    if mistake == "mismatch":
        given = np.full(n, 0.5)
    elif mistake == "other action":
        given = 1 - given
    elif mistake == "tiny":
        given[7] = 1e-12
    rewards = rng.normal(size=n) + actions
    return Log.from_arrays(x, actions, rewards, x, episode=range(n), propensity=given)


MISTAKES = {
    "mismatch": "was taken in 5",
    "other action": "do not fit the logged actions",
    "tiny": "Row 7 has the propensity 1e-12",
}


@pytest.mark.parametrize(
    ("mistake", "stored"), [*((each, False) for each in MISTAKES), ("mismatch", True)]
)
def test_every_door_doubts_wrong_propensities(mistake, stored, tmp_path):
    log = served(mistake)
    if stored:
        log.to_parquet(tmp_path / "log.parquet")
        log = read_log(tmp_path / "log.parquet")
    doors = {
        "evaluate": lambda: evaluate(log, "always:1"),
        "ips": lambda: evaluate(log, "always:1", method="ips"),
        "compare": lambda: compare(log, {"one": "always:1"}),
        "learn": lambda: learn(log, method="fqi"),
        "returns_under": lambda: returns_under(log, "always:1"),
    }
    silent = []
    for name, door in doors.items():
        with warnings.catch_warnings(record=True) as heard:
            warnings.simplefilter("always")
            door()
        said = [str(each.message) for each in heard if each.category is WeightWarning]
        if not any(MISTAKES[mistake] in each for each in said):
            silent.append(name)
    assert silent == []
    with pytest.warns(WeightWarning):
        measured = returns_under(log, "always:1").quantile(0.5)
    assert MISTAKES[mistake] in measured.note
    for found in (diagnose(log, "always:1"), diagnose(log)):
        assert any(MISTAKES[mistake] in each for each in found.verdict.reasons)


def test_right_propensities_are_not_doubted_at_the_strict_level():
    """Neither drawn ones nor such as were rounded to two digits."""
    rng = np.random.default_rng(4)
    for _ in range(40):
        states = rng.normal(size=(3000, 6))
        law = softmax(states[:, :3] * rng.uniform(0, 1.5))
        actions = logged(law, rng)
        taken = np.maximum(law[np.arange(3000), actions].round(2), 0.01)
        names = tuple("uvwxyz")
        assert propensity_misfit(states, names, actions, taken, SPACE) is None
    assert doubtful_propensities(served("")) == ()


@pytest.mark.parametrize(
    ("given", "advice"), [(50.0, "percentages"), (-0.7, "logarithms"), (None, "logits")]
)
def test_numbers_on_another_scale_are_named(given, advice):
    values = np.linspace(-2, 3, 20) if given is None else np.full(20, given)
    with pytest.raises(LogError, match=advice):
        Log.from_arrays(
            np.arange(20.0), [0, 1] * 10, np.ones(20), np.arange(20.0), episode=range(20),
            propensity=values,
        )  # fmt: skip


def test_an_action_that_was_always_taken_by_chance_is_no_contradiction():
    """0.975¹⁰⁰ = 8 %: no row shows that it could have been otherwise."""
    rng = np.random.default_rng(0)
    x = np.arange(500.0)[:, None]
    good = (x[:, 0] >= 100).astype(int)  # the first fifth is one part of the range
    given = np.full(500, 0.975)
    action = np.where((rng.random(500) < 0.025) & (good == 1), 1 - good, good)
    given[action != good] = 0.025
    found = propensity_misfit(x, ["x"], action, given, Discrete(2))
    assert found is None


def in_families(rng, share):
    """Families that were given one of two plans, and copies of their rows by weight."""
    family = np.repeat(np.arange(1500), rng.integers(1, 30, 1500))
    plan = (rng.random(1500) < share)[family].astype(int)
    return rng.normal(size=(1500, 2))[family], plan, family


def test_rows_that_were_given_an_action_together_are_one_observation():
    alone = 0
    for seed in range(20):
        states, plan, family = in_families(np.random.default_rng(seed), 0.25)
        given = np.where(plan == 1, 0.25, 0.75)
        args = (states, ("x", "y"), plan, given, Discrete(2))
        assert propensity_misfit(*args, groups=family) is None
        alone += propensity_misfit(*args) is not None
    assert alone > 0  # as independent rows they contradict what is true
    states, plan, family = in_families(np.random.default_rng(0), 0.4)
    given = np.where(plan == 1, 0.25, 0.75)
    found = propensity_misfit(states, ("x", "y"), plan, given, Discrete(2), groups=family)
    assert found is not None
    assert "'1' was taken in" in found


def test_tests_of_groups_of_one_row_are_those_of_rows():
    rng = np.random.default_rng(3)
    states = rng.normal(size=(3000, 2))
    law = laws("by segment", states, rng)
    actions = logged(law, rng)
    given = law.mean(axis=0)[actions]
    args = (states, ("x", "y"), actions, given, SPACE)
    found = propensity_misfit(*args)
    assert found is not None
    assert propensity_misfit(*args, groups=rng.permutation(3000)) == found


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.filterwarnings("ignore::tailproof.errors.TailproofWarning")
def test_weights_that_span_many_orders_end_in_an_answer_or_in_an_error_of_ours(steps):
    rng = np.random.default_rng(0)
    n = 300
    x = rng.normal(size=n)
    log = Log.from_arrays(
        x, rng.integers(2, size=n), rng.normal(size=n), np.roll(x, -1),
        episode=np.arange(n) // steps, terminated=np.arange(n) % steps == steps - 1,
        propensity=10.0 ** rng.uniform(-18, 0, size=n),
    )  # fmt: skip
    gamma = None if steps == 1 else 0.9
    assert np.ptp(np.log10(log.propensity)) > 17
    for name in EVALUATION:
        with contextlib.suppress(TailproofError):
            assert np.isfinite(evaluate(log, "always:1", method=name, gamma=gamma).value)
    compare(log, {"one": "always:1", "zero": "always:0"}, gamma=gamma)
    diagnose(log, "always:1", gamma=gamma)
    learn(log, gamma=gamma)
    assert np.isfinite(returns_under(log, "always:1", gamma=gamma).quantile(0.5).value)
