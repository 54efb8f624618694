import numpy as np
import pandas as pd
import pytest
from scipy.stats import binom

from tailproof import Log, Returns, evaluate, method, returns_under
from tailproof.errors import HorizonWarning, LevelError, LogError
from tailproof.io import read_log
from tailproof.robust.intervals import tail_mean, weighted_quantile

N = 600


def made(n=N, seed=0, *, propensity=True, group=None):
    """An A/B test: action 1 has e times the spend; sessions go with spend."""
    rng = np.random.default_rng(seed)
    states, actions = rng.normal(size=(n, 1)), rng.integers(2, size=n)
    own = rng.normal(size=n)
    log = Log.from_arrays(
        states,
        actions,
        np.exp(actions + own),
        states,
        episode=range(n),
        propensity=np.full(n, 0.5) if propensity else None,
        group=group,
    )
    return log, 1.0 + rng.poisson(np.exp(0.3 * own))


def second(states):
    return np.ones(len(states), int)


def served_to_all(log, rows):
    """Return these rows as a log whose action was certain."""
    return Log.from_arrays(
        log.states[rows],
        log.actions[rows],
        log.rewards[rows],
        log.next_states[rows],
        episode=range(int(rows.sum())),
        propensity=np.ones(int(rows.sum())),
        action_space=log.action_space,
    )


class AsLogged:
    def probabilities(self, states):
        return np.full((len(states), 2), 0.5)


def test_the_logged_policy_has_the_logged_quantiles():
    log, _ = made()
    found = returns_under(log, AsLogged())
    ones = np.ones(N)
    for q in (0.1, 0.5, 0.9):
        assert found.quantile(q).value == weighted_quantile(log.rewards, ones, q)
        assert found.cvar(q).value == pytest.approx(tail_mean(log.rewards, ones, q)[0])


def test_only_rows_of_the_policy_count():
    log, _ = made()
    chosen = served_to_all(log, log.actions == 1)
    whole, own = (returns_under(each, second) for each in (log, chosen))
    assert whole.quantile(0.7) == own.quantile(0.7)
    assert whole.cvar(0.5).value == pytest.approx(own.cvar(0.5).value)


def test_best_and_worst_mirror_each_other():
    log, _ = made()
    turned = returns_under(log.with_rewards(-log.rewards), second)
    worst, best = turned.cvar(0.1), returns_under(log, second).cvar(0.1, upper=True)
    assert (best.low, best.value, best.high) == pytest.approx(
        (-worst.high, -worst.value, -worst.low)
    )


def test_intervals_hold_and_grow_with_the_level():
    truth, held = {"median": np.e, "ratio": None}, []
    truth["ratio"] = np.exp(1.5) / (1 + np.exp(0.045))
    for seed in range(150):
        log, sessions = made(300, seed)
        found = returns_under(log, second, per=sessions)
        median, ratio = found.quantile(0.5), found.ratio()
        wide = found.quantile(0.5, level=0.99)
        assert wide.low <= median.low <= median.value <= median.high <= wide.high
        held.append(
            [
                median.low <= truth["median"] <= median.high,
                ratio.low <= truth["ratio"] <= ratio.high,
            ]
        )
    assert (binom.cdf(np.sum(held, axis=0), 150, 0.9) > 1e-3).all()


def test_a_ratio_to_something_proportional_is_nearly_known():
    log, _ = made()
    found = returns_under(log, second, per=2 * log.rewards).ratio()
    assert found.value == pytest.approx(0.5)
    assert (found.low, found.high) == pytest.approx((0.5, 0.5), rel=0.05)  # Fieller's were exact
    mean = evaluate(log, second, method="snips").interval(0.9)
    assert found.high - found.low < 0.2 * (mean.high - mean.low) / log.rewards.mean()


def test_a_ratio_to_one_is_the_mean():
    log, _ = made()
    found = returns_under(log, second, per=np.ones(N)).ratio(level=0.8)
    mean = evaluate(log, second, method="snips")
    assert found.value == pytest.approx(mean.value)
    ends = mean.interval(0.8)
    assert (found.low, found.high) == pytest.approx((ends.low, ends.high), rel=0.01)


def test_copies_of_rows_in_one_group_do_not_shorten_an_interval():
    log, sessions = made(300)
    copies = np.repeat(np.arange(300), 4)
    copied = log.take(copies).with_groups(copies)
    alone = returns_under(log, second, per=sessions)
    grouped = returns_under(copied, second, per=sessions)
    for ask in (
        lambda found: found.quantile(0.5),
        lambda found: found.cvar(0.3),
        lambda found: found.ratio(),
    ):
        one, many = ask(alone), ask(grouped)
        assert many.value == pytest.approx(one.value)
        assert many.high - many.low == pytest.approx(one.high - one.low, rel=0.1)


def test_a_cap_shifts_the_mean_as_evaluating_capped_rewards_does():
    log, _ = made()
    shift = returns_under(log, second).shift_by_cap("p90")
    plain, capped = (
        evaluate(log, second, method=method("snips", clip=clip)).value for clip in (0.0, "p90")
    )
    assert shift < 0
    assert plain + shift == pytest.approx(capped)


def test_a_cap_is_the_same_for_a_log_on_disk(tmp_path):
    log, _ = made(200)
    lazy = read_log(log.to_parquet(tmp_path / "log.parquet"), lazy=True)
    capped = method("lstd", clip="p90")
    assert str(capped) == "LSTD, rewards winsorised at p90"
    one, other = (evaluate(each, second, method=capped).value for each in (log, lazy))
    assert one == pytest.approx(other)
    assert one < evaluate(log, second, method="lstd").value


