"""Budgets, forbidden rows and available actions: kept by the policy and by every file of it."""

from functools import cache

import numpy as np
import pytest

from tailproof import Learned, learn, load_policy, read_log
from tailproof.doors.careful import Form
from tailproof.errors import MethodError
from tailproof.export.apply import apply
from tailproof.learners.limits import Limits

LABELS = ("none", "voucher")


def shop(rows=1_500, seed=0, **more):
    """Return a table in which a voucher earns more the longer ago the last order was."""
    rng = np.random.default_rng(seed)
    days, offer = rng.uniform(0, 100, rows), rng.integers(0, 2, rows)
    allowed = rng.random(rows) < 0.7
    table = {
        "days": days.round(2),
        "price": rng.choice([1.0, 4.0], rows),
        "region": rng.choice(["north", "south"], rows),
        "member": rng.random(rows) < 0.5,
        "can_none": np.ones(rows, dtype=bool),
        "can_voucher": allowed | (offer == 1),
        "action": np.array(LABELS)[offer],
        "reward": offer * (days / 50 - 0.4) + 0.1 * rng.normal(size=rows),
    }
    state = ["days", "price", "region", "member", *more.pop("state", [])]
    return read_log(table, state=state, **more)


LOG = shop()


def taken(learned, log=LOG):
    return learned.policy(log.states) == 1


@cache
def fitted(method):
    return learn(LOG, method=method, gamma=0.0)


def limited(method, at_most=(), never=(), **form):
    """Return what `learn` returns with these limits, without fitting again."""
    return Form(limits=Limits.of(at_most, never, LOG), **form)(fitted(method))


@pytest.mark.parametrize("share", [0.0, 0.2, 0.5])
def test_a_budget_goes_to_those_who_gain_most(share):
    learned = limited("policy-scores", {"voucher": share})
    treated = taken(learned)
    assert share - 0.01 <= treated.mean() <= share
    if 0 < share < 1:
        assert LOG.states[treated, 0].min() > LOG.states[~treated, 0].max() - 8
    new = shop(seed=1)
    assert taken(learned, new).mean() == pytest.approx(share, abs=0.04)


def test_a_budget_that_does_not_bind_changes_nothing():
    free = fitted("policy-scores")
    wide = learn(LOG, method="policy-scores", gamma=0.0, at_most=["voucher=100%"])
    assert np.array_equal(taken(free), taken(wide))


def test_a_cost_by_row_counts():
    cheap = limited("policy-scores", {"voucher": (0.5, "price")})
    treated, price = taken(cheap), LOG.states[:, 1]
    assert 0.48 < (treated * price).mean() <= 0.5
    assert treated[price == 1].mean() > treated[price == 4].mean()


@pytest.mark.parametrize(
    ("never", "barred"),
    [
        ("voucher where region=north", lambda t: t["region=north"] == 1),
        ("voucher where region!=north", lambda t: t["region=north"] == 0),
        ("voucher where member=true", lambda t: t["member=true"] == 1),
        ("voucher where days>=60", lambda t: t["days"] >= 60),
        ("voucher where days<60", lambda t: t["days"] < 60),
        ("voucher where price=4", lambda t: t["price"] == 4),
    ],
)
@pytest.mark.parametrize("method", ["policy-tree", "policy-scores", "constant"])
def test_forbidden_rows_never_get_the_action(method, never, barred):
    learned = limited(method, never=[never])
    states = dict(zip(LOG.state_names, LOG.states.T, strict=True))
    inside = barred(states)
    assert not taken(learned)[inside].any()
    assert np.array_equal(taken(learned)[~inside], taken(fitted(method))[~inside])
    if learned.has_rule:
        place = learned.rule.leaf_of(LOG.states)
        actions = np.array([leaf.action for _, leaf in learned.rule.leaves()])
        assert np.array_equal(actions[place] == "voucher", taken(learned))


def test_available_actions_are_those_of_columns_that_new_rows_have():
    log = shop(state=["can_voucher"], available="can_*")
    learned = learn(log, method="policy-scores", gamma=0.0)
    can = log.states[:, log.state_names.index("can_voucher=true")] == 1
    assert not taken(learned, log)[~can].any()
    assert taken(learned, log)[can].any()
    with pytest.raises(MethodError) as error:
        learn(shop(available="can_*"), method="policy-scores", gamma=0.0)
    assert error.value.argument == "available"


