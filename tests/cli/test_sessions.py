"""Four sessions of new users on data whose truth is known: sentence, exit code and JSON."""

import json
import logging

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tailproof.cli import app

pytestmark = pytest.mark.slow


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Return a function that runs a command in an empty folder: its exit code and JSON, or text."""
    monkeypatch.chdir(tmp_path)

    def call(*words, text=False):
        done = CliRunner().invoke(app, [*words, "--quiet" if text else "--json"])
        assert done.exit_code in (0, 3, 4), done.stderr
        return done.stdout if text else (done.exit_code, json.loads(done.stdout))

    return call


def holds(record, truth):
    """Return whether the interval of the gain holds the truth."""
    interval = record["gain"]["interval"]
    return interval["low"] <= truth <= interval["high"]


def test_a_retailer_exports_amounts_as_text_with_customers_that_come_again(run):
    rng = np.random.default_rng(5)
    n = 4000
    days, offer = rng.integers(0, 100, n), rng.choice(["none", "voucher"], n)
    lift = 0.25 * ((offer == "voucher") & (days >= 50))
    size = 20 * (1 + rng.pareto(2.5, n))
    spend = np.where(rng.random(n) < 0.1 + lift, size, 0)
    text = [f"€ {each:,.2f}" for each in spend]
    text[17] = "n/a"
    table = pd.DataFrame(
        {
            "customer": rng.integers(0, 3000, n),
            "days": np.where(rng.random(n) < 0.02, np.nan, days),
            "offer": offer,
            "p": "50 %",
            "spend_eur": text,
            "new_offer": np.where(days >= 50, "voucher", "none"),
        }
    )
    table.to_csv("orders.csv", index=False)
    words = ["--action", "offer", "--reward", "spend_eur", "--state", "days", "--propensity", "p"]
    words += ["--episode", "-", "--group", "customer", "--missing", "drop-episode"]
    new = ("evaluate", "orders.csv", "--policy", "column:new_offer")
    code, record = run(*new, *words)
    truth = 0.25 * (0.5 - 0.25) * 20 * 2.5 / 1.5  # lift × change of who gets it × mean size
    assert (code, record["verdict"], record["reason"]) == (0, "better", [])
    assert holds(record, truth)
    assert record["sentence"].startswith("column:new_offer would earn about ")
    assert "EUR more per row than what was logged" in record["sentence"]
    assert any("'spend_eur'" in note for note in record["notes"])
    said = run(*new, *words, "--times", "1000", text=True)
    assert said.startswith(record["sentence"][:40])
    assert "Over 1,000 rows" in said
    assert len(said.splitlines()) <= 12
    code, record = run("learn", "orders.csv", *words, "--readable", "--out", "rule.tailproof")
    assert (code, record["verdict"]) == (0, "better")
    assert record["sentence"].startswith("The learned policy would earn about ")
    code, record = run("evaluate", "orders.csv", "--policy", "rule.tailproof", *words)
    best = 0.25 * 0.5 * 20 * 2.5 / 1.5  # half of those who would answer were not asked
    assert record["gain"]["interval"]["low"] <= best


def test_families_were_randomised_to_plans_and_have_weights(run):
    rng = np.random.default_rng(6)
    families = 1500
    plan = rng.choice(["free", "shared"], families)
    family = np.repeat(np.arange(families), rng.integers(1, 5, families))
    n = len(family)
    spent = 100 * rng.lognormal(0, 1.2, n) * np.where(plan[family] == "free", 1.5, 1.0)
    pd.DataFrame(
        {
            "family": family,
            "hospital": rng.integers(0, 4, families)[family],
            "age": rng.integers(1, 80, n),
            "plan": plan[family],
            "weight": rng.integers(1, 4, n),
            "p": 0.5,
            "total_cost": spent.round(2),
            "visits": rng.poisson(np.where(plan[family] == "free", 4.0, 3.0)),
        }
    ).to_csv("families.csv", index=False)
    words = ["--action", "plan", "--reward=-total_cost", "--state", "age", "--group", "family"]
    words += ["--weight", "weight", "--propensity", "p", "--episode", "-"]
    shared = ("evaluate", "families.csv", "--policy", "always:shared")
    code, record = run(*shared, *words)
    mean = 100 * np.exp(1.2**2 / 2)
    assert (code, record["verdict"]) == (0, "better")
    assert holds(record, 0.25 * mean)  # 1.25 times the mean was logged
    assert record["sentence"].startswith("always:shared would cost about")
    assert "less per row" in record["sentence"]
    assert record["warnings"] == []  # that families were drawn, not rows, is no misfit
    segments = run(*shared, *words, "--by", "hospital")[1]["by"]["segments"]
    assert sum(each["rows"] for each in segments) == n
    assert all(each["interval"]["low"] <= 0.25 * mean for each in segments)
    said = run(*shared, *words, "--clip", "p99", text=True)
    assert "Costs were capped at percentile 99" in said
    assert "minus" not in said
    assert "total cost -" not in said
    guards = ("--guardrail", "visits", "--margin", "visits=2%")
    policy = ("--policy", "always:shared")
    code, record = run("compare", "families.csv", *policy, *words, *guards)
    assert (code, record["verdict"], record["reason"]) == (3, "worse", ["guardrail"])
    assert record["sentence"].endswith("It harms visits.")
    clipped = ("compare", "families.csv", *policy, *words, "--clip", "p99")
    assert "Costs were capped at percentile 99" in run(*clipped, text=True)
    assert run(*clipped)[1]["clip"] == "p99"
    code, record = run("learn", "families.csv", *words, "--method", "fqi", "--gamma", "0")
    assert code == {"better": 0, "cannot tell": 4}.get(record["verdict"], 3)
    assert record["reason"] == []


RULE = """
import torch

