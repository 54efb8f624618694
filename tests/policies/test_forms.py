"""Policies in the forms that people have: columns, arrays, rules over names, models, text, mixtures."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from sklearn.tree import DecisionTreeClassifier

from tailproof import (
    Always,
    Column,
    EpsilonGreedy,
    Log,
    Logged,
    Mixture,
    compare,
    diagnose,
    evaluate,
    learn,
    on_frame,
    read_log,
)
from tailproof.errors import PolicyError, TailproofWarning
from tailproof.io import write_log
from tailproof.log.spaces import Continuous
from tailproof.policies.binding import for_log
from tailproof.policies.forms import action_probabilities, bound


def frame(n=400, seed=0):
    rng = np.random.default_rng(seed)
    shop = rng.choice(["north", "south"], n)
    days = rng.integers(0, 60, n)
    offer = rng.choice(["email", "none", "voucher"], n)
    spend = (offer == "voucher") * (days >= 30) + rng.standard_normal(n)
    return pd.DataFrame(
        {
            "shop": shop,
            "days": days,
            "offer": offer,
            "spend": spend,
            "new": np.where(days >= 30, "voucher", "none"),
            "p_voucher": np.where(days >= 30, 1.0, 0.0),
            "p_none": np.where(days >= 30, 0.0, 1.0),
            "fresh": rng.choice(["email", "none"], n),
        }
    )


def log_of(table, **parts):
    parts = {"state": ["shop", "days"], "action": "offer", "reward": "spend", **parts}
    return read_log(table, **parts)


def law(policy, log):
    rows = log.table_rows.rows
    return action_probabilities(for_log(policy, log), log.states, log.n_actions, rows=rows)


def by_array(states):
    return np.where(states[:, 2] >= 30, 2, 1)


def by_name(states):
    return np.where(states["days"] >= 30, "voucher", "none")


def annotated(states: pd.DataFrame):
    return np.where(states.days >= 30, 2, 1)


def by_probability(states):
    late = states["days"].to_numpy() >= 30
    return np.column_stack([0.0 * late, 1.0 * ~late, 1.0 * late])


def by_named_probability(states):
    late = states["days"] >= 30
    return pd.DataFrame({"voucher": 1.0 * late, "none": 1.0 * ~late})


def array_law(states):
    late = states[:, 2] >= 30
    return np.column_stack([0.0 * late, 1.0 * ~late, 1.0 * late])


def tree(table):
    wanted = np.where(table["days"] >= 30, "voucher", "none")
    return DecisionTreeClassifier().fit(table[["days"]], wanted)


def pipeline(table):
    names = make_column_transformer((OneHotEncoder(), ["shop"]), ("passthrough", ["days"]))
    wanted = np.where(table["days"] >= 30, "voucher", "none")
    return make_pipeline(names, DecisionTreeClassifier()).fit(table[["shop", "days"]], wanted)


def forms(table):
    return {
        "array": by_array,
        "names": by_name,
        "marked": on_frame(by_name),
        "annotated": annotated,
        "probabilities": by_probability,
        "named probabilities": by_named_probability,
        "array of probabilities": array_law,
        "column": Column("new"),
        "columns": Column("p_*"),
        "text": "column:new",
        "series": table["new"],
        "labels": table["new"].to_numpy(),
        "list": table["new"].tolist(),
        "codes": np.where(table["days"] >= 30, 2, 1),
        "law": table[["p_none", "p_voucher"]].rename(columns=lambda name: name[2:]),
        "tree": tree(table),
        "pipeline": pipeline(table),
        "predict_proba": pipeline(table).predict_proba,
        "mixture": Mixture(((0.25, Column("new")), (0.75, by_name)), n_actions=3),
        "greedy": EpsilonGreedy(by_name, 0.0, n_actions=3),
    }


@pytest.fixture(scope="module")
def table():
    return frame()


@pytest.mark.parametrize("form", forms(frame(20)))
def test_every_form_of_one_policy_is_the_same_policy(form, table):
    log = log_of(table)
    np.testing.assert_array_equal(law(forms(table)[form], log), law(by_array, log))


def test_every_form_gives_the_same_number(table):
    log, policies = log_of(table), forms(table)
    wanted = evaluate(log, by_array).value
    for form in ("column", "predict_proba", "mixture"):
        assert evaluate(log, policies[form]).value == wanted, form


def test_parts_of_a_log_are_asked_about_their_own_rows(table):
    log = log_of(table)
    some = log.take([7, 3, 300])
    np.testing.assert_array_equal(law(Column("new"), some), law(Column("new"), log)[[7, 3, 300]])


def test_a_column_need_not_be_a_function_of_the_state(table):
    chances = law(Column("fresh"), log_of(table))
    np.testing.assert_array_equal(chances[:, 0], table["fresh"] == "email")


@pytest.mark.slow
def test_columns_serve_all_doors(table):
    log = log_of(table)
    found = compare(
        log, {"new": Column("new"), "fresh": "column:fresh", "voucher": "always:voucher"}
    )
    assert {each.name for each in found.candidates} == {"new", "fresh", "voucher"}
    assert diagnose(log, Column("new")).overlap.weights.mean == pytest.approx(1, abs=0.2)
    folds = evaluate(log, Column("new"), method="roam-dm")
    assert folds.fold_values.shape == (5,)


@pytest.fixture(scope="module")
def walks():
    """Episodes of three steps, their rows shuffled; `new` says what the policy does in each row."""
    rng = np.random.default_rng(0)
    n = 90
    table = pd.DataFrame(
        {
            "user": np.repeat(np.arange(n), 3),
            "t": np.tile(np.arange(3), n),
            "x": rng.standard_normal(3 * n),
            "action": rng.integers(2, size=3 * n),
        }
    )
    table["reward"] = table["x"] * (2 * table["action"] - 1) + rng.standard_normal(3 * n)
    table["new"] = (table["x"] > 0).astype(int)
    return table.sample(frac=1, random_state=1, ignore_index=True)


@pytest.mark.parametrize("method", ["auto", "lstd", "roam-dm", "mis", "pdis", "fqe"])
def test_on_sequential_logs_the_next_rows_column_is_the_next_action(method, walks):
    if method == "pdis":
        walks = walks.assign(propensity=0.5)
    log = read_log(walks, state=["x", "t"], episode="user", step="t", terminated=True)
    by_column = evaluate(log, Column("new"), method=method, gamma=0.9)
    by_state = evaluate(
        log, lambda states: (states[:, 0] > 0).astype(int), method=method, gamma=0.9
    )
    assert by_column.value == pytest.approx(by_state.value, rel=1e-12)


def test_steps_whose_next_row_is_not_logged_are_refused():
    log = Log.from_arrays([0.0, 1.0], [0, 1], [1.0, 2.0], [1.0, 2.0], episode=[0, 0])
    with pytest.raises(PolicyError, match="the next states of 1 steps are not rows of the table"):
        evaluate(log, np.array([0, 1]), gamma=0.5)


def test_mixtures_are_linear_on_one_step_logs(table):
    log = log_of(table.assign(propensity=1 / 3))

    def value(policy):
        return evaluate(log, policy, method="ips").value

    mixed = value("0.1*always:email + 0.9*column:new")
    assert mixed == pytest.approx(0.1 * value("always:email") + 0.9 * value(Column("new")))


def test_the_logged_policy_is_worth_what_was_logged(table):
    log = log_of(table.assign(propensity=1 / 3))
    found = evaluate(log, "logged", method="ips").value
    assert found == pytest.approx(table["spend"].mean(), rel=1e-12)
    assert evaluate(log, Logged()).value == pytest.approx(table["spend"].mean(), abs=0.05)


def test_always_and_uniform_by_text(table):
    log = log_of(table)
    np.testing.assert_array_equal(law("always:voucher", log), law(Always(2, 3), log))
    assert (law("uniform", log) == 1 / 3).all()


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("always:vouchr", "There is no action 'vouchr' in the log. .* Did you mean 'voucher'?"),
        ("column:nwe", "There is no column 'nwe' for the policy.*Did you mean 'new'?"),
        ("column:spend", "Column 'spend' is the reward: no policy knows it before it acts"),
        ("column:offer", "is the action: .* Write logged for the policy that logged"),
        ("column:q_*", "No column matches 'q_\\*'"),
        (
            "column:shop",
            "must answer with the log's actions, email, none, .* Got '(north|south)'",
        ),
        ("0.5*always:email + 0.2*logged", "must be at least 0 and add up to 1. Got 0.5 \\+ 0.2"),
        ("0.5*always:email + logged", "needs its share.*Got 'logged'"),
        ("unifrom", "Did you mean 'uniform'?"),
        ("none", "Did you mean 'always:none'?"),
        ("allways:email", "Did you mean 'always:email'?"),
        ("model.joblib", "is a pickle, and reading one runs whatever code is in it"),
        (np.zeros(3), "an entry for each of the 400 rows of the log's table. Got 3"),
        (Column("gaps"), "Column 'gaps' is missing in 2 rows, the first of them row 1"),
        (Column("off_*"), "must be at least 0 and add up to 1. Got .* at row 0"),
        (
            lambda states: states["nothing"],
            "KeyError: 'nothing'.*a frame with the columns shop, days",
        ),
        (lambda states: states["spend"], "Not among them, .*: offer \\(the action\\), spend"),
        (lambda states: 1 / 0, "ZeroDivisionError: division by zero"),
    ],
)
def test_what_is_wrong_is_said(policy, message, table):
    new = table["new"].where(~table.index.isin([1, 5]))
    log = log_of(table.assign(gaps=new, off_email=0.5, off_none=0.2))
    with pytest.raises(PolicyError, match=message):
        evaluate(log, policy)


def test_a_policys_own_error_names_its_file_and_line(tmp_path, monkeypatch, table):
    (tmp_path / "rules.py").write_text("def mine(states):\n    return states['days'] + undefined\n")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(
        PolicyError, match=r"mine .*rules.py, line 2 .*NameError: name 'undefined'"
    ) as e:
        evaluate(log_of(table), "rules.py:mine")
    assert isinstance(e.value.__cause__, NameError)


def test_a_series_in_another_order_is_refused(table):
    log = log_of(table)
    with pytest.raises(PolicyError, match="other row labels"):
        evaluate(log, table["new"].sample(frac=1, random_state=0))
    named = table.set_index("shop", append=True).reset_index("shop")
    np.testing.assert_array_equal(law(named["new"], log_of(named)), law("column:new", log))


def test_rounded_probabilities_are_rescaled_and_said(table):
    third = dict.fromkeys(("q_email", "q_none", "q_voucher"), 0.33)
    with pytest.warns(TailproofWarning, match="as if they were rounded"):
        chances = law(Column("q_*"), log_of(table.assign(**third)))
    np.testing.assert_allclose(chances, 1 / 3)


def test_a_model_trained_on_other_columns_is_refused(table):
    model = LogisticRegression().fit(
        table[["days"]].rename(columns={"days": "hours"}), table["offer"]
    )
    with pytest.raises(PolicyError, match=r"fitted on hours\. The log has no hours"):
        evaluate(log_of(table), model)


def test_a_model_of_an_action_that_the_log_has_not(table):
    model = DecisionTreeClassifier().fit(
        table[["days"]], np.where(table["days"] > 9, "call", "none")
    )
    with pytest.raises(PolicyError, match=r"must answer with the log's actions.*Got 'call'"):
        evaluate(log_of(table), model)
    with pytest.raises(PolicyError, match="Got 'call'"):
        evaluate(log_of(table), model.predict_proba)


def test_a_model_trained_on_arrays_gets_the_encoded_states(table):
    log = log_of(table)
    model = DecisionTreeClassifier().fit(log.states, by_array(log.states))
    np.testing.assert_array_equal(law(model, log), law(by_array, log))


def test_a_function_around_a_model_gets_the_columns_that_the_model_knows(table):
    swapped = table[["days"]].assign(shop=table["shop"] == "north")[["shop", "days"]].astype(float)
    model = DecisionTreeClassifier().fit(swapped, np.where(table["days"] >= 30, "voucher", "none"))
    log = log_of(table.assign(shop=swapped["shop"]), state=["days", "shop"])

    def wrapped(states):
        return model.predict(states[["shop", "days"]] if hasattr(states, "columns") else states)

    np.testing.assert_array_equal(law(wrapped, log)[:, 2], table["days"] >= 30)


def test_rules_on_logs_of_arrays_get_the_names_of_the_states(table):
    log = log_of(table)
    bare = Log.from_arrays(
        log.states,
        log.actions,
        log.rewards,
        log.states,
        episode=range(len(table)),
        terminated=np.ones(len(table), bool),
        action_space=log.action_space,
        state_names=log.state_names,
    )
    np.testing.assert_array_equal(law(by_name, bare), law(by_array, log))
    with pytest.raises(PolicyError, match="made of arrays and has no other columns"):
        evaluate(bare, Column("new"))
    assert evaluate(bare, table["new"].to_numpy()).value == evaluate(log, Column("new")).value


def test_other_initial_states_need_a_function_of_the_states(table):
    with pytest.raises(PolicyError, match="Other initial states"):
        evaluate(log_of(table), Column("new"), method="lstd", initial_states=np.zeros((1, 3)))


def test_a_rule_over_columns_works_on_a_log_that_stays_on_disk(tmp_path):
    rng = np.random.default_rng(0)
    x, a = rng.normal(size=(300, 1)), rng.integers(2, size=300)
    log = Log.from_arrays(
        x,
        a,
        a * x[:, 0],
        x,
        episode=np.arange(300),
        state_names=["age"],
        terminated=np.ones(300, bool),
    )
    stored = read_log(write_log(log, tmp_path / "log.parquet"), lazy=True)

    def mine(frame):
        return (frame["age"] > 0).astype(int)

    in_memory = evaluate(log, mine, method="bandit-dm").value
    assert evaluate(stored, mine, method="bandit-dm").value == pytest.approx(in_memory)


def late(states):
    return states["days"] >= 30


@pytest.mark.parametrize("form", ["rule", "column", "array", "nullable", "classes"])
def test_true_and_false_name_no_action(form):
    table = frame()
    table["late"] = table["days"] >= 30
    model = DecisionTreeClassifier().fit(table[["days"]], table["late"])
    policy = {
        "rule": late,
        "column": Column("late"),
        "array": table["late"].to_numpy(),
        "nullable": table["late"].astype("boolean"),
        "classes": model.predict_proba,
    }[form]
    with pytest.raises(
        PolicyError, match=r"actions are email, none, voucher; .*numpy\.where\(cond"
    ):
        law(policy, log_of(table))


@pytest.mark.parametrize("labels", [(False, True), ("False", "True"), (0, 1), (1, 0), (-1, 0, 1)])
def test_true_and_false_are_actions_of_these_names(labels):
    table = frame()
    table["sent"] = [labels[i % len(labels)] for i in range(len(table))]
    log = log_of(table, action="sent")
    names = [log.action_space.label(code).lower() for code in range(log.n_actions)]
    yes = names.index("true" if "true" in names else "1")
    no = names.index("false" if "false" in names else "0")
    chosen = law(late, log).argmax(axis=1)
    assert (chosen == np.where(table["days"] >= 30, yes, no)).all()


# What a policy answers is matched by name, and what is missing is not made up.


def test_a_frame_of_probabilities_is_matched_by_its_names_in_any_order(table):
    log = log_of(table)

    def turned(states):
        late = np.asarray(states)[:, 2].astype(float) >= 30
        return pd.DataFrame({"voucher": 1.0 * late, "none": 1.0 * ~late, "email": 0.0 * late})

    class Named:
        def probabilities(self, states):
            return turned(states)

    for policy in (turned, Named()):
        np.testing.assert_array_equal(law(policy, log), law(by_array, log))


def test_a_frame_of_probabilities_of_other_actions_is_refused(table):
    def odd(states):
        return pd.DataFrame({"call": np.ones(len(states)), "none": 0.0, "email": 0.0})

    with pytest.raises(PolicyError, match="call"):
        law(odd, log_of(table))


@pytest.mark.parametrize("form", ["array", "rule", "law"])
def test_masked_answers_are_missing(form, table):
    log = log_of(table)
    codes = np.ma.masked_array(by_array(log.states), mask=np.arange(len(table)) == 3)

    class Law:
        def probabilities(self, states):
            hidden = np.arange(len(states))[:, None] == [3, 3, 3]
            return np.ma.masked_array(np.eye(3)[by_array(states)], mask=hidden)

    policy = {"array": codes, "rule": lambda states: codes[: len(states)], "law": Law()}[form]
    with pytest.raises(PolicyError, match=r"has \d masked entries, the first at row 3"):
        law(policy, log)


@pytest.mark.parametrize("missing", [False, True])
def test_a_column_of_0_and_1_names_no_action(missing, table):
    flags = (table["days"] >= 30).astype(float if missing else int)
    log = log_of(table.assign(flag=flags))
    for policy in (Column("flag"), "column:flag", flags):
        with pytest.raises(PolicyError, match=r"answered with 0 and 1, .*numpy\.where\(cond"):
            law(policy, log)


@pytest.mark.slow
def test_whatever_learn_returns_is_callable_and_has_probabilities(table):
    log = log_of(table)
    for method in ("auto", "bc", "fqi", "policy-tree", "constant"):
        policy = learn(log, method=method).policy
        probabilities = policy.probabilities(log.states)
        assert probabilities.shape == (len(table), 3)
        np.testing.assert_array_equal(policy(log.states), probabilities.argmax(axis=1))


def test_a_torch_module_acts_in_evaluation_mode():
    torch = pytest.importorskip("torch")
    states = np.random.default_rng(0).normal(size=(200, 2))
    module = torch.nn.Sequential(torch.nn.Linear(2, 1), torch.nn.Dropout(0.5))
    policy = bound(module, Continuous(1))
    rng = np.random.default_rng(0)
    first, again = (policy.sample(states, rng) for _ in range(2))
    np.testing.assert_array_equal(first, again)  # dropout draws anew at every call
    assert [part.training for part in module] == [True, True]  # as it was given
