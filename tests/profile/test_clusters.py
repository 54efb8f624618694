"""Clusters that nobody named are found by what they do, and pointed out in every door."""

import numpy as np
import pandas as pd
import pytest

from tailproof import Log, compare, diagnose, evaluate, learn
from tailproof.errors import StateWarning
from tailproof.io import read
from tailproof.profile.clusters import clusters_of
from tailproof.profile.profile import LogProfile
from tailproof.report.answers import diagnosis_answer, sentences_of
from tailproof.report.blocks import Note

READ = {"action": "arm", "reward": "paid", "propensity": False, "episode": False, "step": False}


def hospitals(seed=0, *, labels=True, hospitals=40, rows=30):
    """Every hospital has one arm, and costs of its own."""
    rng = np.random.default_rng(seed)
    place = np.repeat(np.arange(hospitals), rows)
    own, arm = rng.normal(size=hospitals), rng.integers(2, size=hospitals)
    return pd.DataFrame(
        {
            "age": rng.integers(20, 80, len(place)),
            "hospital": np.char.add("h", place.astype(str)) if labels else place,
            "arm": np.array(["old", "new"])[arm[place]],
            "paid": np.exp(1 + 0.5 * own[place] + rng.normal(size=len(place))),
        }
    )


def customers(seed=0, *, count=300, rows=1200, own=1.0):
    """Customers come again; their incomes are a continuous state."""
    rng = np.random.default_rng(seed)
    who = rng.integers(count, size=rows)
    income, taste = rng.lognormal(size=count), rng.normal(size=count)
    return pd.DataFrame(
        {
            "income": income[who],
            "customer": who,
            "arm": rng.choice(["old", "new"], rows),
            "paid": np.exp(own * taste[who] + rng.normal(size=rows)),
        }
    )


def found(table, state, **columns):
    return clusters_of(read(table, state=state, **READ, **columns).log)


@pytest.mark.parametrize("labels", [True, False])
@pytest.mark.parametrize("state", ["age", ["age", "hospital"]])
def test_a_column_within_which_the_action_never_varies_is_named(labels, state):
    (cluster,) = found(hospitals(labels=labels), state)
    assert (cluster.name, cluster.certain) == ("hospital", True)
    assert cluster.count == 40
    assert found(hospitals(labels=labels), state, group="hospital") == ()


@pytest.mark.slow
def test_the_doors_count_a_hospital_as_one_observation():
    table, options = hospitals().assign(chance=0.5), {**READ, "propensity": "chance"}
    policy = "always:new"
    named = evaluate(table, policy, state="age", group="hospital", **options)
    for door in (
        lambda: evaluate(table, policy, state="age", **options),
        lambda: compare(table, {"new": policy}, state="age", **options).best.estimate,
    ):
        with pytest.warns(StateWarning, match="hospital"):
            estimate = door()
        assert estimate.choice.unit == "group"
        assert estimate.gain.interval() == named.gain.interval()
        assert [each.code for each in estimate.cautions] == ["clusters"]
    with pytest.warns(StateWarning, match="hospital"):
        learn(table, state="age", method="fqi", **options)
    diagnosis = diagnose(table, state="age", **options)
    (caution,) = diagnosis.verdict.cautions
    assert "hospital" in caution
    # on the first screen, and once
    assert list(sentences_of(diagnosis_answer(diagnosis))).count(caution) == 1
    assert Note(caution, "warn") in diagnosis_answer(diagnosis)


def test_a_log_of_arrays_is_looked_at_too():
    table = hospitals(labels=False)
    states = table[["age", "hospital"]].to_numpy(float)
    log = Log.from_arrays(
        states, (table["arm"] == "new").astype(int), table["paid"], states,
        episode=range(len(table)), terminated=np.ones(len(table), dtype=bool),
        state_names=("age", "hospital"),
    )  # fmt: skip
    profile = LogProfile(log).grouped()
    assert profile.log.n_groups == 40
    assert [each.code for each in profile.cautions] == ["clusters"]


def test_customers_that_come_again_are_one_observation():
    by_name, by_number = (
        found(table, "income") for table in (customers(), customers().drop(columns="customer"))
    )
    assert [(each.name, each.certain) for each in by_name if each.certain] == [("customer", True)]
    assert [(each.name, each.certain) for each in by_number] == [("income", True)]


def test_customers_whose_rewards_are_not_alike_are_asked_about_only():
    (cluster,) = found(customers(own=0.0), "income")
    assert (cluster.name, cluster.certain) == ("customer", False)


def test_an_unused_column_that_explains_the_residuals_is_asked_about():
    rng = np.random.default_rng(4)
    city = rng.integers(25, size=4000)
    table = pd.DataFrame(
        {
            "age": rng.integers(20, 80, 4000),
            "city": np.char.add("c", city.astype(str)),
            "arm": rng.choice(["old", "new"], 4000),
            "paid": rng.normal(size=25)[city] + rng.normal(size=4000),
        }
    )
    (cluster,) = found(table, "age")
    assert (cluster.name, cluster.certain) == ("city", False)
    assert found(table, ["age", "city"]) == ()  # as a state, models learn what a city is worth


@pytest.mark.parametrize("seed", range(6))
def test_ordinary_columns_are_no_clusters(seed):
    """Ages, days, counts, rounded numbers and catalogues; rules, thresholds and skewed rewards."""
    rng = np.random.default_rng([7, seed])
    n = (1000, 6000)[seed % 2]
    age, day = rng.integers(18, 80, n), rng.integers(90, size=n)
    chance = (0.5, 0.1 + 0.8 * (age > 50), 1.0 * (age > 50))[seed % 3]
    mean = 10 + 0.2 * age + 5 * (age > 60) + 3 * np.sin(day / 10)
    table = pd.DataFrame(
        {
            "age": age,
            "scaled": (age - age.mean()) / age.std(),
            "day": day,
            "visits": np.log1p(rng.poisson(8, n)),
            "recency": rng.uniform(0, 120, n).round(1),
            "listed": rng.choice((10 * rng.pareto(1.8, 400)).round(2), n),
            "city": np.char.add("c", rng.integers(30, size=n).astype(str)),
            "arm": np.where(rng.random(n) < chance, "new", "old"),
            "paid": mean * (rng.pareto(2, n) if seed % 2 else 1 + 0.5 * rng.normal(size=n)),
        }
    )
    assert found(table, ["age", "visits"]) == ()
