import numpy as np
import pytest

from tailproof import Log, compare, diagnose, evaluate, learn, read_log
from tailproof.critics.task import Task
from tailproof.errors import CoverageWarning, LevelError
from tailproof.policies.forms import action_probabilities
from tailproof.profile.profile import LogProfile


def site_log(n: int = 600, *, offered_everywhere: bool = False, steps: int = 1) -> Log:
    """Two plans at four sites; the site 3 never offers the second one."""
    rng = np.random.default_rng(5)
    site, age = rng.integers(4, size=n).astype(float), rng.normal(50, 10, n)
    plan = rng.integers(2, size=n)
    if not offered_everywhere:
        plan[site == 3] = 0
    states = np.column_stack([site, age])
    return Log.from_arrays(
        states,
        plan,
        plan + 0.1 * age + rng.normal(size=n),
        np.roll(states, -1, axis=0),
        episode=np.arange(n) // steps,
        terminated=np.arange(n) % steps == steps - 1,
        action_space=None,
        state_names=("site", "age"),
    )


def asked(policy, log) -> tuple[str, ...]:
    return tuple(map(str, LogProfile(log).coverage(Task(log, 0.0, policy))))


def second(states: np.ndarray) -> np.ndarray:
    return np.ones(len(states), dtype=int)


def test_a_site_that_never_offers_the_plan_is_named_by_evaluate_and_diagnose():
    log = site_log()
    said = (
        r"Where site is 3 \(\d+ rows\) the policy takes action 1 in 100 %, but the log never does"
    )
    for method in ("auto", "lstd", "roam-dm"):
        with pytest.warns(CoverageWarning, match=said):
            estimate = evaluate(log, second, method=method)
        assert len(estimate.cautions) == 1
        assert str(estimate.cautions[0]) in estimate.to_dict()["cautions"]
    found = diagnose(log, second)
    assert any("Where site is 3" in each for each in found.verdict.reasons)
    assert any("Where site is 3" in each for each in found.notes)


def test_nothing_is_said_where_every_site_offers_it_or_nobody_asks():
    assert asked(second, site_log(offered_everywhere=True)) == ()
    assert asked(lambda s: np.zeros(len(s), dtype=int), site_log()) == ()
    avoids = lambda s: np.where(s[:, 0] == 3, 0, 1)  # noqa: E731
    assert asked(avoids, site_log()) == ()


def test_a_range_of_a_continuous_column_is_named():
    rng = np.random.default_rng(2)
    age = rng.uniform(20, 80, 2000)
    actions = np.where(age > 65, 0, rng.integers(2, size=2000))
    log = Log.from_arrays(
        age, actions, rng.normal(size=2000), age, episode=range(2000), state_names=("age",)
    )
    (said,) = asked(second, log)
    assert "Where age is above 6" in said


def vouchers(n: int = 3000, *, known: bool = False) -> Log:
    """Vouchers, worth 15 after 60 days and 2 before, were sent after 60 days to the young only."""
    rng = np.random.default_rng(8)
    recency, age = rng.uniform(0, 120, n), rng.uniform(20, 80, n)
    sent = rng.random(n) < (chance := np.where((recency > 60) & (age < 50), 0.5, 0.0))
    spend = rng.exponential(size=n) * np.where(sent, 15.0, 10.0)
    states = np.column_stack([recency, age])
    return Log.from_arrays(
        states, sent.astype(int), spend, states, episode=range(n), state_names=("recency", "age"),
        propensity=np.where(sent, chance, 1 - chance) if known else None,
    )  # fmt: skip


@pytest.mark.parametrize("seed", range(4))
def test_a_hole_that_two_columns_make_together_is_found_to_its_edge(seed):
    rng = np.random.default_rng(seed)
    n = 4000
    north, recency = rng.random(n) < 1 / 3, rng.uniform(0, 100, n)
    never = north & (recency < 60)
    states = np.column_stack([north, recency, rng.normal(size=(n, 2))]).astype(float)
    offered = (~never & (rng.random(n) < 0.5)).astype(int)
    log = Log.from_arrays(
        states, offered, rng.exponential(size=n), states, episode=np.arange(n),
        terminated=np.ones(n, dtype=bool), state_names=("north", "recency", "a", "b"),
    )  # fmt: skip
    (said,) = asked(second, log)
    assert "north is above 0.5 and recency is at most " in said
    found = LogProfile(log).unlogged[:, 1]
    assert not (found & (offered == 1)).any()
    assert found[never].mean() > 0.97
    with pytest.warns(CoverageWarning, match="north"), pytest.raises(LevelError):
        evaluate(log, second).interval(0.9)


