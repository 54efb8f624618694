"""The storage world: known values to the cent, replay against brute force, logs step by step."""

from dataclasses import dataclass
from datetime import date

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples.storm import storage
from examples.storm.prices import HUBS, read_prices
from examples.storm.storage import BEHAVIOUR, CANDIDATES, Schedule
from tailproof.errors import LogError, PolicyError
from tailproof.policies.forms import Uniform, action_probabilities

SELECTIONS = (
    {},
    {"storm": False},
    {"year": 2021},
    {"year": 2021, "storm": False},
    {"year": 2022},
)
# $/day over all five hubs: all days, without the storm, 2021, 2021 without the storm, 2022.
KNOWN = {
    "night>evening": (66.97, 71.12, 38.52, 46.22, 95.34),
    "night>afternoon": (67.15, 98.42, 8.34, 70.26, 125.80),
    "midday>evening": (25.58, 63.40, -35.65, 39.50, 86.63),
    "two-cycle": (63.96, 84.49, 11.33, 51.63, 116.45),
    "night>late": (17.83, 36.06, -13.18, 23.02, 48.75),
    "night>morning": (35.33, 24.27, 36.64, 14.25, 34.03),
    "dispatcher": (67.61, 92.53, 18.16, 67.43, 116.93),
}


@dataclass(frozen=True)
class Table:
    """Any policy over (hour, level), as a table of probabilities (24, 3, 3)."""

    table: np.ndarray

    def probabilities(self, states):
        hour, level = states.astype(int).T
        return self.table[hour, level]


def random_policy(seed):
    return Table(np.random.default_rng(seed).dirichlet([0.5, 0.5, 0.5], size=(24, 3)))


def step(level, action):
    """Say what an action does, case by case: the level after it and the MWh sold."""
    if action == 0 and level < 2:
        return level + 1, -1 / 0.93
    if action == 2 and level > 0:
        return level - 1, 0.93
    return level, 0.0


def value_by_recursion(policy, price):
    """Return V(0, empty) of one day by backward induction."""
    values = [0.93 * level * price[23] for level in range(3)]
    for hour in reversed(range(24)):
        states = np.array([[hour, level] for level in range(3)], dtype=float)
        law = action_probabilities(policy, states, 3)
        now = []
        for level in range(3):
            outcomes = [step(level, action) for action in range(3)]
            now.append(
                sum(
                    p * (price[hour] * sold + values[after])
                    for p, (after, sold) in zip(law[level], outcomes, strict=True)
                )
            )
        values = now
    return values[0]


@pytest.mark.parametrize("name", KNOWN)
def test_exact_values_are_the_known_ones_to_the_cent(name):
    values = [storage.exact_value(CANDIDATES[name], **chosen) for chosen in SELECTIONS]
    assert [round(value, 2) for value in values] == list(KNOWN[name])


def test_the_candidates_are_the_known_seven():
    assert list(CANDIDATES) == list(KNOWN)


def test_best_candidate_of_each_hub_in_2022():
    best = [
        max(storage.exact_value(policy, hubs=[hub], year=2022) for policy in CANDIDATES.values())
        for hub in HUBS
    ]
    assert round(float(np.mean(best)), 1) == 127.7


@pytest.mark.parametrize(("power", "share"), [(1, 0.54), (2, 0.98)])
def test_nine_storm_days_carry_most_of_the_logged_rewards(power, share):
    prices = read_prices()
    occupancy, size = np.eye(3)[0], np.zeros(24)  # size[h] = E|MWh sold at h|^power
    for hour in range(24):
        states = np.array([[hour, level] for level in range(3)], dtype=float)
        joint = occupancy[:, None] * BEHAVIOUR.probabilities(states)
        occupancy = np.zeros(3)
        for (level, action), mass in np.ndenumerate(joint):
            after, sold = step(level, action)
            occupancy[after] += mass
            size[hour] += mass * abs(sold + 0.93 * after * (hour == 23)) ** power
    total = np.abs(prices.dollars) ** power @ size  # (5, 729)
    assert round(float(prices.storm.mean()), 3) == 0.012
    assert round(float(total[:, prices.storm].sum() / total.sum()), 2) == share


@settings(max_examples=25, deadline=None)
@given(seed=st.integers(0, 2**32), day=st.integers(0, 728), hub=st.integers(0, 4))
def test_replay_of_any_policy_is_backward_induction(seed, day, hub):
    policy, prices = random_policy(seed), read_prices()
    expected = value_by_recursion(policy, prices.dollars[hub, day])
    assert storage.replay(policy, prices)[hub, day] == pytest.approx(expected, rel=1e-9, abs=1e-9)


def test_holding_all_day_earns_nothing():
    assert not storage.replay(Schedule((), ()), read_prices()).any()


