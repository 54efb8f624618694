import json
import sys
import warnings
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from examples.storm import storage
from tailproof import FQE, Comparison, Joint, Log, Mean, compare, evaluate, method
from tailproof.doors.compare import LOGGED, probability_first_is_best, probability_highest
from tailproof.doors.evaluate import logged_value
from tailproof.errors import CoverageWarning, FoldError, LevelError, MethodError, PolicyError
from tailproof.estimators.ladder import is_settled
from tailproof.log.log import discounted_returns
from tailproof.noise import StudentT
from tailproof.report.terminal import as_text
from tailproof.robust.gains import Scored
from tailproof.robust.means import AdaptiveHuber
from tailproof.robust.spreads import Hall
from tailproof.worlds import CartPole


def zero(states: np.ndarray) -> np.ndarray:
    return np.zeros(len(states), dtype=int)


def one(states: np.ndarray) -> np.ndarray:
    return np.ones(len(states), dtype=int)


def bandit(*, n: int = 2000, gap: float = 4.0, seed: int = 0, propensity: bool = False) -> Log:
    rng = np.random.default_rng(seed)
    states, actions = rng.normal(size=n), rng.integers(2, size=n)
    return Log.from_arrays(
        states,
        actions,
        gap * actions + rng.standard_t(1.5, size=n),
        states,
        episode=range(n),
        propensity=np.full(n, 0.5) if propensity else None,
    )


@pytest.fixture(scope="module")
def clear() -> Comparison:
    return compare(bandit(), {"zero": zero, "one": one}, method="roam-dm")


def test_the_better_policy_comes_first_and_passes(clear: Comparison):
    assert [each.name for each in clear.candidates] == ["one", "zero"]
    assert clear.best.value == pytest.approx(4, abs=0.8)
    assert clear["zero"].value == pytest.approx(0, abs=0.8)
    assert clear.baseline == LOGGED
    assert clear.baseline_value == pytest.approx(2, abs=0.8)
    assert clear.passes
    assert clear.best.passes
    assert not clear["zero"].passes
    assert clear.gamma == 0.0


def test_candidates_are_evaluated_as_by_evaluate(clear: Comparison):
    alone = evaluate(bandit(), one, method=clear.method)
    assert clear.best.value == alone.value
    assert clear.best.lower_bound == alone.lower_bound(0.9)


def test_differences_are_paired_by_fold(clear: Comparison):
    found = clear.difference("one", "zero")
    paired = clear["one"].estimate.fold_values - clear["zero"].estimate.fold_values
    assert np.array_equal(found.fold_values, paired)
    assert found.value == clear["one"].value - clear["zero"].value
    assert found.lower_bound.value == paired.min()
    assert found.won == 5
    gain = clear.difference("one")
    assert np.array_equal(gain.fold_values, clear.best.gain.fold_values)
    assert clear.difference("one", LOGGED).second == LOGGED


