"""Policies meet logs by name: in any order of columns and actions they get the same number."""

import pickle
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tailproof import (
    Always,
    Continuous,
    Discrete,
    EpsilonGreedy,
    Joint,
    Log,
    compare,
    diagnose,
    evaluate,
    learn,
    load_policy,
    method,
    read_log,
)
from tailproof.errors import PolicyError
from tailproof.policies.binding import for_log, for_names
from tailproof.policies.forms import UniformBox, on_frame


def table(n=600, *, labels=("email", "phone"), names=("x_age", "x_income"), seed=0):
    """Return a one-step log as columns: which of the first two actions is good depends on age."""
    rng = np.random.default_rng(seed)
    states = rng.standard_normal((n, len(names)))
    actions = rng.integers(len(labels), size=n)
    good = (states[:, names.index("x_age")] > 0) == (actions == list(labels).index("phone"))
    rewards = good + 0.1 * rng.standard_normal(n)
    return {
        **{name: states[:, j] for j, name in enumerate(names)},
        "action": [labels[code] for code in actions],
        "reward": rewards,
    }


@pytest.fixture(scope="module")
def learned():
    return learn(read_log(table()), method="fqi", gamma=0.0)


@pytest.fixture(params=["in memory", ".tp", ".onnx", "softmax .onnx"])
def policy(request, learned, tmp_path):
    if request.param == "in memory":
        return learned.policy
    if request.param == ".tp":
        learned.save(tmp_path / "policy.tp")
        return load_policy(tmp_path / "policy.tp")
    kind = learned.softmax(1e-3) if "softmax" in request.param else learned.policy
    kind.save(tmp_path / "policy.onnx")
    return load_policy(tmp_path / "policy.onnx")


def value(log, policy):
    return evaluate(log, policy, method="lstd").value


def test_new_actions_are_mapped_by_label(policy):
    wider = read_log(table(labels=("email", "letter", "phone"), seed=1))
    best = value(wider, lambda s: np.where(s[:, 0] > 0, "phone", "email"))
    assert value(wider, policy) == pytest.approx(best, abs=0.02)
    assert value(wider, pickle.loads(pickle.dumps(policy))) == value(wider, policy)


def test_columns_in_another_order_or_beside_others(policy):
    same = value(read_log(table(seed=2)), policy)
    turned = table(seed=2)
    turned = {name: turned[name] for name in ("x_income", "action", "reward", "x_age")}
    assert value(read_log(turned), policy) == pytest.approx(same, abs=1e-9)
    more = {"x_a": np.arange(600.0), **turned}
    wanted = for_log(policy, read_log(table(seed=2)))
    for log in (read_log(more), read_log(turned)):
        found = for_log(policy, log).probabilities(log.states)
        assert np.allclose(found, wanted.probabilities(read_log(table(seed=2)).states))


def test_what_is_missing_is_refused_by_name(policy):
    log = read_log(table(names=("x_age", "x_height"), seed=3))
    with pytest.raises(
        PolicyError, match=r"made for the state variables x_age, x_income\. The log "
    ):
        evaluate(log, policy, method="lstd")
    with pytest.raises(PolicyError, match=r"has no x_income; it has x_age, x_height"):
        diagnose(log, policy)
    with pytest.raises(PolicyError, match="no x_income"):
        compare(log, {"saved": policy})


def test_actions_that_the_log_lacks_are_refused_by_label(policy):
    other = {**table(seed=3)}
    other["action"] = ["email" if each == "email" else "visit" for each in other["action"]]
    with pytest.raises(PolicyError, match=r"'phone'"):
        evaluate(read_log(other), policy, method="lstd")


def test_arrays_without_names_are_taken_in_order(learned, rng):
    states = rng.standard_normal((50, 2))
    log = Log.from_arrays(states, rng.integers(2, size=50), np.ones(50), states, episode=range(50))
    np.testing.assert_array_equal(
        for_log(learned.policy, log).choose(log.states), learned.policy(log.states)
    )
    narrow = Log.from_arrays(
        states[:, :1], rng.integers(2, size=50), np.ones(50), states[:, :1], episode=range(50)
    )
    with pytest.raises(
        PolicyError, match=r"made for 2 state variables, x_age, x_income\. The log has 1"
    ):
        for_log(learned.policy, narrow)
    three = Discrete(3)
    with pytest.raises(
        PolicyError, match=r"2 actions \(email, phone\), the log has 3: without labels"
    ):
        for_names(learned.policy, (), three)


def test_categories_are_matched_one_by_one():
    frame = {**table(), "x_city": ["Bonn", "Rome", "Oslo"] * 200}
    learned = learn(read_log(frame), method="fqi", gamma=0.0)
    fewer = {**table(seed=1), "x_city": ["Oslo", "Bonn"] * 300}
    log = read_log(fewer)
    full = np.column_stack(
        [log.states[:, :2], *(np.array(fewer["x_city"]) == c for c in ("Bonn", "Oslo", "Rome"))]
    )
    assert (for_log(learned.policy, log).choose(log.states) == learned.policy(full)).all()
    other = {**table(seed=1), "x_city": ["Oslo", "Kyiv"] * 300}
    with pytest.raises(PolicyError, match=r"'x_city' must hold one of its 3 .* Got 'Kyiv'"):
        evaluate(read_log(other), learned.policy)


