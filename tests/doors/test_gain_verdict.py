"""The verdict: what the bounds show, and what a caution voids."""

import numpy as np
import pytest

from tailproof import Log, compare, evaluate
from tailproof.errors import Caution, CoverageWarning, LevelError, StateWarning
from tailproof.report.blocks import headline_of


def bandit(shift, n=500, seed=0, states=None):
    rng = np.random.default_rng(seed)
    actions = rng.integers(2, size=n)
    states = rng.normal(size=n) if states is None else states
    rewards = shift * actions + rng.normal(size=n)
    return Log.from_arrays(states, actions, rewards, states, episode=np.arange(n))


@pytest.mark.parametrize(
    ("shift", "word"), [(1.0, "better"), (-1.0, "worse"), (0.0, "no difference shown")]
)
def test_it_is_what_the_bounds_show(shift, word):
    estimate = evaluate(bandit(shift), "always:1")
    assert (estimate.verdict.word, str(estimate.verdict)) == (word, word)
    assert estimate.to_dict()["verdict"] == word
    assert estimate.verdict.reasons == ()
    mirrored = evaluate(bandit(shift).with_rewards(-bandit(shift).rewards), "always:1").verdict
    swapped = {"better": "worse", "worse": "better"}
    assert mirrored.word == swapped.get(word, word)


def test_actions_that_the_log_never_takes_void_an_answer():
    rng = np.random.default_rng(0)
    x = rng.normal(size=1000)
    actions = (x < 0).astype(int)  # 1 is never taken where x > 0
    log = Log.from_arrays(x, actions, actions + 1.0, x, episode=np.arange(1000))
    with pytest.warns(CoverageWarning):
        estimate = evaluate(log, "always:1")
    assert (estimate.verdict.word, estimate.verdict.reasons) == ("cannot tell", ("overlap",))
    headline = headline_of(estimate.blocks(name="mine"))
    assert headline.text == "This log cannot tell how much mine would earn."
    with pytest.warns(CoverageWarning):
        comparison = compare(log, {"one": "always:1", "logged": "logged"})
    assert not comparison["one"].passes
    assert comparison["one"].gain.verdict.reasons == ("overlap",)


def test_a_few_such_actions_are_a_caution_only():
    log = bandit(1.0)
    with pytest.warns(CoverageWarning):
        estimate = evaluate(
            Log.from_arrays(
                log.states, log.actions, log.rewards, log.states, episode=np.arange(500),
                action_space=type(log.action_space)(3),
            ),
            "0.98*always:1 + 0.02*always:2",
        )  # fmt: skip
    assert [each.code for each in estimate.cautions] == ["overlap"]
    assert not estimate.cautions[0].voids
    assert estimate.verdict.word == "better"


def test_a_method_without_an_interval_cannot_tell(cartpole):
    log = cartpole.log(episodes=20, steps=5, seed=1)
    estimate = evaluate(log, cartpole.target(), method="fqe", gamma=0.9)
    assert (estimate.verdict.word, estimate.verdict.reasons) == ("cannot tell", ("no_interval",))
    with pytest.raises(LevelError):
        estimate.gain.lower_bound(0.9)
    few = evaluate(cartpole.log(episodes=4, steps=5, seed=1), cartpole.target(), gamma=0.9)
    assert few.verdict.reasons == ("too_few",)


def test_a_caution_is_a_sentence_with_a_code():
    caution = Caution("hidden_state", "No state shows it.", voids=True)
    assert (str(caution), caution.category) == ("No state shows it.", StateWarning)
    assert Caution("overlap", "x").category is CoverageWarning


def test_a_comparison_is_better_if_any_candidate_is(tmp_path):
    comparison = compare(bandit(1.0), {"one": "always:1", "zero": "always:0"})
    assert (comparison.verdict.word, comparison.passes) == ("better", True)
    frame = comparison.to_frame()
    assert frame["policy"].tolist() == ["one", "logged policy", "zero"]
    assert frame["verdict"].tolist() == ["better", "baseline", "worse"]
    one = frame.iloc[0]
    own = comparison["one"].gain.interval(comparison.gate_level)
    assert (one["gain_low"], one["gain_high"]) == (own.low, own.high)
    assert one["value_low"] < one["value"] < one["value_high"]
    assert compare(bandit(1.0), {"zero": "always:0"}).verdict.word == "worse"
    stored = comparison.to_dict()["candidates"][0]
    assert stored["gain"]["interval"]["low"] == own.low
    assert stored["verdict"] == "better"