def test_propensities_that_nobody_logged_are_estimated_and_said():
    log, _ = made(propensity=False)
    found = returns_under(log, second).quantile(0.5)
    assert "estimated propensities" in found.note
    assert found.low <= np.e <= found.high


def chain(seed=0, *, episodes=400, propensity=True, terminated=True):
    """Two steps; the reward of the second is doubled if both actions are 1."""
    rng = np.random.default_rng(seed)
    actions = rng.integers(2, size=2 * episodes)
    both = np.repeat(actions.reshape(-1, 2).all(axis=1), 2)
    last = np.arange(2 * episodes) % 2 == 1
    rewards = np.where(last, rng.exponential(size=2 * episodes) * (1 + both), 0.0)
    return Log.from_arrays(
        last.astype(float),
        actions,
        rewards,
        np.ones(2 * episodes),
        episode=np.repeat(np.arange(episodes), 2),
        terminated=last if terminated else None,
        propensity=np.full(2 * episodes, 0.5) if propensity else None,
    )


def test_episodes_are_weighed_by_all_their_actions():
    held = []
    for seed in range(60):
        found = returns_under(chain(seed), second, gamma=0.5)
        assert set(found.weights) == {0.0, 4.0}
        median = found.quantile(0.5)
        held.append(median.low <= np.log(2) <= median.high)  # 0.5 · 2 · median of exp(1)
    assert binom.cdf(sum(held), 60, 0.9) > 1e-3


def test_episodes_without_propensities_are_refused_in_a_clear_sentence():
    with pytest.raises(LogError, match="product of π/μ over its steps, and a critic knows means"):
        returns_under(chain(propensity=False), second, gamma=0.5)


def test_episodes_that_were_cut_off_are_said():
    with pytest.warns(HorizonWarning, match="cut off"):
        found = returns_under(chain(terminated=False), second, gamma=0.5)
    assert "cut off" in found.quantile(0.5).note


def test_a_mapped_log_gives_the_same_distribution(tmp_path):
    log, _ = made(60)
    mapped = read_log(log.to_parquet(tmp_path / "log.parquet"), lazy=True)
    here, there = (returns_under(each, second).quantile(0.5).value for each in (log, mapped))
    assert here == there


def test_questions_without_an_answer_say_why():
    log, sessions = made()
    found = returns_under(log, second)
    assert isinstance(found, Returns)
    with pytest.raises(LogError, match="pass per= to returns_under"):
        found.ratio()
    for ask in (found.quantile, found.cvar):
        with pytest.raises(LevelError, match="q must lie strictly between 0 and 1"):
            ask(1.5)
    with pytest.raises(LogError, match="average more than 0"):
        returns_under(log, second, per=-sessions).ratio()
    with pytest.raises(LogError, match="No logged episode has all actions"):
        returns_under(served_to_all(log, log.actions == 0), second)
    with pytest.raises(LogError, match="per"):
        returns_under(log, second, per=sessions[:-1])
    with pytest.raises(LogError, match="no table to read it from"):
        returns_under(log, second, per="sessions")


def test_a_ratio_by_the_name_of_a_column():
    log, sessions = made()
    table = {
        "x": log.states[:, 0],
        "action": log.actions,
        "reward": log.rewards,
        "propensity": log.propensity,
        "sessions": sessions,
    }
    read = read_log(table, state="x")
    part = np.arange(100, 400)
    by_name, by_hand = (
        returns_under(read.take(part), second, per=per).ratio() for per in ("sessions", sessions)
    )
    assert by_name == by_hand
    with pytest.raises(LogError, match="Did you mean 'sessions'"):
        returns_under(read, second, per="session")


def test_a_tail_of_equal_returns_says_that_its_interval_is_a_guess():
    log, _ = made()
    zeros = returns_under(log.with_rewards(np.where(log.rewards > 4, log.rewards, 0.0)), second)
    assert "is a guess" in zeros.cvar(0.05).note
    assert zeros.quantile(0.05).value == 0


def test_a_measured_number_prints_its_point():
    log = Log.from_arrays([0.0] * 50, [0, 1] * 25, np.arange(50.0), [0.0] * 50, episode=range(50))
    found = returns_under(log, "always:1").quantile(0.5)
    assert str(found).startswith(f"{found.name} {found.value:.4g}, {found.low:.4g} to ")


def test_numbers_by_row_stand_in_the_order_of_the_table():
    """As policies by row do, whatever order the log puts its rows in."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "user": rng.permutation(200) // 2,
            "t": rng.permutation(200),
            "x": rng.normal(size=200),
            "action": rng.integers(2, size=200),
            "reward": rng.exponential(size=200),
            "sessions": rng.integers(1, 9, 200),
            "propensity": 0.5,
        }
    )
    log = read_log(table, state="x", episode="user", step="t", terminated=True)
    wanted = returns_under(log, second, per="sessions", gamma=0.9).ratio().value
    for per in (table["sessions"], table["sessions"].to_numpy()):
        assert returns_under(log, second, per=per, gamma=0.9).ratio().value == wanted
    with pytest.raises(LogError, match="other row labels"):
        returns_under(log, second, per=table["sessions"].sample(frac=1, random_state=0), gamma=0.9)