def test_continuous_policies_take_their_own_columns(rng):
    class Named:
        state_names = ("b", "a")

        def __call__(self, states):
            return states[:, :1]

    class Drawn(Named):
        def sample(self, states, rng):
            return states[:, :1] + 0 * rng.random()

        def log_prob(self, states, actions):
            return -np.abs(states[:, 0] - actions[:, 0])

    states = rng.standard_normal((5, 2))
    for policy in (Named(), Drawn()):
        acts = for_names(policy, ("a", "b"), Continuous(1))
        assert (acts.sample(states, rng)[:, 0] == states[:, 1]).all()
    assert (acts.log_prob(states, states[:, 1:]) == 0).all()
    box = UniformBox((0.0,), (1.0,))
    assert for_names(box, ("a", "b"), Continuous(1)).states_of is None


# Labels are labels.


def labelled(labels, n=40):
    actions = np.arange(n) % len(labels)
    space = Discrete(len(labels), tuple(labels))
    rewards = 1.0 + 4.0 * actions
    states = np.zeros((n, 1))
    return Log.from_arrays(states, actions, rewards, states, episode=range(n), action_space=space)


@pytest.mark.parametrize("labels", [("1", "2"), ("2", "1"), ("0", "1"), ("b", "a"), ("10", "2")])
@given(data=st.data())
def test_text_is_a_label_whatever_it_looks_like(labels, data):
    log = labelled(labels)
    code = data.draw(st.integers(0, 1))
    kind = data.draw(st.sampled_from([str, object]))

    def policy(states):
        return np.array([labels[code]] * len(states), dtype=kind)

    assert evaluate(log, policy, method="lstd").value == pytest.approx(1 + 4 * code, abs=1e-3)
    mixed = EpsilonGreedy(policy, 0.5, n_actions=2)
    assert evaluate(log, mixed, method="lstd").value == pytest.approx(
        0.75 * (1 + 4 * code) + 0.25 * (5 - 4 * code), abs=1e-3
    )


def test_whole_numbers_are_codes_unless_labels_are_whole_numbers():
    log = labelled(("1", "2"))
    with pytest.raises(
        PolicyError, match=r"answered 1, which may be the action labelled '1' or the"
    ):
        evaluate(log, lambda s: np.ones(len(s), dtype=int), method="lstd")
    tens = labelled(("10", "20", "30"))
    for answer in (30, "30", 30.0):
        found = evaluate(tens, lambda s, a=answer: [a] * len(s), method="lstd").value
        assert found == pytest.approx(9.0, abs=0.01)
    refused = ((31, r"in 0\.\.2. Got 31"), (2, "answered 2, which is none"), ("31", "Got '31'"))
    for answer, text in refused:
        with pytest.raises(PolicyError, match=text):
            evaluate(tens, lambda s, a=answer: [a] * len(s), method="lstd")


def test_text_needs_a_log_that_has_labels():
    log = labelled(("a", "b"))
    plain = Log.from_arrays(
        log.states, log.actions, log.rewards, log.states, episode=range(len(log))
    )
    assert evaluate(plain, lambda s: ["1"] * len(s), method="lstd").value == pytest.approx(
        5, abs=0.01
    )
    with pytest.raises(PolicyError, match="Got 'a'"):
        evaluate(plain, lambda s: ["a"] * len(s), method="lstd")


@pytest.mark.parametrize("column", [[10, 20, 30] * 4, [1, 5, 5] * 4, [7, 7, 100] * 4])
def test_sparse_whole_numbers_are_labels(column):
    log = read_log({"x": np.zeros(12), "action": column, "reward": np.array(column) / 10.0})
    distinct = sorted(set(column))
    assert log.action_space == Discrete(len(distinct), tuple(map(str, distinct)))
    found = evaluate(log, lambda s: [str(distinct[-1])] * len(s), method="lstd").value
    assert found == pytest.approx(distinct[-1] / 10, rel=1e-3)


# A policy that works in place works on a copy.


@pytest.mark.slow
def test_a_policy_that_changes_its_states_in_place_changes_nothing_else(cartpole):
    log = cartpole.log(episodes=60, steps=40, seed=1)
    before = log.states.copy(), log.next_states.copy()

    def tidy(states):
        return (((states - 5) / 3)[:, 2] > -1.66).astype(int)

    def in_place(states):
        states -= 5
        states /= 3
        return (states[:, 2] > -1.66).astype(int)

    class Law:
        def probabilities(self, states):
            return np.eye(2)[in_place(states)]

    for name in ("roam-dm", "fqe", "mis", "auto"):
        wanted = evaluate(log, tidy, method=name, gamma=0.5).value
        for policy in (in_place, in_place, Law()):
            found = evaluate(log, policy, method=name, gamma=0.5).value
            assert found == pytest.approx(wanted, rel=1e-9)
    diagnose(log, in_place, gamma=0.5)
    compare(log, {"one": in_place, "two": Law()}, gamma=0.5)
    assert np.array_equal(log.states, before[0])
    assert np.array_equal(log.next_states, before[1])


