"""What experimenters ask of `tailproof evaluate`, through the real command line."""

import csv
import json

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from tailproof.cli import app


def run(*words):
    return CliRunner().invoke(app, [str(word) for word in words], env={"COLUMNS": "100"})


@pytest.fixture(scope="module")
def shop(tmp_path_factory):
    """An A/B test of coupons: several visits per customer, most without a sale, one huge order."""
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("shop") / "shop.csv"
    with path.open("w", newline="") as file:
        write = csv.writer(file)
        write.writerow(["customer", "x_age", "offer", "propensity", "sessions", "reward"])
        for row in range(900):
            coupon = rng.random() < 0.4
            bought = rng.random() < 0.2 + 0.1 * coupon
            spend = round(float(bought * rng.lognormal(3)), 2)
            write.writerow(
                [
                    row // 3,
                    round(rng.normal(40, 10)),
                    "coupon" if coupon or row == 5 else "none",
                    0.4 if coupon or row == 5 else 0.6,
                    1 + rng.poisson(2),
                    4000 if row == 5 else spend,
                ]
            )
    return path


def evaluate(shop, *more):
    words = ["--state", "x_age", "--action", "offer", "--episode", "-", "--method", "snips"]
    return run("evaluate", shop, "--policy", "always:coupon", *words, *more)


ASKED = (
    *("--quantile", "0.5", "--quantile", "0.9", "--cvar", "0.2", "--upper-cvar", "0.1"),
    *("--per", "sessions"),
)


def test_everything_at_once_with_clusters(shop):
    result = evaluate(shop, "--group", "customer", *ASKED, "--sequential", "--quiet")
    assert result.exit_code in (0, 3), result.stderr
    for label in (
        "quantile 0.5",
        "quantile 0.9",
        "mean of the worst 20 %",
        "per sessions",
        "at any time",
        "With rewards capped at percentile 99.9",
    ):
        assert label in result.stdout


def test_the_report_says_what_a_cap_would_change(shop, tmp_path):
    report = tmp_path / "report.html"
    assert evaluate(shop, "--report", report, "--quantile", "0.9").exit_code in (0, 3)
    text = report.read_text()
    assert "With rewards capped at percentile 99.9" in text
    assert "quantile 0.9" in text


def test_the_record_holds_the_same_numbers(shop):
    result = evaluate(shop, *ASKED, "--sequential", "--json")
    record = json.loads(result.stdout)
    names = [each["name"] for each in record["returns"]]
    assert names == [
        *("quantile 0.5", "quantile 0.9", "mean of the worst 20 %", "mean of the best 10 %"),
        "per sessions",
    ]
    for each in record["returns"]:
        assert each["low"] <= each["value"] <= each["high"]
    assert record["sequential"]["low"] < record["value"] < record["sequential"]["high"]
    assert 0 < record["sequential"]["guaranteed_low"] < record["value"]
    assert record["winsorised"]["value"] < 0.9 * record["value"]


def test_the_cap_that_is_shown_is_the_cap_that_can_be_asked_for(shop):
    shown = json.loads(evaluate(shop, "--json").stdout)
    asked = json.loads(evaluate(shop, "--json", "--clip", "p99.9").stdout)
    assert asked["value"] == pytest.approx(shown["winsorised"]["value"])
    assert asked["winsorised"]["value"] == pytest.approx(shown["value"])
    said = evaluate(shop, "--clip", "p99.9").stdout
    assert "Without the cap at p99.9 the value would be" in said


@pytest.mark.parametrize(
    ("more", "message"),
    [
        (["--clip", "99.9"], "clip must be a number in [0, 0.5]"),
        (["--clip", "p100"], "percentile such as 'p99.9'"),
        (["--quantile", "90"], "q must lie strictly between 0 and 1"),
        (["--per", "session"], "Did you mean 'sessions'?"),
    ],
)
def test_mistakes_are_named(shop, more, message):
    result = evaluate(shop, *more)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize("chance", [0.5, 1.0])
@pytest.mark.parametrize("known", [False, True])
def test_what_was_never_tried_cannot_be_told(tmp_path, chance, known):
    """Vouchers were sent after 60 days only: there they are worth 15, elsewhere 2; nothing 10."""
    rng, n = np.random.default_rng(5), 2000
    days = rng.uniform(0, 120, n)
    sent = rng.random(n) < (law := np.where(days > 60, chance, 0.0))
    table = pd.DataFrame({"days": days, "offer": np.where(sent, "voucher", "none")})
    table["spend"] = rng.exponential(size=n) * np.where(sent, 15.0, 10.0)
    columns = ["--state", "days", "--action", "offer", "--reward", "spend"]
    if known:
        table["chance"] = np.where(sent, law, 1 - law)
        columns += ["--propensity", "chance"]
    table.to_csv(path := tmp_path / "log.csv", index=False)
    for command in ("evaluate", "compare"):
        asked = run(command, path, *columns, "--policy", "always:voucher", "--json")
        assert asked.exit_code == 4
        found = json.loads(asked.stdout)
        assert found["verdict"] == "cannot tell"
        assert found.get("candidates", [found])[0]["value"] is None
    if chance == 1:  # otherwise vouchers after 60 days are a rule to learn
        assert run("learn", path, *columns, "--json").exit_code == 3


@pytest.mark.parametrize(("rows", "code"), [(8, 4), (14, None)])
def test_a_log_that_has_just_begun_is_answered(shop, tmp_path, rows, code):
    """Eight rows have no interval; fourteen have one, but none that holds however often one looks."""
    table = pd.read_csv(shop).head(rows)
    table["reward"] = 1.0 + np.arange(rows) % 3
    table.to_csv(short := tmp_path / "short.csv", index=False)
    result = evaluate(short, "--sequential", "--methods-text", "--json")
    assert result.exit_code in ({code} if code else {0, 3}), result.stderr
    found = json.loads(result.stdout)
    assert set(found["sequential"]) == {"why_not"}
    assert ("lift" in found) == (code is None)
