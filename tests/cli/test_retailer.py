"""The first ten minutes of an analyst at a retailer, through the real command line, first try."""

import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tailproof.cli import app

pytestmark = pytest.mark.slow

RULES = """
import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder

def mine(states):
    late = states["days_since_order"] >= 30
    return np.where(late, "voucher", "none")

def train():
    table = pd.read_csv("orders.csv")
    features = make_column_transformer(
        (OneHotEncoder(handle_unknown="ignore"), ["region"]),
        (SimpleImputer(), ["age", "days_since_order"]),
    )
    return make_pipeline(features, LogisticRegression(max_iter=200)).fit(
        table[["region", "age", "days_since_order"]], table["new_offer"]
    )

model = train()
"""


def orders(n=5_000, seed=0):
    """Return a retailer's log: gaps, categories, dates, a heavy-tailed reward, a policy as a column."""
    rng = np.random.default_rng(seed)
    days = rng.integers(0, 90, n)
    age = rng.normal(45, 12, n).round()
    offer = rng.choice(["email", "none", "voucher"], n, p=[0.3, 0.4, 0.3])
    bought = rng.random(n) < 0.1 + 0.15 * (offer == "voucher") * (days >= 30)
    return pd.DataFrame(
        {
            "customer_id": [f"c{i}" for i in rng.permutation(n)],
            "signed_up": pd.Timestamp("2020-01-01")
            + pd.to_timedelta(rng.integers(0, 1500, n), "D"),
            "age": np.where(rng.random(n) < 0.08, np.nan, age),
            "region": rng.choice(["north", "south", "west", None], n, p=[0.4, 0.3, 0.2, 0.1]),
            "store": [f"s{k}" for k in np.minimum(rng.geometric(0.03, n), 150)],
            "site": rng.choice([3, 7, 12], n),
            "newsletter": rng.random(n) < 0.4,
            "days_since_order": days,
            "offer": offer,
            "spend": np.where(bought, 20 * (1 + rng.pareto(1.8, n)), 0.0).round(2),
            "converted": bought,
            "new_offer": np.where(days >= 30, "voucher", "none"),
        }
    )


STATE = "age,region,store,site,newsletter,signed_up,days_since_order"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("retailer")
    orders().to_csv(path / "orders.csv", index=False)
    (path / "rules.py").write_text(RULES)
    return path


@pytest.fixture
def run(folder, monkeypatch):
    monkeypatch.chdir(folder)

    def run(command, *words):
        columns = ["--state", STATE, "--categorical", "site"]
        result = CliRunner().invoke(app, [command, "orders.csv", *columns, *words, "--json"])
        assert result.exit_code in (0, 3, 4), result.stderr
        return json.loads(result.stdout)

    return run


def test_diagnose_says_how_the_table_was_read(run):
    found = run("diagnose")
    notes = " ".join(found["notes"])
    for said in (
        "action: offer (guessed); reward: spend (guessed)",
        "the median 45",
        "a category of its own",
        "'store' has",
        "put together as (other)",
    ):
        assert said in notes
    assert found["warnings"] == []


def test_evaluate_a_column_gives_value_gain_and_a_report(run, folder):
    found = run("evaluate", "--policy", "new=column:new_offer", "--report", "report.html")
    assert found["verdict"] == "better"
    truth = 45 * (0.1 + 0.15 * 60 / 90)  # the mean of 20 (1 + Pareto(1.8)) is 45
    assert found["interval"]["low"] < truth < found["interval"]["high"]
    assert found["interval"]["low"] > orders()["spend"].mean()  # of what was logged
    assert "<html" in (folder / "report.html").read_text()


def test_compare_ranks_column_rule_and_pipeline_alike(run):
    words = ["--policy", "rule=rules.py:mine", "--policy", "model=rules.py:model"]
    found = run("compare", "--policy", "column=column:new_offer", *words)
    values = {each["name"]: each["value"] for each in found["candidates"]}
    assert values["column"] == values["rule"]
    assert values["model"] == pytest.approx(values["rule"], rel=0.1)


def test_learn_saves_a_policy_that_evaluate_reads(run, folder):
    run("learn", "--method", "fqi", "--out", "policy.tailproof")
    found = run("evaluate", "--policy", "policy.tailproof", "--method", "lstd")
    assert np.isfinite(found["value"])
