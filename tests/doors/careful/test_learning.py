import warnings
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tailproof import Learned, Log, evaluate, learn
from tailproof.critics.greedy import SoftmaxPolicy
from tailproof.critics.tree_values import LearningTask
from tailproof.doors.careful import (
    LIKELIEST,
    CarefulLearning,
    CrossFit,
    RowProbabilities,
    Trial,
    blind_choice,
    four_folds,
    supports_to_try,
    three_parts,
    too_little,
)
from tailproof.errors import (
    LevelError,
    MethodError,
    PartitionError,
    TailproofError,
    TailproofWarning,
    TaughtWarning,
)
from tailproof.files import from_parts, to_parts
from tailproof.learners.judge import Judge, Judgement, SeenPairs
from tailproof.noise import StudentT
from tailproof.policies.forms import Always
from tailproof.profile.profile import LogProfile

pytestmark = pytest.mark.slow


def one_step(n=1500, effect=1.0, seed=0, group=None):
    """A fair coin between two actions; the second pays where x is above 0, and costs below."""
    rng = np.random.default_rng(seed)
    x, actions = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    rewards = effect * actions * np.sign(x[:, 0]) + rng.standard_t(3, size=n)
    return Log.from_arrays(
        x, actions, rewards, x, episode=np.arange(n), terminated=np.ones(n, bool), group=group,
        propensity=np.full(n, 0.5), action_space=2,
    )  # fmt: skip


def steps(effect, seed, episodes=60, length=20):
    """Two actions that move x up or down; x pays."""
    rng = np.random.default_rng(seed)
    x, rows = rng.normal(size=episodes), []
    for _ in range(length):
        a = rng.integers(2, size=episodes)
        after = 0.7 * x + effect * (2 * a - 1) + 0.3 * rng.normal(size=episodes)
        rows.append((x, a, x + rng.standard_t(3, size=episodes), after))
        x = after
    columns = [np.stack(each, axis=1).ravel() for each in zip(*rows, strict=True)]
    s, a, r, n = columns
    return Log.from_arrays(s, a, r, n, episode=np.repeat(np.arange(episodes), length))


@pytest.fixture(scope="module")
def found():
    return learn(one_step())


@pytest.fixture(scope="module")
def kept():
    return learn(one_step(effect=0.0))


def standalone_interval():
    """The shape that made a forest predict nothing: the last group is one terminal row."""
    return [7] * 28 + [1], 4, True


@settings(max_examples=6, suppress_health_check=list(HealthCheck), deadline=None)
@example(standalone_interval())
@example(([1, 1, 3, 1, 2, 1, 1, 2, 1, 2, 1], 1, True))
@given(
    st.tuples(
        st.lists(st.integers(1, 6), min_size=1, max_size=12), st.integers(1, 3), st.booleans()
    )
)
def test_tiny_logs_are_answered_or_refused_by_name(shape):
    lengths, grouped, ending = shape
    episode = np.repeat(np.arange(len(lengths)), lengths)
    rng = np.random.default_rng(len(episode))
    states, actions = rng.normal(size=(2, len(episode)))
    ends = np.append(episode[1:] != episode[:-1], True)
    log = Log.from_arrays(
        states, actions > 0, actions, np.roll(states, -1), episode=episode, action_space=2,
        group=episode // grouped, terminated=ends if ending else None,
    )  # fmt: skip
    refused = ""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", TailproofWarning)
        try:
            learn(log, gamma=0.9)
        except TailproofError as error:
            refused = str(error)
    assert not refused or "name a method" in refused or "nothing to choose between" in refused


def test_a_clear_effect_is_found_and_judged_by_other_episodes(found):
    assert found.improves
    assert found.judged.better
    assert found.judged.gain > found.judged.bound > 0
    assert found.held_out.n_episodes == 375
    assert found.judged.episodes == 1500  # every row is judged by a policy that it did not fit
    states = np.array([[2.0, 0.0], [-2.0, 0.0]])
    assert found.policy(states).tolist() == [1, 0]
    assert str(found).startswith("The learned policy would ")
    assert "\nBetter.\n" in str(found)


def test_the_judged_gain_is_near_the_truth(found):
    gain = found.judged.gain
    assert 0.15 < gain < 0.85  # by symmetry, the best rule gains 0.5 / 2 · 2 − 0 = 0.5


def test_where_actions_change_nothing_the_behaviour_is_kept(kept):
    assert kept.improves is False
    assert "\nNo difference shown.\n" in str(kept)
    assert isinstance(kept.policy, SoftmaxPolicy)
    law = kept.policy.probabilities(kept.held_out.states)
    assert np.abs(law.mean(axis=0) - 0.5).max() < 0.1
    why = ("with 90 % confidence", "was not ahead of the log", "did not hold")
    assert any(each in kept.reasons[0] for each in why)


