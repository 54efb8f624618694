"""Reports and texts of results in Python: what the command line writes and prints."""

import json
import pickle
import re

import numpy as np
import pytest

from tailproof import Log, compare, diagnose, evaluate, learn, write_report
from tailproof.errors import LevelError, TailproofError
from tailproof.robust.gains import difference


@pytest.fixture(scope="module")
def log():
    rng = np.random.default_rng(0)
    x, actions = rng.normal(size=800), rng.integers(2, size=800)
    rewards = actions * (x > 0) + rng.standard_t(3, 800)
    return Log.from_arrays(x, actions, rewards, x, episode=np.arange(800))


def results(log):
    rule = lambda states: (states[:, 0] > 0).astype(int)  # noqa: E731
    yield evaluate(log, rule), None
    yield evaluate(log, rule, method="roam-dm"), None
    yield compare(log, {"rule": rule, "never": "always:0"}), None
    yield diagnose(log, rule), log
    yield learn(log, method="fqi", holdout=0.3), None
    yield learn(log), None


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::tailproof.errors.TaughtWarning")
def test_every_result_writes_its_report(log, tmp_path):
    for place, (result, needed) in enumerate(results(log)):
        path = write_report(result, tmp_path / f"{place}.html", log=needed)
        page = path.read_text(encoding="utf-8")
        found = json.loads(re.search(r"<script[^>]*json[^>]*>(.*?)</script>", page, re.S)[1])
        own = result.to_dict()
        assert {key: found[key] for key in own if key in ("value", "best", "improves")} == {
            key: each for key, each in own.items() if key in ("value", "best", "improves")
        }
        assert found["versions"]["tailproof"]


def test_a_report_needs_the_log_and_a_result(log, tmp_path):
    diagnosis = diagnose(log)
    stored = pickle.loads(pickle.dumps(evaluate(log, "always:1")))
    for result in (diagnosis, stored):
        with pytest.raises(TailproofError, match="which this result does not have"):
            write_report(result, tmp_path / "report.html")
    with pytest.raises(TailproofError, match="Got int instead"):
        write_report(3, tmp_path / "report.html")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("method", ["auto", "roam-dm", "lstd"])
def test_an_estimate_prints_what_the_command_line_prints(log, method):
    estimate = evaluate(log, "always:1", method=method)
    first, second, *_ = str(estimate).splitlines()
    headline = estimate.blocks()[0]
    assert (first, second) == (headline.text, f"{headline.verdict.capitalize()}.")
    if method != "lstd":
        found, gain = estimate.interval(0.9), estimate.gain
        assert str(found) == f"{found.low:.4g} to {found.high:.4g} ({100 * found.level:.4g} %)"
        assert str(estimate.lower_bound(0.9)).startswith("above ")
        assert str(gain).startswith(f"{gain.value:+.4g} (")
        assert f"{gain.interval().low:+.4g} to " in str(gain)
        assert "Interval(" in repr(found)
    else:
        with pytest.raises(LevelError):
            estimate.interval(0.9)
        assert str(estimate.gain).endswith("without an interval")


def test_a_stored_estimate_prints_too(log):
    estimate = evaluate(log, "always:1", method="roam-dm")
    stored = pickle.loads(pickle.dumps(estimate))
    assert stored.logged_value == estimate.logged_value
    assert f"{stored.value:.4g}"[:4] in str(stored)
    assert str(stored) == str(estimate)


def test_rounding_is_no_gain(log):
    estimate = evaluate(log, "logged")
    assert estimate.gain.value == 0.0 or abs(estimate.gain.value) > 1e-12 * abs(estimate.value)
    for size in (1e-6, 1.0, 1e9):
        assert difference(size * (1 + 3e-16), size) == 0.0
        assert difference(size * 1.001, size) == pytest.approx(0.001 * size)
        assert difference(-size, size) == -2 * size
