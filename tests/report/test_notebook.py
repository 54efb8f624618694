"""Results in notebooks and as frames."""

import pytest

from tailproof import compare, diagnose, evaluate, learn
from tailproof.policies.forms import Uniform


@pytest.fixture(scope="module")
def log(cartpole):
    return cartpole.log(episodes=30, steps=30, seed=1)


@pytest.fixture(scope="module")
def fragments(log, cartpole):
    policy = cartpole.target()
    results = {
        "folds": evaluate(log, policy, method="roam-dm", gamma=0.9),
        "default": evaluate(log, policy, gamma=0.9),
        "diagnosis": diagnose(log, policy, gamma=0.9),
        "comparison": compare(log, {"<b>greedy": policy, "random": Uniform(2)}, gamma=0.9),
        "learned": learn(log, method="fqi", gamma=0.9),
    }
    return {name: each._repr_html_() for name, each in results.items()}


def test_every_result_draws_itself(fragments, browser, tmp_path):
    page = tmp_path / "notebook.html"
    page.write_text("<!doctype html><meta charset=utf-8>" + "".join(fragments.values()))
    shown = browser.open(page)
    assert shown.complaints == []
    assert shown.evaluate("document.querySelectorAll('.tailproof').length") == len(fragments)
    shown.evaluate("document.querySelectorAll('details').forEach((each) => { each.open = true; })")
    wide = (
        "[...document.querySelectorAll('svg.plot.wide')]"
        ".every((p) => p.getBoundingClientRect().width > 300)"
    )
    assert shown.evaluate(wide)
    styled = "getComputedStyle(document.querySelector('.plot .dot.main circle')).fill"
    assert shown.evaluate(styled) == "rgb(43, 95, 199)"  # the style reaches inside


def test_fragments_touch_nothing_around_them(fragments):
    for each in fragments.values():
        assert ":root" not in each
        assert "<script" not in each
    assert "&lt;b&gt;greedy" in fragments["comparison"]


def test_an_estimate_becomes_a_frame(log, cartpole):
    estimate = evaluate(log, cartpole.target(), method="roam-dm", gamma=0.9)
    frame = estimate.to_frame()
    assert frame["value"].tolist() == estimate.fold_values.tolist()


#: What JupyterLab says about tables and text inside an output, in its dark theme.
JUPYTER = """
.jp-RenderedHTMLCommon { color: rgb(255, 255, 255); font: 12px serif; background: rgb(17, 17, 17); }
.jp-RenderedHTMLCommon p { margin: 30px; color: rgb(200, 200, 200); text-align: center; }
.jp-RenderedHTMLCommon table { table-layout: fixed; margin-left: auto; font-size: 30px; }
.jp-RenderedHTMLCommon td, .jp-RenderedHTMLCommon th { text-align: right; border: none; color: white; }
.jp-RenderedHTMLCommon tbody tr:nth-child(odd) { background: rgb(51, 51, 51); }
.jp-RenderedHTMLCommon tbody tr:hover { background: rgb(0, 0, 90); }
"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_notebook_with_a_style_of_its_own_changes_nothing(fragments, browser, tmp_path, scheme):
    page = tmp_path / "jupyter.html"
    page.write_text(
        '<!doctype html><meta charset=utf-8><div class="jp-RenderedHTMLCommon">'
        + "".join(fragments.values())
        + f"</div><style>{JUPYTER}</style>"
    )
    shown = browser.open(page, scheme=scheme)
    style = "getComputedStyle(document.querySelector('.tailproof {}')).{}"
    ink = shown.evaluate(style.format("p", "color"))
    assert ink == ("rgb(26, 31, 38)" if scheme == "light" else "rgb(232, 235, 239)")
    assert shown.evaluate(style.format("tbody tr", "backgroundColor")) == "rgba(0, 0, 0, 0)"
    assert shown.evaluate(style.format("td:not(.number)", "textAlign")) == "left"
    assert shown.evaluate(style.format("tbody td", "color")) == ink
    assert shown.evaluate(style.format("table", "fontSize")) == "14px"


def test_every_result_has_a_line(log, cartpole):
    policy = cartpole.target()
    results = (
        evaluate(log, policy, gamma=0.9),
        compare(log, {"greedy": policy}, gamma=0.9),
        diagnose(log, gamma=0.9),
        learn(log, method="fqi", gamma=0.9),
    )
    for each in results:
        text = repr(each)
        assert text.startswith(f"<{type(each).__name__} ")
        assert "\n" not in text
        assert len(text) < 200