@pytest.mark.parametrize(("effect", "improves"), [(1.0, True), (0.0, False)])
def test_several_steps(effect, improves):
    learned = learn(steps(effect, seed=2), gamma=0.8)
    assert learned.improves is improves
    if improves:
        assert (learned.policy(np.linspace(-1, 1, 5)[:, None]) == 1).all()


def plain_constant(n=1200, seed=3):
    """The second action pays half a unit more, in noise."""
    rng = np.random.default_rng(seed)
    x, actions = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    rewards = np.where(actions == 1, 0.5, 0.0) + rng.normal(scale=2.0, size=n)
    return Log.from_arrays(
        x, actions, rewards, x, episode=np.arange(n), terminated=np.ones(n, bool),
        propensity=np.full(n, 0.5), action_space=2,
    )  # fmt: skip


def test_a_constant_is_preferred_and_judged_by_all_rows():
    """A quarter of the rows cannot tell, all of them can."""
    log = plain_constant()
    learned = learn(log)
    assert learned.improves
    assert learned.reasons[0].startswith("Always 1 was the best of ")
    assert learned.judged.episodes == 1200
    assert 0 < learned.judged.bound < learned.judged.gain
    assert learned.policy(log.states[:5]).tolist() == [1] * 5


def test_a_rule_must_be_ahead_of_the_best_constant():
    log, n = plain_constant(400), 400
    scores = np.tile([0.0, 1.0], (n, 1))
    noise = np.random.default_rng(1).normal(size=n)
    noise -= noise.mean()
    whole = SimpleNamespace(log=log, scores=scores)
    rules = dict.fromkeys(["alike", "ahead"])
    values = {"alike": np.tile(1.0 + noise, (4, 1)), "ahead": np.tile(1.0 + noise, (4, 1))}
    fold = four_folds(log, 0.25, seed=0)
    found = CrossFit(whole, fold, None, [0, 1], rules, values)
    assert found.chosen(0) == "Always 1"
    values["ahead"] += 0.3  # six standard errors
    assert found.chosen(0) == "ahead"


