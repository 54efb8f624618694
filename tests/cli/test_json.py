"""The keys that commands print are those that docs/json.md lists."""

import json

import numpy as np
import pytest
from typer.testing import CliRunner

from tailproof.cli import app

SHARED = ("Every command", "Commands about a log")


def printed(*words):
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert result.exit_code in (0, 3, 4), result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    rng = np.random.default_rng(0)
    path = tmp_path_factory.mktemp("logs") / "log.csv"
    rows = ["episode,step,x,action,reward,truncated"]
    for episode in range(40):
        for step in range(5):
            action, last = rng.integers(2), int(step == 4)
            reward = action + rng.normal()
            rows.append(f"{episode},{step},{rng.normal():.3f},{action},{reward:.3f},{last}")
    path.write_text("\n".join(rows))
    return path


@pytest.fixture
def check_ends(documented):
    keys = documented("Intervals and bounds")
    return lambda found, level: _check_ends(found, level, keys)


def _check_ends(found, level, keys):
    assert set(found) < keys
    if "why_not" in found:
        assert set(found) == {"why_not"}
    else:
        assert set(found) & {"low", "value"}
        assert found["requested"] == level


@pytest.fixture
def check_estimate(documented, check_ends):
    def check(found, level, *, full):
        assert documented("An estimate", full=full) <= set(found)
        _check_estimate(found, level, check_ends)

    return check


def _check_estimate(found, level, check_ends):
    assert set(found["unit"]) == {"reward", "gamma", "per", "endless", "text"}
    assert set(found["on_log"]) == {"shares", "agreement", "rows", "effective_rows", "text"}
    gain = found["gain"]
    assert set(gain) == {
        *("value", "relative", "standard_error", "interval", "lower_bound", "parts")
    }
    for ends in (found["interval"], found["lower_bound"], gain["interval"], gain["lower_bound"]):
        check_ends(ends, level)
    assert gain["value"] == pytest.approx(found["value"] - found["logged_value"])


@pytest.mark.parametrize("method", ["auto", "roam-fqe"])
@pytest.mark.parametrize("full", [False, True])
def test_evaluate(log, full, method, documented, check_estimate):
    words = ["--gamma", 0.5, "--level", 0.8, "--method", method]
    found = printed(
        "evaluate", log, "--policy", "always:1", *words, "--json=full" if full else "--json"
    )
    assert set(found) == documented(*SHARED, "evaluate", "An estimate", full=full)
    assert found["schema"] == 2
    check_estimate(found, 0.8, full=full)


@pytest.mark.parametrize("method", ["auto", "roam-dm"])
@pytest.mark.parametrize("full", [False, True])
def test_compare(log, full, method, documented, check_ends, check_estimate):
    words = ["--policy", "one=always:1", "--policy", "uniform", "--gamma", 0.5, "--method", method]
    found = printed("compare", log, *words, "--json=full" if full else "--json")
    assert set(found) == documented(*SHARED, "compare", full=full)
    for each in found["candidates"]:
        assert set(each) == documented("A candidate", full=full)
        check_ends(each["lower_bound"], found["level"])
        check_ends(each["gain"]["lower_bound"], pytest.approx(found["gate_level"]))
        folds = {"fold_values"} if full else set()
        keys = {"value", "relative", "interval", "lower_bound", "won"}
        assert set(each["gain"]) == keys | folds
        if full:
            check_estimate(each["estimate"], found["level"], full=True)


@pytest.mark.parametrize("full", [False, True])
def test_learn(log, full, documented, check_estimate):
    words = ["learn", log, "--gamma", 0.5, "--method", "fqi", "--json=full" if full else "--json"]
    found = printed(*words)
    assert set(found) == documented(*SHARED, "learn", full=full)
    check_estimate(found["held_out"], 0.9, full=full)
    assert set(found["best_constant"]) == {"action", "value"}


@pytest.mark.parametrize("full", [False, True])
def test_diagnose(log, full, documented):
    found = printed("diagnose", log, "--gamma", 0.5, "--json=full" if full else "--json")
    assert set(found) == documented(*SHARED, "diagnose", full=full)
    shown = {"left_index", "right_index", "mean_exists", "variance_exists", "longer"}
    assert all(set(each) == shown for each in found["tails"].values())
    assert set(found["influence"]) == {"of", "value", "share", "effects"}


@pytest.mark.parametrize("title", ["methods", "version", "data list", "data make"])
def test_commands_without_a_log(title, tmp_path, documented):
    more = ["cartpole", "--episodes", 2, "--out", tmp_path / "log.csv"] if "make" in title else []
    assert set(printed(*title.split(), *more, "--json")) == documented("Every command", title)


def test_errors(log, documented):
    result = CliRunner().invoke(app, ["evaluate", str(log), "--policy", "uniform", "--json"])
    assert result.exit_code == 2
    found = json.loads(result.stdout)
    assert set(found) == documented("Errors") | {"schema"}
    assert set(found["error"]) == {"kind", "argument", "message", "exit_code"}


def test_a_page_of_numbers_is_a_page(log):
    words = ["evaluate", log, "--policy", "always:1", "--gamma", 0.5, "--json"]
    result = CliRunner().invoke(app, [str(word) for word in words])
    assert len(result.stdout.splitlines()) < 100


@pytest.mark.parametrize(
    ("words", "argument"),
    [
        (("--level", "90"), "level"),
        (("--gamma", "nine"), "gamma"),
        (("--gamma", "0.9", "--gamma", "1"), None),
        (("--nope",), None),
    ],
)
def test_wrong_options_are_errors_in_json_too(log, words, argument):
    """What the parser refuses is on standard output as any other error."""
    for flag in ("--json", "--json=full"):
        asked = ["evaluate", str(log), "--policy", "always:1", flag, *words]
        result = CliRunner().invoke(app, asked)
        assert result.exit_code == 2
        error = json.loads(result.stdout)["error"]
        assert (error["argument"], error["exit_code"]) == (argument, 2)
        assert words[0] in error["message"]
    assert CliRunner().invoke(app, ["evaluate", str(log), "--json"]).stdout.count("--policy") == 1
