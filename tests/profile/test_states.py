import numpy as np
import pytest

from tailproof import Log, evaluate, learn
from tailproof.errors import StateWarning
from tailproof.policies.forms import Always
from tailproof.profile.checks import misleading_states


def one_step_log(rng, code=None):
    states = np.column_stack([rng.integers(4, size=600), rng.normal(50, 10, 600)]).astype(float)
    if code is not None:
        states[:12, 1] = code
    actions = rng.integers(2, size=600)
    return Log.from_arrays(
        states, actions, actions + rng.normal(size=600), states,
        episode=range(600), state_names=("site", "age"),
    )  # fmt: skip


@pytest.mark.parametrize("code", [-999.0, 9999.0])
def test_codes_for_missing_values_are_pointed_out(code: float, rng):
    coded = one_step_log(rng, code)
    with pytest.warns(StateWarning, match=rf"column age is {code:.0f} in 12 of 600 rows"):
        estimate = evaluate(coded, Always(1, n_actions=2))
    assert (estimate.cautions[-1].code, estimate.cautions[-1].voids) == ("missing_code", False)
    assert misleading_states(one_step_log(rng)) == ()
    with pytest.warns(StateWarning, match="column age"):
        learn(coded, method="constant", gamma=0.0)


def test_numbers_that_only_look_like_codes_are_left_alone():
    rng = np.random.default_rng(1)
    income = np.append(rng.uniform(0, 90_000, 300), [9_999.0] * 3)
    level = np.append(rng.normal(0, 800, 302), [-999.0])
    states = np.column_stack([income, level])
    log = Log.from_arrays(states, np.zeros(303, int), income, states, episode=range(303))
    assert misleading_states(log) == ()


def paid_at_the_end(rng, *, counted: bool, episodes: int = 300, steps: int = 5) -> Log:
    """The last reward is the number of 1s taken so far, times noise; `counted`: the state holds it."""
    actions = rng.integers(2, size=(episodes, steps))
    before = np.cumsum(actions, axis=1) - actions
    x = rng.normal(size=(episodes, steps))
    states = np.stack(
        [x, before if counted else x**2, np.tile(range(steps), (episodes, 1))], axis=2
    )
    rewards = np.zeros((episodes, steps))
    rewards[:, -1] = actions.sum(axis=1) * (1 + rng.pareto(2.5, size=episodes))
    states = states.reshape(-1, 3)
    return Log.from_arrays(
        states, actions.ravel(), rewards.ravel(), np.roll(states, -1, axis=0),
        episode=np.repeat(range(episodes), steps),
        terminated=np.tile(np.arange(steps) == steps - 1, episodes),
    )  # fmt: skip


def test_a_reward_at_the_end_for_what_the_state_forgot_is_pointed_out(rng):
    forgets, counts = (paid_at_the_end(rng, counted=counted) for counted in (False, True))
    assert misleading_states(counts) == ()
    with pytest.warns(StateWarning, match="earlier actions explain"):
        estimate = evaluate(forgets, Always(1), gamma=1.0)
    assert estimate.verdict.reasons == ("hidden_state",)
    truth = 5 * (1 + 1 / 1.5)
    interval = evaluate(counts, Always(1), gamma=1.0).interval(0.99)
    assert interval.low <= truth <= interval.high


def test_rewards_at_every_step_are_not_looked_at(rng):
    log = paid_at_the_end(rng, counted=False)
    assert misleading_states(log.with_rewards(log.rewards + 1)) == ()


@pytest.mark.parametrize("lengths", [(1, 1, 2), (2, 2, 1), (3, 2, 2, 4)])
def test_a_handful_of_episodes_says_nothing_about_what_the_state_forgot(lengths, rng):
    episode = np.repeat(range(len(lengths)), lengths)
    last = np.append(np.diff(episode) > 0, True)
    states = rng.normal(size=(len(episode), 1))
    log = Log.from_arrays(
        states, np.arange(len(episode)) % 2, np.where(last, states[:, 0], 0.0), states,
        episode=episode, terminated=last,
    )  # fmt: skip
    assert misleading_states(log) == ()
