"""Guardrails: outcomes judged on the same rows, and the gate."""

import json

import numpy as np
import pytest

from tailproof import Always, compare
from tailproof.doors.guardrails import as_outcomes
from tailproof.errors import LogError, PolicyError


def table(n=2_000, *, seed=0, complaints=0.0):
    """Return a randomised mailing that earns 2 more, and may cause complaints."""
    rng = np.random.default_rng(seed)
    mailed = rng.integers(2, size=n)
    return {
        "age": rng.integers(18, 80, n),
        "action": mailed,
        "profit": rng.pareto(3.0, n) + 2 * mailed,
        "propensity": np.full(n, 0.5),
        "complaints": rng.poisson(0.5 + complaints * mailed),
        "visits": rng.poisson(9.0, n),
    }


def judged(data, guardrails=("-complaints", "visits"), **more):
    return compare(
        data, {"mail": Always(1)}, state="age", reward="profit", guardrails=guardrails, **more
    )


def test_a_harmed_guardrail_closes_the_gate_of_a_policy_that_earns_more():
    found = judged(table(complaints=0.5))
    assert found.best.gain.verdict.word == "better"
    assert found.best.harmed == ("complaints",)
    assert not found.passes
    assert (found.verdict.word, found.verdict.reasons) == ("worse", ("guardrail",))
    assert not found.to_frame()["passes"].any()


def test_the_margin_decides_between_harmless_and_unknown():
    data = table(complaints=0.0)
    strict, lenient = judged(data), judged(data, margins={"complaints": "60%", "visits": 2.0})
    assert strict.passes
    assert lenient.passes
    assert {each.verdict for each in lenient.best.guardrails} == {"harmless"}
    assert "not shown to be harmless" in {each.verdict for each in strict.best.guardrails}
    tolerated = judged(table(complaints=0.1), margins={"complaints": 0.5})
    assert tolerated.best.guardrails[0].verdict == "harmless"


def test_every_outcome_counts_in_the_levels():
    alone, guarded = judged(table(), ()), judged(table())
    assert alone.gate_level == pytest.approx(0.9)
    assert guarded.gate_level == pytest.approx(1 - 0.1 / 3)
    assert {each.level for each in guarded.best.guardrails} == {guarded.gate_level}
    assert alone.best.value == guarded.best.value


def test_changes_are_those_of_the_column():
    record = json.loads(json.dumps(judged(table(complaints=0.5)).to_dict()))
    complaints, visits = record["candidates"][0]["guardrails"]
    assert complaints["baseline"] > 0
    assert 0 < complaints["low"] < complaints["change"] < complaints["high"]
    assert visits["low"] < 0 < visits["high"]


def test_guardrails_are_no_states():
    data = table()
    found = compare(data, {"mail": Always(1)}, reward="profit", guardrails=["-complaints"])
    assert "complaints" not in found.best.estimate.task.log.state_names
    with pytest.raises(LogError) as error:
        compare(
            data,
            {"mail": Always(1)},
            state=["age", "complaints"],
            reward="profit",
            guardrails=["-complaints"],
        )
    assert error.value.argument == "guardrail"


@pytest.mark.parametrize(
    ("guardrails", "margins", "argument"),
    [
        (["visits"], {"age": "2%"}, "margin"),
        (["visits"], {"visits": "much"}, "margin"),
        (["visits"], {"visits": -1.0}, "margin"),
        (["visits", "-visits"], None, "guardrail"),
    ],
)
def test_wrong_guardrails_are_refused(guardrails, margins, argument):
    with pytest.raises(PolicyError) as error:
        as_outcomes(guardrails, margins)
    assert error.value.argument == argument


def test_an_unknown_column_is_refused():
    with pytest.raises(LogError) as error:
        judged(table(), ["vists"])
    assert error.value.argument == "guardrail"


def test_a_baseline_policy_is_judged_in_every_outcome():
    found = compare(
        table(complaints=0.5),
        {"mail": Always(1), "none": Always(0)},
        state="age",
        reward="profit",
        baseline="none",
        guardrails=["-complaints"],
    )
    guard = found["mail"].guardrails[0]
    assert guard.verdict == "harmed"
    assert guard.to_dict()["change"] == pytest.approx(0.5, abs=0.15)


def test_amounts_as_text_are_read_and_said():
    data = table()
    data["visits"] = [f"{each:.2f} €".replace(".", ",") for each in data["visits"]]
    found = judged(data, ("visits",), margins={"visits": "20%"})
    assert found.best.guardrails[0].verdict == "harmless"
    assert any("'visits'" in note for note in found.notes)


def test_harm_is_worse_whether_or_not_the_reward_rises():
    data = table(complaints=0.5)
    data["profit"] = np.random.default_rng(3).pareto(3.0, 2_000)
    found = judged(data)
    assert found.best.gain.verdict.word == "no difference shown"
    assert (found.verdict.word, found.verdict.reasons) == ("worse", ("guardrail",))


def test_the_verdict_belongs_to_the_candidate_that_is_shown():
    data = table(complaints=0.5)
    data["profit"] = np.random.default_rng(3).pareto(3.0, 2_000) + 0.02 * data["action"]
    found = compare(
        data,
        {"mail": Always(1), "none": Always(0)},
        state="age",
        reward="profit",
        guardrails=["-complaints"],
    )
    assert found["mail"].verdict.word == "worse"
    assert found.proposed.name == "none"
    assert found.verdict == found.proposed.verdict


def test_a_share_counts_the_error_of_the_baseline():
    found = judged(table(complaints=0.1), ("-complaints",), margins={"complaints": "30%"}).best
    guard = found.guardrails[0]
    low = guard.gain.relative_interval(2 * guard.level - 1).low
    assert (guard.verdict == "harmless") == (low > -0.3)