@pytest.mark.parametrize("known", [False, True])
def test_what_was_never_tried_has_no_interval_and_passes_no_gate(known):
    log = vouchers(known=known)
    with pytest.warns(CoverageWarning, match="the log never does"):
        estimate = evaluate(log, second)
    with pytest.warns(CoverageWarning, match="the log never does"):
        found = compare(log, {"all": second, "few": "0.1*always:1 + 0.9*logged"})
    assert (estimate.verdict.word, estimate.verdict.reasons) == ("cannot tell", ("overlap",))
    for ask in (estimate.interval, estimate.lower_bound, estimate.gain.interval):
        with pytest.raises(LevelError):
            ask(0.9)
    assert not found["all"].passes
    assert found["all"].gain.verdict.word == "cannot tell"
    assert np.isnan(found.probability_best)


def test_learn_takes_no_action_where_it_was_never_tried():
    log = vouchers(known=True)
    learned = learn(log)
    unknown = LogProfile(log).unlogged
    law = action_probabilities(learned.policy, log.states, 2)
    assert (law * unknown).sum() < 0.05 * log.n_transitions
    allowed = (log.states[:, 0] > 60) & (log.states[:, 1] < 50)
    assert unknown[~allowed, 1].mean() > 0.9
    assert not unknown[allowed, 1].any()


@pytest.mark.parametrize("seed", range(5))
def test_healthy_logs_have_no_holes(seed):
    """Whether actions are drawn at random or follow the state, where each has its chance."""
    rng = np.random.default_rng([9, seed])
    n = (1000, 4000, 30_000, 100, 300)[seed]
    states = rng.normal(size=(n, 4))
    for chance in (0.02, 0.5, 0.05 + 0.9 / (1 + np.exp(-2 * states[:, 0] - states[:, 1]))):
        actions = (rng.random(n) < chance).astype(int)
        log = Log.from_arrays(states, actions, rng.normal(size=n), states, episode=range(n))
        assert asked(second, log) == ()


@pytest.mark.parametrize("rows", [60, 120, 400, 790])
@pytest.mark.parametrize("known", [False, True])
@pytest.mark.parametrize("seed", range(2))
def test_small_logs_of_a_rule_cannot_tell_what_another_policy_is_worth(seed, known, rows):
    """The rule is a threshold of one column, or of two, and never lets chance decide."""
    rng = np.random.default_rng([3, seed, rows])
    x = rng.normal(size=(rows, 2))
    follows = (x[:, 0] > 0) if rows < 200 else (x[:, 0] > -0.5) & (x[:, 1] > -0.5)
    log = Log.from_arrays(
        x, follows.astype(int), rng.lognormal(size=rows), x, episode=np.arange(rows),
        propensity=np.ones(rows) if known else None,
    )  # fmt: skip
    with pytest.warns(CoverageWarning):
        estimate = evaluate(log, second)
    assert (estimate.verdict.word, estimate.verdict.reasons) == ("cannot tell", ("overlap",))


def test_propensities_that_are_all_one_leave_nothing_to_be_known_of_other_actions():
    """Both actions are taken everywhere, so that the column is no more than filled."""
    rng = np.random.default_rng(4)
    x, actions = rng.normal(size=(500, 1)), rng.integers(2, size=500)
    log = Log.from_arrays(
        x, actions, rng.lognormal(size=500), x, episode=np.arange(500), propensity=np.ones(500)
    )
    with pytest.warns(CoverageWarning, match="leave them out to have them estimated"):
        assert evaluate(log, second).verdict.word == "cannot tell"
    assert asked(lambda states: log.actions[: len(states)], log) == ()