def test_a_continuous_policy_may_work_in_place_too(rng):
    states = rng.standard_normal((60, 2))
    log = Log.from_arrays(
        states,
        rng.uniform(-1, 1, (60, 1)),
        rng.standard_normal(60),
        states,
        episode=range(60),
        propensity=np.full(60, 0.5),
    )
    before = log.states.copy()

    class Drawn:
        def sample(self, states, rng):
            states *= 0
            return rng.uniform(-1, 1, (len(states), 1))

        def log_prob(self, states, actions):
            actions *= 0
            states *= 0
            return np.full(len(states), np.log(0.5))

    features = Joint(state_dimension=2, action_dimension=1)
    for chosen in ("ips", method("lstd", features=features)):
        evaluate(log, Drawn(), method=chosen)
    assert np.array_equal(log.states, before)


def test_a_policy_reads_a_log_with_other_gaps_and_other_rare_categories():
    rng = np.random.default_rng(0)
    columns = table(900)
    stores = rng.choice(["s1", "s2", "s3", "s4"], 900, p=[0.5, 0.3, 0.15, 0.05])
    gaps = columns | {"x_store": stores, "x_age": np.where(rng.random(900) < 0.1, np.nan, 0.5)}
    policy = learn(read_log(gaps, categories=3), method="fqi").policy
    assert policy.state_names[-3:] == ("x_store=(other)", "x_store=s1", "x_store=s2")
    assert "x_age is missing" in policy.state_names
    whole = columns | {"x_store": np.where(stores == "s3", "s9", stores)}
    log = read_log(whole, categories=4)
    given = for_log(policy, log).states_of(log.states)
    np.testing.assert_array_equal(given, policy.encoder.states(whole))
    np.testing.assert_array_equal(given[:, -3] == 1, np.isin(whole["x_store"], ["s4", "s9"]))
    assert (given[:, policy.state_names.index("x_age is missing")] == 0).all()


def test_a_policy_with_codes_of_its_own_means_codes_beside_labels_that_are_numbers():
    log = labelled(("10", "20"))
    for action in (0, 1):
        found = evaluate(log, Always(action, 2), method="lstd").value
        assert found == pytest.approx(1 + 4 * action, abs=0.01)


def call(score):
    return "phone" if score > 0 else "email"


def test_answers_with_an_index_are_matched_by_it():
    """A rule that sorts or groups its frame answers for the rows that its index names."""
    log = read_log(table())
    expected = for_log(lambda s: np.where(s["x_age"] > 0, "phone", "email"), log).values

    def sorts(states):
        return states.sort_values("x_age")["x_age"].map(call)

    def frame(states):
        sure = (states.sort_values("x_age")["x_age"] > 0).astype(float)
        return sure.to_frame("phone").assign(email=1 - sure)

    for rule in (sorts, frame, lambda s: (call(age) for age in s["x_age"])):
        found = for_log(rule, log).values
        assert np.array_equal(found if found.ndim == 1 else found.argmax(axis=1), expected)


@pytest.mark.parametrize(
    "renamed", [lambda s: s.set_axis(s.index + 1), lambda s: s.rename_axis("customer")[::-1]]
)
def test_answers_with_the_index_of_something_else_are_refused(renamed):
    with pytest.raises(PolicyError, match="may be in another order"):
        for_log(lambda states: renamed(states["x_age"].map(call)), read_log(table()))


def test_without_pandas_a_rule_gets_arrays_by_name(monkeypatch):
    rng = np.random.default_rng(0)
    table = {
        "age": rng.integers(18, 80, 300),
        "region": rng.choice(["north", "south"], 300),
        "offer": rng.choice(["a", "b"], 300),
        "spend": rng.random(300),
    }

    def rule(customers):
        old = np.asarray(customers["age"]) > 40
        return np.where(old & (np.asarray(customers["region"]) == "north"), "a", "b")

    named = {"action": "offer", "reward": "spend", "state": ["age", "region"]}
    known = evaluate(read_log(table, **named), rule, method="lstd").value
    encoded = Log.from_arrays(
        table["age"][:, None],
        (table["offer"] == "b").astype(int),
        table["spend"],
        table["age"][:, None],
        episode=np.arange(300),
        terminated=np.ones(300, dtype=bool),
        state_names=["age"],
    )

    def by_age(customers):
        return np.where(np.asarray(customers["age"]) > 40, 1, 0)

    by_states = evaluate(encoded, by_age, method="lstd").value
    monkeypatch.setitem(sys.modules, "pandas", None)
    assert evaluate(read_log(table, **named), rule, method="lstd").value == known
    assert evaluate(encoded, by_age, method="lstd").value == by_states
    with pytest.raises(PolicyError, match="dictionary of arrays"):
        evaluate(read_log(table, **named), lambda t: t.age > 40, method="lstd")
    with pytest.raises(PolicyError, match="pip install pandas"):
        evaluate(read_log(table, **named), on_frame(rule), method="lstd")