def test_pairing_cancels_what_folds_share():
    # One fold of five holds a disaster that befalls every policy alike.
    log = bandit()
    rewards = log.rewards.copy()
    rewards[:40] -= 1e4
    groups = np.minimum(np.arange(2000) // 40, 49)
    hit = log.with_rewards(rewards).with_groups(groups)
    found = compare(hit, {"one": one}, baseline=zero, method="roam-dm")
    assert found.best.lower_bound.value < -100
    assert found.best.gain.fold_values.std() < found.best.estimate.fold_values.std()


def test_equal_policies_neither_pass_nor_win():
    found = compare(bandit(), {"one": one}, baseline=one)
    assert found.best.gain.value == 0
    assert not found.passes
    assert found.probability_best == pytest.approx(0.5, abs=0.02)


def test_many_candidates_raise_the_level_and_the_folds():
    many = {f"policy {i}": one for i in range(10)}
    found = compare(bandit(), many, method="roam-dm")
    assert found.gate_level == pytest.approx(0.99)
    assert found.method.folds == 7
    assert "7 folds instead of 5" in found.notes[0]
    assert found.best.gain.lower_bound.level >= 0.99
    with pytest.raises(LevelError, match=r"each must reach 99.0000 %, and 5 folds reach 96.8750 %"):
        compare(bandit(), many, method=method("roam-dm"))


@given(st.integers(1, 12), st.integers(0, 1000))
def test_the_probability_of_winning_every_fold_is_the_sign_posterior(folds: int, seed: int):
    ahead = np.array([np.ones(folds), np.zeros(folds)])
    assert probability_first_is_best(ahead, seed=seed) == pytest.approx(
        1 - 2.0 ** -(folds + 1), abs=0.012
    )
    assert probability_first_is_best(-ahead, seed=seed) == pytest.approx(
        2.0 ** -(folds + 1), abs=0.012
    )


def test_more_rivals_never_make_the_first_likelier():
    rng = np.random.default_rng(1)
    values = rng.normal(size=(5, 8))
    values[0] += 1
    chances = [probability_first_is_best(values[: m + 1]) for m in range(1, 5)]
    assert all(later <= before + 0.012 for before, later in pairwise(chances))


def test_diverged_folds_do_not_count():
    values = np.array([[1.0, np.nan, 1.0], [0.0, 5.0, 0.0]])
    assert probability_first_is_best(values) == pytest.approx(1 - 2.0**-3, abs=0.01)


@pytest.mark.slow
def test_a_baseline_may_be_a_name_a_policy_or_a_number():
    log = bandit()
    named = compare(log, {"zero": zero, "one": one}, baseline="zero")
    assert [each.name for each in named.candidates] == ["one"]
    assert named.baseline == "zero"
    given_policy = compare(log, {"one": one}, baseline=zero)
    assert given_policy.baseline_value == named.baseline_value
    low, high = (compare(log, {"one": one}, baseline=value).passes for value in (-100, 100.0))
    assert (low, high) == (True, False)


def test_the_logged_value_of_ended_episodes_is_their_mean_return():
    log = storage.log("HB_NORTH", 2022, 1)
    found = logged_value(log, method=method("roam-variant", base="lstd"), gamma=1.0)
    assert found.how == "returns"
    whole = logged_value(log, method=method("lstd"), gamma=1.0)
    assert whole.value == pytest.approx(discounted_returns(log, 1.0).mean())
    assert found.value == np.median(found.fold_values)


def test_the_logged_value_uses_the_folds_of_evaluate():
    log = bandit(propensity=True)
    chosen = method("roam-mis", base="ips", folds=6)
    by_policy = evaluate(log, lambda s: np.zeros(len(s), dtype=int), method=chosen, seed=3)
    logged = logged_value(log, method=chosen, gamma=0.0, seed=3)
    zeros = log.with_rewards(np.where(log.actions == 0, 2 * log.rewards, 0.0))
    assert logged_value(zeros, method=chosen, gamma=0.0, seed=3).fold_values == pytest.approx(
        by_policy.fold_values
    )
    assert logged.fold_values.shape == (6,)


def test_the_logged_value_takes_the_robust_mean_of_the_base():
    log = bandit()
    rewards = log.rewards.copy()
    rewards[0] = 1e6
    spoilt = log.with_rewards(rewards)
    plain, robust = (
        logged_value(spoilt, method=method("mis", **settings), gamma=0.0).value
        for settings in ({}, {"mean": AdaptiveHuber()})
    )
    assert plain > 100
    assert abs(robust - 2) < 0.5
    weekly = spoilt.with_groups(np.arange(2000) // 20)
    grouped = method("mis", mean=AdaptiveHuber(), unit="group")
    assert abs(logged_value(weekly, method=grouped, gamma=0.0).value - 2) < 0.5


def test_a_log_cut_off_is_continued_by_its_value_function(cartpole: CartPole):
    # A hundred steps at γ = 0.99 hold 63 % of the value: returns alone would fall far short.
    log = cartpole.log(episodes=100, noise=StudentT(df=3), seed=1)
    assert not is_settled(log, 0.99)
    for base in (method("roam-dm"), method("roam-mis"), method("roam-dr", base="dr")):
        found = logged_value(log, method=base, gamma=0.99)
        assert found.how == "continued"
        assert found.value == pytest.approx(98, abs=6)
    assert discounted_returns(log, 0.99).mean() < 70
    assert is_settled(log, 0.9)


def test_custom_features_are_averaged_over_the_logged_actions():
    log = storage.log("HB_NORTH", 2022, 1)
    chosen = method("lstd", features=storage.HourlyFeatures(), ridge=1e-6)
    open_ended = Log.from_arrays(
        log.states, log.actions, log.rewards, log.next_states,
        episode=log.episode_ids[log.episode_of_row], action_space=log.action_space,
    )  # fmt: skip
    # Past the last hour all features are zero, so nothing is continued there: as if terminated.
    continued = logged_value(open_ended, method=chosen, gamma=0.999)
    assert continued.how == "continued"
    assert continued.value == pytest.approx(discounted_returns(log, 0.999).mean(), rel=0.02)


def test_continuous_actions_are_compared_and_continued():
    rng = np.random.default_rng(2)
    n, length = 3000, 5
    states, actions = rng.normal(size=(n, 1)), rng.normal(size=(n, 1))
    rewards = -((actions[:, 0] - states[:, 0]) ** 2) + rng.standard_t(2, size=n)
    next_states = rng.normal(size=(n, 1))
    episode = np.repeat(np.arange(n // length), length)
    log = Log.from_arrays(states, actions, rewards, next_states, episode=episode)
    follow, flee = (lambda s: s), (lambda s: -s)
    found = compare(
        log,
        {"follow": follow, "flee": flee},
        gamma=0.5,
        method=method("roam-dm", folds=6, features=Joint(1, 1)),
    )
    assert found.best.name == "follow"
    assert found.passes
    assert found.best.value == pytest.approx(0, abs=1)
    assert found.baseline_value == pytest.approx(-4, abs=1)
    assert any("cut off before they ended" in note for note in found.notes)


def test_the_same_seed_gives_the_same_comparison(clear: Comparison):
    again = compare(bandit(), {"zero": zero, "one": one}, method="roam-dm")
    assert again.to_dict() == clear.to_dict()


def test_results_become_text_json_and_frames(clear: Comparison):
    record = json.loads(json.dumps(clear.to_dict(), allow_nan=False))
    assert record["passes"] is True
    assert [each["name"] for each in record["candidates"]] == ["one", "zero"]
    assert record["candidates"][0]["gain"]["won"] == clear.best.gain.won
    frame = clear.to_frame()
    assert list(frame["policy"]) == ["one", "logged policy", "zero"]
    assert list(frame["passes"]) == [True, False, False]
    lines = str(clear).splitlines()
    assert lines[0].startswith("one would ")
    assert lines[1] == "Better."
    assert str(compare(bandit(), {"zero": zero})).splitlines()[1] == "Worse."


@pytest.mark.parametrize(
    ("name", "why"),
    [("roam-fqe", "every backup"), ("b-roam-dm", "share data"), ("lstd", "has one")],
)
def test_methods_without_an_interval_rank_but_pass_nothing(name: str, why: str):
    log = bandit(n=200)
    found = compare(log, {"zero": zero, "one": one}, method=name)
    assert [each.name for each in found.candidates] == ["one", "zero"]
    assert any(why in note for note in found.notes)
    assert not found.passes
    assert found.best.lower_bound.value == found.best.gain.lower_bound.value == -np.inf
    assert why in found.best.gain.lower_bound.note
    assert found.best.value == evaluate(log, one, method=name).value
    json.dumps(found.to_dict(), allow_nan=False)


@pytest.mark.parametrize("name", ["auto", "snips", "roam-dm", "roam-mis", "lstd"])
@pytest.mark.parametrize("baseline", [None, 1.5, zero])
def test_value_gain_and_bounds_are_of_one_estimator(name: str, baseline):
    log = bandit(n=300, propensity=True)
    found = compare(log, {"one": one, "half": class_of(0.5)}, method=name, baseline=baseline)
    assert found.candidates[0].value >= found.candidates[1].value
    for each in found.candidates:
        assert each.gain.value == each.value - found.baseline_value
        assert each.lower_bound.value <= each.value
        assert each.gain.lower_bound.value <= each.gain.value
        policy = one if each.name == "one" else class_of(0.5)
        alone = evaluate(log, policy, method=found.method)
        assert each.value == alone.value
        if baseline is None:
            assert found.baseline_value == alone.logged_value
            assert each.gain.value == alone.gain.value


def test_a_candidate_that_diverges_is_left_out_with_a_note(cartpole: CartPole):
    log = cartpole.log(episodes=60, epsilon=0.5, seed=1)
    opposite = {"opposite": lambda s: 1 - cartpole.target()(s)}
    weak = method("roam-dm", ridge=1e-6)  # one that is not raised where fitted Q diverges
    with pytest.raises(FoldError, match="folds diverged"):
        compare(log, opposite, gamma=0.99, method=weak)
    found = compare(log, {"greedy": cartpole.target()} | opposite, gamma=0.99, method=weak)
    assert [each.name for each in found.candidates] == ["greedy"]
    assert any(note.startswith("opposite is left out") for note in found.notes)


def test_bad_input_is_named():
    log = bandit(n=100)
    with pytest.raises(PolicyError, match="policies must be a mapping from names to policies"):
        compare(log, {})
    with pytest.raises(PolicyError, match="policies must be a mapping"):
        compare(log, [one])
    with pytest.raises(PolicyError, match=r"Policies need names that are texts. Got 3"):
        compare(log, {3: one})
    with pytest.raises(PolicyError, match=r"baseline must name one of the policies \(one\)"):
        compare(log, {"one": one}, baseline="two")
    with pytest.raises(PolicyError, match="needs a candidate beside the baseline"):
        compare(log, {"one": one}, baseline="one")
    with pytest.raises(LevelError, match=r"A level must lie between 0 and 1. Got 90"):
        compare(log, {"one": one}, level=90)
    with pytest.raises(MethodError, match=r"method must be a name or a Method. Got FQE"):
        compare(log, {"one": one}, method=FQE())
    with pytest.raises(KeyError, match="There is no candidate 'two'"):
        compare(log, {"one": one})["two"]


def class_of(share: float):
    class Mixed:
        def probabilities(self, states: np.ndarray) -> np.ndarray:
            return np.tile([1 - share, share], (len(states), 1))

    return Mixed()


@pytest.mark.slow
@pytest.mark.parametrize("known", [True, False])
def test_one_step_logs_are_compared_by_scores(known: bool):
    log = bandit(propensity=known)
    found = compare(log, {"zero": zero, "half": class_of(0.5), "one": one})
    assert not found.has_folds
    assert [each.name for each in found.candidates] == ["one", "half", "zero"]
    assert found.baseline_value == evaluate(log, one).logged_value
    for each in found.candidates:
        assert each.value == pytest.approx(found.baseline_value + each.gain.value)
        assert each.lower_bound.value <= each.value
        assert each.gain.lower_bound.value <= each.gain.value
        assert each.gain.lower_bound.level == pytest.approx(1 - 0.1 / 3)
        alone = evaluate(log, {"zero": zero, "half": class_of(0.5), "one": one}[each.name])
        assert each.value == alone.value
        assert each.lower_bound == alone.lower_bound(0.9)
    assert [each.passes for each in found.candidates] == [True, False, False]
    assert found.probability_best > 0.95
    ahead = found.difference("one", "zero")
    assert ahead.value == pytest.approx(found["one"].value - found["zero"].value)
    assert 0 < ahead.lower_bound.value < ahead.value
    assert found.difference("one").value == found["one"].gain.value
    assert "folds" not in str(found)
    assert "folds_won" not in found.to_frame().columns
    json.dumps(found.to_dict(), allow_nan=False)
    assert "Better" in found._repr_html_()


@pytest.mark.slow
def test_baselines_of_scored_comparisons():
    log = bandit()
    by_policy = compare(log, {"one": one}, baseline=zero)
    named = compare(log, {"one": one, "zero": zero}, baseline="zero")
    assert named.best.gain.lower_bound == by_policy.best.gain.lower_bound
    assert by_policy.passes
    assert by_policy.difference("one").value == by_policy.best.gain.value
    number = compare(log, {"one": one}, baseline=1.0)
    assert number.baseline_value == 1.0
    assert number.best.gain.value == pytest.approx(number.best.value - 1)
    assert number.passes
    assert number.difference("one").lower_bound == number.best.gain.lower_bound
    itself = compare(log, {"one": one}, baseline=one)
    assert itself.best.gain.value == 0
    assert not itself.passes


def test_named_rows_that_score_the_log_are_compared_too():
    log = bandit(propensity=True)
    found = compare(log, {"one": one}, method="snips")
    assert found.passes


@pytest.mark.slow
def test_a_policy_without_effect_rarely_passes():
    passed = []
    for seed in range(24):
        rng = np.random.default_rng(seed)
        n = 600
        states = rng.normal(size=(n, 2))
        rare = np.where(np.abs(states[:, 0]) < 0.5, 0.3, 0.05)  # a small pilot, by a curved rule
        actions = (rng.random(n) < rare).astype(int)
        rewards = rng.lognormal(sigma=1.2, size=n) + 2 * (np.abs(states[:, 0]) < 0.5)
        log = Log.from_arrays(
            states, actions, rewards, states, episode=range(n),
            propensity=np.where(actions == 1, rare, 1 - rare),
        )  # fmt: skip
        passed.append(compare(log, {"one": one}).passes)
    assert np.mean(passed) <= 0.2


def test_evidence_that_would_fill_the_memory_is_not_kept(cartpole, monkeypatch):
    log = cartpole.log(episodes=40, steps=20, seed=2)
    rivals = {"target": cartpole.target(), "left": lambda s: np.zeros(len(s), dtype=int)}
    for chosen in (method("roam-mis", folds=8), method("roam-dm", folds=8)):
        full = compare(log, rivals, method=chosen, gamma=0.9)
        monkeypatch.setattr(sys.modules["tailproof.doors.compare"], "_EVIDENCE", 100)
        lean = compare(log, rivals, method=chosen, gamma=0.9)
        monkeypatch.undo()
        assert lean.to_dict() == full.to_dict()
        assert lean.best.estimate.answer.point_values is None
    assert chosen.at == "pointwise"
    with pytest.raises(MethodError, match="kept without its values at every start"):
        lean.best.estimate.with_aggregate(Mean())


def test_scores_are_kept_once_and_in_single_precision_where_there_are_many(monkeypatch):
    log, rivals = bandit(n=400), {"zero": zero, "one": one}
    full = compare(log, rivals)
    monkeypatch.setattr(sys.modules["tailproof.doors.compare"], "_EVIDENCE", 100)
    lean = compare(log, rivals)
    first, second = (lean[name].estimate.choice for name in rivals)
    assert first.logged.influence is second.logged.influence
    assert first.influence.dtype == np.float32
    assert lean["one"].estimate.task.initial_states is None
    assert lean.probability_best == pytest.approx(full.probability_best, abs=1e-3)
    for name in rivals:
        assert lean[name].value == full[name].value
        assert lean[name].gain.value == full[name].gain.value
        assert lean[name].gain.lower_bound.value == pytest.approx(
            full[name].gain.lower_bound.value, rel=1e-4
        )


@pytest.mark.slow
def test_every_candidate_carries_its_own_cautions_and_limits():
    rng = np.random.default_rng(0)
    x, actions = rng.normal(size=3000), rng.integers(2, size=3000)
    actions[x > 0.5] = 0  # the second action was never taken there
    rewards = rng.random(3000)
    rewards[np.flatnonzero(actions == 1)[0]] = 1e6
    log = Log.from_arrays(x, actions, rewards, x, episode=np.arange(3000))
    policies = {"calm": "always:0", "wild": "0.15*always:1 + 0.85*always:0"}
    with pytest.warns(CoverageWarning, match=r"^wild: Where ") as heard:
        found = compare(log, policies)
    assert not [each for each in heard if "calm" in str(each.message)]
    said, stored = (
        as_text(found.blocks()),
        {each["name"]: each for each in found.to_dict()["candidates"]},
    )
    for name, policy in policies.items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", CoverageWarning)
            alone = evaluate(log, policy)
        note = alone.lower_bound(0.9).note
        assert note in said
        assert stored[name]["lower_bound"]["note"] == note
        assert stored[name]["cautions"] == [str(each) for each in alone.cautions]
    assert stored["wild"]["cautions"]
    assert "one row carries" in stored["wild"]["lower_bound"]["note"]


@pytest.mark.parametrize("scale", [1e-100, 1e-8, 1e100])
def test_the_probability_to_be_best_does_not_depend_on_the_unit(scale, rng):
    influences = rng.standard_t(3, size=(3, 400))

    def at(unit):
        return probability_highest(
            [
                Scored(
                    value=unit * i, spread=Hall(unit * i, unit * 2.0), influence=unit * influence
                )
                for i, influence in enumerate(influences)
            ]
        )

    assert at(scale) == pytest.approx(at(1.0), abs=1e-9)
