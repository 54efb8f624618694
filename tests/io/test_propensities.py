"""Estimated propensities: what calibration undoes, who is fitted on whom, and what is reported."""

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow.parquet import write_table
from sklearn.base import BaseEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.tree import DecisionTreeClassifier

from tailproof import Column, Log, evaluate
from tailproof.critics.behaviour import (
    calibration_error,
    estimate_propensities,
    with_estimated_propensities,
)
from tailproof.errors import LogError, PartitionError
from tailproof.io import read


def softmax(logits):
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    return powers / powers.sum(axis=1, keepdims=True)


def logged(n=4000, n_actions=3, seed=0, **more):
    """Return a bandit log and the true law of its actions, (n, A)."""
    rng = np.random.default_rng(seed)
    states = rng.normal(size=(n, 2))
    law = softmax(states @ rng.normal(size=(2, n_actions)))
    actions = (law.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    more = {"episode": np.arange(n)} | more
    log = Log.from_arrays(
        states, actions, rng.normal(size=n), states, action_space=n_actions, **more
    )
    return log, law


class Fixed(BaseEstimator):
    """A classifier that answers by a function of the state and learns nothing."""

    def __init__(self, answer=None):
        self.answer = answer

    def fit(self, states, actions):  # noqa: ARG002
        self.classes_ = np.unique(actions)
        return self

    def predict_proba(self, states):
        return self.answer(states)


class Recording(Fixed):
    """Keeps what it was fitted on and asked for."""

    seen: list

    def fit(self, states, actions):
        self.trained = states
        return super().fit(states, actions)

    def predict_proba(self, states):
        Recording.seen.append((self.trained, states))
        return np.full((len(states), len(self.classes_)), 1 / len(self.classes_))


def law_of(log, law):
    """Return the true law as a function of the state."""
    rows = {state.tobytes(): each for state, each in zip(log.states, law, strict=True)}
    return lambda states: np.stack([rows[state.tobytes()] for state in states])


def test_the_truth_is_left_alone():
    log, law = logged(20_000)
    report = estimate_propensities(log, classifier=Fixed(law_of(log, law)))
    truth = law[np.arange(len(law)), log.actions]
    assert np.abs(report.temperatures).max() == pytest.approx(1, abs=0.1)
    assert np.abs(report.values - truth).mean() < 0.01


@pytest.mark.parametrize("power", [0.5, 3.0])
def test_a_wrong_confidence_is_undone(power):
    log, law = logged(20_000)
    wrong = law**power / (law**power).sum(axis=1, keepdims=True)
    report = estimate_propensities(log, classifier=Fixed(law_of(log, wrong)))
    truth = law[np.arange(len(law)), log.actions]
    assert report.temperatures == pytest.approx([power] * 5, rel=0.15)
    assert np.abs(report.values - truth).mean() < 0.02
    assert report.calibration_error < report.raw_calibration_error / 2


def test_a_classifier_that_knows_nothing_gives_the_frequencies():
    log, _ = logged()
    even = Fixed(lambda states: np.full((len(states), 3), 1 / 3))
    report = estimate_propensities(log, classifier=even)
    frequency = np.bincount(log.actions) / len(log.actions)
    assert report.values == pytest.approx(frequency[log.actions], abs=0.03)
    assert report.log_loss == pytest.approx(report.baseline_log_loss, abs=1e-3)


def test_logistic_regression_finds_a_logistic_policy():
    log, law = logged()
    with_them, report = with_estimated_propensities(log)
    truth = law[np.arange(len(law)), log.actions]
    assert np.abs(with_them.propensity - truth).mean() < 0.02
    assert report.classifier == "LogisticRegression"
    assert report.log_loss < report.baseline_log_loss
    assert report.smallest == with_them.propensity.min()
    assert log.propensity is None
    assert (with_them.rewards == log.rewards).all()


def test_nobody_is_predicted_by_a_model_that_saw_their_group():
    n = 60
    log, _ = logged(n, 2, episode=np.arange(n) // 2, group=np.arange(n) // 6)
    Recording.seen = []
    estimate_propensities(log, classifier=Recording(), folds=4)
    group = {state.tobytes(): i // 6 for i, state in enumerate(log.states)}
    predicted = []
    for trained, asked in Recording.seen:
        groups = [{group[state.tobytes()] for state in states} for states in (trained, asked)]
        assert not groups[0] & groups[1]
        predicted.extend(state.tobytes() for state in asked)
    assert len(Recording.seen) == 4
    assert sorted(predicted) == sorted(group)


def test_the_calibration_of_a_fold_does_not_depend_on_its_own_actions():
    log, law = logged(300, 2)
    known = Fixed(law_of(log, law))
    before = estimate_propensities(log, classifier=known, folds=3)
    changed = log.actions.copy()
    changed[0] = 1 - changed[0]
    flipped = Log.from_arrays(
        log.states, changed, log.rewards, log.next_states, episode=log.episode_ids
    )
    after = estimate_propensities(flipped, classifier=known, folds=3)
    same = [a == b for a, b in zip(before.temperatures, after.temperatures, strict=True)]
    assert sum(same) == 1  # the fold of row 0


def test_zeros_are_raised_and_counted():
    log, _ = logged(600)
    report = estimate_propensities(log, classifier=DecisionTreeClassifier(random_state=0))
    assert report.raised > 0
    assert report.smallest > 0
    assert f"{report.raised} probabilities of 0 were raised" in report.describe()
    assert report.calibration_error < report.raw_calibration_error


def test_an_action_that_the_other_folds_never_saw_is_possible():
    log, _ = logged(100, 2)
    actions = np.zeros(100, dtype=int)
    actions[0] = 2
    log = Log.from_arrays(
        log.states, actions, log.rewards, log.next_states, episode=np.arange(100), action_space=4
    )
    report = estimate_propensities(log)
    assert 0 < report.values[0] < 0.1
    assert (report.values[1:] > 0.8).all()


def test_one_action_is_certain():
    log, _ = logged(50, 1)
    report = estimate_propensities(log)
    assert report.values == pytest.approx(1)
    assert report.baseline_log_loss == 0


def test_the_same_seed_gives_the_same_estimate():
    log, _ = logged(200)
    first, again, other = (estimate_propensities(log, seed=seed).values for seed in (1, 1, 2))
    assert (first == again).all()
    assert (first != other).any()


@pytest.mark.parametrize("name", ["logistic", "boosting", "forest"])
def test_named_classifiers(name):
    log, _ = logged(300, 2)
    report = estimate_propensities(log, classifier=name, folds=2)
    assert report.log_loss < report.baseline_log_loss
    assert report.folds == 2


def test_a_fit_that_did_not_converge_is_reported():
    log, _ = logged(200)
    report = estimate_propensities(log, classifier=LogisticRegression(max_iter=1))
    assert not report.converged
    assert "did not converge" in report.describe()


def test_the_description_says_that_they_are_estimated():
    log, _ = logged(200)
    said = estimate_propensities(log).describe()
    assert said.startswith("Propensities are estimated, not logged: LogisticRegression, cross-fit")


def test_what_cannot_be_estimated_is_said():
    log, _ = logged(30)
    with pytest.raises(LogError, match="classifier must be one of logistic, boosting, forest"):
        estimate_propensities(log, classifier="svm")
    with pytest.raises(LogError, match=r"at least 2 folds. Got 1"):
        estimate_propensities(log, folds=1)
    with pytest.raises(PartitionError, match="40 folds need at least 40 episodes"):
        estimate_propensities(log, folds=40)
    with pytest.raises(LogError, match=r"predict_proba must return a finite probability for each"):
        estimate_propensities(log, classifier=Fixed(lambda states: np.zeros((len(states), 9))))
    real = Log.from_arrays(
        log.states, log.states, log.rewards, log.next_states, episode=np.arange(30)
    )
    with pytest.raises(LogError, match="This needs discrete actions"):
        estimate_propensities(real)


@settings(max_examples=50, deadline=None)
@given(st.integers(1, 50), st.integers(1, 4), st.integers(0, 99))
def test_calibration_error_is_a_distance_that_ignores_the_order_of_actions(n, n_actions, seed):
    rng = np.random.default_rng(seed)
    law = rng.dirichlet(np.ones(n_actions), size=n)
    actions = rng.integers(0, n_actions, n)
    error = calibration_error(law, actions)
    assert 0 <= error <= 1 + 1e-12
    order = rng.permutation(n_actions)
    assert calibration_error(law[:, order], order.argsort()[actions]) == pytest.approx(error)
    certain = np.eye(n_actions)[actions]
    assert calibration_error(certain, actions) == 0


def test_calibration_error_of_the_truth_vanishes_with_more_rows():
    errors = []
    for n in (200, 20000):
        log, law = logged(n)
        errors.append(calibration_error(law, log.actions))
    assert errors[1] < errors[0] / 5


def by_action(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    law = np.column_stack([1 / (1 + np.exp(-x)), 0.7 / (1 + np.exp(x)), 0.3 / (1 + np.exp(x))])
    labels = np.array(["email", "no_email", "sms"])
    action = (law.cumsum(axis=1) > rng.random((n, 1))).argmax(axis=1)
    columns = {f"p_{label}": each for label, each in zip(labels, law.T, strict=True)}
    table = {"x": x, "action": labels[action], "reward": rng.normal(size=n), **columns}
    return table, law[np.arange(n), action]


@pytest.mark.parametrize("choice", ["p_*", ["p_sms", "p_no_email", "p_email"]])
def test_each_row_has_the_propensity_in_the_column_of_its_action(choice, tmp_path):
    table, taken = by_action()
    reading = read(table, propensity=choice, state="*")
    np.testing.assert_allclose(reading.log.propensity, taken)
    assert (reading.columns.state, reading.cautions) == (("x",), ())
    path = write_table(pa.table(table), tmp_path / "log.parquet") or tmp_path / "log.parquet"
    mapped = read(path, propensity=choice, state="*", lazy=True).log
    np.testing.assert_allclose(mapped.propensity, taken)
    known = evaluate(reading.log, Column("p_*")).value  # the policy that logged
    assert known == pytest.approx(np.mean(table["reward"]), abs=0.02)


def test_propensities_by_action_are_checked():
    table, _ = by_action()
    with pytest.raises(LogError, match=r"none is named after 'sms'"):
        read(table | {"p_other": table["p_sms"]}, propensity=["p_email", "p_no_email", "p_other"])
    with pytest.raises(LogError, match=r"must be at least 0 and add up to 1. Got .* at row 0"):
        read(table | {"p_sms": 1 - table["p_sms"]}, propensity="p_*")
    gaps = table | {"p_sms": [None, *table["p_sms"][1:]]}
    gaps["action"] = np.array(["sms", *table["action"][1:]])
    gaps["p_email"] = np.array([1 - table["p_no_email"][0], *table["p_email"][1:]])
    with pytest.raises(LogError, match=r"must be known.* in row 0"):
        read(gaps, propensity="p_*")


def test_propensities_by_action_may_be_those_of_a_menu_and_of_rows_to_be_dropped():
    menu = {"price": [9.99, 14.99] * 20, "reward": np.arange(40.0), "x": np.arange(40.0)}
    menu |= {"p_9.99": [0.25] * 40, "p_14.99": [0.75] * 40}
    parts = {"state": "x", "action": "price", "propensity": "p_*"}
    log = read(menu, **parts, categorical="price").log
    assert log.propensity.tolist() == [0.25, 0.75] * 20
    with pytest.raises(LogError, match="those of discrete actions, and the actions of this log"):
        read(menu, **parts)
    gap = menu | {"price": ["9.99", None, *["14.99"] * 38]}
    with pytest.raises(
        LogError, match=r"Column 'price' has 1 missing value, the first at row 1 \("
    ):
        read(gap, **parts)
    assert read(gap, **parts, missing="drop-episode").log.propensity.tolist() == [
        0.25,
        *[0.75] * 38,
    ]


@pytest.mark.parametrize("lazy", [False, True])
def test_propensities_that_change_along_the_file_are_said_in_memory_and_on_disk(lazy, tmp_path):
    rng = np.random.default_rng(3)
    often = np.linspace(0.2, 0.8, 4000)  # a bandit that learns
    action = (rng.random(4000) < often).astype(int)
    table = {"x": rng.normal(size=4000), "action": action, "reward": rng.normal(size=4000)}
    for name, chance in (("drift", often), ("steady", rng.permutation(often))):
        table["propensity"] = np.where(action == 1, chance, 1 - chance)
        write_table(pa.table(table), tmp_path / f"{name}.parquet")
        said = read(tmp_path / f"{name}.parquet", lazy=lazy, cache=tmp_path / "cache").describe()
        assert ("change along the file" in said) == (name == "drift")
