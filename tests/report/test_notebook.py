"""Results in notebooks and as frames."""

import pytest

from tailproof import compare, diagnose, evaluate, learn
from tailproof.policies.simple import Uniform
from tailproof.report.notebook import comparison_html, diagnosis_html, estimate_html, learned_html


@pytest.fixture(scope="module")
def log(cartpole):
    return cartpole.log(episodes=30, steps=30, seed=1)


@pytest.fixture(scope="module")
def fragments(log, cartpole):
    policy = cartpole.target()
    folds = evaluate(log, policy, method="roam-dm", gamma=0.9)
    return {
        "folds": estimate_html(folds),
        "default": estimate_html(evaluate(log, policy, gamma=0.9)),
        "diagnosis": diagnosis_html(diagnose(log, policy, gamma=0.9)),
        "comparison": comparison_html(
            compare(log, {"<b>greedy": policy, "random": Uniform(2)}, gamma=0.9)
        ),
        "learned": learned_html(learn(log, method="fqi", gamma=0.9)),
    }


def test_every_result_draws_itself(fragments, browser, tmp_path):
    page = tmp_path / "notebook.html"
    page.write_text("<!doctype html><meta charset=utf-8>" + "".join(fragments.values()))
    shown = browser.open(page)
    assert shown.complaints == []
    assert shown.evaluate("document.querySelectorAll('.tailproof').length") == len(fragments)
    wide = (
        "[...document.querySelectorAll('svg.plot')]"
        ".every((p) => p.getBoundingClientRect().width > 300)"
    )
    assert shown.evaluate(wide)
    styled = "getComputedStyle(document.querySelector('.plot .dot circle')).fill"
    assert shown.evaluate(styled) == "rgb(43, 95, 199)"  # the style reaches inside


def test_fragments_touch_nothing_around_them(fragments):
    for each in fragments.values():
        assert ":root" not in each
        assert "<script" not in each
    assert "&lt;b&gt;greedy" in fragments["comparison"]


def test_an_estimate_becomes_a_frame_and_html(log, cartpole):
    estimate = evaluate(log, cartpole.target(), method="roam-dm", gamma=0.9)
    frame = estimate.to_frame()
    assert frame["value"].tolist() == estimate.fold_values.tolist()
    assert estimate._repr_html_() == estimate_html(estimate)