class Push(torch.nn.Module):
    def forward(self, states):
        return -0.5 * torch.nn.functional.dropout(states[:, :1], training=self.training)

module = Push()
"""


def test_rollouts_with_continuous_actions_and_a_torch_module(run):
    pytest.importorskip("torch")
    rng = np.random.default_rng(7)
    episodes, steps, rows = 60, 10, []
    for episode in range(episodes):
        x = rng.normal()
        for step in range(steps):
            push = float(-0.5 * x + 0.3 * rng.normal())
            after = x + push + 0.1 * rng.normal()
            reward = 1 - x**2 + 0.1 * rng.standard_t(3)
            rows.append((episode, step, x, push, reward, step == steps - 1))
            x = after
    names = ["episode", "step", "x", "push", "reward", "done"]
    pd.DataFrame(rows, columns=names).to_parquet("rollouts.parquet")
    with open("rules.py", "w") as file:
        file.write(RULE)
    words = ["--action", "push", "--state", "x,step", "--step", "step", "--terminated", "done"]
    words += ["--gamma", "0.9"]
    code, record = run(
        "evaluate",
        "rollouts.parquet",
        "--policy",
        "rules.py:module",
        "--method",
        "roam-fqe",
        *words,
    )
    assert code == {"better": 0, "cannot tell": 4}.get(record["verdict"], 3)
    x2, truth = 1.0, 0.0  # E x² of the policy, step by step
    for step in range(steps):
        truth += 0.9**step * (1 - x2)
        x2 = 0.25 * x2 + 0.01
    assert record["value"] == pytest.approx(truth, abs=1.0)
    assert "per episode" in record["sentence"]
    code, record = run("evaluate", "rollouts.parquet", "--policy", "rules.py:module", *words)
    assert code == {"better": 0, "cannot tell": 4}.get(record["verdict"], 3)
    assert record["interval"]["low"] <= truth <= record["interval"]["high"]


def test_a_nightly_job_reads_the_verdict_from_the_exit_code(run, caplog):
    """The job on 6 million rows, on 20,000: a budget maps the log and reads it in pieces here too."""
    rng = np.random.default_rng(8)
    n = 20_000
    route = rng.choice(["small", "large"], n)
    latency = 100 * (1 + rng.pareto(2.5, n)) * np.where(route == "small", 0.8, 1.0)
    table = pd.DataFrame({"route": route, "latency_ms": latency, "p": 0.5})
    table["tokens"] = rng.integers(1, 4000, n)
    table.to_parquet("night.parquet")
    words = ["--action", "route", "--reward=-latency_ms", "--propensity", "p", "--quiet"]
    words += ["--state", "tokens", "--budget", "0.0005", "--cache", "cache"]
    truth = 0.1 * 100 * 2.5 / 1.5
    small = ("--policy", "always:small")
    with caplog.at_level(logging.INFO, logger="tailproof"):
        code, record = run("compare", "night.parquet", *small, *words)
    assert (code, record["verdict"]) == (0, "better")
    assert holds(record["candidates"][0], truth)
    assert "ms less latency per row" in record["sentence"]
    assert caplog.messages.count("Comparing 1 policy ...") == 1
    assert sum(each.startswith("Comparing") for each in caplog.messages) == 2  # and its end
    code, record = run("evaluate", "night.parquet", *small, *words)
    assert (code, record["verdict"]) == (0, "better")
    assert holds(record, truth)
    assert any("mapped" in note for note in record["notes"])
    code, record = run("compare", "night.parquet", "--policy", "always:large", *words)
    assert (code, record["verdict"]) == (3, "worse")
    code, record = run("diagnose", "night.parquet", *small, *words)
    assert code == 0
    assert record["sentence"].startswith("Rewards have heavy, skewed tails")
    code, record = run("learn", "night.parquet", *words, "--out", "night.tailproof")
    assert (code, record["verdict"]) == (0, "better")
    assert "ms less latency per row" in record["sentence"]


def test_a_log_of_a_bandit_is_recognised_and_bounded_at_any_time(run):
    rng = np.random.default_rng(9)
    n = 2000
    p = np.linspace(0.5, 0.9, n)
    new = rng.random(n) < p
    sold = 20 * (1 + rng.pareto(1.8, n)) * np.where(new, 1.5, 1.0)
    pd.DataFrame(
        {"action": np.where(new, "new", "old"), "p": np.where(new, p, 1 - p), "revenue_usd": sold}
    ).to_csv("bandit.csv", index=False)
    words = ["bandit.csv", "--policy", "always:new", "--reward", "revenue_usd", "--propensity", "p"]
    once = run("compare", *words)[1]
    record = run("compare", *words, "--sequential", "--methods-text")[1]
    assert any("propensities change along the file" in note for note in record["notes"])
    low = record["candidates"][0]["gain"]["interval"]["low"]
    assert low < once["candidates"][0]["gain"]["interval"]["low"]
    assert any("at any time" in note for note in record["notes"])
    assert "Sources: " in record["methods_text"]
