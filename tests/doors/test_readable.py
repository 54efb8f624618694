"""A rule is shown with what its leaves earn, and any policy has a small tree close to it."""

import numpy as np
import pytest

from tailproof import Learned, Log, learn, read_log
from tailproof.doors.careful import CarefulLearning, Form
from tailproof.doors.readable import JudgedRule
from tailproof.errors import MethodError
from tailproof.profile.profile import LogProfile
from tailproof.report.rule import rule_lines


def shop(rows, seed=0, noise=0.5):
    """Return a log in which a voucher earns 2 above the age of 50 in the north, and costs 1."""
    rng = np.random.default_rng(seed)
    age, offer = rng.integers(20, 80, rows), rng.integers(0, 2, rows)
    region = rng.choice(["north", "south"], rows)
    gain = np.where((age > 50) & (region == "north"), 2.0, -1.0)
    table = {
        "age": age,
        "region": region,
        "action": np.where(offer == 1, "voucher", "none"),
        "reward": offer * gain + noise * rng.normal(size=rows),
    }
    return read_log(table, state=["age", "region"])


def test_leaves_have_their_own_value_and_gain():
    learned = learn(shop(3_000), method="policy-tree", gamma=0.0, holdout=0.5)
    judged = learned.judge_rule()
    assert sum(leaf.rows for leaf in judged.leaves) == 1_500
    assert sum(leaf.share for leaf in judged.leaves) == pytest.approx(1)
    for leaf in judged.leaves:
        truth = 2.0 if leaf.action == "voucher" else 0.0
        assert leaf.value == pytest.approx(truth, abs=0.15)
        # half of the rows were logged with a voucher already
        gain = 1.0 if leaf.action == "voucher" else 0.5
        assert leaf.segment.interval.low < leaf.segment.gain.value < leaf.segment.interval.high
        if len(leaf.conditions) == 2:
            assert leaf.segment.gain.value == pytest.approx(gain, abs=0.25)
    total = sum(leaf.share * leaf.segment.gain.value for leaf in judged.leaves)
    assert total == pytest.approx(learned.evaluate().estimate.gain.value, rel=0.1)
    assert judged.sentence == ""
    assert len(judged.to_frame()) == len(judged.leaves)


def test_one_leaf_is_the_whole_answer_and_has_rows_of_the_file():
    learned = learn(shop(600), method="constant", gamma=0.0, holdout=0.5)
    copied = learned.held_out.take(np.repeat(np.arange(300), 3))  # as weights make them
    (leaf,) = learned.judge_rule(copied).leaves
    assert (leaf.rows, leaf.share, leaf.segment) == (300, 1.0, None)


def test_conditions_say_nothing_twice():
    learned = learn(shop(3_000), method="policy-tree", gamma=0.0)
    for conditions, _ in learned.rule.leaves():
        columns = [each.split()[0] for each in conditions]
        assert len(columns) == len(set(columns))
    lines = rule_lines(JudgedRule.unjudged(learned.rule))
    assert sum(leaf is not None for _, _, leaf in lines) == len(learned.rule.leaves())


def test_a_policy_without_a_rule_has_a_close_tree(tmp_path):
    learned = learn(shop(3_000), method="policy-scores", gamma=0.0, holdout=0.5)
    assert not learned.has_rule
    judged = learned.judge_rule()
    assert 0.8 < judged.agreement <= 1
    assert 0.8 < judged.share_of_gain < 1.3
    assert f"{100 * judged.agreement:.0f} %" in judged.sentence
    simple = learned.readable()
    assert simple.has_rule
    simple.save(tmp_path / "simple.tailproof")
    again = Learned.load(tmp_path / "simple.tailproof")
    states = learned.held_out.states
    assert np.array_equal(again.policy(states), simple.policy(states))
    learned.save(tmp_path / "full.tailproof")
    with pytest.raises(MethodError):  # the rows that taught it are gone
        Learned.load(tmp_path / "full.tailproof").readable()


def test_readable_replaces_what_is_learned():
    learned = learn(shop(1_000), method="policy-scores", gamma=0.0, readable=True)
    assert learned.has_rule
    assert "the same action in" in learned.reasons[-1]


def test_careful_learning_judges_the_tree_and_not_what_it_stands_for(tabular):
    log = tabular.log(episodes=40, steps=5, seed=0)
    taught = []

    def fit(task, method):
        taught.append(learn(task.log, method=method, gamma=0.5))
        return taught[-1]

    careful = CarefulLearning(
        profile=LogProfile(log),
        gamma=0.5,
        seed=0,
        holdout=0.25,
        at_least=0.9,
        fit=fit,
        advance=lambda: None,
        form=Form(readable=True),
    )
    from tailproof.critics.task import Task
    from tailproof.methods.catalogue import as_method

    task = Task(log, 0.5, None, log.first_states, seed=0)
    assert careful.candidate(task, as_method("fqi")).has_rule
    assert not taught[0].has_rule


def test_states_of_arrays_have_a_rule_by_their_names():
    rng = np.random.default_rng(0)
    states, actions = rng.normal(size=(500, 2)), rng.integers(2, size=500)
    log = Log.from_arrays(
        states, actions, actions * states[:, 0], states, episode=range(500), state_names=("a", "b")
    )
    learned = learn(log, method="policy-tree", gamma=0.0)
    assert "a ≤" in learned.rule.text()


def test_a_rule_is_drawn_with_its_actions():
    from matplotlib.figure import Figure

    learned = learn(shop(1_000), method="policy-tree", gamma=0.0, holdout=0.3)
    axes = learned.plot(ax=Figure().add_subplot())
    written = [each.get_text() for each in axes.texts]
    for leaf in learned.judge_rule().leaves:
        assert any(text.startswith(f"→ {leaf.action}, ") for text in written)
        assert any(leaf.conditions[-1] in text for text in written)