def test_folds_keep_groups_together_and_hold_out_what_three_parts_do():
    log = one_step(n=300, group=np.arange(300) // 5)
    fold = four_folds(log, 0.25, seed=3)
    assert all(len(set(fold[5 * k : 5 * k + 5])) == 1 for k in range(60))
    assert np.bincount(fold).tolist() == [75, 75, 75, 75]
    held = three_parts(log, 0.25, seed=3).test
    assert held.episode_ids.tolist() == log.take(np.flatnonzero(fold == 0)).episode_ids.tolist()


def test_what_acts_in_a_fold_was_taught_by_the_others():
    """Labels of one fold are rewards of noise: a policy that saw them would profit."""
    log = one_step(n=200, effect=0.0)
    fold = four_folds(log, 0.25, seed=0)
    whole = LearningTask(log, 0.0, None, log.first_states, seed=0)
    taught = []

    def fit(task, chosen):
        taught.append(set(task.log.episode_ids.tolist()))
        return learn(task.log, method=chosen, gamma=0.0)

    CrossFit.of(whole, fold, [0, 1], fit=fit, advance=lambda: None)
    folds = [set(log.take(np.flatnonzero(fold == k)).episode_ids.tolist()) for k in range(4)]
    assert {sum(bool(each & own) for own in folds) for each in taught} == {2}
    assert all(own <= each or not own & each for each in taught for own in folds)


def test_probabilities_by_row_are_of_these_rows():
    law = RowProbabilities(np.full((3, 2), 0.5))
    assert law.probabilities(np.zeros((3, 1))).shape == (3, 2)
    with pytest.raises(ValueError, match="of 3 rows"):
        law.probabilities(np.zeros((4, 1)))


def test_the_likeliest_action_is_judged_by_all_episodes():
    log = steps(1.0, seed=2)
    judge = Judge(LogProfile(log), 0.8, 0.9, 0, None)
    learned = SimpleNamespace(policy=Always(1))
    good = replace(judge(learned.policy), bound=1.0)
    assert good.better
    asked = []

    def by_all():
        asked.append(judge)
        return judge

    second = blind_choice(by_all, [Trial(LIKELIEST, learned, good)]).judgement
    assert second.bound < judge(learned.policy).bound  # half of the risk
    assert second.level == 0.9
    bad = SimpleNamespace(policy=Always(0))
    assert blind_choice(by_all, [Trial(LIKELIEST, bad, good)]) is None
    assert len(asked) == 2
    assert blind_choice(by_all, [Trial(LIKELIEST, learned, replace(good, bound=-1.0))]) is None
    assert blind_choice(by_all, [Trial("other", learned, good)]) is None
    assert len(asked) == 2  # what was not better on some episodes is not asked of all


def test_what_acts_like_a_simpler_candidate_is_judged_with_it(tabular):
    log = tabular.log(episodes=40, steps=5, seed=0)
    task = LearningTask(log, 0.5, None, log.first_states, seed=0)
    acts = np.full((100, 2), 0.5)
    nearly, other = acts.copy(), acts.copy()
    nearly[:5], other[:5] = (1.0, 0.0), (0.0, 1.0)  # unlike the first in 2.5 % of what they do
    said = {"plain": acts, "nearly": nearly, "other": other}
    asked = []

    class Asked:
        def acts(self, policy):
            return said[policy]

        def __call__(self, policy, *, to_beat):
            asked.append((policy, to_beat))
            return SimpleNamespace(bound=-1.0)

    careful = CarefulLearning(
        profile=LogProfile(log), gamma=0.5, seed=0, holdout=0.25, at_least=0.9,
        fit=lambda task, name: SimpleNamespace(policy=name), advance=lambda: None,
    )  # fmt: skip
    trials, failed = careful._tried({name: name for name in said}, task, Asked())
    assert [each.name for each in trials] == ["plain", "nearly", "other"]
    assert asked == [("plain", -np.inf)]
    nearly[:8] = 1.0, 0.0  # 4 %
    careful._tried({name: name for name in said}, task, Asked())
    assert asked[1:] == [("plain", -np.inf), ("nearly", -1.0)]
    assert not failed


def test_a_support_that_allows_what_another_does_is_not_tried():
    log = steps(1.0, seed=2)

    def tried(shares):
        task = SimpleNamespace(log=log, behaviour=lambda states: np.tile(shares, (len(states), 1)))
        return supports_to_try(task)

    assert tried([0.5, 0.5]) == [0.3]
    assert tried([0.9, 0.1]) == [0.3, 0.1]
    assert tried([0.95, 0.05]) == [0.3, 0.0]


def orders(n=2500, seed=1):
    """An offer that half as many customers more accept; few have a reward, and it has a heavy tail."""
    rng = np.random.default_rng(seed)
    x, actions = rng.normal(size=(n, 2)), rng.integers(2, size=n)
    rewards = (rng.random(n) < 0.1 + 0.05 * actions) * (1 + rng.pareto(1.5, n))
    return Log.from_arrays(
        x, actions, rewards, x, episode=np.arange(n), terminated=np.ones(n, bool), action_space=2,
        propensity=np.full(n, 0.5),
    )  # fmt: skip


def test_a_judge_assumes_something_about_sizes_only_if_that_is_asked_for():
    log = orders()
    profile = LogProfile(log)
    usual, asked = (
        Judge(profile, 0.0, 0.9, 0, sizes_within=each)(Always(1)) for each in (None, 0.2)
    )
    assert asked.bound > usual.bound
    assert asked.value == usual.value
    light = LogProfile(one_step(n=500))
    bounds = {Judge(light, 0.0, 0.9, 0, sizes_within=each)(Always(1)).bound for each in (None, 0.2)}
    assert len(bounds) == 1  # nothing is pooled


def test_learning_says_what_its_tests_assume_about_sizes():
    learned = learn(orders(n=1200), gate_sizes_within=0.2)
    assert "differ by at most 20 % between policies" in learned.reasons[0]
    continuous = Log.from_arrays(
        np.zeros(9), np.arange(9) / 8, np.ones(9), np.zeros(9), episode=np.arange(9)
    )
    for log, more in ((orders(n=50), {"method": "fqi", "gamma": 0.0}), (continuous, {})):
        with pytest.raises(MethodError) as error:
            learn(log, gate_sizes_within=0.2, **more)
        assert error.value.argument == "gate_sizes_within"
    with pytest.raises(LevelError, match="at least 0"):
        learn(orders(n=50), gate_sizes_within=-0.1)


def test_no_risk_is_taken_when_certainty_is_asked():
    assert learn(one_step(n=400, effect=0.4), at_least=0.9999).improves is False
    with pytest.raises(LevelError):
        learn(one_step(n=100), at_least=1.0)


def test_the_same_seed_gives_the_same_answer(kept):
    again = learn(one_step(effect=0.0))
    assert again.reasons == kept.reasons
    states = kept.held_out.states
    assert np.array_equal(again.policy.probabilities(states), kept.policy.probabilities(states))


def test_parts_share_no_group():
    group = np.arange(300) // 5
    log = one_step(n=300, group=group)
    parts = three_parts(log, 0.25, seed=3)
    names = [set(part.group_ids.tolist()) for part in parts]
    assert not names[0] & names[1]
    assert not names[2] & (names[0] | names[1])
    assert [len(each) for each in names] == [30, 15, 15]
    assert sum(part.n_episodes for part in parts) == 300


@pytest.mark.parametrize("holdout", [0.0, 1.0])
def test_something_must_be_left_to_judge_by(holdout):
    with pytest.raises(PartitionError, match=r"holdout must lie in \(0, 1\)"):
        learn(one_step(n=100), holdout=holdout)


def test_a_handful_of_episodes_is_too_few():
    with pytest.raises(PartitionError, match="needs at least 6"):
        learn(one_step(n=5))
    learned = learn(one_step(n=30, effect=5.0))
    assert learned.improves is False


@pytest.mark.parametrize("name", ["found", "kept"])
def test_saved_results_keep_their_judgement(name, request, tmp_path):
    learned = request.getfixturevalue(name)
    path = tmp_path / "policy.tp"
    learned.save(path)
    again = Learned.load(path)
    assert again.improves is learned.improves
    assert again.judged == learned.judged
    assert again.state_names == learned.state_names
    states = np.random.default_rng(0).normal(size=(50, 2))
    assert np.array_equal(
        again.critic.action_values(states, 2), learned.critic.action_values(states, 2)
    )
    assert str(again) == str(learned)


def test_evaluating_on_the_episodes_that_taught_warns_by_name(found, tmp_path):
    found.save(tmp_path / "policy.tp")
    policy = Learned.load(tmp_path / "policy.tp").policy
    log = one_step()
    with pytest.warns(
        TaughtWarning, match=r"1,125 of 1,500 rows were used to learn this policy \(\d+, \d+, "
    ):
        evaluate(log, policy)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        evaluate(one_step(seed=9), policy)
        evaluate(found.held_out, policy)


def test_evaluation_never_raises_for_want_of_an_interval(cartpole):
    log = cartpole.log(episodes=9, steps=20, noise=StudentT(1.1), seed=1)
    learned = learn(log, method="fqi", gamma=0.9, holdout=0.4)
    found = learned.evaluate()
    assert found.lower_bound is None
    assert "No valid" in found.why_no_bound
    assert str(found).startswith(f"{found.estimate.value:.4g} (4 held-out episodes)")


def test_unseen_actions_in_discrete_states_cost_the_worst():
    states = np.repeat([0.0, 1.0], 50)[:, None]
    actions = np.concatenate([np.arange(50) % 2, np.zeros(50, dtype=int)])
    log = Log.from_arrays(
        states, actions, -np.arange(100.0), states, episode=np.arange(100), action_space=2,
        terminated=np.ones(100, bool),
    )  # fmt: skip
    seen = SeenPairs.of(log)
    law = np.tile([0.25, 0.75], (100, 1))
    assert np.array_equal(seen.unseen(states, law), np.repeat([0.0, 0.75], 50))
    always = [lambda s, a=a: np.full(len(s), a) for a in (0, 1)]
    costs = [seen.cost(policy, log, None, -10.0, 0.0) for policy in always]
    assert costs[0] == 0
    assert costs[1] == pytest.approx(0.5 * (-10.0 + np.quantile(np.arange(100.0), 0.99)))


def test_states_that_hardly_repeat_are_not_counted(heavy_log):
    assert SeenPairs.of(heavy_log) is None


def test_judgements_survive_json():
    one = Judgement(
        value=1.0, low=None, high=None, logged_value=0.5, gain=0.5, bound=-np.inf, level=0.9,
        episodes=7, why_not="few",
    )  # fmt: skip
    assert from_parts(to_parts(one)) == one
    assert not one.better


def test_a_constant_was_taught_by_nobody(tmp_path):
    log = plain_constant()
    learned = learn(log)
    learned.save(tmp_path / "policy.tailproof")
    learned.policy.save(tmp_path / "policy.onnx")
    for policy in (learned.policy, *map(str, tmp_path.iterdir())):
        with warnings.catch_warnings():
            warnings.simplefilter("error", TaughtWarning)
            assert evaluate(log, policy).on_log.shares["1"] == 1


@pytest.mark.parametrize(("gain", "bound"), [(2.0, -1.5), (-1.0, -1.5), (2.0, -np.inf)])
def test_what_is_not_enough_is_not_called_ahead_by_less_than_nothing(gain, bound):
    judgement = Judgement(
        value=gain, low=None, high=None, logged_value=0.0, gain=gain, bound=bound, level=0.9,
        episodes=50,
    )  # fmt: skip
    said = too_little(Trial("linear", None, judgement))
    assert ("was not ahead of the log" in said) == (gain < 0)
    assert ("it may be worse by 1.5" in said) == (gain > 0 and np.isfinite(bound))
    assert " by -" not in said
    assert "inf" not in said