def three_actions(rule, *, rare: float, known: bool = True) -> Log:
    """Where x is above 1 the rule is action 2; each other action is logged with probability `rare`."""
    rng = np.random.default_rng(8)
    x = rng.normal(size=4000)
    probabilities = np.full((len(x), 3), rare)
    probabilities[np.arange(len(x)), rule(x)] = 1 - 2 * rare
    action = (rng.random((len(x), 1)) > probabilities.cumsum(axis=1)[:, :2]).sum(axis=1)
    action[(x > 1) & (action == 0)] = 2  # by chance, or by a rule that nobody wrote down
    return Log.from_arrays(
        x, action, rng.normal(size=len(x)), x, episode=np.arange(len(x)),
        propensity=probabilities[np.arange(len(x)), action] if known else None,
    )  # fmt: skip


def test_logged_propensities_tell_whether_a_rare_action_is_absent_by_chance():
    """Some 400 rows with 1.5 % each may lack it; with 20 % each, or if nobody knows, it was barred."""

    def first(states):
        return np.zeros(len(states), dtype=int)

    rule = lambda x: (x > 0).astype(int) + (x > 1)  # noqa: E731
    assert asked(first, three_actions(rule, rare=0.015)) == ()
    for barred in (three_actions(rule, rare=0.2), three_actions(rule, rare=0.015, known=False)):
        assert any("takes action 0" in each for each in asked(first, barred))


def test_few_rows_are_no_hole():
    """One row in a hundred is at the fourth site: that none of six took the plan is chance."""
    log = site_log(600)
    rare = log.states.copy()
    rare[:, 0] = np.where(np.arange(600) < 6, 3.0, 0.0)
    plan = np.where(rare[:, 0] == 3, 0, log.actions)
    plan[200:400] = 1
    few = Log.from_arrays(rare, plan, log.rewards, rare, episode=range(600))
    assert asked(second, few) == ()


def test_stored_logs_are_probed_beyond_their_first_states(tmp_path):
    """The policy takes an unlogged action in states that no episode starts in."""
    log = site_log(offered_everywhere=True, steps=6)
    states = log.states.copy()
    states[::6, 0] = 0.0
    wider = Log.from_arrays(
        states, log.actions, log.rewards, log.next_states,
        episode=log.episode_of_row, action_space=3, state_names=("site", "age"),
    )  # fmt: skip
    wider.to_parquet(tmp_path / "log.parquet")
    policy = lambda s: np.where(s[:, 0] > 0, 2, 0)  # noqa: E731
    for lazy in (False, True):
        stored = read_log(tmp_path / "log.parquet", lazy=lazy)
        (said,) = asked(policy, stored)
        assert said.startswith("The policy takes action 2 with probability 0.")


def test_the_policy_is_evaluated_once_in_the_states_of_the_log():
    """Coverage and the default method share what it does there."""
    for steps in (1, 5):
        log, asked_at = site_log(steps=steps), []

        def policy(states, asked_at=asked_at):
            asked_at.append(len(states))
            return second(states)

        with pytest.warns(CoverageWarning):
            evaluate(log, policy, gamma=0.0 if steps == 1 else 0.9)
        # in the states, and of episodes in the next states and where these start
        assert sorted(n for n in asked_at if n > 10) == ([600] if steps == 1 else [120, 600, 600])


def test_a_policy_that_no_row_is_like_is_said_to_be_extrapolated():
    rng = np.random.default_rng(3)
    x, price = rng.normal(size=800), rng.uniform(10, 20, 800)
    rewards = 30 - price + 10 * rng.normal(size=800)
    log = Log.from_arrays(x, price, rewards, x, episode=np.arange(800))
    with pytest.warns(CoverageWarning, match="The log does not cover this policy"):
        far = evaluate(log, "always:35")
    assert (far.cautions[-1].code, far.verdict.word) == ("overlap", "cannot tell")
    assert far.on_log.effective_rows < 5
    assert evaluate(log, "always:15").cautions == ()
    with pytest.warns(CoverageWarning):
        assert evaluate(log, "always:90").verdict.word == "cannot tell"


def test_propensities_of_one_exclude_the_other_actions():
    """No state shows where vouchers could not be sent, but the propensities do."""
    log = vouchers(known=True)
    nothing = np.zeros((log.n_transitions, 1))
    blind = Log.from_arrays(
        nothing, log.actions, log.rewards, nothing,
        episode=range(log.n_transitions), propensity=log.propensity,
    )  # fmt: skip
    with pytest.warns(CoverageWarning, match="propensity 1"):
        estimate = evaluate(blind, second)
    assert (estimate.verdict.word, estimate.verdict.reasons) == ("cannot tell", ("overlap",))