def test_what_is_left_at_midnight_is_sold():
    prices = read_prices()
    price = prices.dollars
    values = storage.replay(Schedule(charge=(3, 4, 5), discharge=()), prices)
    by_hand = -(price[:, :, 3] + price[:, :, 4]) / 0.93 + 2 * 0.93 * price[:, :, 23]
    assert values == pytest.approx(by_hand)


def test_constant_prices_only_lose_energy():
    flat = storage.Prices(("flat",), read_prices().days[:1], np.full((1, 1, 24), 100.0))
    value = storage.replay(CANDIDATES["night>evening"], flat)
    assert value.item() == pytest.approx(2 * 100 * (0.93 - 1 / 0.93))


@pytest.mark.parametrize("name", CANDIDATES)
def test_a_log_of_a_deterministic_policy_earns_its_replay(name):
    log = storage.log("HB_WEST", 2021, 3, behaviour=CANDIDATES[name])
    returns = np.add.reduceat(log.rewards, log.starts[:-1])
    west = read_prices().select(hubs=["HB_WEST"], year=2021)
    assert returns == pytest.approx(storage.replay(CANDIDATES[name], west)[0])
    assert (log.propensity == 1).all()


def test_log_follows_the_battery_step_by_step():
    log = storage.log("HB_PAN", 2022, 5)
    price = read_prices().select(hubs=["HB_PAN"], year=2022).dollars[0]
    level = 0
    for row in range(24 * 40):
        day, hour = divmod(row, 24)
        level = 0 if hour == 0 else level
        assert log.states[row].tolist() == [hour, level]
        level, sold = step(level, log.actions[row])
        left = 0.93 * level if hour == 23 else 0.0
        assert log.rewards[row] == pytest.approx(price[day, hour] * (sold + left))
        expected = [24, 0] if hour == 23 else [hour + 1, level]
        assert log.next_states[row].tolist() == expected


def test_log_names_its_episodes_groups_and_actions():
    log = storage.log("HB_NORTH", 2021, 0)
    assert (log.n_episodes, log.n_transitions) == (364, 364 * 24)
    assert log.always_terminates
    assert int(log.terminated.sum()) == 364
    assert log.episode_ids[:2].tolist() == ["2021-01-02", "2021-01-03"]
    calendar = [date.fromisoformat(day).isocalendar() for day in log.episode_ids.tolist()]
    assert log.group_ids.tolist() == [f"{day.year}-W{day.week:02d}" for day in calendar]
    assert log.action_space.labels == ("charge", "hold", "discharge")
    assert log.state_names == ("hour", "level")


def test_the_storm_lies_in_two_weeks():
    log = storage.log("HB_NORTH", None, 0)
    storm = (log.episode_ids >= "2021-02-12") & (log.episode_ids <= "2021-02-20")
    assert set(log.group_ids[storm].tolist()) == {"2021-W06", "2021-W07"}
    assert log.n_episodes == 729
    assert storage.log("HB_NORTH", None, 0, storm=False).n_episodes == 720


def test_propensities_are_those_of_the_behaviour_and_its_frequencies():
    log = storage.log("HB_SOUTH", 2022, 1)
    law = BEHAVIOUR.probabilities(log.states)
    assert (log.propensity == law[np.arange(len(law)), log.actions]).all()
    assert sorted(set(log.propensity.round(12).tolist())) == pytest.approx([1 / 6, 2 / 3])
    followed = storage.DISPATCHER(log.states) == log.actions
    error = np.sqrt(2 / 9 / len(followed))
    assert abs(followed.mean() - 2 / 3) < 5 * error


def test_seeds_and_hubs_draw_their_own_actions():
    first = storage.log("HB_NORTH", 2022, 4)
    assert (storage.log("HB_NORTH", 2022, 4).rewards == first.rewards).all()
    for other in (storage.log("HB_NORTH", 2022, 5), storage.log("HB_SOUTH", 2022, 4)):
        assert 0.3 < (other.actions == first.actions).mean() < 0.7  # one half by chance


def test_unknown_hub_names_the_known_ones():
    with pytest.raises(LogError, match=r"no hub 'HB_EAST'.*Choose from HB_HOUSTON, HB_NORTH"):
        storage.log("HB_EAST", 2021, 0)


def test_unknown_year_names_the_known_ones():
    with pytest.raises(LogError, match=r"no prices of the year 2023. Choose one of 2021, 2022"):
        storage.exact_value(BEHAVIOUR, year=2023)


def test_a_schedule_cannot_do_both():
    with pytest.raises(PolicyError, match=r"different hours. Got \[4\] in both"):
        Schedule(charge=(3, 4), discharge=(4, 5))


@pytest.mark.parametrize("hour", [-1, 24])
def test_a_schedule_keeps_to_the_day(hour):
    with pytest.raises(PolicyError, match=rf"from 0 to 23. Got \[{hour}\]"):
        Schedule(charge=(hour,), discharge=())


def test_a_policy_needs_three_actions():
    with pytest.raises(PolicyError, match=r"shape \(72, 3\).*Got \(72, 2\)"):
        storage.replay(Uniform(2), read_prices())
