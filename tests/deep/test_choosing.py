"""Learning from continuous actions without naming a method, and from the command line."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tailproof import Continuous, Log, evaluate, learn, load_policy, method
from tailproof.cli import app
from tailproof.deep import choosing
from tailproof.deep.choosing import Budget, Gain, candidates
from tailproof.report.answers import learned_answer

SMALL = Budget(
    min_steps=1_200,
    max_steps=1_200,
    critic_hidden=(16,),
    policy_hidden=(64, 64),
    fqe_hidden=(16,),
    folds=5,
    fqe_steps=400,
)


def arrays(*, episodes=60, steps=20, noise=None, good=0.34, seed=0):
    """Return rollouts of two authors: a third of the episodes follows the state, and earns more."""
    rng = np.random.default_rng(seed)
    n = episodes * steps
    states = rng.standard_normal((n, 2))
    author = np.repeat(rng.random(episodes) < good, steps)
    actions = np.clip(np.where(author, 1, -1) * 0.8 * np.tanh(states[:, 0]), -1, 1)[:, None]
    rewards = 1 - (actions[:, 0] - 0.8 * np.tanh(states[:, 0])) ** 2
    rewards = rewards + 0.05 * rng.standard_normal(n) + (0 if noise is None else noise(rng, n))
    ends = np.arange(n) % steps == steps - 1
    return {
        "observations": states,
        "actions": actions,
        "rewards": rewards,
        "terminals": np.zeros(n, bool),
        "timeouts": ends,
        "final_observations": rng.standard_normal((episodes, 2)),
    }


def make_log(**given):
    from tailproof.io import read_rollouts

    return read_rollouts(arrays(**given))


def test_tails_choose_the_candidates():
    light, rank, reason = candidates(make_log(), SMALL)
    assert rank == "sum"
    assert list(light) == ["bc-neural", "percent-bc-neural", "iql"]
    assert light["percent-bc-neural"].base.rank == "sum"
    assert "light" in reason
    heavy, rank, reason = candidates(make_log(noise=lambda rng, n: rng.standard_cauchy(n)), SMALL)
    assert rank == "median"
    assert list(heavy) == ["bc-neural", "percent-bc-neural", "room-vm-iql"]
    assert heavy["percent-bc-neural"].base.rank == "median"
    assert heavy["room-vm-iql"].folds == 5
    assert "heavy" in reason


def test_a_bound_is_an_order_statistic():
    five = np.array([3.0, -1e9, 1.0, 2.0, 1e9])
    assert Gain(five, 0.8).bound == 1.0  # at 81 %, the second smallest of five
    assert Gain(five, 0.95).bound == -1e9
    assert Gain(five, 0.99).bound == -np.inf  # five folds cannot know that
    assert Gain(five, 0.8).value == 2.0
    assert (
        Gain(np.array([np.nan, 4.0, 3.0, 5.0]), 0.8).bound == 3.0
    )  # of a fold that failed: nothing


def test_what_is_too_good_to_be_true_is_not_believed():
    three = np.array([3.0, 4.0, 5.0])
    assert Gain(three, 0.8, limit=10.0).credible
    assert not Gain(three, 0.8, limit=2.0).credible
    assert "exceeds the median one by 2 only" in str(Gain(three, 0.8, limit=2.0))


def test_the_better_author_is_found_without_naming_a_method(monkeypatch):
    monkeypatch.setattr(choosing, "Budget", lambda: SMALL)
    log = make_log()
    learned = learn(log, gamma=0.5)
    wanted = 0.8 * np.tanh(log.states[:, 0])
    assert np.abs(learned.policy(log.states)[:, 0] - wanted).mean() < 0.25
    assert learned.held_out.n_episodes == 12
    assert "Chosen: " in learned.reasons[-1]
    assert learned.improves
    found = evaluate(learned.held_out, learned.policy, gamma=0.5)
    headline, *_ = learned_answer(learned, found)
    assert (headline.verdict, "better than imitating" in headline.text) == ("better", True)


def test_where_nothing_is_better_the_behaviour_is_kept(monkeypatch):
    monkeypatch.setattr(choosing, "Budget", lambda: SMALL)
    log = make_log(good=1.0, noise=lambda rng, n: rng.standard_normal(n))
    learned = learn(log, gamma=0.5)
    wanted = 0.8 * np.tanh(log.states[:, 0])
    assert np.abs(learned.policy(log.states)[:, 0] - wanted).mean() < 0.15
    assert learned.improves is False
    found = evaluate(learned.held_out, learned.policy, gamma=0.5)
    headline, *_ = learned_answer(learned, found)
    assert headline.verdict == "no difference shown"
    assert "more" not in headline.text  # whatever the imitation seems to gain


@pytest.mark.parametrize("shift", [-1.0, 0.0, 1.0])
def test_a_candidate_is_better_or_not_but_never_better_by_less_than_nothing(shift):
    said = str(Gain(np.array([-0.5, 0.1, 0.5, 0.2, 0.3]) + shift, 0.95))
    assert said.startswith("better than cloning by" if shift >= 0 else "not better than cloning")
    assert " by -" not in said
    assert ("perhaps worse by 0.5" in said) == (shift == 0.0)


def test_too_few_folds_are_said_to_be_too_few():
    assert str(Gain(np.array([0.1, 0.2, 0.3]), 0.95)).endswith(
        "but 3 folds are too few for a confidence of 0.95"
    )


def test_a_higher_confidence_is_asked_of_continuous_actions_too(monkeypatch):
    asked = []
    monkeypatch.setattr(choosing, "Budget", lambda: SMALL)
    monkeypatch.setattr(
        choosing,
        "Gain",
        lambda found, level, limit: asked.append(level) or Gain(found, level, limit),
    )
    learn(make_log(good=0.0), gamma=0.5, at_least=0.999)
    assert asked == [0.999]


def right(states):
    return 0.8 * np.tanh(states[:, :1])


def middling(states):
    return -0.3 * np.tanh(states[:, :1])


def judged(log, *, rank="sum", policy=right):
    taught, held_out = log.take(np.arange(0, 90)), log.take(np.arange(90, 120))
    return choosing.similarity_test(
        policy,
        middling,
        taught,
        held_out,
        rank=rank,
        level=0.95,
        rng=np.random.default_rng(0),
    )


def test_episodes_like_the_imitated_ones_tell_what_imitating_them_earns():
    log = make_log(episodes=120)
    found = judged(log)
    # The authors' rewards differ by E(1.6 tanh s)², about one a step.
    assert found.credible
    assert found.gain == pytest.approx(20 * (1 - 0.34), rel=0.4)
    heavy = make_log(episodes=120, noise=lambda rng, n: rng.standard_cauchy(n))
    assert judged(heavy, rank="median").credible
    assert not judged(log, policy=lambda states: -right(states)).credible  # the worse author


def test_rewards_that_say_nothing_recommend_nobody():
    log = make_log(episodes=120)
    nothing = judged(log.with_rewards(np.zeros(log.n_transitions)))
    assert nothing.p_value == nothing.p_value_of_loss == 1.0
    assert not nothing.credible
    credible = [
        judged(
            log.with_rewards(np.random.default_rng(seed).standard_cauchy(log.n_transitions)),
            rank="median",
        ).credible
        for seed in range(100)
    ]
    assert sum(credible) <= 10  # 5 of 100 are expected by accident


def test_an_easy_start_is_no_merit():
    rng = np.random.default_rng(3)
    episodes, steps = 120, 20
    start = np.repeat(rng.standard_normal(episodes), steps)  # of which the rewards consist
    states = np.stack([start, rng.standard_normal(episodes * steps)], axis=1)
    log = Log.from_arrays(
        states,
        right(states),
        start,
        states,
        episode=np.repeat(np.arange(episodes), steps),
        action_space=Continuous(1, (-1.0,), (1.0,)),
    )

    def of_easy_starts(states):
        return np.where(states[:, :1] > 0, right(states), middling(states))

    assert judged(log, policy=of_easy_starts).p_value > 0.05


def test_rare_losses_that_robust_scores_do_not_see_speak_against():
    log = make_log(episodes=120)
    good = np.abs(log.actions[:, 0] - right(log.states)[:, 0]) < 0.1
    first = np.arange(log.n_transitions) % 20 == 0
    loses = log.with_rewards(log.rewards - 1e3 * (good & first))
    found = judged(loses, rank="median")
    assert found.p_value < 0.05
    assert not found.credible


def test_without_held_out_episodes_nothing_is_compared(monkeypatch):
    monkeypatch.setattr(choosing, "Budget", lambda: SMALL)
    learned = learn(make_log(), gamma=0.5, holdout=0.0)
    assert learned.reasons[-1] == "Nothing was held out to compare with."
    assert type(learned.method.base).__name__ == "BehaviourCloning"


def test_the_command_line_trains_judges_plays_and_saves(tmp_path):
    rng = np.random.default_rng(0)
    n = 400
    states = rng.uniform(-1, 1, (n, 3))
    np.savez(
        tmp_path / "pendulum.npz",
        observations=states,
        actions=np.clip(states[:, :1], -1, 1),
        rewards=rng.standard_normal(n),
        terminals=np.zeros(n, bool),
        timeouts=np.arange(n) % 20 == 19,
        final_observations=np.zeros((20, 3)),
    )
    words = [
        *("learn", str(tmp_path / "pendulum.npz"), "--method", "percent-bc", "--gamma", "0.5"),
        *("--steps", "60", "--hidden", "8,8", "--device", "cpu", "--evaluate", "Pendulum-v1"),
        *("--episodes", "2", "--checkpoint", str(tmp_path / "saved"), "--json"),
        *("--out", str(tmp_path / "policy")),
    ]
    result = CliRunner().invoke(app, words)
    assert result.exit_code in (0, 3, 4), result.stderr
    found = json.loads(result.stdout)
    assert found["played"]["episodes"] == len(found["played"]["returns"]) == 2
    assert found["played"]["mean_return"] < 0
    assert found["held_out"]["episodes"] == 6
    assert load_policy(tmp_path / "policy")(states).shape == (n, 1)
    assert list((tmp_path / "saved" / "training").rglob("step-*"))
    reported = CliRunner().invoke(app, [*words, "--report", str(tmp_path / "page.html")])
    assert reported.exit_code in (0, 3, 4), reported.stderr
    assert "What it learned" in (tmp_path / "page.html").read_text(encoding="utf-8")
    for mistake, said in (
        (["--hidden", "wide"], "--hidden takes widths such as 256,256"),
        (["--device", "abacus"], "device must be one that torch has here"),
        (["--evaluate", "Nowhere-v1"], "no world or Gymnasium environment"),
        (["--evaluate", "CartPole-v1"], "name the one that the log comes from"),
        (["--out", str(tmp_path / "none" / "policy")], "there is no folder"),
    ):
        wrong = CliRunner().invoke(app, [*words[:6], *mistake])
        assert wrong.exit_code == 2, wrong.stderr
        assert said in " ".join(wrong.stderr.split())


def test_policies_of_continuous_actions_are_evaluated_without_naming_a_method():
    log = make_log(good=1.0)
    found = evaluate(log, right, gamma=0.5)
    assert found.value == pytest.approx(1 / (1 - 0.5), rel=0.1)  # it earns 1 a step
    assert found.choice.gain.value == pytest.approx(found.value - found.choice.logged_value)
    learned = learn(log, method=method("percent-bc", model="linear"), gamma=0.5, holdout=0.3)
    assert learned.evaluate().estimate.value == pytest.approx(2, rel=0.15)


def test_methods_lists_networks_without_loading_them():
    import subprocess
    import sys

    code = (
        "import sys; from typer.testing import CliRunner; from tailproof.cli import app\n"
        "out = CliRunner().invoke(app, ['methods', '--json']).stdout\n"
        "import json; rows = json.loads(out)['methods']\n"
        "assert rows['room-vm-iql']['for'] == 'learn' and rows['neural-fqe']['for'] == 'evaluate'\n"
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_log_without_bounds_is_learned_from_too():
    rng = np.random.default_rng(1)
    states = rng.standard_normal((60, 2))
    log = Log.from_arrays(
        states,
        3 * states[:, :1],
        rng.standard_normal(60),
        states,
        episode=np.arange(60) // 10,
        action_space=Continuous(1),
    )
    learned = learn(log, method=method("percent-bc", model="linear", top=1.0), gamma=0.5)
    np.testing.assert_allclose(learned.policy(states), 3 * states[:, :1], atol=0.01)