@pytest.mark.parametrize(
    ("asked", "argument"),
    [
        ({"at_most": ["voucher"]}, "at_most"),
        ({"at_most": {"gift": 0.2}}, "at_most"),
        ({"at_most": {"voucher": 1.5}}, "at_most"),
        ({"at_most": {"voucher": (1.0, "region")}}, "at_most"),
        ({"never": ["voucher in the north"]}, "never"),
        ({"never": ["voucher where town=north"]}, "never"),
        ({"never": ["voucher where region=mars"]}, "never"),
        ({"never": ["voucher where region<north"]}, "never"),
        ({"never": ["voucher where days=soon"]}, "never"),
        ({"never": ["voucher where days>5", "none where days>9"]}, "never"),
    ],
)
def test_limits_that_say_nothing_are_refused(asked, argument):
    with pytest.raises(MethodError) as error:
        learn(LOG, method="policy-tree", gamma=0.0, **asked)
    assert error.value.argument == argument


@pytest.mark.parametrize("cost", [0.2, (0.5, "price")])
def test_limits_are_saved_with_the_policy(tmp_path, cost):
    pytest.importorskip("onnxruntime")
    limits = {"at_most": {"voucher": cost}, "never": ["voucher where region=north"]}
    learned = limited("policy-scores", **limits)
    learned.save(tmp_path / "policy.tailproof")
    learned.policy.save(tmp_path / "policy.onnx")
    again = Learned.load(tmp_path / "policy.tailproof")
    graph = load_policy(tmp_path / "policy.onnx")
    assert np.array_equal(again.policy(LOG.states), learned.policy(LOG.states))
    assert np.array_equal(graph(LOG.states), learned.policy(LOG.states))
    (tmp_path / "new.csv").write_text(
        "days,price,region,member\n99,1,north,true\n99,1,south,true\n"
    )
    done = apply(tmp_path / "policy.tailproof", tmp_path / "new.csv", tmp_path / "out.csv")
    assert done.actions == {"none": 1, "voucher": 1}


def test_readable_policies_obey_too():
    limits = {"at_most": {"voucher": 0.3}, "never": ["voucher where region=north"]}
    learned = limited("policy-scores", readable=True, **limits)
    assert learned.has_rule
    north = LOG.states[:, LOG.state_names.index("region=north")] == 1
    assert not taken(learned)[north].any()
    assert taken(learned).mean() <= 0.3


def test_limited_actions_are_no_constants():
    limits = Limits.of(["voucher=20%"], [], LOG)
    assert Form(limits=limits).free(LOG) == [0]
    assert Form().free(LOG) == [0, 1]


def test_the_curve_rises_while_those_gain_who_are_added():
    learned = learn(LOG, method="policy-scores", gamma=0.0, holdout=0.5)
    curve = learned.curve("voucher", shares=(0.25, 0.5, 1.0))
    gains = [each.gain.value for each in curve.points]
    # the mean over those above a share of u / 50 − 0.4
    truth = [0.25 * (87.5 / 50 - 0.4), 0.5 * (75 / 50 - 0.4), 50 / 50 - 0.4]
    assert [each.share for each in curve.points] == pytest.approx([0.25, 0.5, 1.0], abs=0.01)
    assert gains == pytest.approx(truth, abs=0.05)
    for each, known in zip(curve.points, truth, strict=True):
        assert each.interval.low < known < each.interval.high
    assert len(curve.to_frame()) == len(curve.to_dict()["points"]) == 3
    with pytest.raises(MethodError) as error:
        learned.curve("gift")
    assert error.value.argument == "action"


def test_the_curve_is_drawn():
    from matplotlib.figure import Figure

    learned = learn(LOG, method="policy-tree", gamma=0.0, holdout=0.5)
    axes = learned.curve("voucher", shares=(0.5, 1.0)).plot(ax=Figure().add_subplot())
    assert "voucher" in axes.get_xlabel()
    assert axes.lines
